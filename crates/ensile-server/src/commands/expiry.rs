//! Expiries: times from which keys are absent, and the commands that set and show the times.
//!
//! Times are absolute, in milliseconds since 1970. A time in the past removes the key.
//!
//! Neighbours: `strings` reads expiries as options; [`crate::model::Keyspace`] keeps the order of times.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::whole;
use super::{CommandError, CommandResult, DataCall, shown_text};
use crate::model::stored_value::{NewValue, ValueHeader};

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
}

/// Option of a request for the expiry. Its number is checked when all options are read, as in redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExpiryArgument<'r> {
    #[default]
    Absent,
    /// The command's word without a number: `KEEPTTL` of `SET`, `PERSIST` of `GETEX`.
    Word,
    Time(TimeForm, &'r [u8]),
}

impl<'r> ExpiryArgument<'r> {
    /// Reads the option at this argument, and returns the number of the option's arguments. An option may be repeated,
    /// and excludes the other options.
    pub(super) fn read(
        &mut self,
        call: &DataCall<'r, '_>,
        at: usize,
        word: &str,
    ) -> Result<usize, CommandError> {
        if is_called(call.argument(at), word) && matches!(self, Self::Absent | Self::Word) {
            *self = Self::Word;
            return Ok(1);
        }
        let form = TimeForm::of_option(call.argument(at)).filter(|form| match self {
            Self::Absent => true,
            Self::Word => false,
            Self::Time(before, _) => before == form,
        });
        match (form, call.request.get(at + 1)) {
            (Some(form), Some(number)) => {
                *self = Self::Time(form, number);
                Ok(2)
            }
            _ => Err(CommandError::Syntax),
        }
    }

    /// The change of the expiry, given the changes of a request without the option and of the command's word.
    pub(super) fn change(
        self,
        without: ExpiryOption,
        of_word: ExpiryOption,
        now_millis: i64,
        command: &'static str,
    ) -> Result<ExpiryOption, CommandError> {
        match self {
            Self::Absent => Ok(without),
            Self::Word => Ok(of_word),
            Self::Time(form, number) => {
                form.positive_millis(number, now_millis, command).map(ExpiryOption::At)
            }
        }
    }
}

/// Unit and begin of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeForm {
    /// True if the number counts seconds, else milliseconds.
    is_seconds: bool,
    /// True if the number counts from 1970, else from now.
    is_absolute: bool,
}

impl TimeForm {
    /// Seconds from now.
    pub(super) const SECONDS: Self = Self { is_seconds: true, is_absolute: false };
    /// Milliseconds from now.
    pub(super) const MILLIS: Self = Self { is_seconds: false, is_absolute: false };

    fn of_option(option: &[u8]) -> Option<Self> {
        let forms = [
            ("EX", Self::SECONDS),
            ("PX", Self::MILLIS),
            ("EXAT", Self { is_seconds: true, is_absolute: true }),
            ("PXAT", Self { is_seconds: false, is_absolute: true }),
        ];
        forms.into_iter().find(|(name, _)| is_called(option, name)).map(|(_, form)| form)
    }

    /// The time of a number that must be positive, in milliseconds since 1970.
    pub(super) fn positive_millis(
        self,
        number: &[u8],
        now_millis: i64,
        command: &'static str,
    ) -> Result<i64, CommandError> {
        let number = whole(number)?;
        let millis = if number > 0 { self.millis(number, now_millis) } else { None };
        millis.ok_or(CommandError::Expiry(command))
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
    fn read(call: &DataCall<'_, '_>) -> Result<Self, CommandError> {
        let mut all = Self::default();
        for word in call.arguments(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => all.absent = true,
                b"XX" => all.present = true,
                b"GT" => all.greater = true,
                b"LT" => all.less = true,
                _ => return Err(CommandError::UnknownOption(shown_text(word))),
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
pub(crate) fn expire(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let (form, command) = TimeForm::of_command(call.argument(0));
    let conditions = ExpireConditions::read(call)?;
    let number = whole(call.argument(2))?;
    let millis = form.millis(number, call.keyspace.now_millis).ok_or(CommandError::Expiry(command))?;
    let slot = call.keyspace.slot(key)?;
    let before = slot.header.map(|header| header.expiry_millis);
    let is_done = before.is_some_and(|before| conditions.hold(before, millis));
    if is_done {
        if millis <= call.keyspace.now_millis {
            call.keyspace.remove(&slot, key)?;
        } else if let Some(value) = call.keyspace.get(key)? {
            let header = ValueHeader { expiry_millis: Some(millis), ..value.header };
            call.keyspace.write(&slot, key, NewValue { header, bytes: &value.bytes })?;
        }
    }
    reply.integer(i64::from(is_done));
    Ok(())
}

/// `PERSIST key`
pub(crate) fn persist(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let slot = call.keyspace.slot(key)?;
    let is_expiring = slot.header.is_some_and(|header| header.expiry_millis.is_some());
    if is_expiring && let Some(value) = call.keyspace.get(key)? {
        let header = ValueHeader { expiry_millis: None, ..value.header };
        call.keyspace.write(&slot, key, NewValue { header, bytes: &value.bytes })?;
    }
    reply.integer(i64::from(is_expiring));
    Ok(())
}

/// `TTL key`, and `PTTL`, `EXPIRETIME`, `PEXPIRETIME`: -1 for a key that stays, -2 for an absent key.
pub(crate) fn time_left(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let name = call.argument(0);
    let is_millis = name.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'P'));
    let is_absolute = name.len() >= "EXPIRETIME".len();
    let now = call.keyspace.now_millis;
    let value = call.keyspace.summary(call.argument(1))?;
    reply.integer(match value.map(|value| value.header.expiry_millis) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry)) => {
            let millis = if is_absolute { expiry } else { expiry.saturating_sub(now).max(0) };
            if is_millis { millis } else { millis.saturating_add(500) / 1000 }
        }
    });
    Ok(())
}
