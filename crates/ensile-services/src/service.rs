//! What a service is to its server: a table of commands, and objects that are kept.
//!
//! Invariant: a command notes what its reply rests on (R1): the epoch of the last operation on each object that it
//! looks at or changes, before it says anything of the object, an error as well. A strict server holds the reply until
//! that epoch is durable.
//!
//! Neighbours: [`crate::pht`], [`crate::ups`] and [`crate::his`] are services; [`crate::server`] serves any.

use std::fmt;
use std::ops::Deref;

use ensile_base::Epoch;
pub use ensile_objects::RestsOn;
use ensile_objects::{
    ApplicationLog, CheckpointHandle, ObjectKey, ObjectReceipt, Objects, ObjectsError, ObjectsResult,
    ObjectsStats, Persistent, PoisonedObject, RecoveryReport,
};
use ensile_resp::{ReplyEncoder, Request};

/// What is told of a command to clients that ask (`COMMAND`).
#[derive(Clone, Copy, Debug)]
pub struct CommandInfo {
    /// Its name, in capitals.
    pub name: &'static str,
    /// How many arguments it takes, its name among them; at least that many if it is below zero.
    pub arity: i64,
    /// `readonly` or `write`, and others of redis' flags.
    pub flags: &'static [&'static str],
    /// The first argument that is a key, the last one (-1 is the request's last), and the step; zeros if there is none.
    pub keys: (i64, i64, i64),
    /// What it does.
    pub summary: &'static str,
}

impl CommandInfo {
    /// Whether a request of this number of arguments may be one.
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// The argument that is the first key, if it has any.
    pub(crate) fn first_key(&self) -> Option<usize> {
        usize::try_from(self.keys.0).ok().filter(|argument| *argument > 0)
    }
}

/// What a command returns.
pub type CallResult = Result<(), CallError>;

/// Carries a request out, notes what its reply rests on, and writes that. A reply has [`REPLY_BYTES`] at most: what
/// does not fit is not written, and the server replies [`CallError::ReplyTooLong`]. So a command that changes something
/// has a short reply, and one that shows much looks at [`ReplyEncoder::is_beyond`] now and then, and stops.
pub type CommandCall<S> = fn(&S, &CommandRequest<'_>, &mut ReplyEncoder<'_>) -> CallResult;

/// A request that is being carried out, and what its reply rests on.
#[derive(Debug)]
pub struct CommandRequest<'r> {
    request: Request<'r>,
    /// What its reply rests on.
    pub rests: RestsOn,
}

impl<'r> CommandRequest<'r> {
    /// Of a request.
    #[inline]
    #[must_use]
    pub fn new(request: Request<'r>) -> Self {
        Self { request, rests: RestsOn::default() }
    }
}

impl<'r> Deref for CommandRequest<'r> {
    type Target = Request<'r>;

    #[inline]
    fn deref(&self) -> &Request<'r> {
        &self.request
    }
}

/// A command of a service.
pub struct ServiceCommand<S> {
    /// What is told of it.
    pub info: CommandInfo,
    /// Carries it out. If it fails, what it has written is dropped.
    pub call: CommandCall<S>,
}

/// The flags of commands that read, and of those that change something.
pub(crate) const READ: &[&str] = &["readonly", "fast"];
pub(crate) const WRITE: &[&str] = &["write", "fast"];

/// A command, from what is told of it and what carries it out.
pub(crate) const fn command<S>(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    call: CommandCall<S>,
    summary: &'static str,
) -> ServiceCommand<S> {
    ServiceCommand { info: CommandInfo { name, arity, flags, keys, summary }, call }
}

impl<S> fmt::Debug for ServiceCommand<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceCommand").field(&self.info.name).finish()
    }
}

