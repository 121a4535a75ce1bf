//! Values of serde types, in postcard's format.
//!
//! The format is postcard 1: compact, not self-describing, so a change of the type is a new encoding.
//!
//! Neighbours: [`super::value`](super) has the trait.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CodecError, Value, ValueBuffer};

/// A value of a serde type, for types of other crates and generic types.
///
/// The catalogue only stores the format postcard and cannot distinguish such types. For types of your own prefer
/// [`serde_value!`](crate::serde_value), which gives each type a name.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use std::collections::BTreeMap;
/// use ensile::codec::ValueBuffer;
/// use ensile::{Serde, Value};
///
/// let tags = Serde(BTreeMap::from([("colour".to_string(), 3u8)]));
/// let mut bytes = Vec::new();
/// tags.encode(&mut ValueBuffer::new(&mut bytes));
/// assert_eq!(Serde::decode(&bytes), Ok(tags));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Serde<T>(
    /// The value.
    pub T,
);

impl<T: Serialize + DeserializeOwned> Value for Serde<T> {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        encode_postcard(&self.0, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        decode_postcard(bytes).map(Self)
    }

    fn type_name() -> String {
        "postcard".to_string()
    }
}

/// Appends `value` in postcard's format, for [`serde_value!`](crate::serde_value).
///
/// # Panics
/// If the type's `Serialize` fails, or needs a sequence of unknown length, which the format does not have. Such a
/// mistake in the type fails for every value.
pub fn encode_postcard<T: Serialize + ?Sized>(value: &T, out: &mut ValueBuffer<'_>) {
    postcard::to_extend(value, out.reborrow()).expect("the type serializes to postcard");
}

/// The value encoded by all of `bytes` in postcard's format, for [`serde_value!`](crate::serde_value).
///
/// # Errors
/// `bytes` are not the encoding of any value, or continue after an encoding.
pub fn decode_postcard<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(CodecError::new(format!("{} bytes behind the value", rest.len()))),
        Err(error) => Err(CodecError::new(error.to_string())),
    }
}

/// Makes a serde type a value, in postcard's format, with a name for the catalogue.
///
/// Choose a new name for every change of the type: the format is not self-describing.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Value;
/// use ensile::codec::ValueBuffer;
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Customer {
///     name: String,
///     tags: Vec<String>,
/// }
/// ensile::serde_value!(Customer, "Customer v1");
///
/// let customer = Customer { name: "Ada".into(), tags: vec!["first".into()] };
/// let mut bytes = Vec::new();
/// customer.encode(&mut ValueBuffer::new(&mut bytes));
/// assert_eq!(Customer::decode(&bytes), Ok(customer));
/// ```
#[macro_export]
macro_rules! serde_value {
    ($type:ty, $name:expr) => {
        impl $crate::codec::Value for $type {
            fn encode(&self, out: &mut $crate::codec::ValueBuffer<'_>) {
                $crate::codec::value::encode_postcard(self, out);
            }

            fn decode(bytes: &[u8]) -> ::std::result::Result<Self, $crate::codec::CodecError> {
                $crate::codec::value::decode_postcard(bytes)
            }

            fn type_name() -> ::std::string::String {
                ::std::string::ToString::to_string($name)
            }
        }
    };
}
