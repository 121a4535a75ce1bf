//! Which syncs of a source may be refused (N22), and which files of a log are read anew.

use std::io;
use std::path::Path;

use ensile_disk::{FolderId, Operation};
use ensile_sim::SimDisk;

use super::*;

#[test]
fn n22_a_file_system_without_a_sync_is_copied_and_a_sync_that_fails_is_not() {
    let refused =
        |code| DiskError::io(Operation::SyncFolder, Path::new("."), io::Error::from_raw_os_error(code));
    assert!(ignore_unsupported_sync(Ok(())).is_ok());
    // EINVAL, EROFS, EOPNOTSUPP.
    for code in [22, 30, 95] {
        assert!(ignore_unsupported_sync(Err(refused(code))).is_ok(), "{}", refused(code));
    }
    // EIO, ENOSPC, EDQUOT, EBADF, EACCES.
    for code in [5, 28, 122, 9, 13] {
        assert!(ignore_unsupported_sync(Err(refused(code))).is_err(), "{}", refused(code));
    }
    let forked = DiskError::Forked { operation: Operation::Sync, path: "log0".into() };
    assert!(ignore_unsupported_sync(Err(forked)).is_err());
}

#[test]
fn files_of_one_log_that_come_behind_one_are_dropped_and_those_of_others_stay() {
    let disk = SimDisk::new();
    let names = [
        "checkpoint0/ckpt-7-0",
        "log0/log-3-10",
        "log0/log-3-11-to-90",
        "log0/log-3-2-to-80",
        "log0/log-3-9-to-88",
        "log0/log-30-11",
        "log0/log-4-11",
        "log1/log-3-11",
        "log10/log-3-11",
    ];
    names.iter().for_each(|name| disk.put(name, Vec::new()));
    let open = |name: &&str| ((*name).to_owned(), disk.open_to_read(name).expect("opens"));
    let mut source = FilesSource {
        manifest: Manifest::new(Identity::draw(), FolderId { inode: 1, born_nanos: None }),
        files: names.iter().map(open).collect(),
        hinted: Epoch::ZERO,
        disk: Arc::new(disk.clone()),
        _hold: None,
    };
    let dropped = source.drop_behind(SegmentName { generation: 3, logger: 0, number: 9 });
    assert_eq!(dropped, ["log0/log-3-10", "log0/log-3-11-to-90"]);
    let left: Vec<_> = source.files.iter().map(|(name, _)| name.as_str()).collect();
    let is_left = |name: &&str| !dropped.contains(&(*name).to_owned());
    assert_eq!(left, names.into_iter().filter(is_left).collect::<Vec<_>>());
}
