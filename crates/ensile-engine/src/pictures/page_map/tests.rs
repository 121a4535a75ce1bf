//! Marks that go from map to map, and the pages of added tables.

use super::*;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::pending_removes::PageMarks;

pub(in crate::pictures) fn picture(attempt: u64, since: u64) -> Arc<PictureOfMaps> {
    PictureOfMaps::new(PictureAttempt::new(attempt), Epoch::new(since))
}

pub(in crate::pictures) fn map(attempt: u64, bounds: &[&str], marks: PageMarks) -> PageMap {
    PageMap::new(&picture(attempt, 7), PageBounds::new(bounds), marks)
}

/// Which pages of a map with these bounds are marked from the pages of a map with others.
fn carried(from: &[&str], marked: &[(usize, PageMarks)], to: &[&str], marks: PageMarks) -> Vec<usize> {
    let (before, next) = (map(1, from, PageMarks::NONE), map(2, to, PageMarks::NONE));
    marked.iter().for_each(|(page, marks)| before.page(*page).mark(*marks));
    next.mark_from(&before, marks);
    let pages = next.pages();
    assert!(pages.iter().all(|page| !page.has_any(PageMarks::AFTER)), "it is below the next freeze");
    (0..pages.len()).filter(|page| pages[*page].has_any(PageMarks::BEFORE)).collect()
}

#[test]
fn n7_marks_go_to_every_page_that_overlaps() {
    let after = |page| (page, PageMarks::AFTER);
    let all = |from: &[&str], marked: &[_], to: &[&str]| carried(from, marked, to, PageMarks::BOTH);
    assert_eq!(all(&["d", "m", "t"], &[after(1)], &["d", "m", "t"]), [1], "the same bounds");
    assert_eq!(all(&["d", "m", "t"], &[after(0), after(3)], &["d", "m", "t"]), [0, 3]);
    assert_eq!(all(&["d", "m"], &[after(1)], &["d", "f", "g", "m"]), [1, 2, 3], "it was cut");
    assert_eq!(all(&["d", "f", "g", "m"], &[after(2)], &["d", "m"]), [1], "it was joined");
    assert_eq!(all(&["d", "m"], &[after(1)], &["c", "e", "l", "n"]), [1, 2, 3], "bounds lie anywhere");
    assert_eq!(all(&["d", "m"], &[after(2)], &["d", "m", "x"]), [2, 3]);
    assert_eq!(all(&["d"], &[after(0)], &[]), [0]);
    assert_eq!(all(&[], &[after(0)], &["d", "m"]), [0, 1, 2]);
}

#[test]
fn n13_an_installed_picture_takes_its_marks_with_it_and_no_others() {
    let marked = [(0, PageMarks::BEFORE), (1, PageMarks::AFTER), (3, PageMarks::BOTH)];
    let bounds = ["d", "m", "t"];
    assert_eq!(carried(&bounds, &marked, &bounds, PageMarks::AFTER), [1, 3]);
    assert_eq!(carried(&bounds, &marked, &bounds, PageMarks::BOTH), [0, 1, 3]);
}

#[test]
fn the_page_of_a_table_that_is_added_is_marked_and_closed_once_the_picture_is_over() {
    let picture = picture(1, 7);
    let added = PageMap::of_added_table(&picture);
    assert!(!added.page(0).is_closed() && !added.is_over());
    picture.end();
    let late = PageMap::of_added_table(&picture);
    assert!(late.page(0).is_closed() && added.is_over() && late.is_over());
    for map in [added, late] {
        assert_eq!(map.pages().len(), 1);
        assert!(map.page(0).has_any(PageMarks::BEFORE) && map.page(0).has_any(PageMarks::AFTER));
    }
}
