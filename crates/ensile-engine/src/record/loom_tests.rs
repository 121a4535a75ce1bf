//! Loom on the shipped record, TID word and serialization point: C1, C5, K3 and V1, each a race that a missing fence
//! breaks.
//!
//! Command: `bash ci/loom.sh`. The models repeat the steps of a commit in the engine's order, with one or two records.
//! Words, memory orders and fences are the shipped ones. The memory of a record is a slice, because loom's atomics are
//! larger than their values. Nothing frees a record while a model runs.
//!
//! Neighbours: `commit` has the fences; the loom tests of `ensile-epoch` have E2 to E4 and S1.

use std::ptr::NonNull;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use ensile_base::sync::{Arc, AtomicU64, Ordering, fence};
use ensile_base::{Epoch, Tid};
use ensile_epoch::{Advance, EpochConfig, Epochs, PinHandle, Pinned};
use ensile_memory::SizeClass;
use loom::cell::UnsafeCell;
use loom::thread;

use super::layout::ADDRESS_BITS;
use super::ownership::VersionRoom;
use super::pin_scope::Boundary;
use super::tid_word::Word;
use super::*;
use crate::commit::{serialization_point, validate_reads_once};
use crate::garbage::UnhookedEpoch;
use crate::sets::{Read, Sets};

// Counters over all runs of a model: loom must not explore accesses to them.

/// First epoch of a model.
const FIRST: u64 = 10;
/// Time between two advances that E5 permits, in nanoseconds.
pub(crate) const MILLI: u64 = 1_000_000;
/// A value of two data words.
const LONG: [u8; 12] = *b"twelve bytes";
/// A value that shares a word with its length.
pub(crate) const SHORT: [u8; 2] = *b"ab";

pub(crate) fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch))
}

/// A record with room for [`LONG`], in the layout of `Blocks::create`.
pub(crate) struct Block {
    words: Box<[AtomicU64]>,
}

impl Block {
    pub(crate) fn new(value: &[u8], epoch: u64) -> Arc<Self> {
        let class = SizeClass::of_bytes(HEADER_BYTES + LONG.len());
        let chain = (class.index() as u64) << ADDRESS_BITS;
        let word = |index| AtomicU64::new(if index == 1 { chain } else { 0 });
        let block = Arc::new(Self { words: (0..class.bytes() / 8).map(word).collect() });
        block.record().store_data(value);
        block.record().unlock_with(Word::for_write(tid(epoch)));
        block
    }

    pub(crate) fn record(&self) -> Record<'_> {
        let words = NonNull::from(&*self.words).cast();
        Record { words, _pin: std::marker::PhantomData }
    }

    /// Entry of the read-set for a read of this record.
    fn seen(&self, word: Word) -> Read<'static> {
        // SAFETY: loom joins every thread before it drops the blocks.
        let record: Record<'static> = unsafe { self.record().address().record() };
        Read { record: record.handle(), word }
    }
}

/// Locks a record. A record of epoch 1 is locked without a load: after a load, loom explores too few writes by other
/// threads in front of the exchange of the same word.
pub(crate) fn lock(record: Record<'_>) -> Word {
    let known = Word::for_write(tid(1));
    if record.try_lock_at(known) { known } else { record.lock() }
}

/// Reads optimistically. Returns the word and the value.
fn read(block: &Block) -> (Word, Vec<u8>) {
    let mut scratch = Scratch::default();
    match block.record().read(&mut scratch) {
        Seen::Present(word) => (word, scratch.bytes().to_vec()),
        other => panic!("nobody deletes or replaces it: {other:?}"),
    }
}

pub(crate) fn epochs() -> Arc<Epochs> {
    Arc::new(Epochs::new(&EpochConfig { first: Epoch::new(FIRST), snapshot_interval: Duration::MAX }))
}

/// Evidence that blocks outlive their readers: loom joins every thread before it drops the blocks.
pub(crate) fn pinned() -> Pinned<'static> {
    // SAFETY: loom joins every thread before it drops the blocks.
    unsafe { Pinned::assume() }
}

/// Boundary of a snapshot; nothing frees a version.
fn below(epoch: u64) -> Boundary<'static> {
    // SAFETY: loom joins every thread before it drops the blocks.
    unsafe { Boundary::assume(Epoch::new(epoch), pinned()) }
}

