//! What the simulated disk keeps, loses and reports.

use std::sync::Arc;

use super::{Fault, SimDisk, Survival};
use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError, FolderKind, Operation};

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
fn a_process_that_dies_before_its_sync_leaves_what_it_wrote_to_the_next_sync_of_the_file() {
    for survival in [Survival::Nothing, Survival::Everything] {
        let disk = SimDisk::new();
        let file = disk.create("a").expect("create");
        file.sync_all().expect("sync");
        disk.sync_folder("").expect("sync");
        file.write_at(b"cached", 0).expect("write");
        disk.die_before(disk.calls().all + 1);
        assert!(file.sync_data().is_err());
        disk.kill();
        assert_eq!(disk.bytes("a"), b"cached");
        let unsynced = disk.fork();
        // Another process, which only reads.
        disk.mounted().open_to_read("a").expect("is there").sync_data().expect("sync");
        disk.crash_with(Survival::Nothing, 1);
        assert_eq!(disk.bytes("a"), b"cached");
        unsynced.crash_with(survival, 1);
        let left: &[u8] = if survival == Survival::Nothing { b"" } else { b"cached" };
        assert_eq!(unsynced.bytes("a"), left);
    }
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
fn syncs_of_folders_are_told_before_them_by_their_names_from_the_root_that_is_watched() {
    let (disk, other) = (SimDisk::new(), SimDisk::new());
    let data = disk.at("data");
    data.create_folder("logs").expect("makes");
    data.sync_folder("").expect("sync");
    let (its, told) = (data.clone(), Arc::new(Mutex::new(Vec::new())));
    let tell = Arc::clone(&told);
    data.watch_folder_syncs(Some(Arc::new(move |folder: &str| {
        // It may use the disk, and what it makes is synced.
        its.create("beside").expect("create");
        tell.lock().push(folder.to_owned());
    })));
    for elsewhere in [&disk, &disk.at("elsewhere"), &other] {
        elsewhere.sync_folder("").expect("sync");
    }
    assert!(told.lock().is_empty() && !data.exists("beside").expect("exists"), "they have other roots");
    disk.at("data").mounted().sync_folder("logs").expect("sync");
    data.sync_folder("").expect("sync");
    data.watch_folder_syncs(None);
    data.sync_folder("").expect("sync");
    assert_eq!(*told.lock(), ["logs", ""]);
    disk.crash_with(Survival::Nothing, 1);
    assert!(data.exists("beside").expect("exists"), "it was made before the sync");
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

#[test]
fn processes_lock_each_other_out_and_die_one_by_one() {
    let machine = SimDisk::new();
    let [one, other] = [machine.mounted(), machine.mounted()];
    let locks = [one.lock("LOCK").expect("free"), one.lock_folder("").expect("free")];
    let file = one.create("a").expect("create");
    file.write_at(b"cached", 0).expect("write");
    assert!(matches!(other.lock("LOCK"), Err(DiskError::InUse { .. })));
    assert!(matches!(other.lock_folder(""), Err(DiskError::InUse { .. })));
    one.kill_process();
    assert!(file.write_at(b"x", 0).is_err() && one.list("").is_err(), "it is dead");
    let held = other.lock("LOCK").expect("free again");
    drop(locks);
    assert!(machine.lock("LOCK").is_err(), "a dead process gives nothing back");
    drop(held);
    assert_eq!(other.open("a").expect("there").len().expect("length"), 6, "the cache is the machine's");
    machine.set_no_folder_locks(true);
    assert!(other.lock_folder("").expect_err("it cannot").is_unsupported());
}

#[test]
fn a_process_holds_its_folders_whatever_becomes_of_their_names() {
    let machine = SimDisk::new();
    let db = machine.at("/home/db");
    let process = db.mounted();
    process.create_folder("log0").expect("folder");
    let id = process.folder_id("").expect("id");
    process.create("log0/a").expect("create");
    machine.move_to("/home/db", "/home/old");
    let new = machine.at("/home/db");
    new.put("log0/a", b"theirs".to_vec());
    process.create("log0/b").expect("create");
    process.remove("log0/a").expect("remove");
    assert_eq!((new.files(), new.bytes("log0/a")), (vec!["log0/a".to_owned()], b"theirs".to_vec()));
    assert_eq!(machine.at("/home/old").files(), ["log0/b"]);
    assert_eq!(machine.at("/home/old").folder_id("").expect("id"), id, "it keeps its identity");
    assert_ne!(new.folder_id("").expect("id"), id);
    assert_eq!(db.path(), std::path::Path::new("/home/old"));
}

#[test]
fn a_copy_has_identities_of_its_own_and_the_original_s_links() {
    let machine = SimDisk::new();
    let db = machine.at("/db");
    db.put("MANIFEST", b"one".to_vec());
    db.put("checkpoint0/part", b"part".to_vec());
    db.mounted().link_folder("log0", std::path::Path::new("/fast/log0")).expect("linked");
    db.put("log0/a", b"log".to_vec());
    machine.copy_tree("/db", "/copy");
    let copy = machine.at("/copy");
    assert_eq!(copy.files(), ["MANIFEST", "checkpoint0/part", "log0/a"]);
    for folder in ["", "checkpoint0"] {
        assert_ne!(copy.folder_id(folder).expect("id"), db.folder_id(folder).expect("id"), "{folder:?}");
    }
    assert_eq!(
        copy.folder_id("log0").expect("id"),
        db.folder_id("log0").expect("id"),
        "one folder, two links"
    );
    assert!(
        copy.lock_folder("log0").is_ok_and(|lock| db.lock_folder("log0").is_err() && lock.links().is_ok())
    );
    copy.remove("log0/a").expect("removed for both");
    copy.open("MANIFEST").expect("open").write_at(b"two", 0).expect("write");
    assert_eq!((db.bytes("MANIFEST"), db.files().len()), (b"one".to_vec(), 2));
    machine.hard_link("/db/MANIFEST", "/copy/same");
    assert_eq!((db.links("MANIFEST").expect("links"), copy.links("same").expect("links")), (2, 2));
    assert_eq!(db.file_id("MANIFEST").expect("id"), copy.file_id("same").expect("id"));
}

#[test]
fn an_unmounted_device_leaves_an_empty_folder_with_another_identity() {
    let machine = SimDisk::new();
    let db = machine.at("/mnt/db");
    let running = db.mounted();
    running.create("a").expect("create").sync_all().expect("sync");
    running.sync_folder("").expect("sync");
    let id = running.folder_id("").expect("id");
    machine.unmount("/mnt/db");
    let empty = machine.at("/mnt/db");
    assert!(empty.files().is_empty() && empty.folder_id("").expect("id") != id);
    assert_eq!(running.list("").expect("listed"), ["a"], "a process that has it open keeps it");
    empty.put("a", b"another".to_vec());
    machine.crash_with(Survival::Nothing, 1);
    assert_eq!(machine.at("/mnt/db").bytes("a"), b"another", "it is unmounted still");
    machine.mount("/mnt/db");
    assert_eq!(machine.at("/mnt/db").bytes("a"), b"");
    assert_eq!(machine.at("/mnt/db").folder_id("").expect("id"), id);
    machine.link("link", std::path::Path::new("/mnt/db"));
    machine.unplug("link", false);
    assert!(matches!(machine.folder_kind("link"), Ok(FolderKind::Link { is_there: false, .. })));
    assert!(machine.list("link").expect_err("it leads nowhere").is_not_found());
    machine.unplug("link", true);
    assert_eq!(machine.list("link").expect("there again"), ["a"]);
}

#[test]
fn calls_wait_on_a_stalled_device_until_it_goes_on_or_the_process_dies() {
    let machine = SimDisk::new();
    let ends = |end: &dyn Fn()| {
        let process = machine.mounted();
        let file = process.create("a").expect("create");
        machine.stall(&[Operation::Sync]);
        file.write_at(b"x", 0).expect("a write is in the cache at once");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| file.sync_data());
            while machine.waiting() == 0 {
                std::thread::yield_now();
            }
            assert!(!waits.is_finished());
            end();
            waits.join().expect("no panic")
        })
    };
    assert!(ends(&|| machine.release()).is_ok());
    assert!(ends(&|| machine.kill()).is_err());
    assert!(ends(&|| machine.crash(1)).is_err());
    assert_eq!(machine.waiting(), 0);
}

