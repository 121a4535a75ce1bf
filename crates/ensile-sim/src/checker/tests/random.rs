//! Histories at random: what a serial execution left passes, whatever overlaps; what was changed to be wrong does not.
use std::collections::BTreeMap;

use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};

use super::super::{Kind, Report, Summary, check_matching};
use super::matches;
use crate::history::{History, Key, Predicate, Recorder, Trace, Value};

const KEYS: u64 = 12;
/// Keys from here on are lists.
const FIRST_LIST: Key = 6;
const SESSIONS: u64 = 4;

/// What one transaction of the execution is to be told as.
#[derive(Clone, Debug)]
enum Step {
    Read(Key, Option<Value>),
    ReadList(Key, Vec<Value>),
    Scan(Vec<(Key, Value)>),
    ScanGroup(u64, Vec<(Key, Value)>),
    Write(Key, Value),
    Delete(Key),
    Append(Key, Value),
}

impl Step {
    fn tell(&self, trace: &mut Trace) {
        match self.clone() {
            Self::Read(key, seen) => trace.read(key, seen),
            Self::ReadList(key, seen) => trace.read_list(key, &seen),
            Self::Scan(seen) => trace.scan(0..FIRST_LIST, seen),
            Self::ScanGroup(argument, seen) => {
                trace.scan_matching(0..FIRST_LIST, Predicate { name: 0, argument }, seen);
            }
            Self::Write(key, value) => trace.write(key, value),
            Self::Delete(key) => trace.delete(key),
            Self::Append(key, element) => trace.append(key, element),
        }
    }
}

#[derive(Clone, Debug)]
struct Told {
    steps: Vec<Step>,
    begin: u64,
    end: u64,
    tid: Tid,
    /// The boundary, of a snapshot.
    boundary: Option<Epoch>,
    /// Its closure failed by itself: it left nothing, and what it was told was handed out.
    is_answer: bool,
}

impl Told {
    fn commits(&self) -> bool {
        self.boundary.is_none() && !self.is_answer
    }
}

/// An execution one transaction after the other.
struct Execution {
    state: BTreeMap<Key, Vec<Value>>,
    next_value: Value,
    random: Random,
}

impl Execution {
    fn seen(&self, key: Key) -> Option<Value> {
        self.state.get(&key).map(|values| values[0])
    }

    fn registers(&self) -> Vec<(Key, Value)> {
        self.state.range(0..FIRST_LIST).map(|(key, values)| (*key, values[0])).collect()
    }

    fn step(&mut self, steps: &mut Vec<Step>, only_reads: bool) {
        let register = self.random.next_below(FIRST_LIST);
        let list = self.random.next_between(FIRST_LIST, KEYS - 1);
        self.next_value += 1;
        let value = self.next_value;
        match self.random.next_below(if only_reads { 40 } else { 100 }) {
            0..15 => steps.push(Step::Read(register, self.seen(register))),
            15..25 => steps.push(Step::ReadList(list, self.state.get(&list).cloned().unwrap_or_default())),
            25..32 => steps.push(Step::Scan(self.registers())),
            32..40 => {
                let group = self.random.next_below(value / 10 + 1);
                let of_group = |(_, value): &(Key, Value)| value / 10 == group;
                steps.push(Step::ScanGroup(group, self.registers().into_iter().filter(of_group).collect()));
            }
            40..65 => {
                if self.random.percent(50) {
                    steps.push(Step::Read(register, self.seen(register)));
                }
                self.state.insert(register, vec![value]);
                steps.push(Step::Write(register, value));
            }
            65..80 => {
                let key = if self.random.percent(80) { register } else { list };
                let seen = self.state.remove(&key);
                steps.push(match key {
                    FIRST_LIST.. => Step::ReadList(key, seen.clone().unwrap_or_default()),
                    _ => Step::Read(key, seen.as_ref().map(|values| values[0])),
                });
                if seen.is_some() {
                    steps.push(Step::Delete(key));
                }
            }
            _ => {
                if self.random.percent(70) {
                    steps.push(Step::ReadList(list, self.state.get(&list).cloned().unwrap_or_default()));
                }
                self.state.entry(list).or_default().push(value);
                steps.push(Step::Append(list, value));
            }
        }
    }
}

