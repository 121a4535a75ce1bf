//! TPC-C: an order-entry business of warehouses, districts and customers, with five kinds of transactions.
//!
//! ```text
//! schema, keys     rows and keys           draw       random draws: NURand, names, strings
//! tables           tables and indexes      load       the initial business
//! flags, desk      what can be varied, and what is drawn from
//! terminal         draws and runs transactions by the mix      counts    how often each kind met a conflict
//! new_order, payment, order_status, delivery, stock_level
//! consistency      conditions 1 to 12
//! ```
//!
//! Differences from the specification, all usual: no think times, terminals are worker threads, the database is called
//! directly, and deliveries run at once instead of being queued.
//!
//! Neighbours: the command line gives [`TpccArguments`]; `crash` kills a process that runs TPC-C.

pub(crate) mod arguments;
pub mod consistency;
pub mod counts;
pub(crate) mod delivery;
pub(crate) mod desk;
pub mod draw;
pub mod flags;
pub(crate) mod keys;
pub mod load;
pub mod new_order;
pub(crate) mod order_status;
pub(crate) mod payment;
pub(crate) mod schema;
pub(crate) mod stock_level;
pub mod tables;
pub mod terminal;

use std::sync::Arc;

use ensile_base::sync::Mutex;

use crate::arguments::RunArguments;
use crate::driver::{self, Round, Slice, Subject};
use crate::failure::{Failure, Result};
use crate::machine::{Machine, resident_bytes};
use crate::progress::Progress;
use crate::report::{Facts, Outcome, Report};
use crate::system::processes::{self, Processes};
use crate::system::{Options, SystemKind};
use crate::tpcc::arguments::BusinessArguments;
use crate::tpcc::arguments::TpccArguments;
use counts::Counts;
use draw::Constants;
use flags::Flags;
use tables::{Scale, Tables};
use terminal::{Observer, Terminal};

/// Folder of a business with a log, in the folder of all data.
pub const LOG_FOLDER: &str = "tpcc-silo";

/// A business in a database.
pub struct Business<'a> {
    pub(crate) kind: SystemKind,
    /// Name of the system in tables and JSON.
    pub name: &'static str,
    /// Tables of the business.
    pub tables: Arc<Tables>,
    /// Varied parts of the load.
    pub flags: Flags,
    /// Constants of the random draws.
    pub constants: Constants,
    pub(crate) observer: Option<&'a dyn Observer>,
    /// Counts of the terminals since the last [`Business::take_counts`].
    pub(crate) counts: Mutex<Counts>,
}

/// Parameters of a new business.
#[derive(Clone, Copy, Debug)]
pub struct Founding {
    /// Size of the business.
    pub scale: Scale,
    /// True if each warehouse has tables of its own.
    pub split: bool,
    /// Varied parts of the load.
    pub flags: Flags,
    /// Seed of the initial rows.
    pub seed: u64,
    /// Number of loading threads.
    pub threads: usize,
}

impl<'a> Business<'a> {
    /// A business over loaded tables.
    pub fn new(kind: SystemKind, tables: Tables, flags: Flags, constants: Constants) -> Self {
        let tables = Arc::new(tables);
        Self { kind, name: kind.name(), tables, flags, constants, observer: None, counts: Mutex::default() }
    }

    /// Opens and loads a business; returns the business and its number of rows.
    pub fn load(kind: SystemKind, options: &Options, founding: &Founding) -> Result<(Self, u64)> {
        let Founding { scale, split, flags, seed, threads } = *founding;
        let db = options.open_fresh(kind, LOG_FOLDER)?;
        let tables = if split { Tables::open_split(&db, scale)? } else { Tables::open(&db, scale)? };
        let constants = Constants::seeded(seed);
        let rows = load::load(&tables, constants, seed, threads)?;
        options.pass_pictures(&db);
        if options.snapshots {
            // From here on snapshots show the whole business.
            drop(db.snapshot_latest()?);
        }
        Ok((Self::new(kind, tables, flags, constants), rows))
    }

    /// A business over the same tables, with another name and other flags.
    pub fn beside(&self, name: &'static str, flags: Flags) -> Self {
        Self { name, tables: Arc::clone(&self.tables), flags, counts: Mutex::default(), ..*self }
    }

    /// The business under another name: for a variant of the engine.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Takes the counts of the terminals, and resets the counts.
    pub fn take_counts(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock())
    }
}

impl Subject for Business<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn durable_epoch(&self) -> Option<u64> {
        (self.kind == SystemKind::Silo).then(|| self.tables.db.durable_epoch().number())
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let place = (slice.worker, slice.workers);
        let terminal = Terminal::new(&self.tables, &self.flags, self.constants, place);
        let mut terminal = terminal.observed_by(self.observer);
        let durable = || self.tables.db.durable_epoch().number();
        let batch = slice.batch;
        let outcome = if batch == 1 {
            slice.repeat(durable, |random| terminal.one(random))
        } else {
            let mut requests = Vec::with_capacity(batch);
            slice.repeat(durable, |random| terminal.many(random, batch, &mut requests))
        };
        self.counts.lock().add(terminal.counts());
        outcome
    }
}

