//! Databases that are brought to an epoch by an archive: the state at that epoch, and nothing else (A2, L4).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ensile_durability::archive::{ArchiveRestore, RestoredFromArchive, restore_from_archive};

use super::rig::*;
use crate::prelude::*;

/// What was committed, and which epochs of each life counted.
#[derive(Clone, Default)]
pub(crate) struct History {
    changes: Vec<(u64, Tid, Option<Vec<u8>>)>,
    pub(crate) lives: Vec<(Epoch, Epoch)>,
}

impl History {
    fn commit(&mut self, life: &Life, worker: &mut crate::rig::Worker, number: u64) {
        let (key, value) = (number % 16, (!number.is_multiple_of(7)).then(|| vec![number as u8; 700]));
        let tid = life.commit(worker, key, value.as_deref());
        self.changes.push((key, tid, value));
    }

    /// Did this epoch count?
    pub(crate) fn counted(&self, epoch: Epoch) -> bool {
        self.lives.iter().any(|(first, durable)| *first <= epoch && epoch <= *durable)
    }

    /// The state at the end of an epoch.
    pub(crate) fn at(&self, epoch: Epoch) -> Changes {
        let mut changes = Changes::new();
        for (key, tid, value) in &self.changes {
            if tid.epoch() <= epoch && self.counted(tid.epoch()) {
                change(&mut changes, *key, *tid, value.as_deref());
            }
        }
        present(&changes)
    }
}

/// Lives with crashes that discard epochs, checkpoints that remove files, and a clean close at the end.
fn lives(disk: &SimDisk, loggers: usize, settings: &CheckpointConfig) -> History {
    lives_with(disk, (loggers, settings), 0, None)
}

/// Called with the disk and the number of a life.
type Within<'w> = &'w mut dyn FnMut(&SimDisk, u64);

/// The same, with an archive from one of the lives on; `within` is called in each life, behind its checkpoint if it has
/// one, and some commits behind that.
pub(crate) fn lives_with(
    disk: &SimDisk,
    (loggers, settings): (usize, &CheckpointConfig),
    archived_from: u64,
    mut within: Option<Within<'_>>,
) -> History {
    let mut history = History::default();
    for number in 0..4 {
        let life = match number < archived_from {
            true => Life::open_with(disk, archiving(loggers, Archiving::AsBefore), settings.clone()),
            false => open(disk, loggers, settings.clone()),
        };
        let life = life.expect("opens");
        if let Some(last) = history.lives.last_mut() {
            last.1 = life.rig.report.durable_epoch;
        }
        history.lives.push((life.rig.first, Epoch::MAX));
        // One for each log.
        let mut workers = [life.rig.worker(), life.rig.worker()];
        for commit in 0..14 {
            for (at, worker) in workers.iter_mut().enumerate() {
                history.commit(&life, worker, number * 40 + 2 * commit + at as u64);
            }
            life.rig.settle();
        }
        if number != 1 {
            life.checkpoint().expect("is installed");
            if settings.strategy == Strategy::Cycling {
                // Ranges of several turns, each with epochs of its own.
                for turn in 0..2 {
                    history.commit(&life, &mut workers[0], number * 40 + 33 + turn);
                    life.turn();
                }
            }
        }
        if let Some(within) = &mut within {
            for commit in 20..24 {
                history.commit(&life, &mut workers[1], number * 40 + commit);
                life.rig.settle();
            }
            within(disk, number);
        }
        let_archive(&life);
        for commit in 28..32 {
            history.commit(&life, &mut workers[0], number * 40 + commit);
            life.rig.advance();
            // The other log does not come to a mark of it.
            life.rig.log.logger_step(0);
        }
        if number == 3 {
            let durable = close(&life);
            history.lives.last_mut().expect("this one").1 = durable;
        } else {
            drop((workers, life));
            disk.kill();
        }
    }
    history
}

fn restored(disk: &SimDisk, place: &str, to: Epoch) -> Result<RestoredFromArchive, DurabilityError> {
    let archive: Arc<dyn Disk> = Arc::new(disk.at(PLACE));
    restore_from_archive(&archive, &handle(disk.at(place).mounted()), to, &Framing)
}

