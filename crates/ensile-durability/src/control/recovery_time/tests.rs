//! Costs that are learned, and whole lives as traces: how long a recovery would really take at each moment, and how
//! many checkpoints were begun, beside the fewest that would do.

use super::*;
use crate::control::trigger::{CheckpointReason, CheckpointVerdict, Situation, Trigger};

const SECOND: u64 = 1_000_000_000;
/// Between two looks.
const LOOK: u64 = SECOND / 10;
const THREADS: u64 = 2;

/// What a machine really takes: not what is assumed.
fn true_costs() -> RecoveryCosts {
    RecoveryCosts {
        rest: 60e6,
        load: [3.0, 300.0],
        replay: [1.0, 900.0, 1.2],
        applied_entry: 0.0,
        is_measured: true,
    }
}

fn amount(bytes: u64, entries: u64) -> DataAmount {
    DataAmount { bytes, entries }
}

fn work(entries: u64, entry_bytes: u64, applied: u64) -> LogWork {
    LogWork { bytes: entries * entry_bytes, entries, applied_nanos: entries * applied }
}

fn measured(replayed: LogWork) -> MeasuredRecovery {
    let costs = true_costs();
    let (load_bytes, load_entries) = (500_000_000, 4_000_000);
    let all = |cost: f64| (cost / THREADS as f64) as u64;
    MeasuredRecovery {
        threads: THREADS,
        rest_nanos: costs.rest as u64,
        load_nanos: all(dot(&costs.load, [load_bytes as f64, load_entries as f64])),
        load_bytes,
        load_entries,
        replay_nanos: all(dot(&costs.replay, replayed.amounts())),
        replayed,
    }
}

fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected, "{found}, and not {expected}");
}

#[test]
fn recoveries_are_predicted_as_they_were_measured_and_teach_each_cost() {
    let replayed = work(5_000_000, 140, 250);
    let mut costs = RecoveryCosts::default();
    costs.learn(&measured(replayed));
    assert!(costs.is_measured);
    let found = measured(replayed);
    assert_near(dot(&costs.replay, replayed.amounts()), found.replay_nanos as f64 * 2.0, 1e-6);
    assert_near(dot(&costs.load, [500e6, 4e6]), found.load_nanos as f64 * 2.0, 1e-6);
    assert_near(costs.rest, 55e6, 1e-6);
    let mut costs = RecoveryCosts::default();
    let kinds = [work(9_000_000, 40, 50), work(500_000, 4_000, 100), work(400_000, 60, 20_000)];
    for _ in 0..12 {
        kinds.iter().for_each(|replayed| costs.learn(&measured(*replayed)));
    }
    for (found, expected) in costs.replay.iter().zip(true_costs().replay) {
        assert_near(*found, expected, 0.05);
    }
    // A kind that none of them had.
    let other = work(1_000_000, 400, 2_000);
    assert_near(dot(&costs.replay, other.amounts()), dot(&true_costs().replay, other.amounts()), 0.05);
    let outlook = |threads| {
        let mut outlook = RecoveryOutlook::new(true_costs(), threads, LogWork::default(), 0);
        outlook.observe(SECOND, amount(100_000_000, 1_000_000), None);
        outlook.forecast(amount(500_000_000, 4_000_000), 100_000_000, Duration::ZERO, None)
    };
    let (one, two) = (outlook(1), outlook(2));
    assert_eq!((one.load, one.replay), (two.load * 2, two.replay * 2));
    assert_eq!(two.load, Duration::from_millis(1_350));
    assert_eq!(two.rates.replay_entries_per_second, 2_000_000);
}

