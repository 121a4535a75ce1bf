//! What a backup and a restore refuse, and what a damaged file or a full disk comes to: the target has what it had.

use super::histories::without_line;
use super::*;

/// A database with a picture, and a backup of it.
fn backed_up(disk: &SimDisk) -> (Life, crate::rig::Worker) {
    let (life, worker) = filled(disk, pictures());
    life.checkpoint().expect("is installed");
    back_up_picture(disk, "backup", 1).expect("is made");
    (life, worker)
}

/// Backs up the newest picture of another machine's database.
fn picture_from(source: &SimDisk, target: &SimDisk, keep: usize) -> Result<CopyReport, DurabilityError> {
    let options = CopyOptions { keep: Some(keep), ..CopyOptions::default() };
    run(CopySource::picture(&of(source, "data"), options)?.begin(&of(target, "backup"))?)
}

/// The error of a backup into this folder, in which nothing changes.
fn refused(disk: &SimDisk, target: &str) -> DurabilityError {
    let before = disk.at(target).files();
    let error = back_up(disk, target, 1).expect_err("it is refused");
    assert_eq!(disk.at(target).files(), before, "{error}");
    error
}

#[test]
fn i1_a_folder_of_something_else_gets_no_backup() {
    let disk = SimDisk::new();
    let (_life, _worker) = backed_up(&disk);
    // The database itself, which is open.
    assert!(matches!(refused(&disk, "data"), DurabilityError::InUse { .. }));
    let other = Life::open(&disk.at("other"), 1, pictures()).expect("opens");
    assert!(matches!(refused(&disk, "other"), DurabilityError::InUse { .. }));
    other.rig.log.close().expect("closes");
    drop(other);
    let error = refused(&disk, "other");
    assert!(matches!(&error, DurabilityError::NotItsBackup { .. }), "{error}");
    assert!(error.to_string().contains("a database of its own"), "{error}");
    disk.at("letters").put("letter.txt", b"Dear".to_vec());
    assert!(matches!(refused(&disk, "letters"), DurabilityError::NotADatabase { .. }));
    // The backup of another database.
    restored(&disk, "backup", "twin", None).expect("is restored");
    let twin = backup(&of(&disk, "twin"), &of(&disk, "backup"), CopyOptions::default());
    let error = twin.expect_err("it is not its backup");
    assert!(error.to_string().contains("a backup of another database"), "{error}");
}

#[test]
fn a_backup_that_was_opened_is_a_database_of_its_own() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    put(&life, &mut worker, 1, 10);
    life.checkpoint().expect("is installed");
    let opened = Life::open(&disk.at("backup"), 1, pictures()).expect("opens");
    assert!(matches!(refused(&disk, "backup"), DurabilityError::InUse { .. }));
    opened.rig.log.close().expect("closes");
    drop(opened);
    let error = refused(&disk, "backup");
    assert!(error.to_string().contains("has been opened since"), "{error}");
    let error = restored(&disk, "backup", "new", None).expect_err("it is none");
    assert!(matches!(error, DurabilityError::NotABackup { .. }), "{error}");
    assert!(disk.at("new").files().is_empty());
}

#[test]
fn a_backup_that_is_read_or_locked_waits() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    put(&life, &mut worker, 1, 10);
    life.checkpoint().expect("is installed");
    let leased = lease(&of(&disk, "backup")).expect("a lease");
    assert!(matches!(refused(&disk, "backup"), DurabilityError::InUse { .. }));
    drop(leased);
    let running = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    assert!(matches!(refused(&disk, "backup"), DurabilityError::InUse { .. }));
    assert!(matches!(restored(&disk, "backup", "new", None), Err(DurabilityError::InUse { .. })));
    drop(running);
    back_up(&disk, "backup", 1).expect("is made");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn i1_a_backup_that_was_copied_is_refused_until_it_is_adopted_and_goes_on_then() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    disk.copy_tree("backup", "copy");
    put(&life, &mut worker, 1, 10);
    life.checkpoint().expect("is installed");
    assert!(matches!(refused(&disk, "copy"), DurabilityError::Copied { .. }));
    adopt(&of(&disk, "copy")).expect("is adopted");
    let report = back_up(&disk, "copy", 2).expect("is made");
    assert!(report.pages_written <= 2, "{report:?}");
    assert_eq!(report.kept.len(), 2);
    assert_eq!(loaded(&disk, "copy"), life.store.present());
    assert!(examined(&disk, "copy").is_whole());
    restored(&disk, "copy", "new", None).expect("is restored");
    assert_eq!(loaded(&disk, "new"), life.store.present());
}

