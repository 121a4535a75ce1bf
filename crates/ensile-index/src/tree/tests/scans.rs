//! Scans against a model where they go wrong most easily: bounds at the edges of leaves and layers, and a tree that
//! changes under the scan, between one entry and the next.
//!
//! The changes are made by the scan's own visitor, so each run is the same, and the shapes are ones that threads meet
//! rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow, RangeBounds};

use ensile_base::random::Random;

use super::model::{Model, scan_model};
use crate::testing::{Bench, BookedMemory, assume_pinned, hostile_key};
use crate::{Direction, Insert, Masstree, NodeChanges, Range, ScanVisitor, Witness};

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

fn bounds(key: &[u8]) -> [Bound<&[u8]>; 2] {
    [Bound::Included(key), Bound::Excluded(key)]
}

/// Keys at and around the ends of slices: each begins another, ends with NULs, or is the last that its slice allows.
fn edges() -> Vec<Vec<u8>> {
    let mut keys = BTreeSet::new();
    for byte in [0, b'p', 255] {
        for length in [0, 7, 8, 15, 16, 24, 48] {
            for end in [&[][..], &[0], &[0, 0], &[1], &[255], b"a suffix"] {
                keys.insert([&vec![byte; length], end].concat());
            }
        }
    }
    keys.into_iter().collect()
}

/// Each key as either end of a range, with each as the other, in or out, in both directions.
#[test]
fn ranges_between_any_two_edges_hold_what_they_should() {
    let keys = edges();
    for seed in 0..6 {
        let mut random = Random::from_seed(seed);
        let (mut bench, mut model) = (Bench::new(), Model::new());
        // Few of them make leaves and layers of one key, all of them leaves that split.
        for (value, key) in
            keys.iter().enumerate().filter(|_| random.percent([100, 70, 40, 15][seed as usize % 4]))
        {
            bench.insert(key, value as u64);
            model.insert(key.clone(), value as u64);
        }
        // Some layers and leaves that were emptied, of which some are gone.
        let gone: Vec<_> = model.keys().filter(|key| seed % 2 == 1 && key.len() > 16).cloned().collect();
        for key in gone.iter().skip(1) {
            assert!(bench.remove(key, model.remove(key).expect("it is there")));
        }
        for one in &keys {
            for other in &keys {
                for direction in DIRECTIONS {
                    let (lower, upper) = (
                        bounds(one)[random.next_below(2) as usize],
                        bounds(other)[random.next_below(2) as usize],
                    );
                    let got = bench.scan(lower, upper, direction);
                    assert_eq!(
                        got.entries,
                        scan_model(&model, lower, upper, direction),
                        "{lower:?} {upper:?} {direction:?}"
                    );
                }
            }
        }
    }
}

/// Whatever comes into a range or leaves it, a witness of each scan over it has failed (C4, COVER).
#[test]
fn no_key_comes_or_goes_behind_the_witnesses_of_a_scan() {
    let edges = edges();
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let mut bench = Bench::new();
        let some_key = |random: &mut Random| match random.next_below(3) {
            0 => hostile_key(random),
            1 => edges[random.next_below(edges.len() as u64) as usize].clone(),
            _ => random.next_below(400).to_be_bytes().to_vec(),
        };
        for _ in 0..random.next_below(400) {
            bench.insert(&some_key(&mut random), 1);
        }
        for _ in 0..300 {
            let (one, other) = (some_key(&mut random), some_key(&mut random));
            let (lower, upper) = (
                &bounds(&one)[random.next_below(2) as usize],
                &bounds(&other)[random.next_below(2) as usize],
            );
            let scans = DIRECTIONS.map(|direction| bench.scan(*lower, *upper, direction));
            // The bounds themselves are where an edge is missed most easily.
            let key = [&one, &other, &some_key(&mut random)][random.next_below(3) as usize].clone();
            let changed = match bench.insert(&key, 1) {
                Insert::Inserted => true,
                Insert::Exists(_) => bench.remove(&key, 1),
            };
            assert!(changed);
            if <(Bound<&[u8]>, Bound<&[u8]>) as RangeBounds<[u8]>>::contains(&(*lower, *upper), &key[..]) {
                for scan in scans {
                    let holds = scan.witnesses.iter().all(|witness| witness.holds(assume_pinned()));
                    assert!(!holds, "{key:?} came or went behind the witnesses of {lower:?} to {upper:?}");
                }
            }
        }
    }
}

