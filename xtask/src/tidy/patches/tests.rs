//! A planted bug without a place or a condition is found, and so is one that documents name wrongly or not at all.
//!
//! Neighbours: [`super::check`], [`super::check_names`].

use super::{BUGS_MAX, check, check_names};
use crate::planted::{Bug, Edit, Tree};
use crate::tidy::facts::Facts;
use crate::tidy::finding::Finding;

fn bug(name: &str, text: &str) -> Bug {
    let edit = Edit {
        package: "ensile-a".to_owned(),
        function: "seal".to_owned(),
        text: text.to_owned(),
        replacement: String::new(),
    };
    Bug {
        name: name.to_owned(),
        file: "planted/log.toml".to_owned(),
        line: 7,
        condition: "L1".to_owned(),
        command: "cargo test".to_owned(),
        sign: "a lost row".to_owned(),
        edits: vec![edit],
    }
}

fn found(bugs: &[Bug]) -> Vec<Finding> {
    let texts = [("crates/ensile-a/src/b.rs".to_owned(), "fn seal() { a(); }".to_owned())];
    let facts = Facts { invariants: Some(["L1".to_owned()].into()) };
    let mut findings = Vec::new();
    check(bugs, &Tree::new(&texts), &facts, &mut findings);
    findings
}

#[test]
fn a_bug_with_a_place_and_a_condition_is_left_alone() {
    assert_eq!(found(&[bug("L1-early", "a();")]), []);
}

#[test]
fn a_bug_without_a_place_a_condition_or_a_command_is_found_at_its_line() {
    let one = |bug: Bug| {
        let findings = found(&[bug]);
        assert_eq!((findings.len(), findings[0].line), (1, 7), "{findings:?}");
        findings[0].advice.clone()
    };
    assert!(one(bug("L1-early", "b();")).contains("not in `seal`"));
    assert!(one(bug("early", "a();")).contains("does not begin with `L1-`"));
    assert!(one(Bug { command: "true".to_owned(), ..bug("L1-early", "a();") }).contains("runs no test"));
    assert!(one(Bug { condition: "Z9".to_owned(), ..bug("Z9-early", "a();") }).contains("no condition"));
}

#[test]
fn a_catalogue_that_is_too_large_is_found() {
    let bugs: Vec<Bug> = (0..=BUGS_MAX).map(|at| bug(&format!("L1-a{at}"), "a();")).collect();
    let advice = &found(&bugs)[0].advice;
    assert!(advice.contains(&format!("{} bugs, of {BUGS_MAX} at most", BUGS_MAX + 1)), "{advice}");
}

#[test]
fn names_in_protocols_and_in_the_catalogue_are_the_same() {
    let document = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let found = |text: &str, planted: &[&str]| {
        let documents =
            [document("docs/internals/protocols/a.md", text), document("docs/results/a.md", "`L1-gone`")];
        let planted: Vec<Bug> = planted.iter().map(|name| bug(name, "")).collect();
        let mut findings = Vec::new();
        check_names(&documents, &planted, &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.advice)).collect::<Vec<_>>()
    };
    let listed = "Words.\n| **L1 Kept** | scene | `L1-lost`, `L1-late`: lives |\n| **L2** | `L3-other` |\n";
    let all = ["L1-late", "L1-lost", "L3-other", "L3-not-listed", "L4-other"];
    assert_eq!(found(listed, &all), [], "L3 and L4 are defined without a list");
    let missing = found(listed, &all[1..]);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].0 == 2 && missing[0].1.contains("`L1-late` is not in planted/"), "{missing:?}");
    let more = [&all[..], &["L1-new", "L2-new"]].concat();
    let unnamed = found(listed, &more);
    assert_eq!(unnamed.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
    assert!(unnamed[0].1.contains("`L1-new` is in planted/ and not named"), "{unnamed:?}");
    assert_eq!(
        found(&format!("{listed}As `L2-new` shows, and `L1-new`.\n"), &more),
        [],
        "anywhere in protocols"
    );
    assert_eq!(found("`X-axis`, `E-1`, `L1`, `L1-`, `l1-small`, `L1-Not`", &all), []);
}
