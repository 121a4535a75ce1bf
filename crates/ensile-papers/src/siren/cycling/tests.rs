//! What a recovery would replay, by looks.

use super::{Look, mean, peak, replayed};

fn look(epoch: u64, written: u64, low: u64) -> Look {
    Look { second: 0.0, epoch, written, kept: written, low, checkpoint_bytes: 0 }
}

#[test]
fn a_recovery_replays_what_was_written_since_the_epoch_that_is_needed() {
    let looks = [
        look(10, 1_000, 10),
        look(11, 1_500, 10),
        look(12, 2_500, 10),
        // A checkpoint whose e_l is 12 was installed.
        look(13, 3_000, 12),
        look(14, 3_600, 12),
        look(15, 4_000, 15),
    ];
    assert_eq!(replayed(&looks), [0.0, 500.0, 1_500.0, 500.0, 1_100.0, 0.0]);
    assert_eq!((mean(&replayed(&looks)), peak(&replayed(&looks))), (600.0, 1_500.0));
    assert_eq!((mean(&[]), peak(&[])), (0.0, 0.0));
}