#[test]
fn devices_are_full_by_themselves() {
    let machine = SimDisk::new();
    machine.set_capacity(Some(1000));
    machine.set_device("/fast", Some(500));
    machine.link("log0", std::path::Path::new("/fast/log0"));
    drop(machine.at("/fast/log0"));
    let free = |folder: &str| machine.free_bytes(folder).expect("asked");
    assert_eq!((free(""), free("log0")), (Some(1000), Some(500)));
    let [main, log] = ["a", "log0/a"].map(|name| machine.create(name).expect("create"));
    assert!(log.write_at(&[1; 600], 0).is_err());
    main.write_at(&[1; 900], 0).expect("has room");
    assert_eq!((free(""), free("log0")), (Some(100), Some(0)));
    assert!(machine.create("log0/b").is_err() && main.preallocate(1100).is_err());
    machine.remove("log0/a").expect("remove");
    assert_eq!((free(""), free("log0")), (Some(100), Some(500)));
}

#[test]
fn space_that_was_never_written_may_hold_old_bytes_after_a_crash_if_asked_for() {
    let after = |is_stale, seed| {
        let disk = SimDisk::new();
        disk.set_stale_space(is_stale);
        let old = disk.create("old").expect("create");
        old.write_at(&[7; 4096], 0).and_then(|()| old.sync_data()).expect("stable");
        disk.remove("old").expect("remove");
        let file = disk.create("a").expect("create");
        file.preallocate(4096).expect("space");
        file.write_at(&[1; 1024], 0).and_then(|()| file.sync_data()).expect("stable");
        disk.sync_folder("").expect("sync");
        disk.crash_with(Survival::Nothing, seed);
        disk.bytes("a")
    };
    let mut with_old = 0;
    for seed in 0..50 {
        assert_eq!(after(false, seed), [vec![1; 1024], vec![0; 3072]].concat());
        let bytes = after(true, seed);
        assert!(bytes[..1024].iter().all(|byte| *byte == 1), "what was written is there");
        with_old += u32::from(bytes[1024..].chunks(512).any(|sector| sector == [7; 512]));
    }
    assert!(with_old > 20, "{with_old}");
}

