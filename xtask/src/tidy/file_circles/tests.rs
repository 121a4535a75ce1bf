//! Circles of files that the rule finds, and small circles and re-exports that the rule leaves alone.
//!
//! Neighbours: `tidy/tests.rs` has the samples of the rules that read one file.

use super::{Finding, check};
use crate::source::Source;

fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
    let paths: Vec<String> = files.iter().map(|(name, _)| format!("crates/a/src/{name}")).collect();
    let sources: Vec<Source<'_>> =
        paths.iter().zip(files).map(|(path, (_, text))| Source::new(path, text)).collect();
    check(&sources).into_iter().map(|Finding { path, line, .. }| (path, line)).collect()
}

#[test]
fn a_circle_of_four_files_is_found_at_each_use_also_through_a_re_export() {
    let files = [
        ("lib.rs", "mod room;\n"),
        ("room.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\nstruct Own(A);\n"),
        ("room/a.rs", "use super::b::B;\nstruct A(B);\n"),
        ("room/b.rs", "\nuse super::c::C;\nstruct B(C);\n"),
        ("room/c.rs", "\n\nuse super::{A, Own};\nstruct C(A, Own);\n"),
    ];
    let wanted = [("room.rs", 4), ("room/a.rs", 1), ("room/b.rs", 2), ("room/c.rs", 3), ("room/c.rs", 3)];
    let wanted: Vec<_> = wanted.map(|(name, line)| (format!("crates/a/src/{name}"), line)).into();
    assert_eq!(found(&files), wanted);
}

#[test]
fn three_files_may_form_a_circle_and_a_re_export_is_no_use_of_the_root() {
    let files = [
        ("lib.rs", "mod room;\n"),
        (
            "room.rs",
            "mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;\nstruct Own;\nfn top() { d::D::new(); }\n",
        ),
        ("room/a.rs", "use super::b::B;\nstruct A(B);\n"),
        ("room/b.rs", "use super::c::C;\nstruct B(C);\n"),
        ("room/c.rs", "use crate::room::A;\nstruct C(A);\n"),
        ("room/d.rs", "use super::A;\nstruct D(A);\n"),
    ];
    assert_eq!(found(&files), []);
}

#[test]
fn a_root_may_use_many_files_whose_items_are_visible_to_the_root_only() {
    let item = "pub(super) struct A;\npub(in crate::room) fn f() {}\n";
    let files = [
        ("lib.rs", "mod room;\n"),
        ("room.rs", "mod a;\nmod b;\nmod c;\nfn top() { a::f(); b::f(); c::f(); }\n"),
        ("room/a.rs", item),
        ("room/b.rs", item),
        ("room/c.rs", item),
    ];
    assert_eq!(found(&files), []);
}
