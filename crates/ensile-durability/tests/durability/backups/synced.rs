//! What a process that died before its sync has left in the system's cache: a backup has it only once the source's
//! medium has it (N22).

use super::*;

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    Life::open(&at_rest(disk).at(folder), 2, settings()).expect("opens").found
}

/// A database of so many logs, or none, with a checkpoint and more behind it.
fn begun(disk: &SimDisk, loggers: usize, (settings, segment_bytes): (CheckpointConfig, u64)) -> Life {
    let log = LogConfig { segment_bytes, ..config(loggers) };
    let life = Life::open_with(&disk.at("data"), log, settings).expect("opens");
    let mut worker = life.rig.worker();
    for key in 0..12 {
        life.commit_epoch(&mut worker, key, Some(&[1; 700]));
        if key == 7 {
            life.checkpoint().expect("is installed");
        }
    }
    life
}

/// The processes die before each call of `work` in turn, and a backup is made. Then power fails, and what was not
/// synced is gone. The source has what the backup has, goes on, and is backed up again.
fn dies_everywhere(
    (loggers, strategy): (usize, (CheckpointConfig, u64)),
    is_backed_up_before: bool,
    work: impl Fn(&SimDisk, &Life),
) {
    for ahead in 1.. {
        let disk = SimDisk::new();
        let life = begun(&disk, loggers, strategy.clone());
        if is_backed_up_before {
            back_up(&disk, "backup", 1).expect("is made");
        }
        disk.die_before(disk.calls().all + ahead);
        work(&disk, &life);
        let is_over = !disk.is_without_power();
        disk.kill();
        drop(life);
        let at = format!("{loggers} logs, {:?}, call {ahead}", strategy.0.strategy);
        let report = back_up(&disk, "backup", 2).unwrap_or_else(|error| panic!("{at}: {error}"));
        let state = opened(&disk, "backup");
        disk.crash_with(Survival::Nothing, ahead);
        let durable = examined(&disk, "data").durable_epoch.expect("it is whole");
        assert!(durable >= report.epoch, "{at}: the source has epoch {durable}, its backup {}", report.epoch);
        let log = LogConfig { segment_bytes: strategy.1, ..config(loggers) };
        let life = Life::open_with(&disk.at("data"), log, strategy.0.clone()).expect("opens");
        // Rows that have changed behind the backup are left out.
        let is_changed = |key: &u64| life.found.get(key).is_some_and(|(tid, _)| tid.epoch() > report.epoch);
        let same = |rows: &Changes| -> Changes {
            rows.iter().filter(|(key, _)| !is_changed(key)).map(|(key, row)| (*key, row.clone())).collect()
        };
        assert_eq!(same(&life.found), same(&state), "{at}");
        let mut worker = life.rig.worker();
        life.commit(&mut worker, 3, Some(b"behind it"));
        life.checkpoint().expect("is installed");
        let next = back_up(&disk, "backup", 2).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(next.epoch > report.epoch, "{at}: {next:?} behind {report:?}");
        assert!(examined(&disk, "backup").is_whole(), "{at}");
        assert_eq!(opened(&disk, "backup"), life.store.present(), "{at}");
        if is_over {
            assert!(ahead > 2, "{at}");
            break;
        }
    }
}

#[test]
fn n22_a_mark_or_a_manifest_in_the_cache_alone_is_synced_before_a_backup_has_it() {
    for (loggers, segment_bytes) in [(1, 64 << 20), (2, 64 << 20), (1, 4096), (2, 4096)] {
        for is_backed_up_before in [false, true] {
            dies_everywhere((loggers, (settings(), segment_bytes)), is_backed_up_before, |_, life| {
                let mut worker = life.rig.worker();
                life.commit_epoch(&mut worker, 2, Some(b"written"));
                (0..loggers).for_each(|logger| life.rig.log.logger_prepare(logger));
            });
        }
    }
    for (loggers, strategy) in [(2, settings()), (1, cycling()), (1, pictures()), (0, pictures())] {
        dies_everywhere((loggers, (strategy, 4096)), true, |disk, life| {
            let mut worker = life.rig.worker();
            life.commit(&mut worker, 2, Some(b"written"));
            let _ = life.checkpoint_until(|| disk.is_without_power());
        });
    }
}

#[test]
fn n22_a_mark_that_is_written_beside_a_copy_is_synced_before_its_epoch_is_in_it() {
    let disk = SimDisk::new();
    let process = disk.at("data").mounted();
    let rig = Rig::open(Arc::new(process.clone()), config(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"row");
    let copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    worker.commit(&rig.epochs, 2, b"row").expect("runs");
    disk.stall(&[Operation::Sync]);
    std::thread::scope(|scope| {
        let settles = scope.spawn(|| rig.settle());
        await_stall(&disk);
        // It has written, and dies before its sync begins.
        process.kill_process();
        settles.join().expect("no panic");
    });
    disk.release();
    let report = run(copy).expect("is made");
    drop((worker, rig));
    disk.crash_with(Survival::Nothing, 1);
    let durable = examined(&disk, "data").durable_epoch.expect("it is whole");
    assert!(durable >= report.epoch, "the source has epoch {durable}, its backup {}", report.epoch);
}

#[test]
fn n22_nothing_is_backed_up_whose_sync_fails() {
    for (loggers, strategy) in [(2, settings()), (1, cycling()), (1, pictures())] {
        let logs_synced = loggers as u64;
        // The target is another machine's, so each sync of this one is of the source.
        let (disk, other) = (SimDisk::new(), SimDisk::new());
        let backed_up = |source: &SimDisk, target: &SimDisk| {
            let options = CopyOptions { keep: Some(2), ..CopyOptions::default() };
            backup(&of(source, "data"), &of(target, "backup"), options).and_then(run)
        };
        let life = begun(&disk, loggers, (strategy, 64 << 20));
        backed_up(&disk, &other).expect("is made");
        let mut worker = life.rig.worker();
        life.commit(&mut worker, 2, Some(b"written"));
        life.checkpoint().expect("is installed");
        let fails = |fail: &dyn Fn(&SimDisk)| {
            let (source, target) = (disk.fork(), other.fork());
            let before = manifest(&target, "backup");
            fail(&source);
            let said = backed_up(&source, &target).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), manifest(&target, "backup") == before, "{said:?}");
            said.is_some_and(|said| said.contains("cannot sync"))
        };
        assert!(fails(&|source| source.fail_folder_sync(1)), "of the main folder");
        assert!(!fails(&|source| source.fail_folder_sync(2)));
        for log in 1..=logs_synced {
            assert!(fails(&|source| source.fail_sync(log)), "of log {log}");
        }
        assert!(!fails(&|source| source.fail_sync(logs_synced + 1)));
    }
}
