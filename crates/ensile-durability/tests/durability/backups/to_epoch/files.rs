//! Copies of files that are restored to an epoch: back by their own log (A5), or forward by an archive (A2).

use std::collections::BTreeSet;

use ensile_durability::archive::EpochSpan;

use super::*;
use crate::archives::rig::{facts, write};
use crate::backups::{at_rest, examined, manifest, of, run};

/// A state of a backup: its epoch S, and the largest e_h of its checkpoint.
type CopiedState = (Epoch, Epoch);

/// The states of the backup, by what its manifest says, the newest first.
fn states(disk: &SimDisk) -> Vec<CopiedState> {
    let text = manifest(disk, BACKUP);
    let word = |line: &str, name: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != name);
        words.nth(1).and_then(|value| value.parse().ok()).map(Epoch::new)
    };
    let mut states = vec![Vec::new()];
    for line in text.lines() {
        if line.starts_with("kept ") {
            states.push(Vec::new());
        }
        states.last_mut().expect("one").push(line);
    }
    let state = |lines: &Vec<&str>| {
        let high = lines.iter().filter_map(|line| word(line, "high")).max().unwrap_or_default();
        let open = lines.iter().rfind(|line| line.starts_with("generation ")).expect("one");
        (word(open, "first").expect("it has one").previous(), high)
    };
    states.iter().map(state).collect()
}

/// Can the database be had as it was at the end of this epoch, by what history, manifest and archive say?
fn can_be_had(disk: &SimDisk, (history, states): (&History, &[CopiedState]), epoch: Epoch) -> bool {
    let ranges = facts(disk).ranges;
    let is_forward = |state: Epoch| {
        let both = |range: &EpochSpan| range.after <= state && epoch <= range.to;
        state < epoch && ranges.iter().any(both)
    };
    let is_back = |(state, high): CopiedState| high <= epoch && epoch <= state;
    let is_there = states.iter().any(|state| state.0 == epoch);
    is_there || history.counted(epoch) && states.iter().any(|state| is_back(*state) || is_forward(state.0))
}

/// Each epoch that may be decided otherwise than its neighbours, and some others.
fn epochs_of_interest(history: &History, states: &[CopiedState]) -> BTreeSet<Epoch> {
    let lives = history.lives.iter().flat_map(|(first, last)| [*first, *last]);
    let turns = lives.chain(states.iter().flat_map(|(state, high)| [*state, *high]));
    let mut epochs = BTreeSet::from([Epoch::FIRST]);
    for turn in turns {
        epochs.extend([turn.previous(), turn, turn.next()]);
    }
    for &(first, last) in &history.lives {
        epochs.extend((first.number()..=last.number()).step_by(5).map(Epoch::new));
    }
    epochs.remove(&Epoch::ZERO);
    epochs
}

/// Tries them all; how many were had back by the log, forward by the archive, and refused.
fn assert_every_epoch((loggers, settings): (usize, &CheckpointConfig), archived_from: u64) -> [usize; 3] {
    let (disk, history, epochs) = backed_up_with((loggers, settings), archived_from);
    let states = states(&disk);
    assert!(states.iter().map(|state| state.0).eq(epochs.iter().rev().copied()), "{states:?}, {epochs:?}");
    assert!(states.iter().all(|(state, high)| *high > Epoch::ZERO && high < state), "{states:?}");
    let [mut back, mut forward, mut refused] = [0; 3];
    for epoch in epochs_of_interest(&history, &states) {
        let copy = disk.fork();
        let at = format!("{loggers} loggers, archive from life {archived_from}, epoch {epoch} of {states:?}");
        let is_there = can_be_had(&disk, (&history, &states), epoch);
        match restored(&copy, epoch) {
            Ok(report) => {
                assert!(is_there, "{at}: {report:?}");
                assert_eq!((report.epoch, &report.kept[..]), (epoch, &[epoch][..]), "{at}");
                let text = manifest(&copy, "/restored");
                assert!(text.contains(&format!("\nrestored epoch {epoch}\n")), "{at}: {text}");
                assert_is_with(&copy, (epoch, &history), (settings, &at));
                let is_back = states.iter().any(|(state, high)| *high <= epoch && epoch < *state);
                back += usize::from(is_back);
                forward += usize::from(report.log_entries > 0);
            }
            Err(DurabilityError::NotInArchive { detail, .. }) => {
                assert!(!is_there, "{at}: {detail}");
                assert!(detail.contains("What can be had from this backup with this archive: "), "{detail}");
                assert!(!copy.at("/restored").files().contains(&"MANIFEST".to_owned()), "{at}");
                refused += 1;
            }
            Err(error) => panic!("{at}: {error}"),
        }
    }
    [back, forward, refused]
}

