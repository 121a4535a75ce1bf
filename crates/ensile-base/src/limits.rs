//! Every stated limit of Ensile, in one place. Documents cite these names and never repeat the numbers.
//!
//! Neighbours: every crate reads the limits; the `const` assertions below compare limits with field widths.

/// Bits of a TID that hold the epoch of the commit (Silo §4.2; E5).
pub const EPOCH_BITS: u32 = 64 - STATUS_BITS - SEQUENCE_BITS;
/// Bits of a TID that tell transactions of one epoch apart (E5). Few under shuttle, so that its short runs fill the
/// bits.
pub const SEQUENCE_BITS: u32 = if cfg!(shuttle) { 4 } else { 17 };
/// Low bits of a TID word that belong to the record: lock, latest, absent.
pub const STATUS_BITS: u32 = 3;

/// Least time between the beginnings of two epochs, early closes included (microseconds), once `EPOCHS_CLOSE_TOGETHER`
/// are used.
pub const EPOCH_MICROS_MIN: u64 = 200;
/// Epochs up to this number may begin `EPOCH_MICROS_CLOSE` apart: a lone strict client closes an epoch per commit.
pub const EPOCHS_CLOSE_TOGETHER: u64 = 1 << (EPOCH_BITS - 8);
/// Least time between the beginnings of two epochs, for every epoch (microseconds).
pub const EPOCH_MICROS_CLOSE: u64 = 50;

/// Longest turn of a closure that repeatedly loses to other transactions (milliseconds). During the turn no other
/// commit takes effect.
pub const TURN_MILLIS_MAX: u64 = 10_000;

/// Largest niceness of a thread, with the least time beside other threads: Linux's own limit.
pub const NICENESS_MAX: u8 = 19;

/// Longest key of an index, in bytes: a user's key, or a secondary key with its primary key behind.
pub const INDEX_KEY_BYTES_MAX: usize = 65_535;
/// Longest key of a table, in bytes, after encoding.
pub const KEY_BYTES_MAX: usize = 16_384;
/// Largest value of a record, in bytes, after encoding.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// Largest write-set of one transaction, in bytes. Keys, values and index entries count as in the log. Also the largest
/// read-set, in memory.
pub const TRANSACTION_BYTES_MAX: usize = 256 << 20;
/// Most bytes that a thread keeps between transactions after a huge transaction.
pub const KEEP_BYTES_MAX: usize = 1 << 20;
/// Longest name of a table, an index or an application, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most tables of a database, including its catalogue. Also the most secondary indexes of the tables together.
pub const TABLES_MAX: usize = 4096;
/// Most secondary indexes of a table.
pub const INDEXES_PER_TABLE_MAX: usize = 64;

/// Longest encoding of a persistent object, in bytes: a checkpoint holds the encoding in memory, and in pieces on disk.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;
/// Bytes of a piece; a longer object stands in a checkpoint in pieces. Few under shuttle, so that its objects have
/// pieces.
pub const OBJECT_PIECE_BYTES: usize = if cfg!(shuttle) { 16 } else { 64 << 10 };

/// Size of a worker's log buffer, in bytes (SiloR §3.1 uses 512 KB). Small under shuttle, so that its short runs fill
/// the buffer.
pub const LOG_BUFFER_BYTES: usize = if cfg!(shuttle) { 1 << 10 } else { 512 << 10 };

/// Most zero bytes at the beginning of a log file: a recovery reads the zeros.
pub const LOG_ZEROED_BYTES_MAX: u64 = 16 << 20;

/// Bytes of tombstones of deletes that a recovered state keeps, because older entries may still come. Above this number
/// replay takes the oldest parts of the log, not the newest. Entries in the hands of threads come on top. A tombstone
/// of a short key takes some 140 bytes, so the limit is about 60,000 tombstones. At the end of replay the threads
/// remove the tombstones together, in some ten milliseconds. Small under shuttle, so that its short logs reach the
/// limit.
pub const REPLAY_WAITING_BYTES_MAX: u64 = if cfg!(shuttle) { 1 << 10 } else { 8 << 20 };

/// Bytes of displaced keys that the verification of a picture keeps, to compare their TIDs with the TIDs in the pages
/// (N11). For more keys, the blocks are read again for each further part of this size.
pub const DISPLACED_KEYS_BYTES_MAX: usize = 64 << 20;

