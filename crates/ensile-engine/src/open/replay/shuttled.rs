//! Shuttle tests of the removal of tombstones beside writers of the same keys and leaves, and of a log taken from both
//! ends.
//!
//! A record or node freed too early is filled with a pattern, and a thread that reads the pattern fails.
//! `RUSTFLAGS="--cfg shuttle" cargo test -p ensile-engine --release --lib shuttle`.

use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Arc;

use ensile_base::limits::REPLAY_WAITING_BYTES_MAX;
use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable, Refused};
use ensile_memory::{Memory, MemoryConfig};

use super::Replay;
use super::queue_log::{self, Queue};
use crate::formats::log_entry;

const TABLE: u32 = 1;

fn write(replay: &Replay, epoch: u64, key: &[u8], value: Option<&[u8]>) {
    let mut body = Vec::new();
    log_entry::encode(&mut body, TABLE, key, value, log_entry::Image::NotRecorded);
    let tid = Tid::first_of(Epoch::new(epoch));
    replay.replay(&[Entry { tid, body: &body }]).expect("an entry that was encoded");
}

/// The epoch of a key's record, and true if the record is absent; `None` without a record.
fn look(replay: Replay, key: &[u8]) -> Option<(Epoch, bool)> {
    // The records live in `_memory`.
    let _memory = std::sync::Arc::clone(&replay.memory);
    let mut trees = replay.finish().trees;
    let tree = trees.get_mut(&TABLE).and_then(Arc::get_mut).expect("replay is over");
    tree.word_alone(key).map(|word| (word.epoch(), word.is_absent()))
}

/// Replays the common entries, runs the threads, then checks the key.
fn schedules(
    before: fn(&Replay),
    works: [fn(&Replay); 3],
    key: &'static [u8],
    expected: Option<(Epoch, bool)>,
) {
    shuttle::check_random(
        move || {
            let replay = Arc::new(Replay::new(&Memory::new(&MemoryConfig::default()), false));
            before(&replay);
            let threads: Vec<_> = works
                .iter()
                .map(|&work| {
                    let replay = Arc::clone(&replay);
                    shuttle::thread::spawn(move || work(&replay))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let Ok(replay) = Arc::try_unwrap(replay) else { panic!("the threads have ended") };
            assert_eq!(look(replay, key), expected);
        },
        2_000,
    );
}

#[test]
fn a_newer_put_of_a_key_whose_tombstone_is_being_removed_stays() {
    schedules(
        |replay| {
            write(replay, 2, b"other", Some(b"in the same leaf"));
            write(replay, 3, b"key", None);
        },
        [
            |replay| replay.advance_watermark(Epoch::new(4)),
            |replay| write(replay, 5, b"key", Some(b"longer than the room that a tombstone's record has")),
            |replay| {
                write(replay, 5, b"other", Some(b"longer than it was, so that the record is replaced"));
                replay.advance_watermark(Epoch::new(4));
            },
        ],
        b"key",
        Some((Epoch::new(5), false)),
    );
}

#[test]
fn a_leaf_that_removals_empty_goes_beside_those_that_look_into_it() {
    schedules(
        |replay| {
            for key in 0..20_u8 {
                write(replay, 3, &[b'a' + key], None);
            }
        },
        [
            |replay| replay.advance_watermark(Epoch::new(4)),
            |replay| {
                replay.advance_watermark(Epoch::new(4));
                replay.advance_watermark(Epoch::new(5));
            },
            |replay| {
                write(replay, 5, b"b", Some(b"new"));
                write(replay, 6, b"b", None);
                write(replay, 7, b"b", Some(b"newer"));
                replay.advance_watermark(Epoch::new(5));
            },
        ],
        b"b",
        Some((Epoch::new(7), false)),
    );
}

/// A replay that counts the pieces taken from each end.
struct Counted {
    replay: Replay,
    /// Atomics of std: no steps of the schedule.
    newest: AtomicU64,
    oldest: AtomicU64,
}

impl Recoverable for Counted {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay.replay(entries)
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay.load(section, entries)
    }

    fn advance_watermark(&self, epoch: Epoch) {
        self.replay.advance_watermark(epoch);
    }

    fn waiting_bytes(&self) -> u64 {
        let waiting = self.replay.waiting_bytes();
        let end = if waiting < REPLAY_WAITING_BYTES_MAX { &self.newest } else { &self.oldest };
        // Relaxed: read once the threads have ended.
        end.fetch_add(1, Ordering::Relaxed);
        waiting
    }
}

#[test]
fn a_queue_that_threads_take_from_both_ends_keeps_its_rows_and_no_tombstone() {
    // Number of schedules with pieces from both ends.
    static BOTH: AtomicU64 = AtomicU64::new(0);
    let mut config = shuttle::Config::new();
    // An open of a folder takes more than shuttle's stacks of 32 KiB.
    config.stack_size = 256 << 10;
    let runner = shuttle::Runner::new(RandomScheduler::new(60), config);
    runner.run(|| {
        let queue = Queue { rows: 40, left: 3, together: 4, value_bytes: 900, file_bytes: 4 << 10 };
        let disk = queue.write();
        let recovery = Arc::new(Queue::recovery(&disk));
        let replay = Replay::new(&Memory::new(&MemoryConfig::default()), false);
        let state = Arc::new(Counted { replay, newest: AtomicU64::new(0), oldest: AtomicU64::new(0) });
        let threads = [(); 3].map(|()| {
            let (recovery, state) = (Arc::clone(&recovery), Arc::clone(&state));
            shuttle::thread::spawn(move || while recovery.replay_step(&*state).expect("replays") {})
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let Ok(state) = Arc::try_unwrap(state) else { panic!("the threads have ended") };
        let Counted { replay, newest, oldest } = state;
        if newest.into_inner() > 1 && oldest.into_inner() > 1 {
            // Relaxed: schedules run one after the other.
            BOTH.fetch_add(1, Ordering::Relaxed);
        }
        let _memory = std::sync::Arc::clone(&replay.memory);
        let mut trees = replay.finish().trees;
        let tree = trees.get_mut(&queue_log::TABLE).and_then(Arc::get_mut).expect("replay is over");
        for key in 0..queue.rows {
            let found = tree.word_alone(&key.to_be_bytes());
            assert_eq!(found.is_some(), key >= queue.rows - queue.left, "key {key}");
        }
    });
    // Relaxed: all schedules have ended.
    assert!(BOTH.load(Ordering::Relaxed) > 20, "most schedules take pieces from both ends");
}