#[test]
fn a_database_that_is_older_than_its_backup_is_refused() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let older = disk.fork();
    put(&life, &mut worker, 1, 10);
    back_up_checkpoint(&disk, &life);
    let error = backup(&of(&older, "data"), &of(&disk, "backup"), CopyOptions::default());
    let error = error.expect_err("it is older");
    assert!(error.to_string().contains("an older copy"), "{error}");
}

/// A state that was put back and has gone on otherwise has the same numbers and epochs, and other rows.
#[test]
fn a_database_that_has_gone_on_from_an_older_state_is_told_apart() {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, pictures());
    life.checkpoint().expect("is installed");
    back_up_picture(&disk, "backup", 2).expect("is made");
    life.rig.log.close().expect("closes");
    drop((worker, life));
    // Each goes on with its changes of the row 1, of the same length, and pictures.
    let gone_on = |changes: &[&[(u64, u8)]]| {
        let copy = disk.fork();
        let (life, mut worker) = Life::with_worker(&copy.at("data"), 1, pictures());
        for rows in changes {
            for (key, value) in *rows {
                life.commit_epoch(&mut worker, *key, Some(&[*value; 900]));
            }
            life.checkpoint().expect("is installed");
        }
        (copy, life, worker)
    };
    let (this, life, _worker) = gone_on(&[&[(1, 1)]]);
    back_up_picture(&this, "backup", 2).expect("is made");
    assert_eq!(loaded(&this, "backup"), life.store.present());
    let text = manifest(&this, "backup");
    let into_this = |other: &SimDisk| {
        picture_from(other, &this, 2).map(|report| {
            assert!(report.kept.len() == 2);
        })
    };
    // The same epoch, number and counts.
    let (twin, other, _worker) = gone_on(&[&[(1, 2)]]);
    let epoch_of = |disk: &SimDisk| manifest(disk, "data").lines().nth(5).map(ToOwned::to_owned);
    assert_ne!(life.store.present(), other.store.present(), "{:?} {:?}", epoch_of(&this), epoch_of(&twin));
    let error = into_this(&twin).expect_err("it is another state");
    assert!(matches!(error, DurabilityError::NotItsBackup { .. }), "{error}");
    assert_eq!(manifest(&this, "backup"), text);
    // Newer by epoch and number, and the page of row 1 has the name of the one that is there.
    let (newer, other, _worker) = gone_on(&[&[(1, 3)], &[(KEYS - 1, 3)]]);
    let error = into_this(&newer).expect_err("it has another history");
    assert!(error.to_string().contains("was it put back"), "{error}");
    assert_eq!(manifest(&this, "backup"), text);
    // A backup of a version that knew no lineage cannot tell. What it gets is whole.
    without_line(&this, "backup", "lineage ");
    into_this(&newer).expect("is made");
    assert_eq!(loaded(&this, "backup"), other.store.present());
}

#[test]
fn a_restore_needs_an_empty_folder_and_an_epoch_that_is_there() {
    let disk = SimDisk::new();
    let (_life, _worker) = backed_up(&disk);
    disk.at("letters").put("letter.txt", b"Dear".to_vec());
    let error = restored(&disk, "backup", "letters", None).expect_err("it is not empty");
    assert!(matches!(error, DurabilityError::NotADatabase { .. }), "{error}");
    restored(&disk, "backup", "new", None).expect("is restored");
    let error = restored(&disk, "backup", "new", None).expect_err("it is not empty");
    assert!(matches!(error, DurabilityError::DatabaseExists { .. }), "{error}");
    let error = restored(&disk, "backup", "newer", Some(Epoch::new(1))).expect_err("there is none");
    assert!(matches!(error, DurabilityError::NotABackup { .. }), "{error}");
    let error = restored(&disk, "data", "newer", None).expect_err("it is open, and no backup");
    assert!(matches!(error, DurabilityError::InUse { .. }), "{error}");
    assert!(disk.at("newer").files().is_empty());
}