/// Changes the tree while it is scanned.
struct Meddler<'t> {
    tree: &'t Masstree,
    memory: &'t mut BookedMemory,
    random: Random,
    /// The entry that was handed out last: changes come around its key.
    near: Vec<u8>,
    /// Keys that the meddler has put into the tree, or may take away.
    volatile: Model,
    /// Whatever was there at any moment.
    ever: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    next: u64,
    witnesses: Vec<Witness>,
    entries: Vec<(Vec<u8>, u64)>,
    /// Of 100 calls, those at which it does something.
    percent: u64,
}

impl Meddler<'_> {
    fn key(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut key = match random.next_below(4) {
            0 => hostile_key(random),
            1 => (random.next_below(400) * 8).to_be_bytes().to_vec(),
            _ => self.near.clone(),
        };
        match random.next_below(5) {
            0 => key.truncate(random.next_below(key.len() as u64 + 1) as usize),
            1 => key.extend_from_slice(&random.next_below(3).to_be_bytes()[random.next_below(8) as usize..]),
            2 => {
                if let Some(last) = key.last_mut() {
                    *last = last.wrapping_add(random.next_below(5) as u8).wrapping_sub(2);
                }
            }
            _ => {}
        }
        key.truncate(60);
        key
    }

    fn insert(&mut self, key: Vec<u8>) {
        let mut changes = NodeChanges::new();
        self.next += 1;
        if self.tree.insert_if_absent(&key, self.next, self.memory, &mut changes, assume_pinned())
            == Insert::Inserted
        {
            self.ever.entry(key.clone()).or_default().insert(self.next);
            self.volatile.insert(key, self.next);
        }
    }

    fn remove(&mut self, from: &[u8]) {
        let found = self.volatile.range(from.to_vec()..).next().or_else(|| self.volatile.iter().next());
        if let Some((key, value)) = found.map(|(key, value)| (key.clone(), *value)) {
            assert!(self.tree.remove(&key, value, self.memory, assume_pinned()));
            self.volatile.remove(&key);
        }
    }

    fn meddle(&mut self) {
        if !self.random.percent(self.percent) {
            return;
        }
        // Sometimes a leaf's worth at once: it splits, or its neighbour goes.
        for _ in 0..[1, 1, 3, 20][self.random.next_below(4) as usize] {
            let key = self.key();
            if self.random.percent(50) { self.insert(key) } else { self.remove(&key) }
        }
    }
}

impl ScanVisitor for Meddler<'_> {
    fn witness(&mut self, witness: Witness) {
        self.witnesses.push(witness);
        self.meddle();
    }

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        self.near = key.to_vec();
        self.entries.push((key.to_vec(), value));
        self.meddle();
        ControlFlow::Continue(())
    }
}

/// Checks the entries that a scan has handed out beside a `Meddler`.
fn check_meddled(
    got: &Meddler<'_>,
    stable: &Model,
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) {
    let told = format!("{lower:?} {upper:?} {direction:?}");
    for pair in got.entries.windows(2) {
        let in_order =
            if direction == Direction::Forward { pair[0].0 < pair[1].0 } else { pair[0].0 > pair[1].0 };
        assert!(in_order, "{:?} then {:?}, {told}", pair[0].0, pair[1].0);
    }
    for (key, value) in &got.entries {
        assert!(
            <(Bound<&[u8]>, Bound<&[u8]>) as RangeBounds<[u8]>>::contains(&(lower, upper), &key[..]),
            "{key:?}, {told}"
        );
        let known =
            stable.get(key) == Some(value) || got.ever.get(key).is_some_and(|values| values.contains(value));
        assert!(known, "{key:?} never had {value}, {told}");
    }
    let handed_out: Vec<_> =
        got.entries.iter().filter(|entry| stable.contains_key(&entry.0)).cloned().collect();
    assert_eq!(
        handed_out,
        scan_model(stable, lower, upper, direction),
        "what was there all the time, {told}"
    );
    if got.witnesses.iter().all(|witness| witness.holds(assume_pinned())) {
        let all: Model =
            stable.iter().chain(&got.volatile).map(|(key, value)| (key.clone(), *value)).collect();
        assert_eq!(got.entries, scan_model(&all, lower, upper, direction), "all witnesses hold, {told}");
    }
}

