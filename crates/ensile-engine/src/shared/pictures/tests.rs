//! What commits leave that are late: no thread can be held up between its look at a page and its push, so the test
//! pushes itself.

use ensile_base::{Epoch, Tid};

use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending::RemovePlace;
use crate::shared::SharedState;
use crate::worker::{Worker, WorkerCounters};
use crate::{Database, Result};

fn open() -> Result<Database> {
    Database::builder_in_memory().pictures().without_threads().open()
}

/// A commit whose page was open, and whose picture is of this freeze.
fn leave(shared: &SharedState, worker: &mut Worker, since: Epoch) {
    let place = RemovePlace { table: 1, since };
    let version = worker.blocks.pending_remove((place, Tid::first_of(Epoch::FIRST)), b"key", b"value");
    WorkerCounters::add(&worker.shared.counters.displaced_bytes, version.bytes() as u64);
    let map = PageMap::new(since, PageBounds::default());
    let (left, ()) = map.page(0).leave_beside_before(&worker.shared.displaced, version, || ());
    assert!(left.is_ok() && shared.displaced_bytes().0 > 0);
}

fn keys(shared: &SharedState, freeze: Epoch) -> usize {
    let mut keys = 0;
    let has_more = shared.take_displaced_until(freeze, |version| {
        assert_eq!(version.key(), b"key");
        keys += 1;
        true
    });
    assert!(!has_more);
    keys
}

#[test]
fn n13_what_was_left_to_another_picture_is_freed_and_not_handed_out() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    let [first, second, third] = [10, 12, 14].map(Epoch::new);
    pictures.may_take_since(first);
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, second), 1);
    shared.drop_displaced();
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, second), 0, "no picture is under way");
    pictures.may_take_since(second);
    leave(shared, &mut worker, second);
    assert_eq!(keys(shared, second), 0, "a checkpointer of the first one is late");
    assert_eq!(keys(shared, third), 1, "what is the second one's");
    assert_eq!(shared.displaced_bytes().0, 0, "what came late is freed too");
    Ok(())
}

#[test]
fn what_comes_late_is_freed_once_no_commit_can_be_that_late() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    pictures.may_take_since(Epoch::new(10));
    shared.drop_displaced();
    let ended = shared.epochs.now();
    leave(shared, &mut worker, Epoch::new(10));
    assert!(!shared.drop_late_versions(pictures));
    assert!(shared.displaced_bytes().0 > 0, "another commit may be late too");
    while shared.epochs.now() < ended.plus(2) {
        db.heartbeat_step();
    }
    assert!(shared.drop_late_versions(pictures));
    assert_eq!(shared.displaced_bytes().0, 0);
    Ok(())
}

#[test]
fn a_version_without_room_is_the_next_one() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let (since, freeze) = (Epoch::new(10), Epoch::new(12));
    shared.pictures.as_ref().expect("opened for pictures").may_take_since(since);
    (0..5).for_each(|_| leave(shared, &mut worker, since));
    let mut room = 2;
    let mut take = |more| {
        room += more;
        shared.take_displaced_until(freeze, |_| {
            let has_room = room > 0;
            room -= usize::from(has_room);
            has_room
        })
    };
    assert!(take(0) && take(0) && take(2));
    assert!(!take(2), "five were left");
    assert_eq!(shared.displaced_bytes().0, 0);
    Ok(())
}
