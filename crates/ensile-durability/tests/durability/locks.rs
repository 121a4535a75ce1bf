//! Which lock keeps whom out (I3), where folders can be locked, where some cannot and where none can; and that nothing
//! is written into a folder before it has proved to be this database's (I1).

use std::path::Path;

use crate::prelude::*;

/// Two logs in folders that are linked, and no other folder.
fn linked() -> LogConfig {
    LogConfig { folders: vec!["/a".into(), "/b".into()], ..config(2) }
}

fn open(disk: &SimDisk, config: LogConfig) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.mounted()), config, Clock::manual())
}

fn put(rig: &Rig, key: u64) {
    rig.commit_epoch(&mut rig.worker(), key, b"row");
    assert_eq!(rig.log.durable_epoch().next(), rig.epochs.now(), "it is durable");
}

/// A database with a row, closed.
fn made(machine: &SimDisk, path: &str, config: LogConfig) -> SimDisk {
    let disk = machine.at(path);
    let rig = open(&disk, config).expect("opens");
    put(&rig, 1);
    rig.log.close().expect("closes");
    disk
}

/// A second process opens, examines, repairs and adopts nothing.
#[track_caller]
fn keeps_all_out(disk: &SimDisk) {
    in_use(open(disk, linked()));
    let on: Arc<dyn Disk> = Arc::new(disk.mounted());
    in_use(examine(&on, &Map::default()));
    in_use(repair(&on, &Map::default()));
    in_use(adopt(&on));
}

/// Every file of the machine with its length and checksum: main folders and linked ones.
fn tree(machine: &SimDisk) -> BTreeMap<String, (usize, u32)> {
    let all = machine.at("/");
    let of = |name: &String| (all.bytes(name).len(), crc32c(&all.bytes(name)));
    all.files().into_iter().map(|name| (name.clone(), of(&name))).collect()
}

