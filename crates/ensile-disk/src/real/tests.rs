//! The machine's files through the trait, in a folder of their own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::RealDisk;
use crate::{Disk, DiskError, Operation};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number's uniqueness counts; no partner.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("ensile-disk-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read_back_and_reads_stop_at_the_end() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
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
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
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
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
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
fn a_lock_has_one_holder_at_a_time() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    let held = disk.lock("LOCK").expect("free");
    let other = RealDisk::open(&folder.0).expect("the same folder");
    assert!(matches!(other.lock("LOCK"), Err(DiskError::InUse { .. })));
    drop(held);
    other.lock("LOCK").expect("free again");
}

#[test]
fn readers_share_a_lock_that_is_there_and_make_none() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
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
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    disk.create("a").expect("create").write_at(b"hello", 0).expect("write");
    let file = disk.open_to_read("a").expect("open");
    assert!(file.write_at(b"x", 0).is_err());
    let mut bytes = [0; 5];
    file.read_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"hello");
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    let error = disk.open("missing").expect_err("there is none");
    assert!(error.is_not_found());
    assert!(
        matches!(&error, DiskError::Io { operation: Operation::Open, path, .. } if path.ends_with("missing"))
    );
    assert!(error.to_string().contains("cannot open"), "{error}");
}

#[test]
fn a_folder_keeps_its_identity_when_renamed_and_a_copy_has_another() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    disk.create_folder("a").expect("folder");
    let id = disk.folder_id("a").expect("there");
    std::fs::rename(folder.0.join("a"), folder.0.join("b")).expect("rename");
    disk.create_folder("a").expect("folder");
    assert_eq!(disk.folder_id("b").expect("there"), id);
    assert_ne!(disk.folder_id("a").expect("there"), id);
    assert!(disk.folder_id("c").expect_err("none").is_not_found());
    disk.create("file").expect("create");
    assert!(disk.folder_id("file").is_err(), "a file is no folder");
    assert!(disk.free_bytes("a").expect("asked").is_some_and(|bytes| bytes > 0));
}

#[test]
fn a_folder_is_locked_by_itself_whatever_becomes_of_its_files() {
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    let other = RealDisk::open(&folder.0).expect("the same folder");
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
    let folder = Folder::new();
    let disk = RealDisk::open(&folder.0).expect("a temporary folder");
    let lock = disk.lock("LOCK").expect("free");
    assert_eq!(lock.file_id().expect("id"), disk.file_id("LOCK").expect("id"));
    assert_eq!((lock.links().expect("links"), disk.links("LOCK").expect("links")), (1, 1));
    std::fs::hard_link(folder.0.join("LOCK"), folder.0.join("copy")).expect("link");
    assert_eq!(lock.links().expect("links"), 2);
    std::fs::remove_file(folder.0.join("copy")).expect("remove");
    disk.remove("LOCK").expect("remove");
    assert_eq!(lock.links().expect("links"), 0);
    disk.create("LOCK").expect("create");
    assert_ne!(lock.file_id().expect("id"), disk.file_id("LOCK").expect("id"));
}
