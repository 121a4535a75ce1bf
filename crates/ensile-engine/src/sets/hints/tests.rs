//! What a multi-get leaves behind.

use super::Hints;
use crate::codec::KeyBuffer;

fn keys(count: usize) -> impl Iterator<Item = KeyBuffer> {
    (0..count).map(|at| {
        let mut key = KeyBuffer::new();
        key.push(&vec![at as u8; at % 300]);
        key
    })
}

#[test]
fn a_huge_multi_get_leaves_no_memory_behind_and_others_leave_theirs() {
    let mut hints = Hints::default();
    hints.many.keys.refill(keys(10_000));
    hints.end_many();
    assert_eq!(hints.many.bytes(), 0);
    hints.many.keys.refill(keys(100));
    let bytes = hints.many.bytes();
    hints.end_many();
    assert_eq!(hints.many.bytes(), bytes);
    assert!(hints.many.keys.iter().zip(keys(100)).all(|(key, expected)| key == expected.as_ref()));
    hints.many.keys.refill(keys(0));
    assert_eq!(hints.many.keys.iter().count(), 0);
}
