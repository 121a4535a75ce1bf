//! Notices to operators when the health of the log changes, when a call-back of a checkpoint waits, and when clients
//! are disconnected for their memory. `INFO` shows the same.
//!
//! Invariants:
//! - A stopped log causes one notice, with the remedy, because the log stays stopped until the server restarts.
//! - A temporary state, such as a full disk, causes a notice when it begins and when it ends. [`PAUSE_NANOS`] pass
//!   between two such notices, because a notice may be written to the same disk. Notices of disconnected clients have
//!   the same pause.
//! - W15: A panic of the function that tells a notice ends here.
//!
//! Neighbours: [`crate::ServingLoop`] looks once a second, and at once when a reply first cannot be made durable.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::sync::Mutex;

use crate::durable_epochs::{CheckpointWait, LogState};

/// Shortest time between two notices, in nanoseconds. The notice of an ended log does not wait.
const PAUSE_NANOS: u64 = 60_000_000_000;

/// Function that tells an operator a notice.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) struct LogNotices {
    tell: Tell,
    last: Mutex<LastNotice>,
}

/// State of the log in the last notice, and the notice's time; `None` for the state at the server's start.
struct LastNotice {
    status: &'static str,
    told_nanos: Option<u64>,
    /// Object of the waiting call-back at the last look, which has had its notice.
    waits_at: Option<u64>,
    /// Number of disconnected clients in the last notice, and the notice's time.
    evicted: (u64, Option<u64>),
    /// Number of failures of TLS in the last notice, and the notice's time.
    tls_failed: (u64, Option<u64>),
}

impl LogNotices {
    pub(crate) fn new(tell: Tell) -> Self {
        let last = LastNotice {
            status: status(&LogState::Running),
            told_nanos: None,
            waits_at: None,
            evicted: (0, None),
            tls_failed: (0, None),
        };
        Self { tell, last: Mutex::new(last) }
    }

    /// Tells the health of the log at this time, if the health has changed since the last notice.
    pub(crate) fn look(&self, health: &LogState, now_nanos: u64) {
        let mut last = self.last.lock();
        let status = status(health);
        let is_soon = last.told_nanos.is_some_and(|told| now_nanos.saturating_sub(told) < PAUSE_NANOS);
        if last.status == status || is_soon && !health.has_ended() {
            return;
        }
        let notice = match health {
            LogState::Poisoned(why) => format!(
                "the log has stopped: {why}. Changes are refused (NOTKEPT), and replies that waited for it were errors \
                 (NOTDURABLE). Mend what it names, then end this server and start it again: it recovers all that is \
                 durable. If another machine has taken over, leave it ended"
            ),
            LogState::Removed(why) => format!(
                "the log has ended: {why}. Changes are refused (NOTKEPT), and replies that waited for it were errors \
                 (NOTDURABLE). End this server, and restore a backup into an empty folder"
            ),
            LogState::Full(why) => format!(
                "the log has no space: {why}. Changes are refused (NOTKEPT): free some space, and it goes on by itself"
            ),
            LogState::EpochsEnded(why) => format!(
                "the log cannot reserve epochs: {why}. Changes are refused (NOTKEPT): mend the disk, and it goes on by itself"
            ),
            LogState::Running => "the log takes changes again".to_owned(),
            // The server has closed the log itself, or this process is a fork.
            LogState::Closed => return,
        };
        (last.status, last.told_nanos) = (status, Some(now_nanos));
        // The lock is released first, so a slow `tell` holds up this loop alone.
        drop(last);
        self.tell(&notice);
    }

    /// Tells of a call-back of a checkpoint that begins to wait.
    pub(crate) fn look_at_call_back(&self, waiting: Option<CheckpointWait>) {
        let waits_at = waiting.map(|waiting| waiting.object);
        let told = std::mem::replace(&mut self.last.lock().waits_at, waits_at);
        let Some(CheckpointWait { object, waited }) = waiting.filter(|_| told != waits_at) else { return };
        self.tell(&format!(
            "a checkpoint has waited for {} s at object {object}: perhaps a thread keeps the object's lock. Until it goes on, \
             no checkpoint ends, the log grows, and this server cannot close",
            waited.as_secs()
        ));
    }

    /// Tells of clients that were disconnected because the memory of all clients exceeded the limit (W16). `evicted` is
    /// their number since the start.
    pub(crate) fn look_at_evicted(&self, evicted: u64, bytes_max: usize, now_nanos: u64) {
        let mut last = self.last.lock();
        let (before, told_nanos) = last.evicted;
        let is_soon = told_nanos.is_some_and(|told| now_nanos.saturating_sub(told) < PAUSE_NANOS);
        if evicted <= before || is_soon {
            return;
        }
        last.evicted = (evicted, Some(now_nanos));
        drop(last);
        self.tell(&format!(
            "clients disconnected for their memory: {}. The requests and replies of all clients took more than {bytes_max} \
             bytes (--client-memory), and each of these clients had the most. Raise the limit, or send and ask for less at \
             once",
            evicted - before
        ));
    }

    /// Tells of clients whose TLS has failed. `failed` is their number since the start, and `reason` is the last one.
    pub(crate) fn look_at_tls(&self, failed: u64, reason: &str, now_nanos: u64) {
        let mut last = self.last.lock();
        let (before, told_nanos) = last.tls_failed;
        let is_soon = told_nanos.is_some_and(|told| now_nanos.saturating_sub(told) < PAUSE_NANOS);
        if failed <= before || is_soon {
            return;
        }
        last.tls_failed = (failed, Some(now_nanos));
        drop(last);
        self.tell(&format!(
            "clients disconnected because their TLS failed: {}. The last reason: {reason}",
            failed - before
        ));
    }

    fn tell(&self, notice: &str) {
        // W15: No state of the loop is half changed here, and the state behind `tell` belongs to its owner. The panic
        // hook has reported the panic.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.tell)(notice)));
    }
}

/// Name of a state, to tell a new state from the state of the last notice.
fn status(health: &LogState) -> &'static str {
    match health {
        LogState::Running => "running",
        LogState::Full(_) => "full",
        LogState::EpochsEnded(_) => "epochs-ended",
        LogState::Poisoned(_) => "stopped",
        LogState::Removed(_) => "removed",
        LogState::Closed => "closed",
    }
}

impl fmt::Debug for LogNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogNotices")
    }
}

#[cfg(test)]
mod tests;
