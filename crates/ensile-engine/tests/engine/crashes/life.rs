//! One life of a database that its test drives: opening it, random transactions, and everything that it shows.
//!
//! Neighbours: `driver` interleaves what happens in a life; the ledger of promises is `ensile_sim`'s.

use std::ops::Range;

use ensile_sim::ledger::{Rows, Writes};

use crate::prelude::*;

/// Checkpointers, stepped by the test.
pub(crate) const CHECKPOINTERS: usize = 2;
/// A log begins a new file so soon.
const LOG_FILE_BYTES: u64 = 8 << 10;
/// Of pictures: the least that can be set.
const PAGE_BYTES: usize = 4 << 10;
/// Beside pictures transactions write some keys for so many epochs, and then others.
const WINDOW_EPOCHS: u64 = 4;
/// How many such windows of keys there are.
const WINDOWS: u64 = 4;

type Row = Vec<u8>;

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// 0: there is no log, and a result is durable once a picture has it.
    pub(crate) loggers: usize,
    pub(crate) strategy: Strategy,
    /// Of pictures: what commits displace is written beside their pages.
    pub(crate) semi_fuzzy: bool,
}

impl Setting {
    /// Fuzzy checkpoints.
    pub(crate) fn fuzzy(loggers: usize) -> Self {
        Self { loggers, strategy: Strategy::Fuzzy, semi_fuzzy: false }
    }

    pub(crate) fn has_log(&self) -> bool {
        self.loggers > 0
    }

    pub(crate) fn has_pictures(&self) -> bool {
        self.strategy == Strategy::Pictures
    }

    /// Keys are below this. Pictures get more of them, and longer rows: pages are kept, split and joined.
    pub(crate) fn keys(&self) -> u64 {
        if self.has_pictures() { 60 } else { 24 }
    }

    /// Most rows are about so long, in bytes.
    fn row_bytes(&self) -> u64 {
        if self.has_pictures() { 600 } else { 30 }
    }
}

/// One life of the database.
pub(crate) struct Life {
    pub(crate) db: Database,
    pub(crate) rows: Table<u64, Row>,
    pub(crate) setting: Setting,
    clock: Clock,
    by_length: Index<u64, u64, Row>,
    by_name: Index<Vec<u8>, u64, Row>,
}

impl Life {
    /// Opens it as a process of its own, which is dead after the disk's next crash.
    pub(crate) fn open(disk: &SimDisk, setting: Setting) -> Result<Self> {
        let Setting { loggers, strategy, semi_fuzzy } = setting;
        let clock = Clock::manual();
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
        let builder = if setting.has_log() { builder } else { builder.without_log() };
        let db = builder
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            // Some databases have them, so that what recovery brings back is asked of both.
            .before_images(setting.has_log() && loggers.is_multiple_of(2))
            .checkpoints(Schedule::on_demand())
            .tuning(Tuning {
                loggers: setting.has_log().then_some(loggers),
                checkpointers: Some(CHECKPOINTERS),
                checkpoint_files: 2,
                checkpoint_strategy: Some(strategy),
                checkpoint_page_bytes: PAGE_BYTES,
                semi_fuzzy,
                // Small, so that logs get new files.
                log_file_bytes: LOG_FILE_BYTES,
                recovery_threads: 1,
                ..Tuning::default()
            })
            .without_threads()
            .open()?;
        let rows = db
            .define::<u64, Row>("rows")
            .index("by_length", 1, |_: &u64, row: &Row| row.len() as u64)
            .unique_index("by_name", 1, |key: &u64, row: &Row| name(*key, row))
            .open()?;
        let (by_length, by_name) = (rows.index("by_length")?, rows.index("by_name")?);
        Ok(Self { db, rows, setting, clock, by_length, by_name })
    }

