//! Blocks and lists of one thread.

use super::*;
use crate::record::testing::CheckedBlocks;

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch))
}

fn place(epoch: u64) -> RemovePlace {
    RemovePlace { table: 4095 - epoch as u32, since: Epoch::new(epoch + 10) }
}

#[test]
fn a_list_has_what_was_pushed_before_the_page_was_closed() {
    let mut blocks = CheckedBlocks::new();
    let page = PageState::new(PageMarks::NONE);
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        [0, 1, 7, 100, 1024, 100_000].map(|bytes| (vec![3; bytes % 100], vec![7; bytes])).into();
    for (epoch, (key, value)) in (0..).zip(&rows) {
        let left = blocks.pending_remove(place(epoch), tid(epoch), key, value);
        let (pushed, changed) = page.leave_before(left, || "changed");
        assert!(pushed.is_ok() && changed == "changed" && !page.is_closed());
    }
    let (walked, list) = page.close_behind(|| page.is_closed());
    assert!(!walked, "the page is walked before it is closed (N8)");
    let mut epoch = rows.len();
    for left in list.expect("nobody else closes it") {
        epoch -= 1;
        let (key, value) = &rows[epoch];
        assert_eq!((left.place(), left.tid()), (place(epoch as u64), tid(epoch as u64)));
        assert_eq!((left.key(), left.value()), (&key[..], &value[..]));
        assert!(left.bytes() >= key.len() + value.len());
        let bytes = left.bytes();
        assert_eq!(blocks.free_pending(left), bytes);
    }
    assert_eq!(epoch, 0, "each comes once");
}

#[test]
fn nothing_is_left_in_a_page_that_is_closed_and_it_is_closed_once() {
    let mut blocks = CheckedBlocks::new();
    let page = PageState::new(PageMarks::NONE);
    let ((), list) = page.close_behind(|| ());
    assert_eq!(list.map(Iterator::count), Some(0));
    assert!(page.is_closed());
    let left = blocks.pending_remove(place(1), tid(1), b"key", b"value");
    let (pushed, ()) = page.leave_before(left, || ());
    let back = pushed.expect_err("it is closed");
    assert_eq!(back.value(), b"value");
    blocks.free_pending(back);
    assert!(page.close_behind(|| ()).1.is_none(), "the list is somebody else's");
}

#[test]
fn a_commit_is_done_with_a_page_that_is_closed_and_marked_and_marks_it_all_the_same() {
    for mark in [PageMarks::BEFORE, PageMarks::AFTER] {
        let page = PageState::new(PageMarks::NONE);
        assert!(!page.is_closed_with(mark));
        page.mark(mark);
        assert!(!page.is_closed_with(mark), "a version may be left there");
        let page = PageState::new(PageMarks::NONE);
        let ((), _empty) = page.close_behind(|| ());
        assert!(!page.is_closed_with(mark), "it is to be marked");
        page.mark(mark);
        assert!(page.is_closed_with(mark) && !page.is_closed_with(PageMarks::BOTH));
    }
    let page = PageState::new(PageMarks::BEFORE);
    let ((), list) = page.close_behind(|| ());
    assert!(list.is_some_and(|list| list.is_empty()), "a mark is no block");
    assert!(page.is_closed() && page.has_any(PageMarks::BOTH) && !page.has_any(PageMarks::AFTER));
    page.mark(PageMarks::AFTER);
    assert!(page.is_closed() && page.has_any(PageMarks::AFTER) && page.close_behind(|| ()).1.is_none());
}

#[test]
fn a_workers_list_is_taken_as_a_whole_and_grows_again() {
    let mut blocks = CheckedBlocks::new();
    let (page, own) = (PageState::new(PageMarks::NONE), WorkerList::default());
    assert!(own.take().is_none());
    for first in [1, 4] {
        for epoch in first..first + 3 {
            let left = blocks.pending_remove(place(epoch), tid(epoch), b"key", b"value");
            let (pushed, changed) = page.leave_beside_before(&own, left, || "changed");
            assert!(pushed.is_ok() && changed == "changed");
        }
        let list: Vec<_> = own.take().expect("three were pushed").collect();
        assert!(list.iter().map(|left| left.tid()).eq([2, 1, 0].map(|at| tid(first + at))));
        assert!(own.take().is_none(), "it is taken once");
        for left in list {
            blocks.free_pending(left);
        }
    }
    let ((), list) = page.close_behind(|| ());
    assert_eq!(list.map(Iterator::count), Some(0), "the page's own list has none of them");
    let left = blocks.pending_remove(place(1), tid(1), b"key", b"value");
    let (pushed, ()) = page.leave_beside_before(&own, left, || ());
    blocks.free_pending(pushed.expect_err("the page is closed"));
    assert!(own.take().is_none());
}

#[test]
fn marks_stay_whatever_is_pushed_and_closed_and_no_list_has_them() {
    let mut blocks = CheckedBlocks::new();
    let page = PageState::new(PageMarks::NONE);
    let marks = || [PageMarks::BEFORE, PageMarks::AFTER].map(|marks| page.has_any(marks));
    let mut push =
        |epoch| page.leave_before(blocks.pending_remove(place(epoch), tid(epoch), b"key", b"value"), || ()).0;
    assert!(push(1).is_ok() && marks() == [false, false]);
    page.mark(PageMarks::BEFORE);
    assert!(push(2).is_ok() && marks() == [true, false]);
    page.mark(PageMarks::AFTER);
    page.mark(PageMarks::BEFORE);
    assert!(push(3).is_ok() && !page.is_closed() && marks() == [true, true]);
    let list: Vec<_> = page.close_behind(|| ()).1.expect("nobody else closes it").collect();
    assert!(list.iter().map(|left| left.tid()).eq([3, 2, 1].map(tid)));
    assert_eq!(marks(), [true, true]);
    for left in list {
        blocks.free_pending(left);
    }
}
