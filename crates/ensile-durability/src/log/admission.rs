//! Reasons for which a log refuses new entries: the log has ended, its disk is full, or its epochs come to their end.
//!
//! Invariant: a thread that finds the flag `refuses` set also finds the reason. Flag and reason change under one lock.
//!
//! Neighbours: `appender` asks before a commit; `logger` reports a full disk; `epoch_reservation` reports the end of
//! the epochs. Checkpoints give up the disk reserve for their own space.

use std::sync::Arc;

use ensile_base::sync::Ordering;
use ensile_disk::DiskError;

use super::logger::Logger;
use super::open_log::Log;
use super::refusal::Refusal;
use super::waiters::{Fullness, LogEnd};
use crate::DurabilityError;

/// State of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "state", content = "reason", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Health {
    /// The log takes entries.
    Running,
    /// The disk is full, with the reason. Commits are refused, and callers waiting for D continue to wait. The log
    /// continues automatically once the disk has space.
    Full(String),
    /// Epochs cannot be reserved any more, with the reason. E comes to its end, and commits are refused. The log
    /// continues automatically once epochs can be reserved.
    EpochsEnded(String),
    /// The log was closed.
    Closed,
    /// A write or sync failed, or another machine has taken over, with the reason. Nothing becomes durable any more.
    /// Open the database again.
    #[cfg_attr(feature = "serde", serde(rename = "stopped"))]
    Poisoned(String),
    /// A file or folder of the database was removed while the database was open (L9), with its name. Nothing becomes
    /// durable any more. Restore a backup into an empty folder.
    Removed(String),
    /// This process is a fork of the process that opened the database. Open the database here once the parent process
    /// has closed the database.
    Forked,
}

impl Health {
    /// True if the log never writes again.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Closed | Self::Poisoned(_) | Self::Removed(_) | Self::Forked)
    }

    /// Name of the state: `running`, `full`, `epochs-ended`, `closed`, `stopped`, `removed` or `forked`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Full(_) => "full",
            Self::EpochsEnded(_) => "epochs-ended",
            Self::Closed => "closed",
            Self::Poisoned(_) => "stopped",
            Self::Removed(_) => "removed",
            Self::Forked => "forked",
        }
    }

    /// Text of the reason, if the state has one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Full(why) | Self::EpochsEnded(why) | Self::Poisoned(why) | Self::Removed(why) => Some(why),
            Self::Running | Self::Closed | Self::Forked => None,
        }
    }
}

impl Log {
    /// State of the log.
    #[must_use]
    pub fn health(&self) -> Health {
        if self.store.is_forked() {
            return Health::Forked;
        }
        match self.waiters.how_ended() {
            Some(LogEnd::Closed) => Health::Closed,
            Some(end @ LogEnd::Fenced(_)) => Health::Poisoned(end.reason().to_string()),
            Some(LogEnd::Poisoned(reason)) => Health::Poisoned(reason.to_string()),
            Some(LogEnd::Removed(reason)) => Health::Removed(reason.to_string()),
            None => {
                let refusal = self.refusal.lock();
                let full = refusal.full.values().next().map(|reason| Health::Full(reason.to_string()));
                let ended = || refusal.epochs_ended.as_ref();
                let or_ended = || ended().map(|reason| Health::EpochsEnded(reason.to_string()));
                full.or_else(or_ended).unwrap_or(Health::Running)
            }
        }
    }

    /// True if no reserve succeeds now.
    #[inline]
    pub(crate) fn refuses(&self) -> bool {
        // Acquire: a thread that sees the flag finds its reason (partner: `refuse`).
        self.refuses.load(Ordering::Acquire)
    }

    /// Changes the reasons under their lock, and sets the flag of [`Log::refuses`] accordingly.
    pub(super) fn refuse(&self, change: impl FnOnce(&mut Refusal)) {
        let mut refusal = self.refusal.lock();
        let had_stopped = refusal.stopped;
        change(&mut refusal);
        refusal.check();
        assert!(refusal.stopped || !had_stopped, "a log that is stopped stays so");
        let refuses = refusal.stopped || !refusal.full.is_empty() || refusal.epochs_ended.is_some();
        // Release: partner is the Acquire in `refuses`.
        self.refuses.store(refuses, Ordering::Release);
    }

    /// Notes that the disk has no space for entries of a logger: workers are refused until the logger writes the
    /// entries.
    pub(super) fn hold(&self, logger: usize, error: &DiskError) {
        assert!(error.is_full(), "held for want of space only: {error}");
        self.store.returned_space().free_all();
        let mut is_news = false;
        let now = self.clock.nanos();
        self.refuse(|refusal| {
            if refusal.full.is_empty() {
                refusal.full_since_nanos = now;
            }
            refusal.tries += 1;
            is_news = refusal.full.insert(logger, error.to_string().into()).is_none();
        });
        if is_news {
            self.counters.holds.add(1);
            // Workers waiting for a buffer find the disk full.
            self.loggers.iter().for_each(Logger::wake_workers);
        }
    }

    /// Expires the results that have waited for space or epochs longer than `LogConfig::full_wait`. The call runs
    /// wakers, so the caller holds no lock.
    pub(super) fn expire_waiters(&self) {
        let refusal = self.refusal.lock();
        let reason = refusal.full.values().next().or(refusal.epochs_ended.as_ref()).cloned();
        let Some(reason) = reason else { return };
        let since_nanos = refusal.full_since_nanos;
        drop(refusal);
        let (now_nanos, wait_nanos) = (self.clock.nanos(), self.full_wait_nanos);
        let fullness = Fullness { now_nanos, since_nanos, wait_nanos, reason };
        self.waiters.wake_all(self.waiters.expire(&fullness));
    }

    /// Notes that a logger has written its held entries.
    pub(super) fn resume(&self, logger: usize) {
        self.refuse(|refusal| {
            let was_held = refusal.full.remove(&logger);
            assert!(was_held.is_some(), "logger {logger} goes on that did not hold");
        });
    }

    /// Removes the disk reserve (`store::disk_reserve`), for a close, or for a checkpoint that frees more space than it
    /// takes. True if the removal made space.
    pub(crate) fn give_up_reserve(&self) -> bool {
        // A file that cannot be removed gives no space.
        let has_freed = self.store.reserve().give_up().unwrap_or(false);
        if has_freed {
            self.wake_loggers();
        }
        has_freed
    }

    /// Number of writes that found the disk full.
    pub(crate) fn full_tries(&self) -> u64 {
        self.refusal.lock().tries
    }

    /// The disk's error of a logger that holds entries for want of space; `None` if no logger does.
    pub(super) fn full_reason(&self) -> Option<Arc<str>> {
        self.refusal.lock().full.values().next().cloned()
    }

    /// Error for a worker that cannot reserve; `None` if the log has continued meanwhile.
    pub(super) fn refusal(&self) -> Option<DurabilityError> {
        let refusal = self.refusal.lock();
        if refusal.stopped {
            let end = self.waiters.how_ended().unwrap_or(LogEnd::Closed);
            return Some(end.of_call());
        }
        refusal.check();
        let ended = || refusal.epochs_ended.clone().map(DurabilityError::EpochsEnded);
        refusal.full.values().next().cloned().map(DurabilityError::DiskFull).or_else(ended)
    }
}
