//! Steps of a commit, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ensile_base::clock::Clock;
use ensile_durability::{PageContents, Pages, PictureAttempt, TakenPage, WantedPages};
use ensile_sim::SimDisk;

use super::*;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::{PageMap, PictureOfMaps};
use crate::pictures::pending_removes::PageMarks;
use crate::record::tree::RecordLookup;
use crate::session::Session;
use crate::sets::context::Context;
use crate::{Database, Error, Readable, Result, Table, Transaction, session};

/// Runs some steps of the transaction's commit.
pub(super) fn with_commit<R>(tx: &mut Transaction<'_>, run: impl FnOnce(&mut Commit<'_, '_>) -> R) -> R {
    let Some(Session { kept, worker }) = &mut *tx.session else { unreachable!("it has not ended") };
    let worker = session::worker_of(&tx.database, worker);
    kept.enter(
        |pinned, Context { sets, .. }| {
            run(&mut Commit {
                shared: &tx.database,
                worker,
                sets,
                pinned,
                turned: crate::commit::Turned::default(),
            })
        },
        |_| panic!("nobody expires it"),
    )
}

/// The steps before binding.
pub(super) fn prepare(commit: &mut Commit<'_, '_>) -> Result<()> {
    commit.place()?;
    commit.reserve().map(drop)
}

/// The new record takes no word from the one that it is to replace: it would be locked for ever.
#[test]
fn a_commit_that_is_abandoned_beside_another_ones_lock_leaves_no_locked_record() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&table, &1, b"short".as_slice()))?;
    let mut tx = db.begin();
    tx.put(&table, &1, [7; 3000].as_slice())?;
    with_commit(&mut tx, |commit| {
        let versions = commit.worker.blocks.place();
        commit.place()?;
        let record = commit.sets.writes.entries[0].record_at(commit.pinned);
        let before = record.lock();
        commit.reserve()?;
        record.unlock_with(before);
        let replacement = commit.sets.writes.entries[0].replacement.as_ref();
        assert!(replacement.is_some_and(|fresh| !fresh.record().word().is_locked()));
        commit.abandon(versions);
        Ok::<_, crate::Error>(())
    })?;
    drop(tx);
    assert_eq!(db.run(|tx| tx.get(&table, &1))?.as_deref(), Some(b"short".as_slice()));
    Ok(())
}

/// Runs a transaction's commit, and `meanwhile` between what it obtains and its locks.
fn commit_behind(tx: &mut Transaction<'_>, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    with_commit(tx, |commit| {
        let versions = commit.worker.blocks.place();
        prepare(commit)?;
        commit.prepare_displaced();
        meanwhile()?;
        let committed = commit.bind_and_take_effect();
        commit.give_back_displaced();
        match &committed {
            Ok(committed) => commit.register_garbage(*committed),
            Err(_) => commit.abandon(versions),
        }
        committed.map(drop)
    })
}

/// A delete obtains an absent record for a row that is too large for a page of versions. There is no row to replace.
#[test]
fn a_delete_of_a_large_row_that_never_came_gives_its_absent_record_back() -> Result<()> {
    let db = Database::builder_in_memory().without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&table, &1, [1].as_slice()))?;
    // Its placeholder stays for a while.
    let mut loser = db.begin();
    loser.get(&table, &1)?;
    loser.put(&table, &2, [2; 3000].as_slice())?;
    db.run(|tx| tx.put(&table, &1, [3].as_slice()))?;
    assert!(matches!(loser.commit(), Err(Error::Conflict)));
    db.run(|tx| {
        tx.put(&table, &2, [4; 3000].as_slice())?;
        tx.delete(&table, &2).map(drop)
    })?;
    assert_eq!(db.run(|tx| tx.get(&table, &2))?, None);
    Ok(())
}

/// Another commit has preserved the version meanwhile. The room was a block of its own, as an old snapshot is open.
#[test]
fn a_commit_gives_back_the_room_for_a_version_that_another_one_has_preserved() -> Result<()> {
    let clock = Clock::manual();
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, u64>("rows")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    let beat = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    (0..60).for_each(|_| beat());
    let snapshot = db.snapshot()?;
    (0..60).for_each(|_| beat());
    let mut tx = db.begin();
    tx.put(&table, &1, &2)?;
    commit_behind(&mut tx, || db.run(|other| other.put(&table, &1, &3)))?;
    drop((tx, snapshot));
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(2));
    Ok(())
}