/// A service: its objects are in memory, and its server calls it from several threads.
pub trait Service: Send + Sync + Sized + 'static {
    /// Its name, as clients are told it.
    const NAME: &'static str;
    /// Its commands, the frequent ones first.
    const COMMANDS: &'static [ServiceCommand<Self>];

    /// The objects, as far as they persist.
    fn kept(&self) -> &dyn KeptObjects;

    /// Asks for the memory of what has these keys: a hint, as commands with them come next.
    fn prefetch(&self, keys: &[&[u8]]);

    /// Figures of its own: name and number.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// Objects that persist, of whatever type: what a server asks of them.
pub trait KeptObjects {
    /// A receipt for what was logged in epochs up to this one.
    fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_>;

    /// Asks for a checkpoint.
    fn checkpoint(&self) -> CheckpointHandle;

    /// Figures of log and checkpoints.
    fn stats(&self) -> ObjectsStats;

    /// What recovery found and did when they were opened.
    fn recovery(&self) -> &RecoveryReport;

    /// E: nothing was logged in a later epoch by now.
    fn newest_epoch(&self) -> Epoch;

    /// So many requests were served since this was last said, and so many lost for want of capacity: the load that
    /// checkpoints may follow (SLACH §4).
    fn report_requests(&self, served: u64, lost: u64);

    /// Makes everything durable and lets go of the folder.
    ///
    /// # Errors
    /// Not everything could be made durable.
    fn close(&self) -> ObjectsResult<()>;

    /// A tick of the heartbeat, and a step of logger and checkpointer, of objects that were opened without threads.
    #[cfg(feature = "simulation")]
    fn step(&self);
}

impl KeptObjects for ApplicationLog {
    fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        ApplicationLog::receipt(self, epoch)
    }

    fn checkpoint(&self) -> CheckpointHandle {
        ApplicationLog::checkpoint(self)
    }

    fn stats(&self) -> ObjectsStats {
        ApplicationLog::stats(self)
    }

    fn recovery(&self) -> &RecoveryReport {
        ApplicationLog::recovery(self)
    }

    fn newest_epoch(&self) -> Epoch {
        self.epoch()
    }

    fn report_requests(&self, served: u64, lost: u64) {
        ApplicationLog::report_requests(self, served, lost);
    }

    fn close(&self) -> ObjectsResult<()> {
        ApplicationLog::close(self)
    }

    #[cfg(feature = "simulation")]
    fn step(&self) {
        self.heartbeat_step();
        self.logger_step(0);
        self.checkpoint_step(0);
    }
}

impl<K: ObjectKey, T: Persistent> KeptObjects for Objects<K, T> {
    fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        Objects::receipt(self, epoch)
    }

    fn checkpoint(&self) -> CheckpointHandle {
        Objects::checkpoint(self)
    }

    fn stats(&self) -> ObjectsStats {
        Objects::stats(self)
    }

    fn recovery(&self) -> &RecoveryReport {
        Objects::recovery(self)
    }

    fn newest_epoch(&self) -> Epoch {
        Objects::stats(self).epoch
    }

    fn report_requests(&self, served: u64, lost: u64) {
        Objects::report_requests(self, served, lost);
    }

    fn close(&self) -> ObjectsResult<()> {
        Objects::close(self)
    }

    #[cfg(feature = "simulation")]
    fn step(&self) {
        self.heartbeat_step();
        self.logger_step(0);
        self.checkpoint_step(0);
    }
}

