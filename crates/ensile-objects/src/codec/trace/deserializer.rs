//! Answers to the calls of a type's `Deserialize`: the calls are noted as the type's format, and the values are made
//! up.
//!
//! Neighbours: [`super`] runs the passes; `choice` decides which variant an enum takes.

use std::any::type_name;
use std::fmt::Display;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use super::{
    CALLS_MAX, DEPTH_MAX, EnumVariant, NamedFormat, PartNames, PassFailure, Trace, TypeIdentity,
    UNNAMED_DEPTH_MAX, ValueFormat, VariantFormat,
};

/// Made-up integers, in the order in which a type gets them.
const INTEGERS: [u8; 4] = [1, 0, 2, 100];
/// Made-up texts. Types that are written as text mostly take one of them.
const TEXTS: [&str; 8] =
    ["", "a", "1", "2000-01-01T00:00:00Z", "2000-01-01", "00:00:00", "127.0.0.1", "http://localhost/"];
/// Lengths of made-up byte strings, which are zeros.
const BYTE_LENGTHS: [usize; 9] = [0, 16, 32, 4, 8, 12, 20, 24, BYTES_MAX];
const BYTES_MAX: usize = 64;

/// Number of values that are made up for a kind of value.
pub(super) fn values_of(word: &str) -> usize {
    match word {
        "string" => TEXTS.len(),
        "bytes" => BYTE_LENGTHS.len(),
        "unit" => 1,
        "bool" | "char" | "f32" | "f64" => 2,
        _ => INTEGERS.len(),
    }
}

/// Refusal of a made-up value. The text is of no interest.
#[derive(Debug, thiserror::Error)]
#[error("a made-up value is refused")]
pub(super) struct InputRefused;

impl Error for InputRefused {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

type TracedResult<T> = Result<T, InputRefused>;

pub(super) struct TracedInput<'t> {
    pub(super) trace: &'t mut Trace,
    pub(super) found: &'t mut Option<ValueFormat>,
    /// True if the smallest value is made up, and nothing is noted.
    pub(super) is_filling: bool,
}

impl TracedInput<'_> {
    /// Notes a value without parts. Returns the number of values that this place has refused.
    fn plain<V>(&mut self, word: &'static str) -> TracedResult<usize> {
        self.trace.count_call()?;
        *self.found = Some(ValueFormat::Plain(word));
        let place = (word, type_name::<V>());
        self.trace.last_input = Some(place);
        Ok(self.trace.refused.get(&place).copied().unwrap_or(0) % values_of(word))
    }

    /// Enters an option, a sequence, a map or a tuple. `visit` returns the value with its format.
    fn in_unnamed<V>(
        self,
        visit: impl FnOnce(&mut Trace, bool) -> TracedResult<(V, ValueFormat)>,
    ) -> TracedResult<V> {
        let Self { trace, found, is_filling } = self;
        trace.count_call()?;
        if trace.unnamed_depth == UNNAMED_DEPTH_MAX {
            return Err(trace.fail_as_endless());
        }
        trace.unnamed_depth += 1;
        let visited = visit(trace, is_filling);
        trace.unnamed_depth -= 1;
        let (value, format) = visited?;
        *found = Some(format);
        Ok(value)
    }

    /// Enters the struct with this name and these parts. `visit` gets the trace, the place of the formats, and the way.
    fn in_struct<V>(
        self,
        name: &'static str,
        parts: PartNames,
        visit: impl FnOnce(&mut Trace, &mut Vec<ValueFormat>, bool) -> TracedResult<V>,
    ) -> TracedResult<V> {
        let Self { trace, found, is_filling } = self;
        trace.count_call()?;
        let identity = TypeIdentity { rust_name: type_name::<V>(), name, parts };
        let number = trace.number_of(identity, None);
        debug_assert!(
            !matches!(trace.types[number].format, NamedFormat::Enum(_)),
            "a struct has no variants"
        );
        *found = Some(ValueFormat::Named(number));
        let is_filling = is_filling || trace.is_to_fill(number);
        let mut parts = Vec::new();
        let value =
            trace.visit_named_type(number, is_filling, |trace| visit(trace, &mut parts, is_filling))?;
        if !is_filling {
            trace.types[number].format = NamedFormat::Struct(identity.parts, parts);
        }
        Ok(value)
    }
}

