//! Folders, files and their removal: where the logs are, when a new file is begun, what is removed.

use std::path::PathBuf;

use ensile_disk::RealDisk;

use crate::prelude::*;

fn open(disk: &SimDisk, config: LogConfig) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.clone()), config, Clock::manual())
}

/// Log files of `folder`, by name.
fn names(disk: &dyn Disk, folder: &str) -> Vec<String> {
    let mut names = disk.list(folder).expect("lists");
    names.retain(|name| name.starts_with("log-"));
    names
}

/// Commits and makes durable what fills a file or two.
fn fill(rig: &Rig, worker: &mut Worker, keys: std::ops::Range<u64>) {
    for key in keys {
        rig.commit_epoch(worker, key, &[1; 1000]);
    }
}

#[test]
fn logs_are_in_folders_of_their_own_whose_names_survive() {
    for seed in 0..20 {
        let (disk, rig) = Rig::first_life(3);
        rig.commit_epoch(&mut rig.worker(), 1, b"one");
        disk.crash(seed);
        for folder in ["log0", "log1", "log2"] {
            assert_eq!(names(&disk, folder), ["log-1-0"]);
        }
        assert_eq!(Rig::simulated(&disk, 1).rows.len(), 1);
    }
}

#[test]
fn fewer_loggers_keep_the_folders_of_those_that_are_gone() {
    let (disk, rig) = Rig::first_life(3);
    let mut workers = [rig.worker(), rig.worker(), rig.worker()];
    for (key, worker) in workers.iter_mut().enumerate() {
        worker.commit(&rig.epochs, key as u64, b"old").expect("runs");
    }
    rig.settle();
    drop(workers);
    drop(rig);
    disk.crash(1);
    for life in 0..3 {
        let rig = Rig::simulated(&disk, 1);
        assert_eq!(rig.rows.len(), 3 + life);
        rig.commit_epoch(&mut rig.worker(), 10 + life as u64, b"new");
        assert_eq!(names(&disk, "log2"), ["log-1-0"]);
        disk.crash(2);
    }
}

#[test]
fn folders_given_are_linked_and_remembered() {
    let disk = SimDisk::new();
    let folders = |names: &[&str]| LogConfig {
        folders: names.iter().map(PathBuf::from).collect(),
        ..config(names.len())
    };
    let rig = open(&disk, folders(&["/a", "/b"])).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    drop(rig);
    disk.crash(1);
    drop(open(&disk, folders(&["/a", "/b"])).expect("the same again"));
    disk.kill();
    assert_eq!(open(&disk, config(2)).expect("nobody needs to say it again").rows.len(), 1);
    disk.kill();
    let Err(DurabilityError::Config(what)) = open(&disk, folders(&["/a", "/c"])).map(drop) else {
        panic!("log1 is elsewhere")
    };
    assert!(what.contains("log1") && what.contains("/b") && what.contains("/c"), "{what}");
    disk.kill();
    let Err(DurabilityError::Config(what)) = open(&disk, folders(&["/a", "/a"])).map(drop) else {
        panic!("two logs in one folder")
    };
    assert!(what.contains("twice"), "{what}");
    disk.kill();
    disk.unplug("log1", false);
    for config in [config(1), folders(&["/a", "/b"])] {
        let Err(DurabilityError::FolderMissing { folder, to }) = open(&disk, config).map(drop) else {
            panic!("its device is gone")
        };
        assert_eq!((&*folder, to), ("log1", PathBuf::from("/b")));
        disk.kill();
    }
    disk.unplug("log1", true);
    open(&disk, config(1)).expect("it is back");
}

#[test]
fn a_plain_folder_is_not_made_a_link() {
    let disk = SimDisk::new();
    drop(Rig::simulated(&disk, 1));
    disk.kill();
    let linked = LogConfig { folders: vec!["/a".into()], ..config(1) };
    let Err(DurabilityError::Config(what)) = open(&disk, linked).map(drop) else {
        panic!("a folder is there")
    };
    assert!(what.contains("plain folder"), "{what}");
}

