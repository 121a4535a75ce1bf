//! The instance of a mounted file system. A device that disappears and returns is mounted as a new instance.
//!
//! | file system | entry, whose inode number is drawn at each mount | found by |
//! |---|---|---|
//! | ext2 to ext4, XFS, F2FS | `/sys/fs/<type>/<device>` | `st_dev`: `/sys/dev/block/<major>:<minor>` has the name |
//! | btrfs (`st_dev` is of no device) | `/sys/fs/btrfs/<uuid>` | device of the mount in `/proc/self/mountinfo` |
//! | any other | none | |
//!
//! Every mount namespace sees the same entry. A process in a container with `/sys` also sees the entry.
//!
//! Neighbours: [`super::RealDisk`] asks for the instance of a folder.
#![cfg(target_os = "linux")]

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, fstat, fstatfs, major, minor, statx};

/// Folders of `/sys/fs`, by the file system number of `statfs`.
const SYSTEMS: [(u64, &str); 3] = [(0xef53, "ext4"), (0x5846_5342, "xfs"), (0xf2f5_2010, "f2fs")];
const BTRFS: u64 = 0x9123_683e;

/// Instance of the file system of an open folder; `None` if the system reports no instance.
pub(super) fn instance(folder: impl AsFd) -> Option<u64> {
    let folder = folder.as_fd();
    let kind = fstatfs(folder).ok()?.f_type as u64;
    let entry = if kind == BTRFS {
        let mount = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?.stx_mnt_id;
        btrfs_entry(Path::new("/sys/fs/btrfs"), &fs::read_to_string("/proc/self/mountinfo").ok()?, mount)?
    } else {
        let (_, system) = SYSTEMS.into_iter().find(|(number, _)| *number == kind)?;
        let device = fstat(folder).ok()?.st_dev;
        let link = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        Path::new("/sys/fs").join(system).join(fs::read_link(link).ok()?.file_name()?)
    };
    Some(fs::metadata(entry).ok()?.ino())
}

/// Entry of the btrfs file system with mount number `mount`.
fn btrfs_entry(entries: &Path, mounts: &str, mount: u64) -> Option<PathBuf> {
    let source = source_of(mounts, mount)?;
    let device = Path::new(source).canonicalize().ok()?;
    let device = device.file_name()?;
    let has_device = |entry: io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        path.join("devices").join(device).exists().then_some(path)
    };
    fs::read_dir(entries).ok()?.find_map(has_device)
}

/// Device of mount `mount` in `mountinfo`: the second field after the hyphen.
fn source_of(mounts: &str, mount: u64) -> Option<&str> {
    let is_it = |line: &&str| line.split(' ').next() == Some(&mount.to_string());
    let (_, system) = mounts.lines().find(is_it)?.split_once(" - ")?;
    system.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::{btrfs_entry, source_of};
    use crate::test_folder::TestFolder;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                          310 27 0:46 /sub /data rw,relatime shared:1 - btrfs /dev/null rw,subvol=/sub\n";

    #[test]
    fn the_device_of_a_mount_is_found_by_the_mounts_number() {
        assert_eq!(source_of(MOUNTS, 27), Some("/dev/vda"));
        assert_eq!(source_of(MOUNTS, 310), Some("/dev/null"));
        assert_eq!(source_of(MOUNTS, 31), None);
    }

    #[test]
    fn the_entry_of_a_btrfs_is_the_one_that_lists_the_mounts_device() {
        let folder = TestFolder::new();
        for (entry, device) in [("a", "vdb"), ("b", "null")] {
            std::fs::create_dir_all(folder.path().join(entry).join("devices").join(device)).expect("makes");
        }
        assert_eq!(btrfs_entry(folder.path(), MOUNTS, 310), Some(folder.path().join("b")));
        assert_eq!(btrfs_entry(folder.path(), MOUNTS, 27), None);
    }
}