#[test]
fn a_scan_whose_leaves_split_and_go_between_two_entries_misses_nothing_and_repeats_nothing() {
    let mut held = 0;
    for seed in 0..60 {
        let mut random = Random::from_seed(seed);
        let (mut bench, mut stable, mut volatile) = (Bench::new(), Model::new(), Model::new());
        for n in 0..random.next_below(300) {
            let key = if random.percent(40) {
                hostile_key(&mut random)
            } else {
                (random.next_below(400) * 8).to_be_bytes().to_vec()
            };
            if bench.insert(&key, n) == Insert::Inserted {
                let of = if random.percent(50) { &mut stable } else { &mut volatile };
                of.insert(key, n);
            }
        }
        for round in 0..40 {
            let (one, other) = (hostile_key(&mut random), (random.next_below(3200)).to_be_bytes());
            let (one, other) =
                if random.percent(50) { (&one[..], &other[..]) } else { (&other[..], &one[..]) };
            let [lower, upper] = [one, other].map(|key| {
                [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded, Bound::Unbounded]
                    [random.next_below(4) as usize]
            });
            let direction = DIRECTIONS[random.next_below(2) as usize];
            let ever = volatile.iter().map(|(key, value)| (key.clone(), BTreeSet::from([*value]))).collect();
            let mut meddler = Meddler {
                tree: &bench.tree,
                memory: &mut bench.memory,
                random: Random::from_seed(seed * 1000 + round),
                near: one.to_vec(),
                volatile: std::mem::take(&mut volatile),
                ever,
                next: 1_000_000 * (round + 1),
                witnesses: Vec::new(),
                entries: Vec::new(),
                percent: [2, 30, 100][random.next_below(3) as usize],
            };
            bench.tree.scan(Range { lower, upper }, direction, &mut meddler, assume_pinned());
            check_meddled(&meddler, &stable, (lower, upper), direction);
            held += u64::from(meddler.witnesses.iter().all(|witness| witness.holds(assume_pinned())));
            volatile = meddler.volatile;
        }
        assert_eq!(bench.check().keys, stable.len() + volatile.len());
    }
    assert!(held > 100, "{held} scans were undisturbed after all");
}

/// Takes a whole layer away at the entry where the scan is about to go on to the layer's next leaf.
struct LayerTaker<'t> {
    tree: &'t Masstree,
    memory: &'t mut BookedMemory,
    layer: Vec<(Vec<u8>, u64)>,
    /// The number of the entry at which it does.
    at: usize,
    entries: Vec<Vec<u8>>,
}

