//! Count of the blocks in use, by size class. At the end of a test, the test compares the count with its remaining
//! blocks.
//!
//! The feature `audit` turns the count on. Checkers and the feature `laboratory` turn the count off: a measurement
//! counts written cache lines, and the count would add lines.
//!
//! Neighbours: [`crate::Cache`] counts each block handed out or taken back; [`crate::Memory`] owns the count.

#[cfg(any(feature = "audit", all(test, not(any(loom, shuttle)))))]
mod counted {
    use ensile_base::sync::{AtomicUsize, Ordering};

    use crate::IS_LABORATORY;
    use crate::size_class::SizeClass;

    /// Number of blocks in use, by the index of their class.
    pub(crate) struct BlocksInUse(Box<[AtomicUsize]>);

    impl BlocksInUse {
        pub(crate) fn new() -> Self {
            Self((0..SizeClass::COUNT).map(|_| AtomicUsize::new(0)).collect())
        }

        pub(crate) fn add(&self, class: SizeClass) {
            if IS_LABORATORY {
                return;
            }
            // Relaxed: a figure, read once its writers have ended.
            self.0[class.index()].fetch_add(1, Ordering::Relaxed);
        }

        pub(crate) fn remove(&self, class: SizeClass) {
            if IS_LABORATORY {
                return;
            }
            // Relaxed: a figure, read once its writers have ended.
            let before = self.0[class.index()].fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a block is freed once, under the class that it was allocated under");
        }

        pub(crate) fn count(&self, class: SizeClass) -> usize {
            // Relaxed: a figure, read once its writers have ended.
            self.0[class.index()].load(Ordering::Relaxed)
        }
    }
}

#[cfg(not(any(feature = "audit", all(test, not(any(loom, shuttle))))))]
mod counted {
    use crate::size_class::SizeClass;

    /// Nothing is counted.
    pub(crate) struct BlocksInUse;

    impl BlocksInUse {
        pub(crate) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn add(&self, _class: SizeClass) {}

        #[inline(always)]
        pub(crate) fn remove(&self, _class: SizeClass) {}

        #[cfg(feature = "audit")]
        pub(crate) fn count(&self, _class: SizeClass) -> usize {
            0
        }
    }
}

pub(crate) use counted::BlocksInUse;
