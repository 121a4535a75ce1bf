//! N16: what a copier still reads stays, up to the limit, and one whose lease was overrun goes on from the newest root.

use ensile_base::limits::LEASE_SECONDS_MAX;

use super::*;

/// Every row changes, and a picture of that is installed; the database looks at leases once more.
fn change_all(life: &Life, worker: &mut Worker, bytes: usize) {
    (0..KEYS).for_each(|key| put(life, worker, key, bytes));
    life.checkpoint().expect("is installed");
    life.rig.clock.advance(Duration::from_secs(2));
    (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
}

fn begun(disk: &SimDisk) -> CopyRun {
    backup(&of(disk, "data"), &of(disk, "backup"), CopyOptions::default()).expect("begins")
}

fn finish(copy: &mut CopyRun) -> Result<CopyReport, DurabilityError> {
    loop {
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0)? {
            return Ok(*report);
        }
    }
}

#[test]
fn n16_units_that_became_free_beside_a_copier_are_not_used_again() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let state = life.store.present();
    // This database has it in memory which pages are free, and the copier is another process.
    let mut copy = begun(&disk);
    for _ in 0..3 {
        assert_eq!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
    }
    for round in 0..4 {
        change_all(&life, &mut worker, 3000 + round);
    }
    let report = finish(&mut copy).expect("is whole");
    assert_eq!(report.overruns, 0, "what it was to read was still there");
    assert_eq!(loaded(&disk, "backup"), state);
    // Its hold has ended with it.
    drop(copy);
    let held = life.checkpoints.stats();
    change_all(&life, &mut worker, 2000);
    let stats = life.checkpoints.stats();
    assert!(stats.page_file_bytes_free > held.page_file_bytes_free, "{stats:?} behind {held:?}");
    assert_eq!(life.rig.log.stats().leases_overrun, 0);
    drop(worker);
    life.end();
}

#[test]
fn n16_a_copier_whose_lease_was_overrun_goes_on_from_the_newest_root() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let mut copy = begun(&disk);
    for _ in 0..3 {
        assert_eq!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
    }
    change_all(&life, &mut worker, 3500);
    life.rig.clock.advance(Duration::from_secs(LEASE_SECONDS_MAX));
    (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
    assert_eq!(life.rig.log.stats().leases_overrun, 1);
    // What became free is written over.
    for round in 0..2 {
        change_all(&life, &mut worker, 3000 + round);
    }
    let report = finish(&mut copy).expect("is whole");
    assert!(report.overruns > 0, "{report:?}");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
    assert!(examined(&disk, "backup").is_whole());
    // What was copied of the first root is free again.
    drop(copy);
    let bytes = super::page_file_bytes(&disk, "backup");
    assert!(bytes < report.bytes + report.bytes_written, "{bytes} of {report:?}");
    change_all(&life, &mut worker, 1000);
    back_up(&disk, "backup", 1).expect("is made");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
    drop(worker);
    life.end();
}

#[test]
fn n16_a_copier_that_has_died_holds_nothing() {
    let (disk, life, mut worker) = filled_disk(pictures());
    life.checkpoint().expect("is installed");
    let reader = disk.at("data").mounted();
    let on: std::sync::Arc<dyn ensile_disk::Disk> = std::sync::Arc::new(reader.clone());
    let copy = backup(&on, &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    change_all(&life, &mut worker, 3000);
    let held = life.checkpoints.stats();
    reader.kill_process();
    change_all(&life, &mut worker, 3000);
    let stats = life.checkpoints.stats();
    assert!(stats.page_file_bytes_free > held.page_file_bytes_free, "{stats:?} behind {held:?}");
    drop(copy);
    drop(worker);
    life.end();
}

/// Beside this copy every page changes within the time that a lease is kept, again and again.
#[test]
fn n16_a_copier_that_is_slower_than_the_database_changes_ends_and_says_which_rate_would_do() {
    let (disk, life, mut worker) = filled_disk(pictures());
    back_up_checkpoint(&disk, &life);
    let before = (manifest(&disk, "backup"), loaded(&disk, "backup"));
    for rate in [None, Some(50_000)] {
        change_all(&life, &mut worker, 3900);
        let options = CopyOptions { bytes_per_second: rate, ..CopyOptions::default() };
        let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
        let (mut now, mut overruns) = (0, 0);
        let error = 'runs: loop {
            for _ in 0..3 {
                // Whatever the rate, it may go on.
                now += 1_000_000_000;
                match copy.step_at(&Framing, now) {
                    Ok(CopyStep::Worked) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break 'runs error,
                }
            }
            let told = copy.progress().overruns;
            assert!((overruns..=overruns + 1).contains(&told), "it is told while it runs");
            overruns = told;
            assert!(overruns < 20, "it ends");
            change_all(&life, &mut worker, 3500 + overruns as usize);
            life.rig.clock.advance(Duration::from_secs(LEASE_SECONDS_MAX));
            (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
            for round in 0..2 {
                change_all(&life, &mut worker, 3000 + round);
            }
        };
        assert!(matches!(error, DurabilityError::TooSlow { .. }), "{error}");
        assert!(overruns >= 4, "{overruns}");
        let wanted = if rate.is_some() { "raise its rate of 50000 bytes a second" } else { "it has no rate" };
        assert!(error.to_string().contains(wanted), "{error}");
        drop(copy);
        assert_eq!((manifest(&disk, "backup"), loaded(&disk, "backup")), before, "the last one counts");
    }
    // At a quieter time.
    back_up(&disk, "backup", 1).expect("is made");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}
