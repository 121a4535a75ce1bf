//! Backups of a folder whose process-safe life was killed (B4): they say what it returned and they have not.

use std::sync::Arc;

use ensile_disk::Disk;
use ensile_durability::{CopyOptions, CopyReport, CopyStep, NotProvenReason, backup};
use ensile_sim::SimDisk;

use super::{buffers, durable_and_returned, flip, found, open, safe, told};
use crate::rig::Map;

/// Backs `original` up into the folder `to`.
fn backed_up(machine: &SimDisk, to: &str) -> CopyReport {
    let of = |folder: &str| -> Arc<dyn Disk> { Arc::new(machine.at(folder).mounted()) };
    let mut copy = backup(&of("original"), &of(to), CopyOptions::default()).expect("begins");
    loop {
        if let CopyStep::Ended(report) = copy.step(&Map::default(), 0).expect("copies") {
            return report;
        }
    }
}

#[test]
fn b4_a_backup_of_a_folder_whose_process_died_says_what_it_has_not() {
    let machine = SimDisk::new();
    let disk = machine.at("original");
    let (_rig, _worker, durable) = durable_and_returned(&disk, 1);
    // The process that has it open has all.
    assert_eq!(backed_up(&machine, "beside").not_proven, None);
    machine.kill();
    let before = disk.fork();
    let left = told(backed_up(&machine, "behind").not_proven.as_ref());
    assert_eq!((left.reason, left.entries(), left.durable), (NotProvenReason::NotOpened, 1, durable));
    assert!(left.to_string().contains("Open it, and back it up again") && !left.is_left_out(), "{left}");
    // Nobody knows which boot this is, or a buffer is damaged: the backup is made, and says that.
    disk.set_no_boot(true);
    let left = told(backed_up(&machine, "unknown").not_proven.as_ref());
    assert_eq!((left.reason, left.entries()), (NotProvenReason::UnknownBoot, 1));
    disk.set_no_boot(false);
    let buffer = buffers(&disk).remove(0);
    flip(&disk, &buffer, 140);
    let left = told(backed_up(&machine, "damaged").not_proven.as_ref());
    assert_eq!((left.reason, left.entries(), left.files.len()), (NotProvenReason::Damaged, 0, 1));
    flip(&disk, &buffer, 140);
    assert!(before.files().iter().all(|file| disk.bytes(file) == before.bytes(file)), "nothing was changed");
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).len(), 2);
    rig.log.close().expect("closes");
    drop(rig);
    assert_eq!(backed_up(&machine, "again").not_proven, None);
}
