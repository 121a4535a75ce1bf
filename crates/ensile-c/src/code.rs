//! Outcome of a call: a code that tells the caller's next action, and a text.
//!
//! Invariant: A message ends with a zero byte, and a long message is cut between characters.
//!
//! Neighbours: `boundary` returns codes and writes texts; the header declares both.

use std::ffi::CStr;

use ensile_durability::{DurabilityError, ErrorKind};
use ensile_objects::ObjectsError;

/// Length of a message in bytes, including the zero.
pub const MESSAGE_BYTES: usize = 1020;

/// Declares the codes: number, and name in the header, in lower case and without `ENSILE_`.
macro_rules! codes {
    ($($code:ident = $number:literal, $name:literal;)*) => {
        /// `ensile_code`. The header explains each code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        #[expect(missing_docs, reason = "the header has them")]
        pub enum Code {
            $($code = $number,)*
        }

        impl Code {
            /// All codes, in the order of their numbers.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$code),*];

            /// The name in the header, in lower case and without `ENSILE_`.
            #[must_use]
            pub const fn name(self) -> &'static CStr {
                match self {
                    $(Self::$code => $name,)*
                }
            }
        }
    };
}

codes! {
    Ok = 0, c"ok";
    BlockFull = 1, c"block_full";
    Invalid = 2, c"invalid";
    AbiMismatch = 3, c"abi_mismatch";
    InCallBack = 4, c"in_call_back";
    Closed = 5, c"closed";
    TryAgain = 6, c"try_again";
    Stopped = 7, c"stopped";
    NotDurableYet = 8, c"not_durable_yet";
    OutcomeUnknown = 9, c"outcome_unknown";
    CheckpointFailed = 10, c"checkpoint_failed";
    WrongFolder = 11, c"wrong_folder";
    Damaged = 12, c"damaged";
    NotUnderstood = 13, c"not_understood";
    Forked = 14, c"forked";
    Panicked = 15, c"panicked";
    Failed = 16, c"failed";
    Poisoned = 17, c"poisoned";
}

impl Code {
    /// The code with this number; `None` for any other number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// `ensile_error`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ErrorText {
    /// Number of the [`Code`].
    pub code: i32,
    /// Reason and remedy, in UTF-8 with a final zero.
    pub message: [u8; MESSAGE_BYTES],
}

impl ErrorText {
    /// An empty message with [`Code::Ok`].
    #[must_use]
    pub const fn new() -> Self {
        Self { code: Code::Ok as i32, message: [0; MESSAGE_BYTES] }
    }

    /// Sets the code, and the message as far as it fits.
    pub(crate) fn set(&mut self, code: Code, message: &str) {
        self.code = code as i32;
        let kept = ensile_base::text::cut(message, MESSAGE_BYTES - 1);
        self.message[..kept.len()].copy_from_slice(kept.as_bytes());
        self.message[kept.len()] = 0;
    }

    /// The message without the zero.
    #[must_use]
    pub fn text(&self) -> String {
        let end = self.message.iter().position(|byte| *byte == 0).unwrap_or(MESSAGE_BYTES);
        String::from_utf8_lossy(&self.message[..end]).into_owned()
    }
}

impl Default for ErrorText {
    fn default() -> Self {
        Self::new()
    }
}

/// A code and its text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Failure of a wrong call.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }
}

impl From<ObjectsError> for Failure {
    fn from(error: ObjectsError) -> Self {
        let code = match &error {
            ObjectsError::Storage(error) => code_of(error.cause()),
            ObjectsError::Misuse(_) | ObjectsError::NotLogged | ObjectsError::KeyTooLong { .. } => {
                Code::Invalid
            }
            ObjectsError::InCallBack => Code::InCallBack,
            ObjectsError::DiskFull(_) => Code::TryAgain,
            ObjectsError::NotReplayed { .. } => Code::NotUnderstood,
            ObjectsError::PoisonedUntilOpen { .. } | ObjectsError::PoisonedUnlogged { .. } => Code::Poisoned,
            _ => Code::Failed,
        };
        Self::new(code, in_c(error.to_string()))
    }
}

impl From<DurabilityError> for Failure {
    fn from(error: DurabilityError) -> Self {
        Self::new(code_of(&error), in_c(error.to_string()))
    }
}

/// Names in messages, each with its name in this interface. A C program may have neither the Rust call nor the command
/// `ensile` that a message names.
const NAMES_IN_C: [(&str, &str); 4] = [
    ("`ensile adopt", "ensile_folder_adopt"),
    ("`open_fenced`", "ENSILE_OPEN_FENCED"),
    ("`stop_shipping`", "ENSILE_STOP_SHIPPING"),
    ("`mark_lives`", "ENSILE_MARK_LIVES"),
];

/// The message, with the names of this interface added.
fn in_c(message: String) -> String {
    let named = NAMES_IN_C.iter().filter(|(name, _)| message.contains(name));
    let own: Vec<_> = named.map(|(name, own)| format!("{} is {own}", name.trim_matches('`'))).collect();
    if own.is_empty() { message } else { format!("{message} (in C: {})", own.join(", ")) }
}

/// The code that tells the caller's next action.
fn code_of(error: &DurabilityError) -> Code {
    use DurabilityError as E;
    match error {
        E::TooLarge { .. } | E::Config(_) => Code::Invalid,
        E::InCallBack => Code::InCallBack,
        E::DiskFull(_) | E::EpochsEnded(_) | E::NoRoomToOpen(_) | E::InUse { .. } | E::Disk(_) => {
            Code::TryAgain
        }
        E::Stopped(_) | E::Closed(_) | E::Removed(_) => Code::Stopped,
        E::NotDurableYet(_) | E::NotProven { .. } => Code::NotDurableYet,
        E::OutcomeUnknown(_) => Code::OutcomeUnknown,
        E::CheckpointFailed(_) => Code::CheckpointFailed,
        E::NotOurs { .. }
        | E::FolderMissing { .. }
        | E::NotMounted { .. }
        | E::Copied { .. }
        | E::ForeignFolder { .. }
        | E::NotADatabase { .. }
        | E::OtherEntries { .. }
        | E::OtherApplication { .. }
        | E::OtherType(_)
        | E::FencedFolder { .. }
        | E::ShipsElsewhere { .. } => Code::WrongFolder,
        E::Damaged { .. } => Code::Damaged,
        E::Replay { .. } | E::Unknown { .. } => Code::NotUnderstood,
        E::Forked => Code::Forked,
        E::NotOpened { kind, .. } => match kind {
            ErrorKind::Retry => Code::TryAgain,
            ErrorKind::WrongFolder => Code::WrongFolder,
            // Changes of an object without a marked creation (O10).
            ErrorKind::FixCall => Code::NotUnderstood,
            _ => Code::Failed,
        },
        _ => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, ErrorText, MESSAGE_BYTES};

    #[test]
    fn a_long_message_is_cut_between_characters_and_a_short_one_behind_it_is_whole() {
        let mut text = ErrorText::new();
        text.set(Code::Failed, &format!("{}ü", "x".repeat(MESSAGE_BYTES - 2)));
        assert_eq!(text.text(), "x".repeat(MESSAGE_BYTES - 2));
        text.set(Code::Invalid, "ü");
        assert_eq!((text.code, text.text()), (2, "ü".to_owned()));
    }

    #[test]
    fn codes_stand_at_their_numbers() {
        for (number, code) in (0..).zip(Code::ALL) {
            assert_eq!((code as i32, Code::from_number(number)), (number, Some(code)));
        }
        assert_eq!((Code::from_number(-1), Code::from_number(18)), (None, None));
    }
}
