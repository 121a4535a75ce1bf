//! The layer rule: a crate depends only on lower floors (the table of `ARCHITECTURE.md`).
//!
//! Neighbours: [`super`] runs this rule beside the rules that read sources; cargo reads the manifests.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::finding::{Finding, Report};

/// Place of a package of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Shipping crate; the number is the floor.
    Floor(u8),
    /// Simulated disk, clock and schedules, for tests.
    Sim,
    /// Bodies of fuzz targets.
    Fuzz,
    /// Workloads and peers.
    Bench,
    /// Experiments of papers, on the workloads.
    Papers,
    /// House-keeping.
    Tool,
}

/// Places of all packages of the workspace. A package does not know another package of the same floor.
const PLACES: &[(&str, Place)] = &[
    ("ensile-base", Place::Floor(0)),
    ("ensile-memory", Place::Floor(1)),
    ("ensile-epoch", Place::Floor(1)),
    ("ensile-disk", Place::Floor(1)),
    ("ensile-resp", Place::Floor(1)),
    ("ensile-net", Place::Floor(1)),
    ("ensile-index", Place::Floor(2)),
    ("ensile-serving", Place::Floor(2)),
    ("ensile-durability", Place::Floor(2)),
    ("ensile-engine", Place::Floor(3)),
    ("ensile-objects", Place::Floor(3)),
    ("ensile", Place::Floor(4)),
    ("ensile-services", Place::Floor(4)),
    ("ensile-c", Place::Floor(4)),
    ("ensile-server", Place::Floor(5)),
    ("ensile-cli", Place::Floor(6)),
    ("ensile-sim", Place::Sim),
    ("ensile-fuzz", Place::Fuzz),
    ("ensile-bench", Place::Bench),
    ("ensile-papers", Place::Papers),
    ("xtask", Place::Tool),
];

/// Lowest floor with tests that may run on the simulator.
const SIMULATED_FLOOR_MIN: u8 = 2;
/// Highest floor below the simulator.
const SIM_STANDS_ON_MAX: u8 = 1;
/// Highest floor below the fuzz targets. Fuzz targets also stand on the simulator.
const FUZZ_STANDS_ON_MAX: u8 = 5;
/// Highest floor below the bench and the papers.
const BENCH_STANDS_ON_MAX: u8 = 4;

/// Stores and maps for comparison with Ensile: only the bench links a peer.
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

/// Asks cargo for the manifests under `root` and checks every dependency.
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

/// Checks the output of `cargo metadata`; `open` gives a manifest's short name and text.
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

/// Checks that package `from` may depend on `to`.
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
        (Place::Bench | Place::Papers, Place::Floor(lower)) => lower <= BENCH_STANDS_ON_MAX,
        (Place::Bench | Place::Papers, Place::Sim) | (Place::Papers, Place::Bench) => true,
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
mod tests;
