//! Every file and piece is taken once and asked for before its turn, and what has passed has passed.

use super::*;

/// Of values, a piece for each of these epochs.
fn of_pieces(oldest: impl IntoIterator<Item = u64>) -> Turns {
    let mut turns = Turns::of_files(0);
    turns.waiting_bytes_max = REPLAY_WAITING_BYTES_MAX;
    turns.add(oldest.into_iter().map(Epoch::new));
    turns
}

/// Takes all of `pieces`, from the newest end where `is_newest` says so of a turn. Each with what is asked for
/// then.
fn all(pieces: usize, is_newest: impl Fn(usize) -> bool) -> Vec<(usize, Vec<usize>)> {
    let mut turns = of_pieces(1..=pieces as u64);
    let mut taken = Vec::new();
    while let Turn::Replay { piece, ahead } =
        turns.take(if is_newest(taken.len()) { 0 } else { REPLAY_WAITING_BYTES_MAX })
    {
        taken.push((piece, ahead));
    }
    taken
}

#[test]
fn every_piece_is_taken_once_and_asked_for_once_at_most_before_its_turn() {
    let ends: [fn(usize) -> bool; 5] =
        [|_| true, |_| false, |turn| turn < 20, |turn| turn >= 20, |turn| turn % 3 == 0];
    for is_newest in ends {
        for pieces in [0, 1, 2, AHEAD, AHEAD + 1, 50] {
            let turns = all(pieces, is_newest);
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
fn l8_pieces_are_asked_for_from_either_end_and_operations_from_the_oldest() {
    let newest = all(30, |_| true);
    assert_eq!(newest[0], (29, (29 - AHEAD..29).rev().collect()));
    assert_eq!(newest[1], (28, vec![28 - AHEAD]));
    let switched = all(30, |turn| turn < 2);
    assert_eq!(switched[2], (0, (1..=AHEAD).collect()));
    assert_eq!(switched[3], (1, vec![AHEAD + 1]));
    let mut turns = of_pieces([3, 5]);
    turns.waiting_bytes_max = 0;
    assert!(matches!(turns.take(0), Turn::Replay { piece: 0, .. }));
}

#[test]
fn k1_no_piece_is_taken_while_a_file_is_loaded() {
    let mut turns = Turns::of_files(2);
    turns.add([Epoch::new(3)].into_iter());
    assert_eq!((turns.take(0), turns.take_file()), (Turn::Load(0), Turn::Load(1)));
    assert_eq!((turns.take(0), turns.take_file()), (Turn::Wait, Turn::Wait));
    turns.record_load();
    assert_eq!(turns.take(0), Turn::Wait);
    turns.record_load();
    assert_eq!(turns.take_file(), Turn::Ended, "what is left is the log's");
    assert_eq!(turns.take(0), Turn::Replay { piece: 0, ahead: Vec::new() });
}

#[test]
fn l8_a_piece_under_way_holds_the_watermark_whatever_ended_before_it() {
    let mut turns = of_pieces([3, 5, 5, 9]);
    while matches!(turns.take(0), Turn::Replay { .. }) {}
    let mut replayed = |oldest| turns.record_replay(Epoch::new(oldest));
    assert_eq!((replayed(5), replayed(9)), (Epoch::new(3), Epoch::new(3)));
    assert_eq!(replayed(3), Epoch::new(5), "one of two that begin with it is left");
    assert_eq!((turns.take(0), turns.has_ended()), (Turn::Wait, false));
    assert_eq!(turns.record_replay(Epoch::new(5)), Epoch::MAX);
    assert_eq!((turns.take(0), turns.has_ended()), (Turn::Ended, true));
}

#[test]
fn nobody_waits_for_what_failed() {
    let mut turns = of_pieces([3]);
    assert!(matches!(turns.take(0), Turn::Replay { .. }));
    turns.record_failure();
    assert_eq!((turns.take(0), turns.has_ended()), (Turn::Failed, false));
    let mut turns = Turns::of_files(2);
    assert_eq!(turns.take_file(), Turn::Load(0));
    turns.record_failure();
    assert_eq!(turns.take(0), Turn::Load(1), "an error of another file is found too");
    turns.record_load();
    assert_eq!((turns.take_file(), turns.take(0)), (Turn::Failed, Turn::Failed), "K1: no piece is taken");
}

#[test]
#[should_panic(expected = "the piece was added, and is not replayed")]
fn a_piece_is_replayed_once() {
    let mut turns = of_pieces([3]);
    turns.record_replay(Epoch::new(3));
    turns.record_replay(Epoch::new(3));
}
