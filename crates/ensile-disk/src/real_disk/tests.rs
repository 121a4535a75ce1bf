//! The machine's files through the trait, in a folder of their own.

use super::RealDisk;
use crate::test_folder::TestFolder;
use crate::{Disk, DiskError, Operation};

#[test]
fn what_is_written_is_read_back_and_reads_stop_at_the_end() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let file = disk.create("a").expect("create");
    assert!(file.is_empty().expect("length"));
    file.write_at(b"hello", 3).expect("write");
    file.sync_data().expect("sync");
    let mut bytes = [9; 16];
    assert_eq!(disk.open("a").expect("open").read_at(&mut bytes, 0).expect("read"), 8);
    assert_eq!(&bytes[..8], b"\0\0\0hello");
}

#[test]
fn preallocated_space_reads_as_zeros_and_never_shrinks_the_file() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let file = disk.create("a").expect("create");
    file.write_at(b"xyz", 0).expect("write");
    file.preallocate(1 << 20).expect("preallocate");
    assert_eq!(file.len().expect("length"), 1 << 20);
    file.preallocate(10).expect("preallocate less");
    assert_eq!(file.len().expect("length"), 1 << 20);
    let mut bytes = [1; 8];
    file.read_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"xyz\0\0\0\0\0");
    file.set_len(2).expect("cut");
    assert_eq!(file.len().expect("length"), 2);
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create_folder("sub/deep").expect("folder");
    for name in ["b", "a", "sub/c"] {
        disk.create(name).expect("create");
    }
    assert_eq!(disk.list("").expect("list"), ["a", "b"]);
    assert_eq!(disk.list("sub").expect("list"), ["c"]);
    disk.rename("a", "b").expect("replaces b");
    disk.sync_folder("").expect("sync");
    assert_eq!(disk.list("").expect("list"), ["b"]);
    assert!(disk.exists("b").expect("exists") && !disk.exists("a").expect("exists"));
    disk.remove("b").expect("remove");
    assert!(disk.list("").expect("list").is_empty());
}

#[test]
fn n20_a_removed_file_gives_its_space_back_in_pieces_only_if_nobody_else_can_read_it() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let make = |name: &str| disk.create(name).expect("create").write_at(&[7; 20_000], 0).expect("written");
    make("alone");
    let mut kept = disk.remove_slowly("alone").expect("removed").expect("this system has leases");
    assert!(!disk.exists("alone").expect("looked"));
    assert_eq!([1, 9_000, 8_000].map(|bytes| kept.give_back(bytes)), [16_384, 4_096, 0]);

    make("read");
    let reader = disk.open_to_read("read").expect("open");
    assert!(disk.remove_slowly("read").expect("removed").is_none());
    let mut bytes = [0; 20_000];
    assert_eq!((reader.read_at(&mut bytes, 0).expect("read"), bytes), (20_000, [7; 20_000]));

    make("linked");
    disk.add_name("linked", "other").expect("linked");
    assert!(disk.remove_slowly("linked").expect("removed").is_none());
    assert_eq!(disk.open("other").expect("there").len().expect("length"), 20_000);

    make("mapped");
    let mapped = disk.open("mapped").expect("open").map(4096).expect("mapped");
    assert!(disk.remove_slowly("mapped").expect("removed").is_none());
    drop(mapped);
    assert!(disk.remove_slowly("mapped").expect_err("gone").is_not_found());
}

#[test]
fn a_lock_has_one_holder_at_a_time() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let held = disk.lock("LOCK").expect("free");
    let other = RealDisk::open(folder.path()).expect("the same folder");
    assert!(matches!(other.lock("LOCK"), Err(DiskError::InUse { .. })));
    drop(held);
    other.lock("LOCK").expect("free again");
}

#[test]
fn readers_share_a_lock_that_is_there_and_make_none() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    assert!(disk.lock_to_read("LOCK").expect("nobody has it").is_none());
    assert!(!disk.exists("LOCK").expect("asked"), "a reader makes no file");
    let held = disk.lock("LOCK").expect("free");
    assert!(matches!(disk.lock_to_read("LOCK"), Err(DiskError::InUse { .. })));
    drop(held);
    let readers = [disk.lock_to_read("LOCK"), disk.lock_to_read("LOCK")].map(|lock| lock.expect("shared"));
    assert!(readers.iter().all(Option::is_some));
    assert!(matches!(disk.lock("LOCK"), Err(DiskError::InUse { .. })), "nothing changes under a reader");
    drop(readers);
    disk.lock("LOCK").expect("free again");
}

