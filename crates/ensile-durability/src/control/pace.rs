//! How fast checkpointers may write: a token bucket over all of them together.
//!
//! A block is written whole, so the bucket may go into debt by one block of each; the debt is waited off before the
//! next. Without a limit a checkpointer still gives up its turn after each block: its caller yields.
//!
//! The rate of checkpoints is that of the settings. One that somebody asked for may have a lower one, while that caller
//! waits.
//!
//! Neighbours: asked by `checkpoint::manager` before each block, by copies and take-overs between their steps, and by a
//! restore from an archive between the pieces of its one step.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use ensile_base::clock::Clock;

/// Time for which unused allowance is kept, so that a pause is not followed by a burst.
const BURST: Duration = Duration::from_millis(10);
const NANOS: u128 = 1_000_000_000;

/// Bytes that may be written by now.
#[derive(Clone, Debug)]
pub(crate) struct WritePace {
    bytes_per_second: Option<u64>,
    /// What may be written; negative is debt.
    tokens: i128,
    filled_at: u64,
}

impl WritePace {
    /// No limit, or this many bytes a second. `CheckpointConfig` has checked that it is not 0.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, tokens: 0, filled_at: 0 }
    }

    /// From now on this many bytes a second may be written.
    fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.bytes_per_second = bytes_per_second;
    }

    /// How long to wait at this time before the next block; zero if not at all.
    pub(crate) fn wait(&mut self, now_nanos: u64) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let passed = u128::from(now_nanos.saturating_sub(self.filled_at));
        let earned = passed * u128::from(rate) / NANOS;
        if earned > 0 {
            // What is left of a token stays for the next time.
            self.filled_at += (earned * NANOS / u128::from(rate)) as u64;
            let most = BURST.as_nanos() * u128::from(rate) / NANOS;
            self.tokens = (self.tokens + earned as i128).min(most as i128);
        }
        let debt = u128::try_from(-self.tokens).unwrap_or_default();
        Duration::from_nanos((debt * NANOS).div_ceil(u128::from(rate)) as u64)
    }

    /// As [`spend`](Self::spend), of a piece of work that is one step. `pause` is asked at least once, and until the
    /// next piece may be begun: it waits for the time that it is given or for less, or breaks.
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

    /// Notes that `bytes` bytes were written.
    pub(crate) fn spend(&mut self, bytes: u64) {
        if self.bytes_per_second.is_some() {
            self.tokens -= i128::from(bytes);
        }
    }
}

/// Callers that ask for one checkpoint, and how fast they want it written.
#[derive(Debug, Default)]
struct RateCallers {
    /// One of them has no rate: the checkpoint has that of the settings.
    is_unlimited: bool,
    /// Bytes a second that each of the others wants at most, by the caller's number.
    rates: BTreeMap<u64, u64>,
}

impl RateCallers {
    fn is_nobody(&self) -> bool {
        !self.is_unlimited && self.rates.is_empty()
    }

    /// The largest rate; `None`: no limit.
    fn rate(&self) -> Option<u64> {
        self.rates.values().max().copied().filter(|_| !self.is_unlimited)
    }
}

/// The pace of checkpoints, one after the other.
///
/// A caller's rate holds while the caller waits. Without it there is no reason for a low rate, and a checkpoint under
/// way keeps others from beginning.
#[derive(Debug)]
pub(crate) struct CheckpointPace {
    pace: WritePace,
    /// Most bytes a second of any checkpoint; `None`: no limit.
    setting: Option<u64>,
    /// The callers of the checkpoint under way, and of the next one.
    under_way: RateCallers,
    next: RateCallers,
    /// The number of the caller that comes next.
    next_caller: u64,
}

impl CheckpointPace {
    /// No checkpoint is under way, and nobody has asked for one.
    pub(crate) fn new(setting: Option<u64>) -> Self {
        let (under_way, next) = (RateCallers::default(), RateCallers::default());
        Self { pace: WritePace::new(setting), setting, under_way, next, next_caller: 0 }
    }

    /// A caller asks for the next checkpoint, at this rate or below; its number, if it has a rate. Of several callers
    /// the largest rate counts. The checkpoint under way goes on at that rate if its own is lower, since this caller
    /// waits for its end too.
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

    /// A checkpoint begins: the one that was asked for, if somebody has. Whether a caller wants it slower than the
    /// settings do.
    #[must_use]
    pub(crate) fn begin(&mut self) -> bool {
        self.under_way = std::mem::take(&mut self.next);
        self.refresh();
        self.pace.bytes_per_second != self.setting
    }

    /// The checkpoint that was asked for does not begin: its callers were told.
    pub(crate) fn put_off(&mut self) {
        self.next = RateCallers::default();
        self.refresh();
    }

    /// This caller waits no more.
    pub(crate) fn left(&mut self, caller: u64) {
        self.under_way.rates.remove(&caller);
        self.next.rates.remove(&caller);
        self.refresh();
    }

    /// The checkpoint under way goes on as the settings allow: others wait for its end, who have not asked for it.
    pub(crate) fn hurry(&mut self) {
        if !self.under_way.is_unlimited {
            self.under_way.is_unlimited = true;
            self.refresh();
        }
    }

    fn refresh(&mut self) {
        let under_way = self.under_way.rate();
        let wanted = if self.next.is_nobody() {
            under_way
        } else {
            under_way.zip(self.next.rate()).map(|(one, other)| one.max(other))
        };
        let rate = wanted.into_iter().chain(self.setting).min();
        assert!(rate.is_none_or(|rate| rate > 0), "settings and options were checked");
        self.pace.set_rate(rate);
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
