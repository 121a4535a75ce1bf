//! The hash that decides on the place of a key: the bucket in a table, the process in a partitioned service.
//!
//! Invariant: the hash is the same on every machine, and in every version of this crate: folders and clients rest on
//! the hash. Inside a bucket a secret of the process hashes keys, so a client cannot choose colliding keys.
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