/// Commits an overwrite of one record in place: lock, serialization point, install.
fn overwrite(block: &Block, epochs: &Epochs, value: &[u8], epoch: u64) {
    lock(block.record());
    let _ = serialization_point(epochs, true);
    block.record().overwrite(value);
    block.record().unlock_with(Word::for_write(tid(epoch)));
}

/// C5: a read returns a TID and the value of this TID, for values of any length.
fn check_c5(old: &'static [u8], new: &'static [u8]) {
    loom::model(move || {
        let (block, epochs) = (Block::new(old, 1), epochs());
        let writer = {
            let (block, epochs) = (block.clone(), epochs.clone());
            thread::spawn(move || overwrite(&block, &epochs, new, 2))
        };
        let (word, value) = read(&block);
        let expected = if word.tid() == tid(1) { old } else { new };
        assert_eq!(value, expected, "{word:?}");
        writer.join().unwrap();
    });
}

#[test]
fn loom_c5_a_read_never_mixes_two_values() {
    check_c5(&LONG, b"TWELVE BYTES");
}

#[test]
fn loom_c5_a_read_never_mixes_two_lengths() {
    check_c5(&SHORT, &LONG);
}

#[test]
fn loom_c5_a_read_never_mixes_two_lengths_when_it_shrinks() {
    check_c5(&LONG, &SHORT);
}

/// Lock: of two commits that add to a record, the later one finds the sum of the earlier one.
#[test]
fn loom_two_commits_of_one_record_lose_nothing() {
    fn add(block: &Block) {
        let record = block.record();
        let before = lock(record);
        let mut scratch = Scratch::default();
        // A copy with an assertion on the word would load the word again, and hide a lock that does not acquire.
        record.copy_out(&mut scratch);
        let sum = [scratch.bytes()[0] + 1, 0];
        record.overwrite(&sum);
        record.unlock_with(Word::for_write(before.tid().successor().expect("two commits")));
    }
    loom::model(|| {
        let block = Block::new(&[0, 0], 1);
        let other = {
            let block = block.clone();
            thread::spawn(move || add(&block))
        };
        add(&block);
        other.join().unwrap();
        let (word, value) = read(&block);
        assert_eq!(value, [2, 0]);
        assert_eq!(
            word.tid().successor(),
            tid(1).successor().and_then(Tid::successor).and_then(Tid::successor)
        );
    });
}

/// K3: a snapshot finds the version that a commit of a later epoch preserves, linked or still in place.
#[test]
fn loom_k3_a_snapshot_finds_the_version_that_is_kept() {
    loom::model(|| {
        let (block, room, epochs) = (Block::new(&SHORT, 1), Block::new(&[], 0), epochs());
        let writer = {
            let (block, room, epochs) = (block.clone(), room.clone(), epochs.clone());
            thread::spawn(move || {
                let record = block.record();
                let before = lock(record);
                let _ = serialization_point(&epochs, true);
                let _ = record.preserve(before, VersionRoom(room.record().address()));
                record.overwrite(b"xy");
                record.unlock_with(Word::for_write(tid(2)));
            })
        };
        let mut scratch = Scratch::default();
        let word = block.record().read_version(below(2), &mut scratch);
        assert!(word.is_some_and(|word| !word.is_absent()), "the key was there below epoch 2");
        assert_eq!(scratch.bytes(), SHORT);
        writer.join().unwrap();
    });
}

/// A row of epoch 13 with older versions of epochs 11 and 5, and a reader at boundary 10. Boundaries 12 and 14 are
/// younger than the reader, and boundary 12 has no reader.
struct Held {
    epochs: Arc<Epochs>,
    row: Arc<Block>,
    passed: Arc<Block>,
    needed: Arc<Block>,
    pin: PinHandle,
}

fn held() -> Held {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    drop(pin.begin(epochs.now()));
    assert_eq!(epochs.open_snapshot(&mut pin), Epoch::new(FIRST));
    for step in 1..=4 {
        let step = epochs.try_advance_to_boundary(step * MILLI, epochs.now());
        assert!(matches!(step, Advance::Advanced(_)));
    }
    epochs.scan();
    let [row, passed, needed] = [13, 11, 5].map(|epoch| Block::new(&[epoch as u8], epoch));
    for (newer, older) in [(&row, &passed), (&passed, &needed)] {
        newer.record().link(Some(older.record().address()));
        let word = older.record().word();
        older.record().unlock_with(word.to_superseded());
    }
    Held { epochs, row, passed, needed, pin }
}

