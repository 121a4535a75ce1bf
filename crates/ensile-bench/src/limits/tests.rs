//! Each experiment on a small scale: it says what it measured.
//!
//! Neighbours: [`super`].

use clap::{Parser, ValueEnum as _};

use super::arguments::{Culprit, Experiment, LimitsArguments, Load};
use super::rows::Row;
use super::{contended, dead, ends, held, prefixes, turns, versions};
use crate::progress::Progress;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    limits: LimitsArguments,
}

fn rows(line: &str) -> Vec<serde_json::Value> {
    let words = std::iter::once("limits").chain(line.split_whitespace());
    let arguments = &Line::try_parse_from(words).expect("it parses").limits;
    let mut progress = Progress::new(1);
    let rows: Vec<Row> = match arguments.experiment {
        Experiment::Held => held::run(arguments, &mut progress),
        Experiment::Versions => versions::run(arguments, &mut progress),
        Experiment::Turns => turns::run(arguments, &mut progress),
        Experiment::Contended => contended::run(arguments, &mut progress),
        Experiment::Ends => ends::run(arguments, &mut progress),
        Experiment::Dead => dead::run(arguments, &mut progress),
        Experiment::Prefixes => prefixes::run(arguments),
    }
    .unwrap_or_else(|failure| panic!("{line}: {failure}"));
    rows.iter().map(|row| serde_json::to_value(row).expect("plain figures serialize")).collect()
}

#[test]
fn every_culprit_is_put_beside_every_load() {
    let rows = rows("held --seconds 0.05 --limit-mib 1");
    let all = Culprit::value_variants().len() * Load::value_variants().len();
    assert_eq!(rows.len(), all);
    for row in rows {
        assert!(row["steps_with"].as_u64() > Some(0) && row["steps_without"].as_u64() > Some(0), "{row}");
        assert!(row["memory_mib_with"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn snapshots_are_held_to_the_end() {
    let rows = rows("versions --seconds 0.3 --records 500");
    let held: Vec<_> = rows.iter().map(|row| row["snapshots"].as_u64()).collect();
    assert_eq!(held, [Some(1), Some(3), Some(1), Some(3)]);
    assert!(rows.iter().all(|row| row["updates_s"].as_f64() > Some(0.0)), "{rows:?}");
}

#[test]
fn every_read_is_timed_behind_deleted_rows_in_each_scene() {
    let rows = rows("dead --records 200");
    assert_eq!(rows.len(), 3 * 14);
    assert!(rows.iter().all(|row| row["ratio"].as_f64() > Some(0.0)), "{rows:?}");
}

#[test]
fn closures_that_read_everything_commit_beside_others() {
    let rows = rows("turns --records 2000 --rate 0 --threads 2");
    assert_eq!(
        rows.iter().map(|row| row["closures"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(1), Some(10)]
    );
    assert!(rows.iter().all(|row| row["runs_most"].as_u64() > Some(0)), "{rows:?}");
}

#[test]
fn contended_transactions_commit_on_each_number_of_threads() {
    let rows = rows("contended --records 100 --seconds 0.1 --threads 1,3");
    assert_eq!(rows.iter().map(|row| row["threads"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(3)]);
    assert!(rows.iter().all(|row| row["txn_s"].as_f64() > Some(0.0)), "{rows:?}");
}

#[test]
fn threads_that_have_deleted_end() {
    let rows = rows("ends --threads 3 --records 2000 --seconds 0.5");
    assert!(
        rows[0]["epochs_s"].as_f64() > Some(0.0) && rows[0]["left_in_the_end"].as_u64() == Some(0),
        "{rows:?}"
    );
}

#[test]
fn pairs_of_long_keys_take_memory() {
    let rows = rows("prefixes");
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["memory_mib"].as_f64() > rows[0]["key_mib"].as_f64(), "{rows:?}");
}
