//! The results that are kept in `docs/results`: the document shows what the run of its CSV counted.

use std::collections::BTreeMap;

use super::super::account::{Account, Case, Part};
use super::super::alternation::Does;
use super::super::choices::{Keys, Setup, Workload};
use super::{HEADING, TITLE, tables};

const DOCUMENT: &str = include_str!("../../../../../docs/results/shared-writes.md");
const CSV: &str = include_str!("../../../../../docs/results/shared-writes/shared-writes.csv");

/// The one of `all` that was written as `name`.
fn named<T: std::fmt::Debug + Copy>(all: &[T], name: &str) -> T {
    *all.iter().find(|one| format!("{one:?}") == name).expect("a name that this build writes")
}

/// A name that lives as long as the test.
fn kept(name: &str) -> &'static str {
    String::leak(name.to_owned())
}

/// A line of the CSV: its case, its kind, and the sums of one name.
fn read(line: &str) -> ((Workload, Setup, Keys), Account, (&'static str, Part)) {
    let (case, rest) = line.split_once(",\"").expect("a kind in quotes");
    let (kind, rest) = rest.split_once("\",").expect("a kind in quotes");
    let [workload, setup, keys] = case.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let [does, transactions, name, ref sums @ ..] = rest.split(',').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let sums: Vec<u64> = sums.iter().map(|sum| sum.parse().expect("a sum")).collect();
    let [lines, rmws, shared_lines, shared_lines_only_read, shared_rmws] = sums[..] else { panic!("{line}") };
    let case = (
        named(&[Workload::SingleKeys, Workload::Tpcc, Workload::Waits], workload),
        named(&[Setup::NoLog, Setup::Logged, Setup::GlobalTid], setup),
        named(&[Keys::Apart, Keys::Neighbouring, Keys::Same], keys),
    );
    let part = Part { lines, rmws, shared_lines, shared_lines_only_read, shared_rmws };
    let account = Account {
        kind: kept(kind),
        does: named(&[Does::Reads, Does::ReadsOwned, Does::Waits, Does::Writes], does),
        transactions: transactions.parse().expect("a number of transactions"),
        all: part,
        by_name: BTreeMap::new(),
        padding_missed: 0,
    };
    (case, account, (kept(name), part))
}

/// What the CSV of a run says of its cases.
fn cases(csv: &str) -> Vec<Case> {
    let mut lines = csv.lines().skip_while(|line| line.starts_with('#'));
    assert_eq!(lines.next(), Some(HEADING));
    let mut cases: Vec<Case> = Vec::new();
    for ((workload, setup, keys), account, (name, part)) in lines.map(read) {
        if !cases.last().is_some_and(|case| (case.workload, case.setup, case.keys) == (workload, setup, keys))
        {
            cases.push(Case { workload, setup, keys, accounts: Vec::new() });
        }
        let accounts = &mut cases.last_mut().expect("just put there").accounts;
        if name == "all" {
            accounts.push(account);
        } else {
            let account = accounts.last_mut().expect("the sum over all names comes first");
            account.by_name.insert(name, part);
        }
    }
    cases
}

#[test]
fn the_documents_tables_are_those_of_the_run_that_is_kept_beside_it() {
    let tables = tables(&cases(CSV));
    for table in tables.split("## ").skip(1) {
        assert!(
            DOCUMENT.contains(table.trim_end()),
            "docs/results/shared-writes.md has another table:\n## {table}"
        );
    }
    assert_eq!(tables.matches("\n## ").count() + 1, 5, "every case but the variant's was counted");
}

#[test]
fn the_run_that_is_kept_says_where_and_how_it_was_made_and_no_reader_shares() {
    let [title, origin] = CSV.lines().take(2).collect::<Vec<_>>()[..] else {
        panic!("two lines of comments")
    };
    assert_eq!(title, format!("# {TITLE}"));
    assert!(
        origin.contains(", ensile ") && origin.contains("; ensile-papers silo shared-writes"),
        "{origin}"
    );
    for account in cases(CSV).iter().flat_map(|case| &case.accounts) {
        assert!(account.shares_what_it_may(), "{account:#?}");
    }
}
