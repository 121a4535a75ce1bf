//! A source that was put back to an older copy of itself and has gone on: its history is another one than its backup's,
//! whatever its numbers and epochs are (N23).

use super::*;

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    Life::open(&at_rest(disk).at(folder), 2, settings()).expect("opens").found
}

/// A life of the database in `folder` that changes all keys, takes some checkpoints, and is closed.
fn live(disk: &SimDisk, folder: &str, (strategy, checkpoints): (CheckpointConfig, u8), value: u8) -> Changes {
    let (life, mut worker) = Life::with_worker(&disk.at(folder), 2, strategy);
    for round in 0..checkpoints.max(1) {
        life.commit_epochs(&mut worker, 0..16, &[value, round]);
        if round < checkpoints {
            life.checkpoint().expect("is installed");
            // What it covers is removed.
            (0..10).for_each(|_| _ = life.step(0));
        }
    }
    life.rig.log.close().expect("closes");
    life.store.present()
}

/// A manifest without the line of this name, as a version that does not know it wrote it.
pub(super) fn without_line(disk: &SimDisk, folder: &str, name: &str) {
    let text = manifest(disk, folder);
    let kept = text.lines().filter(|line| !line.starts_with(name) && !line.starts_with("crc32c "));
    let body: String = kept.map(|line| format!("{line}\n")).collect();
    assert!(body.lines().count() + 2 == text.lines().count(), "{name} is in {text}");
    let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
    disk.at(folder).put("MANIFEST", text.into_bytes());
}

fn generations(disk: &SimDisk, folder: &str) -> Vec<String> {
    let text = manifest(disk, folder);
    text.lines().filter(|line| line.starts_with("generation ")).map(str::to_owned).collect()
}

#[test]
fn n23_a_source_that_was_put_back_and_has_gone_on_is_refused() {
    for strategy in [settings(), cycling(), pictures()] {
        let disk = SimDisk::new();
        live(&disk, "data", (strategy.clone(), 1), 1);
        // As a snapshot of the whole file system that is put back: folders are what they were.
        let put_back = disk.fork();
        live(&disk, "data", (strategy.clone(), 1), 2);
        let first = back_up(&disk, "backup", 2).expect("is made");
        let own = generations(&disk, "data");
        // Its numbers and epochs become larger than those of the backup, and no generation is listed that both have.
        for (number, value) in (0..4).zip(10..) {
            live(&put_back, "data", (strategy.clone(), 3), value);
            let there = generations(&put_back, "data");
            let has_common = there.iter().any(|line| own.contains(line));
            let (text, files) = (manifest(&disk, "backup"), disk.at("backup").files());
            let copy = backup(&of(&put_back, "data"), &of(&disk, "backup"), CopyOptions::default());
            let error = copy.and_then(run).expect_err("it has another history");
            assert!(matches!(error, DurabilityError::NotItsBackup { .. }), "{number}: {error}");
            let said = error.to_string();
            assert!(said.contains("an older copy"), "{number}: {said}");
            if number > 0 {
                assert!(!has_common, "{there:?} {own:?}");
                let state = format!("its newest state, of epoch {}, is of generation 2", first.epoch);
                assert!(said.contains(&state), "{said}");
            }
            assert_eq!((manifest(&disk, "backup"), disk.at("backup").files()), (text, files));
        }
        // The database itself goes on, life for life, and so does its backup.
        for value in 20..24 {
            let state = live(&disk, "data", (strategy.clone(), 2), value);
            let next = back_up(&disk, "backup", 2).expect("is made");
            assert!(next.epoch > first.epoch);
            assert!(examined(&disk, "backup").is_whole());
            assert_eq!(opened(&disk, "backup"), state);
        }
        let lineage =
            manifest(&disk, "backup").lines().find(|line| line.starts_with("lineage ")).map(str::to_owned);
        let lineage = lineage.expect("a backup has its database's");
        assert_eq!(lineage.split(',').count(), 6, "{lineage}");
    }
}

