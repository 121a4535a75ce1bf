//! Numbers against a model, in a table whose searches meet each other.
//!
//! Neighbours: [`super`].

use std::collections::BTreeSet;

use ensile_base::random::Random;

use super::NumberTable;

#[test]
fn what_is_in_it_is_found_and_nothing_else_whatever_was_taken_out() {
    for seed in 0..50 {
        let mut random = Random::from_seed(seed);
        let (table, mut model) = (NumberTable::new(), BTreeSet::new());
        // Few tags, at both ends of any table: runs of slots are long, and go round its end.
        let tag = |random: &mut Random| (random.next_below(8) as u32).wrapping_sub(4);
        for _ in 0..400 {
            let (tag, number) = (tag(&mut random), random.next_below(40) as u32);
            if model.remove(&(tag, number)) {
                table.remove(tag, number);
            } else {
                table.insert(tag, number, model.len());
                model.insert((tag, number));
            }
            for tag in (0..8_u32).map(|tag| tag.wrapping_sub(4)) {
                for number in 0..40 {
                    let found = table.find(tag, |found| found == number);
                    assert_eq!(
                        found.is_some(),
                        model.contains(&(tag, number)),
                        "{tag} {number} of seed {seed}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_empty_table_finds_nothing() {
    assert_eq!(NumberTable::new().find(7, |_| true), None);
}

#[test]
fn the_largest_number_comes_back_as_it_is() {
    let table = NumberTable::new();
    table.insert(u32::MAX, u32::MAX - 1, 0);
    assert_eq!(table.find(u32::MAX, |_| true), Some(u32::MAX - 1));
}
