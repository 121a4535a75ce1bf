//! Blocks while they are filled: how many are large, what a tail takes out of one, when one is full.

use ensile_base::Epoch;

use super::*;

const TID: Tid = Tid::first_of(Epoch::new(1));

#[test]
fn only_one_block_at_a_time_is_large() {
    let permit = LargePermit::default();
    let (mut first, mut second) =
        (CheckpointBlock::with_permit(permit.clone()), CheckpointBlock::with_permit(permit));
    let large = BLOCK_BYTES_MAX;
    assert!(first.has_room(large));
    first.push(TID, |body| body.resize(body.len() + large, 7));
    assert!(!first.has_room(1), "a large block holds one entry");
    assert!(!second.has_room(large) && second.take_refusal());
    assert!(second.has_room(1) && !second.take_refusal());
    first.reset();
    assert!(second.has_room(large));
    drop(second);
    assert!(first.has_room(large), "a large block that is dropped gives its right back");
}

#[test]
fn an_entry_that_does_not_fit_into_a_tail_does_not_hold_up_those_behind_it() {
    let body = |number: u8, bytes: usize| vec![number; bytes];
    let bodies =
        |block: &CheckpointBlock| -> Vec<Vec<u8>> { block.iter().map(|(_, body)| body.to_vec()).collect() };
    let mut block = CheckpointBlock::new();
    for (number, bytes) in [(1, 5000), (2, 100), (3, 3000), (4, 900), (5, 20)] {
        block.push(TID, |out| out.extend(body(number, bytes)));
    }
    let mut out = Vec::new();
    assert_eq!((block.take_fitting(11, &mut out), out.len()), (0, 0), "no entry is as short");
    assert_eq!(block.entries(), 5);
    assert_eq!(block.take_fitting(1100, &mut out), 3);
    let taken: Vec<Vec<u8>> = crate::files::block::entries::FramedEntries::new(&out)
        .map(|entry| entry.expect("framed").1.to_vec())
        .collect();
    assert_eq!(taken, [body(2, 100), body(4, 900), body(5, 20)]);
    assert_eq!((block.entries(), bodies(&block)), (2, vec![body(1, 5000), body(3, 3000)]));
    out.clear();
    assert_eq!(block.take_fitting(3012, &mut out), 1);
    assert_eq!(bodies(&block), [body(1, 5000)]);
    assert_eq!(block.take_fitting(5012, &mut out), 1);
    assert_eq!((block.entries(), bodies(&block).len()), (0, 0));
}

#[test]
fn a_full_block_asks_for_the_next_one() {
    let mut block = CheckpointBlock::new();
    let mut pushed = 0;
    while block.has_room(1000) {
        block.push(TID, |body| body.resize(body.len() + 1000, 7));
        pushed += 1;
    }
    assert!(!block.take_refusal(), "a large block would not help");
    assert_eq!(pushed, BLOCK_BYTES_MAX / 1012);
}
