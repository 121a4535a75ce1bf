//! A window counts what became durable in it.

use ensile_base::Epoch;

use super::{Step, Tally, epoch_to_wait_for};

#[test]
fn epochs_cut_the_window_out_of_everything_that_ran() {
    let mut tally = Tally::new();
    for (epoch, committed) in [(1, 10), (1, 5), (2, 7), (3, 1), (4, 100)] {
        tally.note(Step { committed, conflicts: 1, epoch });
    }
    assert_eq!(tally.released(1, 3), 8);
    assert_eq!(tally.released(0, 4), tally.committed());
    tally.open_window();
    assert_eq!((tally.committed(), tally.conflicts()), (0, 0));
    assert_eq!(tally.released(0, 1), 15);
}

#[test]
fn what_has_nothing_to_wait_for_counts_in_the_window_in_which_it_commits() {
    let mut tally = Tally::new();
    tally.note(Step { committed: 3, conflicts: 0, epoch: 0 });
    tally.open_window();
    tally.note(Step { committed: 5, conflicts: 0, epoch: 0 });
    tally.note(Step { committed: 7, conflicts: 0, epoch: 9 });
    assert_eq!((tally.released(8, 8), tally.released(8, 9)), (5, 12));
    assert_eq!(epoch_to_wait_for(Epoch::new(4), Epoch::new(4)), 0);
    assert_eq!(epoch_to_wait_for(Epoch::new(5), Epoch::new(4)), 5);
}

#[test]
fn a_sample_waits_for_its_epoch_to_be_durable() {
    let mut tally = Tally::new();
    let step = Step { committed: 1, conflicts: 0, epoch: 5 };
    tally.sample(step, 100, 200, Some(4));
    assert_eq!(tally.latencies().len(), 0);
    tally.sample(Step { epoch: 6, ..step }, 300, 1_100, Some(5));
    assert_eq!(tally.latencies().len(), 1);
    assert_eq!(tally.latencies().max(), 1_000);
}

#[test]
fn without_a_log_a_sample_ends_at_commit() {
    let mut tally = Tally::new();
    tally.sample(Step { committed: 1, conflicts: 0, epoch: 0 }, 100, 350, None);
    assert_eq!(tally.latencies().max(), 250);
}
