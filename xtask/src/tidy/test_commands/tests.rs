//! Commands whose tests exist, and commands that run nothing.

use super::super::Report;
use super::TestNames;
use crate::source::Source;

/// Number of findings for one command.
fn found(command: &str) -> usize {
    let sources = [
        Source::new("crates/a/src/room/plan.rs", "#[cfg(test)]\nmod tests { fn l4_is_kept() {} }\n"),
        Source::new("crates/a/tests/lives/kills/hard.rs", "fn of_the_victim() {}\n"),
    ];
    let mut findings = Vec::new();
    TestNames::of(&sources).check(
        command,
        1,
        &mut Report { rule: "test", path: "ci/a.sh", findings: &mut findings },
    );
    findings.len()
}

#[test]
fn filters_of_modules_and_of_parts_of_names_are_found_in_their_target() {
    for command in [
        "cargo test -p a --lib room::plan",
        "cargo test --package a --lib plan::tests::l4_",
        "cargo test -p a is_kept -- --nocapture",
        "cargo test -p a --test lives kills::hard::of_the",
        "cargo test -p a --test lives",
        "cargo test -p a -p b nothing",
    ] {
        assert_eq!(found(command), 0, "{command}");
    }
}

#[test]
fn a_filter_that_no_test_has_is_a_finding() {
    for command in [
        "cargo test -p a --lib room::plans",
        "`cargo test -p a --test lives kills::soft`",
        "cargo test -p a --lib hard",
        "cargo test -p c --lib plan",
    ] {
        assert_eq!(found(command), 1, "{command}");
    }
}
