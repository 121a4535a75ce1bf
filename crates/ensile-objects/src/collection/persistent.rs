//! What an application says of its objects: how they are changed, and what they are as bytes.
//!
//! Neighbours: applications implement these; `super` calls them, never while a worker is bound (E1).

use std::fmt::Debug;
use std::hash::Hash;

use ensile_memory::prefetch;

use crate::format::check_version;

/// The most bytes of a key that are prefetched; the processor sees the others coming.
const PREFETCHED_BYTES_MAX: usize = 256;

/// An object that is kept: its state is what its operations have made of it, one after the other.
///
/// ```
/// use ensile_objects::{CodecResult, Persistent};
///
/// /// How often a page was visited.
/// #[derive(Debug, PartialEq)]
/// struct Visits(u64);
///
/// /// Someone came, this many times.
/// struct Came(u64);
///
/// impl Persistent for Visits {
///     type Operation = Came;
///     type Output = u64;
///     const VERSION: u16 = 1;
///     const OPERATION_VERSION: u16 = 1;
///
///     fn apply(visits: &mut Option<Self>, Came(times): &Came) -> u64 {
///         let visits = visits.get_or_insert(Visits(0));
///         visits.0 += times;
///         visits.0
///     }
///
///     fn encode(&self, out: &mut Vec<u8>) {
///         out.extend_from_slice(&self.0.to_le_bytes());
///     }
///
///     fn decode(_version: u16, bytes: &[u8]) -> CodecResult<Self> {
///         Ok(Self(u64::from_le_bytes(bytes.try_into().map_err(|_| "not eight bytes")?)))
///     }
///
///     fn encode_operation(Came(times): &Came, out: &mut Vec<u8>) {
///         out.extend_from_slice(&times.to_le_bytes());
///     }
///
///     fn decode_operation(_version: u16, bytes: &[u8]) -> CodecResult<Came> {
///         Ok(Came(u64::from_le_bytes(bytes.try_into().map_err(|_| "not eight bytes")?)))
///     }
/// }
/// ```
///
/// # Discipline
/// An operation depends on nothing but itself and the object: no clock, no random number, no other object, no order of
/// a hash map. Recovery applies it again and must come to the same object;
/// [`ObjectsBuilder::check_operations`](crate::ObjectsBuilder::check_operations) finds those that do not. It does not
/// call the collection that the object is in.
///
/// An operation is logged before it is applied. One that refuses, by an output that says so, has been logged as well,
/// and what it changed before that stays; so it looks first, and then changes.
/// [`Objects::update_if`](crate::Objects::update_if) refuses before anything is logged.
pub trait Persistent: Sized + Send + 'static {
    /// A change. What it says is logged.
    type Operation: Send + 'static;

    /// What applying an operation returns. It is not kept.
    type Output;

    /// The version of [`encode`](Self::encode)'s format. Raise it when that changes.
    const VERSION: u16;

    /// The version of [`encode_operation`](Self::encode_operation)'s format. Raise it when that changes.
    const OPERATION_VERSION: u16;

    /// Applies an operation. `None` is an object that is not there: an operation may make it, or remove it by leaving
    /// `None`. At recovery an operation finds what it found at first, and nothing else.
    fn apply(object: &mut Option<Self>, operation: &Self::Operation) -> Self::Output;

    /// Appends the object's bytes, at most [`OBJECT_BYTES_MAX`](crate::limits::OBJECT_BYTES_MAX).
    fn encode(&self, out: &mut Vec<u8>);

    /// Asks the processor for memory that [`encode`](Self::encode) is about to read and that is not in the object
    /// itself. A hint, which makes checkpoints of many small objects cheaper; [`ObjectKey::prefetch`] is its like.
    #[inline]
    fn prefetch(&self) {}

    /// The object of these bytes, which may be of an older version: then it is made one of today.
    ///
    /// # Errors
    /// What is wrong with them. The open fails then, before anything is served. Versions above
    /// [`VERSION`](Self::VERSION) are refused without asking.
    fn decode(version: u16, bytes: &[u8]) -> CodecResult<Self>;

    /// Appends the operation's bytes: with those of the key at most
    /// [`TRANSACTION_BYTES_MAX`](crate::limits::TRANSACTION_BYTES_MAX), with some bytes of its frame.
    fn encode_operation(operation: &Self::Operation, out: &mut Vec<u8>);

    /// The operation of these bytes, which may be of an older version: then it is made one of today that does the same.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode), with [`OPERATION_VERSION`](Self::OPERATION_VERSION).
    fn decode_operation(version: u16, bytes: &[u8]) -> CodecResult<Self::Operation>;
}

/// What decoding returns: the value, or what is wrong with the bytes.
pub type CodecResult<T> = Result<T, Box<str>>;

/// What names an object. Two keys are the same exactly if their bytes are.
pub trait ObjectKey: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// Appends its bytes, at most [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    fn encode(&self, out: &mut Vec<u8>);

    /// Asks the processor for memory that [`encode`](Self::encode) is about to read and that is not in the key itself,
    /// as that of a `String`. A hint: a key that has such memory in its fields may hand the call on to them.
    #[inline]
    fn prefetch(&self) {}

    /// The key of these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    fn decode(bytes: &[u8]) -> CodecResult<Self>;
}

macro_rules! integer_keys {
    ($($integer:ty),*) => {$(
        impl ObjectKey for $integer {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(bytes: &[u8]) -> CodecResult<Self> {
                let bytes = bytes.try_into();
                bytes.map(Self::from_le_bytes).map_err(|_| "a key is not as long as its integer".into())
            }
        }
    )*};
}

integer_keys!(u32, u64, u128, i32, i64, i128);

impl ObjectKey for String {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    #[inline]
    fn prefetch(&self) {
        prefetch::lines(self.as_ptr(), self.len().min(PREFETCHED_BYTES_MAX));
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        Self::from_utf8(bytes.to_vec()).map_err(|error| error.to_string().into())
    }
}

impl ObjectKey for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    #[inline]
    fn prefetch(&self) {
        prefetch::lines(self.as_ptr(), self.len().min(PREFETCHED_BYTES_MAX));
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        Ok(bytes.to_vec())
    }
}

/// Decodes what has a version, if this program knows that.
pub(super) fn of_version<T>(
    versions: (u16, u16),
    what: &str,
    decode: impl FnOnce() -> CodecResult<T>,
) -> CodecResult<T> {
    check_version(versions, what)?;
    decode()
}
