//! Every experiment in a tiny form: it runs, and its files hold what the figure needs.
//!
//! Neighbours: [`super`]; what a step counts is tested in [`crate::timeline`].

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use serde_json::Value;

use super::run;
use crate::Bench;

#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    bench: Bench,
}

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `silor FIGURE` small, with `more` options; answers its JSON document.
fn document_of(figure: &str, more: &str) -> Value {
    let folder = Folder(std::env::temp_dir().join(format!("ensile-silor-{figure}-{}", std::process::id())));
    let line = format!(
        "bench silor {figure} --seconds 0.8 --rounds 2 --records 2000 --items 200 --customers 30 --workers 1 \
         --epoch-ms 5 --out {0}/out --data {0}/data {more}",
        folder.0.display()
    );
    let Bench::Silor(arguments) = Command::parse_from(line.split_whitespace()).bench else {
        panic!("not silor")
    };
    run(&arguments).expect("it runs");
    let read = |extension| {
        fs::read_to_string(folder.0.join(format!("out/{figure}.{extension}"))).expect("it was written")
    };
    assert!(read("svg").trim_end().ends_with("</svg>"));
    let document: Value = serde_json::from_str(&read("json")).expect("it parses");
    let points: usize =
        lines(&document).iter().map(|line| line["points"].as_array().expect("points").len()).sum();
    assert_eq!(read("csv").lines().filter(|line| !line.starts_with('#')).count(), points + 1);
    assert!(
        fs::read_dir(folder.0.join("data")).map_or(0, Iterator::count) == 0,
        "what was measured is removed from disk"
    );
    document
}

/// The lines of all scenes.
fn lines(document: &Value) -> Vec<&Value> {
    let scenes = document["scenes"].as_array().expect("scenes");
    scenes.iter().flat_map(|scene| scene["lines"].as_array().expect("lines")).collect()
}

fn names(document: &Value) -> Vec<&str> {
    lines(document).iter().map(|line| line["system"].as_str().expect("a name")).collect()
}

/// The median of a metric, of the only system whose name begins so.
fn row(document: &Value, system: &str, metric: &str) -> Option<f64> {
    let rows = document["rows"].as_array().expect("rows");
    let mut found = rows.iter().filter(|row| {
        row["metric"] == metric && row["system"].as_str().is_some_and(|name| name.starts_with(system))
    });
    found.next().and_then(|row| row["median"].as_f64())
}

#[test]
fn fig1_draws_every_system_over_the_same_seconds() {
    let document = document_of("fig1", "");
    assert_eq!(names(&document), ["memsilo, 1 worker", "logsilo, 1 worker"]);
    for line in lines(&document) {
        let points = line["points"].as_array().expect("points");
        assert!((5..=8).contains(&points.len()), "{} points", points.len());
        assert!(
            points.iter().all(|point| point["throughput"].as_f64().is_some_and(|rate| rate > 0.0)),
            "{line}"
        );
    }
    let waited = row(&document, "logsilo", "latency, p50").expect("logsilo's latency");
    let committed = row(&document, "memsilo", "latency, p50").expect("memsilo's latency");
    assert!(waited > 0.1 && waited > committed, "{waited} ms until durable, {committed} ms until commit");
    assert!(row(&document, "logsilo, 1 worker / memsilo", "ratio").is_some_and(|ratio| ratio > 0.0));
}

#[test]
fn fig2_has_memsilo_with_every_core_and_with_one_less() {
    let document = document_of("fig2", "");
    assert_eq!(names(&document).len(), 2);
    assert!(names(&document).iter().all(|name| name.starts_with("memsilo, ")));
}

#[test]
fn fig7_repeats_tpcc_and_says_when_memory_ended_it() {
    let document = document_of("fig7", "--resident-max-gb 0.000001");
    assert_eq!(names(&document).len(), 6);
    assert!(row(&document, "logsilo", "ended early, memory is at its limit").is_some_and(|at| at < 0.5));
    assert_eq!(document["scenes"][1]["title"], "run 2");
}