#[test]
fn n23_a_backup_of_a_version_that_knew_no_lineage_goes_on() {
    let disk = SimDisk::new();
    live(&disk, "data", (settings(), 1), 1);
    back_up(&disk, "backup", 1).expect("is made");
    without_line(&disk, "backup", "lineage ");
    let state = live(&disk, "data", (settings(), 1), 2);
    back_up(&disk, "backup", 1).expect("is made");
    assert!(manifest(&disk, "backup").contains("\nlineage 1:"));
    assert_eq!(opened(&disk, "backup"), state);
}

#[test]
fn n23_what_was_restored_has_a_lineage_that_its_own_backups_follow() {
    for strategy in [settings(), pictures()] {
        let disk = SimDisk::new();
        live(&disk, "data", (strategy.clone(), 1), 1);
        live(&disk, "data", (strategy.clone(), 1), 2);
        back_up(&disk, "backup", 1).expect("is made");
        restored(&disk, "backup", "restored", None).expect("is restored");
        for value in 3..6 {
            let state = live(&disk, "restored", (strategy.clone(), 1), value);
            let options = CopyOptions::default();
            let copy = backup(&of(&disk, "restored"), &of(&disk, "second"), options);
            run(copy.expect("begins")).expect("is made");
            assert_eq!(opened(&disk, "second"), state);
            // A backup of the backup, whose own generations have other salts each time.
            let copy = backup(&of(&disk, "second"), &of(&disk, "third"), options);
            run(copy.expect("begins")).expect("is made");
            assert_eq!(opened(&disk, "third"), state);
        }
    }
}

fn backed_up(disk: &SimDisk, from: &str, to: &str) -> CopyReport {
    let options = CopyOptions { keep: Some(9), ..CopyOptions::default() };
    let copy = backup(&of(disk, from), &of(disk, to), options).and_then(run);
    copy.unwrap_or_else(|error| panic!("{from} into {to}: {error}"))
}

/// Lives of what was restored, or of a backup that was opened, each backed up: by numbers it comes to generations that
/// the database that was copied has had too.
fn goes_on(disk: &SimDisk, folder: &str, (strategy, lives): (&CheckpointConfig, u8)) {
    let target = format!("{folder}-backup");
    for value in 30..30 + lives {
        backed_up(disk, folder, &target);
        let put_back = disk.fork();
        let state = live(disk, folder, (strategy.clone(), value % 2), value);
        backed_up(disk, folder, &target);
        let found = examined(disk, &target);
        assert!(found.is_whole(), "{folder}, {value}, {:?}: {:?}", strategy.strategy, found.damage);
        assert_eq!(opened(disk, folder), state, "{folder}, {value}");
        // One that is put back is told apart.
        live(&put_back, folder, (strategy.clone(), 3), value + 100);
        live(&put_back, folder, (strategy.clone(), 3), value + 101);
        if value % 2 == 1 {
            assert_eq!(opened(disk, &target), state, "{folder}, {value}");
            let copy = backup(&of(&put_back, folder), &of(disk, &target), CopyOptions::default());
            let error = copy.and_then(run).expect_err("it has another history");
            assert!(error.to_string().contains("an older copy"), "{error}");
        }
    }
}

#[test]
fn n23_what_was_restored_at_an_older_state_goes_on_with_its_own_backups() {
    for strategy in [settings(), cycling(), pictures()] {
        let disk = SimDisk::new();
        live(&disk, "data", (strategy.clone(), 1), 1);
        live(&disk, "data", (strategy.clone(), 1), 2);
        let old = back_up(&disk, "backup", 9).expect("is made");
        for value in 3..7 {
            live(&disk, "data", (strategy.clone(), 1), value);
            back_up(&disk, "backup", 9).expect("is made");
        }
        // The source's generations go on to 6, and those of what is restored from 2.
        restored(&disk, "backup", "restored", Some(old.epoch)).expect("is restored");
        goes_on(&disk, "restored", (&strategy, 6));
        restored(&disk, "backup", "newest", None).expect("is restored");
        goes_on(&disk, "newest", (&strategy, 3));
        goes_on(&disk, "backup", (&strategy, 3));
    }
}

