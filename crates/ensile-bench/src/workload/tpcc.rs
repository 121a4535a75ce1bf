//! TPC-C: an order-entry business of warehouses, districts and customers, with five kinds of transactions.
//!
//! ```text
//! schema, keys     rows and keys           draw       random draws: NURand, names, strings
//! tables           tables and indexes      load       the initial business
//! terminal         draws and runs transactions by the mix
//! new_order, payment, order_status, delivery, stock_level
//! consistency      conditions 1 to 12
//! ```
//!
//! Differences from the specification, all usual: no think times, terminals are worker threads, the database is
//! called directly, and deliveries run at once instead of being queued.
//!
//! Neighbours: the command line gives [`TpccArguments`]; [`crate::crash`] kills a process that runs it.

pub(crate) mod consistency;
pub(crate) mod delivery;
pub(crate) mod draw;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod new_order;
pub(crate) mod order_status;
pub(crate) mod payment;
pub(crate) mod schema;
pub(crate) mod stock_level;
pub(crate) mod tables;
pub(crate) mod terminal;

use crate::arguments::{BusinessArguments, RunArguments, TpccArguments};
use crate::driver::{self, Slice, Subject};
use crate::failure::{Failure, Result};
use crate::machine::{Machine, resident_bytes};
use crate::progress::Progress;
use crate::report::{Facts, Outcome, Report};
use crate::system::{Options, SystemKind};
use draw::Constants;
use tables::Tables;
use terminal::{Flags, Observer, Terminal};

/// A business in a database.
pub(crate) struct Business<'a> {
    pub(crate) kind: SystemKind,
    pub(crate) tables: Tables,
    pub(crate) flags: Flags,
    pub(crate) constants: Constants,
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl Business<'_> {
    /// Opens and loads it; the second answer is the number of rows.
    pub(crate) fn load(
        kind: SystemKind,
        options: &Options,
        arguments: &TpccArguments,
    ) -> Result<(Self, u64)> {
        let db = options.open_fresh(kind, "tpcc-silo")?;
        let tables = Tables::open(&db, arguments.business.scale())?;
        let seed = arguments.run.seed;
        let constants = Constants::seeded(seed);
        let rows = load::load(&tables, constants, seed, arguments.run.threads)?;
        Ok((Self { kind, tables, flags: arguments.business.flags(), constants, observer: None }, rows))
    }
}

impl Subject for Business<'_> {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn durable_epoch(&self) -> Option<u64> {
        (self.kind == SystemKind::Silo).then(|| self.tables.db.durable_epoch().number())
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let place = (slice.worker, slice.workers);
        let mut terminal = Terminal::new(&self.tables, &self.flags, self.constants, place, self.observer);
        let durable = || self.tables.db.durable_epoch().number();
        let batch = slice.batch;
        if batch == 1 {
            return slice.repeat(durable, |random| terminal.one(random));
        }
        let mut requests = Vec::with_capacity(batch);
        slice.repeat(durable, |random| terminal.many(random, batch, &mut requests))
    }
}

/// Runs TPC-C and reports it. The second answer tells whether every consistency condition held, where asked for.
pub(crate) fn run(arguments: &TpccArguments) -> Result<(Report, bool)> {
    let systems = arguments.run.systems_or(&[SystemKind::Memsilo, SystemKind::Silo]);
    if let Some(kind) = systems.iter().find(|kind| !kind.is_transactional()) {
        return Err(Failure::Usage(format!(
            "{} has no transactions: tpcc runs on memsilo and silo",
            kind.name()
        )));
    }
    let mut progress = Progress::new(arguments.run.rounds);
    let options = arguments.run.options();
    let mut loaded = Vec::new();
    for kind in systems {
        progress.say(&format!("loading {} warehouses into {}", arguments.business.warehouses, kind.name()));
        let before = resident_bytes();
        let (business, rows) = Business::load(kind, &options, arguments)?;
        loaded.push((business, rows, resident_bytes().saturating_sub(before)));
    }
    let subjects: Vec<&dyn Subject> = loaded.iter().map(|(business, ..)| business as &dyn Subject).collect();
    let rounds = driver::run(&subjects, &arguments.run.plan(), |round, subject, done| {
        progress.round(round, subject.name(), done.rate());
    })?;
    let mut consistent = true;
    if arguments.check {
        for (business, ..) in &loaded {
            progress.say(&format!("checking the consistency conditions of {}", business.name()));
            let findings = consistency::check(&business.tables)?;
            progress.clear();
            if !findings.is_clean() {
                consistent = false;
                eprint!("{}: {findings}", business.name());
            }
        }
    }
    progress.clear();
    let results = loaded
        .iter()
        .zip(&rounds)
        .map(|((business, rows, rss_bytes), rounds)| {
            let facts = Facts {
                system: business.name(),
                threads: arguments.run.threads,
                batch: arguments.run.batch,
                durable: business.durable_epoch().is_some(),
                records: *rows,
                rss_bytes: *rss_bytes,
            };
            Outcome::new(&facts, rounds)
        })
        .collect();
    Ok((Report { machine: Machine::look(), results }, consistent))
}

/// What heads the table: every flag that the figures depend on.
pub(crate) fn title(run: &RunArguments, business: &BusinessArguments) -> String {
    let mix: Vec<String> = business.mix.0.iter().map(u64::to_string).collect();
    format!(
        "TPC-C: {} warehouses, {} items, {} customers a district, mix {} (new-order/payment/order-status/delivery/\
         stock-level), remote {} % of lines and {} % of payments, order-status {:?}, stock-level {:?}, {} rounds of \
         {} s, epochs of {} ms, snapshots every {} ms, garbage collected",
        business.warehouses,
        business.items,
        business.customers,
        mix.join("/"),
        if business.warehouses > 1 { business.remote } else { 0 },
        if business.warehouses > 1 { business.remote_payments } else { 0 },
        business.order_status,
        business.stock_level,
        run.rounds,
        run.seconds,
        run.epoch_ms,
        run.snapshot_ms,
    )
}
