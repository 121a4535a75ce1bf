//! The debug mode: every operation is also applied to a copy of the object, made from bytes as recovery makes objects.
//!
//! Neighbours: `change_steps` makes the copy before an operation, and compares; `check` checks a whole folder.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_durability::UserCode;

use super::persistent::{CodecResult, Persistent};

/// Copies of an object and of an operation on the object, made from bytes.
pub(super) struct Checked<T: Persistent>(CodecResult<(Option<T>, T::Operation)>);

impl<T: Persistent> Checked<T> {
    pub(super) fn new(object: Option<&T>, operation: &T::Operation) -> Self {
        let copied = catch_unwind(AssertUnwindSafe(|| {
            let object = object.map(|object| T::decode(T::VERSION, &bytes_of(object))).transpose()?;
            let mut bytes = Vec::new();
            T::encode_operation(operation, &mut bytes);
            Ok((object, T::decode_operation(T::OPERATION_VERSION, &bytes)?))
        }));
        Self(copied.unwrap_or_else(|_| Err("a codec panicked".into())))
    }

    /// Applies the operation to the copy. Returns the first difference from the object; `None` without a difference.
    pub(super) fn difference(self, object: Option<&T>) -> Option<Box<str>> {
        let (mut copy, operation) = match self.0 {
            Ok(copied) => copied,
            Err(why) => return Some(format!("what it encodes to cannot be decoded: {why}").into()),
        };
        let again = catch_unwind(AssertUnwindSafe(|| T::apply(&mut copy, &operation)));
        match again {
            Err(_) => Some("applied again, to a copy, it panics".into()),
            Ok(_) => difference_of(object, copy.as_ref()),
        }
    }
}

/// First difference between an object and its second outcome; `None` without a difference.
pub(super) fn difference_of<T: Persistent>(object: Option<&T>, again: Option<&T>) -> Option<Box<str>> {
    let _user_code = UserCode::begin();
    let encode = || (object.map(bytes_of), again.map(bytes_of));
    match catch_unwind(AssertUnwindSafe(encode)) {
        Err(_) => Some("it cannot be encoded: that panics".into()),
        Ok((Some(object), Some(again))) => first_difference(&object, &again),
        Ok((None, None)) => None,
        Ok((Some(_), None)) => Some("applied again, it leaves no object".into()),
        Ok((None, Some(_))) => Some("it leaves no object; applied again, it does".into()),
    }
}

fn bytes_of<T: Persistent>(object: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    object.encode(&mut bytes);
    bytes
}

/// Text of the first different byte; `None` for equal bytes.
pub(crate) fn first_difference(object: &[u8], copy: &[u8]) -> Option<Box<str>> {
    if object == copy {
        return None;
    }
    let at = object.iter().zip(copy).take_while(|(one, other)| one == other).count();
    let say = |bytes: &[u8]| match bytes.get(at) {
        Some(byte) => byte.to_string(),
        None => "not there".to_owned(),
    };
    let (first, again) = (say(object), say(copy));
    Some(format!("byte {at} of the object's encoding is {first}; applied again, it is {again}").into())
}
