//! The result: a JSON document, a CSV, and tables for people (in Markdown, as in `docs/results`). Both files contain
//! the machine and the command of the run.
//!
//! Neighbours: [`super::account`] has the figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use ensile_bench::machine::{self, Machine};
use ensile_bench::{Failure, Result};
use serde::Serialize;

use super::account::{Account, Case};
use super::choices::{Keys, Setup};

const TITLE: &str = "Cache lines that a transaction writes, and which of them another worker touches";
/// Names of the columns of the CSV.
const HEADING: &str = "workload,setup,keys,kind,does,transactions,name,lines,rmws,shared_lines,shared_lines_only_read,shared_rmws";
/// Shared lines with fewer writes a transaction have a name in the CSV alone.
const NAMED_LINES: f64 = 0.2;

/// All counts of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Document {
    command: String,
    machine: Machine,
    rounds: usize,
    cases: Vec<Case>,
}

impl Document {
    pub(super) fn new(machine: Machine, rounds: usize, cases: Vec<Case>) -> Self {
        Self { command: machine::command(), machine, rounds, cases }
    }

    /// True if transactions without row writes shared only permitted lines, independent of the keys.
    pub(super) fn readers_share_what_they_may(&self) -> bool {
        self.cases.iter().flat_map(|case| &case.accounts).all(Account::shares_what_it_may)
    }

    /// The one JSON document.
    fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain numbers and strings serialize") + "\n"
    }

    /// Comment lines behind `#`, a heading, and sums over all transactions, a line for each name.
    fn csv(&self) -> String {
        let mut text = format!("# {TITLE}\n# {}; {}\n{HEADING}\n", self.machine.line(), self.command);
        for case in &self.cases {
            for account in &case.accounts {
                let all = std::iter::once(("all", account.all));
                for (name, part) in all.chain(account.by_name.iter().map(|(name, part)| (*name, *part))) {
                    let _ = writeln!(
                        text,
                        "{:?},{:?},{:?},\"{}\",{:?},{},{name},{},{},{},{},{}",
                        case.workload,
                        case.setup,
                        case.keys,
                        account.kind,
                        account.does,
                        account.transactions,
                        part.lines,
                        part.rmws,
                        part.shared_lines,
                        part.shared_lines_only_read,
                        part.shared_rmws,
                    );
                }
            }
        }
        text
    }

    /// Writes `shared-writes.json` and `.csv` into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(Failure::io(format!("writing {}", path.display())))
        };
        std::fs::create_dir_all(folder).map_err(Failure::io(format!("making {}", folder.display())))?;
        file("shared-writes.json", self.json())?;
        file("shared-writes.csv", self.csv())
    }

    /// The tables for people.
    pub(super) fn tables(&self) -> String {
        tables(&self.cases)
    }
}

/// A table for each workload and setup, a row for each kind that shares a line, figures per transaction. Kinds that
/// share nothing have one row for each number of written lines. The variant with global TIDs has no table: it adds the
/// counter's line to each commit.
fn tables(cases: &[Case]) -> String {
    let mut text = String::new();
    let shown: Vec<&Case> = cases.iter().filter(|case| case.setup != Setup::GlobalTid).collect();
    for cases in shown.chunk_by(|left, right| (left.workload, left.setup) == (right.workload, right.setup)) {
        let _ = writeln!(text, "## {}, {}\n", cases[0].workload.title(), cases[0].setup.title());
        text.push_str("| kind | lines written |");
        for case in cases {
            let _ = write!(text, " shared, RMW: {} |", case.keys.title());
        }
        text.push_str(" names |\n|---|---|");
        text.push_str(&"---|".repeat(cases.len() + 1));
        text.push('\n');
        let mut unshared: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for at in 0..cases[0].accounts.len() {
            let accounts: Vec<_> = cases.iter().map(|case| (&case.accounts[at], case.keys)).collect();
            let (apart, _) = accounts[0];
            if accounts.iter().all(|(account, _)| account.all.shared_lines == 0) {
                unshared.entry(lines_written(apart)).or_default().push(apart.kind);
            } else {
                text.push_str(&row(&accounts));
            }
        }
        for (lines, kinds) in unshared {
            let _ = writeln!(text, "| {} | {lines} |{}  |", kinds.join("; "), " 0 |".repeat(cases.len()));
        }
        text.push('\n');
    }
    text
}

/// The lines that a transaction of the account writes.
fn lines_written(account: &Account) -> String {
    format!("{:.1}", account.each(account.all.lines))
}

/// One kind's row; the first account is the account of keys apart.
fn row(accounts: &[(&Account, Keys)]) -> String {
    let Some((apart, _)) = accounts.first() else { return String::new() };
    let mut text = format!("| {} | {} |", apart.kind, lines_written(apart));
    for (account, _) in accounts {
        let (lines, rmws) = (account.each(account.all.shared_lines), account.each(account.all.shared_rmws));
        let _ = if account.all.shared_lines == 0 {
            write!(text, " 0 |")
        } else {
            write!(text, " {lines:.2}, {rmws:.2} |")
        };
    }
    let mut names: Vec<String> = Vec::new();
    for (account, keys) in accounts {
        let mut shared: Vec<_> = account.shared_names().collect();
        shared.retain(|(_, part)| account.each(part.shared_lines) >= NAMED_LINES);
        shared.sort_by_key(|(_, part)| std::cmp::Reverse(part.shared_lines));
        if !shared.is_empty() {
            let list: Vec<String> = shared
                .iter()
                .map(|(name, part)| format!("{name} {:.2}", account.each(part.shared_lines)))
                .collect();
            names.push(format!("{}: {}", keys.title(), list.join(", ")));
        }
    }
    let _ = writeln!(text, " {} |", names.join("; "));
    text
}

#[cfg(test)]
mod tests;
