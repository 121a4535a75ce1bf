//! What the simulated disk keeps, loses and reports.

use super::{Fault, SimDisk, Survival};
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

#[test]
fn a_call_fails_by_its_number_once_or_for_good_with_a_part_of_its_work_done() {
    let disk = SimDisk::new();
    let file = disk.create("a").expect("create");
    disk.record(true);
    disk.fail_calls(2..=2, Fault::NO_SPACE.after_percent(50));
    disk.fail_calls(4.., Fault::INPUT_OUTPUT);
    let short = file.write_at(&[1; 100], 0).expect_err("the second call of all");
    assert!(short.to_string().contains("No space"), "{short}");
    assert_eq!(disk.bytes("a").len(), 50);
    file.write_at(&[2; 100], 0).expect("the third");
    assert!(file.sync_data().is_err() && disk.create("b").is_err() && disk.list("").is_err());
    disk.heal();
    file.sync_data().expect("works again");
    let trace: Vec<_> = disk.trace().iter().map(ToString::to_string).collect();
    assert_eq!(trace[0], "    2 write \"a\" 100 bytes at 0: ENOSPC");
    assert_eq!(trace[2], "    4 sync \"a\": EIO");
    assert_eq!((trace.len(), disk.calls().all), (6, 7));
}

#[test]
fn power_fails_in_the_midst_of_a_call_and_survival_says_what_is_left() {
    let left = |survival| {
        let disk = SimDisk::new();
        let file = disk.create("a").expect("create");
        file.sync_all().expect("sync");
        disk.sync_folder("").expect("sync");
        file.write_at(&[1; 1000], 0).expect("write");
        disk.cut_power_at(disk.calls().all + 2);
        file.write_at(&[2; 1000], 1000).expect("write");
        assert!(file.sync_data().is_err() && disk.is_without_power());
        assert!(file.sync_data().is_err() && disk.open("a").is_err(), "nothing succeeds without power");
        disk.crash_with(survival, 7);
        disk.bytes("a").len()
    };
    assert_eq!(left(Survival::Nothing), 0);
    assert_eq!(left(Survival::Everything), 2000);
    assert!((1..2000).contains(&left(Survival::Prefix)));
}

#[test]
fn of_each_file_a_suffix_is_lost_by_itself() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let disk = SimDisk::new();
        let files = ["a", "b"].map(|name| disk.create(name).expect("create"));
        disk.sync_folder("").expect("sync");
        for at in 0..8 {
            files.iter().for_each(|file| file.write_at(&[at + 1; 10], u64::from(at) * 10).expect("write"));
        }
        disk.crash_with(Survival::Prefix, seed);
        let left = ["a", "b"].map(|name| disk.bytes(name));
        assert!(left.iter().flatten().all(|byte| *byte > 0), "no hole");
        lengths.insert(left.map(|bytes| bytes.len()));
    }
    assert!(lengths.len() > 30 && lengths.iter().any(|[a, b]| a < b) && lengths.iter().any(|[a, b]| b < a));
}

#[test]
fn a_folder_whose_name_is_lost_takes_its_files_along() {
    for (synced, left) in [(false, 0), (true, 1)] {
        let disk = SimDisk::new();
        disk.create_folder("sub").expect("folder");
        disk.create("sub/a").expect("create").sync_all().expect("sync");
        disk.sync_folder("sub").expect("sync");
        if synced {
            disk.sync_folder("").expect("sync");
        }
        disk.crash_with(Survival::Nothing, 1);
        assert_eq!(disk.files().len(), left);
        assert_eq!(disk.exists("sub").expect("exists"), synced);
    }
}

#[test]
fn a_full_disk_refuses_what_grows_until_there_is_room() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(1000));
    let [file, other] = ["a", "b"].map(|name| disk.create(name).expect("create"));
    file.preallocate(600).expect("has room");
    assert!(other.preallocate(600).is_err(), "nothing of it is set aside");
    assert_eq!(disk.used_bytes(), 600);
    file.write_at(&[1; 600], 0).expect("its space is set aside");
    assert!(other.write_at(&[2; 500], 0).is_err());
    assert_eq!((disk.bytes("b").len(), disk.used_bytes()), (400, 1000), "a short write");
    assert!(disk.create("c").is_err());
    other.write_at(&[3; 400], 0).expect("what is there can be written again");
    file.set_len(100).expect("cut");
    other.write_at(&[3; 500], 0).expect("there is room again");
    disk.remove("a").expect("remove");
    assert_eq!(disk.used_bytes(), 500);
    disk.set_capacity(None);
    other.write_at(&[4; 5000], 0).expect("any number of bytes");
}

