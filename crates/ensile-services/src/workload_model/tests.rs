//! The model sees what it is there to see: acknowledged operations that are lost, and one that was made twice.

use ensile_base::random::Random;

use super::{Exercised, Host, Mistake, REMEMBERED, TableElement, Tracked, Url};

/// An object with many operations, all acknowledged but the last few; and how it was shown behind each of them.
fn exercised<E: Exercised>(random: &mut Random, under_way: usize) -> (Tracked<E>, Vec<String>) {
    let (mut object, mut model) = (Tracked::<E>::new("object".to_owned()), Vec::new());
    let operations = 100 + random.next_below(400);
    let mut sequence = 0;
    for _ in 0..operations {
        // Those between are of other objects of the client.
        sequence += random.next_between(1, 30);
        object.operate(sequence, random);
        model.push(object.states.back().expect("it was pushed").reply_text());
        if object.states.len() - 1 > under_way {
            object.acknowledge();
        }
    }
    (object, model)
}

/// However many of the acknowledged operations are lost, as long as they are remembered, that is found: what an object
/// that comes and goes is then is nothing that it is later.
fn lost_tails_are_seen<E: Exercised>() {
    for seed in 0..300 {
        let mut random = Random::from_seed(seed);
        let under_way = random.next_below(8) as usize;
        let (mut object, model) = exercised::<E>(&mut random, under_way);
        let lost = random.next_between(1, REMEMBERED as u64) as usize;
        let found = &model[model.len() - 1 - under_way - lost];
        let told = object.find(found);
        assert!(matches!(told, Err(Mistake::Lost(_))), "seed {seed}, {lost} lost: {told:?}");
        // What may be is taken for what is.
        let may_be = random.next_below(under_way as u64 + 1) as usize;
        let found = &model[model.len() - 1 - may_be];
        object.find(found).unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
        assert_eq!(object.under_way(), 0);
    }
}

#[test]
fn a_lost_tail_of_an_element_is_seen() {
    lost_tails_are_seen::<TableElement>();
}

#[test]
fn a_lost_tail_of_a_url_is_seen() {
    lost_tails_are_seen::<Url>();
}

#[test]
fn a_lost_tail_of_a_host_is_seen() {
    lost_tails_are_seen::<Host>();
}

#[test]
fn objects_come_and_go() {
    let mut random = Random::from_seed(1);
    let (_, model) = exercised::<TableElement>(&mut random, 0);
    assert!(model.iter().filter(|shown| *shown == "-").count() > 1, "{model:?}");
}