#[test]
fn a2_a5_a_copy_of_fuzzy_checkpoints_files_is_restored_to_each_epoch_that_counted() {
    for (loggers, archived_from) in [(1, 0), (2, 0), (2, 1)] {
        let [back, forward, refused] = assert_every_epoch((loggers, &settings()), archived_from);
        assert!(back > 5 && forward > 5 && refused > 3, "{back} back, {forward} forward, {refused} refused");
    }
}

#[test]
fn a2_a5_a_copy_of_ranges_is_restored_to_each_epoch_that_counted() {
    for (loggers, archived_from) in [(1, 0), (2, 1)] {
        let [back, forward, refused] = assert_every_epoch((loggers, &cycling()), archived_from);
        assert!(back > 3 && forward > 5 && refused > 3, "{back} back, {forward} forward, {refused} refused");
    }
}

fn back_alone(disk: &SimDisk, to: Epoch) -> Result<CopyReport, DurabilityError> {
    run(restore_to_epoch(&of(disk, BACKUP), None, &of(disk, "/restored"), to, None)?)
}

#[test]
fn a5_a_copy_of_files_goes_back_without_an_archive_and_no_further_than_its_checkpoint() {
    for settings in [settings(), cycling()] {
        let (disk, history, _) = backed_up_with((2, &settings), 0);
        let mut discarded = 0;
        for (state, high) in states(&disk) {
            let mut went_back = 0;
            let between = epochs_of_interest(&history, &states(&disk));
            for &epoch in between.range(high..=state) {
                let copy = disk.fork();
                match back_alone(&copy, epoch) {
                    Ok(report) => {
                        assert!(history.counted(epoch), "{epoch} was discarded");
                        assert_eq!((report.epoch, report.log_entries), (epoch, 0));
                        assert_is_with(&copy, (epoch, &history), (&settings, "back alone"));
                        went_back += 1;
                    }
                    Err(error) => {
                        assert!(!history.counted(epoch), "{epoch}: {error}");
                        assert!(error.to_string().contains("was discarded"), "{error}");
                        discarded += 1;
                    }
                }
            }
            assert!(went_back > 3, "{went_back} epochs from {high} to {state}");
            let error = back_alone(&disk.fork(), high.previous()).expect_err("a key may be missing");
            let said = error.to_string();
            assert!(matches!(error, DurabilityError::NotABackup { .. }), "{said}");
            assert!(said.contains(&format!("epochs {high} to ")), "the least epoch is said: {said}");
        }
        assert!(discarded > 0, "a copy has two lives");
    }
}

#[test]
fn a5_a_copy_without_a_checkpoint_goes_back_to_the_first_epoch() {
    let (disk, life, mut worker) = Life::first_with_worker(2, settings());
    let mut commits = Vec::new();
    for key in 0..8 {
        let tid = life.commit(&mut worker, key, Some(&[key as u8; 300]));
        commits.push((key, tid.epoch()));
        life.rig.settle();
    }
    run(backup(&handle(disk.mounted()), &of(&disk, BACKUP), CopyOptions::default()).expect("begins"))
        .expect("is made");
    for &(_, epoch) in &commits {
        let copy = disk.fork();
        back_alone(&copy, epoch).expect("is in the log");
        let life = Life::open(&at_rest(&copy).at("/restored"), 1, settings()).expect("opens");
        let expected = commits.iter().filter(|commit| commit.1 <= epoch).map(|commit| commit.0);
        assert!(life.found.keys().copied().eq(expected), "epoch {epoch}: {:?}", life.found.keys());
    }
}

