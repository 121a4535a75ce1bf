//! DiskSpace for a checkpoint: by device, and at each bound.

use std::path::Path;

use ensile_sim::SimDisk;

use super::*;

const FREE: u64 = 1 << 20;

/// A disk with this number of free bytes.
fn with_free(bytes: u64) -> SimDisk {
    let disk = SimDisk::new();
    disk.put("other", vec![1; 5000]);
    disk.set_capacity(Some(disk.used_bytes() + bytes));
    disk
}

/// Is there room for a checkpoint of these bytes, of so many checkpointers?
fn has_room(disk: &SimDisk, checkpointers: usize, bytes: u64) -> bool {
    DiskSpace::look(disk, checkpointers, bytes).is_ok()
}

#[test]
fn a_checkpoint_takes_all_that_is_free_but_the_logs_part() {
    let disk = with_free(FREE);
    let most = FREE - FREE / LOG_SHARE;
    for checkpointers in [1, 2, 4] {
        assert!(has_room(&disk, checkpointers, most), "{checkpointers} write {most} bytes together");
        assert!(!has_room(&disk, checkpointers, most + 8), "{checkpointers} write too much");
    }
    assert!(has_room(&with_free(2 * FREE_BYTES_MIN), 1, 0));
    assert!(!has_room(&with_free(FREE_BYTES_MIN), 1, 0), "none is begun on a disk that is almost full");
}

#[test]
fn a_checkpointer_on_a_device_of_its_own_takes_its_part_there() {
    let disk = with_free(FREE);
    disk.set_device("/fast", Some(FREE / 4));
    disk.link_folder(&checkpoint_folder(1), Path::new("/fast")).expect("links");
    let most = FREE / 4 - FREE / 4 / LOG_SHARE;
    assert!(has_room(&disk, 2, 2 * most) && !has_room(&disk, 2, 2 * most + 2), "a half goes there");
    assert!(has_room(&disk, 4, 4 * most) && !has_room(&disk, 4, 4 * most + 4), "a quarter goes there");
    let space = DiskSpace::look(&disk, 2, 2 * most).expect("there is room");
    disk.at("/fast").put("taken", vec![1; (FREE / 4 - FREE / 4 / LOG_SHARE + 1) as usize]);
    assert_eq!(space.check(&disk, 0), Ok(false), "the other device has all that it had");
    assert!(space.check(&disk, 1).is_err());
}

#[test]
fn an_attempt_hurries_once_half_is_gone_and_a_disk_that_does_not_say_what_is_free_is_tried() {
    let disk = with_free(FREE);
    let space = DiskSpace::look(&disk, 1, 0).expect("there is room");
    let left = FREE / LOG_SHARE;
    for (free, said) in [
        (FREE, Some(false)),
        (FREE / 2, Some(false)),
        (FREE / 2 - 1, Some(true)),
        (left, Some(true)),
        (left - 1, None),
    ] {
        disk.put("taken", vec![1; (FREE - free) as usize]);
        assert_eq!(space.check(&disk, 0).ok(), said, "{free} bytes are free");
    }
    let disk = SimDisk::new();
    let space = DiskSpace::look(&disk, 2, u64::MAX / 2).expect("it is tried");
    assert_eq!(space.check(&disk, 1), Ok(false));
}
