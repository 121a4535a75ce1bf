//! Pictures beside commits under shuttle's schedules: each shows, of every key, the newest version below its freeze.
//!
//! Workers write few keys, a heartbeat moves epochs, and a checkpointer takes pictures, some of which it gives up; half
//! of the lives are semi-fuzzy. TIDs of one key grow in the serial order (E5), so what a picture has to show follows
//! from the receipts.
//!
//! `ENSILE_SEED=7 ENSILE_SCHEDULES=1 RUSTFLAGS='--cfg shuttle' cargo test -p ensile-engine --test shuttle_pictures`
//! runs one schedule again.
//!
//! Neighbours: `shuttle_simulation` judges whole histories; `pictures` has tests of single behaviours.
#![cfg(shuttle)]

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
    CheckpointBlock, DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, TakenPage,
};
use ensile_engine::{Database, Durability, Result, Table, Tuning};
use ensile_sim::{environment, schedules};
use shuttle::thread;

const STEPS_MAX: usize = 1_000_000;
const RUNS: u64 = 1_000;
const KEYS_MAX: u64 = 4;
/// Lengths of rows: the longest are replaced, not overwritten.
const LENGTHS: [usize; 4] = [8, 16, 60, 200];

/// Pictures that were compared, and those beside which something was displaced, over all runs of this process.
static COMPARED: AtomicU64 = AtomicU64::new(0);
static DISPLACED: AtomicU64 = AtomicU64::new(0);
/// Pictures that gave way.
static GAVE_WAY: AtomicU64 = AtomicU64::new(0);

type Rows = Table<u64, Vec<u8>>;
/// A key's versions by TID; `None`: it was deleted.
type Versions = BTreeMap<u64, BTreeMap<Tid, Option<Vec<u8>>>>;

/// Rows of a picture, by key.
type Taken = BTreeMap<u64, (Tid, Vec<u8>)>;

/// One database and what its threads share. What is not the engine's own is std's: it is no step of the program.
struct Life {
    db: Database,
    clock: Clock,
    /// Of each table.
    keys: u64,
    versions: Mutex<Versions>,
    pictures: Mutex<Vec<(Epoch, BTreeMap<u64, Vec<u8>>)>>,
    is_over: AtomicBool,
    next_value: AtomicU64,
}

impl Life {
    fn open(random: &mut Random) -> Result<Self> {
        let clock = Clock::manual();
        let snapshot_interval = Duration::from_micros([50, 100_000][random.below(2) as usize]);
        let db = Database::builder_in_memory()
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            .tuning(Tuning {
                snapshot_interval,
                semi_fuzzy: random.percent(50),
                displaced_bytes_max: if random.percent(30) { random.between(1, 600) } else { u64::MAX },
                ..Tuning::default()
            })
            .without_threads()
            .pictures()
            .open()?;
        Ok(Self {
            db,
            clock,
            keys: random.between(1, KEYS_MAX),
            versions: Mutex::default(),
            pictures: Mutex::default(),
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
                row.resize(LENGTHS[random.below(4) as usize], 7);
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
        let page_bytes = [1, 100, 100_000][random.below(3) as usize];
        let published = self.pages().publish_pages(page_bytes);
        while self.db.epoch() < published.epoch.plus(2) && !self.is_over() {
            thread::yield_now();
        }
        let Some(freeze) = self.db.announce_freeze().filter(|_| !self.is_over()) else {
            return self.pages().end_pages(published.attempt);
        };
        while self.db.epoch() <= freeze && !self.is_over() {
            thread::yield_now();
        }
        if !self.is_over() {
            match self.take_pages((published.attempt, freeze), random) {
                Ok(()) => {}
                Err(PagesEnded::GaveWay { displaced_bytes, displaced_bytes_max }) => {
                    assert!(displaced_bytes > displaced_bytes_max, "it gave way for nothing");
                    GAVE_WAY.fetch_add(1, Ordering::SeqCst);
                }
                Err(PagesEnded::Ended) => panic!("nobody else has ended it"),
            }
        }
        self.pages().end_pages(published.attempt);
    }

    /// # Errors
    /// It gave way.
    fn take_pages(&self, begun: (PictureAttempt, Epoch), random: &mut Random) -> Result<(), PagesEnded> {
        let (attempt, freeze) = begun;
        let (mut rows, mut displaced, mut page) = (Taken::new(), Taken::new(), PageContents::new());
        for slice in self.pages().page_slices(attempt, 1)?.concat() {
            let (mut resume, mut has_more) = (Vec::new(), true);
            while has_more {
                rest(random, 10);
                if random.percent(2) {
                    return Ok(());
                }
                if random.percent(50) {
                    self.take_displaced(begun, &mut displaced)?;
                }
                let taken = self.pages().take_page(attempt, &slice, &mut resume, freeze, &mut page)?;
                has_more = taken == TakenPage::More;
                for (tid, body) in page.iter().filter(|_| slice.section > 0) {
                    assert!(rows.insert(key_of(body), (tid, body[10..].to_vec())).is_none(), "each key once");
                }
            }
        }
        self.take_displaced(begun, &mut displaced)?;
        for (key, row) in displaced {
            let walked = rows.entry(key).or_insert_with(|| row.clone());
            assert_eq!(*walked, row, "a row has one TID, wherever it comes from");
        }
        let rows = rows.into_iter().map(|(key, (_, row))| (key, row)).collect();
        self.pictures.lock().expect("no panic").push((freeze, rows));
        Ok(())
    }

    /// What commits have left beside the pages.
    fn take_displaced(
        &self,
        (attempt, freeze): (PictureAttempt, Epoch),
        displaced: &mut Taken,
    ) -> Result<(), PagesEnded> {
        let mut block = CheckpointBlock::new();
        let mut versions = DisplacedBlock::of(&mut block);
        let has_more = self.pages().take_displaced(attempt, freeze, &mut versions)?;
        assert!(!has_more, "a block has room for all of them");
        for (_, tid, body) in versions.iter().filter(|(section, ..)| *section > 0) {
            let before = displaced.insert(key_of(body), (tid, body[10..].to_vec()));
            assert!(before.is_none(), "one version of a row is left");
        }
        Ok(())
    }

    fn beat(&self, random: &mut Random) {
        self.clock.advance(Duration::from_micros(random.between(1, 300)));
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

/// Behind two bytes of its length there are eight of the key.
fn key_of(body: &[u8]) -> u64 {
    u64::from_be_bytes(body[2..10].try_into().expect("a key"))
}

fn rest(random: &mut Random, most: u64) {
    for _ in 0..random.below(most) {
        thread::yield_now();
    }
}

fn run() {
    let mut random = Random::seeded(next_u64());
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
        start(Life::beat, Random::seeded(random.next_u64())),
        start(Life::take, Random::seeded(random.next_u64())),
    ];
    let workers = [0; 3].map(|_| {
        let (life, mut random) = (Arc::clone(&life), Random::seeded(random.next_u64()));
        thread::spawn(move || {
            for _ in 0..random.between(4, 20) {
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
    let gave_way = GAVE_WAY.load(Ordering::SeqCst);
    println!("{compared} pictures compared; beside those of {displaced} runs something was displaced");
    println!("{gave_way} pictures gave way");
    // One schedule that is run again need not have any.
    let are_few = environment::count("ENSILE_SCHEDULES", RUNS) < RUNS;
    assert!(are_few || compared.min(displaced) > RUNS / 10 && gave_way > RUNS / 20);
}
