//! What transactions may write that another worker touches: a fixed list, and nothing for those that only read.

use super::account::{
    Account, BINDING, COUNTERS, Case, GLOBAL_TID, LOG_SLOT, LOGGER, NAMES, OWNERS, PIN, SIDE_INDEX, STD,
    WAITERS, WAKE_UP,
};
use super::alternation::Does;
use super::choices::{Keys, Setup, Workload};
use super::counting::count;

/// A leaf that is split, or goes, changes its parent, which everybody passes.
const NODE: &str = "node";
const NODE_VERSION: &str = "node's version";
/// A root that is split has a new one above it.
const ROOT: &str = "tree's root";
/// A worker whose buffer the logger took asks for another, at most once an epoch in these runs.
const LOG_QUEUE: &str = "logger's queue";
/// A worker whose blocks are used up asks for a span, or a batch of blocks.
const POOL: &str = "memory pool";

/// A leaf that a burial has emptied is a block of another worker's, perhaps.
const FREE_BLOCK: &str = "free block";

/// Each transaction that writes may bury rows that its worker has deleted before (U3): then it changes a leaf.
const WRITERS: &[&str] = &[NODE, NODE_VERSION, ROOT, SIDE_INDEX, FREE_BLOCK, LOG_QUEUE, POOL];

/// What workers on keys apart may both touch, by kind of transaction. A kind that is not here may touch nothing.
const DOCUMENTED: [(&str, &[&str]); 8] = [
    ("open and owned, 2 gets", &[OWNERS]),
    ("read-modify-write", WRITERS),
    ("put", WRITERS),
    ("insert", WRITERS),
    ("delete", WRITERS),
    ("new-order", WRITERS),
    ("payment", WRITERS),
    ("delivery", WRITERS),
];

/// Shared lines of a writing transaction on keys apart, on average: what is documented is rare.
const SHARED_LINES_MAX: f64 = 0.5;

/// The same of a transaction that deletes. Its clean-up takes earlier deleted rows out of their leaves at once (U3).
/// Each burial notes its TID in the table, and changes a leaf; a leaf that goes changes its neighbours.
const SHARED_LINES_OF_A_DELETE_MAX: f64 = 2.5;

/// Counts one case, in a folder of its own.
fn case(workload: Workload, setup: Setup, keys: Keys) -> Case {
    let folder = format!("ensile-counted-{}-{workload:?}-{setup:?}-{keys:?}", std::process::id());
    let data = std::env::temp_dir().join(folder);
    let case = count(workload, setup, keys, (&data, 60)).expect("nothing fails");
    if setup == Setup::Logged {
        std::fs::remove_dir_all(data).expect("the log was there");
    }
    case
}

fn cases(keys: Keys) -> Vec<Case> {
    let both = [Workload::SingleKeys, Workload::Tpcc];
    both.into_iter()
        .flat_map(|workload| [Setup::NoLog, Setup::Logged].map(|setup| case(workload, setup, keys)))
        .collect()
}

fn account<'c>(case: &'c Case, kind: &str) -> &'c Account {
    case.accounts.iter().find(|account| account.kind == kind).expect("a kind of this workload")
}

/// Holds of every case, whatever the keys.
fn readers_write_their_own_lines_only(case: &Case) {
    let readers: Vec<&Account> = case.accounts.iter().filter(|account| account.does == Does::Reads).collect();
    assert!(readers.len() >= 4);
    for account in readers {
        assert_eq!(account.all.shared_lines, 0, "{account:#?}");
        // Also of what is its own: its pin (a snapshot's scan holds the slot meanwhile), its figures, and nothing else.
        let foreign = account.by_name.keys().find(|name| ![PIN, COUNTERS, OWNERS].contains(*name));
        assert_eq!(foreign, None, "{account:#?}");
        assert!(account.each(account.all.lines) <= 3.0, "{account:#?}");
    }
}

/// Holds of every case: nobody else's path comes near what is padded, the neighbouring line included.
fn registries_and_figures_are_a_workers_own(case: &Case) {
    for account in &case.accounts {
        assert_eq!(account.padding_missed, 0, "{account:#?}");
        for name in [PIN, BINDING, COUNTERS, LOG_SLOT] {
            let shared = account.by_name.get(name).map_or(0, |part| part.shared_lines);
            assert_eq!(shared, 0, "{name}: {account:#?}");
        }
        assert!(account.by_name[PIN].lines > 0, "every transaction pins: {account:#?}");
        let binds = account.by_name.contains_key(BINDING);
        let commits_writes = account.does == Does::Writes && account.kind != "key-value modify";
        assert_eq!(binds, commits_writes, "commits of writes bind, and nothing else does: {account:#?}");
    }
}

