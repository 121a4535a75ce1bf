//! The codec for objects, operations and keys that serde takes, in postcard's format: the codec of
//! [`Persistent`](crate::Persistent) in a line.
//!
//! The format is postcard 1: compact, not self-describing. A change of a type therefore needs a new version. Bytes of
//! an older version go through the application's up-cast, which [`decode`]s the type of the older version.
//!
//! Neighbours: applications' implementations of `Persistent` and `ObjectKey` expand to these functions; `collection`
//! calls the implementations.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::persistent::CodecResult;

/// Appends a value in postcard's format, as [`serde_codec!`](crate::serde_codec) does.
///
/// # Panics
/// For a type that serde cannot encode in the format, such as a sequence of unknown length. As with every encoder of
/// the application, nothing is logged then.
pub fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    struct Behind<'o>(&'o mut Vec<u8>);
    impl Extend<u8> for Behind<'_> {
        fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
            self.0.extend(bytes);
        }
    }
    postcard::to_extend(value, Behind(out)).expect("the type serializes to postcard");
}

/// Decodes the value that all of `bytes` encode, for [`serde_codec!`](crate::serde_codec) and for up-casts.
///
/// # Errors
/// The bytes encode another type, or more bytes follow the value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> CodecResult<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes stand behind it", rest.len()).into()),
        Err(error) => Err(format!("it is not postcard of this type: {error}").into()),
    }
}

/// Error for an older version without an up-cast.
#[doc(hidden)]
pub fn no_up_cast<T>(version: u16, newest: u16) -> CodecResult<T> {
    Err(format!(
        "it is of version {version}; this program writes version {newest}, and has no up-cast from that"
    )
    .into())
}

/// The versions and codecs of a [`Persistent`](crate::Persistent) whose object and operation serde takes. The macro
/// stands in the implementation, in place of two constants and four functions; postcard writes the bytes.
///
/// ```
/// use ensile_objects::{Persistent, serde_codec};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Visits { pages: Vec<String>, times: u64 }
///
/// #[derive(Serialize, Deserialize)]
/// enum Visit { Came { page: String }, Forget }
///
/// impl Persistent for Visits {
///     type Operation = Visit;
///     type Output = u64;
///     serde_codec! { object 1, operation 1 }
///
///     fn apply(visits: &mut Option<Self>, visit: &Visit) -> u64 {
///         let visits = visits.get_or_insert(Visits { pages: Vec::new(), times: 0 });
///         match visit {
///             Visit::Came { page } => visits.pages.push(page.clone()),
///             Visit::Forget => visits.pages.clear(),
///         }
///         visits.times += 1;
///         visits.times
///     }
/// }
/// ```
///
///
/// A changed type gets a larger version, and a function that turns the bytes of an older version into an object of
/// today. Versions unknown to the function, and versions larger than this program's, are an error at open, before
/// anything is served.
/// ```
/// use ensile_objects::{CodecResult, Persistent, codec, serde_codec};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Balance { cents: i64 }
///
/// impl Balance {
///     /// Version 1 had whole euros.
///     fn older(version: u16, bytes: &[u8]) -> CodecResult<Self> {
///         match version {
///             1 => Ok(Self { cents: codec::decode::<i32>(bytes)? as i64 * 100 }),
///             _ => Err("no such version was ever written".into()),
///         }
///     }
/// }
///
/// impl Persistent for Balance {
///     type Operation = i64;
///     type Output = i64;
///     serde_codec! { object 2 or Self::older, operation 1 }
///
///     fn apply(balance: &mut Option<Self>, cents: &i64) -> i64 {
///         let balance = balance.get_or_insert(Balance { cents: 0 });
///         balance.cents += cents;
///         balance.cents
///     }
/// }
/// # let mut bytes = Vec::new();
/// # codec::encode(&12_i32, &mut bytes);
/// # assert_eq!(Balance::decode(1, &bytes).map(|balance| balance.cents), Ok(1200));
/// ```
#[macro_export]
macro_rules! serde_codec {
    (object $object:literal $(or $older:expr)?, operation $operation:literal $(or $older_operation:expr)? $(,)?) => {
        const VERSION: u16 = $object;
        const OPERATION_VERSION: u16 = $operation;

        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            $crate::codec::encode(self, out);
        }

        fn decode(version: u16, bytes: &[u8]) -> $crate::CodecResult<Self> {
            match version {
                $object => $crate::codec::decode(bytes),
                older => $crate::serde_codec!(@older $object, older, bytes $(, $older)?),
            }
        }

        fn encode_operation(operation: &Self::Operation, out: &mut ::std::vec::Vec<u8>) {
            $crate::codec::encode(operation, out);
        }

        fn decode_operation(version: u16, bytes: &[u8]) -> $crate::CodecResult<Self::Operation> {
            match version {
                $operation => $crate::codec::decode(bytes),
                older => $crate::serde_codec!(@older $operation, older, bytes $(, $older_operation)?),
            }
        }
    };
    (@older $newest:literal, $version:expr, $bytes:expr) => {
        $crate::codec::no_up_cast($version, $newest)
    };
    (@older $newest:literal, $version:expr, $bytes:expr, $up_cast:expr) => {
        ($up_cast)($version, $bytes)
    };
}

/// The codec of an [`ObjectKey`](crate::ObjectKey) that serde takes. Equal keys must have equal bytes: a key holds no
/// hash map.
///
/// ```
/// use ensile_objects::{ObjectKey, serde_key};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// struct Seat { hall: String, row: u16, number: u16 }
///
/// impl ObjectKey for Seat {
///     serde_key! {}
/// }
/// # let seat = Seat { hall: "A".to_owned(), row: 7, number: 300 };
/// # let mut bytes = Vec::new();
/// # seat.encode(&mut bytes);
/// # assert_eq!(Seat::decode(&bytes), Ok(seat));
/// ```
#[macro_export]
macro_rules! serde_key {
    () => {
        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            $crate::codec::encode(self, out);
        }

        fn decode(bytes: &[u8]) -> $crate::CodecResult<Self> {
            $crate::codec::decode(bytes)
        }
    };
}
