//! Every piece is replayed once, and asked for before its turn.

use super::{AHEAD, Ends};

/// Takes all of `pieces`, from the newest end where `is_newest` says so of a turn. Each with what is asked for
/// then.
fn turns(pieces: usize, is_newest: impl Fn(usize) -> bool) -> Vec<(usize, Vec<usize>)> {
    let mut ends = Ends { untaken: 0..pieces, unasked: 0..pieces };
    let mut taken = Vec::new();
    while let Some((piece, ahead)) =
        if is_newest(taken.len()) { ends.take_newest() } else { ends.take_oldest() }
    {
        taken.push((piece, ahead.collect()));
    }
    taken
}

#[test]
fn every_piece_is_taken_once_and_asked_for_once_at_most_before_its_turn() {
    let ends: [fn(usize) -> bool; 5] =
        [|_| true, |_| false, |turn| turn < 20, |turn| turn >= 20, |turn| turn % 3 == 0];
    for is_newest in ends {
        for pieces in [0, 1, 2, AHEAD, AHEAD + 1, 50] {
            let turns = turns(pieces, is_newest);
            let mut taken: Vec<_> = turns.iter().map(|(piece, _)| *piece).collect();
            let mut asked: Vec<usize> = Vec::new();
            for (at, (_, ahead)) in turns.iter().enumerate() {
                assert!(ahead.iter().all(|piece| !taken[..=at].contains(piece)), "{turns:?}");
                asked.extend(ahead);
            }
            taken.sort_unstable();
            assert!(taken.iter().copied().eq(0..pieces), "{turns:?}");
            let count = asked.len();
            asked.sort_unstable();
            asked.dedup();
            assert_eq!(asked.len(), count, "{turns:?}");
            // Only what is taken first from an end comes without having been asked for.
            assert!(asked.len() + 2 >= pieces, "{turns:?}");
        }
    }
}

#[test]
fn pieces_are_asked_for_as_far_ahead_from_either_end() {
    let newest = turns(30, |_| true);
    assert_eq!(newest[0], (29, (29 - AHEAD..29).collect()));
    assert_eq!(newest[1], (28, vec![28 - AHEAD]));
    let switched = turns(30, |turn| turn < 2);
    assert_eq!(switched[2], (0, (1..=AHEAD).collect()));
    assert_eq!(switched[3], (1, vec![AHEAD + 1]));
}
