//! Backups of a picture and the log behind it: each has all that was durable when the copy began (N21).

use super::*;

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    Life::open(&at_rest(disk).at(folder), 2, pictures()).expect("opens").found
}

/// A life with this many loggers, whose picture has the first half of its commits.
fn half_pictured(disk: &SimDisk, loggers: usize) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(&disk.at("data"), loggers, pictures());
    for key in 0..2 * KEYS {
        if key == KEYS {
            life.checkpoint().expect("is installed");
        }
        put(&life, &mut worker, key % KEYS, 100 + key as usize);
    }
    (life, worker)
}

/// The backup in `backup` and a database that is restored from it have this state, which is durable.
fn assert_has(disk: &SimDisk, (durable, state): (Epoch, &Changes), at: &str) {
    let copy = disk.fork();
    let report = back_up(&copy, "backup", 1).expect("is made");
    assert!(report.epoch >= durable && report.pages > 0, "{at}: {report:?}");
    let found = examined(&copy, "backup");
    assert!(found.is_whole() && found.durable_epoch == Some(report.epoch), "{at}: {found:#?}");
    assert_eq!(&opened(&copy, "backup"), state, "{at}");
    restored(&copy, "backup", "restored", None).expect("is made");
    assert_eq!(&opened(&copy, "restored"), state, "{at}");
}

#[test]
fn n21_a_backup_has_the_log_behind_the_picture_however_the_database_ended() {
    for loggers in [1, 2] {
        let disk = SimDisk::new();
        let (life, worker) = half_pictured(&disk, loggers);
        let (durable, state) = (life.rig.log.durable_epoch(), life.store.present());
        assert_has(&disk, (durable, &state), "it is open");
        assert_has(&at_rest(&disk), (durable, &state), "it was killed");
        life.rig.log.close().expect("closes");
        drop((worker, life));
        assert_has(&disk, (durable, &state), "it was closed");
        // The picture is of the life before.
        let (life, mut worker) = Life::with_worker(&disk.at("data"), loggers, pictures());
        (0..9).for_each(|key| put(&life, &mut worker, key, 7));
        let (durable, state) = (life.rig.log.durable_epoch(), life.store.present());
        assert_has(&at_rest(&disk), (durable, &state), "its next life was killed");
        life.rig.log.close().expect("closes");
        drop((worker, life));
        assert_has(&disk, (durable, &state), "its next life was closed");
        // The next one has no log, and no picture yet.
        let life = Life::open(&disk.at("data"), 0, pictures()).expect("opens");
        assert_has(&disk, (durable, &state), "it is open without a log");
        drop(life);
    }
}

#[test]
fn n21_states_with_one_picture_or_several_are_kept_and_restored() {
    let disk = SimDisk::new();
    let (life, mut worker) = half_pictured(&disk, 2);
    let mut states = Vec::new();
    for round in 0..6_u64 {
        (0..9).for_each(|key| put(&life, &mut worker, 5 * round + key, round as usize));
        if round % 3 == 2 {
            life.checkpoint().expect("is installed");
            (0..20).for_each(|_| _ = life.step(0));
        }
        let is_alone = round == 2;
        let report = if is_alone { back_up_picture } else { back_up }(&disk, "backup", 4).expect("is made");
        states.push((report.epoch, life.store.present(), is_alone));
        let newest = || states.iter().rev().take(4);
        assert_eq!(report.kept, newest().map(|(epoch, ..)| *epoch).collect::<Vec<_>>());
        let found = examined(&disk, "backup");
        assert!(found.is_whole(), "round {round}: {found:#?}");
        let Some(BackupFacts::Backup { epoch, pictures, logged_pictures, files, .. }) = found.backup else {
            panic!("it is one")
        };
        let of = |wanted: bool| {
            newest()
                .filter(|(.., is_alone)| *is_alone == wanted)
                .map(|(epoch, ..)| *epoch)
                .collect::<Vec<_>>()
        };
        assert_eq!((epoch, files), (Some(report.epoch), Vec::new()));
        assert_eq!((pictures, logged_pictures), (of(true), of(false)), "round {round}");
        for (epoch, state, _) in newest() {
            let copy = at_rest(&disk);
            let report = restored(&copy, "backup", "restored", Some(*epoch)).expect("is made");
            assert_eq!(report.epoch, *epoch);
            assert!(&opened(&copy, "restored") == state, "round {round}, epoch {epoch}");
        }
    }
    // An increment without anything new writes no page.
    let again = back_up(&disk, "backup", 4).expect("is made");
    assert_eq!((again.pages_written, again.epoch), (0, states[5].0));
}

