//! Account of the cache lines that a kind of transaction wrote, by name, and of the lines that the other worker
//! touches.
//!
//! A line has the name of the source place that wrote the line. A line counts as shared if the other worker read or
//! wrote the line in a transaction of the same epoch. Threads that read a line once an epoch do not count: the
//! heartbeat's scan of pins and bindings and a logger's look at its slots are no hot path.
//!
//! Neighbours: [`super::alternation`] supplies the observed lines; [`super::document`] writes the account.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use ensile_base::sync::access_trace::{Touch, Touched};
use serde::Serialize;

use super::alternation::{Does, Kind, Observed, Use};
use super::choices::{Keys, Setup, Workload};

/// Source paths and names of their lines; the first match counts.
pub(super) const NAMES: [(&str, &str); 29] = [
    ("ensile-epoch/src/pin_slot.rs", PIN),
    ("ensile-epoch/src/commit_slot.rs", BINDING),
    ("ensile-epoch/src/epochs.rs", GLOBAL_EPOCH),
    ("ensile-epoch/src/registry.rs", REGISTRY),
    ("ensile-engine/src/worker/idle_workers.rs", "pool of workers"),
    ("ensile-engine/src/worker/", COUNTERS),
    ("ensile-engine/src/variants.rs", GLOBAL_TID),
    ("ensile-engine/src/tables/side_index.rs", SIDE_INDEX),
    ("ensile-engine/src/record/blocks.rs", "new record"),
    ("ensile-engine/src/record/locked_write.rs", "record"),
    ("ensile-index/src/version.rs", "node's version"),
    ("ensile-index/src/tree.rs", "tree's root"),
    ("ensile-index/src/", "node"),
    ("ensile-durability/src/buffers/worker_slot.rs", LOG_SLOT),
    ("ensile-memory/src/exchange.rs", LOG_SLOT),
    ("ensile-durability/src/buffers/buffer.rs", LOG_BUFFER),
    ("ensile-durability/src/buffers/queue.rs", LOGGER),
    ("ensile-durability/src/log/waiters.rs", WAITERS),
    ("ensile-durability/src/wake_up.rs", WAKE_UP),
    ("ensile-durability/src/log/", LOGGER),
    ("ensile-durability/src/store/open_store.rs", FOLDERS),
    ("ensile-durability/src/counter.rs", LOGGER),
    ("ensile-memory/src/cache.rs", "free block"),
    ("ensile-memory/src/memory.rs", "memory pool"),
    ("ensile-memory/src/meter.rs", "memory pool"),
    ("ensile-bench/src/", "workload's own"),
    ("ensile-papers/src/", "workload's own"),
    ("ensile-engine/src/", OWNERS),
    (STD, OWNERS),
];

/// Part of every path of std's own source.
pub(super) const STD: &str = "/library/";

/// The epoch registry's own stores: of the transaction's pin, and of the commit's binding.
pub(super) const PIN: &str = "pin slot";
/// See [`PIN`].
pub(super) const BINDING: &str = "commit binding";
/// The worker's statistics.
pub(super) const COUNTERS: &str = "worker's counters";
/// The worker's slot in its logger.
pub(super) const LOG_SLOT: &str = "log slot";
/// The waiters for D, behind a lock.
pub(super) const WAITERS: &str = "waiters' list";
/// The rest of a logger: writer, queue and marks.
pub(super) const LOGGER: &str = "logger's queue";
/// Locks of the step after a sync that checks the names of the folders (L9).
const FOLDERS: &str = "folders' locks";
/// The workers' bindings and pins, scanned under a lock by a logger's step.
pub(super) const REGISTRY: &str = "epoch registry's list";
/// A worker's log buffer, taken over by its logger.
pub(super) const LOG_BUFFER: &str = "log buffer";
/// E, which a waiter for a strict result closes early.
pub(super) const GLOBAL_EPOCH: &str = "global epoch";
/// The wake-up of a logger for a strict result.
pub(super) const WAKE_UP: &str = "logger's wake-up";
/// The TID counter of the variant with global TIDs.
pub(super) const GLOBAL_TID: &str = "global TID";
/// A table's counters of buried deletes (U3), written by clean-up.
pub(super) const SIDE_INDEX: &str = "side index";
/// Counts of owners: the only writes of the rest of the engine, and of std's own code.
pub(super) const OWNERS: &str = "count of owners";

/// Names of padded lines. No other worker may touch the neighbouring line either, because processors fetch pairs of
/// lines.
const PADDED: [&str; 4] = [PIN, BINDING, COUNTERS, LOG_SLOT];

