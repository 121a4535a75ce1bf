//! Backups by files, again and again into one folder: what is copied, what stays, how many states there are, and which
//! of them are whole after a crash at any call.

mod changed_strategy;
mod crashes;
mod damaged;

use super::*;
use crate::archives::rig::{disk_with_archive, open as open_with_archive};

/// A database with a checkpoint, and a log behind it.
fn filled(disk: &SimDisk, settings: CheckpointConfig) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, settings);
    put_all(&life, &mut worker, 1);
    life.checkpoint().expect("is installed");
    put(&life, &mut worker, 3, 1);
    (life, worker)
}

/// The same on a new disk.
fn filled_disk(settings: CheckpointConfig) -> (SimDisk, Life, Worker) {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, settings);
    (disk, life, worker)
}

/// All keys get a value of half a kilobyte, eight an epoch.
fn put_all(life: &Life, worker: &mut Worker, value: u8) {
    for key in 0..KEYS {
        life.commit(worker, key, Some(&[value; 500]));
        if key % 8 == 7 {
            life.rig.settle();
        }
    }
}

fn put(life: &Life, worker: &mut Worker, key: u64, value: u8) {
    life.commit_epoch(worker, key % KEYS, Some(&[value; 300]));
}

/// A checkpoint, and what it covers is removed.
fn take_checkpoint(life: &Life) {
    life.checkpoint().expect("is installed");
    for _ in 0..20 {
        life.step(0);
        life.rig.settle();
    }
}

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    Life::open(&at_rest(disk).at(folder), 2, settings()).expect("opens").found
}

/// The state at the end of `epoch`, restored.
fn restored_at(disk: &SimDisk, epoch: Epoch) -> Changes {
    let copy = at_rest(disk);
    let report = restored(&copy, "backup", "restored", Some(epoch)).expect("is restored");
    assert_eq!(report.epoch, epoch);
    assert!(examined(&copy, "restored").is_whole());
    opened(&copy, "restored")
}

/// Bytes of the files of a folder whose names have this in them.
fn bytes_of(disk: &SimDisk, folder: &str, what: &str) -> BTreeMap<String, Vec<u8>> {
    let at = disk.at(folder);
    let names = at.files().into_iter().filter(|name| name.contains(what));
    names.map(|name| (name.clone(), at.bytes(&name))).collect()
}

fn sum(files: &BTreeMap<String, Vec<u8>>) -> u64 {
    files.values().map(|bytes| bytes.len() as u64).sum()
}

/// The newest state is that of the database, and all of the folder is whole.
fn assert_is_newest(disk: &SimDisk, life: &Life, report: &CopyReport) {
    let found = examined(disk, "backup");
    assert!(found.is_whole(), "{found:#?}");
    assert_eq!(found.durable_epoch, Some(report.epoch));
    assert_eq!(opened(disk, "backup"), life.store.present());
    assert_eq!(restored_at(disk, report.epoch), life.store.present());
}

