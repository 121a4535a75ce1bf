//! What is answered of loaded objects, and what that takes.

use super::{BYTES_EACH, LANE_BYTES, LANES, LoadedTid, LoadedTids};
use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};

fn tid(number: u64) -> Tid {
    Tid::first_of(Epoch::new(number % 1000 + 1))
}

fn bytes(loaded: &LoadedTids) -> usize {
    loaded.lanes.iter().map(|lane| lane.lock().tids.capacity() * size_of::<LoadedTid>()).sum()
}

#[test]
fn o4_what_was_loaded_is_answered_whatever_its_numbers_and_their_order() {
    let mut random = Random::seeded(7);
    let dense: Vec<u64> = (100..5_100).collect();
    let two_slices: Vec<u64> = (0..2_000).flat_map(|at| [at, 50_000 + at]).collect();
    let sparse: Vec<u64> = (0..5_000).map(|at| at * 1_000_003 + random.below(1_000_000)).collect();
    for numbers in [dense, two_slices, sparse] {
        let loaded = LoadedTids::new();
        numbers.iter().for_each(|number| loaded.add(*number, tid(*number)));
        for number in &numbers {
            let after = tid(*number).successor().expect("one more");
            assert!(loaded.includes(*number, tid(*number)) && !loaded.includes(*number, after));
        }
        for other in [0, 99, 5_100, 10_000, u64::MAX].iter().filter(|other| !numbers.contains(other)) {
            assert!(!loaded.includes(*other, Tid::ZERO), "{other}");
        }
        assert_eq!(loaded.twice(), None);
        loaded.add(numbers[7], Tid::ZERO);
        assert_eq!(loaded.twice(), Some(numbers[7]));
        loaded.clear();
        assert!(bytes(&loaded) == 0 && !loaded.includes(numbers[0], Tid::ZERO));
    }
}

#[test]
fn an_open_keeps_few_bytes_for_each_object_however_many_there_are() {
    for step in [1, 977] {
        let loaded = LoadedTids::new();
        for number in 0..300_000_u64 {
            loaded.add(number * step, tid(number));
            let most = (number as usize + 1) * BYTES_EACH + LANES * LANE_BYTES;
            if number % 1_000 == 0 {
                assert!(bytes(&loaded) <= most, "{} for {number} objects, and not {most}", bytes(&loaded));
            }
        }
    }
}
