//! Which closed log files a shipper's hold keeps, from when on, and until when.

use super::*;
use crate::files::names::SegmentName;
use crate::store::closed_files::ClosedFile;

const LIMIT: u64 = 1000;

fn name() -> SegmentName {
    SegmentName { generation: 3, logger: 1, number: 12 }
}

/// A closed file whose last entry is of this epoch.
fn closed(name: SegmentName, largest: u64) -> ClosedFile {
    let (largest, bytes) = (Epoch::new(largest), 4096);
    ClosedFile { file: SegmentFile { to: Some(largest), ..name.into() }, largest, bytes }
}

/// A hold of which the shared store has these files, and a checkpoint that covers epochs below this one.
fn holding(shipped: &[SegmentName], covered: u64) -> ShippingHold {
    let hold = ShippingHold::default();
    hold.begin(Duration::from_nanos(LIMIT));
    hold.release(shipped.iter().copied().map(SegmentFile::from).collect(), Epoch::new(covered));
    hold
}

#[test]
fn h5_a_file_is_kept_until_its_last_epoch_is_below_what_the_shared_checkpoint_covers() {
    for (largest, is_kept) in [(6, false), (7, true), (8, true)] {
        let hold = holding(&[], 7);
        assert_eq!(hold.keeps(&closed(name(), largest), 0), is_kept, "its last epoch is {largest}");
        assert_eq!(hold.is_holding(), is_kept);
    }
}

#[test]
fn h5_a_file_is_released_by_its_own_name_and_by_no_other() {
    let others = [
        SegmentName { generation: 4, ..name() },
        SegmentName { logger: 0, ..name() },
        SegmentName { number: 1, ..name() },
        SegmentName { number: 11, ..name() },
        SegmentName { number: 13, ..name() },
        SegmentName { number: 121, ..name() },
    ];
    let hold = holding(&others, 0);
    assert!(hold.keeps(&closed(name(), 5), 0), "none of {others:?} is it");
    assert!(
        !holding(&[name()], 0).keeps(&closed(name(), 5), 0),
        "the store calls it by its name without an end"
    );
    // A file that others were merged into has a name of its own.
    let merged = SegmentFile { is_merged: true, ..name().into() };
    let hold = holding(&[], 0);
    hold.release(BTreeSet::from([merged]), Epoch::ZERO);
    assert!(hold.keeps(&closed(name(), 5), 0));
}

#[test]
fn h5_the_limit_counts_from_the_first_refusal_and_begins_anew_once_the_shipper_has_caught_up() {
    let hold = holding(&[], 0);
    let files: Vec<_> = (0..3).map(|number| closed(SegmentName { number, ..name() }, 5)).collect();
    assert!(hold.keeps(&files[0], 50));
    // A later refusal does not put the limit off.
    assert!(hold.keeps(&files[1], 50 + LIMIT / 2) && hold.keeps(&files[0], 50 + LIMIT - 1));
    assert!(hold.is_holding() && hold.overruns() == 0);
    for now in [50 + LIMIT, 50 + LIMIT + 1, 50 + 10 * LIMIT] {
        files.iter().for_each(|file| assert!(!hold.keeps(file, now), "at {now}"));
        assert_eq!((hold.is_holding(), hold.overruns()), (false, 1), "at {now}");
    }
    let hold = holding(&[], 0);
    let file = closed(name(), 5);
    for round in 0..3 {
        let from = round * 10 * LIMIT;
        assert!(hold.keeps(&file, from) && hold.keeps(&file, from + LIMIT - 1), "round {round}");
        assert!(hold.is_holding());
        assert!(!hold.keeps(&file, from + LIMIT));
        assert_eq!(hold.overruns(), round + 1);
        hold.caught_up();
        assert!(!hold.is_holding(), "nothing was refused since");
    }
}

#[test]
fn h5_nothing_is_held_before_shipping_begins_and_behind_its_end() {
    let hold = ShippingHold::default();
    let file = closed(name(), 5);
    assert!(!hold.keeps(&file, 0) && !hold.is_holding());
    hold.begin(Duration::from_nanos(LIMIT));
    assert!(hold.keeps(&file, 0) && !hold.keeps(&file, LIMIT));
    hold.end();
    assert!(!hold.keeps(&file, 2 * LIMIT) && !hold.is_holding());
    assert_eq!(hold.overruns(), 1, "a figure of this life");
}