    pub(crate) fn beat(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// D as recovery decided it when this life began.
    pub(crate) fn recovered_to(&self) -> Epoch {
        self.db.recovery_report().expect("it is on a disk").durable_epoch
    }

    /// e_l of the checkpoint that recovery loaded, or S of the picture; 0 if it loaded none.
    pub(crate) fn loaded(&self) -> Epoch {
        let report = self.db.recovery_report().expect("it is on a disk");
        report.checkpoint.map_or(Epoch::ZERO, |(low, _)| low)
    }

    /// The same of the checkpoint that this life has installed last.
    pub(crate) fn installed(&self) -> Epoch {
        let last = self.db.stats().checkpoints.and_then(|stats| stats.last);
        last.map_or(Epoch::ZERO, |report| report.low)
    }

    /// The first epoch of this life.
    pub(crate) fn first_epoch(&self) -> Epoch {
        self.db.recovery_report().expect("it is on a disk").first_epoch
    }

    /// Everything that the database shows, by every way of looking at it.
    pub(crate) fn read_back(&self) -> Result<Rows, String> {
        let told = |error: Error| error.to_string();
        let mut tx = self.db.begin();
        let rows: Rows = tx.range(&self.rows, ..).collect::<Result<_>>().map_err(told)?;
        let mut through_index: Vec<(u64, Row)> =
            tx.range(&self.by_length, ..).collect::<Result<_>>().map_err(told)?;
        through_index.sort_unstable();
        if !through_index.into_iter().eq(rows.clone()) {
            return Err("the plain index shows other rows".to_owned());
        }
        for (key, row) in &rows {
            let found = tx.get(&self.by_name, &name(*key, row)).map_err(told)?;
            if found.as_ref() != Some(&(*key, row.clone())) {
                return Err(format!("the unique index does not show row {key}"));
            }
        }
        drop(tx);
        let mut snapshot = self.db.snapshot_latest().map_err(told)?;
        let shown: Rows = snapshot.range(&self.rows, ..).collect::<Result<_>>().map_err(told)?;
        if shown == rows { Ok(rows) } else { Err("a snapshot of everything shows something else".to_owned()) }
    }

    /// Which keys a transaction writes, and of a hundred writes how many are deletes. Beside pictures a window of them,
    /// so that the pages of others are kept; in every second round of the windows most rows go, so that pages are
    /// joined.
    fn window(&self) -> (Range<u64>, u64) {
        let keys = self.setting.keys();
        if !self.setting.has_pictures() {
            return (0..keys, 30);
        }
        let window = self.db.epoch().number() / WINDOW_EPOCHS;
        let (first, width) = (window % WINDOWS * keys / WINDOWS, keys / WINDOWS);
        (first..first + width, if (window / WINDOWS).is_multiple_of(2) { 10 } else { 80 })
    }

    /// Runs one random transaction; it may be rolled back. Returns its epoch and what it wrote.
    pub(crate) fn transaction(&self, seed: u64) -> Result<Option<(Epoch, Writes)>> {
        let mut writes = Writes::new();
        let (keys, deletes_percent) = self.window();
        let outcome = self.db.submit(|tx| {
            let mut random = Random::from_seed(seed);
            writes.clear();
            for _ in 0..random.next_between(1, 5) {
                let key = random.next_between(keys.start, keys.end - 1);
                if random.percent(deletes_percent) {
                    // One that finds nothing changes nothing, so nothing that is read later rests on it.
                    if tx.delete(&self.rows, &key)? {
                        writes.push((key, None));
                    }
                    continue;
                }
                let longest = if random.percent(5) { 3_000 } else { 2 * self.setting.row_bytes() };
                let mut row = vec![0; random.next_below(longest) as usize + 8];
                random.fill(&mut row);
                match random.next_below(3) {
                    0 => match tx.insert(&self.rows, &key, &row) {
                        Err(Error::KeyExists { .. }) => continue,
                        inserted => inserted?,
                    },
                    1 => {
                        if !tx.update(&self.rows, &key, |value: &mut Row| value.clone_from(&row))? {
                            continue;
                        }
                    }
                    _ => tx.put(&self.rows, &key, &row)?,
                }
                writes.push((key, Some(row)));
            }
            if random.percent(10) { Err(Error::Misuse("given up".to_owned())) } else { Ok(()) }
        });
        match outcome {
            Ok(((), receipt)) => Ok((!writes.is_empty()).then(|| (receipt.epoch(), writes.clone()))),
            Err(Error::Misuse(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A row's unique name.
fn name(key: u64, row: &[u8]) -> Vec<u8> {
    [&row[..row.len().min(3)], &key.to_be_bytes()].concat()
}