#[test]
fn an_increment_copies_what_the_log_has_more_and_a_new_checkpoint() {
    let (disk, life, mut worker) = filled_disk(settings());
    let first = back_up(&disk, "backup", 1).expect("is made");
    assert_is_newest(&disk, &life, &first);
    let parts = bytes_of(&disk, "backup", "/ckpt-");
    assert!(first.bytes >= sum(&parts) && first.bytes_written >= first.bytes, "{first:?}");
    let mut last = first.clone();
    for round in 0..12_u8 {
        let before = bytes_of(&disk, "backup", "/log-");
        put(&life, &mut worker, u64::from(round), round);
        let next = back_up(&disk, "backup", 1).expect("is made");
        assert_is_newest(&disk, &life, &next);
        assert_eq!(bytes_of(&disk, "backup", "/ckpt-"), parts, "the checkpoint stays as it is");
        // What was in a log file is its beginning now.
        let after = bytes_of(&disk, "backup", "/log-");
        for (name, bytes) in &before {
            assert!(after[name].starts_with(bytes), "{name} is read on");
        }
        // No more than the new bytes, and the rest of the files that were open, with what is set aside there.
        let grown = sum(&after) - sum(&before);
        let most = grown + 3 * 2 * 4096;
        assert!(next.bytes_written >= grown && next.bytes_written <= most, "{grown} in {next:?}");
        assert!(next.bytes_written < sum(&parts) / 2, "{next:?}");
        assert!(next.epoch > last.epoch && next.bytes > last.bytes);
        last = next;
    }
    // Nothing is new: the rest of the open files is read once more.
    let again = back_up(&disk, "backup", 1).expect("is there");
    assert!(again.bytes_written <= 2 * 4096 && again.epoch == last.epoch, "{again:?}");
    // Behind a whole new checkpoint all of it is copied, and the one before goes.
    put_all(&life, &mut worker, 99);
    take_checkpoint(&life);
    put(&life, &mut worker, 3, 100);
    let next = back_up(&disk, "backup", 1).expect("is made");
    assert_is_newest(&disk, &life, &next);
    let new = bytes_of(&disk, "backup", "/ckpt-");
    assert!(new.keys().all(|name| !parts.contains_key(name)), "{:?}", new.keys());
    assert_eq!(new, bytes_of(&disk, "data", "/ckpt-"));
    assert!(next.bytes_written >= sum(&new), "{next:?}");
    let logs = |folder| bytes_of(&disk, folder, "/log-").len();
    assert!(logs("backup") <= logs("data"), "what the checkpoint covers goes: {}", logs("backup"));
}

#[test]
fn lives_and_reopens_go_on_in_one_backup() {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, settings());
    back_up(&disk, "backup", 2).expect("is made");
    drop((worker, life));
    for round in 0..6_u8 {
        disk.crash(u64::from(round));
        let (life, mut worker) = Life::with_worker(&disk.at("data"), 1 + usize::from(round % 3), settings());
        (0..9).for_each(|key| put(&life, &mut worker, 7 * u64::from(round) + key, round));
        if round % 3 == 1 {
            take_checkpoint(&life);
        }
        let before = bytes_of(&disk, "backup", "/ckpt-");
        let report = back_up(&disk, "backup", 2).expect("is made");
        assert_eq!(report.kept.len(), 2);
        assert_is_newest(&disk, &life, &report);
        if round % 3 != 1 {
            let after = bytes_of(&disk, "backup", "/ckpt-");
            assert!(after.iter().all(|(name, bytes)| before.get(name) == Some(bytes)), "round {round}");
        }
        if round == 4 {
            life.rig.log.close().expect("closes");
        }
    }
}

#[test]
fn of_a_cycling_checkpoint_only_ranges_that_were_renewed_are_copied() {
    let (disk, life, mut worker) = filled_disk(cycling());
    take_checkpoint(&life);
    let full = back_up(&disk, "backup", 1).expect("is made");
    assert_is_newest(&disk, &life, &full);
    for round in 0..6_u8 {
        let before = bytes_of(&disk, "backup", "/ckpt-");
        put_all(&life, &mut worker, round);
        let turn = life.turn();
        let range = turn.turn.expect("a turn");
        assert!(range.taken < range.ranges, "{turn:?}");
        let log_before = sum(&bytes_of(&disk, "backup", "/log-"));
        let next = back_up(&disk, "backup", 1).expect("is made");
        assert_is_newest(&disk, &life, &next);
        let after = bytes_of(&disk, "backup", "/ckpt-");
        assert_eq!(after, bytes_of(&disk, "data", "/ckpt-"), "the files of the ranges, and no others");
        let new: BTreeMap<_, _> = after.into_iter().filter(|(name, _)| !before.contains_key(name)).collect();
        assert!(!new.is_empty() && sum(&new) < sum(&before) / 2, "{:?}", new.keys());
        let logs = sum(&bytes_of(&disk, "data", "/log-"));
        assert!(next.bytes_written <= sum(&new) + logs + 4096, "{next:?}, {log_before} {logs}");
        assert!(next.bytes_written < full.bytes * 3, "{next:?} of {full:?}");
    }
}

