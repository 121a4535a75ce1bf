//! What commits leave that are late: no thread can be held up between its look at a page and its push, so the test
//! pushes itself.

use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::{Epoch, Tid};
use ensile_durability::{PagesEnded, PictureAttempt, WantedPages};

use crate::record::CopyTarget;
use crate::record::page_map::{PageBounds, PageMap, PictureOfMaps};
use crate::record::pending::{PageMarks, PendingRemove, RemovePlace};
use crate::shared::SharedState;
use crate::shared::pictures::{FREED_PER_STEP, PictureAttempts};
use crate::worker::{Worker, WorkerCounters};
use crate::{Database, Result};

fn open() -> Result<Database> {
    Database::builder_in_memory().pictures().without_threads().open()
}

const FIRST: PictureAttempt = PictureAttempt::new(1);
const SECOND: PictureAttempt = PictureAttempt::new(2);

/// A commit whose page was open, and whose picture is of this freeze.
fn leave(shared: &SharedState, worker: &mut Worker, since: Epoch) {
    let place = RemovePlace { table: 1, since };
    let version = worker.blocks.pending_remove((place, Tid::first_of(Epoch::FIRST)), b"key", b"value");
    WorkerCounters::add(&worker.shared.counters.displaced_bytes, version.bytes() as u64);
    let picture = PictureOfMaps::new(FIRST, since);
    let map = PageMap::new(&picture, PageBounds::default(), PageMarks::NONE);
    let (left, ()) = map.page(0).leave_beside_before(&worker.shared.displaced, version, || ());
    assert!(left.is_ok() && shared.displaced_bytes().0 > 0);
}

fn keys(shared: &SharedState, attempt: PictureAttempt) -> Result<usize, PagesEnded> {
    let mut keys = 0;
    let has_more = shared.take_displaced_until(attempt, |version| {
        assert_eq!(version.key(), b"key");
        keys += 1;
        true
    })?;
    assert!(!has_more);
    Ok(keys)
}

#[test]
fn n13_what_was_left_to_another_picture_is_freed_and_not_handed_out() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    let [first, second] = [10, 12].map(Epoch::new);
    pictures.may_take(FIRST, first);
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, FIRST), Ok(1));
    shared.drop_displaced();
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, FIRST), Err(PagesEnded::Ended), "no picture is under way");
    pictures.may_take(SECOND, second);
    leave(shared, &mut worker, second);
    assert_eq!(keys(shared, FIRST), Err(PagesEnded::Ended), "a checkpointer of the first one is late");
    assert_eq!(keys(shared, SECOND), Ok(1), "what is the second one's");
    assert_eq!(shared.displaced_bytes().0, 0, "what came late is freed too");
    Ok(())
}

#[test]
fn what_comes_late_is_freed_once_no_commit_can_be_that_late() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    pictures.may_take(FIRST, Epoch::new(10));
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

/// Epochs wait for the heartbeat, so it frees a bounded number at a time.
#[test]
fn what_an_ended_picture_has_left_is_freed_step_by_step() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    shared.pictures.as_ref().expect("opened for pictures").may_take(FIRST, Epoch::new(10));
    let versions = 2 * FREED_PER_STEP + 1;
    (0..versions).for_each(|_| leave(shared, &mut worker, Epoch::new(10)));
    let all = shared.displaced_bytes().0;
    shared.drop_displaced();
    assert_eq!(shared.displaced_bytes().0, all, "nothing is freed under the lock of the attempts");
    let steps = (0..10).take_while(|_| shared.free_ended_step());
    let left: Vec<u64> = steps.map(|_| shared.displaced_bytes().0 * versions as u64 / all).collect();
    assert_eq!(left, [FREED_PER_STEP as u64 + 1, 1, 0]);
    Ok(())
}

