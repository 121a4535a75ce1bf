//! Restores of a backup to an epoch, by an archive: the state at that epoch, and nothing else (A2, L4). Here of
//! pictures; [`files`] has copies of files.

mod files;
mod histories;

use std::ops::ControlFlow;

use super::*;
use crate::archives::restoring::{History, lives_with};
use crate::archives::rig::{PLACE, close, disk_with_archive, let_archive, open};
use crate::checkpoints::pictures::{checkpoint, commit};

const BACKUP: &str = "/backup";

/// Lives over crashes with an archive from one of them on, each of whose pictures is backed up, and all are kept.
fn backed_up(loggers: usize, archived_from: u64) -> (SimDisk, History, Vec<Epoch>) {
    backed_up_with((loggers, &pictures()), archived_from)
}

/// The same with other checkpoints.
fn backed_up_with(
    settings: (usize, &CheckpointConfig),
    archived_from: u64,
) -> (SimDisk, History, Vec<Epoch>) {
    let disk = disk_with_archive();
    let mut epochs = Vec::new();
    let mut back_up = |disk: &SimDisk, number| {
        // Without a checkpoint there is no later picture.
        if number == 1 && settings.1.strategy == Strategy::Pictures {
            return;
        }
        let options = CopyOptions { keep: Some(9), ..CopyOptions::default() };
        let begun = CopySource::picture(&handle(disk.mounted()), options)
            .and_then(|found| found.begin(&of(disk, BACKUP)));
        let report = begun.and_then(run).expect("is made");
        epochs.push(report.epoch);
    };
    let history = lives_with(&disk, settings, archived_from, Some(&mut back_up));
    assert!(epochs.len() >= 3);
    (disk, history, epochs)
}

fn restored(disk: &SimDisk, to: Epoch) -> Result<CopyReport, DurabilityError> {
    run(restore_to_epoch(&of(disk, BACKUP), Some(&handle(disk.at(PLACE))), &of(disk, "/restored"), to, None)?)
}

fn assert_is(disk: &SimDisk, (to, history): (Epoch, &History), at: &str) {
    assert_is_with(disk, (to, history), (&pictures(), at));
}

fn assert_is_with(
    disk: &SimDisk,
    (to, history): (Epoch, &History),
    (settings, at): (&CheckpointConfig, &str),
) {
    let found = examined(disk, "/restored");
    assert!(found.is_whole(), "{at}: {:?}", found.damage);
    let life = Life::open(&at_rest(disk).at("/restored"), 2, settings.clone()).expect("opens");
    assert_eq!(life.found, history.at(to), "{at}");
    assert!(life.rig.first > to && life.rig.report.durable_epoch == to, "{at}: {:?}", life.rig.report);
    life.commit_epoch(&mut life.rig.worker(), 3, Some(b"on"));
    life.checkpoint().expect("and goes on");
}

fn assert_every_epoch(loggers: usize, archived_from: u64) {
    let (disk, history, epochs) = backed_up(loggers, archived_from);
    let (mut done, mut with_log, mut refused) = (0, 0, 0);
    for &(first, durable) in &history.lives {
        let last = durable.number() + 2;
        for epoch in (first.number()..=last).filter(|at| at % 3 == 0 || at + 4 > last).map(Epoch::new) {
            let copy = disk.fork();
            let at =
                format!("{loggers} loggers, archive from life {archived_from}, epoch {epoch} of {epochs:?}");
            match restored(&copy, epoch) {
                Ok(report) => {
                    assert_eq!(report.epoch, epoch);
                    let text = manifest(&copy, "/restored");
                    assert!(text.contains(&format!("\nrestored epoch {epoch}\n")), "{text}");
                    assert!(history.counted(epoch), "{at} was discarded");
                    let newest = epochs.iter().filter(|picture| **picture <= epoch).max();
                    assert_eq!(report.kept.first(), newest, "{at}");
                    assert_is(&copy, (epoch, &history), &at);
                    done += 1;
                    with_log += usize::from(report.log_entries > 0);
                }
                Err(DurabilityError::NotInArchive { detail, .. }) => {
                    assert!(detail.contains("can be had"), "{detail}");
                    let from = if archived_from == 0 { epochs[0] } else { epochs[1] };
                    assert!(epoch < from || !history.counted(epoch), "{at}: {detail}");
                    assert!(!copy.at("/restored").files().contains(&"MANIFEST".to_owned()), "{at}");
                    refused += 1;
                }
                Err(error) => panic!("{at}: {error}"),
            }
        }
    }
    assert!(done > 10 && with_log > 5 && refused > 3, "{done} done, {with_log} by logs, {refused} refused");
}

#[test]
fn a2_a_backup_is_restored_to_each_epoch_that_counted_by_an_archive() {
    assert_every_epoch(1, 0);
    assert_every_epoch(2, 0);
}

#[test]
fn a2_an_archive_that_began_later_than_its_database_brings_pictures_behind_that_forward() {
    assert_every_epoch(2, 1);
}

