//! Pictures as the engine hands them out, page by page: each is the state at the end of one epoch, whatever commits do
//! beside it (N1 to N9, N13, N17).
//!
//! Each is taken with lists of pages and semi-fuzzy: then rows come from pages, from what commits have left beside
//! them, or from both.
//!
//! Epochs move when the test says so, but for the last tests, which have threads. Nothing is written to a disk: the
//! durability crate does that.
//!
//! Neighbours: `checkpoints` has those with files; `page_directory` keeps the pages that a picture does not write.

use std::sync::atomic::{AtomicBool, Ordering};

use ensile_base::Epoch;
use ensile_durability::{
    CheckpointBlock, DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, TakenPage, WantedPages,
};

use crate::page_directory::{PageDirectory, Taken, Written, row_of};
use crate::prelude::*;

type Rows = Table<u64, Vec<u8>>;

/// Pages of few rows.
const PAGE_BYTES: usize = 4 << 10;
/// The section of the first table that is opened.
const FIRST_TABLE: u32 = 1;

/// Where commits leave what they displace: in pages' lists, or in workers'.
const IS_SEMI_FUZZY: [bool; 2] = [false, true];

fn open(semi_fuzzy: bool) -> Result<(Driven, Rows)> {
    let tuning = Tuning { semi_fuzzy, ..Tuning::default() };
    let driven = Driven::open(|builder| builder.tuning(tuning.clone()).pictures());
    let table = driven.db.table("rows")?;
    Ok((driven, table))
}

fn pages(db: &Database) -> &dyn Pages {
    db.pages().expect("opened for pictures")
}

/// Ticks until E is at least this.
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

/// Publishes pages and announces the freeze: all that is committed before E reaches it is in the picture.
fn begin(driven: &Driven) -> Begun {
    begin_wanting(driven, WantedPages::All)
}

fn begin_wanting(driven: &Driven, wanted: WantedPages) -> Begun {
    let published = pages(&driven.db).publish_pages(PAGE_BYTES, wanted);
    reach(driven, published.epoch.plus(2));
    loop {
        if let Some(freeze) = driven.db.announce_freeze() {
            // Nothing is committed in between.
            pages(&driven.db).carry_marks(published.attempt).expect("it has not ended");
            return Begun { attempt: published.attempt, freeze };
        }
        driven.tick();
    }
}

/// Takes all pages in `parts` parts, and what is beside them behind each part, and before some pages. Calls `between`
/// before each page and behind the last. `None` if the picture ends before.
fn take(
    db: &Database,
    begun: Begun,
    parts: usize,
    between: impl FnMut() -> Result<()>,
) -> Result<Option<Taken>> {
    let written = write(db, begun, parts, between)?;
    Ok(written.map(|written| written.rows(&written.over(&PageDirectory::default()))))
}

/// The same, of a picture that may not write all pages.
fn write(
    db: &Database,
    begun: Begun,
    parts: usize,
    mut between: impl FnMut() -> Result<()>,
) -> Result<Option<Written>> {
    let Begun { attempt, freeze } = begun;
    let (mut written, mut page) = (Written::default(), PageContents::new());
    let dealt = pages(db).page_slices(attempt, parts).expect("it has not ended");
    let slices = dealt
        .iter()
        .flat_map(|part| part.iter().enumerate().map(|(at, slice)| (slice, at + 1 == part.len())));
    for (slice, is_last_of_part) in slices {
        let mut resume = Vec::new();
        let mut has_more = true;
        while has_more {
            between()?;
            if resume.len() % 3 == 0 && take_displaced(db, begun, &mut written.displaced).is_err() {
                return Ok(None);
            }
            let from = resume.clone();
            let taken = match pages(db).take_page(attempt, slice, &mut resume, freeze, &mut page) {
                Ok(taken) => taken,
                Err(why) => {
                    assert_eq!((why, page.entries()), (PagesEnded::Ended, 0));
                    return Ok(None);
                }
            };
            has_more = taken == TakenPage::More;
            assert_eq!(page.iter().count(), page.entries() as usize);
            assert!(page.iter().all(|(tid, _)| tid.epoch() < freeze));
            written.add(slice, (&from, &resume), taken, &page);
        }
        if is_last_of_part && take_displaced(db, begun, &mut written.displaced).is_err() {
            return Ok(None);
        }
    }
    if dealt.iter().all(Vec::is_empty) && take_displaced(db, begun, &mut written.displaced).is_err() {
        return Ok(None);
    }
    between()?;
    Ok(Some(written))
}

