//! Bodies of log entries and of checkpoint entries (`docs/internals/formats/objects.md`).
//!
//! ```text
//! form 1 | key's length 2 | version 2 | key | (of a piece: total 8, offset 8) | bytes
//! ```
//! Numbers are little-endian. The TID stands in the entry's frame.
//!
//! Neighbours: `runtime` appends bodies; `collection` and `application` read the bodies at recovery.

use ensile_base::limits::KEY_BYTES_MAX;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize, "a key's length has two bytes");

/// Bytes before the key.
const HEAD_BYTES: usize = 5;
/// Bytes of [`call_head`]: the head, the object's number as key, and the operation's number.
pub(crate) const CALL_HEAD_BYTES: usize = HEAD_BYTES + size_of::<u64>() + size_of::<u32>();
/// Bytes of a piece's place in its object.
const PIECE_PLACE_BYTES: usize = 16;
const _: () = assert!(PIECE_PLACE_BYTES == 2 * size_of::<u64>(), "a total and an offset");
const _: () = assert!(HEAD_BYTES == 1 + 2 * size_of::<u16>(), "a form, a key's length and a version");
/// Least number of a form that stands in checkpoints.
const CHECKPOINT_FORMS: u8 = 16;
const _: () = assert!(BodyForm::Call(Some(ObjectLife::Removal)).number() < CHECKPOINT_FORMS);

/// Reason for the refusal of a log entry in a checkpoint.
pub(crate) const OF_LOG: &str = "an entry of the log stands in a checkpoint";
/// Reason for the refusal of a checkpoint entry in the log.
pub(crate) const OF_CHECKPOINT: &str = "an entry of a checkpoint stands in the log";

/// Checks that this program, which knows versions up to `newest`, knows a version.
pub(crate) fn check_version(version: u16, newest: u16, what: &str) -> Result<(), Box<str>> {
    if version > newest {
        let why = format!("{what} is of version {version}, and this program knows versions up to {newest}");
        return Err(why.into());
    }
    Ok(())
}

/// Error for an older version for which an application has no up-cast.
pub(crate) fn no_up_cast(version: u16, newest: u16) -> Box<str> {
    format!("it is of version {version}; this program writes version {newest}, and has no up-cast from that")
        .into()
}

/// Meaning of an application's operation for the existence of its object
/// ([`ObjectsBuilder::mark_lives`](crate::ObjectsBuilder::mark_lives)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectLife {
    /// The operation makes the object. It sets the whole state and depends on no earlier state, so an object may have
    /// the number already.
    Creation,
    /// The operation changes an existing object.
    Change,
    /// The operation removes an existing object.
    Removal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PiecePlace {
    /// Size of the whole object in bytes.
    pub(crate) total: u64,
    /// Offset of the piece in bytes.
    pub(crate) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// In the log: an operation on the object.
    Operation,
    /// In the log: a whole value of the object.
    Value,
    /// In the log: a removal of the object.
    Removal,
    /// In the log: an operation with its list of parameters, of the floor form; with the mark of the object's life, if
    /// the application marks lives.
    Call(Option<ObjectLife>),
    /// In a checkpoint: the whole object.
    Whole,
    /// In a checkpoint: the absence of the object.
    Absent,
    /// In a checkpoint: a piece of the object.
    Piece(PiecePlace),
}

impl BodyForm {
    const fn number(self) -> u8 {
        match self {
            Self::Operation => 1,
            Self::Value => 2,
            Self::Removal => 3,
            Self::Call(None) => 4,
            Self::Call(Some(ObjectLife::Creation)) => 5,
            Self::Call(Some(ObjectLife::Change)) => 6,
            Self::Call(Some(ObjectLife::Removal)) => 7,
            Self::Whole => 16,
            Self::Absent => 17,
            Self::Piece(_) => 18,
        }
    }

    /// True for entries of the log, false for entries of a checkpoint.
    pub(crate) const fn is_of_log(self) -> bool {
        matches!(self, Self::Operation | Self::Value | Self::Removal | Self::Call(_))
    }

    const fn place_bytes(self) -> usize {
        if matches!(self, Self::Piece(_)) { PIECE_PLACE_BYTES } else { 0 }
    }
}

