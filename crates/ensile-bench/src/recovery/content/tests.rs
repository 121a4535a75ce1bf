//! The content of a database that was killed in a pass follows from what was counted.

use super::Writes;

fn writes(count: u64, last_is_open: bool) -> Writes {
    Writes { records: 100, count, last_is_open, threads: 2, seed: 3 }
}

fn newest(writes: &Writes, count: u64) -> Vec<Option<u64>> {
    let mut newest = vec![None; 100];
    for write in 0..count {
        newest[writes.order(write / 100).at(write % 100) as usize] = Some(write / 100);
    }
    newest
}

#[test]
fn the_newest_pass_of_each_key_follows_from_the_count() {
    for count in [0, 1, 99, 100, 101, 250, 300] {
        let writes = writes(count, false);
        assert!(writes.compare(&newest(&writes, count)).is_empty(), "{count} writes");
        let shares = (0..writes.passes()).flat_map(|pass| [writes.share(pass, 0), writes.share(pass, 1)]);
        assert_eq!(shares.map(|share| share.end - share.start).sum::<u64>(), count);
    }
    let writes = writes(250, false);
    assert_eq!(writes.compare(&newest(&writes, 249)).len(), 1, "the last write is missing");
}

#[test]
fn of_an_open_pass_each_threads_writes_come_in_order() {
    let writes = writes(300, true);
    let order = writes.order(2);
    let mut found = newest(&writes, 200);
    assert!(writes.compare(&found).is_empty(), "none of it");
    // Thread 0 has the positions from 0 on, thread 1 those from 50 on.
    for at in (0..10).chain(50..80) {
        found[order.at(at) as usize] = Some(2);
    }
    assert!(writes.compare(&found).is_empty(), "the first of each");
    found[order.at(11) as usize] = Some(2);
    assert_eq!(writes.compare(&found).len(), 1, "one behind a gap");
    found[order.at(11) as usize] = Some(0);
    assert_eq!(writes.compare(&found).len(), 1, "one of an older pass");
}