#[test]
fn a_life_that_measures_nothing_is_predicted_by_what_applying_took_at_recoveries() {
    // Few operations, and dear ones.
    let replayed = work(40_000, 60, 200_000);
    let mut costs = RecoveryCosts::default();
    for _ in 0..8 {
        costs.learn(&measured(replayed));
    }
    assert_near(costs.applied_entry, 200_000.0, 1e-6);
    let predicted = |entries, applied_nanos| {
        let mut outlook = RecoveryOutlook::new(costs, THREADS, LogWork::default(), 0);
        outlook.observe(SECOND, amount(entries * 60, entries), applied_nanos);
        outlook.forecast(DataAmount::default(), entries * 60, Duration::ZERO, None)
    };
    let took = measured(replayed).replay_nanos as f64;
    for applied_nanos in [Some(replayed.applied_nanos), None] {
        let forecast = predicted(replayed.entries, applied_nanos);
        assert_near(forecast.replay.as_nanos() as f64, took, 0.01);
        assert_near(forecast.rates.applied_nanos_per_entry as f64, 200_000.0, 1e-6);
    }
    assert_near(predicted(80_000, None).replay.as_nanos() as f64, 2.0 * took, 0.01);
    // A short replay, or one of a state that is not applied, teaches nothing of it.
    costs.learn(&MeasuredRecovery { replay_nanos: 1_000_000, ..measured(work(10, 60, 9_000_000)) });
    costs.learn(&measured(work(5_000_000, 140, 0)));
    assert_near(costs.applied_entry, 200_000.0, 1e-6);
}

#[test]
fn what_was_too_short_or_much_disturbed_teaches_little() {
    let mut costs = RecoveryCosts::default();
    // It took most of a second to find out that there is little.
    let replayed = work(66_000, 100, 0);
    costs.learn(&MeasuredRecovery {
        replay_nanos: 900_000_000,
        replayed,
        threads: 1,
        ..MeasuredRecovery::default()
    });
    assert_eq!(costs, RecoveryCosts::default());
    let replayed = work(1_000_000, 100, 0);
    let before = dot(&costs.replay, replayed.amounts());
    costs.learn(&MeasuredRecovery {
        replay_nanos: 3_600 * SECOND,
        replayed,
        threads: 1,
        ..MeasuredRecovery::default()
    });
    assert_near(dot(&costs.replay, replayed.amounts()), 8.0 * before, 1e-6);
    for _ in 0..3 {
        costs.learn(&MeasuredRecovery {
            replay_nanos: before as u64,
            replayed,
            threads: 1,
            ..MeasuredRecovery::default()
        });
    }
    assert_near(dot(&costs.replay, replayed.amounts()), before, 1e-6);
}

#[test]
fn a_target_below_loading_alone_is_refused_with_the_figure() {
    let outlook = RecoveryOutlook::new(true_costs(), THREADS, LogWork::default(), 0);
    let with = |millis| {
        let target = Some(Duration::from_millis(millis));
        outlook.forecast(amount(500_000_000, 4_000_000), 0, Duration::ZERO, target).refusal()
    };
    let said = with(1_410).expect("60 ms and 1,350 ms are not below it");
    assert!(said.contains("takes 1.4s") && said.contains("370370370 bytes a second"), "{said}");
    assert_eq!(with(1_411), None);
    assert_eq!(outlook.forecast(amount(1 << 40, 0), 0, Duration::ZERO, None).refusal(), None, "nobody asks");
}

#[test]
fn what_earlier_lives_left_counts_until_a_checkpoint_is_installed() {
    let before = work(1_000_000, 100, 0);
    let mut outlook = RecoveryOutlook::new(true_costs(), THREADS, before, 0);
    let replay = |outlook: &RecoveryOutlook, bytes| {
        outlook.forecast(DataAmount::default(), bytes, Duration::ZERO, None).replay
    };
    assert_eq!(replay(&outlook, 100_000_000), Duration::from_millis(500));
    outlook.observe(SECOND, amount(50_000_000, 500_000), None);
    assert_eq!(replay(&outlook, 150_000_000), Duration::from_millis(750));
    outlook.record_install(work(400_000, 100, 0));
    assert_eq!(replay(&outlook, 10_000_000), Duration::from_millis(50));
}

#[test]
fn a_checkpoint_is_expected_to_take_what_the_last_one_did_or_longer_as_it_grows() {
    let last = Some((Duration::from_secs(4), 1_000));
    for (bytes, expected) in [(1_000, 4), (500, 4), (3_000, 12)] {
        assert_eq!(RecoveryOutlook::expected_duration(bytes, last, None), Duration::from_secs(expected));
    }
    assert_eq!(RecoveryOutlook::expected_duration(150_000_000, None, None), Duration::from_millis(1_200));
    assert_eq!(
        RecoveryOutlook::expected_duration(150_000_000, None, Some(50_000_000)),
        Duration::from_millis(3_200)
    );
}

