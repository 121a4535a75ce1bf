//! Opening on a full disk: it opens, or it can be read; nothing that was durable is lost, and nothing else is called
//! durable.

use ensile_sim::{Call, Fault};

use crate::prelude::*;

/// What an open came to.
struct Opened {
    rows: Rows,
    /// What is shown is on the medium up to this epoch.
    durable: Epoch,
    /// D, as recovered.
    recovered: Epoch,
    only_reads: bool,
}

fn open(disk: &SimDisk, loggers: usize) -> Result<Opened, DurabilityError> {
    let map = Map::default();
    let recovery = Recovery::open(Arc::new(disk.mounted()), config(loggers))?;
    while recovery.replay_step(&map)? {}
    let (durable, recovered, only_reads) = match recovery.finish_or_read(&map)? {
        Finished::Open(open) => (open.report.durable_epoch, open.report.durable_epoch, false),
        Finished::ReadOnly(closed) => (closed.durable, closed.report.durable_epoch, true),
    };
    Ok(Opened { rows: map.rows.into_inner().expect("no panic"), durable, recovered, only_reads })
}

/// A life that ended without a close: what was committed, with its epoch, and D.
fn life(disk: &SimDisk, random: &mut Random) -> (Vec<(u64, Epoch)>, Epoch) {
    let rig = Rig::open(Arc::new(disk.mounted()), config(2), Clock::manual()).expect("opens");
    let mut workers = [rig.worker(), rig.worker()];
    let mut committed = Vec::new();
    for key in 0..random.next_between(5, 40) {
        let bytes = random.next_below(2000) as usize;
        if let Ok(tid) = workers[random.next_below(2) as usize].commit(&rig.epochs, key, &vec![1; bytes]) {
            committed.push((key, tid.epoch()));
        }
        if random.percent(60) {
            rig.settle();
        }
        if random.percent(10) {
            rig.step_all();
        }
        if random.percent(5) {
            disk.set_capacity(Some(disk.used_bytes() + random.next_below(3000)));
        }
    }
    // What a failed sync has lost is readable, and stays so until the power fails.
    if random.percent(50) {
        disk.set_capacity(None);
        disk.fail_all_syncs(true);
        if let Ok(tid) = workers[0].commit(&rig.epochs, 100, b"unproven") {
            committed.push((100, tid.epoch()));
        }
        rig.settle();
        disk.fail_all_syncs(false);
    }
    (committed, rig.log.durable_epoch())
}

/// The calls of an open to which a full disk may answer so.
fn changing_calls(disk: &SimDisk) -> Vec<u64> {
    let disk = disk.fork();
    disk.set_capacity(None);
    disk.record(true);
    open(&disk, 2).expect("opens");
    let changes = |call: &Call| match call.operation {
        Operation::Length => call.range.is_some(),
        Operation::Write
        | Operation::Sync
        | Operation::SyncFolder
        | Operation::Create
        | Operation::Rename
        | Operation::Remove
        | Operation::Preallocate => true,
        _ => false,
    };
    disk.trace().iter().filter(|call| changes(call)).map(|call| call.number).collect()
}

#[test]
fn whatever_call_of_an_open_finds_no_space_it_opens_or_is_read_and_nothing_is_lost() {
    let (mut read, mut unproven) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random::from_seed(seed);
        let disk = SimDisk::new();
        disk.set_copies_on_write(seed % 2 == 1);
        let (committed, durable) = life(&disk, &mut random);
        match random.next_below(3) {
            0 => disk.kill(),
            1 => disk.crash(seed),
            _ => disk.crash_with(Survival::Everything, seed),
        }
        if random.percent(40) {
            disk.lose("RESERVE");
        }
        match random.next_below(4) {
            0 => disk.set_capacity(Some(0)),
            1 => disk.set_capacity(Some(disk.used_bytes() + random.next_below(40_000))),
            // Once, or from there on, whatever the call that changes something: a sync too.
            of_calls => {
                let calls = changing_calls(&disk);
                let call = calls[random.next_below(calls.len() as u64) as usize];
                let to = if of_calls == 2 { call } else { u64::MAX };
                disk.fail_calls(call..=to, Fault::NO_SPACE.after_percent(50 * random.next_below(3)));
            }
        }
        let opened = open(&disk, 2);
        disk.heal();
        disk.set_capacity(None);
        let survival = Survival::ALL[random.next_below(5) as usize];
        let told = match &opened {
            Ok(opened) => {
                read += u64::from(opened.only_reads);
                unproven += u64::from(opened.durable < opened.recovered);
                for (key, _) in committed.iter().filter(|(_, epoch)| *epoch <= durable) {
                    assert!(opened.rows.contains_key(key), "seed {seed}: row {key} was durable");
                }
                opened.durable
            }
            // Nothing is known of names then; the next open goes on.
            Err(error) if error.to_string().contains("sync the folder") => durable,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        // What was called durable is there after a power failure, and what was durable before.
        disk.crash_with(survival, seed);
        let again = open(&disk, 2).unwrap_or_else(|error| panic!("seed {seed}, {survival:?}: {error}"));
        assert!(!again.only_reads);
        let kept = told.max(durable);
        for (key, _) in committed.iter().filter(|(_, epoch)| *epoch <= kept) {
            assert!(again.rows.contains_key(key), "seed {seed}, {survival:?}: row {key}, {kept}");
        }
    }
    assert!(read > 100 && unproven > 5, "{read}, {unproven}: otherwise nothing was tried");
}

