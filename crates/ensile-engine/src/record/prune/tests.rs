//! Which versions stay, against a list of all that was ever written. One thread plays everybody.

use std::collections::BTreeSet;
use std::time::Duration;

use ensile_base::Tid;
use ensile_base::random::Random;
use ensile_epoch::{Advance, EpochConfig, Epochs, PinHandle, Pinned};
use ensile_memory::{FREED_WORD, Memory, MemoryConfig};

use super::super::blocks::Blocks;
use super::super::pin_scope::Boundary;
use super::super::tid_word::Word;
use super::super::{Address, Record, Scratch};
use super::*;

/// Far enough apart for E5.
const MILLI: u64 = 1_000_000;

fn at(address: Address) -> Record<'static> {
    // SAFETY: nothing here gives memory back; what the limits let go is filled with what is never read.
    unsafe { address.record() }
}

/// A row, its readers, and all that was ever written to it.
struct Scene {
    epochs: Epochs,
    blocks: Blocks,
    row: Address,
    nanos: u64,
    /// The last write of each epoch.
    history: Vec<Tid>,
    boundaries: Vec<u64>,
    readers: Vec<(PinHandle, Epoch)>,
    /// What the last scan saw: the readers' boundaries, and the one that was served.
    scanned: (Vec<Epoch>, Epoch),
    /// Old versions, and the epochs that superseded them.
    versions: Vec<(Address, Epoch)>,
}

impl Scene {
    fn new() -> Self {
        let first = Epoch::new(10);
        let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
        let tid = Tid::first_of(Epoch::new(3));
        let row = blocks.create_record(&value(tid), Word::for_write(tid)).publish();
        Self {
            epochs: Epochs::new(&EpochConfig { first, snapshot_interval: Duration::MAX }),
            blocks,
            row,
            nanos: 0,
            history: vec![tid],
            boundaries: vec![first.number()],
            readers: Vec::new(),
            scanned: (Vec::new(), Epoch::ZERO),
            versions: Vec::new(),
        }
    }

    fn advance(&mut self, to_boundary: bool) {
        self.nanos += MILLI;
        let newest = self.boundaries.last().copied().expect("there is a first one");
        let step = match to_boundary {
            true => self.epochs.try_advance_to_boundary(self.nanos, self.epochs.now()),
            false => self.epochs.try_advance(self.nanos),
        };
        let Advance::Advanced(now) = step else { panic!("nothing is bound") };
        if to_boundary && now.number() >= newest + 2 {
            self.boundaries.push(now.number());
        }
    }

    fn scan(&mut self) {
        let limit = self.epochs.scan().snapshots();
        self.scanned = (self.readers.iter().map(|reader| reader.1).collect(), self.epochs.served_snapshot());
        let (passed, held) = self.versions.drain(..).partition(|(_, superseded)| *superseded < limit);
        self.versions = held;
        let passed: Vec<(Address, Epoch)> = passed;
        for (version, _) in passed {
            at(version).at_word(0).store(FREED_WORD, Ordering::Relaxed);
            at(version).at_word(1).store(FREED_WORD, Ordering::Relaxed);
        }
    }

    /// A commit, in the engine's order of steps. It may replace the record.
    fn write(&mut self, replaces: bool) {
        let (row, epoch) = (at(self.row), self.epochs.now());
        let boundary = self.epochs.boundary_at(epoch);
        let before = row.lock();
        let tid = match before.epoch() == epoch {
            true => before.tid().successor().expect("few writes"),
            false => Tid::first_of(epoch),
        };
        let (kept, is_held) = (before.epoch() < boundary, self.epochs.has_reader_below(boundary));
        let shown = self.epochs.shown_boundaries().expect("nobody publishes now");
        if replaces {
            if kept && is_held {
                row.prune(before.epoch(), &shown);
            }
            let new = self.blocks.create_record(&value(tid), Word::PLACEHOLDER);
            new.finish(Word::for_write(tid), if kept { Some(self.row) } else { row.previous_address() });
            row.unlock_with(before.to_superseded());
            if kept {
                self.versions.push((self.row, epoch));
            }
            self.row = new.publish();
        } else {
            if kept {
                let room = self.blocks.version(row.class(), is_held);
                self.versions.push((row.preserve(before, room).0, epoch));
                if is_held {
                    row.prune(epoch, &shown);
                }
            }
            row.overwrite(&value(tid));
            row.unlock_with(Word::for_write(tid));
        }
        if before.epoch() == epoch {
            self.history.pop();
        }
        self.history.push(tid);
        if kept && is_held {
            self.check_chain();
        }
    }

