//! Removal of tombstones beside threads that write the same keys and leaves, under shuttle's schedules.
//!
//! A record or node that is freed too early is filled with a pattern there, and whoever reads it fails.
//! `RUSTFLAGS="--cfg shuttle" cargo test -p ensile-engine --release --lib shuttle`.

use shuttle::sync::Arc;

use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable};
use ensile_index::Lookup;
use ensile_memory::{Memory, MemoryConfig};

use super::Replay;
use crate::record::Handle;
use crate::record::blocks::sole_owner;
use crate::transaction::log_entry;

const TABLE: u32 = 1;

fn write(replay: &Replay, epoch: u64, key: &[u8], value: Option<&[u8]>) {
    let mut body = Vec::new();
    log_entry::encode(&mut body, TABLE, key, value, log_entry::Image::NotRecorded);
    let tid = Tid::first_of(Epoch::new(epoch));
    replay.replay(&[Entry { tid, body: &body }]).expect("an entry that was encoded");
}

/// Whether a key is there, and its epoch.
fn look(replay: Replay, key: &[u8]) -> Option<(Epoch, bool)> {
    // The records live in it.
    let _memory = std::sync::Arc::clone(&replay.memory);
    let trees = replay.finish();
    let tree = &trees[&TABLE];
    match tree.get(key, sole_owner(tree)) {
        Lookup::Found(value) => {
            let word = Handle::from_value(value).at(sole_owner(tree)).word();
            Some((word.epoch(), word.is_absent()))
        }
        Lookup::Missing(_) => None,
    }
}

/// Replays what is common, then lets the threads work, then looks at the key.
fn schedules(
    before: fn(&Replay),
    works: [fn(&Replay); 3],
    key: &'static [u8],
    expected: Option<(Epoch, bool)>,
) {
    shuttle::check_random(
        move || {
            let replay = Arc::new(Replay::new(&Memory::new(&MemoryConfig::default())));
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
            |replay| replay.passed(Epoch::new(4)),
            |replay| write(replay, 5, b"key", Some(b"longer than the room that a tombstone's record has")),
            |replay| {
                write(replay, 5, b"other", Some(b"longer than it was, so that the record is replaced"));
                replay.passed(Epoch::new(4));
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
            |replay| replay.passed(Epoch::new(4)),
            |replay| {
                replay.passed(Epoch::new(4));
                replay.passed(Epoch::new(5));
            },
            |replay| {
                write(replay, 5, b"b", Some(b"new"));
                write(replay, 6, b"b", None);
                write(replay, 7, b"b", Some(b"newer"));
                replay.passed(Epoch::new(5));
            },
        ],
        b"b",
        Some((Epoch::new(7), false)),
    );
}
