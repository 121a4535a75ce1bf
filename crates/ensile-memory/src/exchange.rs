//! A box that two threads exchange: taken by an atomic exchange, put back by a store.
//!
//! Invariant: a pointer stands either in the cell or with one owner. Every way out is an exchange, so a box is taken
//! once for each put. The way in needs no exchange: the cell is empty while there is an owner, and a thread that takes
//! nothing from the cell leaves the cell empty.
//!
//! Neighbours: a log's worker and its logger exchange the worker's buffer through the cell.

use std::marker::PhantomData;
use std::ptr;

use ensile_base::sync::{AtomicPtr, Ordering};

/// A box; the cell is empty while an owner has the box.
#[derive(Debug)]
pub struct Exchange<T> {
    pointer: AtomicPtr<T>,
    _owned: PhantomData<Box<T>>,
}

impl<T: Send> Exchange<T> {
    /// A cell with this box.
    #[must_use]
    pub fn new(value: Box<T>) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(value)), _owned: PhantomData }
    }

    /// Takes the box out; `None` while another owner has the box.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        // Acquire: the former owner's accesses to the box come before the new owner's (partner: the Release in `put`).
        // Release: no access of the former owner moves behind its next exchange.
        let pointer = self.swap_out();
        if pointer.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Box::into_raw` in `new` or `put`. The exchange left null behind, so no other
        // thread gets the box before a `put`.
        Some(unsafe { Box::from_raw(pointer) })
    }

    #[cfg(not(loom))]
    #[inline]
    fn swap_out(&self) -> *mut T {
        // AcqRel: see `take`.
        self.pointer.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// As the shipped code, but without a write if the cell is empty: loom lets the write of such an exchange stand
    /// behind a later store of `put`. No machine does: the write of an exchange follows its read, with nothing between.
    #[cfg(loom)]
    fn swap_out(&self) -> *mut T {
        let never = ptr::without_provenance_mut(1);
        loop {
            // AcqRel, Acquire: as the exchange. A comparison that fails has read the newest value.
            let newest = self.pointer.compare_exchange(never, never, Ordering::AcqRel, Ordering::Acquire);
            let pointer = newest.unwrap_or_else(|newest| newest);
            let taken = |pointer| {
                self.pointer.compare_exchange(pointer, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire)
            };
            if pointer.is_null() || taken(pointer).is_ok() {
                return pointer;
            }
        }
    }

    /// Puts a box in; the taker sees every access of this thread to the box. The cell is empty: the caller took the
    /// former box.
    #[inline]
    pub fn put(&self, value: Box<T>) {
        // Relaxed: only the caller can have put a box.
        debug_assert!(self.pointer.load(Ordering::Relaxed).is_null(), "only the owner puts a box back");
        // Release: partner is the Acquire in `take`. An exchange that finds the cell empty meanwhile comes wholly
        // before this store, or the exchange finds this box. A box left in the cell against the contract would leak,
        // and would not be freed twice.
        self.pointer.store(Box::into_raw(value), Ordering::Release);
    }
}

impl<T> Drop for Exchange<T> {
    fn drop(&mut self) {
        // A checker's atomics end with its run: the process frees the boxes that a panic drops later.
        if cfg!(any(loom, shuttle)) && std::thread::panicking() {
            return;
        }
        // Acquire: the last owner's accesses to the box come before its drop (partner: the Release in `put`).
        let pointer = self.pointer.swap(ptr::null_mut(), Ordering::Acquire);
        if !pointer.is_null() {
            // SAFETY: the pointer came from `Box::into_raw`, and stood in the cell, so the box has no owner.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Exchange;
    use std::sync::Arc;

    #[test]
    fn a_box_is_taken_once_for_each_time_that_it_was_put() {
        let exchange = Exchange::new(Box::new(1));
        assert_eq!(exchange.take().as_deref(), Some(&1));
        assert_eq!(exchange.take(), None);
        exchange.put(Box::new(2));
        assert_eq!(exchange.take().as_deref(), Some(&2));
    }

    #[test]
    fn what_stands_in_the_cell_goes_with_it() {
        let counted = Arc::new(());
        let exchange = Exchange::new(Box::new(Arc::clone(&counted)));
        drop(exchange.take());
        exchange.put(Box::new(Arc::clone(&counted)));
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(exchange);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
