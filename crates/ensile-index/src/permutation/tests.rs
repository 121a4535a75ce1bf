//! The permutation against a plain list.

use ensile_base::random::Random;

use super::Permutation;
use crate::permutation::LEAF_SLOTS;

fn taken(nibbles: u64, count: usize) -> Vec<usize> {
    (0..count).map(|index| (nibbles >> (4 * index) & 0xf) as usize).collect()
}

#[test]
fn a_permutation_follows_a_list_of_slots() {
    let mut random = Random::from_seed(7);
    let mut word = Permutation::EMPTY;
    let mut list: Vec<usize> = Vec::new();
    for _ in 0..20_000 {
        if list.len() < LEAF_SLOTS && (list.is_empty() || random.percent(55)) {
            let position = random.next_below(list.len() as u64 + 1) as usize;
            list.insert(position, word.free_slot());
            word = word.insert(position);
        } else {
            let position = random.next_below(list.len() as u64) as usize;
            list.remove(position);
            word = word.remove(position);
        }
        assert!(word.is_whole(), "{word:?}");
        assert_eq!(word.slots().collect::<Vec<_>>(), list);
        assert_eq!(taken(word.nibbles(), list.len()), list);
        list.reverse();
        assert_eq!(taken(word.nibbles_back(), list.len()), list);
        list.reverse();
        if random.percent(3) {
            let count = random.next_below(list.len() as u64 + 1) as usize;
            list.truncate(count);
            word = word.truncate(count);
        }
    }
}

#[test]
fn an_identity_names_its_slots_in_order() {
    for count in 0..=LEAF_SLOTS {
        let word = Permutation::identity(count);
        assert_eq!(word.slots().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        assert!(word.is_whole());
    }
}
