//! What a multi-get leaves behind.

use super::*;

fn keys(count: usize) -> impl Iterator<Item = KeyBuffer> {
    (0..count).map(|at| {
        let mut key = KeyBuffer::new();
        key.push(&vec![at as u8; at % 300]);
        key
    })
}

#[test]
fn a_huge_multi_get_leaves_no_memory_behind_and_others_leave_theirs() {
    let mut descents = Descents::default();
    descents.many.keys.refill(keys(10_000));
    descents.end_many(Vec::new());
    assert_eq!(descents.many.bytes(), 0);
    descents.many.keys.refill(keys(100));
    let bytes = descents.many.bytes();
    descents.end_many(Vec::new());
    assert_eq!(descents.many.bytes(), bytes);
    assert!(descents.many.keys.iter().zip(keys(100)).all(|(key, expected)| key == expected.as_ref()));
    descents.many.keys.refill(keys(0));
    assert_eq!(descents.many.keys.iter().count(), 0);
}
