//! The freezes of pictures: the newest freeze and the freeze before, as commits read the pair (SIREN §3.1).
//!
//! A picture at `e_c` shows the state at the end of epoch `e_c`. Its freeze is `S = e_c + 1`.
//!
//! Invariants:
//! - N1: a freeze is published before E reaches the freeze. So a commit that reads its epoch e, and then the freezes,
//!   finds the newest freeze up to e.
//! - N1: two freezes are enough, since the next freeze is announced only when E is above the newest. While a commit of
//!   epoch e is bound, E is e + 1 at most (E2). So the newest freeze is e + 2 at most, and the freeze before e at most.
//!
//! Neighbours: [`crate::Epochs`] owns the pair and calls [`Freezes::announce`] under the lock that moves E; commits ask
//! [`crate::Epochs::freeze_at`].

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

/// The newest freeze and the freeze before.
#[derive(Debug)]
pub(crate) struct Freezes {
    newest: AtomicU64,
    before: AtomicU64,
}

impl Freezes {
    /// Freezes before the first announcement: the first epoch of this process stands for both.
    pub(crate) fn new(first: Epoch) -> Self {
        Self { newest: AtomicU64::new(first.number()), before: AtomicU64::new(first.number()) }
    }

    /// Publishes the epoch after `current` as the newest freeze. `None` if E is not yet above the newest freeze. The
    /// caller holds the lock under which E moves, and `current` is E.
    pub(crate) fn announce(&self, current: Epoch) -> Option<Epoch> {
        // Relaxed: freezes are written under the caller's lock only.
        let newest = self.newest.load(Ordering::Relaxed);
        // At least two above the newest freeze: E itself is above the newest.
        let freeze = current.next();
        if freeze.number() < newest + 2 {
            return None;
        }
        // Relaxed: a commit steps back to `before` from the new `newest`; the Release of `newest` comes behind;
        // partner: `freeze_at`.
        self.before.store(newest, Ordering::Relaxed);
        // Release: `before` comes first; partner: the Acquire in `freeze_at`. The caller's lock makes E reach the
        // freeze later (N1): a commit that reads E = S sees this store by E's AcqRel in `Epochs::advance` and the
        // Acquire in `Epochs::now`.
        self.newest.store(freeze.number(), Ordering::Release);
        Some(freeze)
    }

    /// The newest freeze `<= epoch`, for a commit that is bound and has read `epoch` as its own.
    #[inline]
    pub(crate) fn freeze_at(&self, epoch: Epoch) -> Epoch {
        // Acquire: the `before` that belongs to `newest` is visible; partner: the Release in `announce`.
        let newest = self.newest.load(Ordering::Acquire);
        if newest <= epoch.number() {
            return Epoch::new(newest);
        }
        // Relaxed: the Acquire above shows the value, and no later value is stored while the caller's commit is bound
        // (N1).
        let before = Epoch::new(self.before.load(Ordering::Relaxed));
        debug_assert!(before <= epoch, "two freezes are above {epoch}: its commit is not bound (N1)");
        before
    }

    /// The newest freeze. E may be below the freeze.
    #[inline]
    pub(crate) fn newest(&self) -> Epoch {
        // Acquire: the caller sees every store made before the freeze was announced; partner: the Release in
        // `announce`.
        Epoch::new(self.newest.load(Ordering::Acquire))
    }
}
