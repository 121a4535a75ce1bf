//! Pictures beside commits under shuttle's schedules: each shows, of every key, the newest version below its freeze.
//!
//! Workers write few keys, a heartbeat moves epochs, and a checkpointer takes pictures, some of which it gives up, or
//! does not install; half of the lives are semi-fuzzy. Most pictures write only pages that have changed, and show what
//! the picture before has of the others. TIDs of one key grow in the serial order (E5), so what a picture has to show
//! follows from the receipts.
//!
//! `ENSILE_SEED=7 ENSILE_SCHEDULES=1 RUSTFLAGS='--cfg shuttle' cargo test -p ensile-engine --test shuttle_pictures`
//! runs one schedule again.
//!
//! Neighbours: `shuttle_simulation` judges whole histories; `pictures` has tests of single behaviours; `page_directory`
//! keeps the pages that a picture does not write.
#![cfg(shuttle)]

mod page_directory;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_CLOSE;
use ensile_base::random::Random;
use ensile_base::sync::next_u64;
use ensile_base::{Epoch, Tid};
use ensile_durability::{
    CheckpointBlock, DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, TakenPage, WantedPages,
};
use ensile_engine::{Database, Durability, Result, Table, Tuning};
use ensile_sim::{environment, schedules};
use page_directory::{PageDirectory, Written, row_of};
use shuttle::thread;

const STEPS_MAX: usize = 1_000_000;
const RUNS: u64 = 1_000;
const KEYS_MAX: u64 = 4;
/// Lengths of rows: the longest are replaced, not overwritten.
const LENGTHS: [usize; 4] = [8, 16, 60, 200];

/// Pictures that were compared, and those beside which something was displaced, over all runs of this process.
static COMPARED: AtomicU64 = AtomicU64::new(0);
static DISPLACED: AtomicU64 = AtomicU64::new(0);
/// Pages that pictures have not written.
static KEPT: AtomicU64 = AtomicU64::new(0);
/// Pictures that gave way.
static GAVE_WAY: AtomicU64 = AtomicU64::new(0);

type Rows = Table<u64, Vec<u8>>;
/// A key's versions by TID; `None`: it was deleted.
type Versions = BTreeMap<u64, BTreeMap<Tid, Option<Vec<u8>>>>;

/// One database and what its threads share. What is not the engine's own is std's: it is no step of the program.
struct Life {
    db: Database,
    clock: Clock,
    /// Of each table.
    keys: u64,
    versions: Mutex<Versions>,
    pictures: Mutex<Vec<(Epoch, BTreeMap<u64, Vec<u8>>)>>,
    /// Pages of the picture that was installed last.
    directory: Mutex<PageDirectory>,
    is_over: AtomicBool,
    next_value: AtomicU64,
}