#[test]
fn a_failed_sync_s_bytes_are_read_as_before_if_asked_for() {
    let disk = SimDisk::new();
    disk.set_failed_syncs_revert(true);
    let file = disk.create("a").expect("create");
    file.write_at(b"before", 0).and_then(|()| file.sync_data()).expect("stable");
    file.write_at(b"after, and longer", 0).expect("write");
    disk.fail_sync(1);
    assert!(file.sync_data().is_err());
    assert_eq!(disk.bytes("a"), b"before\0\0\0\0\0\0\0\0\0\0\0");
    file.sync_data().expect("the kernel lies");
}

#[test]
fn a_torn_write_takes_synced_bytes_of_its_page_along_if_asked_for() {
    let after = |are_torn, seed| {
        let disk = SimDisk::new();
        disk.set_torn_pages(are_torn);
        let file = disk.create("a").expect("create");
        file.write_at(&[1; 12288], 0).and_then(|()| file.sync_data()).expect("stable");
        disk.sync_folder("").expect("sync");
        file.write_at(&[2; 1024], 4096 + 512).expect("write");
        disk.crash_with(Survival::Torn, seed);
        disk.bytes("a")
    };
    let mut damaged = 0;
    for seed in 0..50 {
        let is_whole = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 1);
        let kept = after(false, seed);
        assert!(is_whole(&kept[..4608]) && is_whole(&kept[5632..]));
        let torn = after(true, seed);
        assert!(is_whole(&torn[..4096]) && is_whole(&torn[8192..]), "other pages are not touched");
        damaged += u32::from(!is_whole(&torn[4096..4608]) || !is_whole(&torn[5632..8192]));
    }
    assert!(damaged > 30, "{damaged}");
}

#[test]
fn a_full_disk_that_copies_on_write_refuses_to_overwrite_until_there_is_room() {
    let disk = SimDisk::new();
    disk.set_copies_on_write(true);
    let file = disk.create("file").expect("creates");
    file.write_at(&[1; 1000], 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.set_capacity(Some(1300));
    file.write_at(&[2; 200], 100).expect("there is room for a copy");
    assert_eq!(disk.used_bytes(), 1200);
    let refused = file.write_at(&[3; 200], 600).expect_err("and for a part of another one");
    assert!(refused.is_full());
    let bytes = disk.bytes("file");
    assert!(bytes[600..700].iter().all(|byte| *byte == 3) && bytes[700] == 1);
    file.sync_data().expect("syncs");
    assert_eq!(disk.used_bytes(), 1000, "what was overwritten is free");
    file.write_at(&[3; 200], 600).expect("so there is room again");
    disk.set_copies_on_write(false);
    disk.set_capacity(Some(0));
    file.write_at(&[4; 1000], 0).expect("in place");
}
