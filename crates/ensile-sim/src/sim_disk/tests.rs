//! What the simulated disk keeps, loses and reports.

use super::SimDisk;
use ensile_disk::{Disk, DiskError};

fn file_after_crash(seed: u64) -> Option<Vec<u8>> {
    let disk = SimDisk::new();
    let file = disk.create("a").expect("create");
    file.write_at(&[1; 1024], 0).expect("write");
    file.sync_data().expect("sync");
    disk.sync_folder("").expect("sync");
    file.write_at(&[2; 2048], 0).expect("write");
    disk.crash(seed);
    disk.exists("a").expect("exists").then(|| disk.bytes("a"))
}

#[test]
fn what_was_synced_stays_and_the_rest_is_kept_dropped_or_torn_by_sectors() {
    let (mut kept, mut dropped, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let bytes = file_after_crash(seed).expect("its name was synced");
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(
            bytes.chunks(512).zip(&sectors).all(|(sector, first)| sector.iter().all(|byte| byte == first))
        );
        assert!(sectors[..2].iter().all(|byte| [1, 2].contains(byte)), "{sectors:?}");
        match &sectors[..] {
            [2, 2, 2, 2] => kept += 1,
            [1, 1] => dropped += 1,
            _ => torn += 1,
        }
    }
    assert!(kept > 20 && dropped > 20 && torn > 20, "{kept} {dropped} {torn}");
}

#[test]
fn names_survive_once_their_folder_is_synced() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = SimDisk::new();
        disk.create("old").expect("create").sync_all().expect("sync");
        disk.sync_folder("").expect("sync");
        disk.create("new").expect("create").sync_all().expect("sync");
        disk.rename("old", "renamed").expect("rename");
        disk.crash(seed);
        let names = disk.list("").expect("list");
        let old = names.iter().filter(|name| ["old", "renamed"].contains(&&***name)).count();
        assert_eq!(old, 1, "the synced file has one of its names: {names:?}");
        lost += u32::from(names == ["old"]);
    }
    assert!(lost > 0);
}

#[test]
fn a_failed_sync_loses_bytes_that_later_syncs_do_not_bring_back() {
    let disk = SimDisk::new();
    let file = disk.create("a").expect("create");
    file.sync_all().expect("sync");
    disk.sync_folder("").expect("sync");
    disk.fail_sync(1);
    file.write_at(b"lost", 0).expect("write");
    assert!(file.sync_data().is_err());
    file.sync_data().expect("the kernel lies");
    assert_eq!(disk.bytes("a"), b"lost", "still readable");
    disk.crash(1);
    assert_eq!(disk.bytes("a"), b"");
}

#[test]
fn a_killed_process_loses_its_handles_and_locks_but_not_the_cache() {
    let disk = SimDisk::new();
    let lock = disk.lock("LOCK").expect("free");
    assert!(matches!(disk.lock("LOCK"), Err(DiskError::InUse { .. })));
    let file = disk.create("a").expect("create");
    file.write_at(b"cached", 0).expect("write");
    disk.kill();
    assert!(file.write_at(b"x", 0).is_err());
    let held = disk.lock("LOCK").expect("free");
    drop(lock);
    assert!(disk.lock("LOCK").is_err(), "a lock of an earlier boot gives nothing back");
    drop(held);
    assert_eq!(disk.bytes("a"), b"cached");
}

#[test]
fn the_chosen_write_fails_and_calls_are_counted() {
    let disk = SimDisk::new();
    let file = disk.create("a").expect("create");
    disk.fail_write(2);
    file.write_at(b"1", 0).expect("the first");
    assert!(file.write_at(b"2", 0).is_err());
    file.write_at(b"3", 0).expect("the third");
    assert_eq!((disk.calls().writes, disk.calls().written_bytes), (3, 3));
    disk.fail_all_syncs(true);
    assert!(file.sync_data().is_err() && file.sync_data().is_err());
    disk.fail_all_syncs(false);
    file.sync_data().expect("works again");
    assert_eq!(disk.calls().syncs, 3);
}

#[test]
fn folders_separate_names() {
    let disk = SimDisk::new();
    assert!(disk.create("sub/a").is_err());
    disk.create_folder("sub").expect("folder");
    disk.create("sub/a").expect("create");
    assert_eq!(disk.list("sub").expect("list"), ["a"]);
    assert!(disk.list("").expect("list").is_empty() && disk.exists("sub").expect("exists"));
}