#[test]
fn each_moment_is_the_disk_as_a_crash_there_would_find_it() {
    let disk = SimDisk::new();
    disk.keep_moments();
    let file = disk.create("a").expect("create");
    disk.sync_folder("").expect("sync");
    file.write_at(b"once", 0).expect("write");
    file.sync_data().expect("sync");
    file.write_at(b"more", 0).expect("write");
    let moments = disk.take_moments();
    assert_eq!(moments.iter().map(|moment| moment.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let left = |survival| {
        moments.iter().map(move |moment| {
            let disk = moment.disk.fork();
            disk.crash_with(survival, 1);
            disk.files().first().map(|name| disk.bytes(name))
        })
    };
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    assert!(left(Survival::Nothing).eq([None, None, some(b""), some(b""), some(b"once")]));
    assert!(left(Survival::Everything).eq([
        some(b""),
        some(b""),
        some(b"once"),
        some(b"once"),
        some(b"more")
    ]));
    assert_eq!(disk.bytes("a"), b"more", "forks go their own way");
}

#[test]
fn folders_and_files_are_told_apart_and_locked_by_what_they_are() {
    let disk = SimDisk::new();
    disk.create_folder("log0").expect("folder");
    let [root, log] = ["", "log0"].map(|folder| disk.folder_id(folder).expect("there"));
    assert_ne!(root, log);
    assert_eq!(disk.folder_id("log0").expect("there"), log);
    assert!(disk.folder_id("log1").expect_err("none").is_not_found());
    assert!(disk.lock_to_read("LOCK").expect("asked").is_none(), "a reader makes no file");
    let lock = disk.lock("LOCK").expect("free");
    assert_eq!(
        (lock.file_id().expect("id"), lock.links().expect("links")),
        (disk.file_id("LOCK").expect("id"), 1)
    );
    disk.remove("LOCK").expect("remove");
    assert_eq!(lock.links().expect("links"), 0);
    let held = disk.lock_folder("log0").expect("free");
    assert!(matches!(disk.mounted().lock_folder("log0"), Err(DiskError::InUse { .. })));
    assert!(matches!(disk.lock_folder_to_read("log0"), Err(DiskError::InUse { .. })));
    drop(held);
    let readers = [disk.lock_folder_to_read("log0"), disk.lock_folder_to_read("log0")];
    assert!(readers.iter().all(Result::is_ok) && disk.lock_folder("log0").is_err());
    assert_eq!(disk.free_bytes("").expect("asked"), None);
    disk.set_capacity(Some(100));
    disk.create("a").expect("create").write_at(&[1; 30], 0).expect("write");
    assert_eq!(disk.free_bytes("log0").expect("asked"), Some(70));
}

#[test]
fn a_forked_child_changes_nothing_and_gives_back_no_lock_of_its_parent() {
    let world = SimDisk::new();
    let disk = world.mounted();
    let file = disk.create("a").expect("create");
    file.write_at(b"parent", 0).expect("write");
    let lock = disk.lock("LOCK").expect("free");
    let child = disk.in_child();
    drop(lock);
    let refused = [
        file.write_at(b"child", 0),
        file.set_len(0),
        file.sync_data(),
        disk.create("b").map(drop),
        disk.rename("a", "b"),
        disk.remove("a"),
        disk.sync_folder(""),
        disk.lock("LOCK").map(drop),
        disk.lock_folder("").map(drop),
    ];
    assert!(refused.into_iter().all(|result| result.is_err_and(|error| error.is_forked())));
    let other = world.mounted();
    assert!(matches!(other.lock("LOCK"), Err(DiskError::InUse { .. })), "the parent has it still");
    other.create("c").expect("another process is none of it");
    drop(child);
    file.write_at(b"!", 6).expect("the parent goes on");
    assert_eq!(world.bytes("a"), b"parent!");
}
