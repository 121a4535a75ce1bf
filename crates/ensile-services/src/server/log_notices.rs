//! Whether the log takes changes, as `INFO` says it, and as people are told by themselves, when that changes.
//!
//! Invariants:
//! - A log that has stopped is told once, with what to do: it stays so until the server is started again.
//! - What passes, such as a full disk, is told when it begins and when it has passed, and no more often than once in
//!   [`PAUSE_NANOS`]: what is told may go to the same disk.
//! - W15: a panic of what tells ends there.
//!
//! Neighbours: [`super::ServiceLoop`] looks once a second, and when a reply could not be made durable.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::sync::Mutex;
use ensile_objects::LogHealth;

/// Between two things that are told, but for the last one.
const PAUSE_NANOS: u64 = 60_000_000_000;

/// Tells people something.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// What was told of the log.
pub(super) struct LogNotices {
    tell: Tell,
    last: Mutex<LastNotice>,
}

/// The last state that was told, and when; without a time it is what a server begins with.
struct LastNotice {
    status: &'static str,
    told_nanos: Option<u64>,
}

impl LogNotices {
    pub(super) fn new(tell: Tell) -> Self {
        let last = LastNotice { status: LogHealth::Running.word(), told_nanos: None };
        Self { tell, last: Mutex::new(last) }
    }

    /// Tells how the log is at this time, if that is news.
    pub(super) fn look(&self, health: &LogHealth, now_nanos: u64) {
        let mut last = self.last.lock();
        let status = health.word();
        let is_soon = last.told_nanos.is_some_and(|told| now_nanos.saturating_sub(told) < PAUSE_NANOS);
        if last.status == status || is_soon && !health.has_ended() {
            return;
        }
        let notice = match health {
            LogHealth::Poisoned(why) => format!(
                "the log has stopped: {why}. Changes are refused (NOTKEPT), and replies that waited for it were errors \
                 (NOTDURABLE). Mend what it names, then end this server and start it again: it recovers all that is \
                 durable. If another machine has taken over, leave it ended"
            ),
            LogHealth::Removed(why) => format!(
                "the log has ended: {why}. Changes are refused (NOTKEPT), and replies that waited for it were errors \
                 (NOTDURABLE). End this server, and restore a backup into an empty folder"
            ),
            LogHealth::Full(why) => format!(
                "the log has no space: {why}. Changes are refused (NOTKEPT): free some space, and it goes on by itself"
            ),
            LogHealth::EpochsEnded(why) => format!(
                "the log cannot reserve epochs: {why}. Changes are refused (NOTKEPT): mend the disk, and it goes on by itself"
            ),
            LogHealth::Running => "the log takes changes again".to_owned(),
            // The server's own end.
            _ => return,
        };
        *last = LastNotice { status, told_nanos: Some(now_nanos) };
        // A teller that waits holds up this loop, and no other.
        drop(last);
        // W15: nothing of the loop is half changed here, and what the teller leaves behind is its owner's. The panic
        // hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.tell)(&notice)));
    }
}

impl fmt::Debug for LogNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogNotices")
    }
}

#[cfg(test)]
mod tests;
