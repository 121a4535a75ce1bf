//! Which parts of the log come first: the newest, as long as little waits for older ones; then the oldest (L8).

use std::collections::HashMap;
use std::sync::Condvar;

use ensile_base::limits::REPLAY_WAITING_BYTES_MAX;

use crate::prelude::*;

/// A piece of the log as it was replayed.
#[derive(Debug, Default)]
struct Replayed {
    /// What the state kept when the piece was taken.
    waiting: u64,
    epochs: Vec<Epoch>,
}

/// Rows of which a delete leaves a tombstone until its epoch has passed.
#[derive(Debug, Default)]
struct Rows {
    /// By key; without a value a tombstone.
    rows: HashMap<u64, (Tid, bool)>,
    tombstones: Vec<(Epoch, u64)>,
    pieces: Vec<Replayed>,
    /// Most tombstones at a time.
    most: usize,
    copied: u64,
    skipped: u64,
    passed: Epoch,
}

/// A state whose tombstones each take this number of bytes.
struct State {
    kind: EntryKind,
    tombstone_bytes: u64,
    rows: Mutex<Rows>,
}

impl State {
    fn new(kind: EntryKind, tombstone_bytes: u64) -> Self {
        Self { kind, tombstone_bytes, rows: Mutex::default() }
    }

    fn into_rows(self) -> Rows {
        self.rows.into_inner().expect("no panic")
    }
}

impl Recoverable for State {
    fn entries(&self) -> EntryKind {
        self.kind
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let rows = &mut *self.rows.lock().expect("no panic");
        for Entry { tid, body } in entries {
            assert!(tid.epoch() >= rows.passed, "an entry of an epoch that had passed");
            if let Some(piece) = rows.pieces.last_mut() {
                piece.epochs.push(tid.epoch());
            }
            let (key, value) = body.split_at(KEY_BYTES);
            let key = u64::from_le_bytes(key.try_into().expect("eight bytes"));
            if rows.rows.get(&key).is_some_and(|(newest, _)| newest >= tid) {
                rows.skipped += 1;
                continue;
            }
            rows.copied += 1;
            rows.rows.insert(key, (*tid, !value.is_empty()));
            if value.is_empty() {
                rows.tombstones.push((tid.epoch(), key));
            }
        }
        rows.most = rows.most.max(rows.tombstones.len());
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("there is no checkpoint")
    }

    fn advance_watermark(&self, epoch: Epoch) {
        let Rows { rows, tombstones, passed, .. } = &mut *self.rows.lock().expect("no panic");
        *passed = (*passed).max(epoch);
        tombstones.retain(|(of, key)| {
            let stays = of >= passed;
            if !stays && rows.get(key).is_some_and(|(tid, is_there)| !is_there && tid.epoch() == *of) {
                rows.remove(key);
            }
            stays
        });
    }

    fn waiting_bytes(&self) -> u64 {
        let mut rows = self.rows.lock().expect("no panic");
        let waiting = rows.tombstones.len() as u64 * self.tombstone_bytes;
        // Asked once before each piece.
        rows.pieces.push(Replayed { waiting, epochs: Vec::new() });
        waiting
    }
}

/// A log of `rounds` epochs, each with what `write` commits in it: keys, with or without a value.
fn log(kind: EntryKind, rounds: u64, write: impl Fn(u64, &mut dyn FnMut(u64, &[u8]))) -> SimDisk {
    let disk = SimDisk::new();
    let state = State::new(kind, 1);
    let rig = Rig::open_into(Arc::new(disk.clone()), config(1), Clock::manual(), &state);
    let rig = rig.expect("a new database");
    let mut worker = rig.worker();
    for round in 0..rounds {
        write(round, &mut |key, value| {
            worker.commit(&rig.epochs, key, value).expect("runs");
        });
        rig.settle();
    }
    drop((worker, rig));
    disk.crash(17);
    disk
}

/// A queue: each round puts two rows and deletes those of twenty rounds before.
fn queue(kind: EntryKind, rounds: u64) -> SimDisk {
    log(kind, rounds, |round, commit| {
        for key in [2 * round, 2 * round + 1] {
            commit(key, &[1; 1_000]);
            if let Some(old) = key.checked_sub(40) {
                commit(old, &[]);
            }
        }
    })
}

fn replay(disk: &SimDisk, state: State, threads: usize) -> Rows {
    let recovery = Recovery::open(Arc::new(disk.fork()), config(1)).expect("opens");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| while recovery.replay_step(&state).expect("replays") {});
        }
    });
    recovery.finish(&state).expect("finishes");
    state.into_rows()
}