#[track_caller]
fn in_use<T>(opened: Result<T, DurabilityError>) {
    match opened.map(drop) {
        Err(DurabilityError::InUse { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn i3_the_lock_on_the_main_folder_alone_keeps_others_out_when_each_lock_file_is_removed() {
    // The devices of the logs cannot lock folders, so there a file was locked.
    let machine = SimDisk::new();
    machine.set_no_lock_of_folder("/a");
    machine.set_no_lock_of_folder("/b");
    let disk = machine.at("/db");
    let rig = open(&disk, linked()).expect("opens");
    put(&rig, 1);
    for file in ["/db/LOCK", "/a/LOCK", "/b/LOCK"] {
        assert!(tree(&machine).contains_key(&file[1..]), "{file} is there");
        machine.lose(file);
    }
    let before = tree(&machine);
    keeps_all_out(&disk);
    assert_eq!(tree(&machine), before);
    put(&rig, 2);
    rig.log.close().expect("closes");
    drop(rig);
    assert_eq!(open(&disk, linked()).expect("opens").rows.len(), 2);
}

#[test]
fn i3_the_lock_on_the_main_folder_alone_keeps_a_repair_out_when_the_logs_folder_is_moved_away() {
    let machine = SimDisk::new();
    let disk = machine.at("/db");
    let rig = open(&disk, config(1)).expect("opens");
    put(&rig, 1);
    machine.lose("/db/LOCK");
    machine.move_to("/db/log0", "/aside");
    let before = tree(&machine);
    let on: Arc<dyn Disk> = Arc::new(disk.mounted());
    in_use(repair_with(
        &on,
        &Map::default(),
        RepairOptions { picture_alone: true, ..RepairOptions::default() },
    ));
    assert_eq!(tree(&machine), before);
    put(&rig, 2);
    machine.move_to("/aside", "/db/log0");
    rig.log.close().expect("closes");
    drop(rig);
    assert_eq!(open(&disk, config(1)).expect("opens").rows.len(), 2);
}

#[test]
fn i3_where_folders_cannot_be_locked_their_lock_files_keep_a_second_process_out() {
    let machine = SimDisk::new();
    machine.set_no_folder_locks(true);
    let disk = machine.at("/db");
    let rig = open(&disk, linked()).expect("opens");
    put(&rig, 1);
    let before = tree(&machine);
    keeps_all_out(&disk);
    // `LOCK` alone removed: the linked folders have each its own.
    machine.lose("/db/LOCK");
    in_use(open(&disk, linked()));
    let mut after = tree(&machine);
    after.remove("db/LOCK");
    let before = before.into_iter().filter(|(name, _)| name != "db/LOCK").collect();
    assert_eq!(after, before);
}

#[test]
fn i3_where_folders_cannot_be_locked_a_process_whose_lock_was_replaced_makes_no_more_files() {
    let machine = SimDisk::new();
    machine.set_no_folder_locks(true);
    let disk = machine.at("/db");
    let first = open(&disk, config(1)).expect("opens");
    put(&first, 1);
    for file in ["/db/LOCK", "/db/log0/LOCK"] {
        machine.lose(file);
    }
    let second = open(&disk, config(1)).expect("its locks are others");
    assert_eq!(second.rows.len(), 1);
    put(&second, 2);
    let names = |machine: &SimDisk| tree(machine).into_keys().collect::<Vec<_>>();
    let (before, manifest) = (names(&machine), machine.bytes("/db/MANIFEST"));
    // More than the file holds, so that the next one is wanted.
    let mut worker = first.worker();
    for key in 0..40 {
        let _ = worker.commit(&first.epochs, key, &[1; 1000]);
        first.settle();
    }
    let refused = worker.commit(&first.epochs, 99, b"refused");
    let Err(DurabilityError::Stopped(why)) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("LOCK is in use"), "{why}");
    assert!(first.log.close().is_err());
    drop((worker, first));
    assert_eq!((names(&machine), machine.bytes("/db/MANIFEST")), (before, manifest), "all is the second's");
    put(&second, 3);
    second.log.close().expect("closes");
    drop(second);
    let rows = open(&disk, config(1)).expect("opens").rows;
    assert!([1, 2, 3].iter().all(|key| rows.contains_key(key)), "{:?}", rows.keys());
}

#[test]
fn i3_where_nothing_can_be_locked_an_open_is_refused_and_says_so() {
    let machine = SimDisk::new();
    machine.set_no_locks(true);
    let refused = open(&machine.at("/new"), config(1)).map(drop).expect_err("nothing keeps others out");
    assert!(refused.to_string().contains("cannot lock"), "{refused}");
    assert!(!tree(&machine).contains_key("new/MANIFEST"));
    machine.set_no_locks(false);
    let disk = made(&machine, "/db", config(1));
    machine.set_no_locks(true);
    let before = tree(&machine);
    let refused = open(&disk, config(1)).map(drop).expect_err("nothing keeps others out");
    assert!(refused.to_string().contains("cannot lock"), "{refused}");
    let on: Arc<dyn Disk> = Arc::new(disk.mounted());
    for refused in [repair(&on, &Map::default()).map(drop), adopt(&on).map(drop)] {
        assert!(refused.expect_err("nothing keeps others out").to_string().contains("cannot lock"));
    }
    assert_eq!(tree(&machine), before);
}

#[test]
fn i1_nothing_is_written_into_a_folder_of_another_database_where_folders_cannot_be_locked() {
    let machine = SimDisk::new();
    machine.set_no_folder_locks(true);
    made(&machine, "/db", linked());
    for file in ["/db/LOCK", "/a/LOCK", "/b/LOCK"] {
        machine.lose(file);
    }
    // A link that somebody made, in a database that has to claim the folder.
    let other = machine.at("/other");
    drop(open(&other, config(1)).expect("opens"));
    machine.link("/other/log1", Path::new("/a"));
    let before = tree(&machine);
    let refused = open(&other, config(2)).map(drop);
    assert!(matches!(refused, Err(DurabilityError::ForeignFolder { .. })), "{refused:?}");
    assert_eq!(tree(&machine), before);
    // A link in the place of a folder that is listed.
    machine.lose("/other/log1");
    machine.move_to("/other/log0", "/aside");
    machine.link("/other/log0", Path::new("/a"));
    let before = tree(&machine);
    let refused = open(&other, config(1)).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Damaged { .. })), "{refused:?}");
    let on: Arc<dyn Disk> = Arc::new(other.mounted());
    assert!(repair(&on, &Map::default()).is_err());
    assert!(adopt(&on).is_err());
    assert_eq!(tree(&machine), before);
}

#[test]
fn i1_nothing_is_written_into_a_copy_that_is_refused() {
    for cannot_lock in [false, true] {
        let machine = SimDisk::new();
        machine.set_no_folder_locks(cannot_lock);
        made(&machine, "/db", linked());
        made(&machine, "/plain", config(1));
        for file in ["/db/LOCK", "/a/LOCK", "/b/LOCK", "/plain/LOCK", "/plain/log0/LOCK"] {
            machine.lose(file);
        }
        machine.copy_tree("/db", "/copy");
        machine.copy_tree("/plain", "/plain-copy");
        let before = tree(&machine);
        for (path, config) in [("/copy", linked()), ("/plain-copy", config(1))] {
            let copy = machine.at(path);
            let refused = open(&copy, config).map(drop);
            assert!(matches!(refused, Err(DurabilityError::Copied { .. })), "{path}: {refused:?}");
            let refused = repair(&handle(copy.mounted()), &Map::default()).map(drop);
            assert!(matches!(refused, Err(DurabilityError::Copied { .. })), "{path}: {refused:?}");
        }
        // Its links lead to the original's folders.
        let refused = adopt(&handle(machine.at("/copy").mounted())).map(drop);
        assert!(matches!(refused, Err(DurabilityError::ForeignFolder { .. })), "{refused:?}");
        assert_eq!(tree(&machine), before, "folders cannot be locked: {cannot_lock}");
    }
}

