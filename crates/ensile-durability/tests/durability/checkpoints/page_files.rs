//! Page files: what a picture keeps, what it writes over and when, and what is left of one that fails.
//!
//! Neighbours: `reopened` has pictures that go on from those of lives before.

use crate::prelude::*;

fn one_checkpointer() -> CheckpointConfig {
    CheckpointConfig { checkpointers: 1, ..pictures() }
}

/// A database whose rows take some bytes each.
fn filled(disk: &SimDisk, settings: CheckpointConfig) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(disk, 1, settings);
    for key in 0..KEYS {
        put(&life, &mut worker, key, 4000);
    }
    (life, worker)
}

fn put(life: &Life, worker: &mut Worker, key: u64, bytes: usize) {
    life.commit_epoch(worker, key, Some(&vec![bytes as u8; bytes]));
}

fn page_files(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/pages-")).collect()
}

fn bytes_of(disk: &SimDisk, files: &[String]) -> u64 {
    files.iter().map(|name| disk.bytes(name).len() as u64).sum()
}

/// What the installed checkpoint holds if the machine stops now, and nothing of the log.
fn loaded(disk: &SimDisk) -> Changes {
    let (disk, store) = (disk.fork(), Store::default());
    disk.crash(3);
    let recovery = Recovery::open(Arc::new(disk), config(1)).expect("reads");
    while recovery.load_step(&store).expect("loads") {}
    present(&store.rows.lock().expect("no panic"))
}

#[test]
fn a_picture_writes_what_has_changed_since_the_one_before() {
    let disk = SimDisk::new();
    let (life, mut worker) = filled(&disk, pictures());
    let first = life.checkpoint().expect("is installed");
    assert_eq!((first.pages_kept, first.entries), (0, KEYS));
    let files = page_files(&disk);
    assert_eq!(files.len(), 2, "one of each checkpointer");
    put(&life, &mut worker, 7, 100);
    let second = life.checkpoint().expect("is installed");
    assert!(second.pages_written < 5 && second.pages_kept > 10, "{second:?}");
    assert!(second.bytes_written < first.bytes_written / 3, "{second:?} behind {first:?}");
    assert_eq!((second.entries, page_files(&disk)), (KEYS, files.clone()));
    let stats = life.checkpoints.stats();
    assert_eq!(stats.page_file_bytes - stats.page_file_bytes_free, second.bytes + 2 * 4096);
    let none = life.checkpoint().expect("is installed");
    assert_eq!(none.pages_written, 0, "nothing has changed");
    assert_eq!(loaded(&disk), life.store.present());
    drop(worker);
    life.end();
}

/// A file that ends within a unit has the kernel write that unit once more as it grows: a picture of 1 GB wrote
/// thousands of them once more at its sync, and the log's syncs waited behind them.
#[test]
fn a_picture_ends_its_files_with_whole_units() {
    let disk = SimDisk::new();
    let (life, mut worker) = filled(&disk, pictures());
    for bytes in [100, 5000] {
        put(&life, &mut worker, 7, bytes);
        life.checkpoint().expect("is installed");
        for file in page_files(&disk) {
            assert_eq!(disk.bytes(&file).len() % 4096, 0, "{file}");
        }
    }
    drop(worker);
    life.end();
}

/// What the medium is told to begin with of a full picture of 2 MB that one checkpointer writes: the most, and all.
fn begun(is_awaited: bool, sync_bytes: u64) -> (u64, u64) {
    let disk = SimDisk::new();
    let (life, mut worker) = filled(&disk, CheckpointConfig { sync_bytes, ..one_checkpointer() });
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 32_000));
    // An epoch that is not reached meanwhile.
    let far = life.rig.log.durable_epoch().plus(100_000);
    if is_awaited {
        assert!(is_durable(&life.rig.log, far).is_pending());
    }
    let report = life.checkpoint().expect("is installed");
    let begun: Vec<u64> = disk.begun().iter().map(|(_, _, bytes)| *bytes).collect();
    let all = begun.iter().sum();
    assert!(report.bytes_written > 2_000_000 && all <= report.bytes_written, "{begun:?} of {report:?}");
    (begun.into_iter().max().unwrap_or_default(), all)
}

