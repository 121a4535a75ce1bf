//! How much of a checkpoint the medium is given at once.
//!
//! A sync of the log waits behind all that the medium was given before it, and each end of a write interrupts a core,
//! with a commit or two on it. So it is little where commits wait for syncs, and more where none does
//! (docs/results/siren.md, "How much is written at once").
//!
//! Neighbours: `manager` asks behind each block; `files::write`, `picture::file` and copies hand over.

/// Bytes at once where no commit waits for syncs.
pub(crate) const AT_ONCE: u64 = 1 << 20;
/// And where commits do.
const AT_ONCE_BESIDE_SYNCS: u64 = 256 << 10;

/// Syncs of one log in a second with which commits wait for them: epochs alone ask for a third of it.
const SYNCS_A_SECOND: u64 = 300;
/// It is looked at this often.
const LOOK_NANOS: u64 = 10_000_000;

const _: () = assert!(AT_ONCE_BESIDE_SYNCS < AT_ONCE && LOOK_NANOS > 0);

/// What a checkpoint gives the medium at once, by the syncs of the log beside it.
#[derive(Debug, Default)]
pub(super) struct GivenAtOnce {
    is_beside_syncs: bool,
    /// When it was looked at last, and the syncs up to then.
    nanos: u64,
    syncs: u64,
}

impl GivenAtOnce {
    /// How many bytes it is now, by the syncs of each log until now.
    pub(super) fn bytes(&mut self, nanos: u64, syncs: u64) -> u64 {
        let passed = nanos.saturating_sub(self.nanos);
        if passed >= LOOK_NANOS {
            let asked = u128::from(SYNCS_A_SECOND) * u128::from(passed) / 1_000_000_000;
            self.is_beside_syncs = u128::from(syncs.saturating_sub(self.syncs)) > asked;
            (self.nanos, self.syncs) = (nanos, syncs);
        }
        if self.is_beside_syncs { AT_ONCE_BESIDE_SYNCS } else { AT_ONCE }
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE, AT_ONCE_BESIDE_SYNCS, GivenAtOnce};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn it_is_little_while_commits_wait_for_syncs() {
        let mut at_once = GivenAtOnce::default();
        // A sync in each epoch of 10 ms.
        assert_eq!(at_once.bytes(10 * SECOND, 1_000), AT_ONCE);
        assert_eq!(at_once.bytes(11 * SECOND, 1_100), AT_ONCE);
        // Each commit of a client has one.
        assert_eq!(at_once.bytes(11 * SECOND + SECOND / 100, 1_160), AT_ONCE_BESIDE_SYNCS);
        assert_eq!(at_once.bytes(11 * SECOND + SECOND / 50, 1_220), AT_ONCE_BESIDE_SYNCS);
        // They have ended.
        assert_eq!(at_once.bytes(12 * SECOND, 1_320), AT_ONCE);
    }

    #[test]
    fn a_moment_says_nothing() {
        let mut at_once = GivenAtOnce::default();
        assert_eq!(at_once.bytes(SECOND, 10), AT_ONCE);
        assert_eq!(at_once.bytes(SECOND + 1_000, 15), AT_ONCE, "five syncs in a microsecond");
        assert_eq!(at_once.bytes(SECOND + 20_000_000, 16), AT_ONCE, "and six in 20 ms");
    }

    #[test]
    fn a_log_that_was_not_there_has_no_syncs() {
        assert_eq!(GivenAtOnce::default().bytes(0, 0), AT_ONCE);
        assert_eq!(GivenAtOnce { syncs: 7, ..GivenAtOnce::default() }.bytes(SECOND, 0), AT_ONCE);
    }
}
