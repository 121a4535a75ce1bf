//! Every experiment in a tiny form: it runs, and its files hold what the figure needs.
//!
//! Neighbours: [`super`]; what a step counts is tested in [`ensile_bench::timeline`].

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

/// Checkpoints one after the other, large enough to be seen, in runs that go on until they have seen two.
const CHECKPOINTS: &str = "--records 50000 --checkpoint-seconds 0.05 --least-checkpoints 2";

/// Whether limits were kept, the JSON document, and how many lines the CSV has.
type Outcome = (bool, Value, usize);

/// Runs `silor FIGURE` small, with `more` options.
fn made(figure: &str, more: &str) -> Outcome {
    // Those that wait for checkpoints go on until they have seen them.
    made_in(if more.contains("--least-checkpoints") { 0.2 } else { 0.8 }, figure, more)
}

/// As [`made`], again and four times as long while `shows` does not find what a fast disk shows at once: a log that
/// syncs for as long as a run takes makes nothing durable in it.
fn made_until(figure: &str, more: &str, shows: impl Fn(&Value) -> bool) -> Outcome {
    let mut outcome = made(figure, more);
    for seconds in [3.2, 12.8, 51.2] {
        if shows(&outcome.1) {
            break;
        }
        outcome = made_in(seconds, figure, more);
    }
    outcome
}

/// Runs `silor FIGURE` for `seconds` a run.
fn made_in(seconds: f64, figure: &str, more: &str) -> Outcome {
    let folder = Folder(std::env::temp_dir().join(format!("ensile-silor-{figure}-{}", std::process::id())));
    let records = if more.contains("--records") { "" } else { "--records 2000" };
    let line = format!(
        "papers silor {figure} --seconds {seconds} --rounds 2 {records} --items 200 --customers 30 --workers 1 \
         --epoch-ms 5 --out {0}/out --data {0}/data {more}",
        folder.0.display()
    );
    let Paper::Silor(arguments) = Command::parse_from(line.split_whitespace()).paper else {
        panic!("not silor")
    };
    let held = run(&arguments).expect("it runs");
    let read = |extension| {
        fs::read_to_string(folder.0.join(format!("out/{figure}.{extension}"))).expect("it was written")
    };
    assert!(read("svg").trim_end().ends_with("</svg>"));
    assert!(
        fs::read_dir(folder.0.join("data")).map_or(0, Iterator::count) == 0,
        "what was measured is removed from disk"
    );
    let document = serde_json::from_str(&read("json")).expect("it parses");
    (held, document, read("csv").lines().filter(|line| !line.starts_with('#')).count() - 1)
}

/// The document of a figure over time.
fn document_of(figure: &str, more: &str) -> Value {
    let (_, document, csv) = made(figure, more);
    assert_eq!(csv, points_of(&document));
    document
}

/// Points of all lines.
fn points_of(document: &Value) -> usize {
    let points = |line: &&Value| line["points"].as_array().expect("points").len();
    lines(document).iter().map(points).sum()
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
    let has_all = |document: &Value| {
        ["logsilo", "memsilo"].iter().all(|system| row(document, system, "latency, p50").is_some())
            && row(document, "logsilo, 1 worker / memsilo", "ratio").is_some_and(|ratio| ratio > 0.0)
    };
    let (_, document, csv) = made_until("fig1", "", has_all);
    assert_eq!(csv, points_of(&document));
    assert_eq!(names(&document), ["memsilo, 1 worker", "logsilo, 1 worker", "silor, 1 worker"]);
    for line in lines(&document) {
        let points = line["points"].as_array().expect("points");
        // One each tenth of a second.
        assert!(!points.is_empty(), "{line}");
        assert!(points.iter().all(|point| point["throughput"].as_f64().is_some_and(|rate| rate >= 0.0)));
    }
    let waited = row(&document, "logsilo", "latency, p50").expect("logsilo's latency");
    let committed = row(&document, "memsilo", "latency, p50").expect("memsilo's latency");
    assert!(waited > 0.0 && committed > 0.0, "{waited} ms until durable, {committed} ms until commit");
    assert!(row(&document, "logsilo, 1 worker / memsilo", "ratio").is_some_and(|ratio| ratio > 0.0));
}

