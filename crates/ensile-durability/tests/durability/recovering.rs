//! Generations, torn tails, and recovery by several threads: L4, the harmless half of L5, and what has passed (L8).

use std::sync::Condvar;

use crate::prelude::*;

fn reopen(disk: &SimDisk, loggers: usize) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.clone()), config(loggers), Clock::manual())
}

#[test]
fn l4_epochs_that_one_recovery_ignored_never_come_back() {
    let (disk, rig) = Rig::first_life(2);
    let (mut a, mut b) = (rig.worker(), rig.worker());
    let kept = rig.commit_epoch(&mut a, 1, b"kept");
    // In log 0 this is whole and synced, with its mark; log 1 never gets so far.
    let void = a.commit(&rig.epochs, 1, b"void").expect("runs");
    b.commit(&rig.epochs, 2, b"void too").expect("runs");
    rig.advance();
    rig.log.logger_step(0);
    disk.crash(11);

    let rig = Rig::simulated(&disk, 2);
    assert_eq!(rig.rows[&1], (kept, b"kept".to_vec()));
    assert_eq!((rig.rows.len(), rig.report.ignored_entries), (1, 1));
    assert!(rig.first > void.epoch(), "above any epoch seen, ignored ones included");
    let mut worker = rig.worker();
    for round in 0..3 {
        rig.commit_epoch(&mut worker, 3, b"new life");
        assert!(rig.log.durable_epoch() > void.epoch(), "round {round}: D passes the void epochs");
    }
    disk.crash(12);

    let rig = Rig::simulated(&disk, 2);
    assert_eq!(rig.rows[&1], (kept, b"kept".to_vec()), "void for ever, although D is above its epoch now");
    assert!(!rig.rows.contains_key(&2) && rig.rows.contains_key(&3));
}

#[test]
fn many_lives_add_up_and_empty_ones_leave_nothing() {
    let disk = SimDisk::new();
    for life in 0..6u64 {
        let rig = Rig::simulated(&disk, 1 + life as usize % 2);
        assert_eq!(rig.rows.len() as u64, life.div_ceil(2));
        assert_eq!(rig.report.generation, life + 1);
        if life % 2 == 0 {
            rig.commit_epoch(&mut rig.worker(), life, b"x");
        }
        disk.crash(life);
    }
    let manifest = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
    let generations = manifest.lines().filter(|line| line.starts_with("generation "));
    assert_eq!(generations.count(), 4, "three lives with entries and the open one:\n{manifest}");
    let rig = Rig::simulated(&disk, 1);
    drop(rig);
    let logs = ["log0", "log1"].map(|folder| disk.list(folder).expect("lists").len());
    assert_eq!(logs, [1 + 3 + 1, 1], "marks, files of the lives with entries, and the open one's");
}

#[test]
fn a_torn_tail_is_cut_reported_and_gone_at_the_next_open() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.commit_epoch(&mut worker, 1, b"durable");
    let end = rig.log.stats().bytes + OPENING_BYTES;
    let torn = worker.commit(&rig.epochs, 2, &[7; 5000]).expect("runs");
    disk.fail_sync(1);
    rig.settle();
    disk.kill();
    // The block's header reached the disk, its payload did not.
    disk.flip("log0/log-1-0", end + 4000, 1);
    let rig = Rig::simulated(&disk, 1);
    let [tail] = &rig.report.torn_tails[..] else { panic!("one torn tail: {:?}", rig.report) };
    assert_eq!((&*tail.file, tail.offset), ("log0/log-1-0", end));
    assert_eq!(tail.epochs, Some((torn.epoch(), torn.epoch())), "a torn block's epochs are seen");
    assert!(tail.bytes >= 5000);
    assert!(rig.first > torn.epoch(), "L4: torn epochs included");
    assert_eq!(rig.rows.keys().collect::<Vec<_>>(), [&1]);
    disk.kill();
    let rig = Rig::simulated(&disk, 1);
    assert!(rig.report.torn_tails.is_empty());
    assert_eq!(disk.bytes("log0/log-1-0").len() as u64, end, "cut");
}

#[test]
fn several_threads_replay_what_one_does() {
    let (disk, rig) = Rig::first_life(2);
    let mut workers = [rig.worker(), rig.worker(), rig.worker()];
    for round in 0..200u64 {
        for (index, worker) in workers.iter_mut().enumerate() {
            let value = [index as u8; 500];
            worker.commit(&rig.epochs, (round * 7 + index as u64) % 50, &value).expect("runs");
        }
        if round % 10 == 0 {
            rig.settle();
        }
    }
    rig.settle();
    disk.crash(13);
    let map = Map::default();
    let recovery = Recovery::open(Arc::new(disk.clone()), config(1)).expect("opens");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while recovery.replay_step(&map).expect("replays") {});
        }
    });
    let progress = recovery.progress(std::time::Duration::ZERO);
    assert_eq!(progress.bytes_done, progress.bytes_total);
    let report = recovery.finish(&map).expect("finishes").report;
    assert_eq!(report.entries, 600);
    disk.kill();
    assert_eq!(Rig::simulated(&disk, 1).rows, map.rows.into_inner().expect("no panic"));
}

