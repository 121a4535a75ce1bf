//! Descriptions of commands: the number of arguments, the keys, and the treatment between `MULTI` and `EXEC`.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) has a table of commands; `execution` finds the command of a
//! request; `ensile-server` checks the rights of users by the keys.

use ensile_resp::{Request, integer};

/// Description of a command for clients that ask (`COMMAND`), and for the server that checks requests.
#[derive(Clone, Copy, Debug)]
pub struct CommandInfo {
    /// Name in capitals.
    pub name: &'static str,
    /// Number of arguments, the name among them; a negative number is a minimum.
    pub arity: i64,
    /// `readonly` or `write`, and further flags of redis.
    pub flags: &'static [&'static str],
    /// Number of the first argument that is a key, of the last (-1 is the request's last), and the step; zeros without
    /// keys.
    pub keys: (i64, i64, i64),
    /// Keys beside `keys`.
    pub more_keys: MoreKeys,
    /// Treatment between `MULTI` and `EXEC`.
    pub while_queueing: WhileQueueing,
    /// Subcommands; none for a command without subcommands.
    pub subcommands: &'static [Subcommand],
    /// Description of the effect.
    pub summary: &'static str,
}

/// A subcommand, the second word of a request.
#[derive(Clone, Copy, Debug)]
pub struct Subcommand {
    /// Name in capitals.
    pub name: &'static str,
    /// Number of arguments, as in [`CommandInfo::arity`].
    pub arity: i64,
    /// Flags beside the command's flags.
    pub flags: &'static [&'static str],
    /// Keys, as in [`CommandInfo::keys`].
    pub keys: (i64, i64, i64),
}

impl Subcommand {
    /// Describes a subcommand.
    #[must_use]
    pub const fn new(name: &'static str, arity: i64) -> Self {
        Self { name, arity, flags: &[], keys: (0, 0, 0) }
    }

    /// Sets the keys.
    #[must_use]
    pub const fn keys(self, keys: (i64, i64, i64)) -> Self {
        Self { keys, ..self }
    }

    /// Sets flags beside the command's flags.
    #[must_use]
    pub const fn flags(self, flags: &'static [&'static str]) -> Self {
        Self { flags, ..self }
    }
}

/// Keys at places that the request itself tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoreKeys {
    /// There are no such keys.
    None,
    /// The argument of this number is the number of keys behind it, as in `EVAL`.
    Counted(usize),
    /// The keys are the first half of the arguments behind the word `STREAMS`.
    BehindStreams,
}

/// Treatment of a command between `MULTI` and `EXEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileQueueing {
    /// The request is queued.
    Queued,
    /// The request is carried out at once. The queue stays as it is.
    AtOnce,
    /// The request is refused, and `EXEC` carries out nothing.
    Refused,
    /// The queue is carried out.
    Exec,
}