#[test]
fn n23_what_was_restored_from_behind_the_newest_picture_goes_on_with_its_own_backups() {
    let (disk, strategy) = (SimDisk::new(), pictures());
    live(&disk, "data", (strategy.clone(), 1), 1);
    // Two lives that take none.
    live(&disk, "data", (strategy.clone(), 0), 2);
    live(&disk, "data", (strategy.clone(), 0), 3);
    back_up(&disk, "backup", 1).expect("is made");
    restored(&disk, "backup", "restored", None).expect("is restored");
    goes_on(&disk, "restored", (&strategy, 4));
    goes_on(&disk, "backup", (&strategy, 4));
}

#[test]
fn n23_a_source_that_was_put_back_within_a_life_is_refused() {
    for strategy in [settings(), cycling(), pictures()] {
        let disk = SimDisk::new();
        live(&disk, "data", (strategy.clone(), 1), 1);
        let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, strategy.clone());
        let mut checkpoint = |value: u8| {
            (0..16).for_each(|key| _ = life.commit(&mut worker, key, Some(&[value])));
            life.rig.settle();
            life.checkpoint().expect("is installed");
        };
        checkpoint(2);
        let before = back_up(&disk, "before", 2).expect("is made");
        // A snapshot and a backup of one life: the generation is the same, and ends earlier where the snapshot is put
        // back.
        let put_back = copy_at_rest(&disk);
        checkpoint(3);
        let first = back_up(&disk, "backup", 2).expect("is made");
        assert!(first.epoch > before.epoch);
        for (number, value) in (0..4).zip(10..) {
            live(&put_back, "data", (strategy.clone(), 3), value);
            let copy = backup(&of(&put_back, "data"), &of(&disk, "backup"), CopyOptions::default());
            let error = copy.and_then(run).expect_err("it has another history");
            let said = error.to_string();
            assert!(said.contains("an older copy"), "{number}: {said}");
            let ended =
                format!("its newest state, of epoch {}, is of generation 2, which ended", first.epoch);
            assert!(said.contains(&ended), "{number}: {said}");
            // What is of before the snapshot is of both histories.
            let common = disk.fork();
            let (of, to) = (of(&put_back, "data"), of(&common, "before"));
            backup(&of, &to, CopyOptions::default()).and_then(run).expect("is made");
        }
        checkpoint(4);
        back_up(&disk, "backup", 2).expect("is made");
        life.rig.log.close().expect("closes");
        drop((worker, life));
        for value in 20..23 {
            live(&disk, "data", (strategy.clone(), 2), value);
            back_up(&disk, "backup", 2).expect("is made");
        }
    }
}

#[test]
fn n23_a_backup_of_a_backup_goes_on_once_that_one_is_opened() {
    for strategy in [settings(), pictures()] {
        let disk = SimDisk::new();
        live(&disk, "data", (strategy.clone(), 1), 1);
        live(&disk, "data", (strategy.clone(), 1), 2);
        back_up(&disk, "second", 1).expect("is made");
        backed_up(&disk, "second", "third");
        for value in 3..6 {
            let state = live(&disk, "second", (strategy.clone(), 1), value);
            backed_up(&disk, "second", "third");
            assert_eq!(opened(&disk, "third"), state);
        }
    }
}

#[test]
fn n23_a_picture_that_both_histories_have_is_followed() {
    let (disk, strategy) = (SimDisk::new(), pictures());
    live(&disk, "data", (strategy.clone(), 1), 1);
    live(&disk, "data", (strategy.clone(), 1), 2);
    let put_back = disk.fork();
    // The backup is made in the next life, which takes none.
    live(&disk, "data", (strategy.clone(), 0), 3);
    back_up_picture(&disk, "backup", 2).expect("is made");
    let state = live(&put_back, "data", (strategy, 1), 4);
    let picture = CopySource::picture(&of(&put_back, "data"), CopyOptions::default()).expect("is there");
    picture.begin(&of(&disk, "backup")).and_then(run).expect("is made");
    assert_eq!(opened(&disk, "backup"), state);
}

