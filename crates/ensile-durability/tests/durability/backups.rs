//! Backups of a running database, and restores, on the simulated disk: what the target is after each, and after a crash
//! at any call of one.

mod crashes;
mod files;
mod histories;
mod holds;
mod increments;
mod logged;
mod looking;
mod refused;
mod synced;
mod to_epoch;
mod two_tids;
mod unfinished;

use crate::checkpoints::ended::{check_listed, examined_at_rest};
use crate::prelude::*;

/// A database with pictures in `data`, whose rows take some bytes each.
fn filled(disk: &SimDisk, settings: CheckpointConfig) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 1, settings);
    for key in 0..KEYS {
        put(&life, &mut worker, key, 4000);
    }
    (life, worker)
}

/// The same on a new disk.
fn filled_disk(settings: CheckpointConfig) -> (SimDisk, Life, Worker) {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, settings);
    (disk, life, worker)
}

fn put(life: &Life, worker: &mut Worker, key: u64, bytes: usize) {
    life.commit_epoch(worker, key, Some(&vec![bytes as u8; bytes]));
}

/// A process's handle of a folder.
fn of(disk: &SimDisk, folder: &str) -> Arc<dyn Disk> {
    Arc::new(disk.at(folder).mounted())
}

fn run(mut copy: CopyRun) -> Result<CopyReport, DurabilityError> {
    loop {
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0)? {
            assert_eq!(copy.progress().phase, CopyPhase::Ended);
            return Ok(*report);
        }
    }
}

fn back_up(disk: &SimDisk, target: &str, keep: usize) -> Result<CopyReport, DurabilityError> {
    let options = CopyOptions { keep: Some(keep), ..CopyOptions::default() };
    let report = run(backup(&of(disk, "data"), &of(disk, target), options)?)?;
    check_listed(&examined_at_rest(&disk.at(target)));
    Ok(report)
}

fn back_up_checkpoint(disk: &SimDisk, life: &Life) {
    life.checkpoint().expect("is installed");
    back_up(disk, "backup", 1).expect("is made");
}

/// Backs up the newest picture without the log behind it, as the database itself does.
fn back_up_picture(disk: &SimDisk, target: &str, keep: usize) -> Result<CopyReport, DurabilityError> {
    let options = CopyOptions { keep: Some(keep), ..CopyOptions::default() };
    let report = run(CopySource::picture(&of(disk, "data"), options)?.begin(&of(disk, target))?)?;
    check_listed(&examined_at_rest(&disk.at(target)));
    Ok(report)
}

fn restored(disk: &SimDisk, from: &str, to: &str, at: Option<Epoch>) -> Result<CopyReport, DurabilityError> {
    run(restore(&of(disk, from), &of(disk, to), at, None)?)
}

/// Another machine with the same bytes, on which no process runs, with space for anything.
fn at_rest(disk: &SimDisk) -> SimDisk {
    let copy = copy_at_rest(disk);
    copy.set_device("backup", None);
    copy
}

/// What the installed picture of a folder holds.
fn loaded(disk: &SimDisk, folder: &str) -> Changes {
    let store = Store::default();
    let recovery = Recovery::open(of(&at_rest(disk), folder), config(1)).expect("reads");
    while recovery.load_step(&store).expect("loads") {}
    present(&store.rows.lock().expect("no panic"))
}

fn examined(disk: &SimDisk, folder: &str) -> Examination {
    examine(&handle(at_rest(disk).at(folder)), &Framing).expect("is read")
}

fn manifest(disk: &SimDisk, folder: &str) -> String {
    String::from_utf8(disk.at(folder).bytes("MANIFEST")).expect("text")
}

fn page_file_bytes(disk: &SimDisk, folder: &str) -> u64 {
    let at = disk.at(folder);
    let files: Vec<_> = at.files().into_iter().filter(|name| name.contains("/pages-")).collect();
    assert_eq!(files.len(), 1, "a backup has one page file: {files:?}");
    at.bytes(&files[0]).len() as u64
}

#[test]
fn a_backup_is_a_whole_database_with_an_identity_of_its_own() {
    let (disk, life, _worker) = filled_disk(pictures());
    let picture = life.checkpoint().expect("is installed");
    let report = back_up_picture(&disk, "backup", 1).expect("is made");
    assert_eq!(Some(report.epoch), picture.picture_epoch());
    assert_eq!((report.entries, report.pages_written), (KEYS, report.pages));
    assert_eq!((report.overruns, &report.kept[..]), (0, &[report.epoch][..]));
    assert_ne!(report.database, report.parent);
    assert!(manifest(&disk, "data").contains(&format!("database {}", report.parent)));
    let text = manifest(&disk, "backup");
    assert!(text.contains(&format!("database {} parent {}", report.database, report.parent)), "{text}");
    assert!(text.contains(&format!("\nbackup of {}\n", report.parent)), "{text}");
    let found = examined(&disk, "backup");
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(found.durable_epoch, Some(report.epoch));
    assert_eq!(loaded(&disk, "backup"), life.store.present());
    // It opens, with a log and without one, beside its source.
    drop((life, disk.fork()));
    for loggers in [0, 2] {
        let copy = disk.fork();
        let opened = Life::open(&copy.at("backup"), loggers, pictures()).expect("opens");
        assert_eq!(opened.found, loaded(&disk, "backup"));
        assert!(opened.rig.report.first_epoch > report.epoch);
        let text = manifest(&copy, "backup");
        assert!(text.contains(&format!("\nrestored epoch {}\n", report.epoch)), "{text}");
    }
}

