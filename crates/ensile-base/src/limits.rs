//! Every stated limit of Ensile, in one place. Documents cite these names and never repeat the numbers.
//!
//! Neighbours: all floors read them; the `const` assertions below hold them against the fields that carry them.

/// Bits of a TID that hold the epoch of the commit (Silo §4.2; E5).
pub const EPOCH_BITS: u32 = 64 - STATUS_BITS - SEQUENCE_BITS;
/// Bits of a TID that tell transactions of one epoch apart (E5). Few under shuttle, so that its short runs fill them.
pub const SEQUENCE_BITS: u32 = if cfg!(shuttle) { 4 } else { 17 };
/// Low bits of a TID word that belong to the record: lock, latest, absent.
pub const STATUS_BITS: u32 = 3;

/// No two epochs begin closer together than this, early closes included (microseconds), once `EPOCHS_CLOSE_TOGETHER`
/// are used.
pub const EPOCH_MICROS_MIN: u64 = 200;
/// Epochs up to this number may begin `EPOCH_MICROS_CLOSE` apart: a lone strict client closes one a commit.
pub const EPOCHS_CLOSE_TOGETHER: u64 = 1 << (EPOCH_BITS - 8);
/// No two epochs ever begin closer together than this (microseconds).
pub const EPOCH_MICROS_CLOSE: u64 = 50;

/// The longest turn of a closure that goes on losing to other transactions (milliseconds): nobody else's commit takes
/// effect beside it.
pub const TURN_MILLIS_MAX: u64 = 10_000;

/// The largest niceness that a thread can have, by which it gets the least time beside others: Linux's own.
pub const NICENESS_MAX: u8 = 19;

/// The longest key that an index takes, in bytes: a user's key, or a secondary key with its primary key behind it.
pub const INDEX_KEY_BYTES_MAX: usize = 65_535;
/// The longest key of a table, in bytes, after encoding.
pub const KEY_BYTES_MAX: usize = 16_384;
/// The largest value of a record, in bytes, after encoding.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// The largest write-set of one transaction, in bytes: keys, values and entries of indexes, each counted as it would
/// stand in the log. Also the largest read-set, in memory.
pub const TRANSACTION_BYTES_MAX: usize = 256 << 20;
/// Most bytes that a thread keeps, from transaction to transaction, of what a huge one made it take.
pub const KEEP_BYTES_MAX: usize = 1 << 20;
/// The longest name of a table, an index or an application, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most tables of a database, its catalogue among them; and most secondary indexes of all its tables together.
pub const TABLES_MAX: usize = 4096;
/// Most secondary indexes of one table.
pub const INDEXES_PER_TABLE_MAX: usize = 64;

/// The longest encoding of a persistent object, in bytes: a checkpoint has it in memory, and in pieces on disk.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;
/// A longer object stands in a checkpoint in pieces of this many bytes. Few under shuttle, so that its objects have
/// pieces.
pub const OBJECT_PIECE_BYTES: usize = if cfg!(shuttle) { 16 } else { 64 << 10 };

/// Size of a worker's log buffer, in bytes (SiloR §3.1 uses 512 KB). Small under shuttle, so that its short runs fill
/// it.
pub const LOG_BUFFER_BYTES: usize = if cfg!(shuttle) { 1 << 10 } else { 512 << 10 };

/// Most zeros that a log file begins with: a recovery reads them.
pub const LOG_ZEROED_BYTES_MAX: u64 = 16 << 20;

/// Bytes that a recovered state keeps for older entries, tombstones of deletes, before the oldest parts of the log are
/// replayed and not the newest. What the threads are at comes on top. A tombstone of a short key takes some 140 bytes,
/// so these are about 60,000: removing them at the end of replay, by all threads, takes some ten milliseconds. Small
/// under shuttle, so that its short logs reach it.
pub const REPLAY_WAITING_BYTES_MAX: u64 = if cfg!(shuttle) { 1 << 10 } else { 8 << 20 };