/// What a restore back leaves out is in no file of the new database, but for what stands before the logs' cut.
#[test]
fn a5_logs_are_cut_where_they_are_closed() {
    let (disk, _, _) = backed_up_with((2, &settings()), 0);
    let (state, high) = states(&disk)[0];
    let bytes = |to: Epoch| {
        let copy = disk.fork();
        back_alone(&copy, to).expect("is in the log");
        let at = copy.at("/restored");
        let logs = at.files().into_iter().filter(|name| name.contains("/log-"));
        logs.map(|name| at.bytes(&name).len()).sum::<usize>()
    };
    assert!(bytes(high) < bytes(state), "{} and {}", bytes(high), bytes(state));
}

/// Power fails at every call of a restore: what it was is not there, or all of it.
fn assert_crashes(to: impl Fn(&History, &[CopiedState]) -> Epoch) {
    let (disk, history, _) = backed_up_with((1, &settings()), 0);
    let to = to(&history, &states(&disk));
    disk.keep_moments();
    restored(&disk, to).expect("can be had");
    let (mut whole, mut none) = (0, 0);
    for moment in disk.take_moments() {
        for survival in Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = crashed(&moment, survival);
            match restored(&copy, to) {
                Ok(_) => none += 1,
                Err(DurabilityError::DatabaseExists { .. }) => whole += 1,
                Err(error) => panic!("{at}: {error}"),
            }
            assert_is_with(&copy, (to, &history), (&settings(), &at));
        }
    }
    assert!(whole > 0 && none > 20, "{whole} whole, {none} not");
}

#[test]
fn power_fails_at_every_call_of_a_restore_of_files_forward() {
    assert_crashes(|history, _| history.lives.last().expect("one").1);
}

#[test]
fn power_fails_at_every_call_of_a_restore_of_files_back() {
    assert_crashes(|_, states| states[1].1.next());
}

/// The restored database is one as any other: it lives on, and its backups and archives do too.
#[test]
fn what_was_restored_goes_on_with_an_archive_and_backups_of_its_own() {
    let (disk, history, _) = backed_up_with((2, &settings()), 0);
    let (state, high) = states(&disk)[1];
    for to in [high.next(), state, history.lives[3].1] {
        let machine = disk.fork();
        restored(&machine, to).expect("can be had");
        machine.set_device("/second", None);
        let mut present = history.at(to);
        for number in 0..3 {
            let archiving = Archiving::To("/second".into());
            let log = LogConfig { segment_bytes: 4096, archiving, ..config(2) };
            let life = Life::open_with(&machine.at("/restored"), log, settings()).expect("opens");
            assert_eq!(life.found, present, "epoch {to}, life {number}");
            assert!(write(&life, &mut life.rig.worker(), 3 * number..3 * number + 8));
            let copy = backup(&of(&machine, "/restored"), &of(&machine, "/third"), CopyOptions::default());
            run(copy.expect("begins")).expect("is made");
            assert!(write(&life, &mut life.rig.worker(), 3 * number..3 * number + 5));
            life.checkpoint().expect("is installed");
            let_archive(&life);
            present = life.store.present();
            let durable = close(&life);
            drop(life);
            // Its own backup is brought to its end by its own archive.
            let copy = machine.fork();
            let target = of(&copy, "/fourth");
            let begun = restore_to_epoch(
                &of(&copy, "/third"),
                Some(&handle(copy.at("/second"))),
                &target,
                durable,
                None,
            );
            run(begun.expect("begins")).expect("can be had");
            assert!(examined(&copy, "/fourth").is_whole());
            let opened = Life::open(&at_rest(&copy).at("/fourth"), 2, settings()).expect("opens");
            assert_eq!(opened.found, present, "epoch {to}, life {number}");
        }
    }
}

/// A backup of files, and what an archive has behind it, over two lives.
fn with_two_lives() -> (SimDisk, Epoch, Changes) {
    let disk = disk_with_archive();
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 0..20));
    life.checkpoint().expect("is installed");
    assert!(write(&life, &mut life.rig.worker(), 20..26));
    run(backup(&handle(disk.mounted()), &of(&disk, BACKUP), CopyOptions::default()).expect("begins"))
        .expect("is made");
    assert!(write(&life, &mut life.rig.worker(), 26..40));
    close(&life);
    drop(life);
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 41..52));
    let present = life.store.present();
    let durable = close(&life);
    (disk, durable, present)
}