impl Trace {
    /// True if a pass learns nothing in this type: the type is under way, or all of it is known.
    fn is_to_fill(&self, number: usize) -> bool {
        self.under_way.contains(&number) || !self.is_open([&ValueFormat::Named(number)])
    }

    fn visit_named_type<V>(
        &mut self,
        number: usize,
        is_filling: bool,
        visit: impl FnOnce(&mut Self) -> TracedResult<V>,
    ) -> TracedResult<V> {
        if self.depth == DEPTH_MAX {
            return Err(self.fail_as_endless());
        }
        self.depth += 1;
        let unnamed_depth = std::mem::take(&mut self.unnamed_depth);
        let under_way = self.under_way.len();
        if !is_filling {
            self.under_way.push(number);
        }
        let value = visit(self);
        self.under_way.truncate(under_way);
        self.unnamed_depth = unnamed_depth;
        self.depth -= 1;
        value
    }

    fn count_call(&mut self) -> TracedResult<()> {
        if self.calls == CALLS_MAX {
            return Err(self.fail(PassFailure::TooLong));
        }
        self.calls += 1;
        Ok(())
    }

    /// Notes that the value under way has no end.
    fn fail_as_endless(&mut self) -> InputRefused {
        self.fail(PassFailure::Endless(self.variants_under_way.last().copied()))
    }

    fn fail(&mut self, failure: PassFailure) -> InputRefused {
        self.failure.get_or_insert(failure);
        InputRefused
    }
}

/// Parts of a struct, a variant or a tuple, or the elements of a sequence.
struct TracedParts<'t, 'p> {
    trace: &'t mut Trace,
    parts: &'p mut Vec<ValueFormat>,
    left: usize,
    is_filling: bool,
}

impl<'de> SeqAccess<'de> for TracedParts<'_, '_> {
    type Error = InputRefused;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> TracedResult<Option<S::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let mut found = None;
        let input = TracedInput { trace: &mut *self.trace, found: &mut found, is_filling: self.is_filling };
        let value = seed.deserialize(input)?;
        self.parts.push(format_or_nothing(found));
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// Format of a part; a part that took no input has an own word.
fn format_or_nothing(found: Option<ValueFormat>) -> ValueFormat {
    found.unwrap_or(ValueFormat::Plain("nothing"))
}

/// The only entry of a map.
struct TracedEntry<'t> {
    trace: &'t mut Trace,
    key: Option<ValueFormat>,
    value: Option<ValueFormat>,
    has_key: bool,
    is_filling: bool,
}

impl<'de> MapAccess<'de> for &mut TracedEntry<'_> {
    type Error = InputRefused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> TracedResult<Option<S::Value>> {
        if self.is_filling || std::mem::replace(&mut self.has_key, true) {
            return Ok(None);
        }
        let input = TracedInput { trace: &mut *self.trace, found: &mut self.key, is_filling: false };
        seed.deserialize(input).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> TracedResult<S::Value> {
        let input =
            TracedInput { trace: &mut *self.trace, found: &mut self.value, is_filling: self.is_filling };
        seed.deserialize(input)
    }
}

struct TracedVariant<'t> {
    trace: &'t mut Trace,
    place: EnumVariant,
    found: &'t mut VariantFormat,
    is_filling: bool,
}

impl<'de, 't> EnumAccess<'de> for TracedVariant<'t> {
    type Error = InputRefused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> TracedResult<(S::Value, Self)> {
        let index: U32Deserializer<InputRefused> = (self.place.variant as u32).into_deserializer();
        let Ok(variant) = seed.deserialize(index) else {
            *self.found = VariantFormat::Refused;
            return Err(self.trace.fail(PassFailure::VariantRefused));
        };
        Ok((variant, self))
    }
}

