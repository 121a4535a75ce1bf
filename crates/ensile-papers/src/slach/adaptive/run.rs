//! One run of `slach adaptive`: objects under an open loop at a rate, with a policy, and the recovery afterwards.
//!
//! [`super`] chooses the runs. [`crate::slach::held`] has the objects.

use std::path::Path;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::{Failure, Result};
use ensile_objects::{
    CheckpointPolicy, ObjectDurability, Objects, ObjectsBuilder, ObjectsResult, Phase, RecoveryReport,
};

use super::{CHECKPOINTS_MIN, Policy};
use crate::slach::arguments::SlachArguments;
use crate::slach::held::{Mixing, Property};
use crate::slach::lossy_rate::{SERVED_SHARE, lossy_rate};

/// Nanoseconds between two reports of requests, and between two looks at the records to replay.
const LOOK_NANOS: u64 = 20_000_000;
/// Percent of the requests that write.
const WRITES_PERCENT: u64 = 50;
/// Windows of the moving average for which the load settles before the measurement.
const SETTLE_WINDOWS: f64 = 15.0;
/// The paper's window.
const WINDOW: Duration = Duration::from_secs(5);
/// Longest time of a run with fewer than three checkpoints, as a multiple of the asked one.
const LONGER: f64 = 4.0;
/// Seconds of requests served back to back.
const PROBED_SECONDS: f64 = 1.0;
/// Seconds of requests before the counted seconds.
const UNSTEADY_SECONDS: f64 = 0.5;
/// Time-outs that pass before a loss is measured. At a rate 5 % above the capacity the first request is late by then.
const SETTLE_TIME_OUTS: f64 = 20.0;
/// Records that a recovery replays for the time of one record, at the paper's thresholds. Every policy has the same
/// number. The number is large enough to make the time of the open negligible.
const REPLAYED_RECORDS: f64 = 4e6;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) policy: Policy,
    /// Requests a second.
    pub(super) rate: f64,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) loss_percent: f64,
    pub(super) response_ms: f64,
    pub(super) replay_ms: f64,
    pub(super) loading_ms: f64,
    /// Mean number of records that a recovery would replay.
    pub(super) records: f64,
    /// Number of checkpoints installed during the measurement.
    pub(super) installed: u64,
    pub(super) installed_a_minute: f64,
    /// Arrivals a second.
    pub(super) requests: f64,
}

/// Capacities of the loop, in requests a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Rate at which 5 % are lost.
    pub(super) lossy: u64,
    /// Rate served back to back, over 0.95.
    pub(super) served: u64,
}

/// Measures the capacities without checkpoints.
pub(super) fn capacity(arguments: &SlachArguments, folder: &Path, rounds: u32) -> Result<Capacity> {
    let objects = filled(arguments, folder)?;
    let at = |rate| Setup { policy: Policy::Never, rate, rounds, seed: arguments.seed };
    let served = served(arguments, &objects, rounds)?;
    let settle = arguments.adaptive.time_out_ms as f64 / 1e3 * SETTLE_TIME_OUTS;
    let lossy = lossy_rate(served.max(1.0), |rate| {
        // Removes the log of the earlier runs.
        objects.checkpoint().wait()?;
        let setup = at(rate);
        let (sums, ..) = OpenLoop::new(&objects, &setup, arguments).run(settle, PROBED_SECONDS)?;
        Ok(sums.loss_percent())
    })?;
    objects.close()?;
    Ok(Capacity { lossy: lossy as u64, served: served as u64 })
}

/// Requests a second served back to back, over 0.95.
fn served(arguments: &SlachArguments, objects: &Objects<u64, Property>, rounds: u32) -> Result<f64> {
    let setup = Setup { policy: Policy::Never, rate: f64::INFINITY, rounds, seed: arguments.seed };
    let mut loop_of = OpenLoop::new(objects, &setup, arguments);
    // Requests arrive at once, so every request is late.
    loop_of.time_out_nanos = u64::MAX;
    let (sums, _, seconds) = loop_of.run(UNSTEADY_SECONDS, PROBED_SECONDS)?;
    Ok(sums.served as f64 / seconds / SERVED_SHARE)
}

/// Percent of the requests lost by a policy's checkpoints at a load: the loss with the policy less the loss without
/// checkpoints just before. The load is in percent of [`served`].
pub(super) fn lost_to_checkpoints(
    arguments: &SlachArguments,
    folder: &Path,
    (policy, load): (Policy, u32),
    rounds: u32,
) -> Result<f64> {
    let objects = filled(arguments, folder)?;
    let rate = served(arguments, &objects, rounds)? * f64::from(load) / 100.0;
    let lost = |policy| {
        register(&objects, policy)?;
        let setup = Setup { policy, rate, rounds, seed: arguments.seed };
        let (sums, ..) =
            OpenLoop::new(&objects, &setup, arguments).run(PROBED_SECONDS, arguments.adaptive.seconds)?;
        Ok::<f64, Failure>(sums.loss_percent())
    };
    let without = lost(Policy::Never)?;
    let lost = lost(policy)? - without;
    objects.close()?;
    Ok(lost.max(0.0))
}

