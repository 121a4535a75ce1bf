//! The counting door: what it notes, and what it leaves alone.

use super::{Arc, Mutex, Touch, Touched, record};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering, plain_access};

/// Line by line what was touched of `target`, how and how often.
fn of<T>(target: &T, touched: &[Touched]) -> Vec<(Touch, u64)> {
    let line = std::ptr::from_ref(target).addr() / super::LINE_BYTES;
    let mut found: Vec<_> =
        touched.iter().filter(|one| one.line == line).map(|one| (one.touch, one.count)).collect();
    found.sort_unstable();
    found
}

#[repr(align(64))]
struct Line<T>(T);

#[test]
fn types_have_the_layout_of_stds() {
    assert_eq!(size_of::<AtomicU64>(), 8);
    assert_eq!(size_of::<AtomicU8>(), 1);
    assert_eq!(size_of::<AtomicPtr<u8>>(), size_of::<*mut u8>());
    assert_eq!(size_of::<Mutex<u64>>(), size_of::<std::sync::Mutex<u64>>());
    assert_eq!(align_of::<AtomicU64>(), align_of::<std::sync::atomic::AtomicU64>());
}

#[test]
fn loads_stores_and_read_modify_writes_are_told_apart_by_place() {
    let (word, flag) = (Line(AtomicU64::new(1)), Line(AtomicBool::new(false)));
    let (sum, touched) = record(|| {
        word.0.store(5, Ordering::Relaxed);
        for _ in 0..3 {
            word.0.fetch_add(1, Ordering::Relaxed);
        }
        let _ = flag.0.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed);
        word.0.load(Ordering::Relaxed)
    });
    assert_eq!(sum, 8);
    assert_eq!(of(&word, &touched), [(Touch::Load, 1), (Touch::Store, 1), (Touch::ReadModifyWrite, 3)]);
    assert_eq!(of(&flag, &touched), [(Touch::ReadModifyWrite, 1)], "a failed exchange takes the line too");
    assert!(touched.iter().all(|one| one.place.file() == file!()), "the caller's place, not the door's");
}

#[test]
fn nothing_is_noted_outside_a_recording_or_by_other_threads() {
    let word = Line(AtomicU64::new(1));
    word.0.fetch_add(1, Ordering::Relaxed);
    let ((), touched) = record(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| word.0.fetch_add(1, Ordering::Relaxed));
        });
    });
    assert!(of(&word, &touched).is_empty());
    assert!(record(|| ()).1.is_empty(), "each recording begins empty");
}

#[test]
fn a_lock_is_two_read_modify_writes() {
    let lock = Line(Mutex::new(0));
    let ((), touched) = record(|| *lock.0.lock().expect("nobody panics") += 1);
    assert_eq!(of(&lock, &touched), [(Touch::ReadModifyWrite, 2)]);
}

#[test]
fn each_owner_that_comes_or_goes_is_a_read_modify_write_of_the_counts() {
    let (small, padded) = (Arc::new(7u64), Arc::new(Line(7u64)));
    let ((), touched) = record(|| drop((small.clone(), padded.clone())));
    let counts = |value: usize, front: usize| -> u64 {
        let line = (value - front) / super::LINE_BYTES;
        touched.iter().filter(|one| one.line == line && one.touch.writes()).map(|one| one.count).sum()
    };
    assert_eq!(counts(Arc::as_ptr(&small).addr(), 16), 2);
    assert_eq!(counts(Arc::as_ptr(&padded).addr(), 64), 2);
}

#[test]
fn plain_writes_are_noted_line_by_line() {
    let block = Line([0u8; 200]);
    let ((), touched) = record(|| plain_access::store(&raw const block.0[60], 70));
    let first = std::ptr::from_ref(&block).addr() / super::LINE_BYTES;
    let mut lines: Vec<_> = touched.iter().map(|one| one.line - first).collect();
    lines.sort_unstable();
    assert_eq!(lines, [0, 1, 2], "bytes 60 to 129");
    assert!(record(|| plain_access::store(&raw const block, 0)).1.is_empty());
}

#[test]
fn a_recording_ends_with_a_panic() {
    let panicked = std::panic::catch_unwind(|| record(|| panic!("on purpose")));
    assert!(panicked.is_err());
    assert!(record(|| ()).1.is_empty());
}