/// What commits have left beside the pages.
fn take_displaced(
    db: &Database,
    Begun { attempt, freeze }: Begun,
    displaced: &mut Taken,
) -> Result<(), PagesEnded> {
    let mut has_more = true;
    while has_more {
        let mut block = CheckpointBlock::new();
        let mut versions = DisplacedBlock::new(&mut block);
        has_more = pages(db).take_displaced(attempt, freeze, &mut versions)?;
        assert!(!has_more || versions.iter().count() > 0, "an empty block has room");
        for (section, tid, body) in versions.iter() {
            let (key, value) = row_of(body);
            assert!(tid.epoch() < freeze, "what is left is older than the freeze");
            let before = displaced.insert((section, key.to_vec()), (tid, value.to_vec()));
            assert!(before.is_none(), "one version of a row is left (N4)");
        }
    }
    Ok(())
}

/// A picture's rows of the first table.
fn rows_of(taken: &Option<Taken>) -> BTreeMap<u64, Vec<u8>> {
    let taken = taken.as_ref().expect("the picture has not ended");
    let rows = taken.iter().filter(|((section, _), _)| *section == FIRST_TABLE);
    let number = |key: &[u8]| u64::from_be_bytes(key.try_into().expect("eight bytes"));
    rows.map(|((_, key), (_, value))| (number(key), value.clone())).collect()
}

fn displaced_bytes(db: &Database) -> u64 {
    db.stats().displaced_bytes
}

/// A table that changes at random, and what is in it.
struct Changing {
    table: Rows,
    model: BTreeMap<u64, Vec<u8>>,
    random: Random,
    /// The keys that are changed: some, so that other pages stay as they are.
    keys: std::ops::Range<u64>,
}

impl Changing {
    const KEYS: u64 = 300;

    fn new(table: Rows, seed: u64) -> Self {
        Self { table, model: BTreeMap::new(), random: Random::from_seed(seed), keys: 0..Self::KEYS }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_below(limit)
    }

    /// From here on other keys are changed; now and then any.
    fn turn_to_others(&mut self) {
        let first = self.below(2 * Self::KEYS).min(Self::KEYS - 1);
        self.keys = if self.below(6) == 0 { 0..Self::KEYS } else { first..(first + 20).min(Self::KEYS) };
    }

    /// A row of one of many lengths, small ones more often.
    fn row(&mut self) -> Vec<u8> {
        let bytes = match self.below(100) {
            0 => 100 << 10,
            1..10 => 1 << 10,
            _ => self.below(300) as usize,
        };
        let byte = self.below(256) as u8;
        vec![byte; bytes]
    }

    /// A transaction of some writes.
    fn change(&mut self, db: &Database) -> Result<()> {
        let writes: Vec<(u64, Option<Vec<u8>>)> = (0..=self.below(4))
            .map(|_| {
                let key = self.keys.start + self.below(self.keys.end - self.keys.start);
                let is_put = self.below(3) > 0;
                (key, is_put.then(|| self.row()))
            })
            .collect();
        db.run(|tx| {
            for (key, row) in &writes {
                match row {
                    Some(row) => tx.put(&self.table, key, row)?,
                    None => drop(tx.delete(&self.table, key)?),
                }
            }
            Ok(())
        })?;
        for (key, row) in writes {
            match row {
                Some(row) => drop(self.model.insert(key, row)),
                None => drop(self.model.remove(&key)),
            }
        }
        Ok(())
    }