#[test]
fn links_on_the_machines_own_disk() {
    let (folder, other) = (Folder::new("links"), Folder::new("links-elsewhere"));
    let disk = || Arc::new(RealDisk::open(folder.path()).expect("a folder"));
    let linked = |names: [&str; 2]| {
        let folders = names.iter().map(|name| other.path().join(name)).collect();
        LogConfig { folders, ..config(2) }
    };
    std::fs::create_dir_all(other.path()).expect("makes a folder");
    let rig = Rig::open(disk(), linked(["a", "b"]), Clock::manual()).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    rig.log.close().expect("closes");
    drop(rig);
    assert_eq!(std::fs::read_link(folder.path().join("log1")).expect("a link"), other.path().join("b"));
    assert_eq!(names(&*disk(), "log0"), ["log-1-0"]);
    assert_eq!(Rig::open(disk(), config(2), Clock::manual()).expect("opens").rows.len(), 1);
    let refused = Rig::open(disk(), linked(["b", "a"]), Clock::manual()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Config(_))), "{refused:?}");
    // A folder that holds files is not taken.
    let second = Folder::new("links-second");
    let config = LogConfig { folders: vec![other.path().join("a")], ..config(1) };
    let second = Arc::new(RealDisk::open(second.path()).expect("a folder"));
    let refused = Rig::open(second, config, Clock::manual()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Disk(_))), "{refused:?}");
    // The device goes away.
    std::fs::rename(other.path().join("b"), other.path().join("gone")).expect("renames");
    let missing = Rig::open(disk(), self::config(1), Clock::manual()).map(drop);
    assert!(matches!(missing, Err(DurabilityError::FolderMissing { .. })), "{missing:?}");
}

#[test]
fn a_file_is_closed_by_its_age_and_only_if_it_was_written_to() {
    let disk = SimDisk::new();
    let limits = LogConfig { segment_interval: Duration::from_secs(4), ..LogConfig::default() };
    let rig = open(&disk, limits).expect("opens");
    let mut worker = rig.worker();
    for _ in 0..3 {
        rig.clock.advance(Duration::from_secs(5));
        rig.settle();
    }
    assert_eq!(rig.log.stats().rolls, 0, "an idle log does not roll");
    let tid = rig.commit_epoch(&mut worker, 1, b"one");
    let closed = format!("log-1-0-to-{}", tid.epoch());
    assert_eq!(names(&disk, "log0"), [closed.clone(), "log-1-1".to_owned()]);
    let next = rig.commit_epoch(&mut worker, 2, b"two");
    assert_eq!(rig.log.stats().rolls, 1, "young");
    // Nothing comes any more: the file is closed all the same.
    rig.clock.advance(Duration::from_secs(4));
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    assert_eq!(names(&disk, "log0"), [closed, format!("log-1-1-to-{}", next.epoch()), "log-1-2".to_owned()]);
    for _ in 0..3 {
        rig.clock.advance(Duration::from_secs(5));
        rig.settle();
    }
    assert_eq!(rig.log.stats().rolls, 2);
    disk.crash(3);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 2);
}

#[test]
fn a_new_file_can_be_asked_for() {
    let disk = SimDisk::new();
    let rig = open(&disk, LogConfig { loggers: 2, ..LogConfig::default() }).expect("opens");
    rig.log.request_roll();
    rig.step_all();
    assert_eq!(rig.log.stats().rolls, 0, "there is nothing to close");
    rig.worker().commit(&rig.epochs, 1, b"one").expect("runs");
    rig.log.request_roll();
    rig.settle();
    assert_eq!(rig.log.stats().rolls, 2);
    rig.settle();
    assert_eq!(rig.log.stats().rolls, 2, "once");
}

#[test]
fn a_crash_while_a_file_is_closed_leaves_either_name() {
    for seed in 0..200 {
        let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
        fill(&rig, &mut worker, 0..10);
        let before = rig.log.stats().rolls;
        // Power fails at some call of the steps around the next roll.
        disk.cut_power_at(disk.calls().all + 1 + seed % 40);
        let mut key = 10;
        while rig.log.stats().rolls == before && !disk.is_without_power() {
            if worker.commit(&rig.epochs, key, &[1; 1000]).is_err() {
                break;
            }
            rig.settle();
            key += 1;
        }
        let durable = rig.log.durable_epoch();
        drop(worker);
        drop(rig);
        disk.crash(seed);
        let rig = Rig::simulated(&disk, 1);
        assert!(rig.report.durable_epoch >= durable, "seed {seed}");
        assert!(rig.rows.len() >= 10, "seed {seed}");
    }
}