impl CommandInfo {
    /// Describes a command that is queued after `MULTI`.
    ///
    /// # Panics
    /// At compile time, if the numbers contradict each other.
    #[must_use]
    pub const fn new(
        name: &'static str,
        arity: i64,
        flags: &'static [&'static str],
        keys: (i64, i64, i64),
        summary: &'static str,
    ) -> Self {
        let (first, last, step) = keys;
        assert!(arity != 0, "a request has the command's name");
        assert!(
            (first == 0) == (step == 0) && (first == 0) == (last == 0),
            "a command with a key has a last key and a step"
        );
        assert!(first < arity.abs(), "every request of the command has the first key");
        assert!(
            last < 0 || last < arity.abs(),
            "the last key is counted from the request's end, or one of every request"
        );
        Self {
            name,
            arity,
            flags,
            keys,
            more_keys: MoreKeys::None,
            while_queueing: WhileQueueing::Queued,
            subcommands: &[],
            summary,
        }
    }

    /// Sets the keys at places that the request itself tells.
    #[must_use]
    pub const fn more_keys(self, more_keys: MoreKeys) -> Self {
        Self { more_keys, ..self }
    }

    /// Sets the subcommands. A request with another second word is refused.
    #[must_use]
    pub const fn subcommands(self, subcommands: &'static [Subcommand]) -> Self {
        Self { subcommands, ..self }
    }

    /// Sets the treatment between `MULTI` and `EXEC`.
    #[must_use]
    pub const fn while_queueing(self, while_queueing: WhileQueueing) -> Self {
        Self { while_queueing, ..self }
    }

    /// True if a request with this number of arguments may be of this command.
    #[must_use]
    pub fn takes(&self, arguments: usize) -> bool {
        takes(self.arity, arguments)
    }

    /// Number of the argument that is the first key, if the command has keys.
    #[must_use]
    pub fn first_key(&self) -> Option<usize> {
        usize::try_from(self.keys.0).ok().filter(|argument| *argument > 0)
    }

    /// The subcommand of a request, if the command has subcommands.
    #[must_use]
    pub fn subcommand_of(&self, request: Request<'_>) -> Option<&'static Subcommand> {
        let word = request.get(1)?;
        self.subcommands.iter().find(|subcommand| is_called(word, subcommand.name))
    }

    /// Name in small letters, with the subcommand of a request: `client|list`.
    #[must_use]
    pub fn full_name(&self, request: Request<'_>) -> String {
        let name = self.name.to_ascii_lowercase();
        match self.subcommand_of(request) {
            Some(subcommand) => format!("{name}|{}", subcommand.name.to_ascii_lowercase()),
            None => name,
        }
    }

    /// True if requests of the command, or of a subcommand, can have keys.
    #[must_use]
    pub fn can_have_keys(&self) -> bool {
        self.keys.0 != 0
            || self.more_keys != MoreKeys::None
            || self.subcommands.iter().any(|subcommand| subcommand.keys.0 != 0)
    }

    /// All arguments of a request that are keys. The request has the command's number of arguments. A number of keys
    /// beyond the request's end ends there, as the command refuses such a request.
    pub fn keys_of<'r>(&self, request: Request<'r>) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        debug_assert!(self.takes(request.len()), "the number of arguments was checked");
        let of_subcommand = self.subcommand_of(request).map_or((0, 0, 0), |subcommand| subcommand.keys);
        let more = match self.more_keys {
            MoreKeys::None => 0..0,
            MoreKeys::Counted(at) => counted_keys(request, at),
            MoreKeys::BehindStreams => stream_keys(request),
        };
        let places = places(self.keys, request.len()).chain(places(of_subcommand, request.len())).chain(more);
        places.filter_map(move |at| request.get(at))
    }

    /// True if the command has this flag of redis.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// True if the command, or the subcommand of a request, has this flag of redis.
    #[must_use]
    pub fn has_flag_of(&self, request: Request<'_>, flag: &str) -> bool {
        let of_subcommand = || self.subcommand_of(request).is_some_and(|word| word.flags.contains(&flag));
        self.has_flag(flag) || of_subcommand()
    }
}

/// Numbers of the arguments that are keys, in a request of so many arguments.
fn places(keys: (i64, i64, i64), arguments: usize) -> impl Iterator<Item = usize> {
    let (first, last, step) = keys;
    let from_end = i64::try_from(arguments).unwrap_or(i64::MAX).saturating_add(last);
    let last = if last < 0 { from_end } else { last };
    let number = |at: i64| usize::try_from(at).unwrap_or(0);
    let end = if first > 0 { number(last.saturating_add(1)) } else { 0 };
    (number(first)..end).step_by(number(step).max(1))
}

/// The arguments behind the argument `at`, as many as `at` says.
fn counted_keys(request: Request<'_>, at: usize) -> std::ops::Range<usize> {
    let count = request.get(at).and_then(integer).and_then(|count| usize::try_from(count).ok());
    let (begin, end) = (at + 1, request.len());
    debug_assert!(at > 0 && begin <= end, "every request of the command has the number of keys");
    begin..begin.saturating_add(count.unwrap_or(0)).min(end).max(begin)
}

/// The first half of the arguments behind the first word `STREAMS`; with an odd number, the middle too.
fn stream_keys(request: Request<'_>) -> std::ops::Range<usize> {
    let word = request.iter().position(|word| is_called(word, "STREAMS"));
    debug_assert!(word != Some(0), "the name of the command is another word");
    word.map_or(0..0, |word| word + 1..word + 1 + (request.len() - word - 1).div_ceil(2))
}

/// True if a request with this number of arguments may be of a command of this arity ([`CommandInfo::arity`]).
#[must_use]
pub fn takes(arity: i64, arguments: usize) -> bool {
    let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
    if arity < 0 { arguments >= -arity } else { arguments == arity }
}

/// True if a command or an option has this name, in any case.
#[inline]
#[must_use]
pub fn is_called(name: &[u8], command: &str) -> bool {
    name.eq_ignore_ascii_case(command.as_bytes())
}