    fn changes(&mut self, db: &Database, count: u64) -> Result<()> {
        (0..self.below(count)).try_for_each(|_| self.change(db))
    }

    /// Changes until E is at least this.
    fn changes_until(&mut self, driven: &Driven, epoch: Epoch) -> Result<()> {
        while driven.db.epoch() < epoch {
            self.changes(&driven.db, 20)?;
            driven.tick();
        }
        self.changes(&driven.db, 20)
    }
}

#[test]
fn a_picture_is_the_state_at_its_freeze_whatever_commits_do_beside_it() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        for seed in 0..12 {
            let (driven, table) = open(semi_fuzzy)?;
            let mut changing = Changing::new(table, seed);
            for attempt in 0..8 {
                changing.changes(&driven.db, 200)?;
                let published = pages(&driven.db).publish_pages(PAGE_BYTES, WantedPages::All);
                changing.changes_until(&driven, published.epoch.plus(2))?;
                let freeze = driven.db.announce_freeze().expect("E is above the last one");
                changing.changes(&driven.db, 20)?;
                reach(&driven, freeze);
                let expected = changing.model.clone();
                changing.changes(&driven.db, 20)?;
                reach(&driven, freeze.next());
                let mut steps = 0;
                let begun = Begun { attempt: published.attempt, freeze };
                let taken = take(&driven.db, begun, 1 + attempt % 3, || {
                    steps += 1;
                    if steps % 5 == 0 {
                        driven.tick();
                    }
                    // Some attempts fail: their pages end here and there.
                    if attempt % 4 == 3 && steps == 10 {
                        pages(&driven.db).end_pages(published.attempt);
                    }
                    changing.changes(&driven.db, 6)
                })?;
                if attempt % 4 != 3 {
                    assert_eq!(rows_of(&taken), expected, "seed {seed}, attempt {attempt}");
                }
                pages(&driven.db).end_pages(published.attempt);
                assert_eq!(displaced_bytes(&driven.db), 0, "what was displaced was freed");
            }
            let stats = driven.db.stats();
            assert!(stats.displaced_bytes_peak > 0, "something was displaced");
        }
        Ok(())
    })
}

/// What came of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Installed,
    /// The pages were not told.
    InstalledInSilence,
    Failed,
    /// Nobody has ended it when the next one begins.
    LeftOpen,
}