#[test]
fn fig2_has_memsilo_with_every_core_and_with_one_less() {
    let document = document_of("fig2", "");
    assert_eq!(names(&document).len(), 2);
    assert!(names(&document).iter().all(|name| name.starts_with("memsilo, ")));
}

#[test]
fn fig3_and_fig4_tell_their_scenes_apart() {
    let titles = |document: &Value| -> Vec<String> {
        let scenes = document["scenes"].as_array().expect("scenes");
        scenes.iter().map(|scene| scene["title"].as_str().expect("a title").to_owned()).collect()
    };
    let document = document_of("fig3", "");
    assert_eq!(names(&document)[0], "silor, 1 worker");
    assert_eq!(titles(&document).len(), 2);
    let document = document_of("fig4", CHECKPOINTS);
    assert_eq!(titles(&document), ["one sync at the end", "one sync and sleeps", "as it ships"]);
    for line in lines(&document) {
        let checkpoints = line["checkpoints"].as_array().expect("periods");
        assert!(!checkpoints.is_empty(), "{line}");
    }
}

#[test]
fn skip_counts_what_checkpoints_leave_to_the_log() {
    let (_, document, _) = made("skip", CHECKPOINTS);
    let left_out = row(&document, "silor", "left out of a checkpoint").expect("a checkpoint was installed");
    // All of it where the machine gave the checkpoint no time before every row was written again.
    assert!((0.0..=100.0).contains(&left_out), "{left_out} %");
}

#[test]
fn before_images_set_a_log_with_old_values_against_the_log() {
    let bytes = |document: &Value, system: &str| row(document, system, "log").expect("bytes of log");
    let have_logs =
        |document: &Value| bytes(document, "as it ships") > 0.0 && bytes(document, "before-images") > 0.0;
    let (_, document, _) = made_until("before-images", "", have_logs);
    let (plain, recorded) = (bytes(&document, "as it ships"), bytes(&document, "before-images"));
    // Their ratio is not judged: what a log writes once an epoch weighs the more, the fewer transactions an epoch has.
    assert!(plain > 0.0 && recorded > 0.0, "{recorded} and {plain} bytes");
}

#[test]
fn fig7_repeats_tpcc_and_says_when_memory_ended_it() {
    let document = document_of("fig7", "--resident-max-gb 0.000001");
    assert_eq!(names(&document).len(), 8);
    assert!(row(&document, "logsilo", "ended early, memory is at its limit").is_some());
    assert_eq!(document["scenes"][1]["title"], "run 2");
}

#[test]
fn the_table_says_whether_each_limit_is_kept() {
    let strict_ratio = |document: &Value| row(document, "with idle threads / without", "ratio");
    let (held, document, csv) =
        made_until("table", CHECKPOINTS, |document| strict_ratio(document).is_some_and(|ratio| ratio > 0.0));
    assert_eq!(csv, document["rows"].as_array().expect("rows").len());
    let ratio = strict_ratio(&document).expect("strict commits");
    assert!(ratio > 0.0);
    for metric in ["extra resident memory", "writing, per GB of record data"] {
        assert!(row(&document, "silor", metric).is_some_and(f64::is_finite), "{metric} in {document}");
    }
    let margins = document["rows"].as_array().expect("rows").iter().filter(|row| row["system"] == "limits");
    let margins: Vec<f64> = margins.filter_map(|row| row["median"].as_f64()).collect();
    // What needs the time between two checkpoints is not measured where the machine leaves none.
    assert!(margins.len() >= 6, "{margins:?}");
    let are_kept = margins.len() == 8 && margins.iter().all(|margin| *margin >= 1.0);
    assert_eq!(held, are_kept, "{margins:?}");
}
