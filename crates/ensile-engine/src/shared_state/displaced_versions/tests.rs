//! What commits leave that are late: no thread can be held up between its look at a page and its push, so the test
//! pushes itself.

use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::{Epoch, Tid};
use ensile_durability::{PageContents, Pages, TakenPage, WantedPages};

use super::*;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::{PageMap, PictureOfMaps};
use crate::pictures::pending_removes::{PageMarks, RemovePlace};
use crate::pictures::picture_state::FREED_PER_STEP;
use crate::record::CopyTarget;
use crate::worker::{Worker, WorkerCounters};
use crate::{Database, Result, Table, Tuning};

fn open() -> Result<Database> {
    Database::builder_in_memory().pictures().without_threads().open()
}

const FIRST: PictureAttempt = PictureAttempt::new(1);
const SECOND: PictureAttempt = PictureAttempt::new(2);

/// A commit whose page was open, and whose picture is of this freeze.
fn leave(shared: &SharedState, worker: &mut Worker, since: Epoch) {
    let place = RemovePlace { table: 1, since };
    let version = worker.blocks.pending_remove(place, Tid::first_of(Epoch::FIRST), b"key", b"value");
    WorkerCounters::add(&worker.shared.counters.displaced_bytes, version.bytes() as u64);
    let picture = PictureOfMaps::new(FIRST, since);
    let map = PageMap::new(&picture, PageBounds::default(), PageMarks::NONE);
    let (left, ()) = map.page(0).leave_beside_before(&worker.shared.displaced, version, || ());
    assert!(left.is_ok() && shared.displaced_bytes().0 > 0);
}

/// The picture has ended, and its pages are closed.
fn end(shared: &SharedState) {
    shared.pictures.as_ref().expect("opened for pictures").forbid_takes();
    shared.drop_displaced();
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
fn the_version_that_found_no_room_is_freed_when_its_picture_ends() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let since = Epoch::new(10);
    shared.pictures.as_ref().expect("opened for pictures").allow_takes(FIRST, since);
    (0..2).for_each(|_| leave(shared, &mut worker, since));
    assert_eq!(shared.take_displaced_until(FIRST, |_| false), Ok(true), "there are more");
    end(shared);
    shared.free_ended();
    assert_eq!(shared.displaced_bytes().0, 0);
    Ok(())
}

#[test]
fn n13_what_was_left_to_another_picture_is_freed_and_not_handed_out() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    let [first, second] = [10, 12].map(Epoch::new);
    pictures.allow_takes(FIRST, first);
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, FIRST), Ok(1));
    end(shared);
    leave(shared, &mut worker, first);
    assert_eq!(keys(shared, FIRST), Err(PagesEnded::Ended), "no picture is under way");
    pictures.allow_takes(SECOND, second);
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
    pictures.allow_takes(FIRST, Epoch::new(10));
    end(shared);
    let ended = shared.epochs.now();
    leave(shared, &mut worker, Epoch::new(10));
    assert!(!shared.drop_late_versions(pictures));
    assert!(shared.displaced_bytes().0 > 0, "another commit may be late too");
    while shared.epochs.now() < ended.plus(2) {
        db.heartbeat_step();
    }
    assert!(shared.drop_late_versions(pictures));
    assert!(!shared.free_ended_step(), "one step frees them");
    assert_eq!(shared.displaced_bytes().0, 0);
    assert!(pictures.has_no_blocks(), "what was freed serves others");
    Ok(())
}

/// A picture gives way for what waits: not for what has come and gone while that was read.
#[test]
fn what_comes_and_goes_meanwhile_does_not_wait() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    pictures.allow_takes(FIRST, Epoch::new(10));
    let waiting = pictures.waiting_bytes(|| {
        leave(shared, &mut worker, Epoch::new(10));
        assert_eq!(keys(shared, FIRST), Ok(1));
        shared.workers.sum(|worker| &worker.displaced_bytes)
    });
    assert_eq!(waiting, 0);
    Ok(())
}

/// Number of rows, and of the pages of their table.
const ROWS: u64 = 5;

/// A picture with a page for each row, of those that are wanted.
fn begin_with(db: &Database, clock: &Clock, wanted: WantedPages) -> (PictureAttempt, Epoch) {
    let reach = |epoch| {
        while db.epoch() < epoch {
            clock.advance(Duration::from_millis(40));
            db.heartbeat_step();
        }
    };
    let published = db.shared().publish_pages(1, wanted);
    reach(published.epoch.plus(2));
    db.shared().carry_marks(published.attempt).expect("it has not ended");
    let freeze = db.announce_freeze().expect("E is above the last one");
    reach(freeze.next());
    (published.attempt, freeze)
}

/// Rows of the first table that was opened.
fn rows(shared: &SharedState, (attempt, freeze): (PictureAttempt, Epoch)) -> Result<u32, PagesEnded> {
    let (mut rows, mut page) = (0, PageContents::new());
    for slice in shared.page_slices(attempt, 1)?.concat().iter().filter(|slice| slice.section == 1) {
        let (mut resume, mut taken) = (Vec::new(), TakenPage::More);
        while taken == TakenPage::More {
            taken = shared.take_page(attempt, slice, &mut resume, freeze, &mut page)?;
            rows += page.entries();
        }
    }
    Ok(rows)
}

