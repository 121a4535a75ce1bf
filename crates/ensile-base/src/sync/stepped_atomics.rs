//! Std's atomics with a step before each operation: a note at the counting door, a choice of the scheduler under
//! shuttle. Size and layout are std's.
//!
//! Neighbours: [`super`] re-exports the types; [`super::access_trace`] or `shuttled` has the steps.

use std::fmt;
use std::sync::atomic::{self, Ordering};

#[cfg(not(shuttle))]
use super::access_trace::{before_change, before_load, before_store};
#[cfg(shuttle)]
use super::shuttled::{before_change, before_load, before_store};

/// Methods of every atomic.
macro_rules! stepped_atomic {
    ($name:ident, $std:ty, $value:ty, [$($generic:ident)?]) => {
        /// As std's, with a step before each operation.
        #[repr(transparent)]
        pub struct $name$(<$generic>)?($std);

        impl$(<$generic>)? $name$(<$generic>)? {
            /// As std's.
            #[inline]
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(<$std>::new(value))
            }

            /// As std's.
            #[inline]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As std's.
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                before_load(self);
                self.0.load(order)
            }

            /// As std's.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                before_store(self);
                self.0.store(value, order);
            }

            /// As std's.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                before_change(self);
                self.0.swap(value, order)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found, if the value is not `current`.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                before_change(self);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found, if the value is not `current`, or after a spurious failure.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                before_change(self);
                self.0.compare_exchange_weak(current, new, success, failure)
            }
        }

        impl$(<$generic>)? fmt::Debug for $name$(<$generic>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // No step: looking at a value for people is no step of the program.
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

stepped_atomic!(AtomicBool, atomic::AtomicBool, bool, []);
stepped_atomic!(AtomicU8, atomic::AtomicU8, u8, []);
stepped_atomic!(AtomicU32, atomic::AtomicU32, u32, []);
stepped_atomic!(AtomicU64, atomic::AtomicU64, u64, []);
stepped_atomic!(AtomicUsize, atomic::AtomicUsize, usize, []);
stepped_atomic!(AtomicPtr, atomic::AtomicPtr<T>, *mut T, [T]);

/// Further methods of numbers.
macro_rules! stepped_number {
    ($name:ident, $value:ty, [$($method:ident)+]) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }

        impl $name {
            $(
                /// As std's.
                #[inline]
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    before_change(self);
                    self.0.$method(value, order)
                }
            )+

            /// As std's.
            ///
            /// # Errors
            /// The value found, if `change` returns none for the value.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                before_change(self);
                self.0.fetch_update(set_order, fetch_order, change)
            }
        }
    };
}

stepped_number!(AtomicU8, u8, [fetch_add fetch_sub fetch_max fetch_min fetch_or fetch_and]);
stepped_number!(AtomicU32, u32, [fetch_add fetch_sub fetch_max fetch_min fetch_or fetch_and]);
stepped_number!(AtomicU64, u64, [fetch_add fetch_sub fetch_max fetch_min fetch_or fetch_and]);
stepped_number!(AtomicUsize, usize, [fetch_add fetch_sub fetch_max fetch_min fetch_or fetch_and]);

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

const _: () =
    assert!(size_of::<AtomicU64>() == size_of::<u64>() && align_of::<AtomicU64>() == size_of::<u64>());
