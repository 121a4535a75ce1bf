//! Write rate of checkpointers: one token bucket for all checkpointers together. A block is written whole, so the
//! bucket may go into debt by one block of each checkpointer. The settings give the rate; a checkpoint on demand may
//! have a lower rate while its caller waits.
//!
//! Neighbours: `checkpoint::manager` asks before each block; copies, take-overs and the shipper ask between their
//! steps. Entries from an archive are one step, in a copy (`backup::copy_run`) as in a restore from an archive alone
//! (`recovery::archive`): both ask between the pieces of that step.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use ensile_base::clock::Clock;

/// Time for which unused allowance is kept, so that no burst follows a pause.
const BURST: Duration = Duration::from_millis(10);
const NANOS: u128 = 1_000_000_000;

/// Allowance of bytes at the present time.
#[derive(Clone, Debug)]
pub(crate) struct WritePace {
    bytes_per_second: Option<u64>,
    /// Bytes that may be written; a negative number is debt.
    tokens: i128,
    /// Time of the last fill of `tokens`, in nanoseconds.
    filled_at: u64,
}

impl WritePace {
    /// Pace without a limit, or with this many bytes a second. The check of the settings, or of the options of a copy,
    /// has refused a rate of 0.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, tokens: 0, filled_at: 0 }
    }

    /// Time to wait before the next block; zero for no wait.
    pub(crate) fn wait(&mut self, now_nanos: u64) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let passed = u128::from(now_nanos.saturating_sub(self.filled_at));
        let earned = passed * u128::from(rate) / NANOS;
        if earned > 0 {
            // The rest of a token stays for the next call.
            self.filled_at += (earned * NANOS / u128::from(rate)) as u64;
            let most = BURST.as_nanos() * u128::from(rate) / NANOS;
            self.tokens = (self.tokens + earned as i128).min(most as i128);
        }
        let debt = u128::try_from(-self.tokens).unwrap_or_default();
        Duration::from_nanos((debt * NANOS).div_ceil(u128::from(rate)) as u64)
    }

    /// As [`spend`](Self::spend), and waits until the next piece of a single step may begin. Each wait is a call of
    /// `pause`, at least one. `pause` waits for the given time or less, or breaks off the step.
    pub(crate) fn spend_by_pieces(
        &mut self,
        bytes: u64,
        clock: &Clock,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.spend(bytes);
        loop {
            let wait = self.wait(clock.nanos());
            pause(wait)?;
            if wait.is_zero() {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Records a write of `bytes` bytes.
    pub(crate) fn spend(&mut self, bytes: u64) {
        if self.bytes_per_second.is_some() {
            self.tokens -= i128::from(bytes);
        }
    }
}

/// Callers of one checkpoint, and the rates that the callers want.
#[derive(Debug, Default)]
struct RateCallers {
    /// True if a caller has no rate: the checkpoint then has the rate of the settings.
    is_unlimited: bool,
    /// Wanted rate of each caller with a rate, in bytes a second, by the caller's number.
    rates: BTreeMap<u64, u64>,
}

impl RateCallers {
    fn is_nobody(&self) -> bool {
        !self.is_unlimited && self.rates.is_empty()
    }

    /// Largest rate in bytes a second; `None` for no limit.
    fn rate(&self) -> Option<u64> {
        self.rates.values().max().copied().filter(|_| !self.is_unlimited)
    }
}

/// Pace of checkpoints, one after the other.
///
/// A caller's rate holds while the caller waits. Without the caller a low rate has no reason, and a slow checkpoint
/// delays the next checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointPace {
    pace: WritePace,
    /// Largest rate of any checkpoint in bytes a second; `None` for no limit.
    setting: Option<u64>,
    /// Callers of the running checkpoint, and of the next checkpoint.
    under_way: RateCallers,
    next: RateCallers,
    next_caller: u64,
}

impl CheckpointPace {
    /// Pace with no running checkpoint and no caller.
    pub(crate) fn new(setting: Option<u64>) -> Self {
        let (under_way, next) = (RateCallers::default(), RateCallers::default());
        Self { pace: WritePace::new(setting), setting, under_way, next, next_caller: 0 }
    }

    /// Adds a caller of the next checkpoint, with a rate limit if given; returns the caller's number if the caller has
    /// a rate. Of several callers the largest rate counts. The running checkpoint rises to this rate if its own rate is
    /// lower, because the new caller also waits for its end.
    pub(crate) fn ask(&mut self, bytes_per_second: Option<u64>) -> Option<u64> {
        let caller = bytes_per_second.map(|rate| {
            let caller = self.next_caller;
            self.next_caller += 1;
            self.next.rates.insert(caller, rate);
            caller
        });
        self.next.is_unlimited |= caller.is_none();
        self.refresh();
        caller
    }

    /// Begins a checkpoint with the present callers, if any. True if the callers want a rate below the settings.
    #[must_use]
    pub(crate) fn begin(&mut self) -> bool {
        self.under_way = std::mem::take(&mut self.next);
        self.refresh();
        self.pace.bytes_per_second != self.setting
    }

    /// Drops the callers of the next checkpoint: no checkpoint begins, and the callers get an error.
    pub(crate) fn drop_next_callers(&mut self) {
        self.next = RateCallers::default();
        self.refresh();
    }

    /// Removes a caller that waits no more.
    pub(crate) fn remove_caller(&mut self, caller: u64) {
        self.under_way.rates.remove(&caller);
        self.next.rates.remove(&caller);
        self.refresh();
    }

    /// Raises the running checkpoint to the rate of the settings, because callers of other work wait for its end.
    pub(crate) fn lift_rate_limit(&mut self) {
        if !self.under_way.is_unlimited {
            self.under_way.is_unlimited = true;
            self.refresh();
        }
    }

    /// Sets the largest rate of the callers, or the rate of the settings if this rate is lower.
    fn refresh(&mut self) {
        let under_way = self.under_way.rate();
        let wanted = if self.next.is_nobody() {
            under_way
        } else {
            under_way.zip(self.next.rate()).map(|(one, other)| one.max(other))
        };
        let rate = wanted.into_iter().chain(self.setting).min();
        assert!(rate.is_none_or(|rate| rate > 0), "settings and options were checked");
        self.pace.bytes_per_second = rate;
    }

    /// As [`WritePace::wait`].
    pub(crate) fn wait(&mut self, now_nanos: u64) -> Duration {
        self.pace.wait(now_nanos)
    }

    /// As [`WritePace::spend`].
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.pace.spend(bytes);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
