//! Rows of the served database: databases, keys with their values, counts of keys.
//!
//! | table | key | value |
//! |---|---|---|
//! | `keys` | content id, hash of the key, the key | header and value ([`stored_value`]) |
//! | `databases` | number of the database | content id |
//! | `counts` | content id, stripe | number of keys, or of keys with an expiry, that the stripe has added and not removed |
//! | `expiries` | time in milliseconds, content id, hash of the key, the key | nothing |
//! | `abandoned` | content id | nothing: `FLUSHDB` has left the content, and the sweeper removes its rows |
//!
//! Invariants:
//! - A key's row and its row in `expiries` change in one transaction. The row in `expiries` has the time of the header.
//! - A transaction that adds or removes a key changes the count of its own stripe, so two loops do not conflict.
//! - A content id is used once. Every access to keys reads the database's row, so `FLUSHDB` conflicts with accesses
//!   that `FLUSHDB` overtakes.
//! - The hash is the same in every version and on every machine.
//!
//! Neighbours: commands read and write through [`Keyspace`]; the sweeper removes expired keys and abandoned contents.

pub(crate) mod contents;
pub(crate) mod keyspace;
pub(crate) mod stored_value;

use ensile::{Database, Result, Table};
use ensile_base::sync::{AtomicBool, Ordering};
use rapidhash::v3::rapidhash_v3;

pub(crate) use keyspace::Keyspace;
use stored_value::StoredValue;

/// Number of databases of a server.
pub(crate) const DATABASES: u32 = 16;

/// Stripe of the counts that the sweeper changes. Loops have the numbers from 0.
pub(crate) const SWEEPER_STRIPE: u32 = (1 << 31) - 1;

/// Key of a row in `keys`: content id, hash of the key, the key.
pub(crate) type KeyRow = (u32, u64, Vec<u8>);
/// Key of a row in `expiries`: time in milliseconds since 1970, and the key of the row in `keys`.
pub(crate) type ExpiryRow = (i64, u32, u64, Vec<u8>);

/// Bytes of a row's key before the client's key.
const KEY_PREFIX_BYTES: usize = size_of::<u32>() + size_of::<u64>();

/// Longest key in bytes. The row in `expiries` also has a time.
pub(crate) const KEY_BYTES_MAX: usize =
    ensile_base::limits::KEY_BYTES_MAX - KEY_PREFIX_BYTES - size_of::<i64>();
/// Longest string in bytes.
pub(crate) const STRING_BYTES_MAX: usize =
    ensile_base::limits::VALUE_BYTES_MAX - stored_value::HEADER_BYTES_MAX;

/// Tables of the served database.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) keys: Table<KeyRow, StoredValue>,
    pub(crate) databases: Table<u32, u32>,
    pub(crate) counts: Table<(u32, u32), i64>,
    pub(crate) expiries: Table<ExpiryRow, ()>,
    pub(crate) abandoned: Table<u32, ()>,
    /// True if the sweeper cannot remove rows, as on a full disk.
    is_stuck: AtomicBool,
}

impl Model {
    /// Opens the tables, and makes missing tables.
    pub(crate) fn open(db: &Database) -> Result<Self> {
        Ok(Self {
            keys: db.table("keys")?,
            databases: db.table("databases")?,
            counts: db.table("counts")?,
            expiries: db.table("expiries")?,
            abandoned: db.table("abandoned")?,
            is_stuck: AtomicBool::new(false),
        })
    }

    /// True if a read leaves the rows of expired keys, as no row can be removed.
    pub(crate) fn is_stuck(&self) -> bool {
        // Relaxed: a hint. A read that removes a row in vain is refused, as a write is.
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Notes the success of the sweeper's last step.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        // Relaxed: see `is_stuck`.
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }
}

/// Hash of a client's key, which orders the rows of a database: rapidhash, version 3.
#[inline]
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    rapidhash_v3(key)
}

#[cfg(test)]
mod tests {
    use super::key_hash;

    #[test]
    fn the_hash_of_a_key_never_changes() {
        let hashes = [&b""[..], b"a", b"user:1000", &[0xff; 100]].map(key_hash);
        assert_eq!(
            hashes,
            [
                232_177_599_295_442_350,
                6_457_959_414_642_172_395,
                key_hash(b"user:1000"),
                5_994_985_199_563_484_775
            ],
            "folders would lose their keys"
        );
    }
}
