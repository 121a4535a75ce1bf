//! The interface between a service and its server: a table of commands, and persistent objects.
//!
//! Invariant: a command notes the epoch that its reply rests on (R1): the epoch of the last operation on every object
//! that the command looks at or changes. The note comes before any reply about the object, an error as well. A strict
//! server holds the reply until the epoch is durable.
//!
//! Neighbours: [`crate::pht`], [`crate::ups`] and [`crate::his`] are services; [`crate::server`] serves any service.

use std::fmt;
use std::ops::Deref;

use ensile_base::Epoch;
pub use ensile_objects::RestsOn;
use ensile_objects::{
    ApplicationLog, CheckpointHandle, ObjectKey, ObjectReceipt, Objects, ObjectsError, ObjectsResult,
    ObjectsStats, Persistent, PoisonedObject, RecoveryReport,
};
use ensile_resp::{ReplyEncoder, Request};
pub use ensile_serving::REPLY_BYTES;
pub use ensile_serving::command::CommandInfo;
pub(crate) use ensile_serving::command::is_called;

/// Result of a command.
pub type CallResult = Result<(), CallError>;

/// Carries a request out, notes the epoch that the reply rests on, and writes the reply. A reply has at most
/// [`REPLY_BYTES`]: the excess is not written, and the server replies [`CallError::ReplyTooLong`]. A command that
/// changes something therefore has a short reply. A command that shows much looks at [`ReplyEncoder::is_beyond`] now
/// and then, and stops.
pub type CommandCall<S> = fn(&S, &CommandRequest<'_>, &mut ReplyEncoder<'_>) -> CallResult;

/// A request under way, and the epoch that its reply rests on.
#[derive(Debug)]
pub struct CommandRequest<'r> {
    request: Request<'r>,
    /// Epoch that the reply rests on.
    pub rests: RestsOn,
}

impl<'r> CommandRequest<'r> {
    /// Wraps a request.
    #[inline]
    #[must_use]
    pub fn new(request: Request<'r>) -> Self {
        debug_assert!(request.len() > 0, "a request has the command's name");
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
    /// Description of the command.
    pub info: CommandInfo,
    /// Carries the command out. If `call` fails, its written reply is dropped.
    pub call: CommandCall<S>,
}

/// Flags of commands that read, and of commands that change something.
pub(crate) const READ: &[&str] = &["readonly", "fast"];
pub(crate) const WRITE: &[&str] = &["write", "fast"];

/// Makes a command from its description and its function.
pub(crate) const fn command<S>(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    call: CommandCall<S>,
    summary: &'static str,
) -> ServiceCommand<S> {
    ServiceCommand { info: CommandInfo::new(name, arity, flags, keys, summary), call }
}

impl<S> AsRef<CommandInfo> for ServiceCommand<S> {
    fn as_ref(&self) -> &CommandInfo {
        &self.info
    }
}

impl<S> fmt::Debug for ServiceCommand<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceCommand").field(&self.info.name).finish()
    }
}

/// A service: its objects are in memory, and its server calls the service from several threads.
pub trait Service: Send + Sync + Sized + 'static {
    /// Name as clients see it.
    const NAME: &'static str;
    /// Commands, the frequent ones first.
    const COMMANDS: &'static [ServiceCommand<Self>];

    /// The persistent objects.
    fn persistent_objects(&self) -> &dyn KeptObjects;

    /// Prefetches the memory of objects with these keys: a hint, as commands with the keys come next.
    fn prefetch(&self, keys: &[&[u8]]);

    /// Figures of the service: name and number.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// Persistent objects of any type, as a server sees them.
pub trait KeptObjects {
    /// Receipt for everything logged in epochs up to this epoch.
    fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_>;

    /// Requests a checkpoint.
    fn checkpoint(&self) -> CheckpointHandle;

    /// Figures of log and checkpoints.
    fn stats(&self) -> ObjectsStats;

    /// Report of the recovery at the open.
    fn recovery(&self) -> &RecoveryReport;

    /// E: nothing was logged in a later epoch by now.
    fn newest_epoch(&self) -> Epoch;

    /// Reports the requests served since the last report, and the requests lost for lack of capacity: the load that
    /// checkpoints may follow (SLACH §4).
    fn report_requests(&self, served: u64, lost: u64);

    /// Makes everything durable and releases the folder.
    ///
    /// # Errors
    /// Not everything could be made durable.
    fn close(&self) -> ObjectsResult<()>;

    /// Takes a tick of the heartbeat, and a step of logger and checkpointer, for objects opened without threads.
    #[cfg(feature = "simulation")]
    fn step(&self);
}

