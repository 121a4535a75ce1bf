//! A patch that no longer applies, or says nothing, is found.

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
    assert_eq!(found(&format!("{HEAD}{DIFF}@@ -9,1 +9,1 @@\n-three\n+3\n")), Vec::<String>::new(), "moved");
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
