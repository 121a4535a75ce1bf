//! What each kind waits for and demands, by E.

use super::*;

fn epoch(number: u64) -> Epoch {
    Epoch::new(number)
}

#[test]
fn k1_a_fuzzy_walk_begins_behind_low_and_demands_the_epoch_of_its_end() {
    let mut epochs = WalkEpochs::open(Strategy::Fuzzy, epoch(7));
    assert_eq!((epochs.low(), epochs.durable_min()), (epoch(7), None));
    assert_eq!(epochs.next_opening(epoch(7)), NextOpening::Epoch(epoch(8)));
    assert_eq!(epochs.next_opening(epoch(8)), NextOpening::Parts);
    epochs.end(epoch(9));
    assert_eq!((epochs.low(), epochs.durable_min()), (epoch(7), Some(epoch(9))));
}

#[test]
#[should_panic(expected = "K1, N2: E has passed e_l")]
fn k1_no_fuzzy_walk_ends_before_it_may_begin() {
    WalkEpochs::open(Strategy::Fuzzy, epoch(7)).end(epoch(7));
}

#[test]
fn n1_n2_a_picture_waits_for_commits_that_missed_its_pages_and_for_those_below_its_freeze() {
    let mut epochs = WalkEpochs::open(Strategy::Pictures, epoch(7));
    assert_eq!(epochs.next_opening(epoch(7)), NextOpening::Pages);
    epochs.record_publication(epoch(8));
    assert_eq!(epochs.next_opening(epoch(9)), NextOpening::Epoch(epoch(10)));
    assert_eq!(epochs.next_opening(epoch(10)), NextOpening::Freeze);
    epochs.record_freeze(epoch(11));
    assert_eq!(epochs.next_opening(epoch(11)), NextOpening::Epoch(epoch(12)));
    assert_eq!(epochs.next_opening(epoch(12)), NextOpening::Parts);
    epochs.end(epoch(20));
    assert_eq!((epochs.low(), epochs.durable_min()), (epoch(11), Some(epoch(10))), "however long it took");
}

#[test]
#[should_panic(expected = "N1: E was two above")]
fn n1_no_freeze_is_announced_with_the_pages() {
    let mut epochs = WalkEpochs::open(Strategy::Pictures, epoch(7));
    epochs.record_publication(epoch(8));
    epochs.record_freeze(epoch(9));
}
