//! Rows of the served database: databases, keys with their values, counts of keys.
//!
//! | table | key | value |
//! |---|---|---|
//! | `keys` | content id, hash of the key, the key | header and value ([`stored_value`]) |
//! | `databases` | number of the database | content id |
//! | `counts` | content id, stripe | number of keys, or of keys with an expiry, that the stripe has added and not removed |
//! | `expiries` | time in milliseconds, content id, hash of the key, the key | nothing |
//! | `abandoned` | content id | nothing: `FLUSHDB` has left the content, and the sweeper removes its rows |
//! | `elements` | object, hash of the element, the element | value of a field, or score ([`elements`]) |
//! | `stripes` | object, stripe | number of elements or position of an end, number of changes |
//! | `items` | object, position | item of a list ([`item_rows`]) |
//! | `scores` | object, score in the order of numbers, member | nothing |
//! | `ranks` | object, level, score, member | number of members of a block |
//! | `entries` | object, id | fields and values of an entry ([`stream`]) |
//! | `streams` | object, end | number of entries that came or went, and an id |
//! | `removed_objects` | object | nothing: no key has the object, and the sweeper removes its rows |
//! | `object_counts` | loop | number of objects that the loop has made |
//! | `seeds` | 0 | seed of the hash of keys |
//!
//! The names of the tables begin with `redis.`, so that an application's own tables have other names.
//!
//! Invariants:
//! - A key's row and its row in `expiries` change in one transaction. The row in `expiries` has the time of the header.
//! - A transaction that adds or removes a key changes the count of its own stripe, so two loops do not conflict.
//! - A content id is used once. Every access to keys reads the database's row, so `FLUSHDB` conflicts with accesses
//!   that `FLUSHDB` overtakes.
//! - The hash is the same in every version and on every machine, given the seed. The seed is drawn at the first open,
//!   so that clients cannot choose keys with one hash.
//!
//! Neighbours: commands read and write through [`Keyspace`]; the sweeper removes expired keys and abandoned contents.

pub(crate) mod contents;
pub(crate) mod elements;
mod item_rows;
pub(crate) mod keyspace;
pub(crate) mod list;
pub(crate) mod objects;
pub(crate) mod packed;
mod random_elements;
mod ranks;
pub(crate) mod sorted_set;
pub(crate) mod stored_value;
pub(crate) mod stream;

use ensile::{Database, Readable as _, Result, Table};
use ensile_base::sync::{AtomicBool, Ordering};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

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

/// Key in `seeds` of the seed of the hash of keys.
const KEY_HASH_SEED: u32 = 0;

/// Bytes of a row's key before the client's key.
pub(crate) const KEY_PREFIX_BYTES: usize = size_of::<u32>() + size_of::<u64>();

/// Longest key in bytes. The row in `expiries` also has a time.
pub(crate) const KEY_BYTES_MAX: usize =
    ensile_base::limits::KEY_BYTES_MAX - KEY_PREFIX_BYTES - size_of::<i64>();
/// Longest field or member in bytes. A row in `ranks` also has a level and a score.
pub(crate) const ELEMENT_BYTES_MAX: usize =
    ensile_base::limits::KEY_BYTES_MAX - 2 * size_of::<u64>() - size_of::<u8>();
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
    pub(crate) elements: Table<(u64, u64, Vec<u8>), Vec<u8>>,
    pub(crate) stripes: Table<(u64, u32), (i64, u64)>,
    pub(crate) items: Table<(u64, i64), Vec<u8>>,
    pub(crate) scores: Table<(u64, u64, Vec<u8>), ()>,
    pub(crate) ranks: Table<(u64, u8, u64, Vec<u8>), u64>,
    pub(crate) entries: Table<(u64, u128), Vec<u8>>,
    pub(crate) streams: Table<(u64, u32), (u64, u64, u128)>,
    pub(crate) removed_objects: Table<u64, ()>,
    pub(crate) object_counts: Table<u32, u64>,
    hash: ClientKeyHash,
    /// True if the sweeper cannot remove rows, as on a full disk.
    is_stuck: AtomicBool,
}

