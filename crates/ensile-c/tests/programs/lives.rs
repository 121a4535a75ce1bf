//! Programs in C and C++ whose objects come and go, whose changes fail, and whose replays differ.

use std::process::Command;

use crate::build::{compile, empty_folder, package, run};

/// Runs a program of these tests on an empty folder.
pub(crate) fn runs(source: &str) {
    let folder = empty_folder(source);
    let program = folder.join("program");
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wpedantic"];
    compile(&package().join("tests/programs").join(source), &program, options);
    let said = run(Command::new(&program).arg(folder.join("items")).env("ASAN_OPTIONS", "detect_leaks=1"));
    assert_eq!(said, "all as it must be");
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn o10_operations_from_before_a_removal_are_passed_over_in_cpp() {
    runs("removals.cpp");
}

#[test]
fn o10_operations_from_before_a_removal_are_passed_over_in_c() {
    runs("removals.c");
}

#[test]
fn o6_a_change_that_throws_behind_its_log_entry_is_made_by_the_next_open_in_cpp() {
    runs("changes.cpp");
}

#[test]
fn o6_a_change_that_fails_behind_its_log_entry_is_made_by_the_next_open_in_c() {
    runs("changes.c");
}
