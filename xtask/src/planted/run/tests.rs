//! Verdicts on the output of a command, and the order in which bugs are planted.
//!
//! Neighbours: [`super::Ended`].

use super::Ended;

fn ended(status: i32, output: &str) -> Ended {
    Ended { status: Some(status), output: output.to_owned(), seconds: 0 }
}

#[test]
fn a_command_that_runs_no_test_has_not_passed() {
    assert!(ended(0, "test result: ok. 3 passed; 0 failed").has_passed());
    assert!(ended(0, "test result: ok. 0 passed;\ntest result: ok. 1 passed;").has_passed());
    assert!(!ended(0, "test result: ok. 0 passed; 0 failed; 9 filtered out").has_passed());
    assert!(!ended(101, "test result: ok. 3 passed; 0 failed").has_passed());
}

#[test]
fn a_build_that_fails_is_no_sighting() {
    assert!(ended(101, "test result: FAILED. 1 passed; 1 failed").has_failed_by_a_test());
    assert!(ended(101, "process didn't exit successfully (signal: 6, SIGABRT)").has_failed_by_a_test());
    assert!(!ended(101, "error[E0425]: cannot find value").has_failed_by_a_test());
}

#[test]
fn a_command_that_had_to_be_ended_is_endless() {
    assert!(ended(124, "").is_endless() && ended(137, "").is_endless() && !ended(101, "").is_endless());
}
