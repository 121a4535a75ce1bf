//! Identity of a folder, by its inode and birth time.
//!
//! - A folder that is renamed, or whose device is mounted elsewhere, keeps its id. A copy has another id.
//! - The device's number is not part of the id, because the number may change at each start of the machine. The id
//!   therefore cannot tell a cloned volume from the original.
//!
//! Neighbours: [`crate::Disk::folder_id`] reads the id; the durability crate keeps the id in its manifest.

use std::fmt;

/// A folder's inode and, if the file system keeps the time, its time of birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderId {
    /// Number of the inode.
    pub inode: u64,
    /// Time of birth, in nanoseconds since 1970.
    pub born_nanos: Option<i128>,
}

/// Times of a file in nanoseconds since 1970, as far as the file system keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// Time of birth. No program can set the time: a copy has another time, and the file keeps the time even if its
    /// inode number changes.
    pub born_nanos: Option<i128>,
    /// Time of the last change of the file's bytes, owner, mode or names. The system notes the time, and no program can
    /// set the time.
    pub changed_nanos: Option<i128>,
}

impl fmt::Display for FolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.born_nanos {
            Some(nanos) => write!(f, "inode {} made at {nanos} ns", self.inode),
            None => write!(f, "inode {}", self.inode),
        }
    }
}