#[test]
fn a_recovery_that_skipped_a_piece_cannot_be_finished() {
    let (disk, rig) = Rig::first_life(1);
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    disk.crash(14);
    let recovery = Recovery::open(Arc::new(disk.clone()), config(1)).expect("opens");
    assert!(matches!(recovery.finish(&Map::default()), Err(DurabilityError::Config(_))));
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 1, "nothing was decided");
}

#[test]
fn an_entry_that_the_state_refuses_names_its_place() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    worker.appender.reserve(3).expect("runs");
    worker.commit.bind(rig.epochs.now());
    let tid = worker.stamp(&rig.epochs);
    worker.appender.append(tid, |body| body.extend_from_slice(b"bad"));
    worker.appender.release();
    worker.commit.unbind();
    rig.settle();
    disk.crash(15);
    let Err(DurabilityError::Replay { file, offset, tid: found, .. }) = reopen(&disk, 1).map(|_| ()) else {
        panic!("the map refuses a body without a key");
    };
    assert_eq!((&*file, offset, found), ("log0/log-1-0", OPENING_BYTES, tid));
}

#[test]
fn a_new_database_begins_at_the_first_epoch_and_is_of_one_process_at_a_time() {
    let rig = Rig::simulated(&SimDisk::new(), 1);
    assert_eq!((rig.first, rig.report.generation), (Epoch::FIRST, 1));
    let (disk, rig) = Rig::first_life(1);
    let Err(DurabilityError::InUse { path }) = reopen(&disk, 1).map(|_| ()) else { panic!("locked") };
    assert_eq!(path.as_os_str(), "", "the main folder, which is locked first");
    drop(rig);
    reopen(&disk, 1).expect("free again");
}

#[test]
fn a_crash_anywhere_inside_recovery_is_harmless() {
    for seed in 0..300 {
        let (disk, rig) = Rig::first_life(2);
        let tid = rig.commit_epoch(&mut rig.worker(), 1, b"one");
        disk.crash(seed);
        for attempt in 0..3 {
            // Some call of the recovery fails; whatever reached the disk by then is torn by the crash.
            match seed % 3 {
                0 => disk.fail_write(1 + seed / 3 % 5),
                1 => disk.fail_sync(1 + seed / 3 % 5),
                _ => disk.fail_folder_sync(1 + seed / 3 % 3),
            }
            let _ = reopen(&disk, 1 + attempt);
            disk.crash(1000 + seed + attempt as u64);
        }
        disk.heal();
        assert_eq!(Rig::simulated(&disk, 1).rows[&1].0, tid, "seed {seed}");
    }
}

/// Two logs of `rounds` epochs, each with an operation on every object from either worker: `objects` objects, numbered
/// operations.
fn operations(disk: &SimDisk, rounds: u64, objects: u64) {
    let state = Operations::default();
    let rig = Rig::open_into(Arc::new(disk.clone()), config(2), Clock::manual(), &state);
    let rig = rig.expect("a new database");
    let mut workers = [rig.worker(), rig.worker()];
    for round in 0..rounds {
        for (at, worker) in workers.iter_mut().enumerate() {
            for object in 0..objects {
                let number = 2 * round + at as u64;
                let mut body = number.to_le_bytes().to_vec();
                body.resize(400, 0);
                worker.commit(&rig.epochs, object, &body).expect("runs");
            }
        }
        rig.settle();
    }
    disk.crash(17);
}

/// A state of operations: an entry waits until its epoch has passed, and is applied in the order of TIDs.
#[derive(Default)]
struct Operations(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    held: BTreeMap<Tid, (u64, u64)>,
    held_most: usize,
    passed: Epoch,
    /// Entries of epochs that had passed.
    late: Vec<Tid>,
    applied: BTreeMap<u64, Vec<u64>>,
}

impl Recoverable for Operations {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut waiting = self.0.lock().expect("no panic");
        let number = |at: usize, body: &[u8]| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight"));
        for Entry { tid, body } in entries {
            if tid.epoch() < waiting.passed {
                waiting.late.push(*tid);
            }
            waiting.held.insert(*tid, (number(0, body), number(8, body)));
        }
        waiting.held_most = waiting.held_most.max(waiting.held.len());
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("there is no checkpoint")
    }

    fn advance_watermark(&self, epoch: Epoch) {
        let mut waiting = self.0.lock().expect("no panic");
        waiting.passed = waiting.passed.max(epoch);
        while let Some(first) = waiting.held.first_entry()
            && first.key().epoch() < epoch
        {
            let (object, number) = first.remove();
            waiting.applied.entry(object).or_default().push(number);
        }
    }
}

