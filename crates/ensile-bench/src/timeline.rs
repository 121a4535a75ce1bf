//! A run over time: durable results and latencies by step.
//!
//! Each worker has a [`Recorder`]. A recorder keeps results with the epochs that they wait for, and releases results
//! once the worker sees their epoch durable. The recorders of the workers make a [`Timeline`] of steps of
//! [`STEP_NANOS`].
//!
//! Invariants:
//! - A transaction counts in the step in which its result could be shown. A transaction still waiting at the end of the
//!   run does not count.
//! - A latency belongs to a transaction that had to wait for the log, from its beginning until its worker saw
//!   durability (SiloR §6.2: writing transactions only). Without a log every transaction may have a latency, until its
//!   commit.
//! - During a run memory grows by 8 bytes for each sampled latency and by a word for each step.
//!
//! Neighbours: [`crate::driver::Slice`] fills a timeline; `ensile-papers` makes figures of timelines.

use crate::tally::Step;

/// Length of a step.
pub const STEP_NANOS: u64 = 50_000_000;
/// Number of steps of the window of rolling averages: half a second, as in the paper (§6.2).
const WINDOW_STEPS: usize = 10;
/// Room for latencies, mapped and untouched until use, so that growth copies nothing.
const SAMPLES_ROOM: usize = 1 << 22;

/// A sampled latency.
#[derive(Clone, Copy, Debug)]
struct Sample {
    step: u32,
    micros: f32,
}

/// The notes of one worker.
#[derive(Debug)]
pub struct Recorder {
    /// True if results wait for the log.
    waits: bool,
    /// The last durable epoch seen by the worker.
    durable: u64,
    /// Number of transactions without a wait since the last look at the clock.
    at_once: u64,
    /// Number of waiting results, by epoch: a handful.
    waiting: Vec<(u64, u64)>,
    /// Waiting samples: epoch and beginning.
    sampled: Vec<(u64, u64)>,
    released: Vec<u64>,
    samples: Vec<Sample>,
}

impl Recorder {
    /// A recorder without notes. `waits` is true if results wait for the log.
    pub fn new(waits: bool) -> Self {
        Self {
            waits,
            durable: 0,
            at_once: 0,
            waiting: Vec::new(),
            sampled: Vec::new(),
            released: Vec::new(),
            samples: Vec::with_capacity(SAMPLES_ROOM),
        }
    }

    /// Adds one step of work.
    #[inline]
    pub fn note(&mut self, step: Step) {
        let count = u64::from(step.committed);
        if step.epoch == 0 {
            self.at_once += count;
            return;
        }
        match self.waiting.iter_mut().find(|(epoch, _)| *epoch == step.epoch) {
            Some((_, waiting)) => *waiting += count,
            None => self.waiting.push((step.epoch, count)),
        }
    }

    /// Adds the latency of a sampled and noted step from `started` to `now`.
    pub fn sample(&mut self, step: Step, started: u64, now: u64) {
        if step.epoch > 0 {
            self.sampled.push((step.epoch, started));
        } else if !self.waits {
            self.keep(started, now);
        }
        let at_once = std::mem::take(&mut self.at_once);
        self.release_count(at_once, now);
    }

    /// True if the durable epoch has moved to `durable` since the last release.
    #[inline]
    pub(crate) fn has_moved(&self, durable: u64) -> bool {
        durable != self.durable
    }

    /// Releases, at `now`, the results of epochs up to `durable`.
    pub(crate) fn release(&mut self, durable: u64, now: u64) {
        self.durable = durable;
        let mut count = 0;
        self.waiting.retain(|(epoch, waiting)| {
            count += if *epoch <= durable { *waiting } else { 0 };
            *epoch > durable
        });
        self.release_count(count, now);
        let mut sampled = std::mem::take(&mut self.sampled);
        sampled.retain(|&(epoch, started)| {
            if epoch <= durable {
                self.keep(started, now);
            }
            epoch > durable
        });
        self.sampled = sampled;
    }