/// Its locks took longer than the pause between two turns: it would be turned away for as long as others have turns.
#[test]
fn a_commit_that_is_turned_away_twice_takes_a_turn_itself() -> Result<()> {
    let db = Database::in_memory()?;
    let mut turned = super::Turned::default();
    turned.away(db.shared())?;
    assert!(turned.passing.is_some() && !db.shared().life.gate.has_turn());
    turned.away(db.shared())?;
    assert!(turned.turn.is_some() && turned.passing.is_none() && db.shared().life.gate.has_turn());
    drop(turned);
    assert!(!db.shared().life.gate.has_turn());
    Ok(())
}

/// Another commit, about to make way, holds the lock of a record that this one has read: it waits, and does not lose.
#[test]
fn p1_a_commit_in_its_turn_does_not_lose_to_a_lock_that_is_about_to_be_given_back() -> Result<()> {
    // No boundary comes meanwhile, for which it would have to run again.
    check_that_locks_are_waited_for(&Database::builder_in_memory().snapshots(false).open()?)
}

/// The log space was given back with the first binding.
#[test]
fn p1_a_logged_commit_in_its_turn_waits_for_a_lock_with_log_space() -> Result<()> {
    for before_images in [false, true] {
        let builder = Database::builder("unused").disk(Arc::new(SimDisk::new())).snapshots(false);
        let builder = builder.durability(crate::Durability::Relaxed).before_images(before_images);
        check_that_locks_are_waited_for(&builder.open()?)?;
    }
    Ok(())
}

fn check_that_locks_are_waited_for(db: &Database) -> Result<()> {
    let table = db.table::<u64, u64>("rows")?;
    db.run(|tx| [1, 2, 3].iter().try_for_each(|row| tx.put(&table, row, &0)))?;
    for writes in [true, false] {
        let before = db.stats();
        let [is_locked, has_begun, has_ended] = [(); 3].map(|()| AtomicBool::new(false));
        let shared = db.shared();
        let turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Duration::MAX, None)?;
        std::thread::scope(|scope| {
            let mut tx = db.begin();
            assert_eq!((tx.get(&table, &1)?, tx.get(&table, &2)?), (Some(0), Some(0)));
            scope.spawn(|| {
                lock_beside(db, &table, 1, || {
                    is_locked.store(true, Ordering::Release);
                    wait_while(Duration::MAX, || !has_begun.load(Ordering::Acquire));
                    // A commit that writes has met the lock once it was bound and is not any more. One that only reads
                    // is never bound.
                    let is_bound = || shared.epochs.is_any_bound();
                    let goes_on = || !has_ended.load(Ordering::Acquire);
                    if writes {
                        wait_while(Duration::from_secs(1), || goes_on() && !is_bound());
                        wait_while(Duration::from_secs(1), || goes_on() && is_bound());
                    } else {
                        wait_while(Duration::from_millis(100), goes_on);
                    }
                });
            });
            while !is_locked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let written = if writes { tx.put(&table, &3, &1) } else { Ok(()) };
            has_begun.store(true, Ordering::Release);
            let committed = written.and_then(|()| tx.commit());
            has_ended.store(true, Ordering::Release);
            committed
        })?;
        drop(turn);
        assert_eq!(db.stats().aborts, before.aborts, "it did not lose");
    }
    Ok(())
}

/// Waits for as long as that holds, or for this long.
fn wait_while(most: Duration, holds: impl Fn() -> bool) {
    let clock = Clock::machine();
    let begun = clock.nanos();
    while holds() && u128::from(clock.nanos() - begun) < most.as_nanos() {
        std::thread::yield_now();
    }
}