#[test]
fn a_file_opened_to_read_is_not_written() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create("a").expect("create").write_at(b"hello", 0).expect("write");
    let file = disk.open_to_read("a").expect("open");
    assert!(file.write_at(b"x", 0).is_err());
    let mut bytes = [0; 5];
    file.read_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"hello");
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let error = disk.open("missing").expect_err("there is none");
    assert!(error.is_not_found());
    assert!(
        matches!(&error, DiskError::Io { operation: Operation::Open, path, .. } if path.ends_with("missing"))
    );
    assert!(error.to_string().contains("cannot open"), "{error}");
}

#[test]
fn a_folder_that_is_renamed_goes_on_being_ours_and_one_in_its_place_is_not_touched() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.path()).expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let disk = RealDisk::open(path("db")).expect("made");
    disk.create_folder("log0").expect("folder");
    let file = disk.create("log0/a").expect("create");
    std::fs::rename(path("db"), path("old")).expect("rename");
    std::fs::create_dir_all(path("db/log0")).expect("another one");
    for name in ["MANIFEST", "log0/a", "log0/b"] {
        std::fs::write(path("db").join(name), "theirs").expect("written");
    }
    let names =
        |folder: &str| RealDisk::open_existing(path(folder)).expect("there").list("").expect("listed");
    file.write_at(b"ours", 0).expect("write");
    disk.create("MANIFEST.new").expect("create").write_at(b"ours", 0).expect("write");
    disk.rename("MANIFEST.new", "MANIFEST").expect("rename");
    disk.rename("log0/a", "log0/c").expect("rename");
    disk.create("log0/b").expect("create");
    disk.remove("log0/b").expect("remove");
    drop((disk.lock("LOCK").expect("free"), disk.lock_folder("log0").expect("free")));
    disk.sync_folder("log0").and_then(|()| disk.sync_folder("")).expect("sync");
    assert_eq!(
        (names("old"), names("old/log0")),
        (vec!["LOCK".into(), "MANIFEST".into()], vec!["c".to_owned()])
    );
    assert_eq!((names("db"), names("db/log0")), (vec!["MANIFEST".to_owned()], vec!["a".into(), "b".into()]));
    for name in ["MANIFEST", "log0/a", "log0/b"] {
        assert_eq!(std::fs::read(path("db").join(name)).expect("read"), b"theirs", "{name}");
    }
}

#[test]
fn a_link_that_leads_elsewhere_while_the_disk_is_open_is_not_followed_again() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    disk.link_folder("log0", &path("first")).expect("linked");
    disk.link_folder("log0", &path("first")).expect("it leads there");
    assert!(disk.link_folder("log0", &path("second")).expect_err("it leads elsewhere").is_already_exists());
    disk.create("log0/a").expect("create");
    assert!(disk.list("").expect("listed").is_empty(), "a link to a folder is no file");
    std::fs::remove_file(path("log0")).expect("remove");
    std::os::unix::fs::symlink(path("second"), path("log0")).expect("another link");
    disk.create("log0/b").expect("create");
    assert_eq!(disk.list("log0").expect("listed"), ["a", "b"]);
    let anew = RealDisk::open_existing(folder.path()).expect("there");
    assert!(anew.list("log0").expect("listed").is_empty(), "an open looks again");
    std::fs::remove_dir(path("second")).expect("remove");
    assert!(matches!(anew.folder_kind("log0"), Ok(crate::FolderKind::Link { is_there: false, .. })));
    assert_eq!(anew.list("").expect("listed"), ["log0"], "one that leads nowhere is something that is there");
}