/// A system with its loaded business.
struct Loaded {
    running: Running,
    rows: u64,
    rss_bytes: u64,
}

/// Place of a business: this process, or other processes.
enum Running {
    Here(Box<Business<'static>>),
    Elsewhere(Processes),
}

impl Loaded {
    fn load(kind: SystemKind, options: &Options, arguments: &TpccArguments) -> Result<Self> {
        if kind == SystemKind::MemsiloProcesses {
            let (run, business) = (&arguments.run, &arguments.business);
            let processes = Processes::start(run.threads, |index| for_process(run, business, index))?;
            let (rows, rss_bytes) = (processes.records(), processes.resident_bytes());
            return Ok(Self { running: Running::Elsewhere(processes), rows, rss_bytes });
        }
        let before = resident_bytes();
        let founding = Founding {
            scale: arguments.business.scale(),
            split: false,
            flags: arguments.business.flags(),
            seed: arguments.run.seed,
            threads: arguments.run.threads,
        };
        let (business, rows) = Business::load(kind, options, &founding)?;
        let rss_bytes = resident_bytes().saturating_sub(before);
        Ok(Self { running: Running::Here(Box::new(business)), rows, rss_bytes })
    }

    fn subject(&self) -> &dyn Subject {
        match &self.running {
            Running::Here(business) => &**business,
            Running::Elsewhere(processes) => processes,
        }
    }

    /// True if the consistency conditions hold; violations are printed.
    fn check(&self) -> Result<bool> {
        let Running::Here(business) = &self.running else { return Ok(true) };
        let findings = consistency::check(&business.tables)?;
        if !findings.is_clean() {
            eprint!("{}: {findings}", business.name());
        }
        Ok(findings.is_clean())
    }

    fn outcome(&self, run: &RunArguments, rounds: &[Round]) -> Outcome {
        let subject = self.subject();
        let facts = Facts {
            system: subject.name(),
            threads: subject.parallelism(run.threads),
            batch: run.batch,
            durable: subject.durable_epoch().is_some(),
            records: self.rows,
            rss_bytes: self.rss_bytes,
        };
        Outcome::new(&facts, rounds)
    }
}

/// Runs TPC-C and reports. The second value is false if a requested check of the consistency conditions failed.
pub(crate) fn run(arguments: &TpccArguments) -> Result<(Report, bool)> {
    let systems = arguments.run.systems_or(&[SystemKind::Memsilo, SystemKind::Silo])?;
    if let Some(kind) = systems.iter().find(|kind| !kind.is_transactional()) {
        let name = kind.name();
        return Err(Failure::Usage(format!("{name} has no transactions: tpcc runs on memsilo and silo")));
    }
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    let options = arguments.run.options();
    let mut loaded = Vec::new();
    for kind in systems {
        progress.say(&format!("loading {} warehouses into {}", arguments.business.warehouses, kind.name()));
        loaded.push(Loaded::load(kind, &options, arguments)?);
    }
    let subjects: Vec<&dyn Subject> = loaded.iter().map(Loaded::subject).collect();
    processes::ready(arguments.run.conducted, loaded.iter().map(|loaded| (loaded.rss_bytes, loaded.rows)));
    let rounds = driver::run(&subjects, &arguments.run.plan(), |round, subject, done| {
        processes::tell_round(arguments.run.conducted, done);
        progress.round(round, subject.name(), done.rate());
    })?;
    let mut consistent = true;
    if arguments.check {
        for loaded in &loaded {
            progress.say(&format!("checking the consistency conditions of {}", loaded.subject().name()));
            consistent &= loaded.check()?;
        }
    }
    progress.clear();
    let results =
        loaded.iter().zip(&rounds).map(|(loaded, rounds)| loaded.outcome(&arguments.run, rounds)).collect();
    Ok((Report { machine, results }, consistent))
}

/// The command line of one of several processes, with its share of the warehouses.
fn for_process(run: &RunArguments, business: &BusinessArguments, index: usize) -> Vec<String> {
    let mut words = vec!["tpcc".to_owned()];
    words.extend(run.for_process(index));
    words.extend(business.words(business.warehouses.div_ceil(run.threads as u16)));
    words
}

/// Title of the table, with every flag that the figures depend on.
pub(crate) fn title(run: &RunArguments, business: &BusinessArguments) -> String {
    let mix: Vec<String> = business.mix.0.iter().map(u64::to_string).collect();
    format!(
        "TPC-C: {} warehouses, {} items, {} customers a district, mix {} (new-order/payment/order-status/delivery/\
         stock-level), remote {} % of lines and {} % of payments, order-status {:?}, stock-level {:?}, {} rounds of \
         {} s, epochs of {} ms, snapshots every {} ms, garbage collected{}{}{}",
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
        if business.no_announce { ", nothing announced" } else { "" },
        if business.no_stock_info { ", without S_DIST and brands" } else { "" },
        if cfg!(feature = "peer-keys") { ", keys of four bytes an integer" } else { "" },
    )
}