/// A database whose only life ended without a close, with a row.
fn killed() -> SimDisk {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.mounted()), config(2), Clock::manual()).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 1, b"row");
    drop(rig);
    disk.kill();
    disk
}

/// The calls of this kind, of a file of which the name begins so, in an open.
fn calls_of(disk: &SimDisk, operation: Operation, name: &str) -> Vec<u64> {
    let disk = disk.fork();
    disk.record(true);
    open(&disk, 2).expect("opens");
    let is_one = |call: &&Call| call.operation == operation && call.name.starts_with(name);
    disk.trace().iter().filter(is_one).map(|call| call.number).collect()
}

#[test]
fn the_logs_stay_where_a_rename_of_the_manifest_was_done_and_said_that_the_disk_is_full() {
    let disk = killed();
    let renames = calls_of(&disk, Operation::Rename, "MANIFEST.new");
    // From there on nothing finds space, so the second attempt says that it changed nothing.
    disk.fail_calls(renames[0].., Fault::NO_SPACE.after_percent(100));
    let opened = open(&disk, 2).expect("it can be read");
    assert!(opened.only_reads && opened.rows.contains_key(&1));
    disk.heal();
    disk.crash_with(Survival::Everything, 1);
    assert!(open(&disk, 2).expect("its manifest lists the new logs").rows.contains_key(&1));
}

#[test]
fn a_database_can_be_read_where_void_files_cannot_be_removed_for_want_of_space() {
    let disk = killed();
    drop(open(&disk, 2).expect("opens"));
    disk.kill();
    let removes = calls_of(&disk, Operation::Remove, "log");
    assert!(!removes.is_empty(), "the life before left no entry");
    for call in removes.into_iter().chain(calls_of(&disk, Operation::Lock, "LEASES")) {
        let disk = disk.fork();
        disk.fail_calls(call..=call, Fault::NO_SPACE);
        let opened = open(&disk, 2).expect("it can be read");
        assert!(opened.only_reads && opened.rows.contains_key(&1));
        disk.crash_with(Survival::Everything, 1);
        assert!(open(&disk, 2).expect("opens").rows.contains_key(&1));
    }
}

#[test]
fn bytes_that_a_failed_sync_of_an_open_took_back_are_no_damage() {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.mounted()), config(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    let tid = rig.commit_epoch(&mut worker, 1, b"row");
    assert!(rig.log.durable_epoch() >= tid.epoch());
    disk.fail_all_syncs(true);
    rig.commit_epoch(&mut worker, 2, b"unproven");
    disk.heal();
    drop((worker, rig));
    disk.kill();
    disk.set_failed_syncs_revert(true);
    let trial = disk.fork();
    trial.record(true);
    open(&trial, 1).expect("opens");
    let is_sync = |call: &&Call| call.operation == Operation::Sync && call.name.starts_with("log0/log-1-");
    let sync = trial.trace().iter().find(is_sync).expect("what is unproven is written again").number;
    disk.fail_calls(sync..=sync, Fault::NO_SPACE);
    let opened = open(&disk, 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(opened.only_reads && opened.durable < opened.recovered);
    assert!(opened.rows.contains_key(&1) && opened.rows.contains_key(&2), "as they were read");
    disk.kill();
    let again = open(&disk, 1).expect("opens");
    assert!(again.rows.contains_key(&1) && !again.only_reads);
}