#[test]
fn a_folder_in_one_that_was_replaced_is_looked_for_in_the_one_that_is_held() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create_folder("archive").expect("a folder");
    std::fs::rename(folder.path().join("archive"), folder.path().join("moved")).expect("it is renamed");
    std::fs::create_dir_all(folder.path().join("archive/log0")).expect("another one is in its place");
    disk.create_folder("archive/log0").expect("a folder in the one that is held");
    disk.create("archive/log0/a").expect("a file in it");
    assert!(folder.path().join("moved/log0/a").exists() && !folder.path().join("archive/log0/a").exists());
    assert_eq!(disk.list("archive/log0").expect("is listed"), ["a"]);
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create_folder("sub/deep").expect("folder");
    disk.link_folder("linked", &folder.path().join("target")).expect("linked");
    disk.create("sub/file").expect("create");
    drop(disk.lock("LOCK").expect("free"));
    let mode =
        |name: &str| std::fs::metadata(folder.path().join(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(["", "sub", "sub/deep", "target"].map(mode), [0o700; 4]);
    assert_eq!(["sub/file", "LOCK"].map(mode), [0o600; 2]);
}

#[test]
fn only_the_last_folder_is_made_and_only_where_that_was_asked_for() {
    let folder = TestFolder::new();
    let deep = folder.path().join("db");
    let error = RealDisk::open(&deep).expect_err("the folder above is missing");
    assert!(
        error.is_not_found() && matches!(&error, DiskError::Io { path, .. } if path == folder.path()),
        "{error}"
    );
    assert!(!folder.path().exists());
    std::fs::create_dir(folder.path()).expect("made");
    assert!(RealDisk::open_existing(&deep).expect_err("there is none").is_not_found());
    drop(RealDisk::open(&deep).expect("there was none"));
    drop((RealDisk::open_existing(&deep).expect("there"), RealDisk::open(&deep).expect("there")));
    std::fs::write(folder.path().join("file"), "").expect("written");
    for opened in [RealDisk::open, RealDisk::open_existing, RealDisk::open_hidden] {
        assert!(opened(folder.path().join("file")).is_err(), "a file is no folder");
    }
}

#[test]
fn n24_a_hidden_root_is_at_its_path_once_it_is_shown_and_goes_with_its_disk_before() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.path()).expect("made");
    let path = folder.path().join("db");
    let names = || std::fs::read_dir(folder.path()).expect("lists").count();
    let dropped = RealDisk::open_hidden(&path).expect("made");
    dropped.create("file").expect("made");
    assert!(dropped.is_hidden() && !path.exists() && names() == 1);
    assert_eq!(dropped.folder_place("").expect("it has one"), path.canonicalize().unwrap_or(path.clone()));
    drop(dropped);
    assert_eq!(names(), 0, "it goes with its disk");

    let (shown, late) =
        (RealDisk::open_hidden(&path).expect("made"), RealDisk::open_hidden(&path).expect("made"));
    shown.create("file").expect("made");
    shown.show_root().expect("nothing is there");
    assert!(path.join("file").exists() && !shown.is_hidden());
    assert!(late.show_root().expect_err("another one is there").is_already_exists());
    shown.create("later").expect("made");
    drop((shown, late));
    assert!(path.join("file").exists() && path.join("later").exists() && names() == 1);

    let existing = RealDisk::open_hidden(&path).expect("opens");
    assert!(!existing.is_hidden());
    existing.show_root().expect("it has its name");
    assert!(
        RealDisk::open_hidden(folder.path().join("none/db")).expect_err("no folder above").is_not_found()
    );
}

/// The limit holds for a whole process, so this test runs itself again in one of its own.
#[test]
fn a_file_does_not_grow_beyond_the_process_s_limit_and_no_signal_ends_the_process() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const AGAIN: &str = "ENSILE_TEST_FILE_LIMIT";
    if std::env::var_os(AGAIN).is_none() {
        let name = std::thread::current().name().expect("a test's name").to_owned();
        let this = std::env::current_exe().expect("a path");
        let run = std::process::Command::new(this).args(["--exact", &name]).env(AGAIN, "1").output();
        let run = run.expect("runs");
        let told = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success() && told.contains("1 passed"), "{:?} {told}", run.status);
        return;
    }
    let folder = TestFolder::new();
    let maximum = getrlimit(Resource::Fsize).maximum;
    let before = RealDisk::open(folder.path()).expect("a temporary folder");
    before.create("long").and_then(|file| file.write_at(&[1; 5000], 0)).expect("there is no limit yet");
    setrlimit(Resource::Fsize, Rlimit { current: Some(1000), maximum }).expect("a lower limit");
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let file = disk.create("a").expect("create");
    file.write_at(&[1; 900], 100).expect("up to the limit");
    let refused = [
        file.write_at(&[1], 1000),
        file.write_at(&[1; 2], u64::MAX),
        file.set_len(1001),
        file.preallocate(1001),
    ];
    for refused in refused {
        let error = refused.expect_err("beyond the limit");
        assert!(error.is_full(), "{error}");
    }
    assert_eq!(file.len().expect("length"), 1000);
    file.set_len(10).and_then(|()| file.preallocate(1000)).expect("within the limit");
    let long = disk.open("long").expect("opens");
    long.set_len(2000).expect("a file that is too long already is cut");
    assert!(long.set_len(2001).expect_err("beyond the limit").is_full());
    assert_eq!(long.len().expect("length"), 2000);
}

