//! The cost of a new own write does not grow with the writes that are already in order.

use super::*;

/// Most keys that an entry and a range look at, among `others` sorted keys, for new keys at one end of a queue.
fn keys_looked_at(others: u32, is_front: bool) -> usize {
    let keys: Vec<[u8; 4]> = (0..others + 100).map(u32::to_be_bytes).collect();
    let looked = Cell::new(0);
    let key = |at: u32| {
        looked.set(looked.get() + 1);
        &keys[at as usize][..]
    };
    let mut order = KeyOrder::default();
    let (first, step) = if is_front { (99, -1) } else { (others as i64, 1) };
    order.enter((0..others).map(|at| if is_front { at + 100 } else { at }), key);
    let mut most = 0;
    for new in (0..100).map(|at| (first + step * at) as u32) {
        looked.set(0);
        order.enter(std::iter::once(new), key);
        let range = order.range(Bound::Included(&keys[new as usize]), Bound::Unbounded, key);
        assert_eq!(range.len(), if is_front { others as usize + 100 - new as usize } else { 1 });
        most = most.max(looked.get());
    }
    most
}

#[test]
fn a_queue_that_is_emptied_from_either_end_looks_at_few_keys() {
    for is_front in [false, true] {
        let (few, many) = (keys_looked_at(1 << 8, is_front), keys_looked_at(1 << 16, is_front));
        assert!(many <= 2 * few + 16, "front {is_front}: {many} of 65,536 keys, {few} of 256");
    }
}
