//! An application's description of its objects: their changes, and their bytes.
//!
//! Neighbours: applications implement the traits; `change_steps`, `recovery` and `walk` call them,
//! never while a worker is bound (E1).

use std::fmt::Debug;
use std::hash::Hash;

use ensile_durability::{StatedTypes, TypeRole};
use ensile_memory::prefetch;

use crate::shape::TypeShape;

/// Largest number of bytes of a key that are prefetched; the processor predicts the further bytes.
const PREFETCHED_BYTES_MAX: usize = 256;

/// Version of keys in the folder: a key's encoding has no version.
const KEY_VERSION: u16 = 0;

/// A persistent object: its state is the result of its operations, in order.
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
/// An operation depends only on itself and the object: no clock, no random number, no other object, no order of a hash
/// map. Recovery applies the operation again and must reach the same object;
/// [`ObjectsBuilder::check_operations`](crate::ObjectsBuilder::check_operations) finds operations that do not.
///
/// Operations and codecs call no handle, neither of objects nor of a database: such a call returns
/// [`InCallBack`](crate::ObjectsError::InCallBack) and changes nothing, because recovery would repeat the call.
///
/// An operation is logged before it is applied. An operation that refuses by its output has been logged as well, and
/// its changes before the refusal stay; an operation therefore looks first, and then changes.
/// [`Objects::update_if`](crate::Objects::update_if) refuses before anything is logged.
pub trait Persistent: Sized + Send + 'static {
    /// A change. Its encoding is logged.
    type Operation: Send + 'static;

    /// Result of applying an operation. The result is not kept.
    type Output;

    /// Version of [`encode`](Self::encode)'s format. Raise the version when the format changes.
    const VERSION: u16;

    /// Version of [`encode_operation`](Self::encode_operation)'s format. Raise the version when the format changes.
    const OPERATION_VERSION: u16;

    /// Shape of the object's type. A folder that has objects of [`VERSION`](Self::VERSION) and of another shape is
    /// refused at open. `None` states nothing: then nothing is compared, and the folder keeps a shape that another
    /// codec stated.
    #[must_use]
    fn shape() -> Option<TypeShape> {
        None
    }

    /// Shape of the operation's type, as [`shape`](Self::shape) for [`OPERATION_VERSION`](Self::OPERATION_VERSION).
    #[must_use]
    fn operation_shape() -> Option<TypeShape> {
        None
    }

    /// Applies an operation. `None` is an absent object: an operation may make the object, or remove it by leaving
    /// `None`. At recovery an operation finds the same state as at first, and nothing else.
    fn apply(object: &mut Option<Self>, operation: &Self::Operation) -> Self::Output;

    /// Appends the object's bytes, at most [`OBJECT_BYTES_MAX`](crate::limits::OBJECT_BYTES_MAX).
    fn encode(&self, out: &mut Vec<u8>);

    /// Prefetches memory outside the object itself that [`encode`](Self::encode) is about to read. A hint, which makes
    /// checkpoints of many small objects cheaper; [`ObjectKey::prefetch`] is the counterpart for keys.
    #[inline]
    fn prefetch(&self) {}

    /// Decodes an object. Bytes of an older version become an object of today.
    ///
    /// # Errors
    /// The fault of the bytes. The open fails then, before anything is served. Versions above
    /// [`VERSION`](Self::VERSION) are refused without a call.
    fn decode(version: u16, bytes: &[u8]) -> CodecResult<Self>;

    /// Appends the operation's bytes. Operation and key together have at most
    /// [`TRANSACTION_BYTES_MAX`](crate::limits::TRANSACTION_BYTES_MAX), with some bytes of the entry's frame.
    fn encode_operation(operation: &Self::Operation, out: &mut Vec<u8>);

    /// Decodes an operation. Bytes of an older version become an operation of today with the same effect.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode), with [`OPERATION_VERSION`](Self::OPERATION_VERSION).
    fn decode_operation(version: u16, bytes: &[u8]) -> CodecResult<Self::Operation>;
}

/// Result of decoding: the value, or the fault of the bytes.
pub type CodecResult<T> = Result<T, Box<str>>;

/// Name of an object. Two keys are the same exactly if their bytes are the same.
pub trait ObjectKey: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// Shape of the key's type, as [`Persistent::shape`]. A key has no version, so an open with any other key type is
    /// refused.
    #[must_use]
    fn shape() -> Option<TypeShape> {
        None
    }

    /// Appends the key's bytes, at most [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    fn encode(&self, out: &mut Vec<u8>);

    /// Prefetches memory outside the key itself that [`encode`](Self::encode) is about to read, such as the text of a
    /// `String`. A hint: a key with fields of this kind may pass the call on to the fields.
    #[inline]
    fn prefetch(&self) {}

    /// Decodes a key.
    ///
    /// # Errors
    /// The fault of the bytes.
    fn decode(bytes: &[u8]) -> CodecResult<Self>;
}

macro_rules! integer_keys {
    ($($integer:ty),*) => {$(
        impl ObjectKey for $integer {
            fn shape() -> Option<TypeShape> {
                Some(TypeShape::new(stringify!($integer), concat!(stringify!($integer), " little-endian")))
            }

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
    fn shape() -> Option<TypeShape> {
        Some(TypeShape::new("string", "string raw"))
    }

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
    fn shape() -> Option<TypeShape> {
        Some(TypeShape::new("bytes", "bytes raw"))
    }

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

/// Types that a collection states to its folder (I6).
pub(crate) fn stated_types<K: ObjectKey, T: Persistent>() -> StatedTypes {
    let key = K::shape().map(|shape| shape.into_stated_type(TypeRole::Key, KEY_VERSION));
    let object = T::shape().map(|shape| shape.into_stated_type(TypeRole::Object, T::VERSION));
    let operation =
        T::operation_shape().map(|shape| shape.into_stated_type(TypeRole::Operation, T::OPERATION_VERSION));
    StatedTypes::new([key, object, operation].into_iter().flatten())
}