#[test]
fn a_folder_keeps_its_identity_when_renamed_and_a_copy_has_another() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create_folder("a").expect("folder");
    let id = disk.folder_id("a").expect("there");
    std::fs::rename(folder.path().join("a"), folder.path().join("b")).expect("rename");
    std::fs::create_dir(folder.path().join("a")).expect("another one");
    assert_eq!(disk.folder_id("a").expect("there"), id, "an open disk keeps the folder that it had");
    let anew = RealDisk::open_existing(folder.path()).expect("there");
    assert_eq!(anew.folder_id("b").expect("there"), id);
    assert_ne!(anew.folder_id("a").expect("there"), id);
    assert!(disk.folder_id("c").expect_err("none").is_not_found());
    disk.create("file").expect("create");
    assert!(disk.folder_id("file").is_err(), "a file is no folder");
    assert!(disk.free_bytes("a").expect("asked").is_some_and(|bytes| bytes > 0));
}

#[test]
fn a_folder_is_locked_by_itself_whatever_becomes_of_its_files() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let other = RealDisk::open(folder.path()).expect("the same folder");
    let held = disk.lock_folder("").expect("free");
    assert!(matches!(other.lock_folder(""), Err(DiskError::InUse { .. })));
    assert!(matches!(other.lock_folder_to_read(""), Err(DiskError::InUse { .. })));
    drop(held);
    let readers = [disk.lock_folder_to_read(""), other.lock_folder_to_read("")];
    assert!(readers.iter().all(Result::is_ok) && disk.lock_folder("").is_err());
    drop(readers);
    disk.lock_folder("").expect("free again");
}

#[test]
fn a_locked_file_that_was_removed_or_linked_says_so() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let lock = disk.lock("LOCK").expect("free");
    assert_eq!(lock.file_id().expect("id"), disk.file_id("LOCK").expect("id"));
    assert_eq!((lock.links().expect("links"), disk.links("LOCK").expect("links")), (1, 1));
    std::fs::hard_link(folder.path().join("LOCK"), folder.path().join("copy")).expect("link");
    assert_eq!(lock.links().expect("links"), 2);
    std::fs::remove_file(folder.path().join("copy")).expect("remove");
    disk.remove("LOCK").expect("remove");
    assert_eq!(lock.links().expect("links"), 0);
    disk.create("LOCK").expect("create");
    assert_ne!(lock.file_id().expect("id"), disk.file_id("LOCK").expect("id"));
}

#[test]
fn a_pipe_under_a_file_s_name_is_an_error_and_nobody_waits_for_it() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .expect("makes a pipe");
    let refused = [
        disk.open("pipe").map(drop),
        disk.open_to_read("pipe").map(drop),
        disk.create("pipe").map(drop),
        disk.lock("pipe").map(drop),
        disk.lock_to_read("pipe").map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("it is no file").to_string();
        assert!(error.contains("pipe") && error.contains("no file"), "{error}");
    }
}

#[test]
fn folders_whose_names_agree_in_a_part_are_told_apart() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let names = [
        "log1",
        "log10",
        "log",
        "archive",
        "archive/log1",
        "archive/archive",
        "archive/log1/log1",
        "archivelog1",
    ];
    let file = |name: &str| format!("of-{}", name.replace('/', "-"));
    // Those below others first, so that the last part of a name was seen before the whole of another one.
    for name in names.iter().rev() {
        disk.create_folder(name).expect("a folder");
        disk.create(&format!("{name}/{}", file(name))).expect("a file");
    }
    for disk in [&disk, &RealDisk::open_existing(folder.path()).expect("there")] {
        for name in names {
            assert_eq!(disk.list(name).expect("listed"), [file(name)], "{name}");
            assert!(folder.path().join(name).join(file(name)).exists(), "{name}");
            for other in names {
                let is_same = disk.is_same_folder(name, other).expect("both are there");
                assert_eq!(is_same, name == other, "{name} and {other}");
            }
        }
    }
}

