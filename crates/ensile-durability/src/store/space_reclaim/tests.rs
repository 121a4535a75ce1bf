//! Pieces, pauses and limits.

use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_sim::SimDisk;

use super::*;

/// Space whose held bytes are counted.
#[derive(Debug)]
struct Counted {
    bytes: u64,
    held: Arc<AtomicU64>,
}

impl Counted {
    fn boxed(bytes: u64, held: &Arc<AtomicU64>) -> Box<dyn KeptSpace> {
        held.fetch_add(bytes, Ordering::Relaxed);
        Box::new(Self { bytes, held: Arc::clone(held) })
    }
}

impl KeptSpace for Counted {
    fn give_back(&mut self, bytes: u64) -> u64 {
        let given = bytes.min(self.bytes);
        self.held.fetch_sub(given, Ordering::Relaxed);
        self.bytes -= given;
        self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[test]
fn a_removed_file_frees_its_space_in_pieces_with_pauses() {
    let (held, space, disk) = (Arc::new(AtomicU64::new(0)), ReturnedSpace::default(), SimDisk::new());
    disk.set_capacity(Some(FREE_BYTES_MIN));
    assert_eq!(space.step(&disk, 0), None);
    let bytes = 2 * PIECE_BYTES + 1;
    space.keep(&disk, "", vec![Counted::boxed(bytes, &held), Counted::boxed(1, &held)]);
    let left = || held.load(Ordering::Relaxed);
    let pause = PAUSE.as_nanos() as u64;
    assert_eq!((space.step(&disk, 5), left()), (Some(PAUSE), PIECE_BYTES + 2));
    assert_eq!((space.step(&disk, 6), left()), (Some(PAUSE - Duration::from_nanos(1)), PIECE_BYTES + 2));
    assert_eq!((space.step(&disk, 5 + pause), left()), (Some(PAUSE), 2));
    assert_eq!((space.step(&disk, 5 + 2 * pause), left()), (Some(PAUSE), 1));
    assert_eq!((space.step(&disk, 5 + 3 * pause), left()), (None, 0));
}

#[test]
fn the_number_of_files_that_wait_is_bounded_and_a_caller_can_have_all_space() {
    let (held, space, disk) = (Arc::new(AtomicU64::new(0)), ReturnedSpace::default(), SimDisk::new());
    disk.set_capacity(Some(FREE_BYTES_MIN));
    space.keep(&disk, "", (0..FILES_MAX + 3).map(|_| Counted::boxed(7, &held)).collect());
    assert_eq!(held.load(Ordering::Relaxed), 7 * FILES_MAX as u64, "the oldest files are freed");
    assert!(space.free_all() && !space.free_all());
    assert_eq!((held.load(Ordering::Relaxed), space.step(&disk, 0)), (0, None));
}

#[test]
fn a_device_with_little_free_space_holds_none() {
    let (held, space, disk) = (Arc::new(AtomicU64::new(0)), ReturnedSpace::default(), SimDisk::new());
    let keep = || space.keep(&disk, "", vec![Counted::boxed(3 * PIECE_BYTES, &held)]);
    for free in [None, Some(FREE_BYTES_MIN - 1)] {
        disk.set_capacity(free);
        keep();
        assert_eq!(held.load(Ordering::Relaxed), 0, "{free:?} free bytes");
    }
    disk.set_capacity(Some(FREE_BYTES_MIN));
    keep();
    assert!(space.step(&disk, 0).is_some());
    disk.set_capacity(Some(FREE_BYTES_MIN - 1));
    assert_eq!((space.step(&disk, PAUSE.as_nanos() as u64), held.load(Ordering::Relaxed)), (None, 0));
}