/// Registers a policy for checkpoints.
fn register(objects: &Objects<u64, Property>, policy: Policy) -> ObjectsResult<()> {
    let (log_records, adaptive) = match policy {
        Policy::Never => (None, None),
        Policy::Fixed(records) => (Some(records), None),
        Policy::Adaptive(adaptive) => (None, Some(adaptive)),
    };
    objects.register_policy(&CheckpointPolicy { log_records, adaptive, ..CheckpointPolicy::on_demand() })
}

fn builder(folder: &Path) -> ObjectsBuilder {
    ObjectsBuilder::new(folder).durability(ObjectDurability::Relaxed).policy(&CheckpointPolicy::on_demand())
}

/// Filled objects after a complete checkpoint.
fn filled(arguments: &SlachArguments, folder: &Path) -> Result<Objects<u64, Property>> {
    let objects: Objects<u64, Property> = builder(folder).open()?;
    for key in 0..arguments.objects {
        objects.submit(key, &Mixing { with: key, rounds: 1 })?;
    }
    objects.checkpoint().wait()?;
    Ok(objects)
}

fn request(
    objects: &Objects<u64, Property>,
    random: &mut Random,
    keys: u64,
    rounds: u32,
) -> ObjectsResult<()> {
    let key = random.next_below(keys);
    if random.next_below(100) < WRITES_PERCENT {
        write(objects, key, rounds)?;
    } else {
        std::hint::black_box(objects.look(&key, |property| property.is_some())?.0);
    }
    Ok(())
}

fn write(objects: &Objects<u64, Property>, key: u64, rounds: u32) -> ObjectsResult<()> {
    std::hint::black_box(objects.submit(key, &Mixing { with: key, rounds })?.0);
    Ok(())
}

/// Sums over the measured part.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    served: u64,
    lost: u64,
    waited_nanos: u64,
}

impl Sums {
    fn loss_percent(&self) -> f64 {
        100.0 * self.lost as f64 / (self.served + self.lost).max(1) as f64
    }
}

/// Runs the load, and recovers the objects.
pub(super) fn run(arguments: &SlachArguments, folder: &Path, setup: &Setup) -> Result<Measured> {
    let objects = filled(arguments, folder)?;
    register(&objects, setup.policy)?;
    let loop_of = OpenLoop::new(&objects, setup, arguments);
    let settle = WINDOW.mul_f64(arguments.adaptive.of_thresholds * SETTLE_WINDOWS).as_secs_f64();
    let (sums, cycles, seconds) = loop_of.run(settle, arguments.adaptive.seconds)?;
    objects.register_policy(&CheckpointPolicy::on_demand())?;
    objects.checkpoint().wait()?;
    let mut random = Random::from_seed(setup.seed);
    for _ in 0..(REPLAYED_RECORDS * arguments.adaptive.of_thresholds) as u64 {
        write(&objects, random.next_below(arguments.objects), setup.rounds)?;
    }
    objects.close()?;
    drop(objects);
    let objects: Objects<u64, Property> = builder(folder).open()?;
    let (loading_ms, replay_ms_each) = phases(objects.recovery());
    objects.close()?;
    let records = cycles.mean();
    Ok(Measured {
        loss_percent: sums.loss_percent(),
        response_ms: sums.waited_nanos as f64 / 1e6 / sums.served.max(1) as f64,
        replay_ms: records * replay_ms_each,
        loading_ms,
        records,
        installed: cycles.installed(),
        installed_a_minute: cycles.installed() as f64 * 60.0 / seconds,
        requests: (sums.served + sums.lost) as f64 / seconds,
    })
}

/// Milliseconds of loading, and of reading and replaying one record.
fn phases(report: &RecoveryReport) -> (f64, f64) {
    let millis = |wanted: &[Phase]| {
        let of = report.phases.iter().filter(|phase| wanted.contains(&phase.phase));
        of.map(|phase| phase.elapsed.as_secs_f64() * 1e3).sum::<f64>()
    };
    (millis(&[Phase::Load]), millis(&[Phase::Scan, Phase::Replay]) / report.entries.max(1) as f64)
}

/// Samples of a run: number of checkpoints so far, and number of records to replay.
#[derive(Debug, Default)]
struct Cycles(Vec<(u64, u64)>);