/// The calls of [`KeptObjects`] that logs and collections have under the same names.
macro_rules! same_calls {
    () => {
        fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
            self.receipt(epoch)
        }

        fn checkpoint(&self) -> CheckpointHandle {
            self.checkpoint()
        }

        fn stats(&self) -> ObjectsStats {
            self.stats()
        }

        fn recovery(&self) -> &RecoveryReport {
            self.recovery()
        }

        fn report_requests(&self, served: u64, lost: u64) {
            self.report_requests(served, lost);
        }

        fn close(&self) -> ObjectsResult<()> {
            self.close()
        }

        #[cfg(feature = "simulation")]
        fn step(&self) {
            self.heartbeat_step();
            self.logger_step(0);
            self.checkpoint_step(0);
        }
    };
}

impl KeptObjects for ApplicationLog {
    same_calls!();

    fn newest_epoch(&self) -> Epoch {
        self.epoch()
    }
}

impl<K: ObjectKey, T: Persistent> KeptObjects for Objects<K, T> {
    same_calls!();

    fn newest_epoch(&self) -> Epoch {
        self.stats().epoch
    }
}

/// Reason why a command was not carried out; its reply in redis' form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// An option that the command does not have, or a missing argument.
    #[error("syntax error")]
    Syntax,
    /// An argument, or the stored value, is no whole number of 64 bits.
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
        /// Kind of the argument.
        what: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The reply would be longer than a server sends ([`REPLY_BYTES`]).
    #[error("the reply would be longer than {0} bytes: ask for less at once")]
    ReplyTooLong(usize),
    /// The keys of one bucket alone would be longer than a reply may be.
    #[error(
        "bucket {bucket} has more keys than the {limit} bytes of a reply: give a MATCH that fewer of them fit, or {}",
        continuation_text(*.next)
    )]
    BucketTooLong {
        /// Number of the bucket.
        bucket: u64,
        /// Limit in bytes.
        limit: usize,
        /// Cursor behind the bucket; 0 if the bucket is the last.
        next: u64,
    },
    /// A change of this bucket of a hash table panicked, so the bucket's contents are unknown.
    #[error(
        "bucket {} is poisoned: a change of it panicked after it was logged; its keys are refused until the server is \
         started again, which makes the change again, and all other keys are served",
        .0.number
    )]
    PoisonedBucket(#[from] PoisonedObject),
    /// An object of another partition.
    #[error("it belongs to partition {of}, and this is partition {this} of {all}")]
    WrongPartition {
        /// Partition of the object.
        of: usize,
        /// Partition of this process.
        this: usize,
        /// Number of partitions.
        all: usize,
    },
    /// An invalid argument, in words.
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
        /// Number of deleted elements: at least one, or nothing was changed.
        deleted: i64,
        /// Number of processed keys.
        done: usize,
        /// Number of keys of the command.
        keys: usize,
        /// Error for the next key.
        why: Box<CallError>,
    },
}

/// Text for the continuation of a scan behind a bucket that the scan cannot show.
fn continuation_text(next: u64) -> String {
    match next {
        0 => "end the scan here, as no bucket is behind it (cursor 0)".to_owned(),
        next => format!("go on behind it, from cursor {next}"),
    }
}

/// Text about deletions that cannot be waited for.
fn may_be_lost(why: &CallError) -> &'static str {
    if why.is_turned_away() { ", and lost if the machine fails now" } else { "" }
}

impl CallError {
    /// Code at the beginning of a reply.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::WrongPartition { .. } => "WRONGPARTITION",
            Self::Objects(ObjectsError::Poisoned { .. }) | Self::PoisonedBucket(_) => "POISONED",
            Self::Objects(_) => "NOTKEPT",
            Self::Partly { .. } => "PARTLY",
            _ => "ERR",
        }
    }

    /// True if the request was turned away: the log takes no entries, so the request was not carried out.
    pub(crate) fn is_turned_away(&self) -> bool {
        match self {
            Self::Objects(ObjectsError::Storage(_) | ObjectsError::DiskFull(_)) => true,
            Self::Partly { why, .. } => why.is_turned_away(),
            _ => false,
        }
    }

    /// Epoch that the reply rests on (R1): the noted epoch, or the newest epoch for errors without a note.
    pub(crate) fn rests_on(&self, noted: &RestsOn, newest: impl FnOnce() -> Epoch) -> Epoch {
        match self {
            // The log takes no entries: no epoch can be waited for.
            refused if refused.is_turned_away() => Epoch::ZERO,
            // The error depends on an object, and notes no epoch.
            Self::Objects(_) => newest(),
            _ => noted.epoch(),
        }
    }
}

/// Fails if a reply is longer than a server sends.
///
/// # Errors
/// [`CallError::ReplyTooLong`].
#[inline]
pub(crate) fn check_length(reply: &ReplyEncoder<'_>) -> CallResult {
    if reply.is_beyond() { Err(CallError::ReplyTooLong(REPLY_BYTES)) } else { Ok(()) }
}