/// A serial execution of `count` transactions. Each takes place at an instant within its time, so that times overlap
/// at random and the order is still right.
fn serial(seed: u64, count: u64) -> Vec<Told> {
    let mut execution = Execution { state: BTreeMap::new(), next_value: 0, random: Random::from_seed(seed) };
    let mut all = Vec::new();
    let mut epoch = 1;
    let mut tid = Tid::first_of(Epoch::new(epoch));
    // What a snapshot of this epoch shows is the state as its predecessor ended.
    let mut boundary = (Epoch::new(epoch), execution.state.clone());
    for at in 0..count {
        if execution.random.percent(10) {
            epoch += execution.random.next_between(1, 3);
            tid = Tid::first_of(Epoch::new(epoch));
            boundary = (Epoch::new(epoch), execution.state.clone());
        }
        let instant = 1_000 + at * 10;
        let (begin, end) =
            (instant - execution.random.next_below(60), instant + 1 + execution.random.next_below(60));
        let is_snapshot = execution.random.percent(8);
        let is_answer = !is_snapshot && execution.random.percent(15);
        let now = (is_snapshot || is_answer).then(|| execution.state.clone());
        if is_snapshot {
            execution.state.clone_from(&boundary.1);
        }
        let mut steps = Vec::new();
        let only_reads = is_snapshot || execution.random.percent(20);
        for _ in 0..execution.random.next_between(1, 5) {
            execution.step(&mut steps, only_reads);
        }
        if let Some(now) = now {
            execution.state = now;
        }
        tid = tid.successor().expect("a short history");
        all.push(Told { steps, begin, end, tid, boundary: is_snapshot.then_some(boundary.0), is_answer });
    }
    all
}

fn judge(all: &[Told]) -> Result<Summary, Box<Report>> {
    let mut recorders: Vec<Recorder> = (0..SESSIONS).map(|session| Recorder::new(session as u32)).collect();
    for (at, told) in all.iter().enumerate() {
        let recorder = &mut recorders[at % SESSIONS as usize];
        let mut trace = recorder.begin(told.begin);
        told.steps.iter().for_each(|step| step.tell(&mut trace));
        match told.boundary {
            Some(boundary) => recorder.snapshot(trace, boundary, told.end),
            None if told.is_answer => recorder.answer(trace, told.end),
            None => recorder.commit(trace, Some(told.tid), told.end),
        }
    }
    check_matching(&History::merge(recorders), matches)
}

#[test]
fn serial_executions_pass_whatever_overlaps() {
    let (mut ambiguous, mut answered) = (0, 0);
    for seed in 0..300 {
        let all = serial(seed, 200);
        let summary = judge(&all).unwrap_or_else(|report| panic!("seed {seed}: {report}"));
        ambiguous += summary.ambiguous;
        answered += summary.answered;
    }
    assert!(answered > 1_000, "errors are rare: {answered}");
    assert!(ambiguous > 0, "no read was ambiguous: these histories are too easy");
}

/// A change that makes a history wrong for certain. Returns whether it found a place for it.
type Damage = fn(&mut [Told], &mut Random) -> bool;

/// Steps of transactions that commit. A list that an error's closure has changed itself has no one right content.
fn steps<'a>(all: &'a mut [Told], random: &mut Random) -> impl Iterator<Item = &'a mut Step> {
    let skip = random.next_below(all.len() as u64) as usize;
    all.iter_mut().skip(skip).filter(|told| told.commits()).flat_map(|told| told.steps.iter_mut())
}

/// A read of a register shows a value that was written by nobody.
fn invent(all: &mut [Told], random: &mut Random) -> bool {
    let read = steps(all, random).find_map(|step| match step {
        Step::Read(_, Some(value)) => Some(value),
        _ => None,
    });
    read.map(|value| *value += 1_000_000).is_some()
}