    fn release_count(&mut self, count: u64, now: u64) {
        let step = (now / STEP_NANOS) as usize;
        if self.released.len() <= step {
            self.released.resize(step + 1, 0);
        }
        self.released[step] += count;
    }

    fn keep(&mut self, started: u64, now: u64) {
        let micros = now.saturating_sub(started) as f32 / 1e3;
        self.samples.push(Sample { step: (now / STEP_NANOS) as u32, micros });
    }
}

/// The notes of all workers, whole steps only.
#[derive(Debug, Default)]
pub struct Timeline {
    released: Vec<u64>,
    /// Latencies, ordered by step.
    samples: Vec<Sample>,
}

impl Timeline {
    /// The timeline of the workers of a run that took `nanos` nanoseconds.
    pub fn new(recorders: Vec<Recorder>, nanos: u64) -> Self {
        let mut released = vec![0; (nanos / STEP_NANOS) as usize];
        let mut samples = Vec::new();
        for recorder in recorders {
            for (sum, count) in released.iter_mut().zip(recorder.released) {
                *sum += count;
            }
            samples.extend(recorder.samples);
        }
        samples.retain(|sample: &Sample| (sample.step as usize) < released.len());
        samples.sort_by_key(|sample| sample.step);
        Self { released, samples }
    }

    /// Number of steps.
    pub fn step_count(&self) -> usize {
        self.released.len()
    }

    /// The steps chosen by `keep`, merged.
    pub fn part(&self, keep: impl Fn(usize) -> bool) -> Part {
        let steps = (0..self.step_count()).filter(|&step| keep(step));
        let (count, released) =
            steps.fold((0, 0), |(count, sum), step| (count + 1, sum + self.released[step]));
        let latencies =
            self.samples.iter().filter(|sample| keep(sample.step as usize)).map(|sample| sample.micros);
        Part::new(count, released, latencies.collect())
    }

    /// Averages over the full windows that end with a step; every `stride`-th window.
    pub fn rolling(&self, stride: usize) -> Vec<(f64, Part)> {
        let ends = (WINDOW_STEPS.min(self.step_count())..=self.step_count()).step_by(stride.max(1));
        ends.map(|end| {
            let first = end.saturating_sub(WINDOW_STEPS);
            let place = |step: usize| self.samples.partition_point(|sample| (sample.step as usize) < step);
            let latencies = self.samples[place(first)..place(end)].iter().map(|sample| sample.micros);
            let released = self.released[first..end].iter().sum();
            (seconds_at(end), Part::new(end - first, released, latencies.collect()))
        })
        .collect()
    }
}

/// Begin of a step, in seconds.
pub fn seconds_at(step: usize) -> f64 {
    step as f64 * STEP_NANOS as f64 / 1e9
}

/// Some steps, merged.
#[derive(Clone, Debug)]
pub struct Part {
    /// Length of the steps, in seconds.
    pub seconds: f64,
    /// Number of results that could be shown.
    pub released: u64,
    /// Latencies in ascending order, in microseconds.
    latencies: Vec<f32>,
}

impl Part {
    fn new(steps: usize, released: u64, mut latencies: Vec<f32>) -> Self {
        latencies.sort_by(f32::total_cmp);
        Self { seconds: seconds_at(steps), released, latencies }
    }

    /// Transactions per second; 0 for no time.
    pub fn rate(&self) -> f64 {
        if self.seconds == 0.0 { 0.0 } else { self.released as f64 / self.seconds }
    }

    /// The mean latency in milliseconds; `None` without samples.
    pub fn mean_ms(&self) -> Option<f64> {
        let sum: f64 = self.latencies.iter().map(|micros| f64::from(*micros)).sum();
        (!self.latencies.is_empty()).then(|| sum / self.latencies.len() as f64 / 1e3)
    }

    /// A quantile of latency in milliseconds; `None` without samples.
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let place = (self.latencies.len() as f64 * quantile).ceil() as usize;
        self.latencies.get(place.saturating_sub(1)).map(|micros| f64::from(*micros) / 1e3)
    }
}

#[cfg(test)]
mod tests;