impl Life {
    fn open(random: &mut Random) -> Result<Self> {
        let clock = Clock::manual();
        let snapshot_interval = Duration::from_micros([50, 100_000][random.next_below(2) as usize]);
        let db = Database::builder_in_memory()
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            .tuning(Tuning {
                snapshot_interval,
                semi_fuzzy: random.percent(50),
                displaced_bytes_max: if random.percent(30) { random.next_between(1, 600) } else { u64::MAX },
                ..Tuning::default()
            })
            .without_threads()
            .pictures()
            .open()?;
        Ok(Self {
            db,
            clock,
            keys: random.next_between(1, KEYS_MAX),
            versions: Mutex::default(),
            pictures: Mutex::default(),
            directory: Mutex::default(),
            is_over: AtomicBool::new(false),
            next_value: AtomicU64::new(0),
        })
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn pages(&self) -> &dyn Pages {
        self.db.pages().expect("opened for pictures")
    }

    /// The second table has other keys.
    fn table(&self, number: u64) -> Rows {
        self.db.table(&format!("rows{number}")).expect("opens")
    }

    /// One transaction of some keys, each once.
    fn write(&self, random: &mut Random) {
        let number = u64::from(random.percent(20));
        let table = self.table(number);
        let keys: Vec<u64> =
            (0..self.keys).filter(|_| random.percent(50)).map(|key| number * 100 + key).collect();
        let plan: Vec<(u64, Option<Vec<u8>>)> = keys
            .into_iter()
            .map(|key| {
                let mut row = self.next_value.fetch_add(1, Ordering::SeqCst).to_le_bytes().to_vec();
                row.resize(LENGTHS[random.next_below(4) as usize], 7);
                (key, random.percent(65).then_some(row))
            })
            .collect();
        let committed = self.db.submit(|tx| {
            let mut deleted = Vec::new();
            for (key, row) in &plan {
                match row {
                    Some(row) => tx.put(&table, key, row)?,
                    None if tx.delete(&table, key)? => deleted.push(*key),
                    None => {}
                }
            }
            Ok(deleted)
        });
        let (deleted, receipt) = committed.expect("it is run until it commits");
        let tid = receipt.tid();
        let mut versions = self.versions.lock().expect("no panic");
        for (key, row) in plan.into_iter().filter(|(key, row)| row.is_some() || deleted.contains(key)) {
            let before = versions.entry(key).or_default().insert(tid, row);
            assert!(before.is_none(), "a TID writes a key once");
        }
    }

    /// Takes a picture, or gives it up.
    fn take(&self, random: &mut Random) {
        let page_bytes = [1, 100, 100_000][random.next_below(3) as usize];
        let wanted = if random.percent(15) { WantedPages::All } else { WantedPages::Changed };
        let published = self.pages().publish_pages(page_bytes, wanted);
        while self.db.epoch() < published.epoch.plus(2) && !self.is_over() {
            thread::yield_now();
        }
        if self.is_over() {
            return self.pages().end_pages(published.attempt);
        }
        // What the last one has left late may be too much for this one.
        if let Err(ended) = self.pages().carry_marks(published.attempt) {
            gave_way(ended);
            return self.pages().end_pages(published.attempt);
        }
        let Some(freeze) = self.db.announce_freeze().filter(|_| random.percent(95)) else {
            return self.pages().end_pages(published.attempt);
        };
        while self.db.epoch() <= freeze && !self.is_over() {
            thread::yield_now();
        }
        let written = if self.is_over() {
            None
        } else {
            let taken = self.take_pages((published.attempt, freeze), random);
            taken.unwrap_or_else(|ended| {
                gave_way(ended);
                None
            })
        };
        let mut installed = None;
        if let Some(written) = written {
            let mut directory = self.directory.lock().expect("no panic");
            let next = written.over(&directory);
            KEPT.fetch_add((next.count() - written.count()) as u64, Ordering::SeqCst);
            let rows = written.rows(&next).into_iter().filter(|((section, _), _)| *section > 0);
            let rows = rows.map(|((_, key), (_, value))| (key_of(&key), value)).collect();
            self.pictures.lock().expect("no panic").push((freeze, rows));
            if random.percent(80) {
                *directory = next;
                installed = Some(published.attempt).filter(|_| random.percent(90));
            }
        }
        if let Some(attempt) = installed.filter(|_| random.percent(20)) {
            // Also before its pages have ended: another checkpointer may be slow.
            self.pages().picture_installed(attempt);
        }
        self.pages().end_pages(published.attempt);
        rest(random, 20);
        if let Some(attempt) = installed {
            self.pages().picture_installed(attempt);
        }
    }

    /// The pages that the picture writes. `None`: it is given up.
    ///
    /// # Errors
    /// It gave way.
    fn take_pages(
        &self,
        begun: (PictureAttempt, Epoch),
        random: &mut Random,
    ) -> Result<Option<Written>, PagesEnded> {
        let (attempt, freeze) = begun;
        let (mut written, mut page) = (Written::default(), PageContents::new());
        for slice in self.pages().page_slices(attempt, 1)?.concat() {
            let (mut resume, mut has_more) = (Vec::new(), true);
            while has_more {
                rest(random, 10);
                if random.percent(2) {
                    return Ok(None);
                }
                if random.percent(50) {
                    self.take_displaced(begun, &mut written)?;
                }
                let from = resume.clone();
                let taken = self.pages().take_page(attempt, &slice, &mut resume, freeze, &mut page)?;
                has_more = taken == TakenPage::More;
                written.add(&slice, (&from, &resume), taken, &page);
            }
        }
        self.take_displaced(begun, &mut written)?;
        Ok(Some(written))
    }

    /// What commits have left beside the pages.
    fn take_displaced(
        &self,
        (attempt, freeze): (PictureAttempt, Epoch),
        written: &mut Written,
    ) -> Result<(), PagesEnded> {
        let mut block = CheckpointBlock::new();
        let mut versions = DisplacedBlock::new(&mut block);
        let has_more = self.pages().take_displaced(attempt, freeze, &mut versions)?;
        assert!(!has_more, "a block has room for all of them");
        for (section, tid, body) in versions.iter() {
            let (key, value) = row_of(body);
            let before = written.displaced.insert((section, key.to_vec()), (tid, value.to_vec()));
            assert!(before.is_none(), "one version of a row is left");
        }
        Ok(())
    }

    fn beat(&self, random: &mut Random) {
        self.clock.advance(Duration::from_micros(random.next_between(1, 300)));
        self.db.heartbeat_step();
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_CLOSE));
        self.db.boundary_step();
    }

    /// What a picture has to show.
    fn expected(&self, freeze: Epoch) -> BTreeMap<u64, Vec<u8>> {
        let versions = self.versions.lock().expect("no panic");
        let newest = versions.iter().filter_map(|(key, versions)| {
            let (_, row) = versions.range(..Tid::first_of(freeze)).next_back()?;
            Some((*key, row.clone()?))
        });
        newest.collect()
    }
}