#[test]
fn a5_a_state_behind_a_picture_is_had_at_each_epoch_of_its_own_log() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let mut history = Vec::new();
    for key in 0..9 {
        put(&life, &mut worker, key, 50);
        history.push((life.rig.log.durable_epoch(), life.store.present()));
    }
    let report = back_up(&disk, "backup", 1).expect("is made");
    let reach = restorable_epochs(&of(&disk, "backup"), None).expect("is a backup");
    let &[(first, last)] = &reach[..] else { panic!("{reach:?}") };
    assert_eq!(last, report.epoch);
    for (epoch, state) in &history {
        assert!(first <= *epoch && *epoch <= last, "{epoch} of {reach:?}");
        let copy = at_rest(&disk);
        let restore = restore_to_epoch(&of(&copy, "backup"), None, &of(&copy, "restored"), *epoch, None);
        assert_eq!(restore.and_then(run).expect("is made").epoch, *epoch);
        assert!(&opened(&copy, "restored") == state, "epoch {epoch}");
    }
    let copy = at_rest(&disk);
    let restore = restore_to_epoch(&of(&copy, "backup"), None, &of(&copy, "restored"), first, None);
    assert_eq!(restore.and_then(run).expect("the picture alone").epoch, first);
}

#[test]
fn every_failed_call_leaves_a_backup_with_a_log_that_was_there() {
    let disk = SimDisk::new();
    let (life, mut worker) = half_pictured(&disk, 1);
    back_up(&disk, "backup", 1).expect("is made");
    let old = life.store.present();
    (0..9).for_each(|key| put(&life, &mut worker, key, 10));
    let new = life.store.present();
    for call in 1.. {
        let copy = disk.fork();
        let number = copy.calls().all + call;
        copy.fail_calls(number..=number, ensile_sim::Fault::INPUT_OUTPUT);
        let options = CopyOptions { keep: Some(1), ..CopyOptions::default() };
        let begun = crate::copies::backup(&of(&copy, "data"), &of(&copy, "backup"), options);
        let outcome = begun.and_then(run);
        let is_over = copy.calls().all < number;
        copy.heal();
        let found = opened(&copy, "backup");
        assert!(found == new || (outcome.is_err() && found == old), "call {call}: {outcome:?}");
        back_up(&copy, "backup", 1).expect("once the cause is gone");
        assert!(opened(&copy, "backup") == new, "call {call}");
        if is_over {
            assert!(call > 20, "{call} calls");
            break;
        }
    }
}

#[test]
fn a5_a_picture_whose_life_has_left_the_list_is_had_by_itself() {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, pictures());
    let pictured = life.checkpoint().expect("is installed").picture_epoch().expect("a picture");
    let state = life.store.present();
    life.rig.log.close().expect("closes");
    drop((worker, life));
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 1, pictures());
    (0..9).for_each(|key| put(&life, &mut worker, key, 7));
    back_up(&disk, "backup", 1).expect("is made");
    let copy = at_rest(&disk);
    let restore = restore_to_epoch(&of(&copy, "backup"), None, &of(&copy, "restored"), pictured, None);
    assert_eq!(restore.and_then(run).expect("is made").epoch, pictured);
    assert_eq!(opened(&copy, "restored"), state);
}

#[test]
fn l7_a_program_that_would_restore_the_picture_alone_cannot_read_the_manifest() {
    let disk = SimDisk::new();
    let (life, worker) = half_pictured(&disk, 1);
    back_up(&disk, "backup", 1).expect("is made");
    assert!(manifest(&disk, "backup").starts_with("ensile manifest 6\n"));
    drop((worker, life));
    // A database of its own has no such state.
    Life::open(&disk.at("backup"), 1, pictures()).expect("opens");
    assert!(manifest(&disk, "backup").starts_with("ensile manifest 4\n"));
}