#[test]
fn older_states_of_files_are_kept_as_asked_and_each_can_be_restored() {
    for strategy in [settings(), cycling()] {
        let (disk, life, mut worker) = filled_disk(strategy);
        let mut states = Vec::new();
        for round in 0..7_u8 {
            (0..9).for_each(|key| put(&life, &mut worker, 5 * u64::from(round) + key, round));
            if round % 2 == 1 {
                take_checkpoint(&life);
            }
            let report = back_up(&disk, "backup", 3).expect("is made");
            states.push((report.epoch, life.store.present()));
            let newest: Vec<_> = states.iter().rev().take(3).map(|(epoch, _)| *epoch).collect();
            assert_eq!(report.kept, newest);
            let found = examined(&disk, "backup");
            assert!(found.is_whole(), "round {round}: {found:#?}");
            let Some(BackupFacts::Backup { epoch, pictures, files, .. }) = found.backup else {
                panic!("one")
            };
            assert_eq!((epoch, pictures.len(), files), (Some(report.epoch), 0, newest));
            for (epoch, state) in states.iter().rev().take(3) {
                assert_eq!(&restored_at(&disk, *epoch), state, "round {round}, {epoch}");
            }
        }
        let error = restored(&disk, "backup", "restored", Some(states[3].0)).expect_err("it is not kept");
        assert!(matches!(error, DurabilityError::NotABackup { .. }), "{error}");
        assert!(error.to_string().contains(&states[6].0.to_string()), "{error}");
        // What only older ones had goes with them.
        let before = disk.at("backup").used_bytes();
        let report = back_up(&disk, "backup", 1).expect("is there");
        assert_eq!(report.kept.len(), 1);
        assert!(disk.at("backup").used_bytes() < before);
        assert_is_newest(&disk, &life, &report);
        // A turn may be under way in the database.
        let (own, all) = (bytes_of(&disk, "backup", "/ckpt-"), bytes_of(&disk, "data", "/ckpt-"));
        assert!(
            own.iter().all(|(name, bytes)| all.get(name) == Some(bytes)),
            "{:?} of {:?}",
            own.keys(),
            all.keys()
        );
        // An open has the newest, and no other.
        let copy = at_rest(&disk);
        drop(back_up(&copy, "backup", 1).expect("is made"));
        let mut first = Life::open(&copy.at("backup"), 2, settings()).expect("opens");
        assert_eq!(first.found, life.store.present());
        put(&first, &mut first.rig.worker(), 1, 77);
        let state = first.store.present();
        first.rig.log.close().expect("closes");
        drop(first);
        first = Life::open(&copy.at("backup"), 2, settings()).expect("opens");
        assert_eq!(first.found, state);
        let error = back_up(&copy, "backup", 1).expect_err("it is open");
        assert!(matches!(error, DurabilityError::InUse { .. }), "{error}");
        take_checkpoint(&first);
        assert!(copy.at("backup").files().iter().all(|name| !name.contains("/log-1-")), "nothing stays");
    }
}

#[test]
fn a_database_that_is_written_to_is_backed_up_again_and_again() {
    let (disk, life, mut worker) = filled_disk(settings());
    let mut last: Option<(CopyReport, u64)> = None;
    let mut at = 0;
    for round in 0..6 {
        let durable = life.rig.log.durable_epoch();
        let options = CopyOptions { keep: Some(2), ..CopyOptions::default() };
        let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
        let report = loop {
            if let CopyStep::Ended(report) = copy.step_at(&Framing, 0).expect("goes on") {
                break *report;
            }
            at += 1;
            put(&life, &mut worker, at, at as u8);
            if at % 9 == 0 && round % 2 == 0 {
                life.checkpoint().expect("is installed");
            }
        };
        drop(copy);
        assert!(report.epoch >= durable, "{report:?}");
        let found = examined(&disk, "backup");
        assert!(found.is_whole(), "round {round}: {found:#?}");
        let newest = opened(&disk, "backup");
        assert!(newest.values().all(|(tid, _)| tid.epoch() <= report.epoch));
        assert_eq!(newest.len(), KEYS as usize);
        assert_eq!(restored_at(&disk, report.epoch), newest);
        if let Some((before, _)) = &last {
            assert_eq!(report.kept, [report.epoch, before.epoch]);
            assert!(restored_at(&disk, before.epoch).values().all(|(tid, _)| tid.epoch() <= before.epoch));
        }
        last = Some((report, at));
    }
}