impl TracedVariant<'_> {
    fn parts<V>(
        self,
        names: PartNames,
        visit: impl FnOnce(&mut Trace, &mut Vec<ValueFormat>, bool) -> TracedResult<V>,
    ) -> TracedResult<V> {
        let mut parts = Vec::new();
        let value = visit(self.trace, &mut parts, self.is_filling)?;
        *self.found = VariantFormat::Known(names, parts);
        Ok(value)
    }
}

impl<'de> VariantAccess<'de> for TracedVariant<'_> {
    type Error = InputRefused;

    fn unit_variant(self) -> TracedResult<()> {
        self.parts(PartNames::None, |_, _, _| Ok(()))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> TracedResult<S::Value> {
        self.parts(PartNames::Numbered(1), |trace, parts, is_filling| {
            let mut found = None;
            let value = seed.deserialize(TracedInput { trace, found: &mut found, is_filling })?;
            parts.push(format_or_nothing(found));
            Ok(value)
        })
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> TracedResult<V::Value> {
        self.parts(PartNames::Numbered(left), |trace, parts, is_filling| {
            visitor.visit_seq(TracedParts { trace, parts, left, is_filling })
        })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> TracedResult<V::Value> {
        self.parts(PartNames::Fields(fields), |trace, parts, is_filling| {
            visitor.visit_seq(TracedParts { trace, parts, left: fields.len(), is_filling })
        })
    }
}

/// Answers with values without parts: serde's call, the visitor's call, the word, and the value by its number.
macro_rules! plain_values {
    ($($deserialize:ident $visit:ident $word:literal $at:ident: $value:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(mut self, visitor: V) -> TracedResult<V::Value> {
            let $at = self.plain::<V>($word)?;
            visitor.$visit($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for TracedInput<'_> {
    type Error = InputRefused;

    plain_values! {
        deserialize_i8 visit_i8 "i8" at: INTEGERS[at] as i8;
        deserialize_i16 visit_i16 "i16" at: INTEGERS[at] as i16;
        deserialize_i32 visit_i32 "i32" at: INTEGERS[at] as i32;
        deserialize_i64 visit_i64 "i64" at: INTEGERS[at] as i64;
        deserialize_i128 visit_i128 "i128" at: INTEGERS[at] as i128;
        deserialize_u8 visit_u8 "u8" at: INTEGERS[at];
        deserialize_u16 visit_u16 "u16" at: INTEGERS[at] as u16;
        deserialize_u32 visit_u32 "u32" at: INTEGERS[at] as u32;
        deserialize_u64 visit_u64 "u64" at: INTEGERS[at] as u64;
        deserialize_u128 visit_u128 "u128" at: INTEGERS[at] as u128;
        deserialize_bool visit_bool "bool" at: at > 0;
        deserialize_f32 visit_f32 "f32" at: [1.0, 0.0][at];
        deserialize_f64 visit_f64 "f64" at: [1.0, 0.0][at];
        deserialize_char visit_char "char" at: ['a', '0'][at];
        deserialize_str visit_str "string" at: TEXTS[at];
        deserialize_bytes visit_bytes "bytes" at: &[0; BYTES_MAX][..BYTE_LENGTHS[at]];
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> TracedResult<V::Value> {
        Err(self.trace.fail(PassFailure::Unsupported))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> TracedResult<V::Value> {
        Err(self.trace.fail(PassFailure::Unsupported))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> TracedResult<V::Value> {
        Err(self.trace.fail(PassFailure::Unsupported))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> TracedResult<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> TracedResult<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> TracedResult<V::Value> {
        self.plain::<V>("unit")?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> TracedResult<V::Value> {
        self.in_unnamed(|trace, is_filling| {
            let mut inner = None;
            let value = if is_filling {
                visitor.visit_none()
            } else {
                visitor.visit_some(TracedInput { trace, found: &mut inner, is_filling })
            };
            Ok((value?, ValueFormat::Option(Box::new(format_or_nothing(inner)))))
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> TracedResult<V::Value> {
        self.in_unnamed(|trace, is_filling| {
            let mut parts = Vec::new();
            let left = usize::from(!is_filling);
            let value = visitor.visit_seq(TracedParts { trace, parts: &mut parts, left, is_filling })?;
            Ok((value, ValueFormat::Sequence(Box::new(format_or_nothing(parts.pop())))))
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> TracedResult<V::Value> {
        self.in_unnamed(|trace, is_filling| {
            let mut parts = Vec::new();
            let value = visitor.visit_seq(TracedParts { trace, parts: &mut parts, left, is_filling })?;
            Ok((value, ValueFormat::Tuple(parts)))
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> TracedResult<V::Value> {
        self.in_unnamed(|trace, is_filling| {
            let mut entry = TracedEntry { trace, key: None, value: None, has_key: false, is_filling };
            let value = visitor.visit_map(&mut entry)?;
            let formats = (format_or_nothing(entry.key), format_or_nothing(entry.value));
            Ok((value, ValueFormat::Map(Box::new(formats))))
        })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> TracedResult<V::Value> {
        self.in_struct(name, PartNames::None, |_, _, _| visitor.visit_unit())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> TracedResult<V::Value> {
        self.in_struct(name, PartNames::Numbered(1), |trace, parts, is_filling| {
            let mut found = None;
            let value = visitor.visit_newtype_struct(TracedInput { trace, found: &mut found, is_filling })?;
            parts.push(format_or_nothing(found));
            Ok(value)
        })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        left: usize,
        visitor: V,
    ) -> TracedResult<V::Value> {
        self.in_struct(name, PartNames::Numbered(left), |trace, parts, is_filling| {
            visitor.visit_seq(TracedParts { trace, parts, left, is_filling })
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> TracedResult<V::Value> {
        self.in_struct(name, PartNames::Fields(fields), |trace, parts, is_filling| {
            visitor.visit_seq(TracedParts { trace, parts, left: fields.len(), is_filling })
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> TracedResult<V::Value> {
        let Self { trace, found, is_filling } = self;
        trace.count_call()?;
        let identity = TypeIdentity { rust_name: type_name::<V::Value>(), name, parts: PartNames::None };
        let number = trace.number_of(identity, Some(variants));
        *found = Some(ValueFormat::Named(number));
        let is_filling = is_filling || trace.is_to_fill(number);
        trace.visit_named_type(number, is_filling, |trace| {
            let to_trace = if is_filling { None } else { trace.variant_to_trace(number) };
            let is_filling = to_trace.is_none();
            let Some(variant) = to_trace.or_else(|| trace.variant_to_fill(number)) else {
                return Err(trace.fail_as_endless());
            };
            let place = EnumVariant { number, variant };
            trace.variants_under_way.push(place);
            let mut found = VariantFormat::Unknown;
            let input = TracedVariant { trace: &mut *trace, place, found: &mut found, is_filling };
            let value = visitor.visit_enum(input);
            trace.variants_under_way.pop();
            trace.note_variant(place, found, is_filling);
            if is_filling && value.is_ok() {
                trace.filled.entry(number).or_insert(variant);
            }
            value
        })
    }
}

impl Trace {
    /// Notes the format of a variant. A variant that was only filled is not noted, unless the type refuses the variant.
    fn note_variant(&mut self, of: EnumVariant, found: VariantFormat, is_filling: bool) {
        let is_noted = match found {
            VariantFormat::Unknown => false,
            VariantFormat::Refused => true,
            VariantFormat::Known(..) => !is_filling,
        };
        debug_assert!(matches!(self.types[of.number].format, NamedFormat::Enum(_)), "variants are of enums");
        if let (true, NamedFormat::Enum(variants)) = (is_noted, &mut self.types[of.number].format) {
            variants[of.variant] = found;
        }
    }
}
