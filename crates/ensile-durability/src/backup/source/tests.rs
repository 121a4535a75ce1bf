//! Which syncs of a source may be refused (N22).

use std::io;
use std::path::Path;

use ensile_disk::{DiskError, Operation};

use super::synced;

#[test]
fn n22_a_file_system_without_a_sync_is_copied_and_a_sync_that_fails_is_not() {
    let refused =
        |code| DiskError::io(Operation::SyncFolder, Path::new("."), io::Error::from_raw_os_error(code));
    assert!(synced(Ok(())).is_ok());
    // EINVAL, EROFS, EOPNOTSUPP.
    for code in [22, 30, 95] {
        assert!(synced(Err(refused(code))).is_ok(), "{}", refused(code));
    }
    // EIO, ENOSPC, EDQUOT, EBADF, EACCES.
    for code in [5, 28, 122, 9, 13] {
        assert!(synced(Err(refused(code))).is_err(), "{}", refused(code));
    }
    let forked = DiskError::Forked { operation: Operation::Sync, path: "log0".into() };
    assert!(synced(Err(forked)).is_err());
}
