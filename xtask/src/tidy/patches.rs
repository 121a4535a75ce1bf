//! Planted bugs that are patches (`planted/`): each says what it breaks and who sees it, and still applies. Documents
//! name those that are there: a condition that is defined with a list of patches has all of its own in it.
//!
//! A patch applies if the lines that a hunk takes away or leaves stand in its file one behind the other. Where they
//! stand may have moved, as `patch` finds them again.
//!
//! Neighbours: [`super`] runs this; `ci/planted.sh` plants them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use super::documents::definitions;
use super::{Facts, Finding, Report};

/// What the head must say, a line each.
const FIELDS: [&str; 3] = ["Condition", "Seen by", "Expect"];

/// Lines that a hunk expects to find.
struct Hunk<'p> {
    /// Of the patch.
    line: usize,
    path: &'p str,
    before: Vec<&'p str>,
}

/// Looks at one patch of the tree under `root`.
pub(super) fn check(text: &str, root: &Path, facts: &Facts, report: &mut Report<'_>) -> io::Result<()> {
    check_head(text, facts, report);
    let hunks = hunks(text);
    if hunks.is_empty() {
        report.add(1, "it changes nothing: make it with `git diff`");
    }
    for Hunk { line, path, before } in hunks {
        match fs::read_to_string(root.join(path)) {
            Ok(file) if stands_in(&before, &file) => {}
            Ok(_) => report.add(line, format!("it no longer applies to {path}: make it again, or remove it")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                report.add(line, format!("{path} is not there: make the patch again, or remove it"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Compares the names in `docs/protocols/` with the patches that are there, both ways.
pub(super) fn check_names(
    documents: &[(String, String)],
    planted: &[(String, String)],
    findings: &mut Vec<Finding>,
) {
    let file_name =
        |path: &'_ str| path.rsplit('/').next().unwrap_or(path).trim_end_matches(".patch").to_owned();
    let planted: BTreeSet<String> = planted.iter().map(|(path, _)| file_name(path)).collect();
    let (mut named, mut listed) = (BTreeSet::new(), BTreeMap::new());
    for (path, text) in documents.iter().filter(|(path, _)| path.starts_with("docs/protocols/")) {
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
    for name in planted.iter().filter(|name| !named.contains(name.as_str())) {
        if let Some((path, line)) = condition_of(name).and_then(|condition| listed.get(condition)) {
            let advice = format!("`{name}` is in planted/ and not named here: say who sees it");
            findings.push(Finding { path: (*path).clone(), line: *line, rule: "patches", advice });
        }
    }
}

/// The condition in a patch's name: a capital letter and digits, and behind a hyphen words in small letters.
fn condition_of(name: &str) -> Option<&str> {
    let (condition, words) = name.split_once('-')?;
    let digits = condition.strip_prefix(|letter: char| letter.is_ascii_uppercase())?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (is_number && !words.is_empty() && words.bytes().all(is_word)).then_some(condition)
}

fn check_head(text: &str, facts: &Facts, report: &mut Report<'_>) {
    let head = text.split("diff --git ").next().unwrap_or_default();
    for field in FIELDS {
        let value = head.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
        let Some(value) = value else {
            report.add(1, format!("its head, before `diff --git`, has no line `{field}: ..`"));
            continue;
        };
        let is_known = |name: &str| facts.invariants.as_ref().is_none_or(|known| known.contains(name));
        if field == "Condition" && !value.split([',', ' ']).next().is_some_and(is_known) {
            report.add(1, format!("`{value}` begins with no condition that docs/protocols/ defines"));
        }
    }
}

fn hunks(text: &str) -> Vec<Hunk<'_>> {
    let (mut hunks, mut path): (Vec<Hunk<'_>>, _) = (Vec::new(), "");
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("--- a/") {
            path = name;
        } else if line.starts_with("@@ ") {
            hunks.push(Hunk { line: at + 1, path, before: Vec::new() });
        } else if line.starts_with("diff --git ") {
            path = "";
        } else if let (Some(hunk), false) = (hunks.last_mut(), path.is_empty()) {
            if let Some(kept) = line.strip_prefix(' ').or_else(|| line.strip_prefix('-')) {
                hunk.before.push(kept);
            } else if line.is_empty() {
                hunk.before.push("");
            }
        }
    }
    hunks
}

fn stands_in(before: &[&str], file: &str) -> bool {
    let lines: Vec<&str> = file.lines().collect();
    !before.is_empty() && lines.windows(before.len()).any(|window| window == before)
}

#[cfg(test)]
mod tests;
