//! Rules of the catalogue of planted bugs (`planted/`). Each bug names a condition, and its text stands in the tree.
//! Documents name existing bugs only. A condition that is defined with a list of bugs lists all of its bugs.
//!
//! Neighbours: [`mod@crate::planted`] reads the catalogue and plants the bugs.

use std::collections::{BTreeMap, BTreeSet};

use super::documents::definitions;
use super::facts::Facts;
use super::finding::{Finding, Report};
use crate::planted::{Bug, Tree, Unreadable};

/// Limits on the number of bugs and of patches. A run of all bugs takes an hour.
const BUGS_MAX: usize = 230;
const PATCHES_MAX: usize = 120;

/// Files of the catalogue that cannot be read.
pub(super) fn check_unreadable(unreadable: &[Unreadable], findings: &mut Vec<Finding>) {
    for Unreadable { file, line, advice } in unreadable {
        Report { rule: "patches", path: file, findings }.add(*line, advice);
    }
}

/// Looks at each bug by itself, and at the size of the catalogue.
pub(super) fn check(bugs: &[Bug], tree: &Tree<'_>, facts: &Facts, findings: &mut Vec<Finding>) {
    let is_known = |name: &str| facts.invariants.as_ref().is_none_or(|known| known.contains(name));
    for bug in bugs {
        let mut report = Report { rule: "patches", path: &bug.file, findings: &mut *findings };
        let condition = bug.condition.split([',', ' ']).next().unwrap_or_default();
        if !is_known(condition) {
            let advice = format!(
                "`{condition}` of {} is no condition that docs/internals/protocols/ defines",
                bug.name
            );
            report.add(bug.line, advice);
        }
        if condition_of(&bug.name) != Some(condition) {
            report.add(bug.line, format!("the name of {} does not begin with `{condition}-`", bug.name));
        }
        if !bug.command.contains("cargo test") {
            report.add(bug.line, format!("the command of {} runs no test: it has no `cargo test`", bug.name));
        }
        if let Err(advice) = tree.place(bug) {
            report.add(bug.line, format!("{}: {advice}", bug.name));
        }
    }
    let patches = bugs.iter().filter(|bug| bug.file.ends_with(".patch")).count();
    for (count, most, kind) in [(bugs.len(), BUGS_MAX, "bugs"), (patches, PATCHES_MAX, "patches")] {
        if count > most {
            let advice = format!("{count} {kind}, of {most} at most: remove those that repeat another");
            findings.push(Finding { path: "planted".to_owned(), line: 1, rule: "patches", advice });
        }
    }
}

/// Compares the names in `docs/internals/protocols/` with the bugs of the catalogue, both ways.
pub(super) fn check_names(documents: &[(String, String)], bugs: &[Bug], findings: &mut Vec<Finding>) {
    let planted: BTreeSet<&str> = bugs.iter().map(|bug| bug.name.as_str()).collect();
    let (mut named, mut listed) = (BTreeSet::new(), BTreeMap::new());
    for (path, text) in documents.iter().filter(|(path, _)| path.starts_with("docs/internals/protocols/")) {
        let mut report = Report { rule: "patches", path, findings: &mut *findings };
        for (at, line) in text.lines().enumerate() {
            let names: Vec<&str> =
                line.split('`').skip(1).step_by(2).filter(|name| condition_of(name).is_some()).collect();
            for name in names.iter().filter(|name| !planted.contains(**name)) {
                report.add(at + 1, format!("`{name}` is not in planted/: write it, or leave the name out"));
            }
            if !names.is_empty() {
                listed.extend(definitions(line).into_iter().map(|condition| (condition, (path, at + 1))));
            }
            named.extend(names);
        }
    }
    for name in planted.iter().filter(|name| !named.contains(**name)) {
        if let Some((path, line)) = condition_of(name).and_then(|condition| listed.get(condition)) {
            let advice =
                format!("`{name}` is in planted/ and not named here: name it, and the test that sees it");
            findings.push(Finding { path: (*path).clone(), line: *line, rule: "patches", advice });
        }
    }
}

/// The condition in a bug's name: a capital letter and digits, and behind a hyphen words in small letters.
fn condition_of(name: &str) -> Option<&str> {
    let (condition, words) = name.split_once('-')?;
    let digits = condition.strip_prefix(|letter: char| letter.is_ascii_uppercase())?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (is_number && !words.is_empty() && words.bytes().all(is_word)).then_some(condition)
}

#[cfg(test)]
mod tests;