/// What is logged in each tenth of a second: entries, bytes of each, nanoseconds of applying each.
type Trace = Vec<(u64, u64, u64)>;

/// A folder whose checkpoint loads in 0.4 of the target, and takes so long to write.
struct World {
    target: Duration,
    checkpoint_looks: usize,
    trace: Trace,
}

impl World {
    /// Of a checkpoint: entries of 125 bytes.
    fn installed(&self) -> DataAmount {
        let entries = self.target.as_nanos() as f64 * 0.4 * THREADS as f64 / (3.0 * 125.0 + 300.0);
        amount(entries as u64 * 125, entries as u64)
    }

    /// What was logged by the end of each look, and what that takes to replay.
    fn logged(&self) -> Vec<(LogWork, f64)> {
        let mut all = LogWork::default();
        let add = |&(entries, bytes, applied): &(u64, u64, u64)| {
            all = all.and(&work(entries, bytes, applied));
            (all, dot(&true_costs().replay, all.amounts()) / THREADS as f64)
        };
        self.trace.iter().map(add).collect()
    }

    /// Runs it, with these costs believed. The longest that a recovery would really have taken, and how many
    /// checkpoints were begun.
    fn run(&self, believed: RecoveryCosts) -> (Duration, usize) {
        let trigger = Trigger { recovery_time: Some(self.target), ..Trigger::default() };
        let logged = self.logged();
        let mut outlook = RecoveryOutlook::new(believed, THREADS, LogWork::default(), 0);
        let installed = self.installed();
        let load =
            dot(&true_costs().load, [installed.bytes as f64, installed.entries as f64]) / THREADS as f64;
        let expected = Duration::from_nanos(self.checkpoint_looks as u64 * LOOK);
        let (mut base, mut under_way, mut begun, mut worst) = ((LogWork::default(), 0.0), None, 0, 0.0_f64);
        for (look, &(all, cost)) in logged.iter().enumerate() {
            worst = worst.max(true_costs().rest + load + cost - base.1);
            if let Some((began, from)) = under_way {
                if look < began + self.checkpoint_looks {
                    continue;
                }
                (base, under_way) = (from, None);
                outlook.record_install(base.0);
            }
            outlook.observe(look as u64 * LOOK, amount(all.bytes, all.entries), Some(all.applied_nanos));
            let replayed = all.bytes - base.0.bytes;
            let recovery = outlook.forecast(installed, replayed, expected, Some(self.target));
            if trigger.verdict(&situation(recovery))
                == CheckpointVerdict::Begins(CheckpointReason::RecoveryTime)
            {
                (under_way, begun) = (Some((look, (all, cost))), begun + 1);
            }
        }
        (Duration::from_nanos(worst as u64), begun)
    }

    /// How many would do for somebody who knows what will be logged: each begins as late as it may.
    fn fewest(&self) -> usize {
        let logged = self.logged();
        let installed = self.installed();
        let load =
            dot(&true_costs().load, [installed.bytes as f64, installed.entries as f64]) / THREADS as f64;
        let most = self.target.as_nanos() as f64 - true_costs().rest - load;
        let (mut base, mut look, mut begun) = (0.0, 0, 0);
        while let Some((_, behind)) = logged.get(look + 1 + self.checkpoint_looks) {
            if behind - base > most {
                (base, begun) = (logged[look].1, begun + 1);
                look += self.checkpoint_looks;
            } else {
                look += 1;
            }
        }
        begun
    }

    fn assert_kept(&self, believed: RecoveryCosts) {
        let ((worst, begun), fewest) = (self.run(believed), self.fewest());
        assert!(worst <= self.target.mul_f64(1.2), "{worst:?} for a target of {:?}", self.target);
        assert!(
            fewest > 2 && begun as f64 <= 1.5 * fewest as f64,
            "{begun} checkpoints, and {fewest} would do"
        );
    }
}

