//! Levels of durability: the time at which a transaction's result is released (R1).
//!
//! Neighbours: settings and transactions have a level; receipts follow the level.

/// Time at which a transaction's result is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the result is durable: a crash loses no released result.
    #[default]
    Strict,
    /// At commit: a crash may lose the last epochs (whole epochs, the newest first), never a part of a transaction.
    Relaxed,
    /// At commit, after the operating system has the commit: the death of the process, of any kind, loses no released
    /// result. A crash of the machine loses the same results as with relaxed durability.
    ///
    /// The level applies to a whole database: [`Builder::durability`](crate::Builder::durability) with this level
    /// applies to every commit, also of relaxed transactions. In a database opened with another level, a transaction
    /// with this level is strict. The folder's file system must be ext4, XFS, F2FS or tmpfs, and the system Linux:
    /// elsewhere the open fails with this reason.
    Process,
}