/// Bytes that a verification of a picture keeps of the keys that stand beside its pages, to compare their TIDs with
/// those in the pages (N11). Where there are more, their blocks are read once more for each further part of this size.
pub const DISPLACED_KEYS_BYTES_MAX: usize = 64 << 20;

/// Most closed generations whose logs an open leaves as they are: of more it merges the youngest into one file.
pub const UNMERGED_GENERATIONS_MAX: usize = 8;
/// Most bytes of log that are merged into one file.
pub const MERGED_LOG_BYTES_MAX: u64 = 64 << 20;

/// Bytes that a database keeps on each of its log devices for the moment when it is full: the files of a next life,
/// which take some kilobytes for each log, marks, and a manifest.
pub const RESERVE_BYTES: u64 = 256 << 10;

/// Seconds for which the removal of discarded files waits for readers' leases, from the first refusal on.
pub const LEASE_SECONDS_MAX: u64 = 60;

/// Fewest bytes of an object of a shared store, of a file that becomes several.
pub const SHARED_OBJECT_BYTES_MIN: u64 = 64 << 10;

/// Most bytes that a database maps and touches at open: half of the address space of a process on x86-64.
pub const PREFAULT_BYTES_MAX: usize = 1 << 46;

/// The least that displaced versions may take before a picture gives way: what the largest page may have. A picture
/// with less would end at the first few commits. Few under shuttle, whose pictures have few rows.
pub const DISPLACED_BYTES_LEAST: u64 = if cfg!(shuttle) { 1 } else { 1 << 20 };

/// Epochs are reserved in the manifest for this number of seconds ahead (L6), at the rate at which they come, or that
/// of [`EPOCH_MICROS_MIN`] if they come faster: for a quarter of the time, then, at [`EPOCH_MICROS_CLOSE`].
/// [`EPOCHS_RESERVED_MIN`] at least, whatever the rate. A life that ends without a close gives up what it has not used:
/// at 30 epochs a second a database can have almost seven million such lives.
pub const EPOCHS_RESERVED_SECONDS: u64 = 24 * 3600;
/// See [`EPOCHS_RESERVED_SECONDS`].
pub const EPOCHS_RESERVED_MIN: u64 = 1 << 20;
/// The last of the reserved epochs: this number is kept for commits under way, and as many for a close.
pub const EPOCHS_KEPT: u64 = 16;
/// Lives without a close, at the least, that the epoch field has room for beside a century, at the shortest epoch.
const CRASHES_MIN: u64 = 4_000;
/// Epochs of a second, at most, once [`EPOCHS_CLOSE_TOGETHER`] are used.
const EPOCHS_A_SECOND_MAX: u64 = 1_000_000 / EPOCH_MICROS_MIN;

/// Seconds in a century, for the width of the epoch field.
const CENTURY_SECONDS: u64 = 100 * 365 * 24 * 3600;

const _: () = assert!(EPOCH_BITS >= 44, "a TID word is 64 bits, most of them the epoch's");
/// Epochs that all lives may use at the longer spacing.
const EPOCHS_APART: u64 = (1 << EPOCH_BITS) - EPOCHS_CLOSE_TOGETHER;
const _: () = assert!(EPOCHS_APART / EPOCHS_A_SECOND_MAX >= CENTURY_SECONDS, "E5: a century of epochs");
const _: () = {
    let unused = EPOCHS_APART - CENTURY_SECONDS * EPOCHS_A_SECOND_MAX;
    let by_a_crash = EPOCHS_RESERVED_SECONDS * EPOCHS_A_SECOND_MAX + 2 * EPOCHS_KEPT;
    assert!(unused / by_a_crash >= CRASHES_MIN, "L6: the century counts lives too");
};
const _: () =
    assert!(INDEX_KEY_BYTES_MAX >= 3 * KEY_BYTES_MAX, "secondary + escaped primary key fit an index key");
const _: () = assert!(VALUE_BYTES_MAX < TRANSACTION_BYTES_MAX && TRANSACTION_BYTES_MAX < u32::MAX as usize);
