//! Descriptions of commands: the number of arguments, the keys, and the treatment between `MULTI` and `EXEC`.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) has a table of commands; `execution` finds the command of a
//! request.

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
}

impl Subcommand {
    /// Describes a subcommand.
    #[must_use]
    pub const fn new(name: &'static str, arity: i64) -> Self {
        Self { name, arity }
    }
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
        Self { name, arity, flags, keys, while_queueing: WhileQueueing::Queued, subcommands: &[], summary }
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

    /// True if the command has this flag of redis.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
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
