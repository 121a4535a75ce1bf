//! The codec for objects, operations and keys that serde takes, in postcard's format: the codec of
//! [`Persistent`](crate::Persistent) in a line.
//!
//! The format is postcard 1: compact, not self-describing. A change of a type therefore needs a new version. Bytes of
//! an older version go through the application's up-cast, which [`decode`]s the type of the older version.
//!
//! # Changing a type
//! A folder stores the [shape](shape_of) of its key, object and operation types, and refuses another shape of the same
//! version. So a changed type needs one of these:
//!
//! - *Fields or variants are added, removed, reordered, or get another type*: raise the version in `serde_codec!`, and
//!   give an up-cast from the older version. The folder opens, and has the new shape after its next checkpoint.
//! - *The type has another name*: give the former name in `former_names`.
//! - *A field, a variant or a type within the type has another name*: keep the former name for serde, by
//!   `#[serde(rename = "..")]`. The bytes are the same. Or raise the version, with an up-cast that decodes the same
//!   bytes.
//! - *The type of the keys changes*: a key has no version. Copy the objects into a new folder.
//!
//! A type may move to another module or crate: the shape has the names that serde knows.
//!
//! Neighbours: applications' implementations of `Persistent` and `ObjectKey` expand to these functions; `collection`
//! calls the implementations.

mod trace;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::persistent::CodecResult;
use crate::shape::TypeShape;
use trace::TracedType;

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

/// Beginning of the described format in a shape. Another way to describe a format gets another beginning.
const DESCRIPTION: &str = "serde 1 ";

/// Shape of a type that serde takes, found by running the type's `Deserialize` on made-up values.
///
/// The shape has the type's name, and a fingerprint of its format: the names, the order and the types of all fields and
/// variants, and the names of the types within. Names are serde's names, so `#[serde(rename)]` counts, and a path of
/// modules does not. An alias (`#[serde(alias)]`) counts as a name.
///
/// A type with `#[serde(transparent)]`, `#[serde(from)]` or `#[serde(try_from)]` has the name and the format of the
/// inner type: the type's own name is not known to serde.
///
/// A `Deserialize` by hand may refuse all made-up values, or need a format that describes itself. Such a type has the
/// shape of its name alone, without a fingerprint; `None` if not even a name is known. The same holds for a type that
/// contains itself by transparent types alone, and for a type whose values take more than a million of serde's calls.
/// An implementation of [`Persistent`](crate::Persistent) by hand, with the functions of this module, can state a
/// [`TypeShape`] of such a type.
///
/// A panic of the type's code on a made-up value is caught, and the type has no shape. The program's panic hook still
/// reports the panic, and a program with `panic = "abort"` ends: such a type needs `shape none` in its
/// [`serde_codec!`](crate::serde_codec) or [`serde_key!`](crate::serde_key).
///
/// ```
/// use ensile_objects::codec::shape_of;
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Count(u64);
/// #[derive(Deserialize)]
/// struct Other(i64);
///
/// let shape = shape_of::<Count>().expect("a name");
/// assert_eq!(shape.name(), "Count");
/// assert!(shape.fingerprint().is_some());
/// assert_ne!(shape.fingerprint(), shape_of::<Other>().expect("a name").fingerprint());
/// ```
#[must_use]
pub fn shape_of<T: DeserializeOwned>() -> Option<TypeShape> {
    let TracedType { name, description } = trace::trace::<T>()?;
    Some(match description {
        Some(description) => TypeShape::new(&name, &format!("{DESCRIPTION}{description}")),
        None => TypeShape::from_name(&name),
    })
}

/// Error for an older version without an up-cast.
#[doc(hidden)]
pub fn no_up_cast<T>(version: u16, newest: u16) -> CodecResult<T> {
    Err(crate::format::no_up_cast(version, newest))
}

