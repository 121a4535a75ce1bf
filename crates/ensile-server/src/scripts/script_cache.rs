//! Sources of scripts, by their SHA-1, for all loops.
//!
//! Invariants:
//! - A loop takes the lock at a script's first use in the loop. Later uses compare the generation only.
//! - The sources together have [`CACHE_BYTES_MAX`] at most. A script beyond the limit runs, and is not kept.
//!
//! Neighbours: `lua_state` has the compiled scripts of a loop; the `SCRIPT` command asks and empties.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use ensile_base::sync::{AtomicU64, Mutex, Ordering};
use sha1::{Digest as _, Sha1};

/// Largest length of all sources together in bytes.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Memory of a source beside its bytes, in bytes.
const ENTRY_BYTES: usize = 128;

/// SHA-1 of a script's source.
pub(crate) type ScriptHash = [u8; 20];

/// The hash of a source.
pub(crate) fn hash_of(source: &[u8]) -> ScriptHash {
    Sha1::digest(source).into()
}

/// A hash as 40 digits.
pub(crate) fn hex_of(hash: &ScriptHash) -> String {
    hash.iter().fold(String::with_capacity(40), |mut hex, byte| {
        // A write to memory does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The hash of 40 digits, in any case.
pub(crate) fn hash_from(hex: &[u8]) -> Option<ScriptHash> {
    let mut hash = ScriptHash::default();
    debug_assert_eq!(hash.len(), 20, "SHA-1 has 160 bits");
    if hex.len() != 2 * hash.len() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(hash)
}

/// Sources of scripts.
#[derive(Debug, Default)]
pub(crate) struct ScriptCache {
    sources: Mutex<CachedSources>,
    /// Number of times that the cache was emptied.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct CachedSources {
    by_hash: HashMap<ScriptHash, Arc<[u8]>>,
    bytes: usize,
}

/// Number and memory of the sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheFigures {
    pub(crate) scripts: usize,
    pub(crate) bytes: usize,
}

impl ScriptCache {
    /// Number of times that the cache was emptied. A loop drops its compiled scripts if the number has changed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        // Relaxed: a use of a script beside `SCRIPT FLUSH` comes before it.
        self.generation.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, hash: &ScriptHash) -> Option<Arc<[u8]>> {
        self.sources.lock().by_hash.get(hash).cloned()
    }

    /// Keeps a source. False if the cache is full.
    pub(crate) fn insert(&self, hash: ScriptHash, source: &[u8]) -> bool {
        debug_assert_eq!(hash, hash_of(source), "a source is kept by its own hash");
        let mut sources = self.sources.lock();
        let bytes = source.len() + ENTRY_BYTES;
        if sources.by_hash.contains_key(&hash) {
            return true;
        }
        if sources.bytes + bytes > CACHE_BYTES_MAX {
            return false;
        }
        sources.bytes += bytes;
        sources.by_hash.insert(hash, source.into());
        debug_assert!(sources.bytes <= CACHE_BYTES_MAX, "the sources are within their limit");
        true
    }

    pub(crate) fn clear(&self) {
        let mut sources = self.sources.lock();
        *sources = CachedSources::default();
        // Relaxed: see `generation`.
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> CacheFigures {
        let sources = self.sources.lock();
        CacheFigures { scripts: sources.by_hash.len(), bytes: sources.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::{CACHE_BYTES_MAX, ScriptCache, hash_from, hash_of, hex_of};

    #[test]
    fn a_hash_is_forty_digits_in_any_case() {
        let hash = hash_of(b"a");
        assert_eq!(hex_of(&hash), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
        assert_eq!(hash_from(hex_of(&hash).to_ascii_uppercase().as_bytes()), Some(hash));
        for wrong in [&b""[..], b"86f7", &[b'g'; 40]] {
            assert_eq!(hash_from(wrong), None);
        }
    }

    #[test]
    fn a_full_cache_keeps_no_further_source() {
        let cache = ScriptCache::default();
        let half = vec![b' '; CACHE_BYTES_MAX / 2];
        let other = vec![b'\n'; CACHE_BYTES_MAX / 2];
        let (first, second) = (hash_of(&half), hash_of(&other));
        assert!(cache.insert(first, &half) && !cache.insert(second, &other));
        assert!(cache.get(&first).is_some() && cache.get(&second).is_none());
        cache.clear();
        assert!(cache.insert(second, &other), "an emptied cache has room");
    }
}
