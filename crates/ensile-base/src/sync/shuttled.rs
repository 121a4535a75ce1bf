//! The choice of the next thread before an operation of an atomic, under shuttle.
//!
//! Shuttle's own atomics carry a clock and a name each, and are many times as large as their values. Std's keep size
//! and layout, so that records and nodes in slabs, and zeroed memory, are as shipped. Everything here runs on one
//! thread of the machine, so each operation is sequentially consistent, whatever order the caller names.
//!
//! Neighbours: [`super::stepped_atomics`] calls.

pub(super) use choose_thread as before_change;
pub(super) use choose_thread as before_load;
pub(super) use choose_thread as before_store;

/// Lets the scheduler choose the next thread. Shuttle's sleep is only a choice: shuttle models no time, and unlike a
/// yield a sleep is no hint to choose another thread.
#[inline]
pub(super) fn choose_thread<T>(_: &T) {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}
