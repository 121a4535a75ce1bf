//! A terminal: draws TPC-C's transactions by the mix and runs them, one at a time or in batches, conflicts retried.
//!
//! Invariants:
//! - What is entered is drawn before the transaction begins: a retry enters the same again.
//! - A new-order that the specification wants rolled back counts as done; any other error ends the run.
//! - Nothing is allocated per transaction.
//!
//! Neighbours: a [`super::Business`] under the driver has one for each worker; [`crate::crash`] listens to what was placed.

use std::cell::Cell;
use std::hint::black_box;

use clap::ValueEnum;
use ensile::{Error, Receipt, Transaction};
use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::counts::Counts;
use super::draw::{Constants, LAST_NAMES, last_name, nurand};
use super::load::date_now;
use super::payment::Selection;
use super::tables::Tables;
use super::{delivery, keys, new_order, order_status, payment, stock_level};
use crate::failure::Result;
use crate::tally::{Step, epoch_to_wait_for};

/// What a read-only transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReadMode {
    /// A recent consistent snapshot: never aborts.
    Snapshot,
    /// The present, validated at commit like any other transaction.
    Serializable,
}

/// What can be varied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags {
    /// Shares of new-order, payment, order-status, delivery and stock-level.
    pub(crate) mix: [u64; 5],
    /// Of a million lines of orders, how many another warehouse supplies.
    pub(crate) remote_items_per_million: u64,
    /// Percent of payments by customers of another warehouse.
    pub(crate) remote_payments: u64,
    pub(crate) order_status: ReadMode,
    pub(crate) stock_level: ReadMode,
    /// Whether one order in a hundred names an item that does not exist, and is rolled back.
    pub(crate) entry_errors: bool,
    /// Whether the rows that a request names are fetched from memory together before it begins.
    pub(crate) touch: bool,
    /// Whether each order comes into any warehouse, rather than into the worker's own.
    pub(crate) any_home: bool,
    /// Whether order numbers come from a counter beside the database instead of the district's row (Silo §5.4,
    /// `FastIds`); nothing but new-order may then run.
    pub(crate) fast_ids: bool,
}

/// As the specification has it.
impl Default for Flags {
    fn default() -> Self {
        Self {
            mix: [45, 43, 4, 4, 4],
            remote_items_per_million: 10_000,
            remote_payments: 15,
            order_status: ReadMode::Snapshot,
            stock_level: ReadMode::Snapshot,
            entry_errors: true,
            touch: true,
            any_home: false,
            fast_ids: false,
        }
    }
}

/// A transaction as it is entered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    NewOrder(new_order::Input),
    Payment(payment::Input),
    OrderStatus(order_status::Input),
    Delivery(delivery::Input),
    StockLevel(stock_level::Input),
}

impl Request {
    /// Its place in the mix.
    #[inline]
    fn kind(&self) -> usize {
        match self {
            Self::NewOrder(_) => 0,
            Self::Payment(_) => 1,
            Self::OrderStatus(_) => 2,
            Self::Delivery(_) => 3,
            Self::StockLevel(_) => 4,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Placed(new_order::Placed),
    Delivered(delivery::Delivered),
    Shown,
}

/// Hears of every transaction that committed.
pub(crate) trait Observer: Sync {
    /// A terminal's transaction committed under this receipt; it is not yet durable.
    fn committed(&self, request: &Request, answer: &Answer, receipt: &Receipt);
}

/// One terminal.
pub(crate) struct Terminal<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) flags: &'a Flags,
    pub(crate) constants: Constants,
    worker: usize,
    workers: usize,
    writer: u16,
    history: Cell<u64>,
    scratch: Vec<u32>,
    clock: Clock,
    born: u64,
    observer: Option<&'a dyn Observer>,
    counts: Counts,
}

impl<'a> Terminal<'a> {
    /// A terminal of `worker`, one of `workers`.
    pub(crate) fn new(
        tables: &'a Tables,
        flags: &'a Flags,
        constants: Constants,
        (worker, workers): (usize, usize),
        observer: Option<&'a dyn Observer>,
    ) -> Self {
        Self {
            tables,
            flags,
            constants,
            worker,
            workers,
            writer: tables.next_writer(),
            history: Cell::new(0),
            scratch: Vec::with_capacity(512),
            clock: Clock::machine(),
            born: date_now(),
            observer,
            counts: Counts::default(),
        }
    }