/// A sync of the log waits behind all that the medium was given at once.
#[test]
fn the_medium_begins_with_each_mebibyte_of_a_picture_and_with_less_while_a_commit_waits() {
    let (most, all) = begun(false, 32 << 20);
    assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&most) && all >= most, "{most} of {all}");
    let (most, all) = begun(true, 32 << 20);
    assert!((256 << 10..320 << 10).contains(&most) && all > 1_700_000, "{most} of {all}");
    assert_eq!(begun(true, 100_000), (0, 0), "what was synced needs no beginning");
}

#[test]
fn i3_what_a_leased_picture_has_is_not_written_over() {
    let disk = SimDisk::new();
    let (life, mut worker) = filled(&disk, pictures());
    life.checkpoint().expect("is installed");
    let (manifest, expected) = (disk.bytes("MANIFEST"), life.store.present());
    let reader = disk.mounted();
    let lease = lease(&handle(reader.clone())).expect("a lease");
    for round in 0..5 {
        (0..KEYS).for_each(|key| put(&life, &mut worker, key, 3000 + round));
        life.checkpoint().expect("is installed beside the lease");
    }
    let copy = disk.fork();
    copy.crash(1);
    copy.put("MANIFEST", manifest);
    assert_eq!(loaded(&copy), expected, "as it was leased");
    let held = bytes_of(&disk, &page_files(&disk));
    drop(lease);
    life.rig.clock.advance(std::time::Duration::from_secs(2));
    (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
    let stats = life.checkpoints.stats();
    assert!(stats.page_file_bytes_free > stats.page_file_bytes / 2, "{stats:?}");
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 5000));
    life.checkpoint().expect("is installed in what is free now");
    assert!(bytes_of(&disk, &page_files(&disk)) <= held);
    assert_eq!(loaded(&disk), life.store.present());
    drop(worker);
    life.end();
}

#[test]
fn a_picture_for_which_there_is_no_space_leaves_none_of_its_bytes() {
    for before in [false, true] {
        let disk = SimDisk::new();
        let (life, mut worker) = filled(&disk, one_checkpointer());
        if before {
            life.checkpoint().expect("there is space");
            (0..KEYS).for_each(|key| put(&life, &mut worker, key, 6000));
        }
        let files = page_files(&disk);
        let bytes = bytes_of(&disk, &files);
        disk.set_capacity(Some(disk.used_bytes() + 100_000));
        for _ in 0..10 {
            let error = life.checkpoint().expect_err("it does not fit").to_string();
            assert!(error.contains("space"), "{error}");
            assert_eq!(page_files(&disk), files);
            assert!(bytes_of(&disk, &files) < bytes + 4096, "cut behind the last unit of what is installed");
        }
        assert_eq!(life.rig.log.health(), Health::Running);
        put(&life, &mut worker, 3, 100);
        disk.set_capacity(None);
        life.checkpoint().expect("there is space");
        assert_eq!(loaded(&disk), life.store.present());
        drop(worker);
        life.end();
    }
}

#[test]
fn a_close_behind_any_step_leaves_the_installed_picture_and_no_file_beside_it() {
    for steps in 0..60 {
        let disk = SimDisk::new();
        let (life, mut worker) = filled(&disk, pictures());
        let is_first = steps % 2 == 0;
        if !is_first {
            life.checkpoint().expect("is installed");
            (0..20).for_each(|key| put(&life, &mut worker, key, 2000));
        }
        let files = page_files(&disk);
        let bytes = bytes_of(&disk, &files);
        let handle = life.checkpoints.demand();
        for step in 0..steps {
            life.step(step % 2);
            life.rig.settle();
        }
        let is_installed = matches!(handle.outcome(), Some(Ok(_)));
        life.checkpoints.close(&life.store);
        match handle.outcome() {
            Some(Ok(_)) => assert!(is_installed),
            Some(Err(DurabilityError::Closed(_))) if is_first => assert_eq!(page_files(&disk).len() % 2, 0),
            Some(Err(DurabilityError::Closed(_))) => {
                assert_eq!(page_files(&disk), files, "{steps} steps");
                assert!(bytes_of(&disk, &files) <= bytes + 60_000, "{steps} steps");
            }
            found => panic!("{found:?}"),
        }
        let expected = life.store.present();
        drop((worker, life));
        disk.crash(steps as u64);
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        assert_eq!(life.found, expected, "{steps} steps");
        life.checkpoint().expect("is installed");
        assert_eq!(page_files(&disk).len(), 2, "{steps} steps");
    }
}
