//! The result: one JSON document, one CSV, one table for people (in Markdown, as `docs/results` shows it).
//!
//! Neighbours: [`super::account`] has the figures.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::account::{Account, BINDING, Case, PIN};
use super::counting::Workload;
use crate::failure::{Failure, Result};
use crate::machine::Machine;

/// Everything that one run counted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Document {
    machine: Machine,
    rounds: usize,
    cases: Vec<Case>,
}

impl Document {
    pub(super) fn new(machine: Machine, rounds: usize, cases: Vec<Case>) -> Self {
        Self { machine, rounds, cases }
    }

    /// Whether what a snapshot or a transaction that only reads wrote was nobody else's, whatever the keys.
    pub(super) fn readers_write_nothing_shared(&self) -> bool {
        let mut accounts = self.cases.iter().flat_map(|case| &case.accounts);
        accounts.all(|account| !account.reads || account.all.shared_lines == 0)
    }

    /// The one JSON document.
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain numbers and strings serialize")
    }

    /// Sums over all transactions, a line for each name.
    fn csv(&self) -> String {
        let mut text = "workload,logged,keys,kind,transactions,name,lines,rmws,shared_lines,shared_lines_only_read,shared_rmws\n"
            .to_owned();
        for case in &self.cases {
            for account in &case.accounts {
                let all = std::iter::once(("all", account.all));
                for (name, part) in all.chain(account.by_name.iter().map(|(name, part)| (*name, *part))) {
                    let _ = writeln!(
                        text,
                        "{:?},{},{:?},\"{}\",{},{name},{},{},{},{},{}",
                        case.workload,
                        case.logged,
                        case.keys,
                        account.kind,
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

    /// Writes `shared-writes.json`, `.csv` and `.md` into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(Failure::io(format!("writing {}", path.display())))
        };
        std::fs::create_dir_all(folder).map_err(Failure::io(format!("making {}", folder.display())))?;
        file("shared-writes.json", self.json())?;
        file("shared-writes.csv", self.csv())?;
        file("shared-writes.md", self.table())
    }

    /// The table for people: a row for each kind, figures for one transaction.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for workload in [Workload::SingleKeys, Workload::Tpcc] {
            for logged in [false, true] {
                let cases =
                    self.cases.iter().filter(|case| case.workload == workload && case.logged == logged);
                let cases: Vec<&Case> = cases.collect();
                let Some(first) = cases.first() else { continue };
                let _ = writeln!(text, "{workload:?}, {}:\n", if logged { "with its log" } else { "no log" });
                text.push_str("| kind | lines written | of them pin, binding |");
                for case in &cases {
                    let _ = write!(text, " shared, keys {:?} |", case.keys);
                }
                text.push_str(" names of the shared lines |\n|---|---|---|");
                text.push_str(&"---|".repeat(cases.len() + 1));
                text.push('\n');
                for at in 0..first.accounts.len() {
                    let accounts: Vec<&Account> = cases.iter().map(|case| &case.accounts[at]).collect();
                    text.push_str(&row(&accounts));
                }
                text.push('\n');
            }
        }
        text
    }
}

/// One kind's row; the first account is that of keys apart.
fn row(accounts: &[&Account]) -> String {
    let Some(apart) = accounts.first() else { return String::new() };
    let lines = |name| apart.by_name.get(name).map_or(0.0, |part| apart.each(part.lines));
    let mut text = format!(
        "| {} | {:.1} | {:.0}, {:.0} |",
        apart.kind,
        apart.each(apart.all.lines),
        lines(PIN),
        lines(BINDING)
    );
    for account in accounts {
        let (lines, rmws) = (account.each(account.all.shared_lines), account.each(account.all.shared_rmws));
        let _ = if account.all.shared_lines == 0 {
            write!(text, " 0 |")
        } else {
            write!(text, " {lines:.2}, {rmws:.2} RMW |")
        };
    }
    let mut names: Vec<String> = Vec::new();
    for (account, keys) in accounts.iter().zip(["apart", "neighbouring", "same"]) {
        let mut shared: Vec<_> = account.shared_names().collect();
        shared.sort_by_key(|(_, part)| std::cmp::Reverse(part.shared_lines));
        if !shared.is_empty() {
            let list: Vec<String> = shared
                .iter()
                .map(|(name, part)| format!("{name} {:.2}", account.each(part.shared_lines)))
                .collect();
            names.push(format!("{keys}: {}", list.join(", ")));
        }
    }
    let _ = writeln!(text, " {} |", names.join("; "));
    text
}
