//! The door's atomics under shuttle: std's own, with a point before each operation where the scheduler may choose
//! another thread.
//!
//! Shuttle's own atomics carry a clock and a name each, and are many times as large as their values. The atomics here
//! keep size and layout, so that records and nodes in slabs, and zeroed memory, are as shipped. The order is SeqCst in
//! spite of the caller's argument, as everything here runs on one thread of the machine.
//!
//! Neighbours: re-exported by [`super`].

use std::sync::atomic::Ordering;

/// Lets the scheduler choose the next thread. Shuttle's sleep is only a choice: shuttle models no time, and unlike a
/// yield a sleep is no hint to choose another thread.
#[inline]
fn choose_thread() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

macro_rules! scheduled {
    ($(#[$doc:meta])* $name:ident, $std:ty, $value:ty, [$($generic:ident)?]) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name$(<$generic>)?($std);

        impl$(<$generic>)? $name$(<$generic>)? {
            /// An atomic with this value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(<$std>::new(value))
            }

            /// As std's.
            pub fn load(&self, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: shuttle runs one thread at a time and explores sequentially consistent runs only.
                self.0.load(Ordering::SeqCst)
            }

            /// As std's.
            pub fn store(&self, value: $value, _: Ordering) {
                choose_thread();
                // SeqCst: shuttle explores sequentially consistent runs only.
                self.0.store(value, Ordering::SeqCst);
            }

            /// As std's.
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: shuttle explores sequentially consistent runs only.
                self.0.swap(value, Ordering::SeqCst)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found instead of `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                choose_thread();
                // SeqCst: shuttle explores sequentially consistent runs only.
                self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            }
        }

        impl$(<$generic>)? std::fmt::Debug for $name$(<$generic>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // No choice of a thread: looking at a value for people is no step of the program.
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! scheduled_number {
    ($name:ident, $std:ty, $value:ty, $doc:literal) => {
        scheduled!(
            #[doc = $doc]
            #[derive(Default)]
            $name,
            $std,
            $value,
            []
        );

        impl $name {
            /// As std's.
            pub fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: as in `load`.
                self.0.fetch_add(value, Ordering::SeqCst)
            }

            /// As std's.
            pub fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: as in `load`.
                self.0.fetch_sub(value, Ordering::SeqCst)
            }

            /// As std's.
            pub fn fetch_max(&self, value: $value, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: as in `load`.
                self.0.fetch_max(value, Ordering::SeqCst)
            }

            /// As std's.
            pub fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                choose_thread();
                // SeqCst: as in `load`.
                self.0.fetch_or(value, Ordering::SeqCst)
            }
        }
    };
}

scheduled_number!(AtomicU8, std::sync::atomic::AtomicU8, u8, "An 8-bit number.");
scheduled_number!(AtomicU32, std::sync::atomic::AtomicU32, u32, "A 32-bit number.");
scheduled_number!(AtomicU64, std::sync::atomic::AtomicU64, u64, "A 64-bit number.");
scheduled_number!(AtomicUsize, std::sync::atomic::AtomicUsize, usize, "A number of the machine's width.");
scheduled!(
    /// A truth value.
    #[derive(Default)]
    AtomicBool, std::sync::atomic::AtomicBool, bool, []
);
scheduled!(
    /// A pointer.
    AtomicPtr, std::sync::atomic::AtomicPtr<T>, *mut T, [T]
);

const _: () =
    assert!(size_of::<AtomicU64>() == size_of::<u64>() && align_of::<AtomicU64>() == align_of::<u64>());
