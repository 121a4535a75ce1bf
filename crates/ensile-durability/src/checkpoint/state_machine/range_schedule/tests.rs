//! Which ranges a turn takes, and the numbers, epochs and bytes that come of it.

use std::time::Duration;

use ensile_base::Epoch;

use super::super::machine::tests::{machine_of, replayed_bytes, rules, salt, seen};
use super::super::{Action, CheckpointStateMachine, Circumstances, CutParts};
use super::*;
use crate::checkpoint::config::Strategy;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::request::CheckpointReport;
use crate::checkpoint::walk::Slice;
use crate::control::trigger::Trigger;
use crate::files::checkpoint::writer::PartWritten;
use crate::files::manifest::installed_checkpoint::PartFiles;

const SECOND: u64 = 1_000_000_000;

fn start(key: u8) -> RangeStart {
    RangeStart { section: 1, key: [key].into() }
}

fn starts(count: usize) -> Vec<RangeStart> {
    (0..count).map(|at| if at == 0 { RangeStart::default() } else { start(at as u8) }).collect()
}

fn walked(number: u64, bytes: u64) -> FuzzyCheckpoint {
    let (checkpointers, files, generation, entries, seal) = (2, 1, 3, 5, 0);
    let (salt, database) = (salt(), crate::samples::identity());
    let files = PartFiles { number, generation, checkpointers, files, entries, bytes, salt, seal, database };
    FuzzyCheckpoint { low: Epoch::new(number * 10), high: Epoch::new(number * 10 + 2), files }
}

/// Ranges of these bytes, which were as large when they were cut, or of the bytes of `cut`.
fn cycling(wanted: u32, bytes: &[u64], cut: &[u64]) -> CyclingCheckpoint {
    let range = |(at, bytes): (usize, &u64)| InstalledRange {
        start: starts(at + 1).remove(at),
        walked: walked(7 + at as u64, *bytes),
    };
    let cut = RangesCut { wanted, bytes: cut.iter().sum(), largest: cut.iter().copied().max().unwrap_or(0) };
    CyclingCheckpoint { cut, ranges: bytes.iter().enumerate().map(range).collect() }
}

#[test]
fn all_are_cut_anew_when_the_largest_has_come_to_twice_the_mean_of_the_others() {
    for (why, is_anew, wanted, bytes, cut) in [
        ("even", false, 3, &[100, 100, 100][..], &[100, 100, 100][..]),
        ("all have grown", false, 3, &[900, 900, 900], &[100, 100, 100]),
        ("not twice", false, 3, &[100, 199, 100], &[100, 100, 100]),
        ("twice", true, 3, &[100, 200, 100], &[100, 100, 100]),
        ("twice, of two", true, 2, &[200, 100], &[100, 100]),
        ("rows too large for an even cut", false, 3, &[100, 600, 100], &[100, 400, 100]),
        ("and worse since", true, 3, &[100, 800, 100], &[100, 400, 100]),
        ("few rows", false, 9, &[100, 100], &[100, 100]),
        ("more rows than then", true, 9, &[200, 200], &[100, 100]),
        ("one range", false, 1, &[900], &[100]),
        ("nothing at all", false, 4, &[224], &[224]),
    ] {
        assert_eq!(is_cut_anew(&cycling(wanted, bytes, cut), wanted), is_anew, "{why}");
    }
    assert!(is_cut_anew(&cycling(3, &[100; 3], &[100; 3]), 4), "another number is wanted");
}

