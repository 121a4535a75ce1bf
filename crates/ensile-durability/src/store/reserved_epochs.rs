//! Reservation of epochs ahead of E in the manifest (L6). Pure: epochs and clock in, next bound out.
//!
//! ```text
//! ----- E ------------------------------ refused from --- E stops ------- reserved
//!        what a day needs; renewed at half             KEPT         KEPT: for a close
//! ```
//! Invariant: L6: E stays below `reserved`. Near the end, new commits are refused first, and E grows for commits under
//! way. The epochs from the limit on are for a close, which needs two more.
//!
//! Neighbours: recovery reserves at an open, `epoch_renewal` renews. `Epochs` keeps the limit.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::{EPOCH_MICROS_MIN, EPOCHS_KEPT, EPOCHS_RESERVED_MIN, EPOCHS_RESERVED_SECONDS};

const SECOND_NANOS: u64 = 1_000_000_000;
/// Least time between two measurements of the rate of epochs, in nanoseconds.
const MEASURED_NANOS: u64 = SECOND_NANOS;
const RETRY_NANOS: u64 = SECOND_NANOS;
/// Weight of the latest measurement in the rate.
const LATEST: f64 = 0.25;
const _: () =
    assert!(EPOCHS_RESERVED_MIN / 2 > 2 * EPOCHS_KEPT, "L6: a renewal is due before commits are refused");

#[derive(Debug)]
pub(crate) struct ReservedEpochs {
    reserved: Epoch,
    /// Epochs a second by the configured interval, the least rate; `rate`: by measurement.
    usual_rate: f64,
    rate: f64,
    measured: (u64, Epoch),
    retry_nanos: u64,
    /// Error of the last attempt; `None` after a success.
    failure: Option<Arc<str>>,
    /// True once a close uses the epochs that are kept for a close.
    is_closing: bool,
}

/// Number of epochs to reserve at this rate, up to that of `EPOCH_MICROS_MIN`: a day's, or `EPOCHS_RESERVED_MIN`.
fn ahead(rate: f64) -> u64 {
    debug_assert!(rate.is_finite() && rate > 0.0, "{rate} epochs a second");
    let rate = rate.min(1e6 / EPOCH_MICROS_MIN as f64);
    ((rate * EPOCHS_RESERVED_SECONDS as f64) as u64).max(EPOCHS_RESERVED_MIN)
}

/// Epochs a second at this interval.
fn rate_of(interval: Duration) -> f64 {
    1.0 / interval.as_secs_f64().max(EPOCH_MICROS_MIN as f64 / 1e6)
}

/// End of a reservation of `ahead` epochs and the kept epochs, from `from` on. `None` if not enough epochs are left.
pub(super) fn reservation_end(from: Epoch, ahead: u64) -> Option<Epoch> {
    let end = from.number().checked_add(ahead + 2 * EPOCHS_KEPT)?;
    debug_assert!(end - from.number() > EPOCHS_KEPT, "L6: an epoch is left beside the kept epochs");
    (end < Epoch::MAX.number()).then(|| Epoch::new(end))
}

/// End of the reservation of an open for a life that begins at `first`; `None` if the epoch numbers are used up.
pub(crate) fn end_for_open(first: Epoch, interval: Duration) -> Option<Epoch> {
    reservation_end(first, ahead(rate_of(interval)))
}

impl ReservedEpochs {
    pub(crate) fn new(reserved: Epoch, interval: Duration, now_nanos: u64, epoch: Epoch) -> Self {
        let usual_rate = rate_of(interval);
        debug_assert!(epoch <= reserved, "L6: E begins within the reserved epochs");
        Self {
            reserved,
            usual_rate,
            rate: usual_rate,
            measured: (now_nanos, epoch),
            retry_nanos: 0,
            failure: None,
            is_closing: false,
        }
    }

    /// Lets a close use the kept epochs, and returns the limit of E. A later renewal does not take the epochs back.
    pub(crate) fn use_kept_epochs(&mut self) -> Epoch {
        self.is_closing = true;
        self.limit()
    }

    /// Limit of E. The reserved epochs from the limit on are for a close.
    pub(crate) fn limit(&self) -> Epoch {
        debug_assert!(self.reserved.number() > EPOCHS_KEPT, "L6: the kept epochs are reserved");
        let kept = if self.is_closing { 0 } else { EPOCHS_KEPT };
        Epoch::new(self.reserved.number() - kept)
    }

    /// Reason to refuse a commit that begins now, because its epoch might be the last; `None` if the commit may begin.
    pub(crate) fn commit_refusal(&self, epoch: Epoch) -> Option<Arc<str>> {
        let is_near = epoch.plus(EPOCHS_KEPT) >= self.limit();
        is_near.then(|| self.failure.clone().unwrap_or_else(|| "no more could be reserved yet".into()))
    }

    /// New end of the reservation, if half of the epochs are used at E = `epoch`. Also measures the rate of epochs.
    pub(crate) fn next_end_if_due(&mut self, now_nanos: u64, epoch: Epoch) -> Option<Epoch> {
        let (since, from) = self.measured;
        debug_assert!(epoch >= from, "E1: E only grows");
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
        // A reserved epoch stays reserved: the bound never shrinks.
        reservation_end(epoch, ahead).filter(|bound| *bound > self.reserved)
    }

    /// Notes that the manifest has a reservation up to `reserved`. A larger end of another thread stays (L6).
    pub(crate) fn record_renewal(&mut self, reserved: Epoch) {
        self.reserved = self.reserved.max(reserved);
        self.failure = None;
    }

    /// Notes that the manifest could not be written. A later step tries again.
    pub(crate) fn record_failure(&mut self, now_nanos: u64, why: &str) {
        self.failure = Some(why.into());
        self.retry_nanos = now_nanos.saturating_add(RETRY_NANOS);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
