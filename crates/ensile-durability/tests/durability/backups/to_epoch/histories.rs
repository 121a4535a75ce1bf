//! An archive of another history than the backup's: the database and its archive were put back together, and have gone
//! on (A4).

use super::*;
use crate::archives::rig::write;
use crate::backups::{of, run};

/// A life with a checkpoint; `is_closed`, or its process dies. D, once it is closed.
fn live(disk: &SimDisk, settings: &CheckpointConfig, keys: std::ops::Range<u64>, is_closed: bool) -> Epoch {
    let life = open(disk, 1, settings.clone()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), keys));
    life.checkpoint().expect("is installed");
    let durable = if is_closed { close(&life) } else { Epoch::ZERO };
    drop(life);
    disk.kill();
    durable
}

fn back_up(disk: &SimDisk) -> Epoch {
    run(backup(&handle(disk.mounted()), &of(disk, BACKUP), CopyOptions::default()).expect("begins"))
        .expect("is made")
        .epoch
}

/// The backup on one machine, brought to an epoch by the archive of another one.
fn assert_refused((backed_up, archived): (&SimDisk, &SimDisk), to: Epoch) {
    let target = of(backed_up, "/restored");
    let begun =
        restore_to_epoch(&of(backed_up, BACKUP), Some(&handle(archived.at(PLACE))), &target, to, None);
    let error = begun.expect_err("it is of another history");
    assert!(matches!(error, DurabilityError::NotInArchive { .. }), "{error}");
    assert!(error.to_string().contains("not one of the history"), "{error}");
}

fn assert_restored((backed_up, archived): (&SimDisk, &SimDisk), to: Epoch) {
    let archive: Arc<dyn Disk> = Arc::new(archived.at(PLACE));
    let begun =
        restore_to_epoch(&of(backed_up, BACKUP), Some(&archive), &of(backed_up, "/restored"), to, None);
    assert_eq!(run(begun.expect("begins")).expect("can be had").epoch, to);
}

#[test]
fn a4_an_archive_that_was_put_back_between_two_lives_and_has_gone_on_is_refused() {
    for settings in [settings(), cycling(), pictures()] {
        let disk = disk_with_archive();
        live(&disk, &settings, 0..12, true);
        let put_back = disk.fork();
        live(&disk, &settings, 20..32, true);
        let state = back_up(&disk);
        // Its generation 2 is another one.
        let mut last = live(&put_back, &settings, 40..52, true);
        for life in 2..5 {
            last = live(&put_back, &settings, 20 * life..20 * life + 12, true);
        }
        assert!(last > state, "its epochs become larger");
        for to in [last, state] {
            assert_refused((&disk, &put_back), to);
        }
        // The database's own archive goes on from there.
        let last = live(&disk, &settings, 60..72, true);
        assert_restored((&disk, &disk), last);
    }
}

#[test]
fn a4_an_archive_that_was_put_back_within_the_life_of_the_backup_is_refused() {
    for settings in [settings(), cycling(), pictures()] {
        let disk = disk_with_archive();
        live(&disk, &settings, 0..12, true);
        let life = open(&disk, 1, settings.clone()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), 20..32));
        life.checkpoint().expect("is installed");
        // As a snapshot of all file systems beside it.
        let put_back = copy_at_rest(&disk);
        assert!(write(&life, &mut life.rig.worker(), 40..52));
        life.checkpoint().expect("is installed");
        let state = back_up(&disk);
        close(&life);
        drop(life);
        // There generation 2 ends before the backup's epoch.
        let mut last = Epoch::ZERO;
        for life in 3..6 {
            last = live(&put_back, &settings, 20 * life..20 * life + 12, true);
        }
        assert!(last > state, "its epochs become larger");
        assert_refused((&disk, &put_back), last);
        let last = live(&disk, &settings, 60..72, false);
        assert_eq!(last, Epoch::ZERO, "it was not closed");
        let last = live(&disk, &settings, 80..92, true);
        assert_restored((&disk, &disk), last);
    }
}