#[test]
fn on_keys_apart_transactions_share_what_is_documented_and_no_more() {
    for case in cases(Keys::Apart) {
        readers_write_their_own_lines_only(&case);
        registries_and_figures_are_a_workers_own(&case);
        for account in &case.accounts {
            let documented =
                DOCUMENTED.iter().find(|(kind, _)| *kind == account.kind).map_or(&[][..], |(_, names)| names);
            for (name, part) in account.shared_names() {
                assert!(documented.contains(&name), "{name}, {part:?}: {account:#?}");
            }
            let lines = account.each(account.all.shared_lines);
            let is_documented = match account.kind {
                "open and owned, 2 gets" => lines == 1.0,
                "delete" | "delivery" => lines <= SHARED_LINES_OF_A_DELETE_MAX,
                _ => lines <= SHARED_LINES_MAX,
            };
            assert!(is_documented, "{lines}: {account:#?}");
        }
    }
}

#[test]
fn on_the_same_keys_readers_still_write_nothing_shared_and_writers_are_seen_to() {
    for case in cases(Keys::Same) {
        readers_write_their_own_lines_only(&case);
        registries_and_figures_are_a_workers_own(&case);
        if case.workload == Workload::SingleKeys {
            // The counting itself: a lock on a record that both want is one read-modify-write on a shared line.
            let locks = if case.setup == Setup::Logged { "read-modify-write" } else { "key-value modify" };
            let modify = account(&case, locks);
            assert!(modify.each(modify.all.shared_lines) >= 0.9, "{modify:#?}");
            assert!(modify.each(modify.all.shared_rmws) >= 0.9, "{modify:#?}");
            assert!(modify.by_name["record"].shared_rmws > 0, "{modify:#?}");
        }
    }
}

#[test]
fn neighbouring_keys_share_lines_of_records_and_leaves() {
    let case = case(Workload::SingleKeys, Setup::NoLog, Keys::Neighbouring);
    readers_write_their_own_lines_only(&case);
    registries_and_figures_are_a_workers_own(&case);
    let insert = account(&case, "insert");
    assert!(insert.by_name[NODE].shared_lines > 0, "every leaf holds keys of both: {insert:#?}");
}

#[test]
fn every_place_that_has_a_name_is_in_the_tree() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (place, name) in NAMES.iter().filter(|(place, _)| *place != STD) {
        assert!(
            crates.join(place).exists(),
            "{name}: {place} has moved, so what it writes would have no name"
        );
    }
}

#[test]
fn a_strict_result_that_waits_alone_registers_and_writes_what_its_logger_would() {
    let case = case(Workload::Waits, Setup::Logged, Keys::Apart);
    for account in &case.accounts {
        // Each one has waited: it registered, and took the logger's step or woke the logger.
        let rmws = |name| account.by_name.get(name).copied().unwrap_or_default().shared_rmws;
        assert!(rmws(WAITERS) >= account.transactions, "{account:#?}");
        assert!(rmws(WAKE_UP) + rmws(LOGGER) >= account.transactions, "{account:#?}");
        assert!(account.shares_what_it_may(), "{account:#?}");
    }
    let alone = account(&case, "a receipt's wait alone");
    // Two of the waiters' list, seven of the logger's queue, and of a whole step of the logger two or three of the
    // epoch, one of the registry, one of the slot. How often the waiter takes that itself is the scheduler's matter.
    assert!(alone.each(alone.all.lines) <= 14.0, "{alone:#?}");
}

/// What Silo avoids (§4.2, §5.2), and that the counting would see it.
#[test]
fn a_global_tid_is_one_shared_line_of_every_commit_that_writes_and_of_nothing_else() {
    let with = case(Workload::SingleKeys, Setup::GlobalTid, Keys::Apart);
    for account in &with.accounts {
        let counter = account.by_name.get(GLOBAL_TID).copied().unwrap_or_default();
        let drawn = if account.by_name.contains_key(BINDING) { account.transactions } else { 0 };
        assert_eq!((counter.shared_lines, counter.shared_rmws), (drawn, drawn), "{account:#?}");
    }
    let put = account(&with, "put");
    assert!(put.by_name[GLOBAL_TID].shared_rmws > 0, "{put:#?}");
    readers_write_their_own_lines_only(&with);
    for account in case(Workload::SingleKeys, Setup::NoLog, Keys::Apart).accounts {
        assert!(!account.by_name.contains_key(GLOBAL_TID), "{account:#?}");
    }
}
