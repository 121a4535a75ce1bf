//! Adoptions of what a process-safe life left (B4, B5): they take what an open would take, and lose nothing without
//! being asked to.

use super::*;

/// An adoption refuses to lose what this says, and changes nothing. Where that is agreed to it says the same.
fn assert_would_lose(disk: &SimDisk, says: &str) -> NotProven {
    let before: BTreeMap<_, _> =
        disk.files().into_iter().map(|file| (file.clone(), disk.bytes(&file))).collect();
    let refused = adopt(&handle(disk.mounted())).map(drop).expect_err("it would lose something");
    let said = refused.to_string();
    assert!(said.contains(says) && said.contains("ensile adopt --without-buffers"), "{said}");
    let DurabilityError::WouldLose { left, .. } = refused else { panic!("{refused}") };
    assert_eq!(disk.files(), before.keys().cloned().collect::<Vec<_>>());
    assert!(before.iter().all(|(file, bytes)| disk.bytes(file) == *bytes), "nothing was changed");
    let adopted = give_up(&disk.fork()).expect("is agreed to");
    assert_eq!(adopted.not_proven.as_ref(), Some(&*left));
    *left
}

/// A folder `original` of a process-safe life that was not closed, with a durable row and one that was returned; and a
/// copy of it.
fn copied(machine: &SimDisk) -> (SimDisk, SimDisk) {
    let disk = machine.at("original");
    let rig = open(&disk, safe(1));
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    worker.commit(&rig.epochs, 2, &[1; 100]).expect("runs");
    machine.copy_tree("original", "copy");
    machine.kill();
    (disk, machine.at("copy"))
}

#[test]
fn b4_an_adoption_refuses_to_lose_what_a_process_safe_life_returned() {
    let machine = SimDisk::new();
    let (disk, copy) = copied(&machine);
    let left = assert_would_lose(&copy, "the folder is a copy, and a copy proves nothing");
    assert_eq!((left.reason, &left.files), (NotProvenReason::Copied, &buffers(&copy)));
    assert!(left.files.len() == 1 && left.last > left.durable, "{left:?}");
    let loss = format!(
        "results above epoch {} that were acknowledged at the level Process ({})",
        left.durable, left.files[0]
    );
    assert_eq!(left.loss(), loss);
    assert!(left.to_string().starts_with(&format!("{loss} may be missing. An open leaves")), "{left}");
    // It is agreed to once.
    give_up(&copy).expect("is agreed to");
    assert_eq!(adopt(&handle(copy.mounted())).expect("nothing more is lost").not_proven, None);
    // What the original has is taken there, and a copy of that is whole.
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).len(), 2);
    rig.log.close().expect("closes");
    drop(rig);
    machine.copy_tree("original", "again");
    let again = machine.at("again");
    assert_eq!(adopt(&handle(again.mounted())).expect("a closed life loses nothing").not_proven, None);
    assert_eq!(found(&open(&again, safe(1))).len(), 2);
}

#[test]
fn b4_an_adoption_refuses_to_lose_what_stands_in_a_log_behind_its_marks() {
    let (machine, disk) = machine_with_original();
    let (rig, _worker, _) = durable_and_returned(&disk, 2);
    // One log has it, and a mark of it; the other one has no mark, so it is not durable.
    rig.advance();
    for _ in 0..3 {
        rig.log.logger_step(0);
    }
    machine.copy_tree("original", "copy");
    machine.kill();
    let copy = machine.at("copy");
    let logs: Vec<_> = copy.files().into_iter().filter(|name| name.starts_with("log0/log-")).collect();
    let left = assert_would_lose(&copy, &logs[0]);
    assert_eq!(left.files, logs);
    give_up(&copy).expect("is agreed to");
    let rig = open(&copy, safe(2));
    assert_eq!((found(&rig).len(), rig.report.ignored_entries), (1, 1));
    assert_eq!(told(rig.report.not_proven.as_ref()), left);
    assert_eq!(found(&open(&disk, safe(2))).len(), 2);
}

/// A folder whose process died, and whose log's mark is lost: an open sends its user to an adoption.
fn without_mark() -> SimDisk {
    let disk = left(1);
    disk.lose("log0/FOLDER");
    let error = try_open(&disk, safe(1)).err().expect("nothing shows whose it is").to_string();
    assert!(error.contains("`ensile adopt`"), "{error}");
    disk
}

