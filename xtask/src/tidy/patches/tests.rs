//! A patch that no longer applies, or says nothing, is found, and so is one that documents name wrongly or not at all.

use super::{check, check_names};
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

#[test]
fn names_in_protocols_and_patches_are_the_same() {
    let document = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let found = |text: &str, planted: &[&str]| {
        let documents = [document("docs/protocols/a.md", text), document("docs/results/a.md", "`L1-gone`")];
        let planted: Vec<_> =
            planted.iter().map(|name| document(&format!("planted/{name}.patch"), "")).collect();
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
