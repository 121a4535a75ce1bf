//! Power fails, or the process is killed, at every call of a backup and of a restore.

use super::*;

/// Is there a database, and not one that is being made?
fn is_created(disk: &SimDisk, folder: &str) -> bool {
    let has_manifest = disk.at(folder).files().contains(&"MANIFEST".to_owned());
    has_manifest && manifest(disk, folder).contains("state created")
}

#[test]
fn n12_a_crash_at_any_call_of_a_backup_leaves_the_old_state_or_the_new_one() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let first_of = |keep: usize| {
        disk.keep_moments();
        let report = back_up(&disk, "backup", keep).expect("is made");
        (report, disk.take_moments())
    };
    let mut old = None;
    for round in 0..3 {
        let (report, moments) = first_of(1 + round % 2);
        let new = life.store.present();
        assert_eq!(loaded(&disk, "backup"), new);
        let (mut olds, mut news) = (0, 0);
        for moment in &moments {
            for survival in Survival::ALL {
                let at = format!("round {round}, call {}, {survival:?}", moment.number);
                let copy = crashed(moment, survival);
                if is_created(&copy, "backup") {
                    let found = loaded(&copy, "backup");
                    let is_new = found == new;
                    assert!(is_new || Some(&found) == old.as_ref(), "{at}");
                    assert!(examined(&copy, "backup").is_whole(), "{at}");
                    olds += usize::from(!is_new);
                    news += usize::from(is_new);
                } else {
                    assert!(old.is_none(), "{at}: the backup is lost");
                }
            }
        }
        assert!(news > 0 && (olds > 0) == old.is_some(), "round {round}: {olds} old, {news} new");
        // The next run makes it whole, from wherever the last one has come to.
        for moment in moments.iter().step_by(3) {
            let copy = moment.disk.fork();
            copy.crash_with(Survival::Random, moment.number);
            let again = back_up(&copy, "backup", 1).expect("is made");
            assert_eq!((again.epoch, loaded(&copy, "backup")), (report.epoch, new.clone()), "round {round}");
        }
        old = Some(new);
        (0..6).for_each(|key| put(&life, &mut worker, 7 * key + round as u64, 2000 + round));
        life.checkpoint().expect("is installed");
    }
}

/// The manifest that a killed run has renamed is in the cache alone. The next run believes it, and the power fails.
#[test]
fn n12_a_manifest_that_a_killed_run_has_left_unsynced_is_synced_before_units_are_used_again() {
    let (disk, life, mut worker) = filled_disk(pictures());
    back_up_checkpoint(&disk, &life);
    let mut states = vec![life.store.present()];
    (0..12).for_each(|key| put(&life, &mut worker, key, 2000));
    life.checkpoint().expect("is installed");
    states.push(life.store.present());
    let before = manifest(&disk, "backup");
    disk.keep_moments();
    back_up(&disk, "backup", 1).expect("is made");
    let moments = disk.take_moments();
    let renamed = moments.into_iter().find(|moment| manifest(&moment.disk, "backup") != before);
    let killed = renamed.expect("it was replaced").disk.fork();
    drop((worker, life));
    killed.kill();
    let life = Life::open(&killed.at("data"), 1, pictures()).expect("opens");
    (0..12).for_each(|key| put(&life, &mut life.rig.worker(), key, 2100));
    life.checkpoint().expect("is installed");
    states.push(life.store.present());
    killed.keep_moments();
    back_up(&killed, "backup", 1).expect("is made");
    for moment in killed.take_moments() {
        for survival in Survival::ALL {
            let copy = crashed(&moment, survival);
            let found = loaded(&copy, "backup");
            assert!(states.contains(&found), "call {}, {survival:?}", moment.number);
        }
    }
}

#[test]
fn a_crash_at_any_call_of_a_restore_leaves_nothing_or_all_of_it() {
    let (disk, life, _worker) = filled_disk(pictures());
    back_up_checkpoint(&disk, &life);
    let state = life.store.present();
    disk.keep_moments();
    restored(&disk, "backup", "restored", None).expect("is restored");
    let mut whole = 0;
    for moment in disk.take_moments() {
        for survival in Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = crashed(&moment, survival);
            if is_created(&copy, "restored") {
                whole += 1;
                let life = Life::open(&copy.at("restored"), 1, pictures()).expect("opens");
                assert_eq!(life.found, state, "{at}");
                let error = restored(&copy, "backup", "restored", None).expect_err("it is there");
                let is_refused =
                    matches!(error, DurabilityError::DatabaseExists { .. } | DurabilityError::InUse { .. });
                assert!(is_refused, "{at}: {error}");
            } else {
                restored(&copy, "backup", "restored", None).expect("goes on");
                assert_eq!(loaded(&copy, "restored"), state, "{at}");
            }
        }
    }
    assert!(whole > 0);
}