/// Roots of file systems: most have one number.
#[cfg(target_os = "linux")]
#[test]
fn folders_of_one_number_on_two_devices_are_two_folders() {
    let disk = RealDisk::open_existing("/").expect("there");
    let there: Vec<_> = ["proc", "sys", "dev", "dev/shm", "dev/pts", "run"]
        .into_iter()
        .filter_map(|name| Some((name, disk.folder_id(name).ok()?.inode)))
        .collect();
    for (at, (name, _)) in there.iter().enumerate() {
        assert!(disk.is_same_folder(name, name).expect("it is there"));
        for (other, _) in &there[..at] {
            assert!(
                !disk.is_same_folder(name, other).expect("both are there"),
                "{name} and {other}: {there:?}"
            );
        }
    }
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    std::os::unix::fs::symlink("/proc", folder.path().join("linked")).expect("linked");
    let refused = disk.link_folder("linked", "/sys".as_ref()).expect_err("it leads to another one");
    assert!(refused.is_already_exists(), "{refused}");
}

#[test]
fn a_link_is_made_to_a_folder_without_files_only() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let target = folder.path().join("target");
    std::fs::create_dir_all(target.join("sub")).expect("made");
    std::fs::write(target.join("theirs"), "").expect("written");
    let refused = disk.link_folder("log0", &target).expect_err("it holds a file");
    assert!(refused.to_string().contains("choose an empty one"), "{refused}");
    assert!(!disk.exists("log0").expect("asked"));
    std::fs::remove_file(target.join("theirs")).expect("removed");
    disk.link_folder("log0", &target).expect("a folder in it is none of its files");
    assert_eq!(disk.list_folders("").expect("listed"), ["log0", "target"]);
    std::fs::remove_dir_all(&target).expect("removed");
    assert_eq!(disk.list_folders("").expect("listed"), ["log0"], "a link that leads nowhere now");
}

#[test]
fn a_read_that_ends_within_the_file_begins_where_it_was_asked_to() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let file = disk.create("a").expect("create");
    let written: Vec<u8> = (0..=255).collect();
    file.write_at(&written, 0).expect("write");
    for (from, wanted, read) in
        [(0, 256, 256), (200, 56, 56), (200, 57, 56), (255, 9, 1), (256, 9, 0), (999, 9, 0)]
    {
        let mut bytes = vec![7; wanted];
        assert_eq!(file.read_at(&mut bytes, from).expect("read"), read, "{wanted} bytes from {from}");
        let end = (from as usize + read).min(256);
        assert_eq!(bytes[..read], written[end - read..end]);
    }
}

/// What the process has open in the folder is what was not dropped.
#[cfg(target_os = "linux")]
#[test]
fn handles_go_with_what_was_opened_and_folders_with_their_disk() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    disk.create_folder("sub/deep").expect("a folder");
    let before = folder.open_files().len();
    let file = disk.create("sub/deep/a").expect("create");
    let lock = disk.lock("sub/LOCK").expect("free");
    let locked = disk.lock_folder("sub").expect("free");
    assert_eq!(folder.open_files().len(), before + 3);
    disk.remove("sub/deep/a").expect("remove");
    assert_eq!(folder.open_files().len(), before + 3, "a handle stays when its name goes");
    drop((file, lock, locked));
    assert!(
        disk.open("sub/deep/a").is_err() && disk.create("sub").is_err() && disk.open("sub/deep").is_err()
    );
    assert!(disk.lock_folder("none").is_err() && disk.lock("none/LOCK").is_err());
    disk.list("sub").and_then(|_| disk.list_folders("")).expect("listed");
    assert_eq!(folder.open_files().len(), before, "what was refused leaves none");
    drop(disk);
    assert_eq!(folder.open_files(), [""; 0]);
}
