//! A terminal: draws TPC-C's transactions by the mix and runs them, one at a time or in batches. The terminal retries
//! conflicts.
//!
//! Invariants:
//! - The input is drawn before the transaction begins: a retry enters the same input again.
//! - A new-order that the specification wants rolled back counts as done; a different error ends the run.
//! - No allocation per transaction.
//!
//! Neighbours: a [`super::Business`] under the driver has a terminal for each worker; `crash` listens to
//! placed orders.

use std::cell::Cell;
use std::hint::black_box;

use ensile::{Error, Receipt, Transaction};
use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::counts::Counts;
use super::desk::{Desk, Selection};
use super::draw::Constants;
use super::flags::{Flags, ReadMode};
use super::load::date_now;
use super::new_order::Refused;
use super::tables::Tables;
use super::{delivery, keys, new_order, order_status, payment, stock_level};
use crate::failure::Result;
use crate::tally::{Step, epoch_to_wait_for};

/// The input of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// An order of a customer.
    NewOrder(new_order::Input),
    /// A payment of a customer.
    Payment(payment::Input),
    /// A question for the last order of a customer.
    OrderStatus(order_status::Input),
    /// Delivery of the oldest orders of a warehouse.
    Delivery(delivery::Input),
    /// A question for the items with little stock.
    StockLevel(stock_level::Input),
}

impl Request {
    /// The request's place in the mix.
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

/// The result of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Placed(new_order::Placed),
    Delivered(delivery::Delivered),
    Shown,
}

/// Listener to every committed transaction.
pub(crate) trait Observer: Sync {
    /// A terminal's transaction committed under this receipt; the transaction is not yet durable.
    fn committed(&self, request: &Request, answer: &Answer, receipt: &Receipt);
}

/// One terminal.
pub struct Terminal<'a> {
    tables: &'a Tables,
    flags: &'a Flags,
    desk: Desk<'a>,
    scratch: Vec<u32>,
    clock: Clock,
    born: u64,
    observer: Option<&'a dyn Observer>,
    counts: Counts,
}

impl<'a> Terminal<'a> {
    /// A terminal of a worker. `place` is the number of the worker and the number of all workers.
    pub fn new(tables: &'a Tables, flags: &'a Flags, constants: Constants, place: (usize, usize)) -> Self {
        Self {
            tables,
            flags,
            desk: Desk::new(tables, flags, constants, place),
            scratch: Vec::with_capacity(512),
            clock: Clock::machine(),
            born: date_now(),
            observer: None,
            counts: Counts::default(),
        }
    }

    /// The terminal with a listener to its transactions.
    pub(crate) fn observed_by(self, observer: Option<&'a dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// The terminal's counts.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    #[inline]
    fn date(&self) -> u64 {
        self.born + self.clock.nanos() / 1_000
    }

    /// Draws the next transaction.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> Request {
        let mix = &self.flags.mix;
        let mut dice = random.next_below(mix.iter().sum());
        for (kind, &share) in mix.iter().enumerate() {
            if dice < share {
                return match kind {
                    0 => Request::NewOrder(new_order::Input::draw(&self.desk, random, self.date())),
                    1 => Request::Payment(payment::Input::draw(&self.desk, random, self.date())),
                    2 => Request::OrderStatus(order_status::Input::draw(&self.desk, random)),
                    3 => Request::Delivery(delivery::Input::draw(&self.desk, random, self.date())),
                    _ => Request::StockLevel(stock_level::Input::draw(&self.desk, random)),
                };
            }
            dice -= share;
        }
        unreachable!("the dice is below the sum of the shares")
    }

    /// Draws and runs a transaction. The rows of an order are known before the transaction begins, so overlapping
    /// descents help even a single transaction.
    #[inline]
    pub fn one(&mut self, random: &mut Random) -> Result<Step> {
        let request = self.draw(random);
        if self.reads_snapshot(&request) {
            return self.on_snapshot(&request);
        }
        self.execute(std::slice::from_ref(&request))
    }

    /// Draws and runs `batch` independent transactions with overlapping descents.
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

    /// Runs requests, each as a separate transaction.
    #[inline]
    fn execute(&mut self, requests: &[Request]) -> Result<Step> {
        let Self { tables, flags, scratch, observer, counts, .. } = self;
        let (attempts, mut seen) = (Cell::new(0), 0);
        let (mut ended, mut epoch, mut failed) = (0, Epoch::ZERO, None);
        tables.db.run_batch_with(
            requests,
            |request, prefetch| {
                if flags.announce {
                    announce(prefetch, tables, request);
                }
            },
            |tx, request| {
                attempts.set(attempts.get() + 1);
                body(tx, tables, flags, request, scratch)
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
                    Err(Refused::UnknownItem) => {}
                    Err(Refused::Failed(error)) => failed = Some(error),
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

    /// Answers a request from a snapshot. Returns the epoch whose durability makes the answer durable.
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

/// Updates the tables' delivery hints after the commit of a delivery.
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
    flags: &Flags,
    request: &Request,
    scratch: &mut Vec<u32>,
) -> Result<Answer, Refused> {
    match request {
        Request::NewOrder(input) => {
            let placed = new_order::run(tx, tables, input)?;
            // A real terminal would show these values. `black_box` keeps their computation.
            black_box((placed.total, placed.brand_lines));
            Ok(Answer::Placed(placed))
        }
        Request::Payment(input) => {
            payment::run(tx, tables, input, scratch)?;
            Ok(Answer::Shown)
        }
        Request::Delivery(input) => {
            let delivered = delivery::run(tx, tables, input, flags.announce)?;
            Ok(Answer::Delivered(delivered))
        }
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

/// Announces the rows known before the transaction begins: the descents for these rows are worth overlapping.
#[inline]
fn announce(prefetch: &mut ensile::Prefetch<'_>, tables: &Tables, request: &Request) {
    match request {
        Request::NewOrder(input) => {
            let home = tables.of(input.warehouse);
            prefetch.key(&home.customer, &keys::customer(input.warehouse, input.district, input.customer));
            for line in input.lines() {
                let supply = tables.of(line.supply_warehouse);
                prefetch.key(&home.item, &line.item);
                prefetch.key(&supply.stock, &keys::stock(line.supply_warehouse, line.item));
                if input.stock_info {
                    prefetch.key(&supply.stock_info, &keys::stock(line.supply_warehouse, line.item));
                }
            }
        }
        Request::Payment(input) => {
            if let Selection::Number(customer) = input.customer {
                prefetch.key(
                    &tables.customer,
                    &keys::customer(input.customer_warehouse, input.customer_district, customer),
                );
            }
        }
        Request::OrderStatus(_) | Request::Delivery(_) | Request::StockLevel(_) => {}
    }
}