/// A page that was not written shows what the picture before has of it: that is what a full walk would find (N5 to N7,
/// N10, N13, N17).
#[test]
fn pages_that_are_not_written_have_the_rows_of_the_picture_before() -> Result<()> {
    let (mut written, mut kept, mut displaced) = (0, 0, 0);
    for (seed, semi_fuzzy) in (0..60).flat_map(|seed| IS_SEMI_FUZZY.map(|semi_fuzzy| (seed, semi_fuzzy))) {
        let (driven, table) = open(semi_fuzzy)?;
        let db = &driven.db;
        let mut changing = Changing::new(table, seed);
        (0..100).try_for_each(|_| changing.change(db))?;
        let mut directory = PageDirectory::default();
        for number in 0..12 {
            changing.turn_to_others();
            changing.changes(db, 30)?;
            (0..changing.below(60)).for_each(|_| driven.tick());
            let outcome = match (number, changing.below(10)) {
                (0, _) | (_, 0..6) => Outcome::Installed,
                (_, 6) => Outcome::InstalledInSilence,
                (_, 7) => Outcome::LeftOpen,
                _ => Outcome::Failed,
            };
            let published = pages(db).publish_pages(PAGE_BYTES, WantedPages::Changed);
            let ends_early = outcome == Outcome::Failed && changing.below(3) == 0;
            changing.changes_until(&driven, published.epoch.plus(2))?;
            if ends_early && changing.below(2) == 0 {
                pages(db).end_pages(published.attempt);
                assert_eq!(pages(db).carry_marks(published.attempt), Err(PagesEnded::Ended));
                continue;
            }
            pages(db).carry_marks(published.attempt).expect("it has not ended");
            if ends_early {
                pages(db).end_pages(published.attempt);
                continue;
            }
            let freeze = db.announce_freeze().expect("E is above the last one");
            changing.changes(db, 20)?;
            if outcome == Outcome::LeftOpen && changing.below(2) == 0 {
                continue;
            }
            reach(&driven, freeze);
            let expected = changing.model.clone();
            changing.turn_to_others();
            changing.changes(db, 20)?;
            reach(&driven, freeze.next());
            let (begun, mut steps) = (Begun { attempt: published.attempt, freeze }, 0);
            let picture = write(db, begun, 1 + number % 3, || {
                steps += 1;
                if steps % 5 == 0 {
                    driven.tick();
                }
                changing.changes(db, 4)
            })?;
            let picture = picture.expect("nobody has ended it");
            let next = picture.over(&directory);
            assert_eq!(rows_of(&Some(picture.rows(&next))), expected, "seed {seed}, picture {number}");
            if outcome != Outcome::LeftOpen {
                pages(db).end_pages(published.attempt);
                assert_eq!(displaced_bytes(db), 0, "what was displaced was freed");
            }
            if matches!(outcome, Outcome::Installed | Outcome::InstalledInSilence) {
                (written, kept) = (written + picture.count(), kept + next.count() - picture.count());
                displaced += picture.displaced.len();
                directory = next;
            }
            if outcome == Outcome::Installed {
                pages(db).picture_installed(published.attempt);
            }
        }
    }
    assert!(written > 3_000 && kept > 3_000 && displaced > 1_000, "{written}, {kept}, {displaced}");
    Ok(())
}

/// The next picture in the directory; how many pages it has written of each section.
fn install(driven: &Driven, directory: &mut PageDirectory) -> Result<(Taken, BTreeMap<u32, usize>)> {
    let begun = begin_wanting(driven, WantedPages::Changed);
    reach(driven, begun.freeze.next());
    let written = write(&driven.db, begun, 2, || Ok(()))?.expect("nobody has ended it");
    *directory = written.over(directory);
    pages(&driven.db).end_pages(begun.attempt);
    pages(&driven.db).picture_installed(begun.attempt);
    Ok((written.rows(directory), written.counts()))
}

#[test]
fn a_table_that_is_added_at_any_time_is_in_the_next_picture_and_is_kept_by_those_behind() -> Result<()> {
    let (driven, table) = open(true)?;
    let (db, row) = (&driven.db, vec![1; 100]);
    let put = |table: &Rows| db.run(|tx| (0..100).try_for_each(|key| tx.put(table, &key, &row)));
    let rows_of = |taken: &Taken, section: u32| taken.keys().filter(|(of, _)| *of == section).count();
    put(&table)?;
    let mut directory = PageDirectory::default();
    install(&driven, &mut directory)?;
    assert_eq!(install(&driven, &mut directory)?.1, BTreeMap::new(), "nothing has changed");
    // Between two pictures.
    put(&db.table("added")?)?;
    let (taken, written) = install(&driven, &mut directory)?;
    assert_eq!((rows_of(&taken, 0), rows_of(&taken, 2), written), (2, 100, [(0, 1), (2, 3)].into()));
    // While one is under way, before its freeze and behind the dealing of its pages.
    let published = pages(db).publish_pages(PAGE_BYTES, WantedPages::Changed);
    put(&db.table("early")?)?;
    reach(&driven, published.epoch.plus(2));
    pages(db).carry_marks(published.attempt).expect("it has not ended");
    let freeze = db.announce_freeze().expect("E is above the last one");
    reach(&driven, freeze.next());
    let mut late = None;
    let written = write(db, Begun { attempt: published.attempt, freeze }, 1, || {
        if late.is_none() {
            late = Some(db.table::<u64, Vec<u8>>("late")?);
        }
        late.iter().try_for_each(put)
    })?;
    let written = written.expect("nobody has ended it");
    assert_eq!(written.counts(), [(0, 1), (3, 1)].into());
    directory = written.over(&directory);
    pages(db).end_pages(published.attempt);
    pages(db).picture_installed(published.attempt);
    let (taken, written) = install(&driven, &mut directory)?;
    assert_eq!((rows_of(&taken, 3), rows_of(&taken, 4)), (100, 100));
    assert_eq!(
        written,
        [(0, 1), (3, 3), (4, 3)].into(),
        "what was one page is cut, once more if it was written"
    );
    let (taken, written) = install(&driven, &mut directory)?;
    assert_eq!(written, BTreeMap::new());
    assert!([1, 2, 3, 4].iter().all(|section| rows_of(&taken, *section) == 100));
    Ok(())
}

