//! Choice of the variant that a pass takes of an enum.
//!
//! A traced enum takes an unknown variant, or a variant in which something unknown is reached. An enum that is only
//! filled takes the variant with the smallest value.
//!
//! Neighbours: `deserializer` asks for each enum; [`super`] has the known formats.

use std::collections::BTreeSet;

use super::{EnumVariant, NamedFormat, Trace, ValueFormat, VariantFormat};

impl Trace {
    /// True if a type with unknown parts is reached from the formats, without a type under way.
    pub(super) fn is_open<'f>(&self, formats: impl IntoIterator<Item = &'f ValueFormat>) -> bool {
        let mut seen = BTreeSet::from_iter(self.under_way.iter().copied());
        let mut waiting = Vec::new();
        formats.into_iter().for_each(|format| named_in(format, &mut waiting));
        while let Some(number) = waiting.pop() {
            if !seen.insert(number) {
                continue;
            }
            match &self.types[number].format {
                NamedFormat::Unknown => return true,
                NamedFormat::Struct(_, parts) => parts.iter().for_each(|part| named_in(part, &mut waiting)),
                NamedFormat::Enum(variants) if variants.contains(&VariantFormat::Unknown) => return true,
                NamedFormat::Enum(variants) => {
                    let parts = variants.iter().filter_map(VariantFormat::parts).flatten();
                    parts.for_each(|part| named_in(part, &mut waiting));
                }
            }
        }
        false
    }

    /// Variant of a traced enum: unknown, or with something unknown in it. `None` if a pass learns nothing here.
    pub(super) fn variant_to_trace(&self, number: usize) -> Option<usize> {
        let variants = self.variants(number);
        let is_unknown = |at: &usize| variants[*at] == VariantFormat::Unknown;
        let unknown = || (0..variants.len()).filter(is_unknown);
        let is_good = |at: &usize| !self.avoided.contains(&EnumVariant { number, variant: *at });
        let leads_on = |variant: &VariantFormat| variant.parts().is_some_and(|parts| self.is_open(parts));
        let chosen = unknown()
            .find(is_good)
            .or_else(|| unknown().next())
            .or_else(|| variants.iter().position(leads_on));
        debug_assert!(chosen.is_none_or(|at| variants[at] != VariantFormat::Refused));
        chosen
    }

    /// Variant of an enum that is only filled: the smallest, or a variant that was filled before, or a variant that is
    /// not under way. `None` if the value would be endless. Without the second rule, the number of calls doubles with
    /// each variant that has its enum as two parts.
    pub(super) fn variant_to_fill(&self, number: usize) -> Option<usize> {
        let variants = self.variants(number);
        let heights = self.heights();
        let all = || 0..variants.len();
        let known = all().filter_map(|at| Some((height(variants[at].parts()?, &heights)?, at)));
        let variant = |at: &usize| EnumVariant { number, variant: *at };
        let may_be_taken = |at: &usize| variants[*at] != VariantFormat::Refused;
        let is_free = |at: &usize| may_be_taken(at) && !self.variants_under_way.contains(&variant(at));
        let is_good = |at: &usize| is_free(at) && !self.avoided.contains(&variant(at));
        let smallest = known.min().map(|(_, at)| at);
        let filled = || self.filled.get(&number).copied().filter(may_be_taken);
        let chosen = smallest.or_else(filled).or_else(|| all().find(is_good)).or_else(|| all().find(is_free));
        debug_assert!(chosen.is_none_or(|at| variants[at] != VariantFormat::Refused));
        chosen
    }

    fn variants(&self, number: usize) -> &[VariantFormat] {
        match &self.types[number].format {
            NamedFormat::Enum(variants) => variants,
            NamedFormat::Unknown | NamedFormat::Struct(..) => &[],
        }
    }

    /// Height of the smallest value of each type, in named types; `None` without a known smallest value.
    fn heights(&self) -> Vec<Option<usize>> {
        let mut heights = vec![None; self.types.len()];
        // A round finds the types whose smallest values are one higher than the values of the round before.
        for _ in 0..self.types.len() {
            let next = |named: &super::NamedType| match &named.format {
                NamedFormat::Unknown => None,
                NamedFormat::Struct(_, parts) => height(parts, &heights),
                NamedFormat::Enum(variants) => {
                    variants.iter().filter_map(|variant| height(variant.parts()?, &heights)).min()
                }
            };
            let next: Vec<_> = self.types.iter().map(|named| next(named).map(|height| height + 1)).collect();
            if next == heights {
                break;
            }
            debug_assert!(next.iter().zip(&heights).all(|(next, before)| before.is_none() || next == before));
            heights = next;
        }
        heights
    }
}

impl VariantFormat {
    fn parts(&self) -> Option<&[ValueFormat]> {
        if let Self::Known(_, parts) = self { Some(parts) } else { None }
    }
}

fn height(parts: &[ValueFormat], heights: &[Option<usize>]) -> Option<usize> {
    let of_part = |part: &ValueFormat| match part {
        // A smallest value has nothing in these.
        ValueFormat::Plain(_) | ValueFormat::Option(_) | ValueFormat::Sequence(_) | ValueFormat::Map(_) => {
            Some(0)
        }
        ValueFormat::Tuple(parts) => height(parts, heights),
        ValueFormat::Named(number) => heights[*number],
    };
    parts.iter().try_fold(0, |most, part| Some(most.max(of_part(part)?)))
}

fn named_in(format: &ValueFormat, named: &mut Vec<usize>) {
    match format {
        ValueFormat::Plain(_) => {}
        ValueFormat::Option(inner) | ValueFormat::Sequence(inner) => named_in(inner, named),
        ValueFormat::Map(entry) => {
            named_in(&entry.0, named);
            named_in(&entry.1, named);
        }
        ValueFormat::Tuple(parts) => parts.iter().for_each(|part| named_in(part, named)),
        ValueFormat::Named(number) => named.push(*number),
    }
}