fn situation(recovery: RecoveryForecast) -> Situation {
    Situation {
        is_demanded: false,
        is_awaited: false,
        failures: 0,
        is_log_full: false,
        since_end: Duration::from_secs(1),
        turns: 1,
        log_bytes: 0,
        log_records: 0,
        load: 0.0,
        checkpoint_bytes: 0,
        recovery,
    }
}

/// So many seconds of each, over and over for 200 s.
fn turns(seconds: usize, of: &[(u64, u64, u64)]) -> Trace {
    (0..2_000).map(|look| of[look / (seconds * 10) % of.len()]).collect()
}

/// What recoveries of small operations and of large ones have taught.
fn learned() -> RecoveryCosts {
    let mut costs = RecoveryCosts::default();
    for _ in 0..4 {
        costs.learn(&measured(work(9_000_000, 40, 200)));
        costs.learn(&measured(work(300_000, 4_000, 5_000)));
    }
    costs
}

#[test]
fn targets_are_kept_while_load_or_operations_change() {
    for (target, seconds) in [(2, 3), (5, 7), (10, 16)] {
        let trace = turns(seconds, &[(30_000, 100, 200), (3_000, 100, 200)]);
        let world =
            World { target: Duration::from_secs(target), checkpoint_looks: target as usize * 4, trace };
        world.assert_kept(learned());
    }
    let trace = turns(11, &[(10_000, 100, 200), (10_000, 1_000, 200)]);
    World { target: Duration::from_secs(5), checkpoint_looks: 20, trace }.assert_kept(learned());
    let trace = turns(11, &[(10_000, 100, 500), (10_000, 100, 5_000)]);
    World { target: Duration::from_secs(5), checkpoint_looks: 20, trace }.assert_kept(learned());
    let mut trace = vec![(100, 100, 200); 1_000];
    trace.extend([(20_000, 100, 5_000); 1_000]);
    World { target: Duration::from_secs(5), checkpoint_looks: 20, trace }.assert_kept(learned());
}

fn outlook(before: LogWork) -> RecoveryOutlook {
    RecoveryOutlook::new(true_costs(), THREADS, before, 0)
}

#[test]
fn the_growth_is_that_of_a_whole_window_however_often_somebody_looks() {
    let growth = |looks: &[(u64, u64)]| {
        let mut outlook = outlook(LogWork::default());
        for (millis, entries) in looks {
            outlook.observe(millis * 1_000_000, amount(entries * 100, *entries), Some(0));
        }
        outlook.forecast(DataAmount::default(), 0, Duration::from_secs(1), None).growth
    };
    let steady = growth(&[(500, 5000), (1000, 10_000)]);
    assert!(steady > Duration::from_millis(1), "{steady:?}");
    // A burst between two looks counts with the window that it is in.
    assert_eq!(growth(&[(500, 5000), (501, 9000), (999, 9500), (1000, 10_000)]), steady);
    assert_eq!(growth(&[(500, 5000), (501, 9000)]), growth(&[(500, 5000)]), "the window is not over");
}

#[test]
fn a_checkpoint_that_is_installed_takes_the_log_of_earlier_lives_with_it() {
    let mut outlook = outlook(work(50_000, 1000, 0));
    let records = |outlook: &RecoveryOutlook| {
        let bytes = outlook.logged_work().bytes + 50_000_000;
        let RecoveryForecast { log_entries, log_bytes, .. } =
            outlook.forecast(DataAmount::default(), bytes, Duration::ZERO, None);
        (log_entries, log_bytes)
    };
    outlook.observe(SECOND, amount(100_000, 1000), Some(0));
    assert_eq!(records(&outlook), (51_000, 50_100_000), "what is left of earlier lives, and this one's");
    let base = outlook.logged_work();
    outlook.observe(2 * SECOND, amount(300_000, 3000), Some(0));
    outlook.record_install(base);
    let RecoveryForecast { log_entries, replay, .. } =
        outlook.forecast(DataAmount::default(), 200_000, Duration::ZERO, None);
    assert_eq!(log_entries, 2000, "what came behind its walk");
    let all = dot(&true_costs().replay, [200_000.0, 2000.0, 0.0]) / THREADS as f64;
    assert_near(replay.as_nanos() as f64, all, 0.01);
}