/// K3, N13: it was told that it is over, and its pages were closed; what it was to write is the next one's to write.
#[test]
fn what_a_picture_that_gave_way_was_to_write_is_written_by_the_next() -> Result<()> {
    for semi_fuzzy in IS_SEMI_FUZZY {
        let tuning = Tuning { semi_fuzzy, displaced_bytes_max: 1 << 20, ..Tuning::default() };
        let driven = Driven::open(|builder| builder.tuning(tuning).pictures());
        let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("rows")?);
        let put = |keys: std::ops::Range<u64>, byte| {
            db.run(|tx| keys.clone().try_for_each(|key| tx.put(&table, &key, &vec![byte; 2000])))
        };
        put(0..1000, 1)?;
        let mut directory = PageDirectory::default();
        install(&driven, &mut directory)?;
        put(0..10, 2)?;
        let begun = begin_wanting(&driven, WantedPages::Changed);
        put(500..510, 3)?;
        reach(&driven, begun.freeze.next());
        put(0..1000, 4)?;
        // The heartbeat notices.
        driven.tick();
        put(800..810, 5)?;
        let given_up = pages(db).page_slices(begun.attempt, 1);
        assert!(matches!(given_up, Err(PagesEnded::GaveWay { .. })), "{given_up:?}");
        pages(db).end_pages(begun.attempt);
        let (taken, _) = install(&driven, &mut directory)?;
        assert!(rows_of(&Some(taken)) == db.run(|tx| tx.range(&table, ..).collect())?);
    }
    Ok(())
}

#[test]
fn of_two_changes_the_first_leaves_its_version_and_the_second_nothing() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        let (driven, table) = open(semi_fuzzy)?;
        let (db, old) = (&driven.db, vec![1; 100]);
        db.run(|tx| (0..3).try_for_each(|key| tx.put(&table, &key, &old)))?;
        driven.pass_ticks(1);
        let begun = begin(&driven);
        db.run(|tx| tx.put(&table, &9, &old))?;
        assert_eq!(displaced_bytes(db), 0, "a commit below the freeze leaves nothing");
        reach(&driven, begun.freeze.next());
        db.run(|tx| tx.put(&table, &0, &vec![2; 100]))?;
        let left = displaced_bytes(db);
        assert!((100..300).contains(&left), "{left} bytes: one version");
        db.run(|tx| tx.put(&table, &0, &vec![3; 1000]))?;
        db.run(|tx| tx.delete(&table, &0).map(drop))?;
        db.run(|tx| tx.put(&table, &0, &old))?;
        driven.pass_ticks(100);
        db.run(|tx| tx.put(&table, &0, &vec![4; 100]))?;
        db.run(|tx| tx.put(&table, &77, &old))?;
        db.run(|tx| tx.delete(&table, &77).map(drop))?;
        assert_eq!(displaced_bytes(db), left, "it is left once, and what is new is not");
        db.run(|tx| tx.delete(&table, &1).map(drop))?;
        assert_eq!(displaced_bytes(db), 2 * left);
        // Unhooked, and inserted anew.
        driven.pass_ticks(100);
        db.run(|tx| tx.put(&table, &1, &vec![5; 100]))?;
        assert_eq!(displaced_bytes(db), 2 * left);
        let expected: BTreeMap<_, _> = [0, 1, 2, 9].map(|key| (key, old.clone())).into();
        assert_eq!(rows_of(&take(db, begun, 1, || Ok(()))?), expected);
        assert_eq!((displaced_bytes(db), db.stats().displaced_bytes_peak), (0, 2 * left));
        Ok(())
    })
}

