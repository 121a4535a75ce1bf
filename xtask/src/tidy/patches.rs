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
mod tests {
    use super::check;
    use crate::tidy::{Facts, Report};

    const HEAD: &str = "Condition: L1, the claim\nSeen by: cargo test\nExpect: a lost row\n\n";
    const DIFF: &str =
        "diff --git a/xtask/src/a.rs b/xtask/src/a.rs\n--- a/xtask/src/a.rs\n+++ b/xtask/src/a.rs\n";

    fn found(patch: &str) -> Vec<String> {
        // Tests run side by side in one process.
        let thread = std::thread::current().id();
        let root = std::env::temp_dir().join(format!("ensile-tidy-{}-{thread:?}", std::process::id()));
        std::fs::create_dir_all(root.join("xtask/src")).expect("a folder");
        std::fs::write(root.join("xtask/src/a.rs"), "one\ntwo\n\nthree\n").expect("a file");
        let facts = Facts { invariants: Some(["L1".to_owned()].into()) };
        let mut findings = Vec::new();
        let mut report = Report { rule: "patches", path: "planted/a.patch", findings: &mut findings };
        check(patch, &root, &facts, &mut report).expect("reads");
        std::fs::remove_dir_all(&root).expect("it was there");
        findings.into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn a_patch_that_applies_and_says_what_it_breaks_is_left_alone() {
        assert_eq!(found(&format!("{HEAD}{DIFF}@@ -1,3 +1,3 @@\n one\n-two\n+2\n \n")), Vec::<String>::new());
        assert_eq!(
            found(&format!("{HEAD}{DIFF}@@ -9,1 +9,1 @@\n-three\n+3\n")),
            Vec::<String>::new(),
            "moved"
        );
    }

    #[test]
    fn a_patch_that_no_longer_applies_or_says_nothing_is_found() {
        let hunk = "@@ -1,2 +1,1 @@\n one\n-three\n";
        assert!(found(&format!("{HEAD}{DIFF}{hunk}"))[0].contains("no longer applies"));
        assert!(found(&format!("{HEAD}{}{hunk}", DIFF.replace("a.rs", "b.rs")))[0].contains("is not there"));
        assert!(found(HEAD)[0].contains("changes nothing"));
        let good = "@@ -1,1 +1,1 @@\n-one\n+1\n";
        assert_eq!(found(&format!("{DIFF}{good}")).len(), 3, "three fields");
        let unknown = HEAD.replace("L1", "Z9");
        assert!(found(&format!("{unknown}{DIFF}{good}"))[0].contains("no condition"));
    }
}