#[test]
fn a_database_that_is_older_than_its_backup_by_files_is_refused() {
    let (disk, life, mut worker) = filled_disk(settings());
    back_up(&disk, "backup", 1).expect("is made");
    let older = disk.fork();
    (0..20).for_each(|key| put(&life, &mut worker, key, 4));
    take_checkpoint(&life);
    (0..20).for_each(|key| put(&life, &mut worker, key, 5));
    let report = back_up(&disk, "backup", 1).expect("is made");
    let before = (manifest(&disk, "backup"), disk.at("backup").files());
    let refused = |source: &SimDisk, why: &str| {
        let copy = backup(&of(source, "data"), &of(&disk, "backup"), CopyOptions::default());
        let error = copy.and_then(run).expect_err(why);
        assert!(matches!(error, DurabilityError::NotItsBackup { .. }), "{why}: {error}");
        assert!(error.to_string().contains("an older copy"), "{why}: {error}");
        assert_eq!((manifest(&disk, "backup"), disk.at("backup").files()), before, "{why}");
    };
    refused(&older, "it is as it was");
    older.kill();
    let gone_on = Life::open(&older.at("data"), 2, settings()).expect("opens");
    refused(&older, "it has a generation more");
    let mut other = gone_on.rig.worker();
    (0..40).for_each(|key| put(&gone_on, &mut other, key, 6));
    take_checkpoint(&gone_on);
    refused(&older, "it has taken another checkpoint of that number");
    assert_is_newest(&disk, &life, &report);
}

#[test]
fn a_backup_by_files_of_an_archived_database_has_no_archive() {
    let disk = disk_with_archive();
    let life = open_with_archive(&disk.at("data"), 2, settings()).expect("opens");
    let mut worker = life.rig.worker();
    for round in 0..3 {
        put_all(&life, &mut worker, round);
        take_checkpoint(&life);
        put(&life, &mut worker, 1, round);
        assert!(manifest(&disk, "data").contains("\nfolder archive "));
        let report = back_up(&disk, "backup", 2).expect("is made");
        assert!(!manifest(&disk, "backup").contains("archive"), "{}", manifest(&disk, "backup"));
        assert_is_newest(&disk, &life, &report);
    }
    // One that was opened may begin one of its own.
    let copy = at_rest(&disk);
    let settled = crate::archives::rig::archiving(2, Archiving::To("/another".into()));
    copy.set_device("/another", None);
    let opened = Life::open_with(&copy.at("backup"), settled, settings()).expect("opens");
    assert_eq!(opened.found, life.store.present());
}

#[test]
fn i1_a_backup_by_files_that_was_copied_goes_on_once_it_is_adopted() {
    let (disk, life, mut worker) = filled_disk(settings());
    let first = back_up(&disk, "backup", 1).expect("is made");
    disk.copy_tree("backup", "copy");
    put(&life, &mut worker, 9, 9);
    assert!(matches!(back_up(&disk, "copy", 1), Err(DurabilityError::Copied { .. })));
    adopt(&of(&disk, "copy")).expect("is adopted");
    let report = back_up(&disk, "copy", 2).expect("is made");
    assert!(report.bytes_written < first.bytes_written / 2, "{report:?}");
    assert_eq!(report.kept, [report.epoch, first.epoch]);
    assert_eq!(opened(&disk, "copy"), life.store.present());
    assert!(examined(&disk, "copy").is_whole());
}