fn open_with_rows(semi_fuzzy: bool) -> Result<(Database, Clock, Table<u64, u64>)> {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().tuning(Tuning { semi_fuzzy, ..Tuning::default() });
    let db = builder.pictures().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, u64>("rows")?;
    db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &key)))?;
    Ok((db, clock, table))
}

/// N13: nothing is taken of the picture that has ended, nothing is left to it any more, and its versions are freed
/// before the next picture.
#[test]
fn n13_a_picture_that_gives_way_has_all_of_its_pages_closed() -> Result<()> {
    for semi_fuzzy in [false, true] {
        let (db, clock, table) = open_with_rows(semi_fuzzy)?;
        let shared = db.shared();
        let pictures = shared.pictures.as_ref().expect("opened for pictures");
        let first = begin_with(&db, &clock, WantedPages::All);
        db.run(|tx| tx.put(&table, &0, &0))?;
        let left = shared.displaced_bytes().0;
        assert!(left > 0 && pictures.is_under_way());
        let why = PagesEnded::GaveWay { displaced_bytes: 2, displaced_bytes_max: 1 };
        shared.abandon_picture(&mut pictures.attempts.lock(), why);
        assert!(!pictures.is_under_way());
        assert_eq!(rows(shared, first), Err(why), "nothing is taken of it");
        db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &0)))?;
        assert_eq!(shared.displaced_bytes().0, left, "nothing more is left to it");
        let mut pin = shared.epochs.register_pin();
        let call = pin.begin(shared.epochs.now());
        for (id, table) in shared.tables.logged.all_tables() {
            let map = table.pages.load(call.pin_token()).expect("of the first picture");
            assert!(map.pages().iter().all(|page| page.is_closed()), "pages of table {id}");
        }
        drop(call);
        let second = begin_with(&db, &clock, WantedPages::Changed);
        assert_eq!(shared.displaced_bytes().0, 0, "nothing of the first one is left");
        assert_eq!(keys(shared, second.0), Ok(0), "nor handed out");
        assert_eq!(rows(shared, second), Ok(ROWS as u32));
        shared.end_pages(second.0);
        assert!(!pictures.is_under_way());
    }
    Ok(())
}

/// N6, N13: maps go on collecting marks when their pages are closed.
#[test]
fn what_is_changed_behind_a_picture_that_gave_way_is_in_the_next_picture() -> Result<()> {
    for semi_fuzzy in [false, true] {
        let (db, clock, table) = open_with_rows(semi_fuzzy)?;
        let shared = db.shared();
        let pictures = shared.pictures.as_ref().expect("opened for pictures");
        let change = |key: u64| db.run(|tx| tx.put(&table, &key, &0));
        let first = begin_with(&db, &clock, WantedPages::All);
        assert_eq!(rows(shared, first), Ok(ROWS as u32));
        shared.end_pages(first.0);
        shared.picture_installed(first.0);
        change(1)?;
        let second = begin_with(&db, &clock, WantedPages::Changed);
        change(0)?;
        let why = PagesEnded::GaveWay { displaced_bytes: 2, displaced_bytes_max: 1 };
        shared.abandon_picture(&mut pictures.attempts.lock(), why);
        change(ROWS - 1)?;
        assert_eq!(rows(shared, second), Err(why));
        shared.end_pages(second.0);
        let third = begin_with(&db, &clock, WantedPages::Changed);
        assert_eq!(rows(shared, third), Ok(3), "what the second one was to write, and what came since");
        shared.end_pages(third.0);
    }
    Ok(())
}

/// Epochs wait for the heartbeat, so it frees a bounded number at a time.
#[test]
fn what_an_ended_picture_has_left_is_freed_step_by_step() -> Result<()> {
    let db = open()?;
    let (shared, mut worker) = (db.shared(), db.shared().new_worker());
    let pictures = shared.pictures.as_ref().expect("opened for pictures");
    pictures.allow_takes(FIRST, Epoch::new(10));
    let versions = 2 * FREED_PER_STEP + 1;
    (0..versions).for_each(|_| leave(shared, &mut worker, Epoch::new(10)));
    let all = shared.displaced_bytes().0;
    end(shared);
    assert_eq!(shared.displaced_bytes().0, all, "nothing is freed under the lock of the attempts");
    let step = |_| (shared.free_ended_step(), shared.displaced_bytes().0 * versions as u64 / all);
    let steps = [0; 3].map(step);
    assert_eq!(steps, [(true, FREED_PER_STEP as u64 + 1), (true, 1), (false, 0)], "no step is empty");
    assert!(pictures.has_no_blocks(), "what was freed serves others");
    // A step that ends with a list, too.
    (0..FREED_PER_STEP).for_each(|_| leave(shared, &mut worker, Epoch::new(10)));
    end(shared);
    assert!(!shared.free_ended_step() && shared.displaced_bytes().0 == 0 && pictures.has_no_blocks());
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
    shared.pictures.as_ref().expect("opened for pictures").allow_takes(FIRST, since);
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
