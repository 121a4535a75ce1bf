//! Expiries: times from which keys are absent, and the commands that set and show the times.
//!
//! Times are absolute, in milliseconds since 1970. A time in the past removes the key.
//!
//! Neighbours: `strings` reads expiries as options; [`crate::model::Keyspace`] keeps the order of times.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::whole;
use super::{Call, CommandError, CommandResult};
use crate::model::stored_value::{Header, NewValue};

/// Change of a key's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiryOption {
    /// The key stays.
    Remove,
    /// The expiry is as before.
    Keep,
    /// The key is absent from this time on, in milliseconds since 1970.
    At(i64),
}

impl ExpiryOption {
    /// The expiry after the change, in milliseconds since 1970.
    pub(super) fn apply(self, before_millis: Option<i64>) -> Option<i64> {
        match self {
            Self::Remove => None,
            Self::Keep => before_millis,
            Self::At(millis) => Some(millis),
        }
    }

    /// The expiry of an option (`EX`, `PX`, `EXAT`, `PXAT`) with its number, which must be positive.
    pub(super) fn new(
        option: &str,
        number: &[u8],
        now_millis: i64,
        command: &'static str,
    ) -> Result<Self, CommandError> {
        let number = whole(number)?;
        let time = TimeForm::of_option(option).ok_or(CommandError::Syntax)?;
        if number <= 0 {
            return Err(CommandError::Expiry(command));
        }
        time.millis(number, now_millis).map(Self::At).ok_or(CommandError::Expiry(command))
    }
}

/// The expiry option of a request at this argument; its number follows.
pub(super) fn expiry_option(
    call: &Call<'_, '_>,
    at: usize,
    command: &'static str,
) -> Result<ExpiryOption, CommandError> {
    let option = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|option| is_called(call.argument(at), option));
    match (option, call.request.get(at + 1)) {
        (Some(option), Some(number)) => ExpiryOption::new(option, number, call.keyspace.now_millis, command),
        _ => Err(CommandError::Syntax),
    }
}

/// Unit and begin of a time.
#[derive(Clone, Copy, Debug)]
struct TimeForm {
    /// True if the number counts seconds, else milliseconds.
    is_seconds: bool,
    /// True if the number counts from 1970, else from now.
    is_absolute: bool,
}

impl TimeForm {
    fn of_option(option: &str) -> Option<Self> {
        let (is_seconds, is_absolute) = match option {
            "EX" => (true, false),
            "PX" => (false, false),
            "EXAT" => (true, true),
            "PXAT" => (false, true),
            _ => return None,
        };
        Some(Self { is_seconds, is_absolute })
    }

    /// The form of the number of `EXPIRE`, `PEXPIRE`, `EXPIREAT` or `PEXPIREAT`, and the command's name for errors.
    fn of_command(name: &[u8]) -> (Self, &'static str) {
        let forms = [
            ("EXPIRE", "expire", true, false),
            ("PEXPIRE", "pexpire", false, false),
            ("EXPIREAT", "expireat", true, true),
            ("PEXPIREAT", "pexpireat", false, true),
        ];
        let found = forms.into_iter().find(|(command, ..)| is_called(name, command));
        debug_assert!(found.is_some(), "the table names these commands");
        let (_, text, is_seconds, is_absolute) = found.unwrap_or(forms[0]);
        (Self { is_seconds, is_absolute }, text)
    }

    /// The time in milliseconds since 1970; `None` beyond the range of times.
    fn millis(self, number: i64, now_millis: i64) -> Option<i64> {
        let millis = if self.is_seconds { number.checked_mul(1000)? } else { number };
        if self.is_absolute { Some(millis) } else { millis.checked_add(now_millis) }
    }
}

/// Condition of `EXPIRE` on the expiry before.
#[derive(Clone, Copy, Default)]
struct ExpireConditions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl ExpireConditions {
    fn of(call: &Call<'_, '_>) -> Result<Self, CommandError> {
        let mut all = Self::default();
        for word in call.arguments(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => all.absent = true,
                b"XX" => all.present = true,
                b"GT" => all.greater = true,
                b"LT" => all.less = true,
                _ => return Err(CommandError::Text("Unsupported option")),
            }
        }
        if all.absent && (all.present || all.greater || all.less) {
            return Err(CommandError::Text(
                "NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if all.greater && all.less {
            return Err(CommandError::Text("GT and LT options at the same time are not compatible"));
        }
        Ok(all)
    }

    /// True if the new expiry may take the place of the old one. A key that stays has the latest of all expiries.
    fn hold(self, before_millis: Option<i64>, millis: i64) -> bool {
        !(self.absent && before_millis.is_some()
            || self.present && before_millis.is_none()
            || self.greater && before_millis.is_none_or(|before| millis <= before)
            || self.less && before_millis.is_some_and(|before| millis >= before))
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`, and `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`
pub(super) fn expire(call: &mut Call<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let (form, command) = TimeForm::of_command(call.argument(0));
    let number = whole(call.argument(2))?;
    let conditions = ExpireConditions::of(call)?;
    let millis = form.millis(number, call.keyspace.now_millis).ok_or(CommandError::Expiry(command))?;
    let slot = call.keyspace.slot(key)?;
    let before = slot.value().map(|value| value.header.expiry_millis);
    let is_done = before.is_some_and(|before| conditions.hold(before, millis));
    if is_done {
        if millis <= call.keyspace.now_millis {
            call.keyspace.remove(&slot, key)?;
        } else if let Some(value) = slot.value() {
            let header = Header { expiry_millis: Some(millis), ..value.header };
            call.keyspace.write(&slot, key, NewValue { header, bytes: &value.bytes })?;
        }
    }
    reply.integer(i64::from(is_done));
    Ok(())
}

/// `PERSIST key`
pub(super) fn persist(call: &mut Call<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let slot = call.keyspace.slot(key)?;
    let expiring = slot.value().filter(|value| value.header.expiry_millis.is_some());
    if let Some(value) = expiring {
        let header = Header { expiry_millis: None, ..value.header };
        call.keyspace.write(&slot, key, NewValue { header, bytes: &value.bytes })?;
    }
    reply.integer(i64::from(expiring.is_some()));
    Ok(())
}

/// `TTL key`, and `PTTL`, `EXPIRETIME`, `PEXPIRETIME`: -1 for a key that stays, -2 for an absent key.
pub(super) fn time_left(call: &mut Call<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let name = call.argument(0);
    let is_millis = name.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'P'));
    let is_absolute = name.len() >= "EXPIRETIME".len();
    let now = call.keyspace.now_millis;
    let value = call.keyspace.get(call.argument(1))?;
    reply.integer(match value.map(|value| value.header.expiry_millis) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry)) => {
            let millis = if is_absolute { expiry } else { (expiry - now).max(0) };
            match (is_millis, is_absolute) {
                (true, _) => millis,
                (false, true) => millis / 1000,
                (false, false) => (millis + 500) / 1000,
            }
        }
    });
    Ok(())
}