#[test]
fn a_damaged_source_is_named_and_its_backup_stays() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 3000));
    life.checkpoint().expect("is installed");
    let (text, state) = (manifest(&disk, "backup"), loaded(&disk, "backup"));
    let data = disk.at("data");
    let files = data.files().into_iter().filter(|name| name.contains("/pages-"));
    let mut found = 0;
    for file in files {
        for offset in (4096..data.bytes(&file).len() as u64).step_by(2048 + 40) {
            let copy = disk.fork();
            copy.at("data").flip(&file, offset, 4);
            match back_up(&copy, "backup", 1) {
                Ok(_) => assert_eq!(loaded(&copy, "backup"), life.store.present(), "{file} at {offset}"),
                Err(DurabilityError::Damaged { file: named, offset: at, .. }) => {
                    assert_eq!(named, file);
                    assert!(at <= offset && offset < at + 64 * 1024, "{file} at {offset}, found at {at}");
                    found += 1;
                    assert_eq!((&manifest(&copy, "backup"), &loaded(&copy, "backup")), (&text, &state));
                    assert!(examined(&copy, "backup").is_whole());
                }
                Err(error) => panic!("{file} at {offset}: {error}"),
            }
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn n12_a_damaged_backup_is_seen_before_the_next_one_counts() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    put(&life, &mut worker, 1, 10);
    life.checkpoint().expect("is installed");
    let (text, bytes) = (manifest(&disk, "backup"), page_file_bytes(&disk, "backup"));
    let (mut seen, mut healed) = (0, 0);
    for offset in (4096..bytes).step_by(2048 + 40) {
        let copy = disk.fork();
        copy.at("backup").flip("checkpoint0/pages-1", offset, 4);
        match back_up(&copy, "backup", 1) {
            Ok(_) => {
                healed += 1;
                assert_eq!(loaded(&copy, "backup"), life.store.present(), "at {offset}");
                assert!(examined(&copy, "backup").is_whole(), "at {offset}");
            }
            Err(error @ DurabilityError::TargetFailed { .. }) => {
                seen += 1;
                assert!(error.to_string().contains("checkpoint0/pages-1 is damaged at byte "), "{error}");
                assert_eq!(manifest(&copy, "backup"), text);
            }
            Err(error) => panic!("at {offset}: {error}"),
        }
    }
    assert!(seen > 10, "{seen} seen, {healed} not needed any more, or between blocks");
}

#[test]
fn damage_that_only_an_older_picture_reaches_is_named() {
    let (disk, life, mut worker) = filled_disk(pictures());
    let mut epochs = Vec::new();
    for round in 0..3 {
        (0..4).for_each(|key| put(&life, &mut worker, 4 * round + key, 3000));
        life.checkpoint().expect("is installed");
        epochs.push(back_up_picture(&disk, "backup", 3).expect("is made").epoch);
    }
    let found = examined(&disk, "backup");
    assert!(found.is_whole(), "{found:?}");
    let Some(BackupFacts::Backup { epoch, pictures, .. }) = found.backup else { panic!("it is a backup") };
    epochs.reverse();
    assert_eq!((epoch, &pictures), (Some(epochs[0]), &epochs));
    // Of each flip: which pictures a restore cannot have any more, and what an examination says.
    let (mut of_older, mut of_newest, file) = (0, 0, "checkpoint0/pages-1");
    for offset in (4096..page_file_bytes(&disk, "backup")).step_by(2048 + 40) {
        let copy = disk.fork();
        copy.at("backup").flip(file, offset, 4);
        let place = |at: &Option<Epoch>| match restored(&copy, "backup", &format!("restored-{at:?}"), *at) {
            Ok(_) => None,
            Err(DurabilityError::Damaged { file: named, offset, .. }) => Some((named, offset)),
            Err(error) => panic!("at {offset}: {error}"),
        };
        let broken: Vec<_> = epochs.iter().map(|epoch| place(&Some(*epoch))).collect();
        let found = examined(&copy, "backup");
        let named: Vec<_> = found.damage.iter().map(|damage| (damage.file.clone(), damage.offset)).collect();
        assert_eq!(found.is_whole(), broken.iter().all(Option::is_none), "at {offset}: {found:?}");
        for place in broken.iter().flatten() {
            assert_eq!(place.0, file);
            assert!(place.1 <= offset && offset < place.1 + 64 * 1024, "at {offset}: {place:?}");
            // Each place once, however many pictures have it.
            assert_eq!(named.iter().filter(|named| *named == place).count(), 1, "at {offset}: {found:?}");
        }
        if broken[0].is_some() {
            of_newest += 1;
        } else if !found.is_whole() {
            of_older += 1;
            assert!(
                found.damage.iter().all(|damage| damage.detail.contains("(in an older picture, of epoch"))
            );
            assert!(
                matches!(found.remedy, Some(Remedy::Copy(_))),
                "a cut of the log does not help: {found:?}"
            );
            // The newest one is whole, and an open has it.
            assert_eq!(loaded(&copy, "backup"), loaded(&disk, "backup"));
        }
    }
    assert!(of_older > 5 && of_newest > 5, "{of_older} of older ones only, {of_newest} of the newest");
}

#[test]
fn a_target_without_space_keeps_its_backup() {
    let disk = SimDisk::new();
    disk.set_device("backup", None);
    let (life, mut worker) = backed_up(&disk);
    let (text, state) = (manifest(&disk, "backup"), loaded(&disk, "backup"));
    (0..KEYS).for_each(|key| put(&life, &mut worker, key, 3000));
    life.checkpoint().expect("is installed");
    disk.set_device("backup", Some(disk.at("backup").used_bytes() + 40_000));
    for _ in 0..5 {
        let error = back_up(&disk, "backup", 1).expect_err("it does not fit");
        assert!(matches!(error, DurabilityError::TargetFailed { .. }), "{error}");
        assert!(error.to_string().contains("space"), "{error}");
        assert_eq!((&manifest(&disk, "backup"), &loaded(&disk, "backup")), (&text, &state));
    }
    disk.set_device("backup", None);
    back_up(&disk, "backup", 1).expect("there is space");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn every_failed_call_leaves_the_backup_that_was_there() {
    let disk = SimDisk::new();
    let (life, mut worker) = backed_up(&disk);
    let state = loaded(&disk, "backup");
    put(&life, &mut worker, 1, 10);
    life.checkpoint().expect("is installed");
    let mut failed = 0;
    for call in 1.. {
        let copy = disk.fork();
        let number = copy.calls().all + call;
        copy.fail_calls(number..=number, ensile_sim::Fault::INPUT_OUTPUT);
        let outcome = back_up_picture(&copy, "backup", 1);
        let is_over = copy.calls().all < number;
        copy.heal();
        let found = loaded(&copy, "backup");
        match outcome {
            Ok(_) => assert_eq!(found, life.store.present(), "call {call}"),
            Err(_) => assert!(found == state || found == life.store.present(), "call {call}"),
        }
        failed += 1;
        back_up_picture(&copy, "backup", 1).expect("once the cause is gone");
        assert_eq!(loaded(&copy, "backup"), life.store.present(), "call {call}");
        if is_over {
            break;
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let disk = SimDisk::new();
    let (_life, _worker) = backed_up(&disk);
    for options in [
        CopyOptions { bytes_per_second: Some(0), keep: Some(1) },
        CopyOptions { bytes_per_second: None, keep: Some(0) },
        CopyOptions { bytes_per_second: None, keep: Some(5000) },
    ] {
        let error = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect_err("it cannot work");
        assert!(matches!(error, DurabilityError::Config(_)), "{error}");
    }
}