#[test]
fn b4_an_adoption_takes_what_an_open_would_take_of_the_folder_that_its_process_left() {
    let disk = without_mark();
    let adopted = adopt(&handle(disk.mounted())).expect("loses nothing");
    assert_eq!((adopted.taken_entries, adopted.not_proven), (1, None));
    let rig = open(&disk, safe(1));
    assert_eq!((found(&rig).len(), rig.report.not_proven.as_ref(), rig.report.taken_entries), (2, None, 0));
}

#[test]
fn b5_an_adoption_that_dies_at_any_call_is_made_again_and_loses_nothing() {
    for count in 1.. {
        let disk = without_mark();
        disk.cut_power_at(disk.calls().all + count);
        let has_ended = adopt(&handle(disk.mounted())).is_ok() && !disk.is_without_power();
        if has_ended {
            assert!(count > 20, "each call was one to die at");
            return;
        }
        disk.kill();
        let again = adopt(&handle(disk.mounted())).unwrap_or_else(|error| panic!("call {count}: {error}"));
        assert_eq!(again.not_proven, None, "call {count}");
        assert_eq!(found(&open(&disk, safe(1))).len(), 2, "call {count}");
    }
}

#[test]
fn b4_an_adoption_asks_where_the_boot_cannot_be_read_or_is_another_one() {
    let disk = left(1);
    disk.set_no_boot(true);
    let left = assert_would_lose(&disk, "Open the folder where /proc/sys/kernel/random/boot_id");
    assert_eq!((left.reason, left.files), (NotProvenReason::UnknownBoot, buffers(&disk)));
    disk.set_no_boot(false);
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
    // A copy of the whole device: each file has its number and its birth.
    let disk = super::left(1);
    disk.crash_with(Survival::Everything, 1);
    let left = assert_would_lose(&disk, "the operating system has started again");
    assert_eq!((left.reason, left.files), (NotProvenReason::OtherBoot, buffers(&disk)));
}

#[test]
fn b4_a_folder_of_which_a_linked_log_folder_alone_was_copied_is_a_copy_to_each_that_asks() {
    let machine = SimDisk::new();
    let disk = machine.at("/db");
    let rig = open(&disk, LogConfig { folders: vec!["/a".into()], ..safe(1) });
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    worker.commit(&rig.epochs, 2, b"returned").expect("runs");
    machine.kill();
    machine.copy_tree("/a", "/b");
    machine.link("/db/log0", "/b".as_ref());
    let error = try_open(&disk, safe(1)).err().expect("a copy");
    assert!(matches!(error, DurabilityError::Copied { .. }), "{error}");
    let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
    let left = told(examined.not_proven.as_ref());
    assert_eq!((left.reason, examined.to_take), (NotProvenReason::Copied, None));
    assert_eq!(left.files, buffers(&disk));
    assert_eq!(assert_would_lose(&disk, "the folder is a copy, and a copy proves nothing"), left);
    give_up(&disk).expect("is agreed to");
    let rig = open(&disk, safe(1));
    assert_eq!((found(&rig).len(), told(rig.report.not_proven.as_ref())), (1, left));
}

#[test]
fn b4_an_adoption_of_a_damaged_folder_says_why_an_open_takes_nothing_and_names_what_is_above_d() {
    // In the boot of its process, and with D.
    let (disk, durable, _) = left_by_two();
    let both = buffers(&disk);
    assert_eq!(both.len(), 2);
    flip(&disk, &both[1], 140);
    let left = assert_would_lose(&disk, "`ensile verify DIR --repair`: the repair keeps the readable part");
    assert_eq!((left.reason, left.is_left_out(), left.durable), (NotProvenReason::Damaged, false, durable));
    assert_eq!(left.files, both);
    assert_eq!(
        told(examine(&handle(disk.mounted()), &Map::default()).expect("reads").not_proven.as_ref()),
        left
    );
    // In another one.
    disk.crash_with(Survival::Everything, 1);
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    disk.lose(&log);
    let left = assert_would_lose(&disk, "the operating system has started again");
    assert_eq!(left.reason, NotProvenReason::OtherBoot);
}

