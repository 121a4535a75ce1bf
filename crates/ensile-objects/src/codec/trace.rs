//! The format of a type in serde's data model, found by running the type's `Deserialize` on a deserializer that notes
//! the calls and makes the values up.
//!
//! A pass deserializes one value. An enum takes one variant a pass, so further passes follow until every reachable
//! variant is known. A type inside itself gets the smallest value that the type has: there sequences are empty, options
//! are `None`, and nothing is noted.
//!
//! A type may contain itself without a name: `#[serde(transparent)]`, `from` and `try_from` leave the inner type's
//! calls alone. The depth of such a type has no end, and the trace is given up.
//!
//! A `Deserialize` by hand may refuse every made-up value, or may need a format that describes itself. The values of a
//! type may take too many calls. The trace is then given up, and the name of the type is all that is known.
//!
//! Neighbours: `codec` makes a shape of the format. `deserializer` answers serde's calls, `choice` chooses the variant
//! of a pass, `description` writes the format.

mod choice;
mod description;
mod deserializer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;

use deserializer::TracedInput;

/// Largest number of passes over a type, far above the number of variants of a real type.
const PASSES_MAX: usize = 4096;
/// Largest depth of named types in each other, far above the depth of a real type.
const DEPTH_MAX: usize = 100;
/// Largest depth of options, sequences, maps and tuples in each other, without a named type between.
const UNNAMED_DEPTH_MAX: usize = 64;
/// Largest number of serde's calls of a trace. Up to this number a trace takes less than a second.
const CALLS_MAX: usize = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueFormat {
    /// A value without parts, by its word in the description.
    Plain(&'static str),
    Option(Box<Self>),
    Sequence(Box<Self>),
    Map(Box<(Self, Self)>),
    Tuple(Vec<Self>),
    /// The struct or enum of this number in [`Trace::types`].
    Named(usize),
}

/// Parts of a struct or of an enum's variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartNames {
    None,
    /// Number of parts without names.
    Numbered(usize),
    Fields(&'static [&'static str]),
}

/// Format of a variant, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum VariantFormat {
    Unknown,
    /// The type does not deserialize the variant.
    Refused,
    Known(PartNames, Vec<ValueFormat>),
}

/// Format of a struct or an enum, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamedFormat {
    Unknown,
    Struct(PartNames, Vec<ValueFormat>),
    Enum(Vec<VariantFormat>),
}

/// Identity of a struct or an enum in this process. Serde's name alone is not enough: two types may have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeIdentity {
    /// Rust's name of the type. The name is for the comparison only, as the name changes with compilers and modules.
    rust_name: &'static str,
    name: &'static str,
    parts: PartNames,
}

#[derive(Clone, Debug)]
struct NamedType {
    identity: TypeIdentity,
    /// Names of the variants; `None` for a struct.
    variants: Option<&'static [&'static str]>,
    format: NamedFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EnumVariant {
    /// Number of the enum in [`Trace::types`].
    number: usize,
    variant: usize,
}

/// Reason why a pass failed, apart from a refused value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassFailure {
    /// A type needs itself at this enum and variant, or without an enum.
    Endless(Option<EnumVariant>),
    VariantRefused,
    /// The type needs a format that describes itself.
    Unsupported,
    /// The trace has made [`CALLS_MAX`] calls.
    TooLong,
}

/// A kind of value, and the Rust name of the visitor that gets the value.
type InputPlace = (&'static str, &'static str);