fn assert_every_epoch(loggers: usize, settings: &CheckpointConfig) {
    let disk = disk_with_archive();
    let history = lives(&disk, loggers, settings);
    let ignored = history.changes.iter().filter(|(_, tid, _)| !history.counted(tid.epoch())).count();
    assert!(loggers == 1 || ignored > 3, "crashes have discarded {ignored} commits");
    let mut states = 0;
    for (at, &(first, durable)) in history.lives.iter().enumerate() {
        let last_epochs = durable.number().saturating_sub(2).max(first.number())..=durable.number();
        let some: BTreeSet<u64> = (first.number()..=durable.number()).step_by(7).chain(last_epochs).collect();
        for epoch in some.into_iter().map(Epoch::new) {
            let place = format!("/restored-{}", epoch.number());
            let report = restored(&disk, &place, epoch)
                .unwrap_or_else(|error| panic!("life {at}, epoch {epoch}: {error}"));
            assert_eq!(report.epoch, epoch);
            let life = Life::open(&disk.at(&place), 1, settings.clone())
                .unwrap_or_else(|error| panic!("life {at}, epoch {epoch}: {error}"));
            assert_eq!(life.found, history.at(epoch), "life {at}, epoch {epoch}");
            assert!(
                life.rig.first > epoch && life.rig.report.durable_epoch == epoch,
                "{:?}",
                life.rig.report
            );
            states += 1;
            // It goes on as any database does.
            life.commit(&mut life.rig.worker(), 3, Some(b"on"));
            close(&life);
            drop(life);
            let life = Life::open(&disk.at(&place), 1, settings.clone()).expect("opens again");
            assert_eq!(life.found.get(&3).and_then(|row| row.1.as_deref()), Some(&b"on"[..]));
        }
        // What the crash has discarded, and what no epoch ever had.
        for epoch in [durable.next(), durable.next().next()] {
            if !history.counted(epoch) {
                let refused = restored(&disk, "/refused", epoch);
                let Err(DurabilityError::NotInArchive { detail, .. }) = &refused else {
                    panic!("{refused:?}")
                };
                assert!(detail.contains("can be had"), "{detail}");
            }
        }
    }
    assert!(states > 20, "{states}");
}

#[test]
fn a2_each_epoch_that_counted_is_restored_as_it_was_with_fuzzy_checkpoints() {
    assert_every_epoch(2, &settings());
}

#[test]
fn a2_each_epoch_that_counted_is_restored_as_it_was_with_pictures() {
    assert_every_epoch(2, &pictures());
    assert_every_epoch(1, &pictures());
}

#[test]
fn a2_nothing_is_restored_over_a_gap() {
    let disk = disk_with_archive();
    let history = lives(&disk, 1, &settings());
    let files: Vec<String> =
        disk.at(PLACE).files().into_iter().filter(|name| name.starts_with("log")).collect();
    assert!(files.len() > 6, "{files:?}");
    let last = history.lives.last().expect("one").1;
    assert!(restored(&disk, "/whole", last).is_ok());
    for file in &files {
        let disk = disk.fork();
        disk.at(PLACE).lose(file);
        for epoch in [last, history.lives[1].1] {
            match restored(&disk, &format!("/restored-{}", epoch.number()), epoch) {
                // It stands behind what was asked for.
                Ok(_) => {
                    let life = Life::open(&disk.at(&format!("/restored-{}", epoch.number())), 1, settings());
                    assert_eq!(life.expect("opens").found, history.at(epoch), "without {file}");
                }
                Err(DurabilityError::NotInArchive { detail, .. }) => {
                    assert!(detail.contains("can be had"), "{detail}");
                }
                Err(error) => panic!("without {file}: {error}"),
            }
        }
        assert!(restored(&disk, "/again", last).is_err(), "without {file}");
    }
}

#[test]
fn a_restore_that_is_cut_short_counts_for_nothing_and_is_run_again() {
    let whole = disk_with_archive();
    let history = lives(&whole, 1, &settings());
    let to = history.lives[2].1;
    let before = whole.calls().all;
    let calls = whole.fork();
    restored(&calls, "/restored", to).expect("can be had");
    let last = calls.calls().all;
    assert!(last > before + 20);
    for call in before + 1..=last {
        let disk = whole.fork();
        disk.cut_power_at(call);
        let cut = restored(&disk, "/restored", to);
        disk.crash(call);
        match restored(&disk, "/restored", to) {
            Ok(_) => {}
            // The manifest was there.
            Err(DurabilityError::DatabaseExists { .. }) => assert!(call + 2 > last || cut.is_err()),
            Err(error) => panic!("power failed at call {call}: {error}"),
        }
        let life = Life::open(&disk.at("/restored"), 1, settings()).expect("opens");
        assert_eq!(life.found, history.at(to), "power failed at call {call}");
    }
}

