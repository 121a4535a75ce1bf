//! Asymmetric fences: the frequent side pays nothing, the rare side pays for both.
//!
//! A Dekker pair (store my word, fence, load your word) needs a store-load fence on both sides (C1). Every transaction
//! takes pins, and a scan reads pins a few times a second. So `light` is a compiler fence, and `heavy` asks the
//! kernel (`membarrier`, private expedited) to run a full fence on every processor that runs a thread of this process.
//! The race, from both sides: if the heavy fence falls before the pinner's store, the pinner's later loads see every
//! earlier store of the scanner; if the heavy fence falls after, the scanner's later loads see the pin. If the kernel
//! has no such call, and under a model checker, both fences are `fence(SeqCst)`.
//!
//! Neighbours: pins (light) and the reclamation scan (heavy). Commit bindings do *not* use these fences: a commit has
//! its own full fence after its locks.

use ensile_base::sync::{Ordering, fence};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod kernel {
    use ensile_base::sync::OnceLock;

    const QUERY: i32 = 0;
    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    fn membarrier(command: i32) -> i64 {
        // SAFETY: membarrier takes three integers, touches no memory of ours, and reports every failure in its result.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0u32, 0i32) }
    }

    static READY: OnceLock<bool> = OnceLock::new();

    /// True once this process is registered; called when a registry is made, never on a hot path.
    pub(super) fn prepare() -> bool {
        *READY.get_or_init(|| {
            let offered = membarrier(QUERY);
            offered > 0
                && offered & i64::from(PRIVATE_EXPEDITED) != 0
                && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
        })
    }

    /// Runs a full fence on every processor that runs a thread of this process. The caller has checked [`prepare`].
    pub(super) fn barrier() {
        let result = membarrier(PRIVATE_EXPEDITED);
        assert_eq!(result, 0, "membarrier was registered and cannot fail");
    }
}

/// Kind of a registry's fences, decided once, when the registry is made: the two sides always agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// Full fences on both sides.
    Symmetric,
    /// Compiler fence on the frequent side, `membarrier` on the rare side.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    Asymmetric,
}

impl Fences {
    /// The cheapest kind on the running machine.
    pub(crate) fn best() -> Self {
        #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
        if kernel::prepare() {
            return Self::Asymmetric;
        }
        Self::Symmetric
    }

    /// The frequent side's fence, between its store and its loads.
    #[inline(always)]
    pub(crate) fn light(self) {
        match self {
            // SeqCst: store-load order; partner: `heavy` of the scan.
            Self::Symmetric => fence(Ordering::SeqCst),
            #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
            // SeqCst compiler fence: keeps the order in the program; the processor's part is the partner's membarrier.
            Self::Asymmetric => std::sync::atomic::compiler_fence(Ordering::SeqCst),
        }
    }

    /// The rare side's fence, between its store and its scan.
    pub(crate) fn heavy(self) {
        // SeqCst: store-load order for the scanner itself; partner: `light`.
        fence(Ordering::SeqCst);
        #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
        if self == Self::Asymmetric {
            kernel::barrier();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Fences;

    #[test]
    fn both_sides_of_the_chosen_kind_run() {
        let fences = Fences::best();
        fences.light();
        fences.heavy();
        Fences::Symmetric.light();
        Fences::Symmetric.heavy();
    }
}
