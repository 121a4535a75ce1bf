//! Which folder it is, by what the file system says of it.
//!
//! - A folder that is renamed, or whose device is mounted elsewhere, keeps its id. A copy has another one.
//! - The device's number is no part of it: it may change at each start of the machine. So a whole volume that was
//!   cloned is not told apart.
//!
//! Neighbours: [`crate::Disk::folder_id`] reads it; the durability crate keeps it in its manifest.

use std::fmt;

/// A folder's inode and, where the file system keeps it, the time at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderId {
    /// The inode's number.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970.
    pub born_nanos: Option<i128>,
}

/// What the file system remembers of a file's life, as far as it does, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// When it was made. Nobody can set it; so a copy has another one, and the file itself keeps it whatever the number
    /// of its inode is by now.
    pub born_nanos: Option<i128>,
    /// When its bytes, owner, mode or names were changed for the last time: what the system notes by itself, and nobody
    /// can set.
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