    /// What it has counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The home warehouse: the worker's own, or one of those that it shares out among its transactions.
    #[inline]
    pub(crate) fn home(&self, random: &mut Random) -> u16 {
        let warehouses = usize::from(self.tables.scale.warehouses);
        if self.flags.any_home {
            return random.between(1, warehouses as u64) as u16;
        }
        if warehouses <= self.workers {
            return (self.worker % warehouses) as u16 + 1;
        }
        let own = (warehouses - self.worker).div_ceil(self.workers);
        (self.worker + self.workers * random.below(own as u64) as usize) as u16 + 1
    }

    /// Any warehouse but this one.
    #[inline]
    pub(crate) fn other(&self, random: &mut Random, than: u16) -> u16 {
        let other = random.between(1, u64::from(self.tables.scale.warehouses) - 1) as u16;
        if other >= than { other + 1 } else { other }
    }

    /// A customer number.
    #[inline]
    pub(crate) fn customer(&self, random: &mut Random) -> u32 {
        nurand(random, 1023, self.constants.customer, 1, u64::from(self.tables.scale.customers)) as u32
    }

    /// A customer by last name (60 %) or by number.
    #[inline]
    pub(crate) fn selection(&self, random: &mut Random) -> Selection {
        if random.percent(60) {
            let names = u64::from(self.tables.scale.customers.min(LAST_NAMES));
            Selection::LastName(last_name(
                nurand(random, 255, self.constants.last_name_run, 0, names - 1) as u32
            ))
        } else {
            Selection::Number(self.customer(random))
        }
    }

    /// The key of this terminal's next history row.
    #[inline]
    pub(crate) fn next_history(&self) -> keys::HistoryKey {
        let number = self.history.get();
        self.history.set(number + 1);
        keys::history(self.writer, number)
    }

    #[inline]
    fn date(&self) -> u64 {
        self.born + self.clock.nanos() / 1_000
    }

    /// Draws the next transaction.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> Request {
        let mix = &self.flags.mix;
        let mut dice = random.below(mix.iter().sum());
        for (kind, &share) in mix.iter().enumerate() {
            if dice < share {
                return match kind {
                    0 => Request::NewOrder(new_order::Input::draw(self, random, self.date())),
                    1 => Request::Payment(payment::Input::draw(self, random, self.date())),
                    2 => Request::OrderStatus(order_status::Input::draw(self, random)),
                    3 => Request::Delivery(delivery::Input::draw(self, random, self.date())),
                    _ => Request::StockLevel(stock_level::Input::draw(self, random)),
                };
            }
            dice -= share;
        }
        unreachable!("the dice is below the sum of the shares")
    }

    /// Draws and runs one transaction. The rows that an order names are known before it begins, so even alone it gains
    /// from descents that overlap.
    #[inline]
    pub(crate) fn one(&mut self, random: &mut Random) -> Result<Step> {
        let request = self.draw(random);
        if self.reads_snapshot(&request) {
            return self.on_snapshot(&request);
        }
        self.execute(std::slice::from_ref(&request))
    }

    /// Draws and runs `batch` independent transactions with their descents overlapping.
    pub(crate) fn many(
        &mut self,
        random: &mut Random,
        batch: usize,
        requests: &mut Vec<Request>,
    ) -> Result<Step> {
        requests.clear();
        let (mut on_snapshot, mut epoch) = (0, 0);
        for _ in 0..batch {
            let request = self.draw(random);
            if self.reads_snapshot(&request) {
                on_snapshot += 1;
                epoch = self.on_snapshot(&request)?.epoch.max(epoch);
            } else {
                requests.push(request);
            }
        }
        let step = self.execute(requests)?;
        Ok(Step { committed: step.committed + on_snapshot, epoch: step.epoch.max(epoch), ..step })
    }

    /// Runs requests, each as a transaction of its own.
    #[inline]
    fn execute(&mut self, requests: &[Request]) -> Result<Step> {
        let Self { tables, flags, scratch, observer, counts, .. } = self;
        let (attempts, mut seen) = (Cell::new(0), 0);
        let (mut ended, mut epoch, mut failed) = (0, Epoch::ZERO, None);
        tables.db.run_batch_with(
            requests,
            |request, touch| {
                if flags.touch {
                    touch_rows(touch, tables, request);
                }
            },
            |tx, request| {
                attempts.set(attempts.get() + 1);
                body(tx, tables, request, scratch)
            },
            |outcome| {
                let request = &requests[ended];
                ended += 1;
                counts.note(request.kind(), attempts.get() - seen - 1);
                seen = attempts.get();
                match outcome {
                    Ok((answer, receipt)) => {
                        epoch = epoch.max(receipt.epoch());
                        after_commit(tables, request, &answer);
                        if let Some(observer) = observer {
                            observer.committed(request, &answer, &receipt);
                        }
                    }
                    Err(Error::RolledBack) => {}
                    Err(error) => failed = Some(error),
                }
            },
        );
        if let Some(error) = failed {
            return Err(error.into());
        }
        let committed = requests.len() as u32;
        let epoch = epoch_to_wait_for(epoch, tables.db.durable_epoch());
        Ok(Step { committed, conflicts: attempts.get() - committed, epoch })
    }

    fn reads_snapshot(&self, request: &Request) -> bool {
        match request {
            Request::OrderStatus(_) => self.flags.order_status == ReadMode::Snapshot,
            Request::StockLevel(_) => self.flags.stock_level == ReadMode::Snapshot,
            _ => false,
        }
    }

    fn on_snapshot(&mut self, request: &Request) -> Result<Step> {
        let mut conflicts = 0;
        let shown = loop {
            match self.read_snapshot(request) {
                Ok(shown) => break shown,
                Err(error) if error.is_retryable() => conflicts += 1,
                Err(error) => return Err(error.into()),
            }
        };
        self.counts.note(request.kind(), conflicts);
        let epoch = epoch_to_wait_for(shown, self.tables.db.durable_epoch());
        Ok(Step { committed: 1, conflicts, epoch })
    }

    /// Answers a request from a snapshot, and with which epoch the answer is durable.
    fn read_snapshot(&mut self, request: &Request) -> Result<Epoch, Error> {
        let mut snapshot = self.tables.db.snapshot()?;
        match request {
            Request::OrderStatus(input) => {
                black_box(order_status::run(&mut snapshot, self.tables, input, &mut self.scratch)?);
            }
            Request::StockLevel(input) => {
                black_box(stock_level::run(&mut snapshot, self.tables, input, &mut self.scratch)?);
            }
            _ => unreachable!("only order-status and stock-level read snapshots"),
        }
        Ok(snapshot.shown_epoch())
    }
}