impl ScanVisitor for LayerTaker<'_> {
    fn witness(&mut self, _: Witness) {}

    fn entry(&mut self, key: &[u8], _: u64) -> ControlFlow<()> {
        self.entries.push(key.to_vec());
        if self.entries.len() == self.at {
            for (key, value) in self.layer.drain(..) {
                assert!(self.tree.remove(&key, value, self.memory, assume_pinned()));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The scan knew the end of its range in the layer that went. In the layer above, another slice is the end's.
#[test]
fn a_scan_whose_layer_goes_below_it_ends_where_its_range_does() {
    let number = |n: u64| n.to_be_bytes().to_vec();
    for (direction, included) in
        DIRECTIONS.into_iter().flat_map(|direction| [(direction, true), (direction, false)])
    {
        for at in 1..40 {
            let mut bench = Bench::new();
            (0..14).for_each(|n| assert_eq!(bench.insert(&number(n * 10), n), Insert::Inserted));
            let layer: Vec<_> = (0..40).map(|n| ([number(65), number(n)].concat(), 100 + n)).collect();
            layer.iter().for_each(|(key, value)| assert_eq!(bench.insert(key, *value), Insert::Inserted));
            let (low, high) = (number(40), number(90));
            let [lower, upper] = [&low, &high].map(|key| bounds(key)[usize::from(!included)]);
            let (tree, memory) = (&bench.tree, &mut bench.memory);
            let mut taker = LayerTaker { tree, memory, layer, at: 3 + at, entries: Vec::new() };
            tree.scan(Range { lower, upper }, direction, &mut taker, assume_pinned());
            let mut above: Vec<_> = taker.entries.into_iter().filter(|key| key.len() == 8).collect();
            if direction == Direction::Reverse {
                above.reverse();
            }
            let expected = if included { 4..10 } else { 5..9 };
            assert_eq!(
                above,
                expected.map(|n| number(n * 10)).collect::<Vec<_>>(),
                "{direction:?}, gone at {at}"
            );
        }
    }
}

/// Changes the tree at one of the entries that it is handed.
struct ChangesOnce<'t> {
    tree: &'t Masstree,
    memory: &'t mut BookedMemory,
    /// The number of the entry at which it does.
    at: usize,
    /// Keys that come or go: each one goes that is there.
    toggled: &'t [Vec<u8>],
    witnesses: Vec<Witness>,
    keys: Vec<Vec<u8>>,
}

impl ScanVisitor for ChangesOnce<'_> {
    fn witness(&mut self, witness: Witness) {
        self.witnesses.push(witness);
    }

    fn entry(&mut self, key: &[u8], _: u64) -> ControlFlow<()> {
        self.keys.push(key.to_vec());
        if self.keys.len() == self.at {
            for key in self.toggled {
                let mut changes = NodeChanges::new();
                if let Insert::Exists(value) =
                    self.tree.insert_if_absent(key, 1, self.memory, &mut changes, assume_pinned())
                {
                    assert!(self.tree.remove(key, value, self.memory, assume_pinned()));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Scans a tree with these keys as often as it has entries, in both directions. Each time the change comes behind
/// another entry. Keys that nobody touches are handed out once and in order, and so is all that is there at the end if
/// the witnesses hold.
fn check_change(keys: &[Vec<u8>], toggled: &[Vec<u8>]) {
    for (at, direction) in (1..=keys.len()).flat_map(|at| DIRECTIONS.map(|direction| (at, direction))) {
        let mut bench = Bench::new();
        keys.iter().for_each(|key| assert_eq!(bench.insert(key, 1), Insert::Inserted, "{key:?}"));
        let (tree, memory) = (&bench.tree, &mut bench.memory);
        let mut scan = ChangesOnce { tree, memory, at, toggled, witnesses: Vec::new(), keys: Vec::new() };
        let whole = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
        tree.scan(whole, direction, &mut scan, assume_pinned());
        let ChangesOnce { witnesses, keys: mut seen, .. } = scan;
        if direction == Direction::Reverse {
            seen.reverse();
        }
        let told = format!("{toggled:?} behind entry {at}, {direction:?}");
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}: {told}");
        let mut stable: Vec<_> = keys.iter().filter(|key| !toggled.contains(key)).collect();
        stable.sort();
        assert!(seen.iter().filter(|key| !toggled.contains(key)).eq(stable), "{seen:?}: {told}");
        if witnesses.iter().all(|witness| witness.holds(assume_pinned())) {
            let now = bench.scan(Bound::Unbounded, Bound::Unbounded, direction).entries;
            let mut now: Vec<_> = now.into_iter().map(|(key, _)| key).collect();
            now.sort();
            assert_eq!(seen, now, "all witnesses hold: {told}");
        }
    }
}

/// Among them those that split a leaf right where the scan goes on, so that the leaf that it knows ends there.
#[test]
fn a_scan_survives_the_coming_and_going_of_any_neighbour_of_full_leaves() {
    let number = |n: u64| n.to_be_bytes().to_vec();
    for n in 0..46 {
        let others: Vec<_> = (0..46).filter(|&other| other != n).map(number).collect();
        check_change(&others, &[number(n)]);
        check_change(&[&others[..], &[number(n)]].concat(), &[number(n)]);
    }
}

/// A key that takes the place of a layer stands where the layer's keys did, which the scan has handed out, or not.
#[test]
fn a_scan_survives_a_key_that_takes_the_place_of_a_layer() {
    for shared in [8, 12, 16, 24] {
        let long = |end: &[u8]| [&vec![b'k'; shared][..], end].concat();
        let layer: Vec<_> = [&b"b"[..], b"c", b"d, longer than a slice", b"e"].map(long).into();
        let around = [b"a".to_vec(), vec![b'k'; 7], vec![b'k'; 8], b"kkkkkkkl".to_vec(), b"z".to_vec()];
        let keys = [&around[..], &layer].concat();
        for new in [&b"a"[..], b"b", b"c", b"cc", b"d, longer than a slice", b"f"].map(long) {
            check_change(&keys, &[&layer[..], &[new]].concat());
        }
    }
}
