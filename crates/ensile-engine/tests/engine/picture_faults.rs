//! Faults that pictures have had, each as a scene that shows it: what is late, what is large, what grows meanwhile.
//!
//! Epochs move when the test says so.
//!
//! Neighbours: `pictures` has what a picture is; `driven` moves the epochs.

use ensile_base::Epoch;
use ensile_durability::{
    CheckpointBlock, DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, TakenPage, WantedPages,
};

use crate::prelude::*;

type Rows = Table<u64, Vec<u8>>;

/// Pages of few rows.
const PAGE_BYTES: usize = 4 << 10;
/// The section of the first table that is opened.
const FIRST_TABLE: u32 = 1;

/// What is displaced goes to pages' lists: a page has all of its rows.
fn open() -> Result<(Driven, Rows)> {
    let tuning = Tuning { semi_fuzzy: false, ..Tuning::default() };
    let driven = Driven::open(|builder| builder.tuning(tuning).pictures());
    let table = driven.db.table("rows")?;
    Ok((driven, table))
}

fn pages(db: &Database) -> &dyn Pages {
    db.pages().expect("opened for pictures")
}

fn reach(driven: &Driven, epoch: Epoch) {
    while driven.db.epoch() < epoch {
        driven.tick();
    }
}

/// A picture that was begun.
#[derive(Clone, Copy)]
struct Begun {
    attempt: PictureAttempt,
    freeze: Epoch,
}

/// Begins a picture. Every commit from here on is behind its freeze.
fn begin(driven: &Driven) -> Begun {
    begin_with(driven, PAGE_BYTES)
}

fn begin_with(driven: &Driven, page_bytes: usize) -> Begun {
    let published = pages(&driven.db).publish_pages(page_bytes, WantedPages::All);
    reach(driven, published.epoch.plus(2));
    let freeze = driven.db.announce_freeze().expect("E is above the last one");
    reach(driven, freeze.next());
    Begun { attempt: published.attempt, freeze }
}

/// Bytes and rows of each page of the first table, in order.
fn take(db: &Database, Begun { attempt, freeze }: Begun) -> Result<Vec<(usize, u32)>, PagesEnded> {
    let (mut counts, mut page) = (Vec::new(), PageContents::new());
    for slice in pages(db).page_slices(attempt, 1)?.concat() {
        let mut resume = Vec::new();
        let mut taken = TakenPage::More;
        while taken == TakenPage::More {
            taken = pages(db).take_page(attempt, &slice, &mut resume, freeze, &mut page)?;
            if slice.section == FIRST_TABLE {
                counts.push((page.bytes(), page.entries()));
            }
        }
    }
    Ok(counts)
}

fn rows(counts: &[(usize, u32)]) -> u32 {
    counts.iter().map(|(_, rows)| rows).sum()
}

/// N13: a checkpointer that is slow ends its attempt when the next one is under way.
#[test]
fn an_end_that_is_late_leaves_the_next_attempt_alone() -> Result<()> {
    let (driven, table) = open()?;
    let db = &driven.db;
    let put_all = |byte| db.run(|tx| (0..500).try_for_each(|key| tx.put(&table, &key, &vec![byte; 100])));
    put_all(1)?;
    let first = begin(&driven);
    pages(db).end_pages(first.attempt);
    let second = begin(&driven);
    put_all(2)?;
    let left = db.stats().displaced_bytes;
    pages(db).end_pages(first.attempt);
    assert_eq!(db.stats().displaced_bytes, left, "what was left to the second one is kept");
    assert_eq!(rows(&take(db, second).expect("it goes on")), 500);
    pages(db).end_pages(second.attempt);
    assert_eq!(db.stats().displaced_bytes, 0);
    // Also where nobody has ended the first one: the second has.
    let (first, second) = (begin(&driven), begin(&driven));
    pages(db).end_pages(first.attempt);
    assert_eq!(rows(&take(db, second).expect("it goes on")), 500);
    Ok(())
}