#[test]
fn power_fails_at_every_call_of_a_restore_to_an_epoch() {
    let (disk, history, _) = backed_up(1, 0);
    let to = history.lives.last().expect("one").1;
    disk.keep_moments();
    let report = restored(&disk, to).expect("can be had");
    assert!(report.log_entries > 0, "{report:?}");
    let (mut whole, mut none) = (0, 0);
    for moment in disk.take_moments() {
        for survival in ensile_sim::Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = crashed(&moment, survival);
            match restored(&copy, to) {
                Ok(_) => none += 1,
                Err(DurabilityError::DatabaseExists { .. }) => whole += 1,
                Err(error) => panic!("{at}: {error}"),
            }
            assert_is(&copy, (to, &history), &at);
        }
    }
    assert!(whole > 0 && none > 20, "{whole} whole, {none} not");
}

/// A backup of a picture that has rows beside its pages, and an archive of what was committed behind it.
fn with_rows_beside_pages() -> (SimDisk, Epoch, Changes) {
    let (disk, mut random, mut history) = (disk_with_archive(), Random::from_seed(5), Vec::new());
    let life = open(&disk, 1, pictures()).expect("opens");
    let mut worker = life.rig.worker();
    life.commit_all(&mut worker, 0..KEYS, &[1; 900]);
    life.checkpoint().expect("is installed");
    for key in (0..KEYS).step_by(3) {
        life.commit(&mut worker, key, Some(&[2; 200]));
    }
    life.rig.settle();
    let report = checkpoint(&life, &mut worker, &mut random, &mut history, &disk).expect("is installed");
    assert!(report.displaced > 3 && report.displaced_tail_bytes > 0 && report.pages_kept > 0, "{report:?}");
    let picture = CopySource::picture(&handle(disk.mounted()), CopyOptions::default()).expect("is there");
    let copied = picture.begin(&of(&disk, BACKUP)).and_then(run).expect("is made");
    assert_eq!(Some(copied.epoch), report.picture_epoch());
    for _ in 0..60 {
        commit(&life, &mut worker, &mut random, &mut history);
        life.rig.settle();
    }
    let present = life.store.present();
    drop(worker);
    let_archive(&life);
    let durable = close(&life);
    (disk, durable, present)
}

/// N10, N12: rows that stood beside pages in the backup, and what the archive has put behind them, are in the first
/// picture of the restored database, or that has not begun to count.
#[test]
fn power_fails_at_every_call_of_the_first_picture_behind_a_restore_to_an_epoch() {
    let (disk, to, present) = with_rows_beside_pages();
    let report = restored(&disk, to).expect("can be had");
    assert!(report.log_entries > 10, "{report:?}");
    let (mut kept, mut written, mut calls) = (0, 0, 0);
    for call in 1.. {
        let machine = at_rest(&disk);
        let folder = machine.at("/restored");
        let life = Life::open(&folder, 1, pictures()).expect("opens");
        assert!(life.found == present, "call {call}: what was restored");
        let mut worker = life.rig.worker();
        life.commit(&mut worker, 1, None);
        life.commit_epoch(&mut worker, 50, Some(b"of the new database"));
        let expected = life.store.present();
        machine.cut_power_at(machine.calls().all + call);
        let _ = life.checkpoint_until(|| machine.is_without_power());
        let was_cut = machine.is_without_power();
        drop((worker, life));
        machine.heal();
        machine.crash(call);
        let life = Life::open(&folder, 1, pictures()).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert!(life.found == expected, "call {call}: behind the crash");
        let report = life.checkpoint().expect("is installed");
        assert!(loaded(&machine, "/restored") == expected, "call {call}: by the picture alone");
        (kept, written, calls) = (kept + report.pages_kept, written + report.pages_written, call);
        drop(life);
        if !was_cut {
            break;
        }
    }
    assert!(calls > 30 && kept > 0 && written > calls, "{calls} calls, {kept} pages kept, {written} written");
}

#[test]
fn i1_the_archive_of_another_database_is_refused() {
    let (disk, history, _) = backed_up(1, 0);
    let (other, _, _) = backed_up(1, 0);
    let to = history.lives[2].1;
    let begun = restore_to_epoch(
        &of(&disk, BACKUP),
        Some(&handle(other.at(PLACE))),
        &of(&disk, "/restored"),
        to,
        None,
    );
    let error = begun.expect_err("it is another's");
    assert!(error.to_string().contains("and the backup of"), "{error}");
    assert!(disk.at("/restored").files().is_empty());
}

