//! Description of a format as text, of which a shape keeps the fingerprint (`docs/internals/formats/objects.md`).
//!
//! ```text
//! format  := word | option<format> | seq<format> | map<format,format> | (parts) | #n
//!          | struct name contents | enum name {(name contents)*}
//! contents:= nothing | (parts) | {(name)*}(parts)
//! parts   := format (*n) .., with commas between; *n for n equal formats in a row
//! name    := length : text
//! ```
//! `#n` is the nth named type of the description, from 0: each named type is described once. The name of the described
//! type itself is left out, so a renamed type has the same description.
//!
//! Neighbours: [`super`] finds the format.

use std::fmt::Write as _;

use super::{NamedFormat, PartNames, Trace, ValueFormat, VariantFormat};

impl Trace {
    /// Name of a type of this format: its own, or the format in words.
    pub(super) fn name_of(&self, format: &ValueFormat) -> String {
        match format {
            ValueFormat::Plain(word) => (*word).to_owned(),
            ValueFormat::Option(inner) => format!("option<{}>", self.name_of(inner)),
            ValueFormat::Sequence(inner) => format!("seq<{}>", self.name_of(inner)),
            ValueFormat::Map(entry) => format!("map<{},{}>", self.name_of(&entry.0), self.name_of(&entry.1)),
            ValueFormat::Tuple(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.name_of(part)).collect();
                format!("({})", parts.join(","))
            }
            ValueFormat::Named(number) => self.types[*number].identity.name.to_owned(),
        }
    }

    pub(super) fn describe(&self, root: &ValueFormat) -> String {
        let mut description = FormatText { trace: self, described: Vec::new(), text: String::new() };
        match root {
            ValueFormat::Named(number) => description.describe_type(*number, ""),
            other => description.format(other),
        }
        description.text
    }
}

struct FormatText<'t> {
    trace: &'t Trace,
    /// Named types in the order of the description.
    described: Vec<usize>,
    text: String,
}

impl FormatText<'_> {
    fn format(&mut self, format: &ValueFormat) {
        match format {
            ValueFormat::Plain(word) => self.text += word,
            ValueFormat::Option(inner) => self.generic("option", &[inner]),
            ValueFormat::Sequence(inner) => self.generic("seq", &[inner]),
            ValueFormat::Map(entry) => self.generic("map", &[&entry.0, &entry.1]),
            ValueFormat::Tuple(parts) => self.parts(parts),
            ValueFormat::Named(number) => {
                self.describe_type(*number, self.trace.types[*number].identity.name)
            }
        }
    }

    fn generic(&mut self, word: &str, inner: &[&ValueFormat]) {
        self.text += word;
        for (at, format) in inner.iter().enumerate() {
            self.text.push(if at == 0 { '<' } else { ',' });
            self.format(format);
        }
        self.text.push('>');
    }

    fn parts(&mut self, parts: &[ValueFormat]) {
        self.text.push('(');
        for (at, equal) in parts.chunk_by(|one, next| one == next).enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.format(&equal[0]);
            if equal.len() > 1 {
                self.write(format_args!("*{}", equal.len()));
            }
        }
        self.text.push(')');
    }

    fn describe_type(&mut self, number: usize, name: &str) {
        if let Some(before) = self.described.iter().position(|described| *described == number) {
            return self.write(format_args!("#{before}"));
        }
        self.described.push(number);
        let named = &self.trace.types[number];
        match &named.format {
            NamedFormat::Struct(names, parts) => {
                self.text += "struct ";
                self.name(name);
                self.contents(*names, parts);
            }
            NamedFormat::Enum(variants) => {
                self.text += "enum ";
                self.name(name);
                self.text.push('{');
                debug_assert_eq!(named.variants.map(<[_]>::len), Some(variants.len()));
                for (name, variant) in named.variants.into_iter().flatten().zip(variants) {
                    self.name(name);
                    if let VariantFormat::Known(names, parts) = variant {
                        self.contents(*names, parts);
                    }
                }
                self.text.push('}');
            }
            NamedFormat::Unknown => unreachable!("a complete format has no unknown type"),
        }
    }

    fn contents(&mut self, names: PartNames, parts: &[ValueFormat]) {
        match names {
            PartNames::None => return,
            PartNames::Numbered(_) => {}
            PartNames::Fields(fields) => {
                self.text.push('{');
                fields.iter().for_each(|field| self.name(field));
                self.text.push('}');
            }
        }
        self.parts(parts);
    }

    fn name(&mut self, name: &str) {
        self.write(format_args!("{}:{name}", name.len()));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes all");
    }
}
