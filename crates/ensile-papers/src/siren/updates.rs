//! The paper's table and its load: transactions of five updates or reads, at a held rate (§5).
//!
//! A row is a number as its key, an updated number VALUE1, and constant bytes. Updates are an open loop: a token falls
//! due at its time, even if earlier tokens wait. So a stalled database has to catch up, and the rate over the whole run
//! is the requested rate, unless the database cannot hold the rate.
//!
//! Neighbours: [`super::run`] holds the rate beside a picture, [`super::against_fuzzy`] lets transactions run freely.

use ensile::{Database, Readable, Receipt, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, AtomicU64, Ordering, sleep};
use ensile_bench::Result;
use std::time::Duration;

/// Rows that a transaction reads or updates.
pub(super) const ROWS_PER_TRANSACTION: u64 = 5;
/// Bytes of a key, and of VALUE1.
pub(super) const KEY_BYTES: usize = 4;
const VALUE1_BYTES: usize = 4;
/// Rows of one loading transaction.
const ROWS_PER_LOAD: u64 = 64;
/// Limit of a worker's sleep.
const NAP: Duration = Duration::from_millis(1);
/// Percent of skewed updates that go to hot rows, and distance between two hot rows.
const HOT_PERCENT: u64 = 99;
const HOT_EVERY: u64 = 100;

/// For formulas: share of skewed updates that go to hot rows, and share of rows that are hot.
pub(super) const HOT_UPDATES: f64 = HOT_PERCENT as f64 / 100.0;
pub(super) const HOT_ROWS: f64 = 1.0 / HOT_EVERY as f64;

/// Distribution of updates over rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Every row is equally likely.
    Uniform,
    /// 99 % of the updates go to 1 % of the rows. The hot rows are spread evenly over the keys.
    Skewed,
}

impl Choice {
    /// Draws the next of `rows` rows.
    #[inline]
    pub(super) fn draw(self, random: &mut Random, rows: u64) -> u32 {
        let row = match self {
            Self::Uniform => random.next_below(rows),
            Self::Skewed if random.percent(HOT_PERCENT) => random.next_below(rows / HOT_EVERY) * HOT_EVERY,
            Self::Skewed => loop {
                let row = random.next_below(rows);
                if !row.is_multiple_of(HOT_EVERY) {
                    break row;
                }
            },
        };
        row as u32
    }
}

/// The paper's table.
#[derive(Debug)]
pub(super) struct Benchmark {
    pub(super) db: Database,
    table: Table<u32, Vec<u8>>,
    pub(super) rows: u64,
}

impl Benchmark {
    /// Fills the table of a fresh database with `threads` threads. With a log, waits until every row is durable.
    pub(super) fn load(
        db: Database,
        (rows, row_bytes): (u64, usize),
        threads: u64,
        has_log: bool,
    ) -> Result<Self> {
        let table: Table<u32, Vec<u8>> = db.table("benchmark")?;
        let fill = |first: u64, end: u64| -> Result<()> {
            let mut random = Random::from_seed(first);
            let mut value = vec![0; row_bytes - KEY_BYTES];
            let mut last: Option<Receipt<'_>> = None;
            for from in (first..end).step_by(ROWS_PER_LOAD as usize) {
                let ((), receipt) = db.submit(|tx| {
                    for row in from..end.min(from + ROWS_PER_LOAD) {
                        random.fill(&mut value);
                        tx.put(&table, &(row as u32), &value)?;
                    }
                    Ok(())
                })?;
                last = Some(receipt);
            }
            last.filter(|_| has_log).map_or(Ok(()), |receipt| Ok(receipt.durable().map(drop)?))
        };
        std::thread::scope(|scope| {
            let fill = &fill;
            let share = |thread: u64| rows * thread / threads..rows * (thread + 1) / threads;
            let filling: Vec<_> = (0..threads)
                .map(share)
                .map(|share| scope.spawn(move || fill(share.start, share.end)))
                .collect();
            filling.into_iter().try_for_each(|thread| thread.join().expect("filling does not panic"))
        })?;
        Ok(Self { db, table, rows })
    }

    /// Runs one transaction of updates. Returns the number of lost attempts, and a receipt to wait for durability.
    #[inline]
    pub(super) fn update(&self, rows: [u32; ROWS_PER_TRANSACTION as usize]) -> Result<(u32, Receipt<'_>)> {
        let mut attempts = 0;
        let ((), receipt) = self.db.submit(|tx| {
            attempts += 1;
            for row in &rows {
                tx.update(&self.table, row, |value| {
                    let (value1, _) = value.split_at_mut(VALUE1_BYTES);
                    let next = u32::from_le_bytes(value1.try_into().expect("four bytes")).wrapping_add(1);
                    value1.copy_from_slice(&next.to_le_bytes());
                })?;
            }
            Ok(())
        })?;
        Ok((attempts - 1, receipt))
    }