/// It may have looked whose turn it is before the turn began, and takes effect then.
#[test]
fn p1_a_turn_begins_when_commits_that_were_bound_before_have_ended() -> Result<()> {
    let db = Database::in_memory()?;
    let shared = db.shared();
    let worker = Worker::new(&shared.epochs, None, &shared.memory);
    worker.commit.bind(shared.epochs.now());
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| {
            let turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Duration::MAX, None);
            has_begun.store(true, Ordering::Release);
            turn.map(drop)
        });
        let is_waiting = || !has_begun.load(Ordering::Acquire);
        wait_while(Duration::MAX, || is_waiting() && !shared.life.gate.has_turn());
        // Without the wait it begins at any moment from here on.
        wait_while(Duration::from_secs(1), is_waiting);
        let is_early = has_begun.load(Ordering::Acquire);
        worker.commit.unbind();
        turn.join().expect("no panic")?;
        assert!(!is_early, "a commit is under way");
        Ok(())
    })
}

/// Locks a record as a commit would, and gives the lock back behind `meanwhile`.
fn lock_beside(db: &Database, table: &Table<u64, u64>, key: u64, meanwhile: impl FnOnce()) {
    let shared = db.shared();
    let mut pin = shared.epochs.register_pin();
    let call = pin.begin(shared.epochs.now());
    let found = table.core.tree.get(&key.to_be_bytes(), call.pin_token());
    let RecordLookup::Found(record) = found else { panic!("the row is there") };
    let before = record.lock();
    meanwhile();
    record.unlock_with(before);
}

/// A transaction that reads what this one has installed could survive it.
#[test]
fn b1_a_process_safe_commit_is_mapped_before_its_first_lock_is_released() -> Result<()> {
    for before_images in [false, true] {
        let disk = SimDisk::new();
        let builder = Database::builder("unused").disk(Arc::new(disk.clone())).without_threads();
        let builder = builder.durability(crate::Durability::Process).before_images(before_images);
        let db = builder.open()?;
        let table = db.table::<u64, u64>("rows")?;
        db.run(|tx| tx.put(&table, &1, &1))?;
        let (stores, unlocked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let watch = {
            let (db, table) = (db.clone(), table.clone());
            let (stores, unlocked) = (Arc::clone(&stores), Arc::clone(&unlocked));
            move || {
                stores.fetch_add(1, Ordering::Relaxed);
                unlocked.fetch_add(u64::from(!is_locked(&db, &table, 1)), Ordering::Relaxed);
            }
        };
        disk.watch_stores(Some(Arc::new(watch)));
        db.run(|tx| {
            tx.put(&table, &1, &2)?;
            tx.put(&table, &2, &2)
        })?;
        disk.watch_stores(None);
        let found = (stores.load(Ordering::Relaxed), unlocked.load(Ordering::Relaxed));
        assert!(found.0 > 0 && found.1 == 0, "{found:?} stores, of which behind a lock that was released");
    }
    Ok(())
}

fn is_locked(db: &Database, table: &Table<u64, u64>, key: u64) -> bool {
    let shared = db.shared();
    let mut pin = shared.epochs.register_pin();
    let call = pin.begin(shared.epochs.now());
    match table.core.tree.get(&key.to_be_bytes(), call.pin_token()) {
        RecordLookup::Found(record) => record.word().is_locked(),
        _ => panic!("the row is there"),
    }
}

fn reach(db: &Database, clock: &Clock, epoch: Epoch) {
    while db.epoch() < epoch {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    }
}

/// Publishes pages that have all marks. The freeze is yet to be announced.
fn publish_pages(db: &Database, clock: &Clock, page_bytes: usize, wanted: WantedPages) -> PictureAttempt {
    let published = db.shared().publish_pages(page_bytes, wanted);
    reach(db, clock, published.epoch.plus(2));
    db.shared().carry_marks(published.attempt).expect("it has not ended");
    published.attempt
}

/// Publishes pages, and lets E pass the freeze that is announced for them.
fn begin_picture(db: &Database, clock: &Clock) -> PictureAttempt {
    let attempt = publish_pages(db, clock, 4096, WantedPages::All);
    let freeze = db.announce_freeze().expect("E is above the last one");
    reach(db, clock, freeze.next());
    attempt
}

/// What it had copied before it made way is of a picture that is over: it copies again, and does not lose.
#[test]
fn a_commit_that_waited_for_a_turn_leaves_its_version_to_the_picture_of_the_moment() -> Result<()> {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().pictures();
    // No boundary comes meanwhile, for which it would have to run again.
    let db = builder.snapshots(false).open()?;
    let (db, shared) = (&db, db.shared());
    let table = &db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(table, &1, &vec![1; 100]))?;
    let first = begin_picture(db, &clock);
    let turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Duration::MAX, None)?;
    std::thread::scope(|scope| {
        // Its record is found before it commits, so it waits with its copy made, and not for the index.
        let commit = scope.spawn(|| {
            db.run(|tx| {
                tx.get(table, &1)?;
                tx.put(table, &1, &vec![2; 100])
            })
        });
        while shared.life.gate.passing_commits() == 0 {
            std::thread::yield_now();
        }
        shared.end_pages(first);
        let _second = begin_picture(db, &clock);
        assert_eq!(db.stats().displaced_bytes, 0);
        drop(turn);
        commit.join().expect("no panic")
    })?;
    let stats = db.stats();
    assert_eq!((stats.aborts, stats.retries), (0, 0), "it took effect when it was not turned away any more");
    assert!(stats.displaced_bytes > 0, "and left its version");
    Ok(())
}

