//! The hash that decides where a key lives: in which bucket of a table, in which process of a partitioned service.
//!
//! Invariant: it is the same on every machine, and in every version of this crate: folders and clients rest on it.
//! Inside a bucket keys are hashed by a secret of the process, so nobody can choose keys that collide there.
//!
//! Neighbours: [`crate::pht`] chooses buckets, [`crate::partition`] processes.

use rapidhash::v3::rapidhash_v3;

/// The hash of a key's bytes: rapidhash, version 3, with its own secret.
#[inline]
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    rapidhash_v3(bytes)
}

#[cfg(test)]
mod tests {
    use super::stable_hash;

    #[test]
    fn it_never_changes() {
        let hashes = [&b""[..], b"a", b"http://example.com/", &[0xff; 100]].map(stable_hash);
        assert_eq!(
            hashes,
            [
                232_177_599_295_442_350,
                6_457_959_414_642_172_395,
                9_387_613_071_220_611_681,
                5_994_985_199_563_484_775
            ],
            "folders that are there would lose their keys"
        );
    }
}