#[test]
fn rows_of_any_size_are_left() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        let (driven, table) = open(semi_fuzzy)?;
        let sizes = [0, 1, 1 << 10, 100 << 10, 16 << 20];
        let row = |at: usize| vec![at as u8 + 1; sizes[at]];
        for at in 0..sizes.len() {
            driven.db.run(|tx| tx.put(&table, &(at as u64), &row(at)))?;
        }
        for overwrites in [true, false] {
            let begun = begin(&driven);
            reach(&driven, begun.freeze.next());
            let expected: BTreeMap<_, _> = driven.db.run(|tx| tx.range(&table, ..).collect())?;
            for at in 0..sizes.len() as u64 {
                driven.db.run(|tx| match overwrites {
                    true => tx.put(&table, &at, &vec![0; 10]),
                    false => tx.delete(&table, &at).map(drop),
                })?;
            }
            assert_eq!(rows_of(&take(&driven.db, begun, 2, || Ok(()))?), expected);
            assert_eq!(expected.len(), sizes.len());
            pages(&driven.db).end_pages(begun.attempt);
            assert_eq!(displaced_bytes(&driven.db), 0);
        }
        driven.pass_ticks(100);
        let stats = driven.db.stats();
        assert_eq!((stats.garbage_things, stats.memory.large_bytes), (0, 0), "no block is lost");
        Ok(())
    })
}

#[test]
fn a_table_that_is_added_while_a_picture_is_under_way_is_in_it() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        let (driven, table) = open(semi_fuzzy)?;
        driven.db.run(|tx| tx.put(&table, &1, &b"old".to_vec()))?;
        let published = pages(&driven.db).publish_pages(PAGE_BYTES, WantedPages::All);
        let added: Rows = driven.db.table("added")?;
        driven.db.run(|tx| (0..500).try_for_each(|key| tx.put(&added, &key, &b"below".to_vec())))?;
        reach(&driven, published.epoch.plus(2));
        let freeze = driven.db.announce_freeze().expect("E is above the first");
        reach(&driven, freeze.next());
        let late: Rows = driven.db.table("late")?;
        driven.db.run(|tx| tx.put(&late, &1, &b"above".to_vec()))?;
        driven.db.run(|tx| (0..250).try_for_each(|key| tx.put(&added, &key, &b"above".to_vec())))?;
        let begun = Begun { attempt: published.attempt, freeze };
        let taken = take(&driven.db, begun, 3, || Ok(()))?.expect("the picture has not ended");
        let of = |section: u32| taken.range((section, vec![])..(section + 1, vec![])).collect::<Vec<_>>();
        assert_eq!((of(0).len(), of(1).len()), (2, 1), "the catalogue names two tables");
        assert_eq!((of(2).len(), of(3).len()), (500, 0));
        assert!(of(2).iter().all(|(_, (_, value))| value == b"below"));
        Ok(())
    })
}

