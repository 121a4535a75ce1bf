//! The catalogue of planted bugs, the script that runs it, and the results agree: no bug is left out by one of them.

use ensile_base::planted::{Bug, Run};

const SCRIPT: &str = include_str!("../../../ci/planted.sh");
const RESULTS: &str = include_str!("../../../docs/results/proof.md");

/// The bugs that the script hunts by themselves: all but the simulation's, which runs its part of the catalogue whole.
fn hunted() -> Vec<&'static str> {
    // seen "CFG" BUG TEST..
    let lines = SCRIPT.lines().filter(|line| line.starts_with("seen "));
    let bug = |line: &'static str| line.splitn(3, '"').nth(2)?.split_whitespace().next();
    lines.map(|line| bug(line).expect("a bug behind the flags")).collect()
}

#[test]
fn the_script_hunts_every_bug_and_no_other() {
    let hunted = hunted();
    let missing = Bug::ALL.iter().filter(|bug| bug.run() != Run::Simulation);
    let missing: Vec<_> = missing.filter(|bug| !hunted.contains(&format!("{bug:?}").as_str())).collect();
    assert!(missing.is_empty(), "ci/planted.sh does not run {missing:?}");
    let unknown: Vec<_> = hunted.iter().filter(|name| Bug::named(name).is_none()).collect();
    assert!(unknown.is_empty(), "ci/planted.sh runs what is no bug, which fails like one: {unknown:?}");
    assert!(
        SCRIPT.contains("\nsimulation planted::every_planted_bug_is_seen "),
        "the simulation's are not run"
    );
}

#[test]
fn every_bug_stands_in_the_results() {
    let words: Vec<_> = RESULTS.split(|sign: char| !sign.is_ascii_alphanumeric()).collect();
    let missing: Vec<_> =
        Bug::ALL.iter().filter(|bug| !words.contains(&format!("{bug:?}").as_str())).collect();
    assert!(missing.is_empty(), "docs/results/proof.md has nothing of {missing:?}");
}