#[test]
fn a_restore_keeps_its_rate_as_it_writes_and_as_it_reads() {
    const RATE: u64 = 10_000;
    let disk = disk_with_archive();
    let history = lives(&disk, 2, &settings());
    let archive: Arc<dyn Disk> = Arc::new(disk.at(PLACE));
    let to = history.lives[3].1;
    let paced = |rate, clock: &Clock| {
        ArchiveRestore::from_archive(&archive, to).expect("reads").with_rate_limit(rate, clock.clone())
    };
    let refused = paced(Some(0), &Clock::manual()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Config(_))), "{refused:?}");
    for rate in [None, Some(RATE)] {
        let clock = Clock::manual();
        let mut wait_all = |_: &CopyProgress, wait| {
            clock.advance(wait);
            ControlFlow::Continue(())
        };
        let restore = paced(rate, &clock).expect("a rate");
        let restored = restore
            .make(&handle(disk.at(&format!("/{rate:?}")).mounted()), &Framing, &mut wait_all)
            .expect("is made");
        assert!(restored.bytes > 4 * RATE, "{restored:?}");
        // The file's opening block is not among the pieces.
        let spent = clock.nanos() / 1_000 * RATE / 1_000_000;
        let all = 2 * restored.bytes;
        match rate {
            Some(_) => assert!((all * 7 / 10..=all + all / 100).contains(&spent), "{spent} of {all}"),
            None => assert_eq!(spent, 0),
        }
    }
}