#[test]
fn an_attempt_that_fails_leaves_nothing_and_closes_no_page_of_the_next() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        let (driven, table) = open(semi_fuzzy)?;
        let db = &driven.db;
        let put_all = |byte| db.run(|tx| (0..200).try_for_each(|key| tx.put(&table, &key, &vec![byte; 200])));
        put_all(1)?;
        let failed = begin(&driven);
        reach(&driven, failed.freeze.next());
        let slices = pages(db).page_slices(failed.attempt, 1).expect("it has not ended").concat();
        let mut page = PageContents::new();
        put_all(2)?;
        let left = displaced_bytes(db);
        assert!(left >= 200 * 200);
        pages(db).end_pages(failed.attempt);
        assert_eq!(displaced_bytes(db), 0, "what was left is freed");
        put_all(3)?;
        assert_eq!(displaced_bytes(db), 0, "nothing is left to a picture that has ended");
        let is_nothing_taken = |page: &mut PageContents| {
            let Begun { attempt, freeze } = failed;
            let is_nothing = slices.iter().all(|slice| {
                let taken = pages(db).take_page(attempt, slice, &mut Vec::new(), freeze, page);
                taken == Err(PagesEnded::Ended) && page.entries() == 0
            });
            let mut block = CheckpointBlock::new();
            let displaced = pages(db).take_displaced(attempt, freeze, &mut DisplacedBlock::new(&mut block));
            is_nothing && displaced == Err(PagesEnded::Ended)
        };
        assert!(is_nothing_taken(&mut page), "the attempt has ended");
        let begun = begin(&driven);
        assert!(
            is_nothing_taken(&mut page),
            "a late checkpointer finds the next picture's maps, and takes nothing"
        );
        reach(&driven, begun.freeze.next());
        put_all(4)?;
        assert_eq!(displaced_bytes(db), left);
        let rows = rows_of(&take(db, begun, 1, || Ok(()))?);
        assert!(rows.len() == 200 && rows.values().all(|row| *row == [3; 200]), "no page was closed before");
        // It is begun once more before anybody has ended the last one.
        let begun = begin(&driven);
        reach(&driven, begun.freeze.next());
        let rows = rows_of(&take(db, begun, 1, || Ok(()))?);
        assert!(rows.len() == 200 && rows.values().all(|row| *row == [4; 200]));
        Ok(())
    })
}

/// N9: each of them commits once, and never again.
#[test]
fn what_idle_workers_and_ended_threads_have_left_is_taken() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        let (driven, table) = open(semi_fuzzy)?;
        let db = &driven.db;
        db.run(|tx| (0..8).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
        let begun = begin(&driven);
        reach(&driven, begun.freeze.next());
        let put = |key: u64| db.run(|tx| tx.put(&table, &key, &vec![2; 100])).expect("commits");
        let barrier = std::sync::Barrier::new(7);
        std::thread::scope(|scope| {
            for key in 0..7 {
                let (barrier, put) = (&barrier, &put);
                scope.spawn(move || {
                    // All at once: each has a worker of its own.
                    let open = db.begin_owned();
                    barrier.wait();
                    put(key);
                    barrier.wait();
                    drop(open);
                });
            }
        });
        put(7);
        let rows = rows_of(&take(db, begun, 1, || Ok(()))?);
        assert!(rows.len() == 8 && rows.values().all(|row| *row == [1; 100]));
        assert_eq!(displaced_bytes(db), 0);
        Ok(())
    })
}

