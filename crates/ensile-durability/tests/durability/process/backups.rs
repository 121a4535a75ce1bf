//! Backups of a folder whose process-safe life was killed (B4): they say what it returned and they have not.

use super::*;

fn of(machine: &SimDisk, folder: &str) -> Arc<dyn Disk> {
    Arc::new(machine.at(folder).mounted())
}

/// Begins to back `original` up into the folder `to`.
fn begun(machine: &SimDisk, to: &str) -> CopyRun {
    backup(&of(machine, "original"), &of(machine, to), CopyOptions::default()).expect("begins")
}

fn ended(mut copy: CopyRun) -> CopyReport {
    loop {
        if let CopyStep::Ended(report) = copy.step_at(&Map::default(), 0).expect("copies") {
            return *report;
        }
    }
}

/// Backs `original` up into the folder `to`.
fn backed_up(machine: &SimDisk, to: &str) -> CopyReport {
    ended(begun(machine, to))
}

/// The keys of a database that is made of the backup in this folder.
fn keys_in(machine: &SimDisk, backup: &str) -> Vec<u64> {
    let restored = format!("{backup}-restored");
    ended(restore(&of(machine, backup), &of(machine, &restored), None, None).expect("begins"));
    found(&open(&machine.at(&restored), safe(1))).into_keys().collect()
}

#[test]
fn b4_a_backup_of_a_folder_whose_process_died_says_what_it_has_not() {
    let (machine, disk) = machine_with_original();
    let (_rig, _worker, durable) = durable_and_returned(&disk, 1);
    // The process that has it open has all.
    assert_eq!(backed_up(&machine, "beside").not_proven, None);
    machine.kill();
    let before = disk.fork();
    let left = told(backed_up(&machine, "behind").not_proven.as_ref());
    assert_eq!((left.reason, &left.files), (NotProvenReason::NotOpened, &buffers(&disk)));
    assert!(left.durable == durable && left.last > durable, "{left:?}");
    assert!(left.to_string().contains("Then back the folder up again") && !left.is_left_out(), "{left}");
    // Nobody knows which boot this is, or a buffer is damaged: the backup is made, and says that.
    disk.set_no_boot(true);
    let left = told(backed_up(&machine, "unknown").not_proven.as_ref());
    assert_eq!((left.reason, left.files), (NotProvenReason::UnknownBoot, buffers(&disk)));
    disk.set_no_boot(false);
    let buffer = buffers(&disk).remove(0);
    flip(&disk, &buffer, 140);
    let left = told(backed_up(&machine, "damaged").not_proven.as_ref());
    assert_eq!((left.reason, &left.files[..]), (NotProvenReason::Damaged, &[buffer.clone()][..]));
    flip(&disk, &buffer, 140);
    assert!(before.files().iter().all(|file| disk.bytes(file) == before.bytes(file)), "nothing was changed");
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).len(), 2);
    rig.log.close().expect("closes");
    drop(rig);
    assert_eq!(backed_up(&machine, "again").not_proven, None);
}

#[test]
fn b4_a_backup_of_a_folder_that_is_opened_meanwhile_says_what_it_has_not_and_nothing_else() {
    // Where the copy is when a process opens the folder, and takes what was left.
    for (phase, to) in [(CopyPhase::Copying, "early"), (CopyPhase::Verifying, "late")] {
        let (machine, disk) = machine_with_original();
        let (_rig, _worker, _) = durable_and_returned(&disk, 1);
        machine.kill();
        let mut copy = begun(&machine, to);
        while copy.progress().phase != phase {
            assert_eq!(copy.step_at(&Map::default(), 0).expect("copies"), CopyStep::Worked);
        }
        let rig = open(&disk, safe(1));
        assert_eq!(found(&rig).len(), 2);
        let report = ended(copy);
        let left = report.not_proven.as_ref().map(|left| left.reason);
        let expected = if phase == CopyPhase::Copying {
            (vec![1, 2], None)
        } else {
            (vec![1], Some(NotProvenReason::NotOpened))
        };
        assert_eq!((keys_in(&machine, to), left), expected, "{phase:?}");
    }
}

#[test]
fn b4_a_backup_says_what_a_process_returned_that_dies_while_it_is_made() {
    let machine = SimDisk::new();
    let process = machine.at("original").mounted();
    let rig = Rig::open(Arc::new(process.clone()), safe(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    let copy = begun(&machine, "behind");
    worker.commit(&rig.epochs, 2, b"returned").expect("runs");
    process.kill_process();
    let report = ended(copy);
    let left = told(report.not_proven.as_ref());
    assert_eq!((left.reason, left.files.len()), (NotProvenReason::NotOpened, 1));
    assert_eq!(keys_in(&machine, "behind"), [1]);
}

#[test]
fn b4_a_backup_of_a_folder_that_is_damaged_too_has_what_was_returned_or_says_so() {
    let original = left(2);
    let files: Vec<String> = original.files();
    let mut made = 0;
    for file in &files {
        let bytes = original.bytes(file).len() as u64;
        let places = [0, 4, 20, 60, 100, 130, 140, bytes / 2, bytes.saturating_sub(1)];
        let flips = places.into_iter().filter(|at| *at < bytes).map(Some);
        let cuts = [0, 1, 63, 64, 128, bytes / 2].into_iter().filter(|at| *at < bytes);
        let mut damages: Vec<(String, SimDisk)> = Vec::new();
        for at in flips.flatten() {
            let disk = original.fork();
            flip(&disk, file, at);
            damages.push((format!("{file} flipped at {at}"), disk));
        }
        for at in cuts {
            let disk = original.fork();
            disk.open(file).expect("is there").set_len(at).expect("cuts");
            damages.push((format!("{file} cut at {at}"), disk));
        }
        let disk = original.fork();
        disk.remove(file).expect("removes");
        damages.push((format!("{file} removed"), disk));
        for (what, disk) in damages {
            let to = SimDisk::new();
            let on = |disk: &SimDisk| -> Arc<dyn Disk> { Arc::new(disk.mounted()) };
            let Ok(mut copy) = backup(&on(&disk), &on(&to), CopyOptions::default()) else { continue };
            let report = loop {
                match copy.step_at(&Map::default(), 0) {
                    Ok(CopyStep::Ended(report)) => break Some(*report),
                    Ok(_) => {}
                    Err(_) => break None,
                }
            };
            drop(copy);
            let Some(report) = report else { continue };
            made += 1;
            let from = SimDisk::new();
            ended(restore(&on(&to), &on(&from), None, None).expect("begins"));
            let keys: Vec<u64> = found(&open(&from, safe(2))).into_keys().collect();
            assert!(keys == [1, 2] || report.not_proven.is_some(), "{what}: {keys:?} without a word");
        }
    }
    assert!(made > 0, "some damage is not in the way of a backup");
}