/// An element that was read in the middle of a list is not in it.
fn forget(all: &mut [Told], random: &mut Random) -> bool {
    let list = steps(all, random).find_map(|step| match step {
        Step::ReadList(_, seen) if seen.len() >= 3 => Some(seen),
        _ => None,
    });
    list.map(|seen| seen.remove(1)).is_some()
}

/// Two elements of a list change places.
fn swap(all: &mut [Told], random: &mut Random) -> bool {
    let list = steps(all, random).find_map(|step| match step {
        Step::ReadList(_, seen) if seen.len() >= 3 => Some(seen),
        _ => None,
    });
    list.map(|seen| seen.swap(0, 1)).is_some()
}

/// A scan shows a row that it should not, or not one that it should: one whose next version ended long before.
fn lose_row(all: &mut [Told], random: &mut Random) -> bool {
    let stale = |all: &[Told], key: Key, by: u64| {
        let writes = |told: &Told| {
            told.steps.iter().any(|step| matches!(step, Step::Write(at, _) | Step::Delete(at) if *at == key))
        };
        // Nobody who overlaps wrote the key, and it is no state of a boundary: there is one right answer.
        all.iter().all(|told| !writes(told) || told.end < by || told.begin > by + 200)
    };
    for at in random.next_below(all.len() as u64) as usize..all.len() {
        let begin = all[at].begin;
        if all[at].boundary.is_some() || all[at].steps.len() > 1 {
            continue;
        }
        let Step::Scan(rows) = &all[at].steps[0] else { continue };
        let Some(row) = rows.iter().position(|(key, _)| stale(all, *key, begin)) else { continue };
        let Step::Scan(rows) = &mut all[at].steps[0] else {
            unreachable!("this step was found to be a scan")
        };
        rows.remove(row);
        return true;
    }
    false
}

/// A write that was read is dropped.
fn drop_write(all: &mut [Told], random: &mut Random) -> bool {
    for at in random.next_below(all.len() as u64) as usize..all.len() {
        for step in 0..all[at].steps.len() {
            let Step::Write(_, written) = all[at].steps[step] else { continue };
            let reads = |told: &Told| {
                told.steps.iter().any(|step| matches!(step, Step::Read(_, Some(value)) if *value == written))
            };
            if all[at + 1..].iter().any(reads) {
                all[at].steps.remove(step);
                return true;
            }
        }
    }
    false
}

/// A snapshot shows a value that was written at or above its boundary.
fn show_too_new(all: &mut [Told], random: &mut Random) -> bool {
    for at in random.next_below(all.len() as u64) as usize..all.len() {
        let Some(boundary) = all[at].boundary else { continue };
        let newer = all[..at].iter().rev().filter(|told| told.commits() && told.tid.epoch() >= boundary);
        let last_write = |told: &Told| -> Option<(Key, Value)> {
            told.steps.iter().rev().find_map(|step| match step {
                Step::Write(key, value) => Some(Some((*key, *value))),
                Step::Delete(_) => Some(None),
                _ => None,
            })?
        };
        if let Some((key, value)) = newer.filter_map(last_write).next() {
            all[at].steps.push(Step::Read(key, Some(value)));
            return true;
        }
    }
    false
}

/// Two transactions that each read what the other writes, at the same time and without seeing it.
fn write_skew(all: &mut [Told], random: &mut Random) -> bool {
    let first = random.next_below(all.len() as u64) as usize;
    let both_write = |at: &usize| all[*at..at + 2].iter().all(Told::commits);
    let Some(at) = (first..all.len() - 1).find(both_write) else { return false };
    let (begin, end) = (all[at].begin.min(all[at + 1].begin), all[at].end.max(all[at + 1].end));
    let by_scan = random.percent(50);
    for (number, told) in all[at..at + 2].iter_mut().enumerate() {
        let (own, other) = (KEYS + number as u64, KEYS + 1 - number as u64);
        told.steps.push(if by_scan { Step::ScanGroup(1 << 40, Vec::new()) } else { Step::Read(other, None) });
        told.steps.push(Step::Read(other, None));
        told.steps.push(Step::Write(own, 1 << 50));
        (told.begin, told.end) = (begin, end);
    }
    true
}