#[test]
fn a_restore_from_an_archive_is_shown_and_cancelled_between_its_pieces() {
    let disk = disk_with_archive();
    let history = lives(&disk, 2, &settings());
    let (archive, target): (Arc<dyn Disk>, Arc<dyn Disk>) =
        (Arc::new(disk.at(PLACE)), Arc::new(disk.at("/restored").mounted()));
    let to = history.lives[3].1;
    for breaks_at in 1.. {
        let (clock, mut shown) = (Clock::manual(), Vec::new());
        let mut pause = |progress: &CopyProgress, wait| {
            shown.push(*progress);
            clock.advance(wait);
            if shown.len() == breaks_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let restore = ArchiveRestore::from_archive(&archive, to)
            .expect("reads")
            .with_rate_limit(Some(10_000), clock.clone());
        let outcome = restore.expect("a rate").make(&target, &Framing, &mut pause);
        assert!(shown.iter().all(|shown| shown.phase == CopyPhase::Archive), "{shown:?}");
        assert!(shown.iter().all(|shown| shown.bytes <= shown.bytes_total), "{shown:?}");
        assert!(shown.is_sorted_by_key(|shown| (shown.bytes, shown.bytes_written)), "{shown:?}");
        match outcome {
            Err(DurabilityError::Cancelled) => {
                assert_eq!(shown.len(), breaks_at);
                let opened = Life::open(&disk.at("/restored"), 1, settings()).map(drop);
                assert!(matches!(opened, Err(DurabilityError::Unfinished { .. })), "{opened:?}");
            }
            Err(error) => panic!("at {breaks_at}: {error}"),
            Ok(restored) => {
                // Written, and read once more, each waited for.
                assert!(breaks_at > 4, "at {breaks_at}");
                let last = shown.last().expect("it has pieces");
                assert_eq!(last.bytes_written, restored.bytes, "{restored:?}");
                assert!(last.bytes * 10 > last.bytes_total * 8, "it comes near its end: {last:?}");
                break;
            }
        }
    }
    let life = Life::open(&disk.at("/restored"), 1, settings()).expect("opens");
    assert_eq!(life.found, history.at(to));
}

#[test]
fn damage_in_what_a_restore_has_written_is_the_targets_and_says_where() {
    let disk = disk_with_archive();
    let history = lives(&disk, 1, &settings());
    let to = history.lives.last().expect("one").1;
    // Restores, and shows each pause whether something was read once more by then.
    let restore = |disk: &SimDisk, seen: &mut dyn FnMut(bool)| {
        let on: Arc<dyn Disk> = Arc::new(disk.at(PLACE).mounted());
        let mut pause = |progress: &CopyProgress, _| {
            seen(progress.bytes > progress.bytes_written);
            ControlFlow::Continue(())
        };
        ArchiveRestore::from_archive(&on, to).expect("can be had").make(
            &handle(disk.at("/restored").mounted()),
            &Framing,
            &mut pause,
        )
    };
    let merged = |disk: &SimDisk| disk.files().into_iter().find(|name| name.ends_with("-merged"));
    let (whole, mut written) = (disk.fork(), 0);
    restore(&whole, &mut |is_read| written += u64::from(!is_read)).expect("is restored");
    let whole = whole.at("/restored");
    let file = merged(&whole).expect("it has a log");
    for offset in (0..whole.bytes(&file).len() as u64).step_by(61) {
        let (disk, mut pauses) = (disk.fork(), 0);
        let restored = restore(&disk, &mut |_| {
            pauses += 1;
            if pauses == written {
                disk.at("/restored").flip(&file, offset, 1);
            }
        });
        match restored {
            Err(DurabilityError::TargetFailed { folder, detail }) => {
                assert!(folder.ends_with("restored"), "byte {offset}: {folder:?}");
                assert!(detail.contains(&file) && detail.contains(" byte "), "byte {offset}: {detail}");
            }
            other => panic!("byte {offset}: {other:?}"),
        }
    }
    // A device that fails as it is read says so too: it is no damage of the archive.
    let on: Arc<dyn Disk> = Arc::new(disk.at(PLACE).mounted());
    let target = disk.at("/restored").mounted();
    let failing: Arc<dyn Disk> = Arc::new(target.clone());
    let mut pauses = 0;
    let mut pause = |_: &CopyProgress, _| {
        pauses += 1;
        if pauses == written {
            disk.at("/restored").lose(&file);
        }
        ControlFlow::Continue(())
    };
    let refused =
        ArchiveRestore::from_archive(&on, to).expect("can be had").make(&failing, &Framing, &mut pause);
    assert!(matches!(&refused, Err(DurabilityError::TargetFailed { .. })), "{refused:?}");
}

/// A state of another program's.
struct OtherProgram;

impl Recoverable for OtherProgram {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        Err(Refused { entry: 0, detail: "it is of a kind that this program does not know".to_owned() })
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("there is no checkpoint")
    }
}

#[test]
fn an_entry_of_an_archive_that_is_not_understood_is_said_to_be_the_archives_and_not_the_targets_fault() {
    let disk = disk_with_archive();
    let history = lives(&disk, 1, &settings());
    let to = history.lives.last().expect("one").1;
    let on: Arc<dyn Disk> = Arc::new(disk.at(PLACE).mounted());
    match restore_from_archive(&on, &handle(disk.at("/restored").mounted()), to, &OtherProgram) {
        Err(DurabilityError::Replay { file, detail, .. }) => {
            assert!(disk.at(PLACE).files().iter().any(|name| **name == *file), "{file} is the archive's");
            assert!(detail.contains("does not know"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_in_the_archive_stops_a_restore() {
    let disk = disk_with_archive();
    let history = lives(&disk, 1, &settings());
    let last = history.lives.last().expect("one").1;
    let file = "log0/log-2-1";
    for offset in (0..disk.at(PLACE).bytes(file).len() as u64).step_by(61) {
        let disk = disk.fork();
        disk.at(PLACE).flip(file, offset, 1);
        let refused = restored(&disk, "/restored", last);
        assert!(
            matches!(&refused, Err(DurabilityError::NotInArchive { .. } | DurabilityError::Damaged { .. })),
            "byte {offset}: {refused:?}"
        );
        // Nothing counts, and an open does not make a new database of it (N24).
        if disk.at("/restored").files().contains(&"MANIFEST".to_owned()) {
            let opened = Life::open(&disk.at("/restored"), 1, settings()).map(drop);
            assert!(matches!(opened, Err(DurabilityError::Unfinished { .. })), "byte {offset}: {opened:?}");
        }
    }
}
