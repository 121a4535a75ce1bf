//! The comparison on a small scale: every system runs every workload.
//!
//! The figures mean nothing here. The tests read the tables, and the program checks the rows.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SYSTEMS: [&str; 6] = ["ensile", "lmdb", "redb", "fjall", "rocksdb", "sqlite"];
const WORKLOADS: [&str; 14] = [
    "load",
    "files",
    "memory-load",
    "reopen",
    "point-reads",
    "read-many",
    "scan",
    "lend",
    "range",
    "memory-reads",
    "update",
    "strict1",
    "strict16",
    "strict64",
];

/// An empty folder for one test.
fn fresh_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("an old folder can be removed");
    }
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

fn compare(folder: &Path, arguments: &[&str]) -> Output {
    let (data, out) = (folder.join("data"), folder.join("out"));
    let output = Command::new(env!("CARGO_BIN_EXE_ensile-peers"))
        .args(["--quick", "--data"])
        .arg(data)
        .arg("--out")
        .arg(out)
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn csv(folder: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.join("out/peers.csv")).expect("the program writes a table");
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn every_system_has_a_figure_and_a_ratio_or_a_reason_for_every_workload() {
    let folder = fresh_folder("all");
    let output = compare(&folder, &[]);
    let lines = csv(&folder);
    let names: Vec<_> = lines.iter().map(|line| (line[0].as_str(), line[1].as_str())).collect();
    let expected: Vec<_> =
        WORKLOADS.iter().flat_map(|workload| SYSTEMS.iter().map(|system| (*workload, *system))).collect();
    assert_eq!(names, expected);
    for line in &lines {
        let is_redb_update = (line[0].as_str(), line[1].as_str()) == ("update", "redb");
        let [value, ratio, reason] = [2, 5, 8].map(|column| line[column].as_str());
        assert_eq!(value.parse::<f64>().is_ok_and(|value| value > 0.0), !is_redb_update, "{line:?}");
        assert_eq!(ratio.parse::<f64>().is_ok_and(|ratio| ratio > 0.0), !is_redb_update, "{line:?}");
        assert_eq!(reason.contains("of 500 commits survived"), is_redb_update, "{line:?}");
        assert!(line[1] != "ensile" || ratio == "1", "{line:?}");
    }
    let printed = String::from_utf8(output.stdout).expect("tables are text");
    let table = std::fs::read_to_string(folder.join("out/peers.md")).expect("the program writes a table");
    assert!(printed.ends_with(&format!("{table}\n")), "{printed}");
    let json = std::fs::read_to_string(folder.join("out/peers.json")).expect("the program writes JSON");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON is JSON");
    assert_eq!(json["lines"].as_array().map(Vec::len), Some(lines.len()));
    assert!(!folder.join("data").exists(), "databases are removed");
}

#[test]
fn a_selection_of_systems_and_workloads_has_no_other_lines() {
    let folder = fresh_folder("selection");
    compare(&folder, &["--peers", "sqlite", "--only", "scan,reopen"]);
    let names: Vec<_> = csv(&folder).into_iter().map(|line| (line[0].clone(), line[1].clone())).collect();
    let expected = [("reopen", "ensile"), ("reopen", "sqlite"), ("scan", "ensile"), ("scan", "sqlite")];
    assert_eq!(names, expected.map(|(workload, system)| (workload.to_owned(), system.to_owned())));
}
