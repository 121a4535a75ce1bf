//! Buffers that are handed out come back, whatever becomes of their workers: as many as are kept are free, and the
//! others are counted no more.

use std::cell::Cell;
use std::task::Waker;

use ensile_base::{Epoch, Tid};
use ensile_disk::Operation;

use super::*;
use crate::buffers::mapped_entries::MappedEntries;

const LARGE: usize = 2 * LOG_BUFFER_BYTES;

/// A buffer with room for such an entry, or none if its worker would have to wait.
fn fresh(queue: &BufferQueue, body_bytes: usize, bound: usize) -> Option<Box<Buffer>> {
    let (waits, has_waited) = (Counter::default(), Cell::new(false));
    let step = || has_waited.set(true);
    let fresh = queue.fresh(body_bytes, bound, &waits, || has_waited.get(), Some(&step));
    let fresh = fresh.expect("no file is needed");
    assert_eq!(waits.read(), u64::from(fresh.is_none()), "a wait is counted once");
    fresh
}

fn full(queue: &BufferQueue) -> Box<Buffer> {
    let mut buffer = fresh(queue, 8, usize::MAX).expect("there is room");
    buffer.push_body(Tid::first_of(Epoch::new(5)), &[1; 8]);
    buffer
}

/// Every buffer that is counted is free. How many there are.
fn free(queue: &BufferQueue) -> usize {
    let state = queue.state.lock();
    assert_eq!((state.sealed.len(), state.waiting), (0, 0), "nothing is written, and nobody waits");
    let counted = (state.bytes, state.large_bytes);
    assert_eq!(counted, (state.free.len() * LOG_BUFFER_BYTES, 0), "buffers that are counted and missing");
    state.free.len()
}

#[test]
fn a_buffer_that_was_written_is_free_and_no_more_than_are_kept_are_left() {
    let queue = BufferQueue::new();
    queue.add_worker();
    for _ in 0..10 {
        let buffer = full(&queue);
        queue.push(buffer);
        queue.give_back(queue.drain(), 1);
        assert_eq!(free(&queue), 1);
    }
    queue.remove_worker(None);
    assert_eq!(free(&queue), 1);
    let queue = BufferQueue::new();
    let buffers: Vec<_> = (0..20)
        .map(|_| {
            queue.add_worker();
            full(&queue)
        })
        .collect();
    (0..20).for_each(|_| queue.remove_worker(None));
    queue.give_back(buffers, 1);
    assert_eq!(free(&queue), FREE_BUFFERS_MAX);
    // A worker that comes then is one, and two buffers are more than it may have.
    queue.add_worker();
    let held: Vec<_> = (0..FREE_BUFFERS_MAX).map(|_| full(&queue)).collect();
    assert!(
        fresh(&queue, 8, FREE_BUFFERS_MAX * LOG_BUFFER_BYTES).is_none(),
        "its workers before it have gone"
    );
    queue.give_back(held, 1);
    queue.remove_worker(fresh(&queue, 8, usize::MAX));
    assert_eq!(free(&queue), FREE_BUFFERS_MAX);
}

#[test]
fn a_large_buffer_takes_the_place_of_free_ones_and_is_not_kept() {
    let queue = BufferQueue::new();
    (0..3).for_each(|_| queue.add_worker());
    let buffers: Vec<_> = (0..3).map(|_| full(&queue)).collect();
    queue.give_back(buffers, 1);
    assert_eq!(free(&queue), 3);
    let bound = Buffer::bytes_for(LARGE) + LOG_BUFFER_BYTES;
    let large = fresh(&queue, LARGE, bound).expect("two free ones make room");
    assert_eq!(queue.bytes(), bound);
    queue.give_back_empty(large);
    assert_eq!(free(&queue), 1);
}

/// A search without a wait: true if it has registered the waker.
fn registers(queue: &BufferQueue, bound: usize, number: &mut Option<u64>) -> bool {
    match queue
        .find_fresh(8, bound, || false, &mut Some(Waker::noop().clone()), number)
        .expect("no file is needed")
    {
        FoundBuffer::Registered => true,
        FoundBuffer::Fresh(buffer) => {
            queue.give_back_empty(buffer);
            false
        }
        FoundBuffer::Refused => panic!("nothing stops it"),
    }
}

#[test]
fn p2_each_return_of_space_releases_the_wakers_of_searches_that_found_none() {
    let queue = BufferQueue::new();
    queue.add_worker();
    let mut number = None;
    for _ in 0..3 {
        let buffer = full(&queue);
        assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number));
        assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number), "again, in its place");
        assert!(queue.take_released().is_empty(), "no space has come");
        queue.give_back([buffer], 1);
        assert_eq!(queue.take_released().len(), 1);
        assert!(!registers(&queue, LOG_BUFFER_BYTES, &mut number), "the space is there");
    }
    queue.remove_worker(None);
    assert_eq!(free(&queue), 1);
}

#[test]
fn p2_a_stop_and_the_end_of_a_worker_release_wakers_and_a_withdrawn_waker_is_gone() {
    let queue = BufferQueue::new();
    queue.add_worker();
    let mut buffer = full(&queue);
    let mut number = None;
    assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number));
    queue.wake_all();
    assert_eq!(queue.take_released().len(), 1, "a stopped log is to be found");
    assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number));
    buffer.recycle(1);
    queue.remove_worker(Some(buffer));
    assert_eq!(queue.take_released().len(), 1, "the worker's buffer is free");
    queue.add_worker();
    let buffer = full(&queue);
    assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number));
    queue.withdraw(number.expect("it is registered"));
    queue.give_back([buffer], 1);
    assert!(queue.take_released().is_empty());
}

/// A logger that takes part-filled buffers leaves free ones to those who wait.
#[test]
fn p2_while_a_waker_waits_no_free_buffer_replaces_a_taken_one() {
    let queue = BufferQueue::new();
    queue.add_worker();
    let buffer = full(&queue);
    let mut number = None;
    assert!(registers(&queue, LOG_BUFFER_BYTES, &mut number));
    assert!(queue.free_buffer().is_none());
    queue.give_back([buffer], 1);
    assert!(queue.free_buffer().is_some_and(|buffer| buffer.is_empty()), "the waker is released");
    queue.take_released().clear();
}

/// Files of which none can be had.
#[derive(Debug)]
struct NoFiles;

impl MappedFiles for NoFiles {
    fn take_number(&self) -> Option<u64> {
        Some(0)
    }

    fn make(&self, _: u64, _: usize) -> Result<MappedEntries, DiskError> {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(DiskError::io(Operation::Map, "buffer-1-0".as_ref(), full))
    }

    fn remove(&self, _: MappedEntries) {
        unreachable!("none is made")
    }

    fn note_alive(&self, _: u64) {}
}

#[test]
fn a_buffer_that_gets_no_file_is_not_counted() {
    let queue = BufferQueue { files: Some(Box::new(NoFiles)), ..BufferQueue::new() };
    queue.add_worker();
    for body_bytes in [8, LARGE] {
        let made = queue.fresh(body_bytes, usize::MAX, &Counter::default(), || false, None);
        assert!(made.expect_err("no file can be had").is_full());
        assert_eq!(free(&queue), 0);
    }
}