fn key_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("eight bytes"))
}

/// Nobody but the test itself ends a picture otherwise.
fn gave_way(ended: PagesEnded) {
    let PagesEnded::GaveWay { displaced_bytes, displaced_bytes_max } = ended else {
        panic!("nobody else has ended it")
    };
    assert!(displaced_bytes > displaced_bytes_max, "it gave way for nothing");
    GAVE_WAY.fetch_add(1, Ordering::SeqCst);
}

fn rest(random: &mut Random, most: u64) {
    for _ in 0..random.next_below(most) {
        thread::yield_now();
    }
}

fn run() {
    let mut random = Random::from_seed(next_u64());
    let life = Arc::new(Life::open(&mut random).expect("opens"));
    let start = |work: fn(&Life, &mut Random), mut random: Random| {
        let life = Arc::clone(&life);
        thread::spawn(move || {
            while !life.is_over() {
                rest(&mut random, 20);
                work(&life, &mut random);
            }
        })
    };
    let background = [
        start(Life::beat, Random::from_seed(random.next_u64())),
        start(Life::take, Random::from_seed(random.next_u64())),
    ];
    let workers = [0; 3].map(|_| {
        let (life, mut random) = (Arc::clone(&life), Random::from_seed(random.next_u64()));
        thread::spawn(move || {
            for _ in 0..random.next_between(4, 20) {
                rest(&mut random, 10);
                life.write(&mut random);
            }
        })
    });
    for worker in workers {
        worker.join().expect("no panic");
    }
    life.is_over.store(true, Ordering::SeqCst);
    for thread in background {
        thread.join().expect("no panic");
    }
    // What came late to the last picture goes once E is two above its end.
    (0..4).for_each(|_| life.beat(&mut random));
    let stats = life.db.stats();
    assert_eq!(stats.displaced_bytes, 0, "what was displaced was freed");
    let pictures = std::mem::take(&mut *life.pictures.lock().expect("no panic"));
    COMPARED.fetch_add(pictures.len() as u64, Ordering::SeqCst);
    DISPLACED.fetch_add(u64::from(!pictures.is_empty() && stats.displaced_bytes_peak > 0), Ordering::SeqCst);
    for (freeze, rows) in pictures {
        assert_eq!(rows, life.expected(freeze), "the picture at the end of {}", freeze.previous());
    }
    drop(Arc::into_inner(life).expect("its threads have ended"));
}

#[test]
fn shuttle_pictures_show_the_newest_versions_below_their_freeze() {
    schedules::check(RUNS, STEPS_MAX, run);
    let (compared, displaced) = (COMPARED.load(Ordering::SeqCst), DISPLACED.load(Ordering::SeqCst));
    let (kept, gave_way) = (KEPT.load(Ordering::SeqCst), GAVE_WAY.load(Ordering::SeqCst));
    println!(
        "{compared} pictures compared; beside those of {displaced} runs something was displaced; {kept} pages kept"
    );
    println!("{gave_way} pictures gave way");
    // One schedule that is run again need not have any.
    let are_few = environment::count("ENSILE_SCHEDULES", RUNS) < RUNS;
    assert!(are_few || compared.min(displaced).min(kept) > RUNS / 10 && gave_way > RUNS / 20);
}