/// N13: what has ended is told from what has no more pages.
#[test]
fn an_attempt_that_has_ended_has_no_pages_and_no_slices() -> Result<()> {
    let (driven, table) = open()?;
    let db = &driven.db;
    db.run(|tx| (0..500).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
    let first = begin(&driven);
    let slices = pages(db).page_slices(first.attempt, 1).expect("it goes on").concat();
    let is_over = || {
        let mut page = PageContents::new();
        let ended = slices.iter().all(|slice| {
            let taken = pages(db).take_page(first.attempt, slice, &mut Vec::new(), first.freeze, &mut page);
            taken == Err(PagesEnded::Ended) && page.entries() == 0
        });
        ended && pages(db).page_slices(first.attempt, 1) == Err(PagesEnded::Ended)
    };
    assert!(!is_over(), "its pages are there");
    pages(db).end_pages(first.attempt);
    assert!(is_over());
    driven.pass_ticks(5);
    let second = begin(&driven);
    assert!(is_over(), "the maps are another attempt's");
    assert_eq!(rows(&take(db, second).expect("it goes on")), 500);
    let text = PagesEnded::Ended.to_string();
    assert!(text.contains("ended before all of its pages were taken"), "{text}");
    assert_eq!(db.run(|tx| Ok(tx.range(&table, ..).count()))?, 500);
    Ok(())
}

/// What may wait, at least.
const LEAST: u64 = 1 << 20;

#[test]
fn a_limit_that_no_picture_could_keep_is_refused() {
    let open = |displaced_bytes_max| {
        let tuning = Tuning { displaced_bytes_max, ..Tuning::default() };
        Database::builder_in_memory().tuning(tuning).without_threads().open()
    };
    for too_small in [0, LEAST - 1] {
        let Err(Error::Misuse(why)) = open(too_small) else { panic!("{too_small} is taken") };
        assert!(why.contains("displaced_bytes_max is below 1048576"), "{why}");
    }
    assert!(open(LEAST).is_ok());
}

/// Who looks first whether too much waits.
#[derive(Clone, Copy, Debug)]
enum First {
    Heartbeat,
    Page,
    Displaced,
}

/// K3: no commit waits for a picture, and none fails for one.
#[test]
fn a_picture_gives_way_to_commits_that_displace_more_than_may_wait() -> Result<()> {
    for semi_fuzzy in [false, true] {
        for first in [First::Heartbeat, First::Page, First::Displaced] {
            give_way(semi_fuzzy, first)?;
        }
    }
    Ok(())
}

fn give_way(semi_fuzzy: bool, looks: First) -> Result<()> {
    let tuning = Tuning { semi_fuzzy, displaced_bytes_max: LEAST, ..Tuning::default() };
    let driven = Driven::open(|builder| builder.tuning(tuning).pictures());
    let (db, table) = (&driven.db, driven.db.table("rows")?);
    let put =
        |keys: u64, byte| db.run(|tx| (0..keys).try_for_each(|key| tx.put(&table, &key, &vec![byte; 3000])));
    let take_displaced = |begun: Begun| {
        let mut block = CheckpointBlock::new();
        pages(db).take_displaced(begun.attempt, begun.freeze, &mut DisplacedBlock::new(&mut block))
    };
    put(500, 1)?;
    let first = begin(&driven);
    put(100, 2)?;
    driven.tick();
    assert!(pages(db).page_slices(first.attempt, 1).is_ok(), "less waits than may");
    put(500, 3)?;
    let waiting = db.stats().displaced_bytes;
    assert!(waiting > LEAST);
    let why = PagesEnded::GaveWay { displaced_bytes: waiting, displaced_bytes_max: LEAST };
    match looks {
        First::Heartbeat => {
            driven.tick();
            driven.tick();
            assert_eq!(db.stats().displaced_bytes, 0, "nobody needs them");
        }
        First::Page => {}
        First::Displaced => assert_eq!(take_displaced(first), Err(why), "{semi_fuzzy}"),
    }
    assert_eq!(take(db, first), Err(why), "{semi_fuzzy} {looks:?}");
    assert_eq!(take_displaced(first), Err(why));
    put(500, 4)?;
    pages(db).end_pages(first.attempt);
    let stats = db.stats();
    assert_eq!((stats.displaced_bytes, stats.displaced_bytes_peak, stats.aborts), (0, waiting, 0));
    let told = why.to_string();
    let settings = ["displaced_bytes_max is 1048576", "checkpoint_bandwidth", "semi_fuzzy"];
    assert!(settings.iter().all(|setting| told.contains(&format!("Tuning::{setting}"))), "{told}");
    // The next one is taken as after any that failed.
    let second = begin(&driven);
    put(50, 5)?;
    assert_eq!(take(db, first), Err(why), "also when another one is under way");
    assert_eq!(take_rows(db, second), 500);
    Ok(())
}

/// E6: a map that waits for a transaction's pin is garbage as any other, and ends the transaction if it is too large.
#[test]
fn maps_that_wait_for_a_pin_are_counted_and_end_who_holds_them_back() -> Result<()> {
    for (most, is_ended) in [(1 << 30, false), (64 << 10, true)] {
        let driven = Driven::open(|builder| builder.pictures().garbage_bytes_max(most));
        let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("rows")?);
        db.run(|tx| (0..10_000).try_for_each(|key| tx.put(&table, &key, &vec![7; 10])))?;
        driven.pass_ticks(20);
        let mut open = db.begin();
        open.get(&table, &1)?;
        let before = db.stats();
        // A page for each row: a bound, its length, its slice and its state take eight bytes each, and the ranges of
        // slices in which a search begins some more.
        let published = pages(db).publish_pages(1, WantedPages::All);
        pages(db).end_pages(published.attempt);
        assert_eq!(db.stats().garbage_things, before.garbage_things, "until the next one it is marked");
        let published = pages(db).publish_pages(1 << 20, WantedPages::All);
        pages(db).end_pages(published.attempt);
        let stats = db.stats();
        let bytes = stats.garbage_pinned_bytes - before.garbage_pinned_bytes;
        assert!((10_000 * 32..10_000 * 36).contains(&bytes), "{bytes}");
        assert_eq!(stats.garbage_things - before.garbage_things, 2, "the catalogue has a map too");
        driven.pass_ticks(20);
        let stats = db.stats();
        assert_eq!(stats.expired, u64::from(is_ended), "more than may waits: {is_ended}");
        assert_eq!(open.get(&table, &1).is_err(), is_ended);
        assert_eq!(stats.garbage_pinned_bytes >= bytes, !is_ended);
        drop(open);
        driven.pass_ticks(20);
        let stats = db.stats();
        assert_eq!((stats.garbage_pinned_bytes, stats.garbage_things), (0, 0));
    }
    Ok(())
}