#[test]
fn slices_are_dealt_out_evenly_and_tile_every_table() -> Result<()> {
    let (driven, table) = open(true)?;
    driven.db.run(|tx| (0..5000).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
    let begun = begin(&driven);
    reach(&driven, begun.freeze.next());
    for parts in [1, 2, 3, 16] {
        let dealt = pages(&driven.db).page_slices(begun.attempt, parts).expect("it has not ended");
        assert_eq!(dealt.len(), parts);
        let slices = dealt.concat();
        for section in [0, FIRST_TABLE] {
            let of_table: Vec<_> = slices.iter().filter(|slice| slice.section == section).collect();
            assert!(of_table[0].from.is_empty() && of_table.last().is_some_and(|last| last.to.is_none()));
            assert!(of_table.windows(2).all(|pair| pair[0].to.as_ref() == Some(&pair[1].from)));
        }
    }
    let mut counts = Vec::new();
    for slice in pages(&driven.db).page_slices(begun.attempt, 1).expect("it has not ended").concat() {
        let (mut resume, mut page, mut has_more) = (Vec::new(), PageContents::new(), true);
        while has_more {
            let taken =
                pages(&driven.db).take_page(begun.attempt, &slice, &mut resume, begun.freeze, &mut page);
            has_more = taken == Ok(TakenPage::More);
            counts.push(page.bytes());
        }
    }
    let large = counts.iter().filter(|bytes| (PAGE_BYTES..PAGE_BYTES + 200).contains(bytes)).count();
    assert!(
        counts.len() > 100 && large >= counts.len() - 2,
        "pages are as large as they should be: {counts:?}"
    );
    Ok(())
}

#[test]
fn a_database_that_was_not_opened_for_pictures_has_none() {
    let driven = Driven::open(|builder| builder);
    assert!(driven.db.pages().is_none());
    assert_eq!(displaced_bytes(&driven.db), 0);
}

/// Transfers between accounts on threads: of each picture the sum is the same, and so is the number of accounts.
#[test]
fn pictures_taken_beside_threads_show_whole_transactions() -> Result<()> {
    IS_SEMI_FUZZY.into_iter().try_for_each(|semi_fuzzy| {
        const ACCOUNTS: u64 = 200;
        let db = Database::builder_in_memory()
            .tuning(Tuning { semi_fuzzy, ..Tuning::default() })
            .pictures()
            .epoch_interval(Duration::from_millis(1))
            .open()?;
        let accounts: Table<u64, u64> = db.table("accounts")?;
        db.run(|tx| (0..ACCOUNTS).try_for_each(|account| tx.put(&accounts, &account, &100)))?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let transfer = |seed: u64| {
                let mut random = Random::from_seed(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let (from, to) = (random.next_below(ACCOUNTS), random.next_below(ACCOUNTS));
                    db.run(|tx| {
                        let (Some(rich), true) = (tx.get(&accounts, &from)?, from != to) else {
                            return Ok(());
                        };
                        let poor = tx.get(&accounts, &to)?.unwrap_or(0);
                        // An account without money is no row.
                        if rich == 1 {
                            tx.delete(&accounts, &from)?;
                        } else {
                            tx.put(&accounts, &from, &(rich - 1))?;
                        }
                        tx.put(&accounts, &to, &(poor + 1))
                    })
                    .expect("commits");
                }
            };
            let threads = [1, 2].map(|seed| scope.spawn(move || transfer(seed)));
            // Also if a picture is refused: the threads must end.
            let over = SetOnDrop(&is_over);
            let pictures = (0..30).map(|_| -> Result<u64> {
                let published = pages(&db).publish_pages(512, WantedPages::All);
                wait_until(|| db.epoch() >= published.epoch.plus(2));
                let mut freeze = None;
                wait_until(|| {
                    freeze = db.announce_freeze();
                    freeze.is_some()
                });
                let freeze = freeze.expect("announced");
                wait_until(|| db.epoch() > freeze);
                let begun = Begun { attempt: published.attempt, freeze };
                let taken = take(&db, begun, 2, || Ok(()))?.expect("the picture has not ended");
                pages(&db).end_pages(published.attempt);
                let rows = taken.iter().filter(|((section, _), _)| *section == FIRST_TABLE);
                Ok(rows
                    .map(|(_, (_, value))| u64::from_le_bytes(value[..].try_into().expect("a number")))
                    .sum())
            });
            let sums: Result<Vec<u64>> = pictures.collect();
            drop(over);
            for thread in threads {
                thread.join().expect("no transfer panics");
            }
            assert_eq!(sums?, [100 * ACCOUNTS; 30], "transfers keep the sum");
            // What came late to the last one is freed some ticks later.
            wait_until(|| displaced_bytes(&db) == 0);
            Ok(())
        })
    })
}

/// Sets a flag when it is dropped.
struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_micros(200));
    }
}