/// The versions, shapes and codecs of a [`Persistent`](crate::Persistent) whose object and operation serde takes. The
/// macro stands in the implementation, in place of two constants and six functions; postcard writes the bytes.
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
///
/// A folder refuses a type with another name or other fields under the same version: see [`codec`](crate::codec). A
/// renamed type gives its former names, for the object and the operation together. A renamed field keeps its name for
/// serde.
/// ```
/// use ensile_objects::{Persistent, serde_codec};
/// use serde::{Deserialize, Serialize};
///
/// /// Called `Visits` before.
/// #[derive(Serialize, Deserialize)]
/// struct PageVisits {
///     #[serde(rename = "times")]
///     count: u64,
/// }
///
/// /// Called `Came` before.
/// #[derive(Serialize, Deserialize)]
/// struct Visit(u64);
///
/// impl Persistent for PageVisits {
///     type Operation = Visit;
///     type Output = u64;
///     serde_codec! { object 1, operation 1, former_names ["Visits", "Came"] }
///
///     fn apply(visits: &mut Option<Self>, Visit(times): &Visit) -> u64 {
///         let visits = visits.get_or_insert(PageVisits { count: 0 });
///         visits.count += times;
///         visits.count
///     }
/// }
/// # let before = ensile_objects::TypeShape::new("PageVisits", "serde 1 struct 0:{5:times}(u64)");
/// # assert_eq!(PageVisits::shape().and_then(|shape| shape.fingerprint()), before.fingerprint());
/// ```
///
/// The shapes are found at open, by running `Deserialize` on made-up values: conversions of `#[serde(from)]` and
/// `#[serde(try_from)]` run, too. A type whose conversions do not bear such values states `shape none`: the types are
/// then not compared. The same holds for `serde_key! { shape none }`.
/// ```
/// use ensile_objects::{Persistent, serde_codec};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Serialize, Deserialize)]
/// #[serde(from = "u32", into = "u32")]
/// struct Year(u32);
///
/// impl From<u32> for Year {
///     fn from(year: u32) -> Self {
///         assert!(year >= 1900, "a year");
///         Self(year)
///     }
/// }
/// # impl From<Year> for u32 {
/// #     fn from(year: Year) -> u32 { year.0 }
/// # }
///
/// impl Persistent for Year {
///     type Operation = Year;
///     type Output = ();
///     serde_codec! { object 1, operation 1, shape none }
///
///     fn apply(year: &mut Option<Self>, to: &Year) {
///         *year = Some(to.clone());
///     }
/// }
/// # assert_eq!((Year::shape(), Year::operation_shape()), (None, None));
/// # let mut bytes = Vec::new();
/// # Year(1997).encode(&mut bytes);
/// # assert_eq!(Year::decode(1, &bytes).map(|year| year.0), Ok(1997));
/// ```
#[macro_export]
macro_rules! serde_codec {
    (
        object $object:literal $(or $older:expr)?,
        operation $operation:literal $(or $older_operation:expr)?,
        shape none $(,)?
    ) => {
        $crate::serde_codec!(@bytes $object $(or $older)?, $operation $(or $older_operation)?);
    };
    (
        object $object:literal $(or $older:expr)?,
        operation $operation:literal $(or $older_operation:expr)?
        $(, former_names [$($former:expr),* $(,)?])? $(,)?
    ) => {
        fn shape() -> ::std::option::Option<$crate::TypeShape> {
            $crate::codec::shape_of::<Self>()$(.map(|shape| shape.with_former_names([$($former),*])))?
        }

        fn operation_shape() -> ::std::option::Option<$crate::TypeShape> {
            $crate::codec::shape_of::<Self::Operation>()
                $(.map(|shape| shape.with_former_names([$($former),*])))?
        }

        $crate::serde_codec!(@bytes $object $(or $older)?, $operation $(or $older_operation)?);
    };
    (
        @bytes $object:literal $(or $older:expr)?, $operation:literal $(or $older_operation:expr)?
    ) => {
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
///
/// A renamed type gives its former names: `serde_key! { former_names ["Place"] }`. A type whose `Deserialize` must not
/// run on made-up values states no shape, and is not compared:
/// ```
/// # use ensile_objects::{ObjectKey, serde_key};
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// struct Seat(u32);
///
/// impl ObjectKey for Seat {
///     serde_key! { shape none }
/// }
/// # let mut bytes = Vec::new();
/// # Seat(300).encode(&mut bytes);
/// # assert_eq!((Seat::shape(), Seat::decode(&bytes)), (None, Ok(Seat(300))));
/// ```
#[macro_export]
macro_rules! serde_key {
    (shape none) => {
        $crate::serde_key!(@bytes);
    };
    ($(former_names [$($former:expr),* $(,)?])?) => {
        fn shape() -> ::std::option::Option<$crate::TypeShape> {
            $crate::codec::shape_of::<Self>()$(.map(|shape| shape.with_former_names([$($former),*])))?
        }

        $crate::serde_key!(@bytes);
    };
    (@bytes) => {
        fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
            $crate::codec::encode(self, out);
        }

        fn decode(bytes: &[u8]) -> $crate::CodecResult<Self> {
            $crate::codec::decode(bytes)
        }
    };
}