/// Most closed generations whose logs an open leaves alone. If there are more, the open merges the youngest into one
/// file.
pub const UNMERGED_GENERATIONS_MAX: usize = 8;
/// Most bytes of log that are merged into one file.
pub const MERGED_LOG_BYTES_MAX: u64 = 64 << 20;

/// Bytes that a database reserves on each of its log devices for a full device: the files of the next process, which
/// take some kilobytes per log, marks, and a manifest.
pub const RESERVE_BYTES: u64 = 256 << 10;

/// Longest wait of the removal of discarded files for readers' leases, from the first refusal on (seconds).
pub const LEASE_SECONDS_MAX: u64 = 60;

/// Fewest bytes of an object of a shared store, if a file becomes several objects.
pub const SHARED_OBJECT_BYTES_MIN: u64 = 64 << 10;

/// Most bytes that a database maps and touches at open: half of the address space of a process on x86-64.
pub const PREFAULT_BYTES_MAX: usize = 1 << 46;

/// Most bytes by which the memory in use exceeds `Builder::memory_bytes_max`: half for writes under way, half for
/// deletes (M4).
pub const MEMORY_EXCESS_BYTES_MAX: u64 = 64 << 20;
/// Least limit of the memory in use, in bytes: an empty database with a few threads fits.
pub const MEMORY_BYTES_LEAST: u64 = 1 << 20;

/// Least limit of displaced versions before a picture gives way, in bytes: the room of the largest page. A picture with
/// a smaller limit would end at the first few commits. Small under shuttle, where pictures have few rows.
pub const DISPLACED_BYTES_LEAST: u64 = if cfg!(shuttle) { 1 } else { 1 << 20 };

/// Seconds ahead for which epochs are reserved in the manifest (L6). The reservation assumes the present rate of
/// epochs, but at most the rate of [`EPOCH_MICROS_MIN`]. At [`EPOCH_MICROS_CLOSE`] the reservation therefore lasts a
/// quarter of the time. At least [`EPOCHS_RESERVED_MIN`] epochs are reserved, at every rate. A process that ends
/// without a close gives up its unused epochs. At 30 epochs a second a database can have almost seven million such
/// ends.
pub const EPOCHS_RESERVED_SECONDS: u64 = 24 * 3600;
/// Least number of reserved epochs; see [`EPOCHS_RESERVED_SECONDS`].
pub const EPOCHS_RESERVED_MIN: u64 = 1 << 20;
/// Number of the last reserved epochs that are kept for commits under way, and again as many for a close.
pub const EPOCHS_KEPT: u64 = 16;
/// Least number of processes without a close for which the epoch field has room beside a century, at the shortest
/// epoch.
const CRASHES_MIN: u64 = 4_000;
/// Most epochs of a second, once [`EPOCHS_CLOSE_TOGETHER`] are used.
const EPOCHS_A_SECOND_MAX: u64 = 1_000_000 / EPOCH_MICROS_MIN;

/// Seconds in a century, for the width of the epoch field.
const CENTURY_SECONDS: u64 = 100 * 365 * 24 * 3600;

const _: () = assert!(EPOCH_BITS >= 44, "a TID word is 64 bits, most of them the epoch's");
/// Number of epochs at the longer spacing, for the whole time of a database.
const EPOCHS_APART: u64 = (1 << EPOCH_BITS) - EPOCHS_CLOSE_TOGETHER;
const _: () = assert!(EPOCHS_APART / EPOCHS_A_SECOND_MAX >= CENTURY_SECONDS, "E5: a century of epochs");
const _: () = {
    let unused = EPOCHS_APART - CENTURY_SECONDS * EPOCHS_A_SECOND_MAX;
    let by_a_crash = EPOCHS_RESERVED_SECONDS * EPOCHS_A_SECOND_MAX + 2 * EPOCHS_KEPT;
    assert!(unused / by_a_crash >= CRASHES_MIN, "L6: the century counts lives too");
};
const _: () = assert!(INDEX_KEY_BYTES_MAX >= 3 * KEY_BYTES_MAX, "secondary + escaped primary key fit");
const _: () = assert!(VALUE_BYTES_MAX < TRANSACTION_BYTES_MAX && TRANSACTION_BYTES_MAX < u32::MAX as usize);
