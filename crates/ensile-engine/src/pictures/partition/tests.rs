//! Which pieces of a table are cut anew, and where.

use ensile_base::Epoch;
use ensile_durability::PictureAttempt;

use super::*;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::{PageMap, PictureOfMaps};
use crate::pictures::pending_removes::PageMarks;

/// Of a table with five pages: each piece's bounds, and whether it is cut.
fn pieces(marked: &[(usize, PageMarks)], marks: PageMarks) -> Vec<(String, Option<String>, bool)> {
    let picture = PictureOfMaps::new(PictureAttempt::new(1), Epoch::new(7));
    let map = PageMap::new(&picture, PageBounds::new(&["d", "h", "m", "t"]), PageMarks::NONE);
    marked.iter().for_each(|(page, marks)| map.page(*page).mark(*marks));
    let text = |key: Vec<u8>| String::from_utf8(key).expect("text");
    let pieces = pieces_of(&map, marks).into_iter();
    pieces.map(|Piece { from, to, is_cut }| (text(from), to.map(text), is_cut)).collect()
}

fn piece(from: &str, to: Option<&str>, is_cut: bool) -> (String, Option<String>, bool) {
    (from.to_owned(), to.map(str::to_owned), is_cut)
}

#[test]
fn n17_runs_of_marked_pages_are_cut_and_the_others_stay_as_they_are() {
    let marked = [(1, PageMarks::AFTER), (2, PageMarks::BEFORE), (4, PageMarks::AFTER)];
    let expected = [
        piece("", Some("d"), false),
        piece("d", Some("m"), true),
        piece("m", Some("t"), false),
        piece("t", None, true),
    ];
    assert_eq!(pieces(&marked, PageMarks::BOTH), expected);
    let expected = [
        piece("", Some("d"), false),
        piece("d", Some("h"), true),
        piece("h", Some("m"), false),
        piece("m", Some("t"), false),
        piece("t", None, true),
    ];
    assert_eq!(pieces(&marked, PageMarks::AFTER), expected, "the picture before is installed");
    let all: Vec<_> = (0..5).map(|page| (page, PageMarks::AFTER)).collect();
    assert_eq!(pieces(&all, PageMarks::BOTH), [piece("", None, true)]);
    assert_eq!(pieces(&[], PageMarks::BOTH).len(), 5);
}

/// How many pages a run has whose rows fill a tenth of one each.
fn pages_of(rows: u64) -> usize {
    let row_bytes = PageContents::FRAME_BYTES + checkpoint_entry::bytes(8, 100);
    let mut cut = PageCut::new(10 * row_bytes);
    for key in 0..rows {
        cut.add(&key.to_be_bytes(), Some(100));
        cut.add(&[&key.to_be_bytes()[..], b"deleted"].concat(), None);
    }
    cut.end().len() + 1
}

#[test]
fn the_rest_of_a_run_is_a_page_once_it_fills_half_of_one() {
    let pages = [0, 1, 9, 10, 14, 15, 20, 24, 25].map(pages_of);
    assert_eq!(pages, [1, 1, 1, 1, 1, 2, 2, 2, 3]);
}
