//! Readers' leases (I3): a process that reads a running database's files keeps them from being removed, and not for
//! ever.

use ensile_base::limits::LEASE_SECONDS_MAX;

use crate::prelude::*;

/// A database with a few log files and a checkpoint, and a worker of it.
fn checkpointed(disk: &SimDisk) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(disk, 2, settings());
    fill(&life, &mut worker);
    life.checkpoint().expect("is installed");
    (life, worker)
}

fn fill(life: &Life, worker: &mut Worker) {
    life.commit_epochs(worker, 0..30, &[1; 500]);
}

/// A database with a checkpoint and log files behind it, and a process that has a lease of all of them.
fn leased_beside(disk: &SimDisk) -> (Life, Worker, SimDisk, Lease) {
    let (life, mut worker) = checkpointed(disk);
    fill(&life, &mut worker);
    let (reader, lease) = leased(disk);
    (life, worker, reader, lease)
}

/// A lease that another process holds, and that process.
fn leased(disk: &SimDisk) -> (SimDisk, Lease) {
    let reader = disk.mounted();
    let lease = lease(&handle(reader.clone())).expect("a lease");
    (reader, lease)
}

/// All that the lease has can be read, to the end.
fn assert_readable(lease: &Lease) {
    assert!(lease.files().len() > 8, "{lease:?}");
    for file in lease.files() {
        let mut bytes = vec![0; file.bytes().expect("its length") as usize];
        assert_eq!(file.read_at(&mut bytes, 0).expect("it is read"), bytes.len(), "{}", file.name());
    }
}

/// Lets this number of seconds pass, and the checkpointers step.
fn pass(life: &Life, seconds: u64) -> LogStats {
    life.rig.clock.advance(Duration::from_secs(seconds));
    life.step(0);
    life.step(1);
    life.rig.log.stats()
}

#[test]
fn i3_a_removal_waits_for_a_lease_and_goes_on_once_it_has_ended() {
    let disk = SimDisk::new();
    let (life, worker, _reader, lease) = leased_beside(&disk);
    let before = disk.files();
    assert!(lease.files().iter().any(|file| file.name().contains("ckpt-1-")), "{lease:?}");
    assert!(lease.files().iter().any(|file| file.name().contains("-to-")), "{lease:?}");
    // It neither waits nor fails, and goes on to the next.
    life.checkpoint().expect("is installed beside the lease");
    life.checkpoint().expect("and another one");
    assert!(lease.has_all_names().expect("it looks"));
    let stats = pass(&life, 2);
    assert_eq!((stats.removals_put_off, stats.leases_overrun), (1, 0));
    assert!(before.iter().filter(|name| name.contains("ckpt-")).all(|name| disk.files().contains(name)));
    assert_readable(&lease);
    let files = stats.files;
    drop(lease);
    let stats = pass(&life, 2);
    assert!(stats.files < files, "the log files went: {stats:?}");
    assert!(!disk.files().iter().any(|name| name.contains("ckpt-1-")), "{:?}", disk.files());
    assert_eq!((stats.removals_put_off, stats.leases_overrun), (1, 0));
    drop((worker, life));
    disk.crash(1);
    let life = Life::open(&disk, 2, settings()).expect("it is whole");
    assert_eq!(life.found.len(), 30);
    life.end();
}

#[test]
fn i3_log_files_are_not_removed_beside_a_lease_unless_its_reader_died() {
    let disk = SimDisk::new();
    let (life, _worker, _reader, lease) = leased_beside(&disk);
    // The caller has installed a checkpoint that covers them.
    let covered = life.rig.epochs.now();
    assert_eq!(life.rig.log.remove_files_below(covered).expect("it is put off").files, 0);
    assert!(lease.has_all_names().expect("it looks"));
    drop(lease);
    assert!(life.rig.log.remove_files_below(covered).expect("removes").files > 2);
    let disk = SimDisk::new();
    let (life, worker, reader, lease) = leased_beside(&disk);
    life.checkpoint().expect("is installed");
    assert!(disk.files().iter().any(|name| name.contains("ckpt-1-")));
    reader.kill_process();
    let stats = pass(&life, 2);
    assert!(!disk.files().iter().any(|name| name.contains("ckpt-1-")), "{:?}", disk.files());
    assert_eq!((stats.removals_put_off, stats.leases_overrun), (1, 0));
    drop((lease, worker));
    life.end();
}

