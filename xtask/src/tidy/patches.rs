//! Planted bugs that are patches (`planted/`): each says what it breaks and who sees it, and still applies.
//!
//! A patch applies if the lines that a hunk takes away or leaves stand in its file one behind the other. Where they
//! stand may have moved, as `patch` finds them again.
//!
//! Neighbours: [`super`] runs this; `ci/planted.sh` plants them.

use std::path::Path;
use std::{fs, io};

use super::{Facts, Report};

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
