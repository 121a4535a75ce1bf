//! The freezes of pictures: the newest one and the one before it, as commits read them (SIREN §3.1).
//!
//! A picture at `e_c` shows the state at the end of that epoch. Its freeze is `S = e_c + 1`.
//!
//! Invariants:
//! - N1: a freeze is published before E reaches it. So a commit that reads its epoch e, and then the freezes, finds
//!   the newest one up to e.
//! - N1: two are enough, since the next freeze is announced only when E is above the newest one. While a commit of
//!   epoch e is bound, E is e + 1 at most (E2). So the newest freeze is e + 2 at most, and the one before it e at most.
//!
//! Neighbours: [`crate::Epochs`] owns it and calls [`Freezes::announce`] under the lock that moves E; commits ask
//! [`crate::Epochs::freeze_at`].

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

/// The newest freeze and the one before it.
#[derive(Debug)]
pub(crate) struct Freezes {
    newest: AtomicU64,
    before: AtomicU64,
}

impl Freezes {
    /// Nothing is announced: the first epoch of this life stands for both.
    pub(crate) fn new(first: Epoch) -> Self {
        Self { newest: AtomicU64::new(first.number()), before: AtomicU64::new(first.number()) }
    }

    /// Publishes the epoch after `current` as the newest freeze. `None` if E is not yet above the newest one. The
    /// caller holds the lock under which E moves, and `current` is E.
    pub(crate) fn announce(&self, current: Epoch) -> Option<Epoch> {
        // Relaxed: freezes are written under the caller's lock only.
        let newest = self.newest.load(Ordering::Relaxed);
        // At least two above the newest one: E itself is above that.
        let freeze = current.next();
        if freeze.number() < newest + 2 {
            return None;
        }
        // Relaxed: a commit steps back to it from the new `newest`, whose Release comes behind; partner: `at`.
        self.before.store(newest, Ordering::Relaxed);
        // Release: `before` comes first; partner: the Acquire in `at`. The caller's lock sees to it that E reaches the
        // freeze later (N1): a commit that reads E = S sees this store by E's AcqRel in `Epochs::advance` and the
        // Acquire in `Epochs::now`.
        self.newest.store(freeze.number(), Ordering::Release);
        Some(freeze)
    }

    /// The newest freeze `<= epoch`, for a commit that is bound and has read `epoch` as its own.
    #[inline]
    pub(crate) fn at(&self, epoch: Epoch) -> Epoch {
        // Acquire: the `before` that belongs to it is visible; partner: the Release in `announce`.
        let newest = self.newest.load(Ordering::Acquire);
        if newest <= epoch.number() {
            return Epoch::new(newest);
        }
        // Relaxed: the Acquire above shows it, and no later one is stored while the caller's commit is bound (N1).
        let before = Epoch::new(self.before.load(Ordering::Relaxed));
        debug_assert!(before <= epoch, "two freezes are above {epoch}: its commit is not bound (N1)");
        before
    }

    /// The newest freeze. E may not have reached it.
    #[inline]
    pub(crate) fn newest(&self) -> Epoch {
        // Acquire: the caller sees all that was done before the freeze was announced; partner: the Release in
        // `announce`.
        Epoch::new(self.newest.load(Ordering::Acquire))
    }
}
