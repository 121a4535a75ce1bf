//! Requests that have run and wait for their commits, with their replies.
//!
//! Invariant R2: an answer of a queue that is given up, and an error that depends on rows, rest on validated reads.
//!
//! Neighbours: `execution` makes and commits them; a client keeps them ([`crate::served_database`]).

use std::task::Waker;

use ensile::{Error, Transaction};
use ensile_base::Epoch;
use ensile_serving::{Client, NewReply, Outcome};

use crate::blocking::KeyWait;
use crate::channels::LoopChannels;
use crate::effects::Effects;

/// The error as an answer, or the error of the validation of the reads that have led to it (R2).
pub(crate) fn validated(tx: &mut Transaction<'_>, error: Error) -> Error {
    if rests_on_reads(&error) { tx.validate().err().unwrap_or(error) } else { error }
}

/// True if an error depends on rows that a transaction has read.
fn rests_on_reads(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. } | Error::Decode { .. })
}

/// Result of a command's run, for a client that waits for keys.
#[derive(Debug)]
pub(crate) enum LookResult {
    /// The reply is final, and the command may have taken elements.
    Elements,
    /// The reply is final, and the command has taken nothing that others wait for.
    Reply,
    /// The command has found nothing, and waits.
    Nothing(KeyWait),
}

/// A request whose transaction waits for its commit.
#[derive(Debug)]
pub(crate) struct PendingCommit {
    pub(crate) tx: Transaction<'static>,
    /// The reply behind the commit.
    pub(crate) reply: Vec<u8>,
    /// The result of the run.
    pub(crate) found: LookResult,
    /// The effects behind the commit (J1).
    pub(crate) effects: Effects,
}

impl PendingCommit {
    /// Memory beside the transaction, in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.reply.capacity() + self.effects.memory_bytes()
    }

    /// Tries the commit again, and returns the epoch that the reply rests on.
    ///
    /// # Errors
    /// [`Error::Busy`] if the commit still waits. Otherwise nothing is written.
    pub(crate) fn try_commit(&mut self, channels: &LoopChannels, waker: &Waker) -> Result<Epoch, Error> {
        if !channels.have_room(self.effects.messages(), waker) {
            return Err(Error::Busy);
        }
        self.tx.try_commit_epoch(waker)
    }
}

/// A queue that has run, and waits for its commit.
#[derive(Debug)]
pub(crate) struct PendingExec {
    pub(crate) tx: Transaction<'static>,
    pub(crate) is_watched: bool,
    pub(crate) queue: RunQueue,
    /// The array of replies.
    pub(crate) replies: Vec<u8>,
    /// The effects behind the commit (J1).
    pub(crate) effects: Effects,
    /// The client as the queue found it, and as the queue has left it.
    pub(crate) before: ClientBefore,
    pub(crate) after: ClientBefore,
}

impl PendingExec {
    /// Memory beside the transaction, in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.replies.capacity() + self.effects.memory_bytes()
    }
}

/// Properties of a client that queued requests change: `SELECT`, `CLIENT SETNAME`.
#[derive(Debug)]
pub(crate) struct ClientBefore {
    database: u32,
    name: Box<[u8]>,
}

impl ClientBefore {
    pub(crate) fn new<C>(client: &Client<C>) -> Self {
        Self { database: client.database, name: client.name.clone() }
    }

    pub(crate) fn apply<C>(&self, client: &mut Client<C>) {
        (client.database, client.name) = (self.database, self.name.clone());
    }

    /// Takes the changes back unless the queue's transaction has committed.
    pub(crate) fn unless_committed<C>(self, end: QueueEnd, client: &mut Client<C>) -> QueueEnd {
        if !matches!(end, QueueEnd::Committed(_)) {
            self.apply(client);
        }
        end
    }
}

/// A queue whose commands have run.
#[derive(Debug)]
pub(crate) struct RunQueue {
    /// Epoch that the replies of common commands rest on.
    pub(crate) epoch: Epoch,
    /// Error that ended the transaction.
    pub(crate) failed: Option<Error>,
    /// Reason why the transaction is given up although its reads may be consistent.
    pub(crate) given_up: Option<GivenUp>,
    /// True if a script or a procedure is in the queue.
    pub(crate) has_script: bool,
}

/// Reason why a queue's transaction is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// A command failed, and `multi-rollback` is on.
    CommandFailed,
    /// The reply of a command that writes has no room: a client would not learn what the command has taken.
    ReplyTooLong,
    /// A script failed after it had written, with this text: a part of a transaction cannot be rolled back.
    ScriptRaised(Vec<u8>),
    /// A script was killed or has run too long, with this text and at this epoch. No row has led to the end.
    ScriptStopped(Vec<u8>, Epoch),
}

/// End of a queue's transaction.
pub(crate) enum QueueEnd {
    Committed(Epoch),
    Refused(Error),
    GivenUp(GivenUpAnswer),
}

/// The answer to a queue that is given up, and the epoch that the answer rests on (R2).
pub(crate) struct GivenUpAnswer {
    pub(crate) why: GivenUp,
    pub(crate) epoch: Epoch,
}

impl GivenUpAnswer {
    pub(crate) fn write(self, reply: &mut NewReply<'_>) -> Outcome {
        match self.why {
            GivenUp::CommandFailed => reply
                .fail("EXECABORT", "Transaction rolled back because a command failed (multi-rollback yes)."),
            GivenUp::ScriptStopped(why, _) => reply.fail(
                "EXECABORT",
                &format!("Transaction rolled back: {}", String::from_utf8_lossy(&why)),
            ),
            GivenUp::ScriptRaised(why) => reply.fail(
                "EXECABORT",
                &format!(
                    "Transaction rolled back because a script failed after a write: {}",
                    String::from_utf8_lossy(&why)
                ),
            ),
            GivenUp::ReplyTooLong => reply.fail(
                "EXECABORT",
                "Transaction rolled back because the reply of a command that writes is too long: ask for less at once.",
            ),
        }
        Outcome::Reply(self.epoch)
    }
}

impl RunQueue {
    /// Commits the transaction, or validates the reads under the answer.
    ///
    /// `has_room` is called before the commit. False if the messages of the queue have to wait (J4).
    pub(crate) fn finish(
        &mut self,
        tx: &mut Transaction<'_>,
        has_room: impl FnOnce() -> bool,
        waker: &Waker,
    ) -> QueueEnd {
        if let Some(error) = self.failed.take() {
            return QueueEnd::Refused(validated(tx, error));
        }
        if let Some(why) = self.given_up.take() {
            let validated = match &why {
                GivenUp::ScriptStopped(_, epoch) => Ok(*epoch),
                _ => tx.validate(),
            };
            return match validated {
                Ok(epoch) => QueueEnd::GivenUp(GivenUpAnswer { why, epoch: epoch.max(self.epoch) }),
                Err(error) => QueueEnd::Refused(error),
            };
        }
        if !has_room() {
            return QueueEnd::Refused(Error::Busy);
        }
        match tx.try_commit_epoch(waker) {
            Ok(epoch) => QueueEnd::Committed(self.epoch.max(epoch)),
            Err(error) => QueueEnd::Refused(error),
        }
    }
}
