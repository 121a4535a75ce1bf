//! A recorded change is found again by the catalogue, with as many lines around it as make it unique.
//!
//! Neighbours: [`super::record`].

use std::path::PathBuf;

use super::record;
use crate::planted::catalogue::read;
use crate::planted::{Tree, texts};

const SOURCE: &str =
    "fn one() {\n    // Why.\n    a();\n    b();\n}\n\nfn two() {\n    a();\n    c();\n    a();\n}\n";

/// A tree with one source, removed at its end.
struct Sample(PathBuf);

impl Sample {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("ensile-record-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("crates/ensile-a/src")).expect("a folder");
        std::fs::write(root.join("crates/ensile-a/src/b.rs"), SOURCE).expect("a file");
        Self(root)
    }

    /// Records a diff with these hunks, and gives text and replacement of each edit of the bug.
    fn record(&self, hunks: &str) -> std::io::Result<Vec<[String; 3]>> {
        let diff = self.0.join("L1-bug.diff");
        let head = "Condition: L1\nCommand: cargo test\nSign: it's lost\n\ndiff --git a/x b/x\n--- a/crates/ensile-a/src/b.rs\n+++ b/crates/ensile-a/src/b.rs\n";
        std::fs::write(&diff, format!("{head}{hunks}"))?;
        record(&self.0, "log", &diff)?;
        let (bugs, unreadable) = read(&self.0)?;
        assert!(unreadable.is_empty(), "{}", unreadable[0].advice);
        let texts = texts(&self.0)?;
        let [bug] = &bugs[..] else { panic!("one bug") };
        assert_eq!((bug.condition.as_str(), bug.sign.as_str()), ("L1", "it's lost"));
        Tree::new(&texts).place(bug).expect("stands once");
        Ok(bug
            .edits
            .iter()
            .map(|edit| {
                [&edit.function, &edit.text, &edit.replacement].map(|text| text.trim_end().to_owned())
            })
            .collect())
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it was there");
    }
}

#[test]
fn a_change_of_one_place_becomes_a_row_without_lines_around_it() {
    let edits = Sample::new("row")
        .record("@@ -2,3 +2,3 @@\n     // Why.\n     a();\n-    b();\n+    d();\n")
        .expect("records");
    assert_eq!(edits, [["one", "b();", "d();"].map(str::to_owned)]);
}

#[test]
fn a_text_that_stands_twice_gets_lines_around_it() {
    let edits = Sample::new("twice")
        .record("@@ -8,3 +8,3 @@\n     a();\n     c();\n-    a();\n+    d();\n")
        .expect("records");
    assert_eq!(edits, [["two", "c();\na();", "c();\nd();"].map(str::to_owned)]);
}

#[test]
fn an_added_line_stands_beside_one_that_is_there() {
    let edits =
        Sample::new("added").record("@@ -3,2 +3,3 @@\n     a();\n+    d();\n     b();\n").expect("records");
    assert_eq!(edits, [["one", "a();", "a();\nd();"].map(str::to_owned)]);
}

#[test]
fn changes_of_two_functions_become_a_patch() {
    let hunks =
        "@@ -4,5 +4,5 @@\n-    b();\n+    d();\n }\n \n fn two() {\n-    a();\n+    d();\n     c();\n";
    let edits = Sample::new("patch").record(hunks).expect("records");
    assert_eq!(edits.iter().map(|edit| edit[0].as_str()).collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn a_diff_of_another_tree_is_refused() {
    let refused = Sample::new("other").record("@@ -2,1 +2,1 @@\n-    x();\n+    d();\n");
    assert!(refused.expect_err("does not apply").to_string().contains("does not apply"));
}