/// Takes all pages of a picture: they are closed then.
fn take_pages(db: &Database, attempt: PictureAttempt) {
    let (pages, freeze): (&dyn Pages, _) = (db.shared(), db.shared().epochs.newest_freeze());
    for slice in pages.page_slices(attempt, 1).expect("it has not ended").concat() {
        let mut page = PageContents::new();
        let taken = pages.take_page(attempt, &slice, &mut Vec::new(), freeze, &mut page);
        assert_eq!(taken, Ok(TakenPage::Last), "few rows");
    }
}

fn with_rows(clock: &Clock) -> Result<(Database, Table<u64, Vec<u8>>)> {
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().pictures().open()?;
    let table = db.table("rows")?;
    db.run(|tx| (0..2).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
    Ok((db, table))
}

/// Whether the version of the only write was copied, and whether its page is closed, which was found.
fn prepared(commit: &Commit<'_, '_>) -> (bool, bool) {
    let [prepared] = &commit.worker.prepared_pages.pages[..] else { panic!("one write") };
    let map = commit.shared.tables.table(commit.sets.writes.entries[0].table).pages.load(commit.pinned);
    let page = prepared.page_in(map.expect("a picture has begun")).expect("nobody has published another one");
    (prepared.version.is_some(), page.is_closed())
}

/// What the transaction's commit has prepared; it does not take effect.
fn prepare_only(
    db: &Database,
    write: impl FnOnce(&mut Transaction<'_>) -> Result<()>,
) -> Result<(bool, bool)> {
    let mut tx = db.begin();
    write(&mut tx)?;
    with_commit(&mut tx, |commit| {
        let versions = commit.worker.blocks.place();
        prepare(commit)?;
        commit.prepare_displaced();
        let prepared = prepared(commit);
        commit.give_back_displaced();
        commit.abandon(versions);
        Ok(prepared)
    })
}

/// The state of its page was known before the locks: nothing is copied.
#[test]
fn a_write_to_a_page_that_is_closed_is_prepared_without_a_copy() -> Result<()> {
    let clock = Clock::manual();
    let (db, table) = with_rows(&clock)?;
    let attempt = begin_picture(&db, &clock);
    let put = |tx: &mut Transaction<'_>| tx.put(&table, &0, &vec![2; 100]);
    assert_eq!(prepare_only(&db, put)?, (true, false));
    take_pages(&db, attempt);
    assert_eq!(prepare_only(&db, put)?, (false, true));
    db.run(|tx| (0..2).try_for_each(|key| tx.put(&table, &key, &vec![3; 100])))?;
    assert_eq!((db.stats().displaced_bytes, db.stats().aborts), (0, 0));
    Ok(())
}

/// The next picture has a page of its own, which is open, and needs the version.
#[test]
fn n13_a_page_that_was_closed_in_another_map_tells_the_locks_nothing() -> Result<()> {
    let clock = Clock::manual();
    let (db, table) = with_rows(&clock)?;
    let first = begin_picture(&db, &clock);
    take_pages(&db, first);
    let mut tx = db.begin();
    tx.put(&table, &0, &vec![2; 100])?;
    with_commit(&mut tx, |commit| {
        let versions = commit.worker.blocks.place();
        prepare(commit)?;
        commit.prepare_displaced();
        assert_eq!(prepared(commit), (false, true));
        db.shared().end_pages(first);
        let _second = begin_picture(&db, &clock);
        {
            let bound = super::Bound::bind(commit);
            let mut locked = bound.commit.lock()?;
            let epoch = super::serialization_point(&db.shared().epochs, locked.has_records());
            let checked = locked.check_displaced(epoch);
            assert!(matches!(checked, Err(Error::Conflict)), "the transaction runs again: {checked:?}");
        }
        commit.give_back_displaced();
        commit.abandon(versions);
        Ok(())
    })
}

/// A commit has found its page when another map is published, and gets the marks of the first.
#[test]
fn n6_a_page_is_marked_in_the_map_that_the_locks_find() -> Result<()> {
    const KEYS: u64 = 100;
    for wanted in [WantedPages::Changed, WantedPages::All] {
        let clock = Clock::manual();
        let (db, table) = with_rows(&clock)?;
        db.run(|tx| (0..KEYS).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
        let first = begin_picture(&db, &clock);
        take_pages(&db, first);
        db.shared().picture_installed(first);
        let mut tx = db.begin();
        tx.put(&table, &(KEYS - 1), &vec![2; 100])?;
        with_commit(&mut tx, |commit| {
            let versions = commit.worker.blocks.place();
            prepare(commit)?;
            commit.prepare_displaced();
            assert_eq!(prepared(commit), (false, true), "it has found the page, which is closed");
            let second = publish_pages(&db, &clock, 1 << 20, wanted);
            {
                let bound = super::Bound::bind(commit);
                let mut locked = bound.commit.lock()?;
                let epoch = super::serialization_point(&db.shared().epochs, locked.has_records());
                locked.check_displaced(epoch)?;
            }
            let map = db.shared().tables.table(commit.sets.writes.entries[0].table).pages.load(commit.pinned);
            let map = map.filter(|map| map.attempt() == second).expect("it is published");
            let is_marked = map.pages().iter().map(|page| page.has_any(PageMarks::BEFORE));
            let marked: Vec<_> = is_marked.enumerate().filter_map(|(page, is)| is.then_some(page)).collect();
            assert_eq!(marked, [map.bounds().len() - 1]);
            assert_eq!(map.bounds().len() == 1, wanted == WantedPages::All, "nothing else has changed");
            commit.give_back_displaced();
            commit.abandon(versions);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// Marks of every kind of write, as the next picture finds them.
#[test]
fn n6_the_first_change_of_a_key_marks_its_page_whatever_it_is() -> Result<()> {
    type Change = fn(&mut Transaction<'_>, &Table<u64, Vec<u8>>) -> Result<()>;
    let changes: [(Change, bool); 7] = [
        (|tx, table| tx.put(table, &0, &vec![2; 100]), true),
        (|tx, table| tx.put(table, &0, &vec![2; 3000]), true),
        (|tx, table| tx.put(table, &7, &vec![2; 100]), true),
        (|tx, table| tx.delete(table, &1).map(drop), true),
        (|tx, table| tx.put(table, &5, &vec![2; 100]), true),
        (|tx, table| tx.delete(table, &5).map(drop), false),
        (|tx, table| tx.put(table, &9, &vec![2; 100]).and_then(|()| tx.delete(table, &9).map(drop)), false),
    ];
    for (change, is_marked) in changes {
        let clock = Clock::manual();
        let (db, table) = with_rows(&clock)?;
        // Its record stays in the index, and is absent.
        db.run(|tx| tx.put(&table, &5, &vec![1; 100]))?;
        db.run(|tx| tx.delete(&table, &5).map(drop))?;
        let first = begin_picture(&db, &clock);
        take_pages(&db, first);
        db.shared().end_pages(first);
        db.shared().picture_installed(first);
        db.run(|tx| change(tx, &table))?;
        let mut tx = db.begin();
        tx.put(&table, &0, &Vec::new())?;
        with_commit(&mut tx, |commit| {
            let map = db.shared().tables.table(commit.sets.writes.entries[0].table).pages.load(commit.pinned);
            let page = map.expect("a picture has begun").page(0);
            assert_eq!(page.has_any(PageMarks::AFTER), is_marked);
        });
    }
    Ok(())
}

/// The page was open when the commit looked under its locks. Nobody takes the version any more.
#[test]
fn a_version_whose_page_is_closed_behind_the_locks_is_given_back() -> Result<()> {
    for semi_fuzzy in [false, true] {
        let clock = Clock::manual();
        let tuning = crate::Tuning { semi_fuzzy, ..crate::Tuning::default() };
        let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().pictures();
        let db = &builder.tuning(tuning).snapshots(false).open()?;
        let table = db.table::<u64, Vec<u8>>("rows")?;
        db.run(|tx| tx.put(&table, &1, &vec![1; 100]))?;
        let (shared, attempt) = (db.shared(), begin_picture(db, &clock));
        let mut tx = db.begin();
        tx.put(&table, &1, &vec![2; 100])?;
        with_commit(&mut tx, |commit| {
            prepare(commit)?;
            commit.prepare_displaced();
            let bound = Bound::bind(commit);
            let mut locked = bound.commit.lock()?;
            let epoch = serialization_point(&shared.epochs, locked.has_records());
            let boundary = shared.snapshot_boundary(epoch);
            locked.check_room(boundary)?;
            locked.check_beside(epoch)?;
            shared.end_pages(attempt);
            let tid = locked.choose_tid(epoch)?;
            locked.install_and_append(tid, boundary);
            drop(bound);
            assert!(prepared(commit).0, "the worker has the version again");
            commit.give_back_displaced();
            commit.register_garbage(Committed { tid, epoch });
            Ok::<_, crate::Error>(())
        })?;
        drop(tx);
        assert_eq!(db.stats().displaced_bytes, 0, "semi-fuzzy: {semi_fuzzy}");
        assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(vec![2; 100]));
    }
    Ok(())
}

#[test]
fn what_was_left_of_a_page_is_freed_when_the_page_is_taken() -> Result<()> {
    let clock = Clock::manual();
    let tuning = crate::Tuning { semi_fuzzy: false, ..crate::Tuning::default() };
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().pictures();
    let db = &builder.tuning(tuning).open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| (0..3).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
    let attempt = begin_picture(db, &clock);
    db.run(|tx| (0..2).try_for_each(|key| tx.put(&table, &key, &vec![2; 100])))?;
    assert!(db.stats().displaced_bytes > 0);
    take_pages(db, attempt);
    assert_eq!(db.stats().displaced_bytes, 0);
    Ok(())
}

/// The picture gives way while its pages are settled: what was left in doubt of tables that are settled is freed too.
#[test]
fn what_was_left_in_doubt_is_freed_if_the_picture_ends_while_it_is_settled() -> Result<()> {
    let clock = Clock::manual();
    let tuning = crate::Tuning { semi_fuzzy: false, ..crate::Tuning::default() };
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().pictures();
    let db = &builder.tuning(tuning).snapshots(false).open()?;
    let [one, two] = [db.table::<u64, Vec<u8>>("one")?, db.table::<u64, Vec<u8>>("two")?];
    db.run(|tx| [&one, &two].into_iter().try_for_each(|table| tx.put(table, &1, &vec![1; 100])))?;
    let shared = db.shared();
    let first = begin_picture(db, &clock);
    take_pages(db, first);
    shared.end_pages(first);
    shared.picture_installed(first);
    let second = publish_pages(db, &clock, 4096, WantedPages::Changed);
    let freeze = db.announce_freeze().expect("E is above the last one");
    reach(db, &clock, freeze.next());
    db.run(|tx| tx.put(&one, &1, &vec![2; 100]))?;
    assert!(db.stats().displaced_bytes > 0, "its page has no mark before, and is not settled yet");
    // As settling finds the last table if the heartbeat ends the attempt when it is through with the others.
    let over = PictureOfMaps::new(second, freeze.previous());
    over.end();
    let tables = shared.tables.logged.all_tables();
    let (_, last) = tables.last().expect("there are tables");
    last.pages.publish(PageMap::new(&over, PageBounds::default(), PageMarks::BOTH), false, &shared.epochs);
    assert!(shared.page_slices(second, 1).is_err(), "it has ended");
    shared.end_pages(second);
    for _ in 0..8 {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    }
    assert_eq!(db.stats().displaced_bytes, 0, "nothing is left of a picture that has ended");
    Ok(())
}