/// Of whatever reason: `LOCK` is a file, and the marks of folders are.
#[test]
fn i1_an_open_that_is_refused_leaves_nothing_behind() {
    let named = |name: &str| Naming::Named(application_name(name).expect("a name"));
    for cannot_lock in [false, true] {
        let machine = SimDisk::new();
        machine.set_no_folder_locks(cannot_lock);
        let own = LogConfig { naming: named("prices"), ..linked() };
        let disk = made(&machine, "/db", own.clone());
        made(&machine, "/other", LogConfig { folders: vec!["/c".into(), "/d".into()], ..config(2) });
        for file in ["/db/LOCK", "/a/LOCK", "/b/LOCK", "/c/LOCK", "/d/LOCK"] {
            machine.lose(file);
        }
        let before = tree(&machine);
        let refused = |config: LogConfig| {
            let why = open(&disk, config).map(drop).expect_err("is refused");
            assert_eq!(tree(&machine), before, "folders cannot be locked: {cannot_lock}; {why}");
            why
        };
        let stock = LogConfig { naming: named("stock"), ..own.clone() };
        assert!(matches!(refused(stock), DurabilityError::OtherApplication { .. }));
        let nameless = LogConfig { naming: Naming::Nameless, ..own.clone() };
        assert!(matches!(refused(nameless), DurabilityError::OtherApplication { .. }));
        let new = LogConfig { opening: Opening::New, ..own.clone() };
        assert!(matches!(refused(new), DurabilityError::DatabaseExists { .. }));
        // The second log's folder is not the database's any more; the first one's is.
        machine.move_to("/b", "/aside");
        machine.copy_tree("/aside", "/b");
        let moved = tree(&machine);
        let why = open(&disk, own.clone()).map(drop).expect_err("is a copy");
        assert!(matches!(why, DurabilityError::Copied { .. }), "{why}");
        assert_eq!(tree(&machine), moved, "folders cannot be locked: {cannot_lock}");
        // Checkpointers' folders, of which the second one is another database's: no mark in the first one either.
        machine.lose("/b");
        machine.move_to("/aside", "/b");
        let others = LogConfig { checkpointers: 2, ..own.clone() };
        let _ = machine.at("/new");
        machine.link("/db/checkpoint0", Path::new("/new"));
        machine.link("/db/checkpoint1", Path::new("/d"));
        let why = open(&disk, others).map(drop).expect_err("is another one's");
        assert!(matches!(why, DurabilityError::ForeignFolder { .. }), "{why}");
        let is_left = |name: &String| name.starts_with("new/") || name == "d/LOCK";
        let left: Vec<String> = tree(&machine).into_keys().filter(is_left).collect();
        assert!(left.is_empty(), "{left:?}");
        drop(open(&disk, own).expect("is its own"));
    }
}

#[test]
fn i1_a_mark_is_not_put_in_its_place_in_a_copy_of_a_folder() {
    let machine = SimDisk::new();
    let disk = made(&machine, "/db", linked());
    let adopting = machine.fork();
    let mut placed = None;
    // An adoption that power cuts off behind its manifest leaves marks that are prepared.
    for call in adopting.calls().all + 1.. {
        let machine = machine.fork();
        machine.cut_power_at(call);
        let adopted = adopt(&handle(machine.at("/db").mounted()));
        assert!(adopted.is_err(), "no call left prepared marks behind the manifest");
        machine.crash_with(ensile_sim::Survival::Everything, call);
        let is_prepared = tree(&machine).contains_key("a/FOLDER.new");
        if is_prepared && machine.at("/db").bytes("MANIFEST") != disk.bytes("MANIFEST") {
            placed = Some(machine);
            break;
        }
    }
    let machine = placed.expect("there is such a call");
    machine.copy_tree("/a", "/c");
    machine.link("/db/log0", Path::new("/c"));
    let before = tree(&machine);
    let refused = open(&machine.at("/db"), linked_to("/c")).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Copied { .. })), "{refused:?}");
    assert_eq!(tree(&machine), before);
    // In the folder itself it is.
    machine.link("/db/log0", Path::new("/a"));
    assert_eq!(open(&machine.at("/db"), linked()).expect("opens").rows.len(), 1);
    assert!(!tree(&machine).contains_key("a/FOLDER.new"));
}

fn linked_to(first: &str) -> LogConfig {
    LogConfig { folders: vec![first.into(), "/b".into()], ..config(2) }
}

#[test]
fn one_folder_under_two_names_is_told_with_the_link_that_is_to_go() {
    let machine = SimDisk::new();
    let disk = made(&machine, "/db", config(2));
    machine.move_to("/db/log1", "/aside");
    machine.link("/db/log1", Path::new("/db/log0"));
    let refused = open(&disk, config(2)).map(drop).expect_err("one folder for two logs");
    assert!(refused.to_string().contains("remove the link log1"), "{refused}");
}