/// Appends the body of a log entry. The closures append key and bytes, and change nothing before.
///
/// # Errors
/// Length of a key above `KEY_BYTES_MAX`; `bytes` is not called then.
#[inline]
pub(crate) fn encode_body(
    out: &mut Vec<u8>,
    form: BodyForm,
    version: u16,
    key: impl FnOnce(&mut Vec<u8>),
    bytes: impl FnOnce(&mut Vec<u8>),
) -> Result<(), usize> {
    debug_assert_eq!(form.place_bytes(), 0, "pieces stand in checkpoints only");
    let begin = out.len();
    let key_begin = begin + HEAD_BYTES;
    out.extend_from_slice(&[0; HEAD_BYTES]);
    key(out);
    let key_bytes = out.len().checked_sub(key_begin).expect("a key's encoder only appends");
    if key_bytes > KEY_BYTES_MAX {
        return Err(key_bytes);
    }
    bytes(out);
    assert!(out.len() >= key_begin + key_bytes, "an encoder only appends");
    let [key_low, key_high] = (key_bytes as u16).to_le_bytes();
    let [version_low, version_high] = version.to_le_bytes();
    let head = [form.number(), key_low, key_high, version_low, version_high];
    out[begin..key_begin].copy_from_slice(&head);
    debug_assert!(form.is_of_log(), "workers log, and checkpoints encode by `ObjectBody`");
    Ok(())
}

/// Begin of the body of an application's operation: all but its parameters.
#[inline]
pub(crate) fn call_head(
    life: Option<ObjectLife>,
    version: u16,
    object: u64,
    operation: u32,
) -> [u8; CALL_HEAD_BYTES] {
    let mut head = [0; CALL_HEAD_BYTES];
    head[0] = BodyForm::Call(life).number();
    head[1..3].copy_from_slice(&(size_of::<u64>() as u16).to_le_bytes());
    head[3..5].copy_from_slice(&version.to_le_bytes());
    head[5..13].copy_from_slice(&object.to_le_bytes());
    head[13..].copy_from_slice(&operation.to_le_bytes());
    debug_assert_eq!(
        ObjectBody::decode(&head).map(|body| (body.form, body.version, body.key.len())),
        Ok((BodyForm::Call(life), version, size_of::<u64>())),
        "a call is read as any body"
    );
    head
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectBody<'b> {
    pub(crate) form: BodyForm,
    /// Version of the encoding of `bytes`.
    pub(crate) version: u16,
    pub(crate) key: &'b [u8],
    pub(crate) bytes: &'b [u8],
}

impl<'b> ObjectBody<'b> {
    /// The whole object of a key, in this version's encoding.
    pub(crate) fn whole(version: u16, key: &'b [u8], bytes: &'b [u8]) -> Self {
        Self { form: BodyForm::Whole, version, key, bytes }
    }

    pub(crate) fn absent(key: &'b [u8]) -> Self {
        Self { form: BodyForm::Absent, version: 0, key, bytes: &[] }
    }

    pub(crate) fn len(&self) -> usize {
        HEAD_BYTES + self.key.len() + self.form.place_bytes() + self.bytes.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.key.len() <= KEY_BYTES_MAX, "a key's length was checked");
        debug_assert!(self.form != BodyForm::Absent || self.bytes.is_empty(), "an absence has no bytes");
        let begin = out.len();
        out.push(self.form.number());
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(self.key);
        if let BodyForm::Piece(PiecePlace { total, offset }) = self.form {
            out.extend_from_slice(&total.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out.extend_from_slice(self.bytes);
        debug_assert_eq!(self.form.is_of_log(), self.form.number() < CHECKPOINT_FORMS);
        assert_eq!(out.len() - begin, self.len(), "a block counts the encoded bytes by `len`");
    }

    /// Reads a body. The error is the fault of the bytes.
    pub(crate) fn decode(body: &'b [u8]) -> Result<Self, &'static str> {
        let short = "an entry ends before its key";
        let (head, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
        let [form, key_low, key_high, version_low, version_high] = *head;
        let key_bytes = usize::from(u16::from_le_bytes([key_low, key_high]));
        let (key, mut bytes) = rest.split_at_checked(key_bytes).ok_or(short)?;
        let number = form;
        let form = match number {
            1 => BodyForm::Operation,
            2 => BodyForm::Value,
            3 => BodyForm::Removal,
            4 => BodyForm::Call(None),
            5 => BodyForm::Call(Some(ObjectLife::Creation)),
            6 => BodyForm::Call(Some(ObjectLife::Change)),
            7 => BodyForm::Call(Some(ObjectLife::Removal)),
            16 => BodyForm::Whole,
            17 => BodyForm::Absent,
            18 => {
                let (place, piece) =
                    bytes.split_first_chunk::<PIECE_PLACE_BYTES>().ok_or("a piece without its place")?;
                bytes = piece;
                let (total, offset) = place.split_at(size_of::<u64>());
                let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of a place"));
                BodyForm::Piece(PiecePlace { total: number(total), offset: number(offset) })
            }
            _ => return Err("its form is not known"),
        };
        debug_assert_eq!(form.number(), number, "each form is read as it is written");
        let version = u16::from_le_bytes([version_low, version_high]);
        let decoded = Self { form, version, key, bytes };
        debug_assert_eq!(decoded.len(), body.len(), "a body is read to its end");
        Ok(decoded)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
