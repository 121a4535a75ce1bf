//! Pieces, pauses and limits.

use std::time::Duration;

use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_disk::KeptSpace;

use super::{FILES_MAX, PAUSE, PIECE_BYTES, ReturnedSpace};

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
    fn bytes(&self) -> u64 {
        self.bytes
    }

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
fn a_removed_file_gives_its_space_back_in_pieces_with_pauses() {
    let (held, space) = (Arc::new(AtomicU64::new(0)), ReturnedSpace::default());
    assert_eq!(space.step(0), None);
    let bytes = 2 * PIECE_BYTES + 1;
    space.keep(vec![Counted::boxed(bytes, &held), Counted::boxed(1, &held)]);
    let left = || held.load(Ordering::Relaxed);
    let pause = PAUSE.as_nanos() as u64;
    assert_eq!((space.step(5), left()), (Some(PAUSE), PIECE_BYTES + 2));
    assert_eq!((space.step(6), left()), (Some(PAUSE - Duration::from_nanos(1)), PIECE_BYTES + 2));
    assert_eq!((space.step(5 + pause), left()), (Some(PAUSE), 2));
    assert_eq!((space.step(5 + 2 * pause), left()), (Some(PAUSE), 1));
    assert_eq!((space.step(5 + 3 * pause), left()), (None, 0));
}

#[test]
fn the_number_of_files_that_wait_is_bounded_and_a_full_disk_gets_all() {
    let (held, space) = (Arc::new(AtomicU64::new(0)), ReturnedSpace::default());
    space.keep((0..FILES_MAX + 3).map(|_| Counted::boxed(7, &held)).collect());
    assert_eq!(held.load(Ordering::Relaxed), 7 * FILES_MAX as u64, "the oldest went as a whole");
    assert!(space.give_back_all() && !space.give_back_all());
    assert_eq!((held.load(Ordering::Relaxed), space.step(0)), (0, None));
}