#[test]
fn files_below_a_covered_epoch_are_removed_oldest_first_and_counted() {
    let (disk, rig) = Rig::first_life(2);
    let mut workers = [rig.worker(), rig.worker()];
    for key in 0..100 {
        for worker in &mut workers {
            worker.commit(&rig.epochs, key, &[1; 1000]).expect("runs");
        }
        rig.settle();
    }
    let before = rig.log.stats();
    assert!(before.rolls >= 10 && before.files == before.rolls + 2);
    assert_eq!(rig.log.remove_files_below(Epoch::FIRST).expect("nothing"), Removed::default());
    let covered = Epoch::new(60);
    let removed = rig.log.remove_files_below(covered).expect("removes");
    let after = rig.log.stats();
    assert!(removed.files > 4);
    assert_eq!((after.files_removed, after.bytes_removed), (removed.files, removed.bytes));
    assert_eq!(
        (after.files, after.file_bytes),
        (before.files - removed.files, before.file_bytes - removed.bytes)
    );
    for folder in ["log0", "log1"] {
        let kept = names(&disk, folder);
        for name in &kept {
            let to = name.split("-to-").nth(1).map(|to| to.parse::<u64>().expect("an epoch"));
            assert!(to.is_none_or(|to| to >= covered.number()), "{name}");
        }
        // Without a gap up to the open one.
        let mut numbers: Vec<u64> =
            kept.iter().map(|name| name.split('-').nth(2).expect("a number").parse().expect("one")).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    }
    // The log goes on.
    rig.commit_epoch(&mut workers[0], 1, b"later");
    assert_eq!(rig.log.durable_epoch(), rig.epochs.now().previous());
    // Without the checkpoint that covers them, what is gone is missing.
    disk.crash(4);
    assert!(matches!(open(&disk, config(2)).map(drop), Err(DurabilityError::Damaged { .. })));
}

#[test]
fn a_file_that_cannot_be_removed_stays_and_is_removed_later() {
    let (disk, rig) = Rig::first_life(1);
    fill(&rig, &mut rig.worker(), 0..60);
    let next = disk.calls().all + 1;
    // Behind the lock for leases and the first removal.
    disk.fail_calls(next + 2..=next + 2, ensile_sim::Fault::INPUT_OUTPUT);
    let covered = rig.epochs.now();
    let files = rig.log.stats().files;
    assert!(rig.log.remove_files_below(covered).is_err());
    assert_eq!(rig.log.stats().files_removed, 1, "the first went");
    assert_eq!(rig.log.remove_files_below(covered).expect("removes").files, files - 2);
    assert_eq!(names(&disk, "log0").len(), 1);
    assert_eq!(rig.log.health(), ensile_durability::Health::Running, "the log is not concerned");
}

#[test]
fn a_block_that_is_damaged_and_was_proven_synced_is_found_when_it_is_replayed() {
    let (disk, rig) = Rig::first_life(1);
    fill(&rig, &mut rig.worker(), 0..60);
    disk.crash(5);
    let closed =
        names(&disk, "log0").into_iter().find(|name| name.starts_with("log-1-1-to-")).expect("closed");
    let file = format!("log0/{closed}");
    disk.flip(&file, OPENING_BYTES + MARK_BYTES + 500, 1);
    let Err(DurabilityError::Damaged { file: found, offset, detail }) = open(&disk, config(1)).map(drop)
    else {
        panic!("damaged")
    };
    assert_eq!((found, offset), (file, OPENING_BYTES));
    assert!(detail.contains("checksum"), "{detail}");
}

#[test]
fn a_removal_that_was_done_and_reported_as_failed_does_not_stop_those_after_it() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    for key in 0..3 {
        rig.commit_epoch(&mut worker, key, &[1; 20_000]);
    }
    assert_eq!(rig.log.stats().rolls, 3);
    let next = disk.calls().all + 1;
    // Behind the lock for leases.
    disk.fail_calls(next + 1..=next + 1, ensile_sim::Fault::INPUT_OUTPUT.after_percent(100));
    let covered = rig.epochs.now();
    assert!(rig.log.remove_files_below(covered).is_err(), "told");
    assert_eq!(rig.log.remove_files_below(covered).expect("removes the rest").files, 3);
    assert_eq!(names(&disk, "log0").len(), 1);
}

#[test]
fn a_file_with_an_entry_of_the_first_epoch_that_is_not_covered_stays() {
    let (_, rig) = Rig::first_life(1);
    let tid = rig.worker().commit(&rig.epochs, 1, &[1; 20_000]).expect("runs");
    rig.settle();
    assert_eq!(rig.log.stats().rolls, 1);
    assert_eq!(rig.log.remove_files_below(tid.epoch()).expect("nothing to do"), Removed::default());
    assert_eq!(rig.log.remove_files_below(tid.epoch().next()).expect("removes").files, 1);
}

#[test]
fn a_link_from_one_log_to_its_sibling_is_an_error_that_says_which_to_remove() {
    for (link, to) in [("log1", "log0"), ("log0", "./log1")] {
        let folder = Folder::new(&format!("sibling-{link}"));
        let root = folder.path();
        std::fs::create_dir_all(root.join(to)).expect("makes a folder");
        std::os::unix::fs::symlink(to, root.join(link)).expect("links");
        let disk = Arc::new(RealDisk::open(root).expect("opens"));
        let error = Rig::open(disk, config(2), Clock::machine()).err().expect("two logs in one folder");
        let said = error.to_string();
        assert!(matches!(error, DurabilityError::Config(_)), "{said}");
        assert!(
            said.contains("log0 and log1") && said.ends_with(&format!("remove the link {link}")),
            "{said}"
        );
    }
}
