//! How far ahead of E epochs are reserved in the manifest (L6). Pure: epochs and the clock in, the next bound out.
//!
//! ```text
//! ----- E ------------------------------ refused from --- E stops ------- reserved
//!        what a day needs; renewed at half             KEPT         KEPT: for a close
//! ```
//! Invariants:
//! - L6: E stays below `reserved`, so no epoch at or above it is ever shown.
//! - At the end new commits are refused first. E goes on for the commits that are under way, and what stands behind
//!   that is for a close, which needs two epochs more.
//!
//! Neighbours: recovery reserves at open; `renewal` renews by what is decided here; `Epochs` keeps the limit.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::{EPOCH_MICROS_MIN, EPOCHS_KEPT, EPOCHS_RESERVED_MIN, EPOCHS_RESERVED_SECONDS};

const SECOND_NANOS: u64 = 1_000_000_000;
/// Time between two measurements of the epochs' rate.
const MEASURED_NANOS: u64 = SECOND_NANOS;
/// After an attempt that failed.
const RETRY_NANOS: u64 = SECOND_NANOS;
/// The latest measurement's part of the rate.
const LATEST: f64 = 0.25;

/// The epochs that an open database has reserved.
#[derive(Debug)]
pub(crate) struct ReservedEpochs {
    reserved: Epoch,
    /// Epochs a second: as the interval says at least, and as measured.
    usual_rate: f64,
    rate: f64,
    measured: (u64, Epoch),
    retry_nanos: u64,
    /// What the last attempt failed with.
    failure: Option<Arc<str>>,
}

/// Epochs that are reserved at this rate: those of a day, and no more than those of a day at `EPOCH_MICROS_MIN`.
fn ahead(rate: f64) -> u64 {
    let rate = rate.min(1e6 / EPOCH_MICROS_MIN as f64);
    ((rate * EPOCHS_RESERVED_SECONDS as f64) as u64).max(EPOCHS_RESERVED_MIN)
}

fn rate_of(interval: Duration) -> f64 {
    1.0 / interval.as_secs_f64().max(EPOCH_MICROS_MIN as f64 / 1e6)
}

/// No epoch from this on is used before it is reserved; `None` if there are not that many.
fn bound(from: Epoch, ahead: u64) -> Option<Epoch> {
    let end = from.number().checked_add(ahead + 2 * EPOCHS_KEPT)?;
    (end < Epoch::MAX.number()).then(|| Epoch::new(end))
}

/// What an open reserves for a life that begins at `first`; `None` once the epochs are used up.
pub(crate) fn at_open(first: Epoch, interval: Duration) -> Option<Epoch> {
    bound(first, ahead(rate_of(interval)))
}

impl ReservedEpochs {
    pub(crate) fn new(reserved: Epoch, interval: Duration, now_nanos: u64, epoch: Epoch) -> Self {
        let usual_rate = rate_of(interval);
        Self {
            reserved,
            usual_rate,
            rate: usual_rate,
            measured: (now_nanos, epoch),
            retry_nanos: 0,
            failure: None,
        }
    }

    /// E stays below this. What is left behind it is for a close.
    pub(crate) fn limit(&self) -> Epoch {
        Epoch::new(self.reserved.number() - EPOCHS_KEPT)
    }

    /// No epoch is reserved from this on.
    pub(crate) fn end(&self) -> Epoch {
        self.reserved
    }

    /// Is a commit that begins now to be refused, since its epoch might be the last? Then why.
    pub(crate) fn ended(&self, epoch: Epoch) -> Option<Arc<str>> {
        let is_near = epoch.plus(EPOCHS_KEPT) >= self.limit();
        is_near.then(|| self.failure.clone().unwrap_or_else(|| "no more could be reserved yet".into()))
    }

    /// The bound that is to be reserved now, if it is time for it.
    pub(crate) fn due(&mut self, now_nanos: u64, epoch: Epoch) -> Option<Epoch> {
        let (since, from) = self.measured;
        let elapsed = now_nanos.saturating_sub(since);
        if elapsed >= MEASURED_NANOS {
            let epochs = epoch.number() - from.number();
            let latest = epochs as f64 * SECOND_NANOS as f64 / elapsed as f64;
            self.rate = (self.rate + LATEST * (latest - self.rate)).max(self.usual_rate);
            self.measured = (now_nanos, epoch);
        }
        let ahead = ahead(self.rate);
        let left = self.limit().number().saturating_sub(epoch.number());
        if now_nanos < self.retry_nanos || left > ahead / 2 {
            return None;
        }
        // Epochs are used up for good: what is left stays.
        bound(epoch, ahead).filter(|bound| *bound > self.reserved)
    }

    /// The bound that a close needs, where E has come to the end.
    pub(crate) fn for_close(&self, epoch: Epoch) -> Option<Epoch> {
        bound(epoch, 0)
    }

    /// It stands in the manifest.
    pub(crate) fn renewed(&mut self, reserved: Epoch) {
        self.reserved = reserved;
        self.failure = None;
    }

    /// It could not be written; a later step tries again.
    pub(crate) fn failed(&mut self, now_nanos: u64, why: &str) {
        self.failure = Some(why.into());
        self.retry_nanos = now_nanos.saturating_add(RETRY_NANOS);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