    /// The newest write below a boundary.
    fn shown_at(&self, boundary: Epoch) -> Option<Tid> {
        self.history.iter().rev().copied().find(|tid| tid.epoch() < boundary)
    }

    /// Behind the latest stands what a member of the set shows, and nothing else.
    fn check_chain(&self) {
        let (readers, served) = &self.scanned;
        let newest = self.boundaries.iter().copied().filter(|boundary| *boundary >= served.number());
        let members: Vec<Epoch> = readers.iter().copied().chain(newest.map(Epoch::new)).collect();
        let latest = self.history.last().copied();
        let expected: BTreeSet<_> = members
            .iter()
            .filter_map(|boundary| self.shown_at(*boundary))
            .filter(|tid| Some(*tid) != latest)
            .collect();
        let lowest = members.iter().copied().min().expect("a boundary is served");
        let mut stays = BTreeSet::new();
        let mut version = at(self.row);
        while version.word().epoch() >= lowest {
            let Some(older) = version.previous() else { break };
            assert!(!older.is_unlinked(), "what is linked is not marked");
            stays.insert(older.word().tid());
            version = older;
        }
        assert_eq!(stays, expected, "members {members:?}");
        for (version, superseded) in &self.versions {
            let version = at(*version);
            let is_linked = stays.contains(&version.word().tid());
            assert!(is_linked != version.is_unlinked() || *superseded < lowest, "{:?}", version.word());
        }
    }

    /// Each reader, and one that comes now, is shown what stood at its boundary.
    fn check_readers(&self) {
        let mut scratch = Scratch::default();
        let boundaries = self.readers.iter().map(|reader| reader.1).chain([self.epochs.served_snapshot()]);
        for boundary in boundaries {
            // SAFETY: no version that a reader needs is filled with what is never read: that is tested here.
            let below = unsafe { Boundary::assume(boundary, Pinned::assume()) };
            let expected = self.shown_at(boundary).expect("the row is older than every boundary");
            let word = at(self.row).read_version(below, &mut scratch).expect("kept for this reader");
            assert_eq!(
                (word.tid(), scratch.bytes()),
                (expected, &value(expected)[..]),
                "boundary {boundary}"
            );
        }
    }
}

fn value(tid: Tid) -> Vec<u8> {
    tid.bits().to_le_bytes().repeat(3)
}

#[test]
fn v1_what_a_boundary_can_show_stays_and_nothing_else_does() {
    let mut most = 0;
    for seed in 0..300 {
        let (mut random, mut scene) = (Random::from_seed(seed), Scene::new());
        for _ in 0..300 {
            match random.next_below(20) {
                0..10 => scene.write(random.percent(30)),
                10..13 => scene.advance(false),
                13..16 => scene.advance(true),
                16 if scene.readers.len() < 4 => {
                    let mut pin = scene.epochs.register_pin();
                    drop(pin.begin(scene.epochs.now()));
                    let boundary = scene.epochs.open_snapshot(&mut pin);
                    scene.readers.push((pin, boundary));
                }
                17 if !scene.readers.is_empty() => {
                    let at = random.next_below(scene.readers.len() as u64) as usize;
                    drop(scene.readers.swap_remove(at));
                }
                _ => scene.scan(),
            }
            scene.check_readers();
        }
        most = most.max(scene.versions.iter().filter(|version| at(version.0).is_unlinked()).count());
    }
    assert!(most > 10, "versions were unlinked under a reader: {most}");
}

#[test]
fn the_marks_are_no_part_of_the_link_and_none_of_the_size() {
    let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
    let tid = Tid::first_of(Epoch::new(3));
    let row = at(blocks.create_record(&value(tid), Word::for_write(tid)).publish());
    let word = row.lock();
    let paged = at(row.preserve(word, blocks.version(row.class(), false)).0);
    assert!(paged.is_paged() && !paged.is_unlinked());
    let alone = at(row.preserve(word, blocks.version(row.class(), true)).0);
    assert!(!alone.is_paged());
    for version in [paged, alone] {
        let before = (version.class(), version.previous_address(), version.chain());
        version.mark_unlinked();
        assert!(version.is_unlinked());
        assert_eq!((version.class(), version.previous_address(), version.chain() & !UNLINKED), before);
    }
    row.unlock_with(word);
}