impl Cycles {
    fn installed(&self) -> u64 {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => last.0 - first.0,
            _ => 0,
        }
    }

    /// Mean number of records over whole cycles, from the first installed checkpoint to the last. With fewer than two
    /// checkpoints, the mean is over every sample.
    fn mean(&self) -> f64 {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return 0.0 };
        let is_whole = |look: &&(u64, u64)| self.installed() < 2 || look.0 > first.0 && look.0 < last.0;
        let looks = self.0.iter().filter(is_whole);
        let (count, records) = looks.fold((0_u64, 0), |(count, sum), look| (count + 1, sum + look.1));
        records as f64 / count.max(1) as f64
    }
}

/// One thread that serves requests in the order of the intended arrivals.
struct OpenLoop<'o> {
    objects: &'o Objects<u64, Property>,
    setup: &'o Setup,
    keys: u64,
    time_out_nanos: u64,
    clock: Clock,
}

impl<'o> OpenLoop<'o> {
    fn new(objects: &'o Objects<u64, Property>, setup: &'o Setup, arguments: &SlachArguments) -> Self {
        let time_out_nanos = arguments.adaptive.time_out_ms * 1_000_000;
        Self { objects, setup, keys: arguments.objects, time_out_nanos, clock: Clock::machine() }
    }

    /// Settles for `settle` seconds, then measures for at least `seconds` seconds.
    fn run(&self, settle: f64, seconds: f64) -> Result<(Sums, Cycles, f64)> {
        let mut random = Random::from_seed(self.setup.seed);
        let begun = self.clock.nanos();
        let at = |seconds: f64| begun + (seconds * 1e9) as u64;
        let (from, least, most) = (at(settle), at(settle + seconds), at(settle + seconds * LONGER));
        let mut arrival = begun as f64;
        let (mut sums, mut told, mut settled) = (Sums::default(), Sums::default(), None);
        let (mut cycles, mut look) = (Cycles::default(), begun);
        loop {
            arrival += self.gap(&mut random);
            let mut now = self.clock.nanos();
            while now < arrival as u64 {
                std::hint::spin_loop();
                now = self.clock.nanos();
            }
            if now >= look {
                look = now + LOOK_NANOS;
                self.objects.report_requests(sums.served - told.served, sums.lost - told.lost);
                told = sums;
                if now >= from {
                    settled.get_or_insert((sums, now));
                    cycles.0.push(self.look());
                }
                let is_enough = self.setup.policy == Policy::Never || cycles.installed() >= CHECKPOINTS_MIN;
                if now >= most || now >= least && is_enough {
                    break;
                }
            }
            if now - arrival as u64 > self.time_out_nanos {
                sums.lost += 1;
                continue;
            }
            request(self.objects, &mut random, self.keys, self.setup.rounds)?;
            sums.served += 1;
            sums.waited_nanos += self.clock.nanos() - arrival as u64;
        }
        let (before, measured_from) = settled.unwrap_or((Sums::default(), begun));
        let measured = Sums {
            served: sums.served - before.served,
            lost: sums.lost - before.lost,
            waited_nanos: sums.waited_nanos - before.waited_nanos,
        };
        Ok((measured, cycles, (self.clock.nanos() - measured_from) as f64 / 1e9))
    }

    /// Nanoseconds between two arrivals, exponentially distributed.
    fn gap(&self, random: &mut Random) -> f64 {
        let share = (random.next_below(1 << 30) + 1) as f64 / (1_u64 << 30) as f64;
        -share.ln() * 1e9 / self.setup.rate
    }

    /// Number of checkpoints so far, and of records that a recovery would replay now.
    fn look(&self) -> (u64, u64) {
        let checkpoints = self.objects.stats().checkpoints;
        (checkpoints.installed, checkpoints.recovery.map_or(0, |recovery| recovery.log_entries))
    }
}

#[cfg(test)]
mod tests {
    use super::Cycles;

    #[test]
    fn the_mean_is_over_whole_cycles() {
        let looks =
            |installed: &[u64]| Cycles(installed.iter().zip(1..).map(|(of, at)| (*of, at * 10)).collect());
        // Whole cycles lie between the first installed checkpoint and the last.
        let cycles = looks(&[4, 4, 5, 5, 6, 6, 7, 7]);
        assert_eq!((cycles.installed(), cycles.mean()), (3, 45.0));
        let cycles = looks(&[4, 4, 5, 5]);
        assert_eq!((cycles.installed(), cycles.mean()), (1, 25.0), "there is no whole one");
        assert!(Cycles::default().mean().abs() < f64::EPSILON);
    }
}