impl Model {
    /// Opens the tables, and makes missing tables. A new database keeps the seed for the hash of keys.
    pub(crate) fn open(db: &Database, new_seed: u64) -> Result<Self> {
        let seeds: Table<u32, u64> = db.table("redis.seeds")?;
        // No wait for the disk: everything that rests on the seed is durable later than the seed.
        let (seed, _) = db.submit(|tx| match tx.get(&seeds, &KEY_HASH_SEED)? {
            Some(seed) => Ok(seed),
            None => tx.put(&seeds, &KEY_HASH_SEED, &new_seed).map(|()| new_seed),
        })?;
        let model = Self {
            keys: db.table("redis.keys")?,
            databases: db.table("redis.databases")?,
            counts: db.table("redis.counts")?,
            expiries: db.table("redis.expiries")?,
            abandoned: db.table("redis.abandoned")?,
            elements: db.table("redis.elements")?,
            stripes: db.table("redis.stripes")?,
            items: db.table("redis.items")?,
            scores: db.table("redis.scores")?,
            ranks: db.table("redis.ranks")?,
            entries: db.table("redis.entries")?,
            streams: db.table("redis.streams")?,
            removed_objects: db.table("redis.removed_objects")?,
            object_counts: db.table("redis.object_counts")?,
            hash: ClientKeyHash::new(seed),
            is_stuck: AtomicBool::new(false),
        };
        // `DEL` and `FLUSHDB` free memory at the limit, so the few rows that change with them are written there.
        model.databases.use_delete_reserve();
        model.counts.use_delete_reserve();
        model.abandoned.use_delete_reserve();
        model.stripes.use_delete_reserve();
        model.ranks.use_delete_reserve();
        model.streams.use_delete_reserve();
        model.removed_objects.use_delete_reserve();
        Ok(model)
    }

    /// Hash of a client's key.
    #[inline]
    pub(crate) fn key_hash(&self, key: &[u8]) -> u64 {
        self.hash.of_key(key)
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

/// Hash of clients' keys, which orders the rows of a database: rapidhash, version 3, with secrets from a seed.
#[derive(Debug)]
struct ClientKeyHash {
    secrets: RapidSecrets,
}

impl ClientKeyHash {
    fn new(seed: u64) -> Self {
        Self { secrets: RapidSecrets::seed(seed) }
    }

    #[inline]
    fn of_key(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.secrets)
    }
}

#[cfg(test)]
mod tests {
    use ensile::Database;

    use super::{ClientKeyHash, Model};

    #[test]
    fn the_hash_of_a_key_never_changes() {
        let hashes = |seed: u64| {
            let hash = ClientKeyHash::new(seed);
            [&b""[..], b"a", b"user:1000", &[0xff; 100]].map(|key| hash.of_key(key))
        };
        assert_eq!(
            hashes(0),
            [
                9_803_252_772_108_305_337,
                5_797_680_245_665_467_775,
                4_393_471_837_337_226_343,
                5_704_560_804_022_495_177
            ],
            "folders would lose their keys"
        );
        assert_eq!(
            hashes(0x0123_4567_89ab_cdef),
            [
                2_839_243_568_087_718_072,
                3_309_338_740_851_243_506,
                4_665_990_869_961_894_911,
                4_718_412_033_210_463_465
            ],
            "folders would lose their keys"
        );
    }

    #[test]
    fn a_database_keeps_the_seed_of_its_first_open() {
        let db = Database::in_memory().expect("a new database");
        let hashes = [1, 2].map(|seed| Model::open(&db, seed).expect("new tables").key_hash(b"k"));
        assert_eq!(hashes, [ClientKeyHash::new(1).of_key(b"k"); 2]);
    }
}