#[test]
fn a_turn_takes_the_range_whose_last_one_is_the_longest_ago() {
    let mut before = cycling(3, &[100; 3], &[100; 3]);
    before.ranges[0].walked = walked(10, 100);
    let installed = InstalledCheckpoint::Cycling(before.clone());
    let taken = Taken::next(Some(&installed), 3, false);
    assert!(matches!(&taken, Taken::One { at: 1, of: 3, keys } if *keys == before.keys(1)), "{taken:?}");
    assert_eq!((taken.turns(), taken.bytes(Some(&installed))), (3, 100));
    let next = after_turn(Some(&installed), &taken, &[], vec![walked(11, 120)]);
    let numbers: Vec<u64> = next.range_walks().map(|walked| walked.files.number).collect();
    assert_eq!((numbers, next.cut), (vec![10, 11, 9], before.cut), "the others stay as they are");
    for at in 0..3 {
        let mut ranges = before.clone();
        ranges.ranges[at].walked = walked(1, 100);
        let Taken::One { at: found, keys, .. } =
            Taken::next(Some(&InstalledCheckpoint::Cycling(ranges)), 3, false)
        else {
            panic!("it takes one")
        };
        let end = starts(3).get(at + 1).cloned();
        assert_eq!(
            (found, keys.start, keys.end),
            (at, starts(3)[at].clone(), end),
            "K4: the last has no end"
        );
    }
    assert_eq!(Taken::next(Some(&installed), 3, true), Taken::All { wanted: 3 }, "a caller asks");
    let whole = InstalledCheckpoint::Fuzzy(walked(7, 100));
    for other in [None, Some(&whole)] {
        assert_eq!(Taken::next(other, 3, false), Taken::All { wanted: 3 }, "there are no ranges yet");
    }
}

/// A turn that begins at E = `low`: cut by `cut`, walked until E = `high`, and installed. What was installed, and what
/// is reported.
fn turn(
    machine: &mut CheckpointStateMachine,
    (low, high): (u64, u64),
    log_bytes: u64,
) -> (InstalledCheckpoint, CheckpointReport) {
    let seen = |epoch| Circumstances { log_bytes, has_marks: true, ..seen(epoch) };
    let Action::LookForRoom { .. } = machine.decide(0, &seen(low)) else { panic!("a turn is due") };
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(low)));
    let Action::Cut(taken) = machine.decide(0, &seen(low + 1)) else {
        panic!("every epoch below e_l is over")
    };
    let starts = if let Taken::All { wanted } = taken { starts(wanted as usize) } else { Vec::new() };
    let slice = Slice { section: 1, from: Box::default(), to: None };
    let sets = starts.len().max(1);
    assert!(machine.cut(CutParts { starts, parts: vec![vec![vec![slice]; sets]; 2] }));
    for checkpointer in 0..2 {
        let Action::WritePart(task) = machine.decide(checkpointer, &seen(low + 1)) else {
            panic!("it has a part")
        };
        assert_eq!(task.slices.len(), sets);
        let written = PartWritten { entries: 5, displaced: 0, tail_bytes: 0, bytes: 50, ends: vec![1] };
        machine.part_ended(checkpointer, vec![written; sets], Epoch::new(high));
    }
    let Action::Install(installed) = machine.decide(0, &seen(high + 1)) else {
        panic!("its marks are synced")
    };
    machine.record_install(Ok(installed.clone()), SECOND).1.send();
    assert!(matches!(machine.decide(0, &seen(high + 1)), Action::Clear(_)));
    machine.record_clear(None, SECOND).send();
    (installed, machine.history().last().expect("installed").clone())
}

fn epochs(installed: &InstalledCheckpoint) -> (u64, u64) {
    (installed.redo_epoch().number(), installed.durable_min().number())
}

#[test]
fn k5_the_least_e_l_moves_on_by_one_range_a_turn_and_the_largest_e_h_is_demanded() {
    let mut machine = machine_of(Strategy::Cycling);
    machine.demand().1.send();
    let (installed, report) = turn(&mut machine, (7, 9), 0);
    assert_eq!((epochs(&installed), installed.number(), report.number), ((7, 9), 3, 3));
    let of = |report: CheckpointReport| {
        let turn = report.turn.expect("it is a turn");
        (turn.first, turn.taken, turn.ranges, report.bytes_written)
    };
    assert_eq!(of(report), (0, 3, 3, 300));
    // From here on by time.
    machine.set_rules(rules(Trigger { log_bytes: Some(300), ..Trigger::default() }), &seen(20));
    for (at, covered) in [(0, 7), (1, 7), (2, 20), (0, 22), (1, 24)] {
        let low = 20 + 2 * (machine.history().last().expect("installed").number - 3);
        let log_bytes = 100 * (machine.history().last().expect("installed").number - 2);
        let (installed, report) = turn(&mut machine, (low, low + 1), log_bytes);
        assert_eq!(epochs(&installed), (covered, low + 1));
        assert_eq!(report.low.number(), covered, "what the log is needed from");
        assert_eq!(of(report), (at, 1, 3, 100));
    }
}