#[test]
fn b4_an_adoption_without_a_log_tells_the_others_by_their_own_blocks_and_marks() {
    let (machine, disk) = machine_with_original();
    let rig = open(&disk, safe(2));
    let mut workers = [rig.worker(), rig.worker()];
    for (key, worker) in (1..).zip(&mut workers) {
        worker.commit(&rig.epochs, key, b"durable").expect("runs");
    }
    rig.settle();
    let durable = rig.log.durable_epoch();
    machine.copy_tree("original", "copy");
    machine.kill();
    let copy = machine.at("copy");
    let logs: Vec<_> = copy.files().into_iter().filter(|name| name.starts_with("log0/log-")).collect();
    logs.iter().for_each(|log| copy.lose(log));
    let left = assert_would_lose(&copy, "the folder is a copy, and a copy proves nothing");
    assert!(left.files.iter().all(|file| file.starts_with("log0/")), "log 1 has all of its own: {left:?}");
    assert_eq!((left.last, left.durable), (durable, durable));
}

#[test]
fn b4_an_adoption_asks_about_buffers_that_were_not_copied() {
    let machine = SimDisk::new();
    let (_, copy) = copied(&machine);
    let buffer = buffers(&copy).remove(0);
    copy.lose(&buffer);
    let left = assert_would_lose(&copy, &buffer);
    assert_eq!(left.files, [buffer]);
    // Without their list nobody knows which there were.
    let machine = SimDisk::new();
    let (_, copy) = copied(&machine);
    let list = lists(&copy).remove(0);
    copy.lose(&list);
    let left = assert_would_lose(&copy, &list);
    assert_eq!(left.files, [list, buffers(&copy).remove(0)]);
}

#[test]
fn b4_an_adoption_asks_about_a_buffer_that_was_written_to_the_log_while_it_was_copied() {
    let (machine, disk) = machine_with_original();
    let rig = open(&disk, safe(1));
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    // The log is copied first.
    machine.copy_tree("original", "copy");
    let copy = machine.at("copy");
    rig.commit_epoch(&mut worker, 2, b"returned");
    for name in disk.files().into_iter().filter(|name| name.contains("/buffer")) {
        copy.put(&name, disk.bytes(&name));
    }
    let left = assert_would_lose(&copy, "the folder is a copy, and a copy proves nothing");
    assert_eq!((left.files, left.last), (buffers(&copy), left.durable));
}

#[test]
fn b4_an_adoption_of_a_damaged_copy_asks_though_no_file_shows_a_loss() {
    let (machine, disk) = machine_with_original();
    let rig = open(&disk, safe(1));
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    machine.copy_tree("original", "copy");
    let copy = machine.at("copy");
    let log = copy.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    copy.lose(&log);
    // As if each buffer had gone once its entries were in the log.
    buffers(&copy).iter().for_each(|name| copy.lose(name));
    let list = lists(&copy).remove(0);
    copy.put(&list, vec![0; copy.bytes(&list).len()]);
    let left = assert_would_lose(&copy, "acknowledged at the level Process may be missing");
    assert!(left.files.is_empty(), "{left:?}");
}

#[test]
fn b4_an_adoption_of_a_damaged_copy_tells_all_that_its_buffers_hold() {
    let machine = SimDisk::new();
    let (_, copy) = copied(&machine);
    let log = copy.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    copy.lose(&log);
    let left = assert_would_lose(&copy, "the folder is a copy, and a copy proves nothing");
    assert_eq!(left.files, buffers(&copy));
    // So does a buffer that cannot be read.
    let machine = SimDisk::new();
    let (_, copy) = copied(&machine);
    let buffer = buffers(&copy).remove(0);
    flip(&copy, &buffer, 140);
    let left = assert_would_lose(&copy, &buffer);
    assert_eq!(left.files, [buffer]);
}

#[test]
fn b4_an_adoption_asks_nothing_where_no_process_safe_life_was_left() {
    for level in [config(1), safe(1)] {
        let (machine, disk) = machine_with_original();
        let is_safe = level.process_safe;
        let rig = open(&disk, level);
        rig.commit_epoch(&mut rig.worker(), 1, b"durable");
        // Of a relaxed life what was returned was not promised, and this one's is durable.
        if !is_safe {
            rig.worker().commit(&rig.epochs, 2, b"relaxed").expect("runs");
        }
        machine.copy_tree("original", "copy");
        let copy = machine.at("copy");
        assert_eq!(adopt(&handle(copy.mounted())).expect("loses nothing").not_proven, None);
        assert_eq!(found(&open(&copy, config(1))).into_keys().collect::<Vec<_>>(), [1]);
    }
}
