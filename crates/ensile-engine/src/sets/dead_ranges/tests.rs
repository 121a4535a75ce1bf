//! Dead ranges: the rest of a scan, ranges that grow, and ranges that end.

use super::*;

const TABLE: u32 = 3;

fn range<'k>(lower: Bound<&'k [u8]>, upper: Bound<&'k [u8]>) -> Range<'k> {
    Range { lower, upper }
}

fn all() -> Range<'static> {
    range(Bound::Unbounded, Bound::Unbounded)
}

/// Lower and upper bound of a range.
type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Bounds of the rest of a scan.
fn rest<'k>(dead: &'k DeadRanges, scanned: Range<'k>, direction: Direction) -> Option<Bounds<'k>> {
    dead.range_to_visit(TABLE, scanned, direction).map(|rest| (rest.lower, rest.upper))
}

#[test]
fn a_scan_that_begins_in_a_dead_range_begins_at_its_end() {
    let mut dead = DeadRanges::default();
    dead.note(TABLE, all(), Direction::Forward, Some(b"m"), 0);
    let begins = |lower| rest(&dead, range(lower, Bound::Unbounded), Direction::Forward).expect("a rest").0;
    assert_eq!(begins(Bound::Unbounded), Bound::Included(&b"m"[..]));
    assert_eq!(begins(Bound::Included(b"c")), Bound::Included(&b"m"[..]));
    assert_eq!(begins(Bound::Excluded(b"c")), Bound::Included(&b"m"[..]));
    for behind in [Bound::Included(&b"m"[..]), Bound::Excluded(b"m"), Bound::Included(b"x")] {
        assert_eq!(begins(behind), behind);
    }
    assert_eq!(rest(&dead, range(Bound::Unbounded, Bound::Excluded(b"m")), Direction::Forward), None);
    assert_eq!(
        rest(&dead, range(Bound::Unbounded, Bound::Included(b"m")), Direction::Forward),
        Some((Bound::Included(&b"m"[..]), Bound::Included(&b"m"[..])))
    );
    assert_eq!(rest(&dead, all(), Direction::Reverse), Some((Bound::Unbounded, Bound::Unbounded)));
    assert!(
        dead.range_to_visit(TABLE + 1, all(), Direction::Forward)
            .is_some_and(|rest| rest.lower == Bound::Unbounded)
    );
}

#[test]
fn a_range_without_rows_is_dead_as_a_whole_and_a_reverse_scan_ends_where_it_begins() {
    let mut dead = DeadRanges::default();
    dead.note(TABLE, range(Bound::Included(b"c"), Bound::Unbounded), Direction::Forward, None, 0);
    assert_eq!(rest(&dead, range(Bound::Included(b"d"), Bound::Unbounded), Direction::Forward), None);
    assert_eq!(rest(&dead, all(), Direction::Reverse), Some((Bound::Unbounded, Bound::Excluded(&b"c"[..]))));
    dead.note(TABLE, range(Bound::Unbounded, Bound::Excluded(b"c")), Direction::Reverse, None, 0);
    assert_eq!(rest(&dead, all(), Direction::Forward), None);
    let mut dead = DeadRanges::default();
    dead.note(TABLE, range(Bound::Unbounded, Bound::Included(b"x")), Direction::Reverse, Some(b"m"), 0);
    let ends = |upper| rest(&dead, range(Bound::Unbounded, upper), Direction::Reverse).expect("a rest").1;
    assert_eq!(ends(Bound::Included(b"x")), Bound::Included(&b"m"[..]));
    assert_eq!(ends(Bound::Excluded(b"n")), Bound::Included(&b"m"[..]));
    for in_front in [Bound::Included(&b"m"[..]), Bound::Excluded(b"m"), Bound::Unbounded] {
        assert_eq!(ends(in_front), in_front);
    }
    assert_eq!(rest(&dead, range(Bound::Excluded(b"m"), Bound::Excluded(b"x")), Direction::Reverse), None);
}

#[test]
fn ranges_that_touch_are_one_and_the_oldest_of_many_goes() {
    let mut dead = DeadRanges::default();
    dead.note(TABLE, all(), Direction::Forward, Some(b"c"), 0);
    dead.note(TABLE, range(Bound::Included(b"c"), Bound::Unbounded), Direction::Forward, Some(b"f"), 0);
    assert_eq!(rest(&dead, all(), Direction::Forward).map(|rest| rest.0), Some(Bound::Included(&b"f"[..])));
    let begins: Vec<[u8; 1]> = (0..=RANGES_MAX as u8).map(|at| [b'g' + 2 * at]).collect();
    for begin in &begins[1..] {
        dead.note(TABLE, range(Bound::Included(begin), Bound::Included(begin)), Direction::Forward, None, 0);
    }
    assert_eq!(rest(&dead, all(), Direction::Forward).map(|rest| rest.0), Some(Bound::Unbounded));
    for begin in &begins[1..] {
        assert_eq!(
            rest(&dead, range(Bound::Included(begin), Bound::Included(begin)), Direction::Forward),
            None
        );
    }
}

#[test]
fn a_put_and_forgotten_reads_end_the_range() {
    for (key, ends) in [(&b"a"[..], true), (b"l", true), (b"m", false), (b"z", false)] {
        let mut dead = DeadRanges::default();
        dead.note(TABLE, all(), Direction::Forward, Some(b"m"), 7);
        dead.forget_ranges_with(TABLE + 1, key);
        dead.forget_reads(7);
        assert!(!dead.is_empty());
        dead.forget_ranges_with(TABLE, key);
        assert_eq!(dead.is_empty(), ends, "{key:?}");
        dead.forget_reads(6);
        assert!(dead.is_empty());
    }
}