/// What a terminal remembers of a commit.
#[inline]
fn after_commit(tables: &Tables, request: &Request, answer: &Answer) {
    if let (Request::Delivery(input), Answer::Delivered(delivered)) = (request, answer) {
        delivery::committed(tables, input, delivered);
    }
}

/// One transaction's body.
#[inline]
fn body(
    tx: &mut Transaction<'_>,
    tables: &Tables,
    request: &Request,
    scratch: &mut Vec<u32>,
) -> Result<Answer, Error> {
    match request {
        Request::NewOrder(input) => {
            let placed = new_order::run(tx, tables, input)?;
            // What the terminal would show and nobody here looks at.
            black_box((placed.total, placed.brand_lines));
            Ok(Answer::Placed(placed))
        }
        Request::Payment(input) => payment::run(tx, tables, input, scratch).map(|_| Answer::Shown),
        Request::Delivery(input) => delivery::run(tx, tables, input).map(Answer::Delivered),
        Request::OrderStatus(input) => {
            black_box(order_status::run(tx, tables, input, scratch)?.balance);
            Ok(Answer::Shown)
        }
        Request::StockLevel(input) => {
            black_box(stock_level::run(tx, tables, input, scratch)?);
            Ok(Answer::Shown)
        }
    }
}

/// Names the rows whose descents are worth overlapping: those that are known before the transaction begins.
#[inline]
fn touch_rows(touch: &mut ensile::Touch<'_>, tables: &Tables, request: &Request) {
    match request {
        Request::NewOrder(input) => {
            let home = tables.of(input.warehouse);
            touch.key(&home.customer, &(input.warehouse, input.district, input.customer));
            for line in input.lines() {
                let supply = tables.of(line.supply_warehouse);
                touch.key(&home.item, &line.item);
                touch.key(&supply.stock, &(line.supply_warehouse, line.item));
                touch.key(&supply.stock_info, &(line.supply_warehouse, line.item));
            }
        }
        Request::Payment(input) => {
            if let Selection::Number(customer) = input.customer {
                touch.key(&tables.customer, &(input.customer_warehouse, input.customer_district, customer));
            }
        }
        Request::OrderStatus(_) | Request::Delivery(_) | Request::StockLevel(_) => {}
    }
}
