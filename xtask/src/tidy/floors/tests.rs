//! Who may stand on whom, and where a finding points.

use super::{check_metadata, judge};

#[test]
fn lower_floors_only() {
    assert!(judge("ensile-engine", "ensile-index", false).is_ok());
    assert!(judge("ensile-epoch", "ensile-engine", false).is_err());
    assert!(judge("ensile-epoch", "ensile-engine", true).is_err(), "tests are no excuse");
    assert!(judge("ensile-index", "ensile-durability", false).is_err());
    assert!(judge("ensile-durability", "ensile-index", true).is_err());
    assert!(judge("ensile-memory", "ensile-epoch", false).is_err());
    assert!(judge("ensile-engine", "ensile-engine", true).is_ok(), "to switch on features for its tests");
}

#[test]
fn the_simulator_serves_tests_and_the_bench() {
    assert!(judge("ensile-durability", "ensile-sim", true).is_ok());
    assert!(judge("ensile-durability", "ensile-sim", false).is_err());
    assert!(judge("ensile-epoch", "ensile-sim", true).is_err());
    assert!(judge("ensile-bench", "ensile-sim", false).is_ok());
    assert!(judge("ensile-sim", "ensile-disk", false).is_ok());
    assert!(judge("ensile-sim", "ensile-engine", false).is_err());
}

#[test]
fn nobody_stands_on_the_fuzz_targets() {
    assert!(judge("ensile-fuzz", "ensile-engine", false).is_ok());
    assert!(judge("ensile-fuzz", "ensile-sim", false).is_ok());
    assert!(judge("ensile-fuzz", "ensile-bench", false).is_err());
    assert!(judge("ensile-engine", "ensile-fuzz", true).is_err());
}

#[test]
fn the_bench_and_its_peers_stay_apart() {
    assert!(judge("ensile-cli", "ensile-bench", false).is_err());
    assert!(judge("ensile", "ensile-bench", true).is_err());
    assert!(judge("ensile-bench", "redb", false).is_ok());
    assert!(judge("ensile-papers", "redb", false).is_err());
    assert!(judge("ensile-papers", "ensile-bench", false).is_ok());
    assert!(judge("ensile-bench", "ensile-papers", false).is_err());
    assert!(judge("ensile-cli", "ensile-papers", false).is_err());
    assert!(judge("ensile-engine", "redb", true).is_err());
    assert!(judge("ensile-engine", "xtask", true).is_err());
    assert!(judge("ensile-engine", "crossbeam-utils", false).is_ok());
}

#[test]
fn findings_point_into_the_manifest() {
    let metadata = serde_json::json!({ "packages": [
            { "name": "ensile-index", "manifest_path": "/w/crates/ensile-index/Cargo.toml",
              "dependencies": [{ "name": "ensile-durability", "kind": null }, { "name": "ensile-base", "kind": null }] },
            { "name": "stranger", "manifest_path": "/w/crates/stranger/Cargo.toml", "dependencies": [] },
        ] });
    let text = "[dependencies]\nensile-base.workspace = true\nensile-durability.workspace = true\n";
    let findings = check_metadata(&metadata, |path| (path.to_owned(), text.to_owned()));
    let found: Vec<_> = findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
    assert_eq!(found, [("/w/crates/ensile-index/Cargo.toml", 3), ("/w/crates/stranger/Cargo.toml", 1)]);
}
