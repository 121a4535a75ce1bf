//! How fast checkpointers may write: a token bucket over all of them together.
//!
//! A block is written whole, so the bucket may go into debt by one block of each; the debt is waited off before the
//! next. Without a limit a checkpointer still gives up its turn after each block: its caller yields.
//!
//! The rate of checkpoints is that of the settings. One that somebody asked for may have a lower one.
//!
//! Neighbours: asked by `checkpoint::manager` before each block, by copies and take-overs between their steps, and by a
//! restore from an archive between the pieces of its one step.

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

/// The pace of checkpoints, one after the other.
#[derive(Debug)]
pub(crate) struct CheckpointPace {
    pace: WritePace,
    /// Most bytes a second of any checkpoint; `None`: no limit.
    setting: Option<u64>,
    /// Of the next one, if somebody has asked for it: most bytes a second that its callers want.
    asked: Option<Option<u64>>,
}

impl CheckpointPace {
    /// No checkpoint is under way, and nobody has asked for one.
    pub(crate) fn new(setting: Option<u64>) -> Self {
        Self { pace: WritePace::new(setting), setting, asked: None }
    }

    /// A caller asks for the next checkpoint, at this rate or below. Of several callers the largest rate counts. The
    /// checkpoint under way goes on at that rate if its own is lower, since this caller waits for its end too.
    pub(crate) fn ask(&mut self, bytes_per_second: Option<u64>) {
        let looser = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one.max(other));
        self.asked = Some(self.asked.map_or(bytes_per_second, |asked| looser(asked, bytes_per_second)));
        let under_way = looser(self.pace.bytes_per_second, bytes_per_second);
        self.pace.set_rate(self.within_setting(under_way));
    }

    /// A checkpoint begins: the one that was asked for, if somebody has.
    pub(crate) fn begin(&mut self) {
        let asked = self.asked.take().flatten();
        self.pace.set_rate(self.within_setting(asked));
    }

    /// The checkpoint that was asked for does not begin: its callers were told.
    pub(crate) fn put_off(&mut self) {
        self.asked = None;
    }

    fn within_setting(&self, rate: Option<u64>) -> Option<u64> {
        let rate = rate.into_iter().chain(self.setting).min();
        assert!(rate.is_none_or(|rate| rate > 0), "settings and options were checked");
        rate
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