    /// Runs one transaction of reads.
    #[inline]
    pub(super) fn read(&self, rows: [u32; ROWS_PER_TRANSACTION as usize]) -> Result<(u32, Receipt<'_>)> {
        let mut attempts = 0;
        let ((), receipt) = self.db.submit(|tx| {
            attempts += 1;
            for row in &rows {
                tx.get_with(&self.table, row, |value| std::hint::black_box(value[0]))?;
            }
            Ok(())
        })?;
        Ok((attempts - 1, receipt))
    }

    /// Draws the rows of a transaction.
    #[inline]
    pub(super) fn draw(&self, choice: Choice, random: &mut Random) -> [u32; ROWS_PER_TRANSACTION as usize] {
        std::array::from_fn(|_| choice.draw(random, self.rows))
    }
}

/// Tokens that fall due one after the other, by the clock alone.
#[derive(Clone, Copy, Debug)]
struct TokenClock {
    begun: u64,
    per_s: f64,
}

impl TokenClock {
    /// Number of tokens due at `now`.
    fn due(self, now: u64) -> u64 {
        (now.saturating_sub(self.begun) as f64 / 1e9 * self.per_s) as u64
    }

    /// Time at which `tokens` tokens are due.
    fn when(self, tokens: u64) -> u64 {
        self.begun + (tokens as f64 / self.per_s * 1e9).ceil() as u64
    }
}

/// The rows updated at least once: a bit for every row.
#[derive(Debug)]
struct Touched {
    bits: Vec<AtomicU64>,
    count: AtomicU64,
}

impl Touched {
    fn of(rows: u64) -> Self {
        let words = rows.div_ceil(64);
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect(), count: AtomicU64::new(0) }
    }

    /// Marks a row just before its update.
    #[inline]
    fn mark(&self, row: u32) {
        let (word, bit) = (&self.bits[row as usize / 64], 1_u64 << (row % 64));
        // Relaxed, both: the result of the exchange alone decides which worker set the bit.
        if word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            // Relaxed: the commit's fences precede the count of its displaced versions, and order this increment before
            // that count. Partner is the Acquire fence in `Sample::of`, after the load of that count.
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Updates at a held rate, uniform or skewed.
#[derive(Debug)]
pub(super) struct HeldUpdates<'b> {
    benchmark: &'b Benchmark,
    choice: Choice,
    pub(super) per_s: f64,
    touched: Touched,
    done: AtomicU64,
    over: AtomicBool,
}

impl<'b> HeldUpdates<'b> {
    pub(super) fn new(benchmark: &'b Benchmark, choice: Choice, per_s: f64) -> Self {
        Self {
            benchmark,
            choice,
            per_s,
            touched: Touched::of(benchmark.rows),
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Updates until the [end](Self::end), as one of `workers` workers.
    pub(super) fn work(&self, workers: usize, seed: u64, clock: &Clock) -> Result<()> {
        let mut random = Random::from_seed(seed);
        let tokens = TokenClock { begun: clock.nanos(), per_s: self.per_s / workers as f64 };
        let mut taken = 0;
        // Relaxed: the flag only ends a loop.
        while !self.over.load(Ordering::Relaxed) {
            let (now, next) = (clock.nanos(), taken + ROWS_PER_TRANSACTION);
            if tokens.due(now) < next {
                sleep(Duration::from_nanos(tokens.when(next).saturating_sub(now)).min(NAP));
                continue;
            }
            let rows = self.benchmark.draw(self.choice, &mut random);
            rows.iter().for_each(|row| self.touched.mark(*row));
            self.benchmark.update(rows)?;
            taken = next;
            // Relaxed: a figure.
            self.done.fetch_add(ROWS_PER_TRANSACTION, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the work.
    pub(super) fn end(&self) {
        // Relaxed: the flag only ends loops.
        self.over.store(true, Ordering::Relaxed);
    }

    /// Updates so far.
    pub(super) fn done(&self) -> u64 {
        // Relaxed: a figure.
        self.done.load(Ordering::Relaxed)
    }

    /// Number of rows updated at least once, including rows just before their first update.
    pub(super) fn touched(&self) -> u64 {
        // Relaxed: the fence in `Sample::of` precedes this load where the count is compared with displaced versions.
        self.touched.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