/// Prunes the chain of a row, as a commit does under the lock of the row.
fn prune(row: &Block, epochs: &Epochs) {
    let shown = epochs.shown_boundaries().expect("nobody publishes now");
    row.record().prune(Epoch::new(13), &shown);
}

/// V1: a reader finds its version while a commit unlinks a newer version.
#[test]
fn loom_v1_a_snapshot_finds_its_version_while_a_newer_one_is_unlinked() {
    loom::model(|| {
        let Held { epochs, row, passed, needed, pin } = held();
        let writer = {
            let row = row.clone();
            thread::spawn(move || prune(&row, &epochs))
        };
        let mut scratch = Scratch::default();
        let word = row.record().read_version(below(FIRST), &mut scratch);
        assert_eq!(word.map(Word::epoch), Some(Epoch::new(5)));
        assert_eq!(scratch.bytes(), [5]);
        writer.join().unwrap();
        assert!(passed.record().is_unlinked() && !needed.record().is_unlinked());
        drop(pin);
    });
}

/// V1: an unlinked version is freed after its last reader. Loom checks reads against frees.
#[test]
fn loom_v1_an_unlinked_version_is_freed_only_when_nobody_can_reach_it() {
    let outcomes = StdArc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = outcomes.clone();
    loom::model(move || {
        let outcomes = &counted;
        let Held { epochs, row, passed, needed, mut pin } = held();
        let memory = Arc::new(UnsafeCell::new(()));
        let writer = {
            let (row, epochs) = (row.clone(), epochs.clone());
            thread::spawn(move || prune(&row, &epochs))
        };
        let reader = {
            let (row, epochs, memory) = (row.clone(), epochs.clone(), memory.clone());
            let passed = passed.record().address();
            thread::spawn(move || {
                let call = pin.enter_snapshot(epochs.now()).expect("nobody expires it");
                let version = row.record().previous().expect("its version stays linked");
                if version.address() == passed {
                    memory.with(|_| ());
                }
                drop(call);
                pin
            })
        };
        // This thread plays the worker that frees the version, and the heartbeat.
        while !passed.record().is_unlinked() {
            thread::yield_now();
        }
        // SeqCst: the unlink comes before the tag is read (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        let tag = epochs.now();
        assert!(matches!(epochs.try_advance(5 * MILLI), Advance::Advanced(_)));
        let is_free = tag < epochs.scan().pins();
        if is_free {
            memory.with_mut(|_| ());
        }
        // Relaxed: a counter for a figure.
        outcomes[usize::from(is_free)].fetch_add(1, Ordering::Relaxed);
        writer.join().unwrap();
        drop(reader.join().unwrap());
        drop(needed);
    });
    // Relaxed: the model is over.
    let explored = outcomes.each_ref().map(|outcome| outcome.load(Ordering::Relaxed));
    assert!(explored.iter().all(|runs| *runs > 0), "a reader held it back, and none did: {explored:?}");
}

/// Commits after a read of one record and a write of another: lock, serialization point, validate, install. Returns the
/// epoch of a successful commit.
fn read_one_write_other(seen: Read<'static>, own: &Block, epochs: &Epochs, epoch: u64) -> Option<Epoch> {
    let record = own.record();
    let before = lock(record);
    let serialized = serialization_point(epochs, true);
    let holds = seen.record.resolve(pinned()).word() == seen.word;
    record.unlock_with(if holds { Word::for_write(tid(epoch)) } else { before });
    holds.then_some(serialized)
}

/// C1: of two commits that each read the other's record, at most one takes effect (write skew).
#[test]
fn loom_c1_of_two_commits_that_read_each_others_record_one_fails() {
    loom::model(|| {
        let (x, y, epochs) = (Block::new(&SHORT, 1), Block::new(&SHORT, 1), epochs());
        let other = {
            let (x, y, epochs) = (x.clone(), y.clone(), epochs.clone());
            let seen = x.seen(Word::for_write(tid(1)));
            thread::spawn(move || {
                let committed = read_one_write_other(seen, &y, &epochs, 2);
                drop(x);
                committed
            })
        };
        let seen = y.seen(Word::for_write(tid(1)));
        let one = read_one_write_other(seen, &x, &epochs, 2);
        let other = other.join().unwrap();
        assert!(one.is_none() || other.is_none(), "each missed the other's lock");
    });
}

