//! A box that two threads hand to each other: taken by an atomic exchange, put back by a store.
//!
//! Invariant: a pointer stands either in the cell or with one owner. Every way out is an exchange, so a box is taken
//! once for each time that it was put. The way in needs none: the cell is empty while there is an owner, and a thread
//! that takes nothing from it leaves it empty.
//!
//! Neighbours: a log's worker and its logger exchange the worker's buffer through it.

use std::marker::PhantomData;
use std::ptr;

use ensile_base::sync::{AtomicPtr, Ordering};

/// A box, or nothing while its owner has it.
#[derive(Debug)]
pub struct Exchange<T> {
    pointer: AtomicPtr<T>,
    _owned: PhantomData<Box<T>>,
}

impl<T: Send> Exchange<T> {
    /// A cell with this box in it.
    #[must_use]
    pub fn new(value: Box<T>) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(value)), _owned: PhantomData }
    }

    /// Takes the box out; `None` while somebody else has it.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        // Acquire: what the owner before did to the box comes before what this one does (partner: the Release in
        // `put`). Release: nothing of the former owner's moves behind its next exchange.
        let pointer = self.swap_out();
        if pointer.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Box::into_raw` in `new` or `put`. The exchange left null behind, so nobody
        // else gets it before it is put back.
        Some(unsafe { Box::from_raw(pointer) })
    }

    #[cfg(not(loom))]
    #[inline]
    fn swap_out(&self) -> *mut T {
        // AcqRel: see `take`.
        self.pointer.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// As what ships, but that it writes nothing where it finds nothing: loom lets such an exchange stand behind a
    /// later store of `put`. No machine does: what an exchange writes follows what it has read, with nothing between.
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

    /// Puts a box in, whose taker owns all that this thread did to it. The cell is empty: the caller took what was
    /// there.
    #[inline]
    pub fn put(&self, value: Box<T>) {
        // Relaxed: nobody but the caller can have put one.
        debug_assert!(self.pointer.load(Ordering::Relaxed).is_null(), "only the owner puts a box back");
        // Release: partner is the Acquire in `take`. An exchange that finds the cell empty meanwhile comes wholly
        // before this, or it finds this box. A box that stood here against the contract would leak; nobody would free
        // it twice.
        self.pointer.store(Box::into_raw(value), Ordering::Release);
    }
}

impl<T> Drop for Exchange<T> {
    fn drop(&mut self) {
        // A checker's atomics end with its run: what a panic drops behind that is left to the process.
        if cfg!(any(loom, shuttle)) && std::thread::panicking() {
            return;
        }
        // Acquire: what the last owner did to the box comes before its drop (partner: the Release in `put`).
        let pointer = self.pointer.swap(ptr::null_mut(), Ordering::Acquire);
        if !pointer.is_null() {
            // SAFETY: the pointer came from `Box::into_raw`, and stood in the cell, so it has no owner.
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