#[test]
fn i1_files_of_a_copy_of_a_copy_go_and_it_opens_again() {
    let disk = SimDisk::new();
    let strategy = (settings(), 1);
    live(&disk, "data", strategy.clone(), 1);
    back_up(&disk, "backup", 1).expect("is made");
    // The files are the database's, and the folder's parent is the backup.
    restored(&disk, "backup", "restored", None).expect("is restored");
    // Twice adopted: the files are the first one's.
    disk.copy_tree("restored", "copy");
    adopt(&of(&disk, "copy")).expect("is adopted");
    disk.copy_tree("copy", "second");
    adopt(&of(&disk, "second")).expect("is adopted");
    for folder in ["restored", "second"] {
        let target = format!("{folder}-backup");
        // Each checkpoint drops files of another database from the manifest, before they are removed.
        for value in 2..5 {
            let copy = backup(&of(&disk, folder), &of(&disk, &target), CopyOptions::default());
            run(copy.expect("begins")).expect("is made");
            let state = live(&disk, folder, strategy.clone(), value);
            assert_eq!(opened(&disk, folder), state, "{folder}, {value}");
            assert!(examined(&disk, folder).is_whole());
            let parts = disk.at(folder).files().into_iter().filter(|name| name.contains("/ckpt-"));
            assert_eq!(parts.count(), 4, "{folder}: those of the checkpoint before are gone");
            let copy = backup(&of(&disk, folder), &of(&disk, &target), CopyOptions::default());
            run(copy.expect("begins")).expect("is made");
            assert_eq!(opened(&disk, &target), state, "{folder}, {value}");
        }
    }
}

/// The files of another database, under the names of this one.
fn exchange(disk: &SimDisk, other: &str) {
    let (from, to) = (disk.at(other), disk.at("data"));
    from.files().iter().filter(|name| *name != "LEASES").for_each(|name| to.put(name, from.bytes(name)));
}

#[test]
fn i1_a_source_that_is_exchanged_beside_a_copy_of_files_is_seen() {
    let disk = SimDisk::new();
    live(&disk, "data", (settings(), 1), 1);
    let put_back = disk.fork();
    live(&disk, "data", (settings(), 1), 2);
    live(&put_back, "data", (settings(), 1), 3);
    live(&disk, "other", (settings(), 1), 4);
    let other = disk.at("other").bytes("MANIFEST");
    for exchanged in [other, put_back.at("data").bytes("MANIFEST")] {
        let copy = disk.fork();
        let mut run =
            backup(&of(&copy, "data"), &of(&copy, "backup"), CopyOptions::default()).expect("begins");
        assert_eq!(run.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
        copy.at("data").put("MANIFEST", exchanged);
        let error = loop {
            match run.step_at(&Framing, 0) {
                Ok(CopyStep::Ended(report)) => panic!("{report:?}"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("was exchanged for another database"), "{error}");
        assert!(manifest(&copy, "backup").contains("state creating"), "nothing counts");
    }
}

#[test]
fn i1_a_source_that_is_exchanged_beside_a_copy_of_pages_is_seen() {
    let disk = SimDisk::new();
    let strategy = CheckpointConfig { checkpointers: 1, ..pictures() };
    live(&disk, "data", (strategy.clone(), 1), 1);
    live(&disk, "other", (strategy, 2), 2);
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    // What is written over shows that the lease was overrun, so it looks at the folder again.
    let data = disk.at("data");
    let pages = data.files().into_iter().find(|name| name.contains("/pages-")).expect("it has pages");
    (0..data.bytes(&pages).len() as u64).step_by(512).for_each(|at| data.flip(&pages, at + 100, 1));
    exchange(&disk, "other");
    let error = loop {
        match copy.step_at(&Framing, 0) {
            Ok(CopyStep::Ended(report)) => panic!("{report:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("was exchanged for another database"), "{error}");
    assert!(manifest(&disk, "backup").contains("state creating"), "nothing counts");
}