/// C1: epochs agree with anti-dependencies. The epoch of a commit that read x is at most the epoch of the commit that
/// overwrites x. A third thread advances E, or the reader before its commit.
fn check_c1_epochs(reader_advances: bool) {
    loom::model(move || {
        let (x, y, epochs) = (Block::new(&SHORT, 1), Block::new(&SHORT, 1), epochs());
        let writer = {
            let (x, epochs) = (x.clone(), epochs.clone());
            thread::spawn(move || {
                lock(x.record());
                let epoch = serialization_point(&epochs, true);
                x.record().unlock_with(Word::for_write(tid(epoch.number())));
                epoch
            })
        };
        let reader = {
            let (x, epochs) = (x.clone(), epochs.clone());
            thread::spawn(move || {
                if reader_advances {
                    let _ = epochs.try_advance(MILLI);
                }
                read_one_write_other(x.seen(Word::for_write(tid(1))), &y, &epochs, 2)
            })
        };
        if !reader_advances {
            let _ = epochs.try_advance(MILLI);
        }
        let (writer, reader) = (writer.join().unwrap(), reader.join().unwrap());
        assert!(reader.is_none_or(|reader| reader <= writer), "{reader:?} read what {writer} overwrote");
        drop(x);
    });
}

#[test]
fn loom_c1_epochs_agree_with_anti_dependencies() {
    check_c1_epochs(false);
}

#[test]
fn loom_c1_epochs_agree_with_anti_dependencies_when_the_reader_advances() {
    check_c1_epochs(true);
}

/// Commits a write of one record without another writer.
fn write(block: &Block, epochs: &Epochs) {
    lock(block.record());
    let _ = serialization_point(epochs, true);
    block.record().unlock_with(Word::for_write(tid(2)));
}

/// Reads two records and commits. Returns the TIDs if the shipped read-only commit accepts the reads.
fn read_both(one: &Block, other: &Block) -> Option<[Tid; 2]> {
    let mut sets = Sets::default();
    for block in [one, other] {
        let word = block.record().word();
        if word.is_locked() {
            // A waiting reader makes the search endless, and a reader of a locked record shows nothing here.
            return None;
        }
        sets.reads.push(block.seen(word));
    }
    validate_reads_once(&sets, &UnhookedEpoch::default(), pinned()).ok()?;
    Some([sets.reads[0].word.tid(), sets.reads[1].word.tid()])
}

/// C1: a read-only commit accepts only reads of one state.
#[test]
fn loom_c1_a_read_only_commit_accepts_only_what_stood_together() {
    loom::model(|| {
        let (x, y, epochs) = (Block::new(&SHORT, 1), Block::new(&SHORT, 1), epochs());
        let writer = {
            let (x, y, epochs) = (x.clone(), y.clone(), epochs.clone());
            thread::spawn(move || {
                lock(x.record());
                lock(y.record());
                let _ = serialization_point(&epochs, true);
                for block in [&x, &y] {
                    block.record().unlock_with(Word::for_write(tid(2)));
                }
            })
        };
        if let Some([one, other]) = read_both(&x, &y) {
            assert_eq!(one, other, "half of a transaction was accepted");
        }
        writer.join().unwrap();
    });
}

/// C1: two read-only commits see two writers in the same order.
#[test]
fn loom_c1_read_only_commits_agree_on_the_order_of_two_writers() {
    // Four threads: with a bound of three the search takes a minute.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (x, y, epochs) = (Block::new(&SHORT, 1), Block::new(&SHORT, 1), epochs());
        let writers = [&x, &y].map(|block| {
            let (block, epochs) = (block.clone(), epochs.clone());
            thread::spawn(move || write(&block, &epochs))
        });
        let other = {
            let (x, y) = (x.clone(), y.clone());
            thread::spawn(move || read_both(&y, &x))
        };
        let seen = read_both(&x, &y);
        let other = other.join().unwrap();
        let (old, new) = (tid(1), tid(2));
        assert!(
            (seen, other) != (Some([new, old]), Some([new, old])),
            "one saw x first and y later, the other y first and x later"
        );
        for writer in writers {
            writer.join().unwrap();
        }
    });
}
