//! Every experiment in a tiny form: it runs, and its files hold what the figure needs.
//!
//! Neighbours: [`super`]; the files' form is tested in [`ensile_bench::figure`].

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use serde_json::Value;

use super::run;
use crate::Paper;

#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    paper: Paper,
}

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a row has all its figures: a ratio to nothing is none.
fn is_complete(row: &Value) -> bool {
    ["min", "median", "max"].iter().all(|field| row[field].is_f64())
}

/// Runs `silo FIGURE` small, and answers the rows of each figure that it should have made. Again, and longer, while
/// some row lacks a figure: a log that syncs for as long as a run takes makes nothing durable in it.
fn rows_of<const N: usize>(figure: &str, made: [&str; N]) -> [Vec<Value>; N] {
    let mut rows = rows_within(0.05, figure, made);
    for seconds in [0.8, 3.2, 12.8] {
        if rows.iter().flatten().all(is_complete) {
            break;
        }
        rows = rows_within(seconds, figure, made);
    }
    for row in rows.iter().flatten() {
        let value = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        assert!(value("min") <= value("median") && value("median") <= value("max"), "{row}");
    }
    rows
}

/// The rows of runs of so many seconds.
fn rows_within<const N: usize>(seconds: f64, figure: &str, made: [&str; N]) -> [Vec<Value>; N] {
    let folder = Folder(std::env::temp_dir().join(format!("ensile-silo-{figure}-{}", std::process::id())));
    let tmpfs = PathBuf::from(format!("/dev/shm/ensile-silo-{figure}-{}", std::process::id()));
    let line = format!(
        "papers silo {figure} --seconds {seconds} --rounds 2 --records 2000 --items 200 --customers 30 --workers 2 \
         --prefault-mib 0 --epoch-ms 5 --snapshot-ms 20 --out {0}/out --data {0}/data --tmpfs {1}",
        folder.0.display(),
        tmpfs.display(),
    );
    let Paper::Silo(arguments) = Command::parse_from(line.split_whitespace()).paper else {
        panic!("not silo")
    };
    run(&arguments).expect("it runs");
    let left: Vec<_> =
        fs::read_dir(&folder.0).expect("ours").map(|file| file.expect("a name").path()).collect();
    assert_eq!(left, [folder.0.join("out")], "the folder of logs is removed");
    assert!(!tmpfs.exists(), "and the one in memory");
    made.map(|name| {
        let read = |extension| {
            fs::read_to_string(folder.0.join(format!("out/{name}.{extension}"))).expect("it was written")
        };
        let document: Value = serde_json::from_str(&read("json")).expect("it parses");
        let rows = document["rows"].as_array().expect("rows").clone();
        assert_eq!(read("csv").lines().filter(|line| !line.starts_with('#')).count(), rows.len() + 1);
        assert!(read("svg").trim_end().ends_with("</svg>"));
        rows
    })
}

/// The systems of which a metric was measured, in order, each once.
fn systems(rows: &[Value], metric: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row["metric"] == metric) {
        let name = row["system"].as_str().expect("a name").to_owned();
        assert!(row["median"].as_f64().is_some_and(|median| median >= 0.0), "{row}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// `names` as far as this build has them: those behind `|` are variants of the engine.
fn built(names: &str) -> Vec<&str> {
    let (always, variants) = names.split_once('|').unwrap_or((names, ""));
    let variants = if cfg!(feature = "laboratory") { variants } else { "" };
    always.split_whitespace().chain(variants.split_whitespace()).collect()
}

#[test]
fn fig4_compares_key_value_memsilo_and_a_global_tid() {
    let [rows] = rows_of("fig4", ["fig4"]);
    let is_laboratory = cfg!(feature = "laboratory");
    let all = if is_laboratory { "key-value memsilo memsilo+global-tid" } else { "memsilo" };
    assert_eq!(systems(&rows, "throughput"), all.split_whitespace().collect::<Vec<_>>());
    let first = systems(&rows, "ratio").into_iter().next();
    assert_eq!(first.as_deref(), is_laboratory.then_some("memsilo / key-value"));
}

#[test]
fn fig5_to_fig7_are_measured_together() {
    let [throughput, per_core, latency] = rows_of("fig6", ["fig5", "fig6", "fig7"]);
    let all = built("memsilo silo silo+tmpfs");
    assert_eq!(systems(&throughput, "throughput"), all);
    assert_eq!(systems(&per_core, "throughput per core"), all);
    assert_eq!(systems(&latency, "median latency"), all);
    assert_eq!(systems(&latency, "p99 latency"), all);
}

#[test]
fn fig8_sets_a_partitioned_store_against_memsilo_at_every_share() {
    let [rows] = rows_of("fig8", ["fig8"]);
    let found = systems(&rows, "throughput");
    let store = cfg!(feature = "laboratory").then_some("partitioned-store");
    let all =
        ["memsilo, keys one by one", "memsilo+split, keys one by one", "memsilo, keys fetched together"];
    assert_eq!(found, all.into_iter().chain(store).collect::<Vec<_>>());
    let shares: Vec<f64> = rows
        .iter()
        .filter(|row| row["system"] == found[0] && row["metric"] == "throughput")
        .map(|row| row["place"].as_f64().expect("a number"))
        .collect();
    assert!(shares.len() > 4 && shares[0] == 0.0 && shares.is_sorted() && shares.ends_with(&[60.0]));
}

#[test]
fn fig9_adds_workers_to_one_partition() {
    let [rows] = rows_of("fig9", ["fig9"]);
    assert_eq!(systems(&rows, "throughput"), built("memsilo memsilo+fast-ids | partitioned-store"));
    assert_eq!(systems(&rows, "aborts").len(), systems(&rows, "throughput").len());
}

#[test]
fn table10_counts_what_was_run_again_by_kind_and_snapshots_never_are() {
    let [rows] = rows_of("table10", ["table10"]);
    assert_eq!(systems(&rows, "throughput").len(), 5);
    for kind in ["new-order", "stock-level"] {
        assert_eq!(systems(&rows, kind).len(), 5);
        assert_eq!(systems(&rows, &format!("{kind} run again")).len(), 5);
    }
    let again = |system: &str| {
        let mut found =
            rows.iter().filter(|row| row["system"] == system && row["metric"] == "stock-level run again");
        found.next().and_then(|row| row["max"].as_f64())
    };
    assert_eq!((again("memsilo"), again("stock-level alone")), (Some(0.0), Some(0.0)));
}

#[test]
fn space_sets_extra_memory_against_the_data() {
    let [rows] = rows_of("space", ["space"]);
    for metric in ["extra memory", "data", "versions kept", "throughput"] {
        assert_eq!(systems(&rows, metric), ["memsilo"]);
    }
}

#[test]
fn fig11_adds_factors_in_two_groups() {
    let [rows] = rows_of("fig11", ["fig11"]);
    let places: Vec<&str> = rows
        .iter()
        .filter(|row| row["metric"] == "throughput")
        .map(|row| row["place"].as_str().expect("a bar"))
        .collect();
    let all = if cfg!(feature = "laboratory") {
        "simple +allocator +overwrites +no-snapshots +no-gc memsilo +small-records +full-records"
    } else {
        "+overwrites +no-snapshots memsilo +full-records"
    };
    assert_eq!(places, all.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn the_paper_calls_table10_figure_10() {
    let Paper::Silo(arguments) = Command::parse_from(["papers", "silo", "fig10"]).paper else {
        panic!("not silo")
    };
    assert_eq!(arguments.figure, super::Name::Table10);
}
