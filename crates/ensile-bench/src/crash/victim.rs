//! The killed process: TPC-C with a log, or with pictures alone. The process reports durable orders on its standard
//! output.
//!
//! Neighbours: started by [`super`]; the terminals' [`Observer`] hears of every placed order at commit, and a thread
//! reports the order when its epoch is durable.

use std::io::Write;
use std::time::Duration;

use ensile::checkpoint::Schedule;
use ensile::{Database, Durability, Receipt};
use ensile_base::sync::{AtomicBool, Mutex, Ordering};
use zerocopy::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::crash::KeptBy;
use crate::crash::arguments::VictimArguments;
use crate::driver::{self, Pace, Plan};
use crate::failure::{Failure, Result};
use crate::system::{Options, SystemKind};
use crate::tpcc::Business;
use crate::tpcc::draw::Constants;
use crate::tpcc::load;
use crate::tpcc::tables::Tables;
use crate::tpcc::terminal::{Answer, Observer, Request};

/// Seconds of the run; longer than the time until any kill.
const FOR_EVER_SECONDS: f64 = 1e6;

/// A durable order, in the format of the pipe. The first record, all zeros, marks the begin of the load.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Acknowledged {
    pub(crate) warehouse: U16,
    pub(crate) district: u8,
    pub(crate) line_count: u8,
    pub(crate) order: U32,
    pub(crate) amount: I64,
}

/// Committed orders that may not be durable yet, with their epochs.
#[derive(Debug, Default)]
struct Placed(Mutex<Vec<(u64, Acknowledged)>>);

impl Observer for Placed {
    fn committed(&self, request: &Request, answer: &Answer, receipt: &Receipt) {
        if let (Request::NewOrder(input), Answer::Placed(placed)) = (request, answer) {
            let order = Acknowledged {
                warehouse: input.warehouse.into(),
                district: input.district,
                line_count: input.line_count,
                order: placed.order.into(),
                amount: placed.amount.into(),
            };
            self.0.lock().push((receipt.epoch().number(), order));
        }
    }
}

/// Schedule of the victim's checkpoints: a database's default, except for a requested interval.
pub(super) fn schedule(arguments: &VictimArguments) -> Schedule {
    let usual = Schedule::default();
    let Some(millis) = arguments.checkpoint_ms else { return usual };
    usual.interval(Duration::from_millis(millis))
}

/// Runs until the kill.
pub(crate) fn run(arguments: &VictimArguments) -> Result<()> {
    let run = &arguments.run;
    let options = Options { checkpoints: schedule(arguments), ..run.options() };
    let db = KeptBy::of(arguments.picture_checkpoints, arguments.no_log).open(
        options,
        &arguments.folder,
        Durability::Strict,
    )?;
    let tables = Tables::open(&db, arguments.business.scale())?;
    if arguments.recover_only {
        tell(&[0; size_of::<Acknowledged>()])?;
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    tables.begin_life(arguments.life);
    let constants = Constants::seeded(run.seed);
    if arguments.life == 0 {
        load::load(&tables, constants, run.seed, run.threads)?;
        // From here on snapshots show the whole business.
        drop(db.snapshot_latest()?);
    }
    let placed = Placed::default();
    let flags = arguments.business.flags();
    let business =
        Business { observer: Some(&placed), ..Business::new(SystemKind::Silo, tables, flags, constants) };
    tell(&[0; size_of::<Acknowledged>()])?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| acknowledge(&db, &placed, &over));
        let plan = Plan { pace: Pace::Timed(FOR_EVER_SECONDS), rounds: 1, ..run.plan() };
        let outcome = driver::run(&[&business], &plan, |_, _, _| {});
        // Relaxed: only ends the other thread.
        over.store(true, Ordering::Relaxed);
        outcome.map(|_| ())
    })
}

/// Reports placed orders when their epochs are durable.
fn acknowledge(db: &Database, placed: &Placed, over: &AtomicBool) {
    let mut waiting: Vec<(u64, Acknowledged)> = Vec::new();
    let mut bytes = Vec::new();
    // Relaxed: see `run`.
    while !over.load(Ordering::Relaxed) {
        waiting.append(&mut placed.0.lock());
        let durable = db.durable_epoch().number();
        bytes.clear();
        waiting.retain(|(epoch, order)| {
            let keep = *epoch > durable;
            if !keep {
                bytes.extend_from_slice(order.as_bytes());
            }
            keep
        });
        if tell(&bytes).is_err() {
            // The listening process is gone, so no kill will follow.
            std::process::exit(1);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn tell(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::io("telling what is durable"))
}