/// An error that was handed out rests on half of what another transaction did at the same time.
fn answer_with_half(all: &mut [Told], random: &mut Random) -> bool {
    let first = random.next_below(all.len() as u64) as usize;
    let commit_and_answer = |at: &usize| all[*at].commits() && all[at + 1].is_answer;
    let Some(at) = (first..all.len() - 1).find(commit_and_answer) else { return false };
    let (begin, end) = (all[at].begin.min(all[at + 1].begin), all[at].end.max(all[at + 1].end));
    all[at].steps.extend([Step::Write(KEYS, 1 << 50), Step::Write(KEYS + 1, 1 << 50)]);
    // The order in which it looks tells nothing.
    let half = [Step::Read(KEYS, None), Step::Read(KEYS + 1, Some(1 << 50))];
    all[at + 1].steps.extend(half);
    for told in &mut all[at..at + 2] {
        (told.begin, told.end) = (begin, end);
    }
    true
}

#[test]
fn damaged_histories_are_seen() {
    let damages: [(&str, Damage, &[Kind]); 8] = [
        ("invent", invent, &[Kind::UnknownValue, Kind::Internal]),
        ("forget", forget, &[Kind::IncompatibleOrder, Kind::LostUpdate, Kind::Internal]),
        ("swap", swap, &[Kind::IncompatibleOrder, Kind::LostUpdate, Kind::Internal]),
        ("lose row", lose_row, &[]),
        ("drop write", drop_write, &[Kind::UnknownValue, Kind::Internal]),
        ("show too new", show_too_new, &[Kind::SnapshotBoundary]),
        // If the second also depends on the first, one rw edge closes the cycle.
        ("write skew", write_skew, &[Kind::G2Item, Kind::GSingle]),
        ("answer with half", answer_with_half, &[Kind::GSingle]),
    ];
    for (name, damage, kinds) in damages {
        let mut done = 0;
        for seed in 0..60 {
            let mut all = serial(seed, 150);
            if !damage(&mut all, &mut Random::from_seed(seed)) {
                continue;
            }
            done += 1;
            match judge(&all) {
                Ok(summary) => panic!("{name}, seed {seed}: accepted: {summary}"),
                Err(report) => {
                    let named = kinds.is_empty() || kinds.iter().any(|kind| report.has(*kind));
                    assert!(named, "{name}, seed {seed}: {report}");
                }
            }
        }
        assert!(done >= 10, "{name}: only {done} histories had a place for it");
    }
}

#[test]
fn a_value_of_another_moment_is_mostly_seen() {
    let (mut seen, mut done) = (0, 0);
    for seed in 0..200 {
        let mut all = serial(seed, 150);
        let mut random = Random::from_seed(seed);
        let values: Vec<(Key, Value)> = all
            .iter()
            .flat_map(|told| &told.steps)
            .filter_map(|step| match step {
                Step::Write(key, value) => Some((*key, *value)),
                _ => None,
            })
            .collect();
        let read = steps(&mut all, &mut random).find_map(|step| match step {
            Step::Read(key, Some(value)) => {
                let others: Vec<Value> = values
                    .iter()
                    .filter(|(of, other)| of == key && other != value)
                    .map(|(_, other)| *other)
                    .collect();
                (!others.is_empty()).then_some((value, others))
            }
            _ => None,
        });
        let Some((value, others)) = read else { continue };
        *value = others[random.next_below(others.len() as u64) as usize];
        done += 1;
        seen += u64::from(judge(&all).is_err());
    }
    // A value of a neighbouring version may be right for transactions that overlap.
    assert!(done > 150 && seen * 10 >= done * 9, "{seen} of {done}");
}
