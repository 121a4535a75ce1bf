//! Words of a node that its version guards: the data side of the seqlock recipe in [`crate::version`].
//!
//! The words are atomics because readers load the words while a writer stores. The words need no order of their own: a
//! reader acts on a value only after `VersionWord::is_unchanged` has returned true, and every store lies between
//! `NodeLock::begin_change` and the drop of the lock. The exceptions have their own methods, `publish` and
//! `read_to_follow`.
//!
//! Neighbours: up, `node` and `suffix_block`; down, `version` for the fences.

use ensile_base::sync::{AtomicPtr, AtomicU64, Ordering};

/// The order of a load that a fence follows. ThreadSanitizer does not know fences: under ThreadSanitizer the load
/// orders by itself.
const BEFORE_FENCE: Ordering = if cfg!(tsan) {
    // Acquire: pairs with the partners of the fence.
    Ordering::Acquire
} else {
    // Relaxed: the fence orders.
    Ordering::Relaxed
};

macro_rules! guarded {
    ($(#[$doc:meta])* $name:ident, $atomic:ty, $value:ty, [$($generic:ident)?]) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub(crate) struct $name$(<$generic>)?($atomic);

        impl$(<$generic>)? $name$(<$generic>)? {
            #[inline]
            pub(crate) fn new(value: $value) -> Self {
                Self(<$atomic>::new(value))
            }

            /// Loads the word; the caller validates the version before using the value.
            #[inline(always)]
            pub(crate) fn read(&self) -> $value {
                // Ordered by the fences of `VersionWord::is_unchanged` and `VersionWord::try_lock`.
                self.0.load(BEFORE_FENCE)
            }

            /// Stores the word; the caller has begun a change, or no other thread knows the node yet.
            #[inline(always)]
            pub(crate) fn write(&self, value: $value) {
                // Relaxed: ordered after CHANGING by the fence of `NodeLock::begin_change`, before the new version by
                // the Release store that ends the change.
                self.0.store(value, Ordering::Relaxed);
            }
        }
    };
}

guarded!(
    /// A guarded 64-bit word.
    GuardedU64, AtomicU64, u64, []
);
guarded!(
    /// A guarded pointer.
    GuardedPtr, AtomicPtr<T>, *mut T, [T]
);

impl GuardedU64 {
    /// Stores a value outside any change (an exchange of a key's value, a new root of a layer). The caller holds the
    /// node's lock, and readers may see the old word or the new word.
    #[inline]
    pub(crate) fn publish(&self, value: u64) {
        // Release: pairs with the Acquire fence of `VersionWord::is_unchanged` after a reader's load: the value's
        // target is seen.
        self.0.store(value, Ordering::Release);
    }
}

impl<T> GuardedPtr<T> {
    /// Loads a pointer that is followed before any fence. A suffix block's pointer is such a pointer, because its
    /// suffixes are compared before the version is validated. So is a neighbour's pointer that another node's lock
    /// guards.
    #[inline(always)]
    pub(crate) fn read_to_follow(&self) -> *mut T {
        // Acquire: pairs with the Release store of `publish`: the pointer's target is seen. A pointer written by
        // `write` is seen as part of its node.
        self.0.load(Ordering::Acquire)
    }

    /// Stores a pointer outside any change of this node (a grown suffix block, a neighbour link). Readers may see the
    /// old or the new pointer.
    #[inline]
    pub(crate) fn publish(&self, value: *mut T) {
        // Release: pairs with the Acquire of `read_to_follow`, or with the Acquire fence of `VersionWord::is_unchanged`
        // after a reader's load: the pointer's target is seen.
        self.0.store(value, Ordering::Release);
    }
}