#[test]
fn l8_operations_are_applied_in_order_per_object_and_few_of_them_wait() {
    let disk = SimDisk::new();
    let (rounds, objects) = (200, 5);
    operations(&disk, rounds, objects);
    for threads in [1, 3] {
        let state = Operations::default();
        let recovery = Recovery::open(Arc::new(disk.fork()), config(1)).expect("opens");
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| while recovery.replay_step(&state).expect("replays") {});
            }
        });
        recovery.finish(&state).expect("finishes");
        let state = state.0.into_inner().expect("no panic");
        assert!(state.held.is_empty() && state.late.is_empty(), "{:?}", state.late);
        assert_eq!(state.applied.len() as u64, objects);
        for (object, numbers) in &state.applied {
            assert!(
                numbers.iter().copied().eq(0..2 * rounds),
                "{threads} threads, object {object}: {numbers:?}"
            );
        }
        // One thread holds what a piece of each log has; several may hold more while one of them rests.
        let total = 2 * rounds * objects;
        assert!(threads > 1 || state.held_most as u64 <= total / 10, "{} of {total}", state.held_most);
    }
}

#[test]
fn a_repair_leaves_the_kind_of_entries_as_it_was() {
    let disk = SimDisk::new();
    operations(&disk, 20, 5);
    let log = disk.files().into_iter().find(|name| name.starts_with("log0/log-")).expect("a log");
    disk.flip(&log, 2_000, 1);
    let on: Arc<dyn ensile_disk::Disk> = Arc::new(disk.clone());
    let done = repair(&on, &Operations::default()).expect("it can be repaired");
    assert!(done.is_some(), "something was damaged");
    let manifest = String::from_utf8(disk.bytes("MANIFEST")).expect("it is text");
    let generations: Vec<_> = manifest.lines().filter(|line| line.starts_with("generation ")).collect();
    assert!(generations.iter().all(|line| line.contains(" entries operations ")), "{generations:?}");
    assert!(!generations.is_empty(), "one is open");
}

/// A state whose first entry takes until others have been replayed.
struct Slow {
    operations: Operations,
    first: Tid,
    /// Entries replayed beside the first one's block.
    others: Mutex<usize>,
    are_replayed: Condvar,
}

impl Recoverable for Slow {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let is_first = entries.iter().any(|entry| entry.tid == self.first);
        let mut others = self.others.lock().expect("no panic");
        if is_first {
            let wait = |others: &mut usize| *others < 300;
            // As long as a hang would be: the other thread needs a moment.
            let limit = std::time::Duration::from_secs(120);
            others = self.are_replayed.wait_timeout_while(others, limit, wait).expect("no panic").0;
            assert!(*others >= 300, "the other thread goes on with other pieces");
        } else {
            *others += entries.len();
            self.are_replayed.notify_all();
        }
        drop(others);
        self.operations.replay(entries)
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.operations.load(section, entries)
    }

    fn advance_watermark(&self, epoch: Epoch) {
        self.operations.advance_watermark(epoch);
    }
}

#[test]
fn l8_no_epoch_passes_while_a_thread_is_at_a_piece_with_its_entries() {
    let disk = SimDisk::new();
    operations(&disk, 200, 5);
    let everything = Operations::default();
    let recovery = Recovery::open(Arc::new(disk.fork()), config(1)).expect("opens");
    let first = {
        while recovery.replay_step(&FirstOnly(&everything)).expect("replays") {}
        let held = &everything.0.lock().expect("no panic").held;
        *held.first_key_value().expect("an entry").0
    };
    let slow = Slow {
        operations: Operations::default(),
        first,
        others: Mutex::new(0),
        are_replayed: Condvar::new(),
    };
    let recovery = Recovery::open(Arc::new(disk.fork()), config(1)).expect("opens");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| while recovery.replay_step(&slow).expect("replays") {});
        }
    });
    let state = slow.operations.0.into_inner().expect("no panic");
    assert_eq!(state.late, [], "entries of epochs that had passed");
    assert_eq!(state.applied.values().map(Vec::len).sum::<usize>(), 2000);
}

/// Collects, and hears of no epoch.
struct FirstOnly<'o>(&'o Operations);

impl Recoverable for FirstOnly<'_> {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.0.replay(entries)
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.0.load(section, entries)
    }
}

#[test]
fn a_thread_without_a_piece_does_not_wait_for_one_that_cannot_be_replayed() {
    let disk = SimDisk::new();
    operations(&disk, 20, 5);
    /// Refuses everything.
    struct Refusing;
    impl Recoverable for Refusing {
        fn entries(&self) -> EntryKind {
            EntryKind::Operations
        }

        fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
            Err(Refused { entry: 0, detail: "no".to_owned() })
        }

        fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
            Ok(())
        }

        fn advance_watermark(&self, _epoch: Epoch) {
            panic!("nothing is replayed");
        }
    }
    let recovery = Recovery::open(Arc::new(disk.clone()), config(1)).expect("opens");
    while recovery.replay_step(&Refusing).is_err() {}
    assert!(!recovery.replay_step(&Refusing).expect("no piece is left"));
    assert!(matches!(recovery.finish(&Refusing), Err(DurabilityError::Config(_))));
}