fn archived(disk: &SimDisk) -> Vec<String> {
    disk.at(PLACE).files().into_iter().filter(|name| name.starts_with("log")).collect()
}

#[test]
fn a2_a_file_that_is_missing_in_the_archive_is_named_unless_it_is_not_needed() {
    let (disk, to, present) = with_two_lives();
    let (mut not_needed, mut missing) = (0, 0);
    for file in archived(&disk) {
        let copy = disk.fork();
        copy.at(PLACE).lose(&file);
        match restored(&copy, to) {
            Ok(_) => {
                let life = Life::open(&at_rest(&copy).at("/restored"), 1, settings()).expect("opens");
                assert_eq!(life.found, present, "without {file}");
                not_needed += 1;
            }
            Err(DurabilityError::NotInArchive { detail, .. }) => {
                assert!(detail.contains("What can be had"), "{detail}");
                assert!(
                    ["missing", "ends at epoch", "has no file", " only"]
                        .iter()
                        .any(|said| detail.contains(said)),
                    "{detail}"
                );
                missing += 1;
            }
            Err(error) => panic!("without {file}: {error}"),
        }
    }
    assert!(not_needed > 3 && missing > 3, "{not_needed} not needed, {missing} missing");
}

#[test]
fn a2_damage_in_the_archive_is_never_restored() {
    let (disk, to, present) = with_two_lives();
    let file = archived(&disk).into_iter().rfind(|name| name.contains("log-1-")).expect("of the first life");
    for offset in (0..disk.at(PLACE).bytes(&file).len() as u64).step_by(97) {
        let copy = disk.fork();
        copy.at(PLACE).flip(&file, offset, 1);
        match restored(&copy, to) {
            Ok(_) => panic!("byte {offset} of {file}"),
            Err(DurabilityError::NotInArchive { .. } | DurabilityError::Damaged { .. }) => {}
            Err(error) => panic!("byte {offset} of {file}: {error}"),
        }
        // Once the file is whole again the restore is run again, into the same folder.
        copy.at(PLACE).flip(&file, offset, 1);
        restored(&copy, to).expect("can be had");
        let life = Life::open(&at_rest(&copy).at("/restored"), 1, settings()).expect("opens");
        assert_eq!(life.found, present, "byte {offset}");
    }
}

#[test]
fn a2_an_archive_that_was_begun_behind_the_backup_says_so() {
    let disk = disk_with_archive();
    let life = Life::open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 0..12));
    let source: Arc<dyn Disk> = Arc::new(disk.mounted());
    let copied =
        run(backup(&source, &of(&disk, BACKUP), CopyOptions::default()).expect("begins")).expect("is made");
    assert!(write(&life, &mut life.rig.worker(), 12..30));
    life.checkpoint().expect("is installed");
    (0..10).for_each(|_| _ = life.step(0));
    close(&life);
    drop(life);
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 30..42));
    let to = close(&life);
    let said = restored(&disk, to).expect_err("what lies in between is nowhere").to_string();
    let from = facts(&disk).from;
    assert!(from > copied.epoch && said.contains(&format!("begins behind epoch {from}")), "{said}");
    assert!(said.contains(&format!("is of epoch {}", copied.epoch)), "{said}");
    // What the backup has itself can be had.
    restored(&disk, copied.epoch).expect("it is the state of the backup");
}

#[test]
fn i1_the_archive_of_another_database_is_refused_for_files_too() {
    let (disk, to, _) = with_two_lives();
    let (other, ..) = with_two_lives();
    let archive: Arc<dyn Disk> = Arc::new(other.at(PLACE));
    for to in [to, states(&disk)[0].0, states(&disk)[0].1] {
        let begun = restore_to_epoch(&of(&disk, BACKUP), Some(&archive), &of(&disk, "/restored"), to, None);
        let error = begun.expect_err("it is another's");
        assert!(error.to_string().contains("and the backup of"), "{error}");
        assert!(disk.at("/restored").files().is_empty());
    }
}