/// Of one thread's pieces: the newest was taken where little waited, and otherwise the oldest. How often each.
fn ends(pieces: &[Replayed]) -> (usize, usize) {
    let pieces: Vec<_> = pieces.iter().filter(|piece| !piece.epochs.is_empty()).collect();
    let (mut newest, mut oldest) = (0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        let (low, high) = (piece.epochs.iter().min(), piece.epochs.iter().max());
        let mut later = pieces[at + 1..].iter().flat_map(|piece| &piece.epochs);
        if piece.waiting < REPLAY_WAITING_BYTES_MAX {
            assert!(later.all(|epoch| Some(epoch) <= low), "piece {at} is not the newest: {pieces:?}");
            newest += 1;
        } else {
            assert!(later.all(|epoch| Some(epoch) >= high), "piece {at} is not the oldest: {pieces:?}");
            oldest += 1;
        }
    }
    (newest, oldest)
}

#[test]
fn l8_the_newest_pieces_come_first_and_the_oldest_once_much_waits() {
    let disk = queue(EntryKind::Values, 300);
    let tombstone_bytes = REPLAY_WAITING_BYTES_MAX / 100;
    let rows = replay(&disk, State::new(EntryKind::Values, tombstone_bytes), 1);
    let (newest, oldest) = ends(&rows.pieces);
    assert!(newest > 3 && oldest > 3, "{newest} pieces from the newest end, {oldest} from the oldest");
    assert_eq!(rows.rows.len(), 40);
}

#[test]
fn l8_a_queues_tombstones_are_few_however_long_its_log_is() {
    // Ten times and forty times as many deletes as there may be tombstones.
    for rounds in [250, 1_000] {
        let disk = queue(EntryKind::Values, rounds);
        let (limit, keys) = (50, 2 * rounds);
        for threads in [1, 3] {
            let tombstone_bytes = REPLAY_WAITING_BYTES_MAX / limit;
            let rows = replay(&disk, State::new(EntryKind::Values, tombstone_bytes), threads);
            assert_eq!(rows.rows.len(), 40, "of {keys}");
            assert!((keys - 40..keys).all(|key| rows.rows[&key].1), "{threads} threads");
            assert!(rows.tombstones.is_empty());
            // The newest piece that went over the limit, and the oldest one. Several threads may hold more while one of
            // them rests.
            assert!(threads > 1 || rows.most as u64 <= 2 * limit, "{} tombstones at a time", rows.most);
        }
    }
}

#[test]
fn a_chain_of_versions_is_copied_once_and_what_is_older_is_skipped() {
    let (versions, keys) = (20, 60);
    let disk = log(EntryKind::Values, versions, |round, commit| {
        (0..keys).for_each(|key| commit(key, &[round as u8; 400]));
    });
    let rows = replay(&disk, State::new(EntryKind::Values, 1), 1);
    // A piece is a file here, and shorter than a round: no piece has two versions of a key.
    assert_eq!((rows.copied, rows.skipped), (keys, (versions - 1) * keys));
}

#[test]
fn l8_operations_are_never_taken_from_the_newest_end() {
    let disk = queue(EntryKind::Operations, 300);
    let rows = replay(&disk, State::new(EntryKind::Operations, 0), 1);
    let pieces: Vec<_> = rows.pieces.iter().filter(|piece| !piece.epochs.is_empty()).collect();
    assert!(pieces.len() > 10, "{} pieces", pieces.len());
    assert!(pieces.iter().flat_map(|piece| &piece.epochs).is_sorted(), "{pieces:?}");
}

/// A state whose only piece is replayed once all threads have asked for a turn.
struct Gate {
    threads: usize,
    asked: Mutex<usize>,
    all_asked: Condvar,
}

impl Recoverable for Gate {
    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        let asked = self.asked.lock().expect("no panic");
        drop(self.all_asked.wait_while(asked, |asked| *asked < self.threads).expect("no panic"));
        // The others wait for this turn, or are about to.
        (0..1_000).for_each(|_| std::thread::yield_now());
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("there is no checkpoint")
    }

    fn waiting_bytes(&self) -> u64 {
        *self.asked.lock().expect("no panic") += 1;
        self.all_asked.notify_all();
        0
    }
}

#[test]
fn the_end_of_the_last_turn_wakes_every_thread_that_waits_for_it() {
    let disk = log(EntryKind::Values, 1, |_, commit| commit(1, b"one"));
    let recovery = Recovery::open(Arc::new(disk), config(1)).expect("opens");
    let gate = Gate { threads: 4, asked: Mutex::default(), all_asked: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..gate.threads {
            scope.spawn(|| while recovery.replay_step(&gate).expect("replays") {});
        }
    });
    recovery.finish(&gate).expect("finishes");
}