/// Name of the lines written by a source place. A place without a name gets the file path, and nothing may share its
/// lines.
fn name_of(place: &Location<'static>) -> &'static str {
    NAMES.iter().find(|(file, _)| place.file().contains(file)).map_or(place.file(), |(_, name)| name)
}

/// Lines and read-modify-writes of one name, summed over a kind's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    /// Lines written.
    pub(super) lines: u64,
    /// Read-modify-writes on the lines.
    pub(super) rmws: u64,
    /// Written lines that the other worker touches.
    pub(super) shared_lines: u64,
    /// Shared lines that the other worker only reads.
    pub(super) shared_lines_only_read: u64,
    /// Read-modify-writes on the shared lines.
    pub(super) shared_rmws: u64,
}

/// The writes of a kind of transaction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Account {
    pub(super) kind: &'static str,
    pub(super) does: Does,
    pub(super) transactions: u64,
    /// Sum over all names; a line written under two names counts once.
    pub(super) all: Part,
    pub(super) by_name: BTreeMap<&'static str, Part>,
    /// Padded lines whose neighbouring line the other worker touches: false sharing by pairs.
    pub(super) padding_missed: u64,
}

/// One workload on one choice of keys.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    pub(super) workload: Workload,
    pub(super) setup: Setup,
    pub(super) keys: Keys,
    pub(super) accounts: Vec<Account>,
}

impl Case {
    pub(super) fn new(
        (workload, setup, keys): (Workload, Setup, Keys),
        kinds: Vec<Kind>,
        observed: &Observed,
    ) -> Self {
        let accounts = kinds
            .into_iter()
            .zip(&observed.written)
            .map(|(kind, transactions)| Account::new(kind, transactions, observed))
            .collect();
        Self { workload, setup, keys, accounts }
    }
}

impl Account {
    fn new(kind: Kind, transactions: &[(usize, Vec<Touched>)], observed: &Observed) -> Self {
        let mut account = Self {
            kind: kind.name,
            does: kind.does,
            transactions: transactions.len() as u64,
            all: Part::default(),
            by_name: BTreeMap::new(),
            padding_missed: 0,
        };
        for (epoch, written) in transactions {
            account.add(written, |line| observed.other(*epoch, line));
        }
        account
    }

    /// Adds one transaction's writes.
    fn add(&mut self, written: &[Touched], other: impl Fn(usize) -> Option<Use>) {
        let mut lines: BTreeSet<(&'static str, usize)> = BTreeSet::new();
        let mut anyhow: BTreeSet<usize> = BTreeSet::new();
        for one in written {
            let name = name_of(one.place);
            let part = self.by_name.entry(name).or_default();
            if lines.insert((name, one.line)) {
                part.add_line(other(one.line));
            }
            part.add_rmws(one, other(one.line));
            if anyhow.insert(one.line) {
                self.all.add_line(other(one.line));
            }
            self.all.add_rmws(one, other(one.line));
        }
        let buddies = lines.iter().filter(|(name, _)| PADDED.contains(name)).map(|(_, line)| line ^ 1);
        self.padding_missed += buddies.filter(|&line| other(line).is_some()).count() as u64;
    }

    /// True if every shared name is permitted for the account's kind, independent of the keys.
    pub(super) fn shares_what_it_may(&self) -> bool {
        let may: &[&str] = match self.does {
            Does::Reads => &[],
            Does::ReadsOwned => &[OWNERS],
            // A lone waiter takes the logger's step, and makes the writes of the logger's thread: no record, no node,
            // no pin.
            Does::Waits => &[WAITERS, WAKE_UP, LOGGER, FOLDERS, GLOBAL_EPOCH, LOG_SLOT, LOG_BUFFER, REGISTRY],
            Does::Writes => return true,
        };
        self.shared_names().all(|(name, _)| may.contains(&name))
    }

    /// Mean of a sum per transaction.
    pub(super) fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.transactions.max(1) as f64
    }

    /// The names of lines that the other worker touches.
    pub(super) fn shared_names(&self) -> impl Iterator<Item = (&'static str, Part)> + '_ {
        self.by_name.iter().filter(|(_, part)| part.shared_lines > 0).map(|(name, part)| (*name, *part))
    }
}

impl Part {
    fn add_line(&mut self, other: Option<Use>) {
        self.lines += 1;
        if let Some(other) = other {
            self.shared_lines += 1;
            self.shared_lines_only_read += u64::from(!other.written);
        }
    }

    fn add_rmws(&mut self, one: &Touched, other: Option<Use>) {
        if one.touch != Touch::ReadModifyWrite {
            return;
        }
        self.rmws += one.count;
        if other.is_some() {
            self.shared_rmws += one.count;
        }
    }
}