#[test]
fn what_pages_are_taken_with_goes_from_one_to_the_next_and_keeps_no_large_ones_memory() -> Result<()> {
    let db = open()?;
    let pictures = db.shared().pictures.as_ref().expect("opened for pictures");
    pictures.begin();
    let mut space = pictures.page_space();
    space.left.reserve(8 * KEEP_BYTES_MAX);
    space.scratch.copy(&vec![7; 2 * KEEP_BYTES_MAX]);
    pictures.keep_page_space(space);
    let mut space = pictures.page_space();
    assert!(space.scratch.kept_bytes() <= KEEP_BYTES_MAX);
    let kept = space.left.capacity();
    assert!((1..=KEEP_BYTES_MAX).contains(&(kept * size_of::<PendingRemove>())));
    space.scratch.copy(&[7; 1000]);
    pictures.keep_page_space(space);
    let space = pictures.page_space();
    assert!(space.left.capacity() == kept && space.scratch.kept_bytes() >= 1000, "the same one");
    pictures.end();
    pictures.keep_page_space(space);
    assert_eq!(pictures.page_space().left.capacity(), 0, "nothing is kept between two pictures");
    Ok(())
}

#[test]
fn a_version_without_room_is_the_next_one() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let since = Epoch::new(10);
    shared.pictures.as_ref().expect("opened for pictures").may_take(FIRST, since);
    (0..5).for_each(|_| leave(shared, &mut worker, since));
    let mut room = 2;
    let mut take = |more| {
        room += more;
        let has_more = shared.take_displaced_until(FIRST, |_| {
            let has_room = room > 0;
            room -= usize::from(has_room);
            has_room
        });
        has_more.expect("it has not ended")
    };
    assert!(take(0) && take(0) && take(2));
    assert!(!take(2), "five were left");
    assert_eq!(shared.displaced_bytes().0, 0);
    Ok(())
}

/// What each attempt carries over, when this is what was wanted and what came of it.
fn carried(attempts: &[(WantedPages, Outcome)]) -> Vec<Option<PageMarks>> {
    let mut all = PictureAttempts::default();
    let carried = attempts.iter().map(|(wanted, outcome)| {
        let attempt = all.begin(*wanted);
        let carried = all.carried();
        let is_published = *outcome != Outcome::NotPublished && all.may_publish(attempt);
        if is_published && *outcome != Outcome::NotCarriedOver {
            all.has_carried_over(attempt);
        }
        if *outcome == Outcome::Installed {
            all.installed(attempt);
        }
        assert_eq!(all.goes_on(attempt), is_published);
        assert!(all.end() == is_published && !all.goes_on(attempt));
        carried
    });
    carried.collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    NotPublished,
    NotCarriedOver,
    Failed,
    Installed,
}

#[test]
fn n13_an_attempt_carries_over_what_no_installed_picture_has() {
    use Outcome::*;
    use WantedPages::{All, Changed};
    let (both, after) = (Some(PageMarks::BOTH), Some(PageMarks::AFTER));
    assert_eq!(
        carried(&[(Changed, Installed), (Changed, Installed)]),
        [None, after],
        "the first has no maps"
    );
    assert_eq!(carried(&[(All, Failed), (Changed, Failed), (Changed, Installed)]), [None, both, both]);
    assert_eq!(carried(&[(All, Installed), (Changed, Failed), (Changed, Installed)]), [None, after, both]);
    assert_eq!(carried(&[(All, Installed), (All, Installed), (Changed, Failed)]), [None, None, after]);
    for without_marks in [NotPublished, NotCarriedOver] {
        let attempts = [(All, Installed), (Changed, without_marks), (Changed, Installed), (Changed, Failed)];
        assert_eq!(carried(&attempts), [None, after, None, after]);
    }
    assert_eq!(
        carried(&[(All, NotCarriedOver), (Changed, Failed)]),
        [None, both],
        "all of its pages are marked"
    );
}

#[test]
fn n13_a_picture_that_is_installed_late_lets_no_mark_of_the_next_one_go() {
    let mut all = PictureAttempts::default();
    let first = all.begin(WantedPages::All);
    assert!(all.may_publish(first) && all.end());
    let second = all.begin(WantedPages::Changed);
    assert_eq!(all.carried(), Some(PageMarks::BOTH), "nobody has heard of it");
    all.installed(first);
    assert!(all.may_publish(second));
    all.has_carried_over(second);
    all.end();
    all.begin(WantedPages::Changed);
    assert_eq!(all.carried(), Some(PageMarks::BOTH), "the second is not installed");
}