/// Why a command was not carried out; its reply in redis' form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// An option that the command does not have, or one too few.
    #[error("syntax error")]
    Syntax,
    /// An argument, or the value that is there, is no whole number of 64 bits.
    #[error("value is not an integer or out of range")]
    NotInteger,
    /// The sum does not fit into 64 bits.
    #[error("increment or decrement would overflow")]
    Overflow,
    /// A cursor that no scan has returned.
    #[error("invalid cursor")]
    Cursor,
    /// A key or value that is too long.
    #[error("{what} of {bytes} bytes is longer than the limit of {limit}")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The reply would be longer than a server sends ([`REPLY_BYTES`]).
    #[error("the reply would be longer than {0} bytes: ask for less at once")]
    ReplyTooLong(usize),
    /// The keys of one bucket alone would be longer than a reply may be.
    #[error(
        "bucket {bucket} has more keys than the {limit} bytes of a reply: give a MATCH that fewer of them fit, or {}",
        behind(*.next)
    )]
    BucketTooLong {
        /// The bucket.
        bucket: u64,
        /// The limit.
        limit: usize,
        /// The cursor behind it; 0 if it is the last.
        next: u64,
    },
    /// A change of this bucket of a hash table panicked, so nobody knows what is in it.
    #[error(
        "bucket {} is poisoned: a change of it panicked after it was logged; its keys are refused until the server is \
         started again, which makes the change again, and all other keys are served",
        .0.number
    )]
    PoisonedBucket(#[from] PoisonedObject),
    /// An object of another partition.
    #[error("it belongs to partition {of}, and this is partition {this} of {all}")]
    WrongPartition {
        /// The object's partition.
        of: usize,
        /// This process's.
        this: usize,
        /// How many there are.
        all: usize,
    },
    /// An argument that cannot be, in words.
    #[error("{0}")]
    Argument(&'static str),
    /// The log takes no entries, or an object is poisoned: nothing was changed.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// As [`Objects`](Self::Objects) or [`PoisonedBucket`](Self::PoisonedBucket), in the midst of a command that
    /// deletes several elements one by one.
    #[error(
        "{deleted} deleted, by the first {done} of {keys} keys{}; the other keys were not looked at: {why}; send them \
         again",
        may_be_lost(.why)
    )]
    Partly {
        /// Elements that were deleted: at least one, or nothing was changed.
        deleted: i64,
        /// Keys that were gone through.
        done: usize,
        /// Keys of the command.
        keys: usize,
        /// What was said of the next key.
        why: Box<CallError>,
    },
}

/// How a scan goes on behind a bucket that it cannot show.
fn behind(next: u64) -> String {
    match next {
        0 => "end the scan here, as no bucket is behind it (cursor 0)".to_owned(),
        next => format!("go on behind it, from cursor {next}"),
    }
}

/// What is to be known of deletions that cannot be waited for.
fn may_be_lost(why: &CallError) -> &'static str {
    if why.is_turned_away() { ", and lost if the machine fails now" } else { "" }
}

impl CallError {
    /// The code that a reply begins with.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::WrongPartition { .. } => "WRONGPARTITION",
            Self::Objects(ObjectsError::Poisoned { .. }) | Self::PoisonedBucket(_) => "POISONED",
            Self::Objects(_) => "NOTKEPT",
            Self::Partly { .. } => "PARTLY",
            _ => "ERR",
        }
    }

    /// Whether the request was turned away: the log takes nothing, so it was not carried out.
    pub(crate) fn is_turned_away(&self) -> bool {
        match self {
            Self::Objects(ObjectsError::Durability(_)) => true,
            Self::Partly { why, .. } => why.is_turned_away(),
            _ => false,
        }
    }

    /// The epoch that the reply rests on (R1), where this was noted, and that is the newest one.
    pub(crate) fn rests_on(&self, noted: &RestsOn, newest: impl FnOnce() -> Epoch) -> Epoch {
        match self {
            // The log takes nothing: no epoch can be waited for.
            refused if refused.is_turned_away() => Epoch::ZERO,
            // It tells of an object, and of no epoch.
            Self::Objects(_) => newest(),
            _ => noted.epoch(),
        }
    }
}

/// Fails where a reply is longer than a server sends.
///
/// # Errors
/// [`CallError::ReplyTooLong`].
#[inline]
pub(crate) fn check_length(reply: &ReplyEncoder<'_>) -> CallResult {
    if reply.is_beyond() { Err(CallError::ReplyTooLong(REPLY_BYTES)) } else { Ok(()) }
}

/// Bytes of a reply, at most: half of what a connection may have unsent, so that a single one never ends it. One that
/// would be longer is refused, and is never in memory as a whole.
pub const REPLY_BYTES: usize = 32 << 20;