#[derive(Debug, Default)]
struct Trace {
    types: Vec<NamedType>,
    /// Types under way, outermost first.
    under_way: Vec<usize>,
    /// Variants under way, outermost first.
    variants_under_way: Vec<EnumVariant>,
    /// Number of named types under way, with the types that are only filled.
    depth: usize,
    /// Number of options, sequences, maps and tuples under way within the innermost named type.
    unnamed_depth: usize,
    /// Variants that led to an endless value: others are tried first.
    avoided: BTreeSet<EnumVariant>,
    /// First variant of each enum that was filled. Its value is finite, wherever the enum stands.
    filled: BTreeMap<usize, usize>,
    /// Number of serde's calls in all passes.
    calls: usize,
    /// Number of refused values by place. The next value is another one.
    refused: HashMap<InputPlace, usize>,
    /// Place of the last made-up value of the pass.
    last_input: Option<InputPlace>,
    failure: Option<PassFailure>,
}

#[derive(Debug)]
pub(super) struct TracedType {
    pub(super) name: String,
    /// Description of the format, without the type's own name; `None` if the format could not be found.
    pub(super) description: Option<String>,
}

/// Finds the format of a type; `None` if not even a name is known.
pub(super) fn trace<T: DeserializeOwned>() -> Option<TracedType> {
    let mut trace = Trace::default();
    let mut root = None;
    let mut is_complete = false;
    for _ in 0..PASSES_MAX {
        let known = trace.known_format_count();
        trace.begin_pass();
        let input = TracedInput { trace: &mut trace, found: &mut root, is_filling: false };
        let Ok(passed) = catch_unwind(AssertUnwindSafe(|| T::deserialize(input).is_ok())) else { break };
        debug_assert!(trace.is_at_rest(), "each level that a pass enters is left");
        debug_assert!(trace.known_format_count() >= known, "a pass forgets nothing");
        if passed {
            // A type may hide the refusal of a call.
            is_complete = trace.failure != Some(PassFailure::TooLong) && !trace.is_open(root.iter());
            if is_complete || trace.known_format_count() == known {
                break;
            }
        } else if !trace.learns_from_failure() {
            break;
        }
    }
    let root = root?;
    let name = trace.name_of(&root);
    Some(TracedType { name, description: is_complete.then(|| trace.describe(&root)) })
}

impl Trace {
    fn begin_pass(&mut self) {
        self.under_way.clear();
        self.variants_under_way.clear();
        (self.depth, self.unnamed_depth) = (0, 0);
        (self.last_input, self.failure) = (None, None);
    }

    fn is_at_rest(&self) -> bool {
        self.under_way.is_empty()
            && self.variants_under_way.is_empty()
            && (self.depth, self.unnamed_depth) == (0, 0)
    }

    fn known_format_count(&self) -> usize {
        let known = |named: &NamedType| match &named.format {
            NamedFormat::Unknown => 0,
            NamedFormat::Struct(..) => 1,
            NamedFormat::Enum(variants) => {
                variants.iter().filter(|variant| **variant != VariantFormat::Unknown).count()
            }
        };
        self.types.iter().map(known).sum()
    }

    /// Takes the reason of a failed pass into account. False if another pass would fail likewise.
    fn learns_from_failure(&mut self) -> bool {
        match self.failure {
            Some(PassFailure::Endless(Some(variant))) => self.avoided.insert(variant),
            Some(PassFailure::VariantRefused) => true,
            Some(PassFailure::Endless(None) | PassFailure::Unsupported | PassFailure::TooLong) => false,
            None => self.last_input.is_some_and(|place| {
                let refused = self.refused.entry(place).or_default();
                *refused += 1;
                *refused < deserializer::values_of(place.0)
            }),
        }
    }

    /// Number of a struct or an enum, which becomes known by its name here.
    fn number_of(&mut self, identity: TypeIdentity, variants: Option<&'static [&'static str]>) -> usize {
        let is_same = |known: &NamedType| known.identity == identity && known.variants == variants;
        if let Some(number) = self.types.iter().position(is_same) {
            return number;
        }
        let format = variants.map_or(NamedFormat::Unknown, |variants| {
            NamedFormat::Enum(vec![VariantFormat::Unknown; variants.len()])
        });
        self.types.push(NamedType { identity, variants, format });
        self.types.len() - 1
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
