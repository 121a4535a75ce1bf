//! Which items, functions and files belong to tests.

use super::Source;

#[test]
fn test_items_are_found_and_others_are_not() {
    let text =
        "#[cfg(test)]\nmod t {\n}\n#[cfg(not(test))]\nfn a() {\n}\n#[test]\n#[ignore = \"x\"]\nfn b() {\n}\n";
    let source = Source::new("crates/a/src/b.rs", text);
    let tests: Vec<usize> = (1..=10).filter(|&line| source.in_test(line)).collect();
    assert_eq!(tests, [1, 2, 3, 7, 8, 9, 10]);
    assert_eq!(source.lines_without_tests(), 3);
}

#[test]
fn a_test_field_ends_at_its_comma() {
    let text = "struct A {\n#[cfg(test)]\nseen: Vec<u8>,\nkept: u8,\n}\n";
    let source = Source::new("crates/a/src/b.rs", text);
    assert!(source.in_test(3) && !source.in_test(4) && !source.in_test(5));
}

#[test]
fn test_files_are_known_by_place_and_by_declaration() {
    assert!(Source::new("crates/a/tests/b.rs", "").is_test);
    assert!(Source::new("crates/a/src/b/tests.rs", "").is_test);
    assert!(Source::new("crates/a/src/b.rs", "#![cfg(all(test, loom))]\n").is_test);
    let source = Source::new("crates/a/src/b.rs", "#[cfg(test)]\nmod model;\nmod real;\n");
    let modules: Vec<String> = source.test_modules().into_iter().collect();
    assert_eq!(modules, ["crates/a/src/b/model.rs", "crates/a/src/b/model/"]);
}

#[test]
fn functions_have_bodies_and_lengths() {
    let text =
        "trait T { fn none(&self) -> [u8; 2]; }\nfn some(f: fn(u8)) -> [u8; 2]\n{\n let a = || 1;\n}\n";
    let functions = Source::new("crates/a/src/b.rs", text).functions();
    let found: Vec<_> = functions.iter().map(|f| (f.name, f.line, f.last_line)).collect();
    assert_eq!(found, [("some", 2, 5)]);
}

#[test]
fn use_trees_are_flattened() {
    let text =
        "use std::{fs, sync::{self, atomic::{AtomicU8, Ordering as O}}};\nlet x = std::fs::read(a.b);\n";
    let paths: Vec<String> = Source::new("crates/a/src/b.rs", text)
        .paths()
        .iter()
        .map(|path| format!("{}{}", path.segments.join("::"), if path.renamed { " renamed" } else { "" }))
        .collect();
    assert_eq!(
        paths[..4],
        ["std::fs", "std::sync::self", "std::sync::atomic::AtomicU8", "std::sync::atomic::Ordering renamed"]
    );
    assert!(paths.contains(&"std::fs::read".to_owned()));
}

#[test]
fn a_visibility_is_no_path() {
    let text = "pub(super) struct A(pub(crate) B, pub (super::C, D));\npub(in crate::e) fn f() {}\n";
    let source = Source::new("crates/a/src/b.rs", text);
    let paths: Vec<String> = source.paths().iter().map(|path| path.segments.join("::")).collect();
    assert_eq!(paths, ["struct", "A", "B", "pub", "super::C", "D", "fn", "f"]);
}