/// What an archive has behind a backup is one step, and keeps the rate within it.
#[test]
fn what_an_archive_has_keeps_the_rate_of_a_restore_to_an_epoch() {
    const RATE: u64 = 10_000;
    for settings in [pictures(), settings()] {
        let (disk, history, epochs) = backed_up_with((2, &settings), 0);
        let to = history.lives[3].1;
        let (from, target) = (of(&disk, BACKUP), of(&disk, "/restored"));
        let mut run = restore_to_epoch(&from, Some(&handle(disk.at(PLACE))), &target, to, Some(RATE))
            .expect("can be had");
        let (clock, mut longest) = (Clock::manual(), 0);
        let report = loop {
            let before = clock.nanos();
            let mut wait_all = |_: &CopyProgress, wait| {
                clock.advance(wait);
                ControlFlow::Continue(())
            };
            match run.step(&Framing, &clock, &mut wait_all).expect("goes on") {
                CopyStep::Worked => longest = longest.max(clock.nanos() - before),
                CopyStep::Paced(wait) => clock.advance(wait),
                CopyStep::Ended(report) => {
                    longest = longest.max(clock.nanos() - before);
                    break *report;
                }
            }
        };
        assert!(report.log_entries > 2, "{report:?}, {epochs:?}");
        // Each entry has 700 bytes, is written, and read once more.
        let by_pieces = longest / 1_000 * RATE / 1_000_000;
        assert!(by_pieces > report.log_entries * 500, "{by_pieces} bytes of {report:?}");
        let all = clock.nanos() / 1_000 * RATE / 1_000_000;
        assert!(all >= report.bytes_written, "{all} bytes of {report:?}");
        assert_is_with(&disk, (to, &history), (&settings, "with a rate"));
    }
}

/// What an archive has is one step, which may take hours: it is shown and asked within.
#[test]
fn a_restore_to_an_epoch_is_shown_and_cancelled_between_the_pieces_of_an_archive() {
    for settings in [pictures(), settings()] {
        let (disk, history, _) = backed_up_with((2, &settings), 0);
        let to = history.lives[3].1;
        let archive: Arc<dyn Disk> = Arc::new(disk.at(PLACE));
        // Behind the last piece nothing is asked any more: then it is made.
        for breaks_at in 1.. {
            let (from, target) = (of(&disk, BACKUP), of(&disk, "/restored"));
            let mut run =
                restore_to_epoch(&from, Some(&archive), &target, to, Some(10_000)).expect("can be had");
            let (clock, mut shown) = (Clock::manual(), Vec::new());
            let outcome = loop {
                let mut pause = |progress: &CopyProgress, wait| {
                    shown.push(*progress);
                    clock.advance(wait);
                    if shown.len() == breaks_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                match run.step(&Framing, &clock, &mut pause) {
                    Ok(CopyStep::Worked) => {}
                    Ok(CopyStep::Paced(wait)) => clock.advance(wait),
                    Ok(CopyStep::Ended(report)) => break Ok(*report),
                    Err(error) => break Err(error),
                }
            };
            assert!(shown.iter().all(|shown| shown.phase == CopyPhase::Archive), "{shown:?}");
            assert!(shown.iter().all(|shown| shown.bytes <= shown.bytes_total), "{shown:?}");
            assert!(shown.is_sorted_by_key(|shown| (shown.bytes, shown.bytes_written)), "{shown:?}");
            match outcome {
                Err(DurabilityError::Cancelled) => {
                    assert_eq!(shown.len(), breaks_at);
                    let ended = run.step(&Framing, &clock, &mut |_, _| ControlFlow::Continue(()));
                    assert!(ended.is_err(), "it is over");
                    drop(run);
                    let opened = Life::open(&disk.at("/restored"), 1, settings.clone()).map(drop);
                    assert!(matches!(opened, Err(DurabilityError::Unfinished { .. })), "{opened:?}");
                }
                Err(error) => panic!("at {breaks_at}: {error}"),
                Ok(report) => {
                    // Written, and read once more, each waited for.
                    assert!(breaks_at > 4, "at {breaks_at}");
                    let last = shown.last().expect("it has pieces");
                    assert_eq!(last.bytes_written, report.bytes_written, "{last:?} of {report:?}");
                    assert!(report.bytes_written <= report.bytes, "it is all in it: {report:?}");
                    break;
                }
            }
        }
        assert_is_with(&disk, (to, &history), (&settings, "cancelled before"));
    }
}

#[test]
fn a5_the_epochs_that_are_said_to_be_had_are_those_that_a_restore_has() {
    for settings in [pictures(), settings()] {
        let (disk, history, epochs) = backed_up_with((2, &settings), 1);
        let archive: Arc<dyn Disk> = Arc::new(disk.at(PLACE));
        for archive in [None, Some(&archive)] {
            let spans = restorable_epochs(&of(&disk, BACKUP), archive).expect("it is a backup");
            let (mut had, mut refused) = (0, 0);
            let some = |(first, durable): &(Epoch, Epoch)| {
                let (first, durable) = (first.number(), durable.number());
                (first - 1..durable + 3).map(Epoch::new)
            };
            for epoch in history.lives.iter().flat_map(some).chain(epochs.iter().copied()) {
                let is_said = spans.iter().any(|(first, last)| *first <= epoch && epoch <= *last);
                let copy = disk.fork();
                let (from, target) = (of(&copy, BACKUP), of(&copy, "/restored"));
                let is_had = restore_to_epoch(&from, archive, &target, epoch, None).is_ok();
                assert_eq!(is_had, is_said, "epoch {epoch} of {spans:?}, {:?}", history.lives);
                assert!(!is_had || history.counted(epoch), "epoch {epoch} was discarded");
                (had, refused) = (had + u64::from(is_had), refused + u64::from(!is_had));
            }
            assert!(had > 0 && refused > 0, "{had} had, {refused} refused");
        }
    }
}