#[test]
fn a_turn_of_n_is_due_after_an_nth_of_the_log_and_recovery_replays_from_the_least_e_l() {
    let mut machine = machine_of(Strategy::Cycling);
    machine.demand().1.send();
    turn(&mut machine, (7, 9), 1000);
    machine.set_rules(rules(Trigger { log_bytes: Some(300), ..Trigger::default() }), &seen(20));
    let at = |log_bytes| Circumstances { log_bytes, ..seen(20) };
    assert!(matches!(machine.decide(0, &at(1099)), Action::Rest));
    turn(&mut machine, (20, 21), 1100);
    assert_eq!(replayed_bytes(&machine, 1150), 150, "two ranges need the log from the first turn on");
    turn(&mut machine, (30, 31), 1200);
    turn(&mut machine, (40, 41), 1300);
    assert_eq!(replayed_bytes(&machine, 1350), 250, "from the second turn on");
    let interval = Some(Duration::from_secs(9));
    machine.set_rules(rules(Trigger { interval, ..Trigger::default() }), &seen(20));
    let at =
        |seconds: u64| Circumstances { now_nanos: (1 + seconds) * SECOND, log_bytes: 2 << 20, ..seen(50) };
    assert!(matches!(machine.decide(0, &at(2)), Action::Rest));
    assert!(matches!(machine.decide(0, &at(3)), Action::LookForRoom { bytes: 100 }));
}

#[test]
fn a_turn_that_fails_leaves_the_ranges_as_they_are_and_is_tried_again() {
    let mut machine = machine_of(Strategy::Cycling);
    machine.demand().1.send();
    let (before, _) = turn(&mut machine, (7, 9), 0);
    machine.set_rules(rules(Trigger { log_bytes: Some(1), ..Trigger::default() }), &seen(20));
    let seen = |epoch| Circumstances { log_bytes: 100, now_nanos: 100 * SECOND, ..seen(epoch) };
    assert!(matches!(machine.decide(0, &seen(20)), Action::LookForRoom { .. }));
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(20)));
    let Action::Cut(failed) = machine.decide(0, &seen(21)) else { panic!("it is opened") };
    assert!(machine.cut(CutParts::whole(vec![Vec::new(), Vec::new()])));
    assert!(matches!(machine.decide(0, &seen(21)), Action::WritePart(_)));
    machine.part_failed("no space");
    assert!(matches!(machine.decide(0, &seen(21)), Action::CleanUp { kept: 3 }));
    machine.cleaned_up(SECOND).send();
    assert_eq!(machine.owes_removal(), (Some(before), false));
    assert!(matches!(machine.decide(0, &seen(30)), Action::LookForRoom { .. }));
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(30)));
    let Action::Cut(again) = machine.decide(0, &seen(31)) else { panic!("it is opened") };
    assert_eq!(again, failed);
}

#[test]
fn what_was_logged_is_remembered_of_the_turns_whose_ranges_are_installed_and_of_no_others() {
    let mut turns = TurnBytes::default();
    let mut now = cycling(3, &[100; 3], &[100; 3]);
    let installed = |now: &CyclingCheckpoint| InstalledCheckpoint::Cycling(now.clone());
    turns.add_turn(7..=9, 500, &installed(&now));
    assert_eq!((turns.0.len(), turns.least(&installed(&now))), (3, Some(500)));
    for turn in 0..9 {
        let number = 10 + turn;
        now.ranges[turn as usize % 3].walked = walked(number, 100);
        turns.add_turn(number..=number, 1000 * number, &installed(&now));
        assert_eq!(turns.0.len(), 3, "one for each range");
        let least = if turn < 2 { 500 } else { 1000 * (number - 2) };
        assert_eq!(turns.least(&installed(&now)), Some(least), "of the range whose turn is the longest ago");
    }
    turns.add_turn(30..=30, 9, &installed(&cycling(3, &[100; 3], &[100; 3])));
    assert_eq!(turns.0.len(), 0, "ranges of a life before");
}
