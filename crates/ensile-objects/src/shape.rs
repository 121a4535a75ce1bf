//! Shape of a type: the name and the fingerprint by which a folder recognizes the type of its keys, objects and
//! operations (I6).
//!
//! Neighbours: `collection::persistent` has the traits that state shapes; `codec` derives shapes from serde's calls;
//! the durability crate stores and compares the shapes.

use ensile_durability::{EntryType, StatedType, TypeRole};

/// Name and fingerprint of a type, as a codec states both.
///
/// A folder stores the shapes of its keys, objects and operations. An open by a program with another shape of the same
/// version is refused ([`ErrorKind::WrongFolder`](crate::ErrorKind::WrongFolder)), before anything is served or
/// changed. `serde_codec!`, `serde_key!` and the keys of this crate state their shapes. A codec written by hand states
/// a shape, or is not compared.
///
/// ```
/// # use ensile_objects::{CodecResult, Persistent, TypeShape};
/// struct Meter(u32);
///
/// impl Persistent for Meter {
///     type Operation = u32;
///     type Output = ();
///     const VERSION: u16 = 1;
///     const OPERATION_VERSION: u16 = 1;
///
///     fn shape() -> Option<TypeShape> {
///         // The type was called `Counter` once.
///         Some(TypeShape::new("Meter", "litres u32 little-endian").with_former_names(["Counter"]))
///     }
///
///     fn operation_shape() -> Option<TypeShape> {
///         Some(TypeShape::new("Litres", "u32 little-endian"))
///     }
/// #   fn apply(meter: &mut Option<Self>, litres: &u32) { *meter = Some(Meter(*litres)) }
/// #   fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.0.to_le_bytes()) }
/// #   fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> { Self::decode_operation(1, bytes).map(Self) }
/// #   fn encode_operation(litres: &u32, out: &mut Vec<u8>) { out.extend_from_slice(&litres.to_le_bytes()) }
/// #   fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u32> {
/// #       bytes.try_into().map(u32::from_le_bytes).map_err(|_| "not four bytes".into())
/// #   }
///     // .. and the codec
/// }
/// # assert_ne!(Meter::shape(), Meter::operation_shape());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeShape {
    name: Box<str>,
    fingerprint: Option<u64>,
    former_names: Vec<Box<str>>,
}

impl TypeShape {
    /// Creates the shape of a type with this name. `description` is a text that changes whenever the encoding of the
    /// type changes, and only then; the shape keeps a fingerprint of the text.
    #[must_use]
    pub fn new(name: &str, description: &str) -> Self {
        Self { fingerprint: Some(fnv_1a(description.as_bytes())), ..Self::from_name(name) }
    }

    /// Creates the shape of a type of which the name alone is known. Types of one name are then not told apart.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self { name: name.into(), fingerprint: None, former_names: Vec::new() }
    }

    /// Adds earlier names of the type. A folder that has the type under an earlier name opens, and gets the present
    /// name at its next checkpoint.
    #[must_use]
    pub fn with_former_names<N: Into<Box<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.former_names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Name of the type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fingerprint of the encoding; `None` if the name alone is known.
    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        self.fingerprint
    }

    /// Type of a folder's entries of this role and version.
    pub(crate) fn into_stated_type(self, role: TypeRole, version: u16) -> StatedType {
        let Self { name, fingerprint, former_names } = self;
        StatedType { entry_type: EntryType::new(role, version, &name, fingerprint), former_names }
    }
}

/// FNV-1a, 64 bits: the fingerprint of a description (`docs/internals/formats/objects.md`).
pub(crate) fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::fnv_1a;

    #[test]
    fn i6_a_fingerprint_is_fnv_1a_of_the_description() {
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
