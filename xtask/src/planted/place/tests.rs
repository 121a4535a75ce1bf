//! A text is found by its tokens in its function, wherever that stands; the hash changes with the code and no more.
//!
//! Neighbours: [`super::Tree`].

use super::{Tree, apply};
use crate::planted::catalogue::{Bug, Edit};

const BUG: [&str; 3] = ["Log::seal", "a(); b();", "b(); a();"];

fn bug([function, text, replacement]: [&str; 3]) -> Bug {
    let edit = Edit {
        package: "ensile-a".to_owned(),
        function: function.to_owned(),
        text: text.to_owned(),
        replacement: replacement.to_owned(),
    };
    Bug {
        name: "L1-bug".to_owned(),
        file: "planted/log.toml".to_owned(),
        line: 1,
        condition: "L1".to_owned(),
        command: "cargo test".to_owned(),
        sign: "a lost row".to_owned(),
        edits: vec![edit],
    }
}

/// The changed text of the only file and the hash, or the advice.
fn planted(path: &str, text: &str, bug: &Bug) -> Result<(String, u64), String> {
    let texts = [(path.to_owned(), text.to_owned())];
    let placement = Tree::new(&texts).place(bug)?;
    Ok((apply(text, &mut placement.edits.iter().collect::<Vec<_>>())?, placement.hash))
}

#[test]
fn a_text_is_replaced_in_its_function_only() {
    let text = "impl Map { fn seal() { a(); b(); } }\nimpl Log { fn seal() { a(); b(); c(); } }";
    let (changed, _) = planted("crates/ensile-a/src/b.rs", text, &bug(BUG)).expect("stands once");
    assert_eq!(changed, "impl Map { fn seal() { a(); b(); } }\nimpl Log { fn seal() { b(); a(); c(); } }");
}

#[test]
fn another_file_a_moved_function_and_a_rewritten_comment_change_nothing() {
    let before = "impl Log { fn seal() { a(); b(); } }";
    let after =
        "fn new() {}\nimpl Log {\n    // Why.\n    fn seal() {\n        a(); // c\n        b();\n    }\n}\n";
    let (_, was) = planted("crates/ensile-a/src/b.rs", before, &bug(BUG)).expect("stands once");
    let (changed, is) = planted("crates/ensile-a/src/room/c.rs", after, &bug(BUG)).expect("stands once");
    assert!(changed.contains("b(); a();\n"), "{changed}");
    assert_eq!(was, is);
}

#[test]
fn the_hash_changes_with_the_function_the_bug_and_its_command() {
    let hash = |text: &str, bug: &Bug| planted("crates/ensile-a/src/b.rs", text, bug).expect("stands once").1;
    let text = "impl Log { fn seal() { a(); b(); } } fn other() { x(); }";
    let was = hash(text, &bug(BUG));
    assert_eq!(hash(&text.replace("x()", "y()"), &bug(BUG)), was, "another function");
    assert_ne!(hash(&text.replace("b();", "b(); c();"), &bug(BUG)), was);
    assert_ne!(hash(text, &bug([BUG[0], BUG[1], "b();"])), was);
    let other_command = Bug { command: "cargo test --lib".to_owned(), ..bug(BUG) };
    assert_ne!(hash(text, &other_command), was);
}

#[test]
fn a_text_that_is_gone_or_stands_twice_is_refused_with_advice() {
    let advice = |text: &str| planted("crates/ensile-a/src/b.rs", text, &bug(BUG)).expect_err("no place");
    assert!(advice("impl Log { fn seal() { a(); } }").contains("not in `Log::seal`"));
    assert!(advice("impl Log { fn seal() { a(); b(); a(); b(); } }").contains("more than once"));
    assert!(advice("impl Log { fn close() { a(); b(); } }").contains("has no `Log::seal`"));
    let elsewhere = planted("crates/ensile-z/src/b.rs", "impl Log { fn seal() { a(); b(); } }", &bug(BUG));
    assert!(elsewhere.expect_err("another crate").contains("no crate `ensile-a`"));
}

#[test]
fn of_two_functions_of_one_name_the_text_tells_which() {
    let text = "mod x { fn seal() { c(); } } mod y { fn seal() { a(); b(); } }";
    let (changed, _) =
        planted("crates/ensile-a/src/b.rs", text, &bug(["seal", BUG[1], BUG[2]])).expect("stands once");
    assert!(changed.ends_with("mod y { fn seal() { b(); a(); } }"), "{changed}");
}

#[test]
fn tests_are_no_place_for_a_bug() {
    let text = "impl Log { fn seal() { a(); b(); } }";
    assert!(planted("crates/ensile-a/src/b/tests.rs", text, &bug(BUG)).is_err());
    assert!(planted("crates/ensile-a/tests/b.rs", text, &bug(BUG)).is_err());
}

#[test]
fn edits_that_overlap_are_refused() {
    let mut twice = bug(BUG);
    twice.edits.extend(bug([BUG[0], "b();", ""]).edits);
    let text = "impl Log { fn seal() { a(); b(); } }";
    assert!(planted("crates/ensile-a/src/b.rs", text, &twice).expect_err("overlap").contains("overlap"));
}