/// Rows of the first table, from pages or from beside them.
fn take_rows(db: &Database, begun: Begun) -> u32 {
    let from_pages = rows(&take(db, begun).expect("it goes on"));
    let mut block = CheckpointBlock::new();
    let mut beside = DisplacedBlock::new(&mut block);
    let has_more = pages(db).take_displaced(begun.attempt, begun.freeze, &mut beside);
    assert_eq!(has_more, Ok(false));
    from_pages + beside.iter().filter(|(section, ..)| *section == FIRST_TABLE).count() as u32
}

/// Every sixteenth row is much shorter than the others, or much longer: no row tells how long the next ones are.
#[test]
fn a_page_has_its_bytes_and_one_row_at_most() -> Result<()> {
    for (sixteenth, others) in [(10, 3000), (3000, 10)] {
        let (driven, table) = open()?;
        let row = |key: u64| vec![7; if key.is_multiple_of(16) { sixteenth } else { others }];
        driven.db.run(|tx| (0..2000).try_for_each(|key| tx.put(&table, &key, &row(key))))?;
        let counts = take(&driven.db, begin(&driven)).expect("it goes on");
        let (_, full) = counts.split_last().expect("a table has a page");
        assert!(full.iter().all(|(bytes, _)| (PAGE_BYTES..PAGE_BYTES + 3100).contains(bytes)), "{counts:?}");
        assert_eq!(rows(&counts), 2000);
    }
    Ok(())
}

/// More keys than are looked at under one pin, half of them without a row: these fill no page.
#[test]
fn a_page_of_many_keys_is_cut_and_taken_whole() -> Result<()> {
    const KEYS: u64 = 20_000;
    let (driven, table) = open()?;
    let db = &driven.db;
    db.run(|tx| (0..KEYS).try_for_each(|key| tx.put(&table, &key, &vec![7; 60])))?;
    // The deletes are of an epoch that has not passed: their records stay in the index.
    db.run(|tx| (5_000..15_000).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
    let begun = begin_with(&driven, 1 << 20);
    db.run(|tx| (0..KEYS).step_by(3).try_for_each(|key| tx.put(&table, &key, &vec![8; 20])))?;
    let counts = take(db, begun).expect("it goes on");
    assert_eq!((counts.len(), rows(&counts)), (1, 10_000), "{counts:?}");
    Ok(())
}