#[test]
fn i3_a_lease_beyond_the_limit_is_overrun_and_counted_and_its_files_stay_readable() {
    let disk = SimDisk::new();
    let (life, _worker, _reader, lease) = leased_beside(&disk);
    life.checkpoint().expect("is installed");
    // From the first refusal on, by the log's clock.
    assert_eq!(pass(&life, LEASE_SECONDS_MAX - 2).leases_overrun, 0);
    assert!(lease.has_all_names().expect("it looks"));
    let stats = pass(&life, 2);
    assert_eq!((stats.removals_put_off, stats.leases_overrun), (1, 1));
    assert!(!disk.files().iter().any(|name| name.contains("ckpt-1-")), "{:?}", disk.files());
    assert!(!lease.has_all_names().expect("it looks"), "it tells");
    assert_readable(&lease);
}

/// A copier that is slower than the limit holds each removal up for the whole limit.
#[test]
fn i3_a_lease_that_was_overrun_holds_the_next_removal_up_as_long_and_is_counted_again_then() {
    let disk = SimDisk::new();
    let (life, mut worker, _reader, lease) = leased_beside(&disk);
    for round in 1..=3 {
        let number = life.checkpoint().expect("is installed").number;
        let before = format!("ckpt-{}-", number - 1);
        let is_there = || disk.files().iter().any(|name| name.contains(&before));
        let stats = pass(&life, LEASE_SECONDS_MAX - 2);
        assert_eq!((stats.removals_put_off, stats.leases_overrun), (round, round - 1));
        assert!(is_there(), "{before} is held up");
        let stats = pass(&life, 2);
        assert_eq!((stats.removals_put_off, stats.leases_overrun), (round, round));
        assert!(!is_there(), "{before} has gone");
        // Nothing is to be removed, so nothing is counted.
        let stats = pass(&life, 2 * LEASE_SECONDS_MAX);
        assert_eq!((stats.removals_put_off, stats.leases_overrun), (round, round));
        fill(&life, &mut worker);
    }
    drop((lease, worker));
    life.end();
}

#[test]
fn i3_a_failed_attempt_takes_its_own_files_and_not_the_leased_ones() {
    let disk = SimDisk::new();
    let (life, _worker, _reader, lease) = leased_beside(&disk);
    life.checkpoint().expect("is installed");
    // The next one is given up in its midst, by the close.
    let _handle = life.checkpoints.demand();
    let has_begun = || disk.files().iter().any(|name| name.contains("ckpt-3-"));
    for _ in 0..1000 {
        if has_begun() {
            break;
        }
        life.step(0);
        life.rig.settle();
    }
    assert!(has_begun(), "{:?}", disk.files());
    life.checkpoints.close(&life.store);
    assert!(!has_begun(), "{:?}", disk.files());
    assert!(lease.has_all_names().expect("it looks"));
}

#[test]
fn i3_an_open_does_not_wait_for_a_lease_and_a_lease_needs_a_database() {
    let disk = SimDisk::new();
    let (life, worker, _reader, lease) = leased_beside(&disk);
    life.checkpoints.close(&life.store);
    life.rig.log.close().expect("closes");
    drop((worker, life));
    let life = Life::open(&disk, 2, settings()).expect("opens");
    assert_eq!(life.found.len(), 30);
    assert_readable(&lease);
    drop(lease);
    life.end();
    // Nothing is made in a folder of something else.
    let empty: Arc<dyn Disk> = Arc::new(disk.at("elsewhere"));
    assert!(matches!(ensile_durability::lease(&empty), Err(DurabilityError::NoDatabase { .. })));
    assert!(empty.list("").expect("listed").is_empty());
    // A database of an earlier version has no file for leases: the first one makes it.
    disk.lose("LEASES");
    leased(&disk);
    assert!(disk.files().contains(&"LEASES".to_owned()));
}