#[test]
fn an_increment_writes_what_has_changed_and_the_target_does_not_grow() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let first = back_up(&disk, "backup", 1).expect("is made");
    let mut largest = 0;
    for round in 0..20 {
        put(&life, &mut worker, round % KEYS, 3900);
        life.checkpoint().expect("is installed");
        let next = back_up(&disk, "backup", 1).expect("is made");
        assert!(next.pages_written <= 2 && next.pages > 10, "{next:?}");
        assert!(next.bytes_written < first.bytes_written / 5, "{next:?} behind {first:?}");
        assert!(next.epoch > first.epoch);
        assert_eq!(loaded(&disk, "backup"), life.store.present());
        largest = largest.max(page_file_bytes(&disk, "backup"));
    }
    assert!(largest < first.bytes + first.bytes / 3, "{largest} behind {}", first.bytes);
    // The same picture once more: nothing is written.
    let again = back_up(&disk, "backup", 1).expect("is there");
    assert_eq!((again.pages_written, again.bytes_written), (0, 0));
    assert!(examined(&disk, "backup").is_whole());
    // A life of its own has page files of its own, and its backup goes on.
    drop((worker, life));
    disk.crash(2);
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 1, pictures());
    put(&life, &mut worker, 5, 100);
    back_up_checkpoint(&disk, &life);
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn an_increment_leaves_pages_that_the_database_has_only_moved() {
    let (disk, life, mut worker) = filled_disk(CheckpointConfig { checkpointers: 1, ..pictures() });
    life.checkpoint().expect("is installed");
    // Most pages become small, so much of the page file is free, and pages of its last units are moved.
    (0..KEYS - 16).for_each(|key| put(&life, &mut worker, key, 100));
    back_up_checkpoint(&disk, &life);
    let (mut length, mut moved) = (page_file_bytes(&disk, "data"), 0);
    for round in 0..12 {
        put(&life, &mut worker, KEYS - 9, 3900 + round);
        let picture = life.checkpoint().expect("is installed");
        let increment = back_up(&disk, "backup", 1).expect("is made");
        assert_eq!(increment.pages_written, picture.pages_written, "{increment:?} of {picture:?}");
        assert!(increment.pages_written < increment.pages / 2, "{increment:?}");
        assert_eq!(loaded(&disk, "backup"), life.store.present());
        assert_eq!(loaded(&disk, "data"), life.store.present());
        // The file ends where the last page was that could be moved.
        let before = std::mem::replace(&mut length, page_file_bytes(&disk, "data"));
        moved += u64::from(length < before);
    }
    assert!(moved > 8, "{moved} pages were moved");
    assert!(examined(&disk, "data").is_whole() && examined(&disk, "backup").is_whole());
    // A life of its own goes on from pages that were moved.
    drop((worker, life));
    disk.crash(3);
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 1, pictures());
    put(&life, &mut worker, 5, 100);
    life.checkpoint().expect("is installed");
    let increment = back_up(&disk, "backup", 1).expect("is made");
    assert!(increment.pages_written <= 4, "{increment:?}");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn older_pictures_are_kept_as_asked_and_each_can_be_restored() {
    let (disk, life, mut worker) = filled_disk(pictures());
    let mut states = Vec::new();
    for round in 0..6 {
        (0..4).for_each(|key| put(&life, &mut worker, 4 * round + key, 3000));
        life.checkpoint().expect("is installed");
        let report = back_up(&disk, "backup", 3).expect("is made");
        states.push((report.epoch, life.store.present()));
        let newest: Vec<_> = states.iter().rev().take(3).map(|(epoch, _)| *epoch).collect();
        assert_eq!(report.kept, newest);
    }
    assert!(examined(&disk, "backup").is_whole());
    for (at, (epoch, state)) in states.iter().enumerate() {
        let copy = disk.fork();
        let outcome = restored(&copy, "backup", "restored", Some(*epoch));
        if at < 3 {
            let error = outcome.expect_err("it is not kept");
            assert!(matches!(error, DurabilityError::NotABackup { .. }), "{error}");
            assert!(error.to_string().contains(&states[5].0.to_string()), "{error}");
            continue;
        }
        let report = outcome.expect("is restored");
        assert_eq!(report.epoch, *epoch);
        assert_eq!(&loaded(&copy, "restored"), state);
        let text = manifest(&copy, "restored");
        assert!(text.contains(&format!("\nrestored epoch {epoch}\n")), "{text}");
        assert!(text.contains(&format!("parent {} state created", report.parent)), "{text}");
        assert!(manifest(&copy, "backup").contains(&format!("database {}", report.parent)));
        let life = Life::open(&copy.at("restored"), 1, pictures()).expect("opens");
        assert_eq!(&life.found, state);
        life.checkpoint().expect("and goes on");
    }
    // One that keeps fewer gives the units of the others back.
    let before = page_file_bytes(&disk, "backup");
    let report = back_up(&disk, "backup", 1).expect("is there");
    assert_eq!(report.kept.len(), 1);
    assert!(page_file_bytes(&disk, "backup") <= before);
    assert_eq!(loaded(&disk, "backup"), states[5].1);
    put(&life, &mut worker, 1, 50);
    life.checkpoint().expect("is installed");
    back_up(&disk, "backup", 2).expect("is made in what is free");
    assert!(page_file_bytes(&disk, "backup") <= before);
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn a_rate_is_kept_and_a_run_that_is_dropped_changes_nothing() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let first = back_up(&disk, "backup", 1).expect("is made");
    let before = (manifest(&disk, "backup"), loaded(&disk, "backup"));
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 3000));
    life.checkpoint().expect("is installed");
    let options = CopyOptions { bytes_per_second: Some(100_000), keep: Some(1) };
    let (clock, mut steps) = (Clock::manual(), 0);
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
    let report = loop {
        match copy.step_at(&Framing, clock.nanos()).expect("goes on") {
            CopyStep::Worked => steps += 1,
            CopyStep::Paced(wait) => {
                assert_eq!(copy.step_at(&Framing, clock.nanos()).expect("paced"), CopyStep::Paced(wait));
                clock.advance(wait);
            }
            CopyStep::Ended(report) => break *report,
        }
        if steps == 20 {
            // In the midst of it.
            let dropped = backup(&of(&disk, "data"), &of(&disk, "elsewhere"), options).expect("begins");
            drop(dropped);
            let error = restored(&disk, "elsewhere", "restored", None).expect_err("it is none yet");
            assert!(matches!(error, DurabilityError::Unfinished { .. }), "{error}");
            steps += 1;
        }
    };
    // What is written, and what is read to verify it.
    let seconds = (report.bytes_written + report.bytes) as f64 / 100_000.0;
    let taken = Duration::from_nanos(clock.nanos()).as_secs_f64();
    assert!((seconds * 0.9..seconds * 1.1).contains(&taken), "{taken} s of {seconds} s");
    assert!(report.pages_written > 5, "{report:?} behind {first:?}");
    // Cancelled: each step of another one.
    drop(copy);
    let after = loaded(&disk, "backup");
    assert_ne!(before, (manifest(&disk, "backup"), after));
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 2000));
    life.checkpoint().expect("is installed");
    let before = (manifest(&disk, "backup"), loaded(&disk, "backup"), page_file_bytes(&disk, "backup"));
    for steps in 0..30 {
        let copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default());
        let mut copy = copy.expect("begins");
        for _ in 0..steps {
            assert_eq!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
        }
        drop(copy);
        assert_eq!(
            (manifest(&disk, "backup"), loaded(&disk, "backup")),
            (before.0.clone(), before.1.clone())
        );
    }
    back_up(&disk, "backup", 1).expect("is made");
    assert!(page_file_bytes(&disk, "backup") <= 2 * before.2);
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn a_backup_keeps_as_many_states_as_it_has_unless_it_is_said_how_many_and_names_those_that_go() {
    for settings in [pictures(), crate::checkpoints::store::settings()] {
        let (disk, life, mut worker) = filled_disk(settings);
        let mut epochs: Vec<Epoch> = Vec::new();
        let mut next = |round: usize, keep: Option<usize>| {
            put(&life, &mut worker, 3, 1000 + round);
            life.checkpoint().expect("is installed");
            let options = CopyOptions { keep, ..CopyOptions::default() };
            let copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
            let report = run(copy).expect("is made");
            epochs.insert(0, report.epoch);
            (report, epochs.clone())
        };
        // The first one without a number keeps one.
        let (report, epochs) = next(0, None);
        assert_eq!((report.kept, report.dropped), (epochs, vec![]));
        let (report, epochs) = next(1, None);
        assert_eq!((report.kept, report.dropped), (epochs[..1].to_vec(), epochs[1..].to_vec()));
        for round in 2..4 {
            let (report, epochs) = next(round, Some(3));
            assert_eq!((report.kept, report.dropped), (epochs[..round].to_vec(), vec![]));
        }
        // Then as many as there are.
        for round in 4..6 {
            let (report, epochs) = next(round, None);
            assert_eq!((report.kept, report.dropped), (epochs[..3].to_vec(), epochs[3..4].to_vec()));
            assert!(examined(&disk, "backup").is_whole());
        }
        // And all but the newest only where that is said.
        let (report, epochs) = next(6, Some(1));
        assert_eq!((report.kept, report.dropped), (epochs[..1].to_vec(), epochs[1..4].to_vec()));
    }
}
