//! Blocks and lists of one thread.

use ensile_base::{Epoch, Tid};
use ensile_memory::{Memory, MemoryConfig};

use super::PageState;
use crate::record::blocks::Blocks;

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch))
}

#[test]
fn a_list_has_what_was_pushed_before_the_page_was_closed() {
    let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
    let page = PageState::new();
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        [0, 1, 7, 100, 1024, 100_000].map(|bytes| (vec![3; bytes % 100], vec![7; bytes])).into();
    for (epoch, (key, value)) in rows.iter().enumerate() {
        let left = blocks.pending_remove(tid(epoch as u64), key, value);
        let (pushed, changed) = page.leave_before(left, || "changed");
        assert!(pushed.is_ok() && changed == "changed" && !page.is_closed());
    }
    let (walked, list) = page.close_behind(|| page.is_closed());
    assert!(!walked, "the page is walked before it is closed (N8)");
    let mut epoch = rows.len();
    for left in list.expect("nobody else closes it") {
        epoch -= 1;
        let (key, value) = &rows[epoch];
        assert_eq!((left.tid(), left.key(), left.value()), (tid(epoch as u64), &key[..], &value[..]));
        assert!(left.bytes() >= key.len() + value.len());
        let bytes = left.bytes();
        assert_eq!(blocks.free_pending(left), bytes);
    }
    assert_eq!(epoch, 0, "each comes once");
}

#[test]
fn nothing_is_left_in_a_page_that_is_closed_and_it_is_closed_once() {
    let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
    let page = PageState::new();
    let ((), list) = page.close_behind(|| ());
    assert_eq!(list.map(Iterator::count), Some(0));
    assert!(page.is_closed());
    let left = blocks.pending_remove(tid(1), b"key", b"value");
    let (pushed, ()) = page.leave_before(left, || ());
    let back = pushed.expect_err("it is closed");
    assert_eq!(back.value(), b"value");
    blocks.free_pending(back);
    assert!(page.close_behind(|| ()).1.is_none(), "the list is somebody else's");
}
