//! The layer rule: a crate depends only on lower floors (the table of `ARCHITECTURE.md`).
//!
//! Neighbours: [`super`] runs this beside the rules that read sources; cargo reads the manifests for us.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Finding, Report};

/// Where a package of the workspace stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Ships; the number is its floor.
    Floor(u8),
    /// Simulated disk, clock and schedules, for tests.
    Sim,
    /// Bodies of fuzz targets.
    Fuzz,
    /// Workloads and peers.
    Bench,
    /// House-keeping.
    Tool,
}

/// Every package of the workspace. Two on one floor do not know each other.
const PLACES: &[(&str, Place)] = &[
    ("ensile-base", Place::Floor(0)),
    ("ensile-memory", Place::Floor(1)),
    ("ensile-epoch", Place::Floor(1)),
    ("ensile-disk", Place::Floor(1)),
    ("ensile-index", Place::Floor(2)),
    ("ensile-durability", Place::Floor(2)),
    ("ensile-engine", Place::Floor(3)),
    ("ensile", Place::Floor(4)),
    ("ensile-cli", Place::Floor(5)),
    ("ensile-sim", Place::Sim),
    ("ensile-fuzz", Place::Fuzz),
    ("ensile-bench", Place::Bench),
    ("xtask", Place::Tool),
];

/// From this floor upwards tests may run on the simulator.
const SIMULATED_FLOOR_MIN: u8 = 2;
/// The simulator stands on these floors.
const SIM_STANDS_ON_MAX: u8 = 1;
/// Fuzz targets stand on these floors, and on the simulator.
const FUZZ_STANDS_ON_MAX: u8 = 3;
/// The bench stands on these floors.
const BENCH_STANDS_ON_MAX: u8 = 4;

/// Stores and maps that Ensile is measured against: linked by the bench only.
const PEERS: &[&str] = &[
    "congee",
    "crossbeam-skiplist",
    "dashmap",
    "evmap",
    "fjall",
    "flurry",
    "heed",
    "jammdb",
    "libmdbx",
    "lmdb",
    "lmdb-rkv",
    "lsm-tree",
    "masstree",
    "native_db",
    "papaya",
    "persy",
    "redb",
    "rocksdb",
    "rusqlite",
    "scc",
    "sled",
    "surrealkv",
];

/// Asks cargo for the manifests under `root` and checks each dependency.
pub(super) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let root = text(&metadata, "workspace_root");
    Ok(check_metadata(&metadata, |manifest| {
        let name = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/').to_owned();
        (name, std::fs::read_to_string(manifest).unwrap_or_default())
    }))
}

/// Checks what `cargo metadata` says; `open` gives a manifest's short name and text.
fn check_metadata(metadata: &Value, open: impl Fn(&str) -> (String, String)) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in list(metadata, "packages") {
        let from = text(package, "name");
        let (path, manifest) = open(text(package, "manifest_path"));
        let mut report = Report { rule: "floors", path: &path, findings: &mut findings };
        if place(from).is_none() {
            report.add(1, format!("give `{from}` a place in xtask's table of floors"));
            continue;
        }
        for dependency in list(package, "dependencies") {
            let to = text(dependency, "name");
            if let Err(advice) = judge(from, to, text(dependency, "kind") == "dev") {
                let name = dependency["rename"].as_str().unwrap_or(to);
                let line = manifest.lines().position(|line| line.starts_with(name)).map_or(1, |at| at + 1);
                report.add(line, advice);
            }
        }
    }
    findings
}

/// Whether package `from` may depend on `to`.
fn judge(from: &str, to: &str, is_dev: bool) -> Result<(), String> {
    if PEERS.contains(&to) && from != "ensile-bench" {
        return Err(format!("`{to}` is a peer: only ensile-bench links it"));
    }
    // A crate may depend on itself to switch on features for its tests.
    if from == to && is_dev {
        return Ok(());
    }
    let (Some(lower), Some(upper)) = (place(to), place(from)) else { return Ok(()) };
    let is_allowed = match (upper, lower) {
        (Place::Floor(upper), Place::Floor(lower)) => lower < upper,
        (Place::Floor(upper), Place::Sim) => is_dev && upper >= SIMULATED_FLOOR_MIN,
        (Place::Sim, Place::Floor(lower)) => lower <= SIM_STANDS_ON_MAX,
        (Place::Fuzz, Place::Floor(lower)) => lower <= FUZZ_STANDS_ON_MAX,
        (Place::Fuzz, Place::Sim) => true,
        (Place::Bench, Place::Floor(lower)) => lower <= BENCH_STANDS_ON_MAX,
        (Place::Bench, Place::Sim) => true,
        _ => false,
    };
    if is_allowed {
        return Ok(());
    }
    Err(match lower {
        Place::Sim => {
            format!("`{from}` may not stand on `{to}`: it serves tests of floor {SIMULATED_FLOOR_MIN} and up")
        }
        Place::Bench => format!("`{from}` may not stand on `{to}`: the bench is a binary of its own"),
        _ => format!("`{from}` may not stand on `{to}`: dependencies go to lower floors"),
    })
}

fn place(package: &str) -> Option<Place> {
    PLACES.iter().find(|(name, _)| *name == package).map(|(_, place)| *place)
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
}
