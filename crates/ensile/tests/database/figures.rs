//! Named figures of a database and of objects: the page of the guide, the text for Prometheus, and the fields in JSON.
//!
//! Neighbours: `docs/guide/metrics.md` has the tables; the engine's and the objects' `figures` have the code.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile::folder::{SharedFolder, ShippingConfig};
use ensile::stats::{self, Figure, FigureKind, FigureUnit, Stats};
use ensile::{Database, Result};
use ensile_objects::{Objects, ObjectsBuilder, ObjectsStats, Persistent, serde_codec};
use serde_json::Value;

use crate::common::Folder;

/// Fields with a text or a detail, which are no figures. The fields below them are none either.
const NO_FIGURES: &[&str] = &[
    "checkpoints.last_error",
    "checkpoints.verdict",
    "checkpoints.last.reason",
    "checkpoints.last.turn",
    "checkpoints.last.recovery",
    "checkpoints.last.adaptive",
];

/// Statistics of a database with a log, an archive, a shared store and a checkpoint.
fn full_stats() -> Result<Stats> {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("store")).expect("the folder can be written");
    let store = SharedFolder::open(&folder.path().join("store"))?;
    let db = Database::builder(folder.path().join("db"))
        .archive(folder.path().join("archive"))
        .ship_to(ShippingConfig::new(Arc::new(store)))
        .open()?;
    let numbers = db.table::<u64, u64>("numbers")?;
    db.run(|tx| tx.put(&numbers, &1, &100))?;
    db.checkpoint()?.wait()?;
    let stats = db.stats();
    db.close()?;
    Ok(stats)
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Total(u64);

impl Persistent for Total {
    type Operation = u64;
    type Output = ();
    serde_codec! { object 1, operation 1 }

    fn apply(total: &mut Option<Self>, added: &u64) {
        total.get_or_insert(Self(0)).0 += added;
    }
}

/// Statistics of objects with a checkpoint.
fn objects_stats() -> ObjectsStats {
    let folder = Folder::new();
    let totals: Objects<u64, Total> =
        ObjectsBuilder::new(folder.path().join("objects")).open().expect("the folder is new");
    totals.update(1, &7).expect("the log takes the operation");
    totals.checkpoint().wait().expect("a checkpoint is made");
    let stats = totals.stats();
    totals.close().expect("the log ends");
    stats
}

/// Row of a table of the page.
fn row(figure: &Figure) -> String {
    let Figure { name, kind, unit, field, help, .. } = figure;
    format!("| `{name}` | {kind} | {unit} | `{field}` | {help} |")
}

const PAGE: &str = include_str!("../../../../docs/guide/metrics.md");

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// True if the first column of a line has one name alone, and so describes a figure. A condition has more.
fn is_row(line: &str) -> bool {
    let first = line.strip_prefix("| `ensile_").and_then(|rest| rest.split_once('`'));
    first.is_some_and(|(name, rest)| is_name(name) && rest.starts_with(" |"))
}

/// Rows of the page that describe a figure.
fn page_rows() -> BTreeSet<String> {
    let rows: Vec<_> = PAGE.lines().filter(|line| is_row(line)).map(str::to_owned).collect();
    let found = rows.len();
    let rows: BTreeSet<_> = rows.into_iter().collect();
    assert_eq!(rows.len(), found, "a row stands once");
    rows
}

/// Figures of objects that the page does not list: the rows of a database have the same end of the name.
fn shared_figures(database: &[Figure], objects: &[Figure]) -> BTreeSet<String> {
    let is_shared = |figure: &&Figure| figure.field.contains('.') || figure.field == "log_health";
    let shared: BTreeSet<_> = database
        .iter()
        .filter(is_shared)
        .filter(|figure| !figure.field.starts_with("memory."))
        .map(|figure| row(figure).replacen("ensile_", "ensile_objects_", 1))
        .collect();
    let of_objects: BTreeSet<_> = objects.iter().map(row).collect();
    let missing: Vec<_> = shared.difference(&of_objects).collect();
    assert!(missing.is_empty(), "objects have the figures of log, checkpoints and shipping: {missing:#?}");
    shared
}

#[test]
fn the_page_has_the_figures_of_the_code() -> Result<()> {
    let database = stats::figures(&Database::in_memory()?.stats());
    let objects = ensile_objects::stats::figures(&objects_stats());
    let shared = shared_figures(&database, &objects);
    let expected: BTreeSet<_> =
        database.iter().chain(&objects).map(row).filter(|row| !shared.contains(row)).collect();
    let page = page_rows();
    let missing: Vec<_> = expected.difference(&page).map(String::as_str).collect();
    let extra: Vec<_> = page.difference(&expected).map(String::as_str).collect();
    assert!(missing.is_empty(), "docs/guide/metrics.md lacks these rows:\n{}", missing.join("\n"));
    assert!(extra.is_empty(), "docs/guide/metrics.md has rows without a figure:\n{}", extra.join("\n"));
    Ok(())
}

#[test]
fn the_page_names_existing_figures() -> Result<()> {
    let database = stats::figures(&Database::in_memory()?.stats());
    let objects = ensile_objects::stats::figures(&objects_stats());
    let exists = |word: &str| database.iter().chain(&objects).any(|figure| figure.name == word);
    let words = PAGE.split(|letter: char| !(letter.is_ascii_alphanumeric() || "_:".contains(letter)));
    let is_metric = |word: &&str| word.starts_with("ensile_") && !word.ends_with('_') && !word.contains(':');
    let names: Vec<_> = words.filter(is_metric).collect();
    let unknown: Vec<_> = names.iter().filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty() && names.len() > database.len(), "no figures: {unknown:?}");
    Ok(())
}

/// Checks a text for Prometheus: each sample has HELP and TYPE before it, and stands once. Returns the samples.
fn check_text(text: &str) -> Vec<(&str, f64)> {
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let mut samples: Vec<(&str, f64)> = Vec::new();
    for group in lines.chunks(3) {
        let [help, kind, sample] = group else { panic!("three lines for each figure: {group:?}") };
        let (name, value) = sample.split_once(' ').expect("a sample has a name and a value");
        let meaning = help.strip_prefix("# HELP ").and_then(|rest| rest.strip_prefix(name));
        assert!(meaning.is_some_and(|meaning| meaning.len() > 5 && meaning.starts_with(' ')), "{help}");
        let kind = kind.strip_prefix("# TYPE ").and_then(|rest| rest.strip_prefix(name));
        assert_eq!(kind, Some(if name.ends_with("_total") { " counter" } else { " gauge" }), "{sample}");
        assert!(name.starts_with("ensile_") && is_name(name), "{name}");
        let value: f64 = value.parse().expect("a value is a number");
        assert!(value.is_finite() && value >= 0.0, "{sample}");
        assert!(samples.iter().all(|(other, _)| *other != name), "{name} stands once");
        samples.push((name, value));
    }
    samples
}

#[test]
fn the_text_for_prometheus_is_well_formed() -> Result<()> {
    let mut text = String::new();
    let stats = full_stats()?;
    stats::prometheus(&stats, &mut text);
    ensile_objects::stats::prometheus(&objects_stats(), &mut text);
    let samples = check_text(&text);
    let value = |name| samples.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let log = stats.log.as_ref().expect("the database has a log");
    assert_eq!(value("ensile_commits_total"), Some(stats.commits as f64));
    assert_eq!(value("ensile_log_written_bytes_total"), Some(log.bytes as f64));
    assert_eq!(value("ensile_checkpoint_installed_total"), Some(1.0));
    assert_eq!((value("ensile_log_running"), value("ensile_log_ended")), (Some(1.0), Some(0.0)));
    assert_eq!((value("ensile_archive_failing"), value("ensile_shipping_fenced")), (Some(0.0), Some(0.0)));
    assert_eq!(value("ensile_objects_objects"), Some(1.0));
    Ok(())
}

#[test]
fn a_database_in_memory_has_the_samples_that_it_can_have() -> Result<()> {
    let stats = Database::in_memory()?.stats();
    let mut text = String::new();
    stats::prometheus(&stats, &mut text);
    let names: Vec<_> = check_text(&text).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"ensile_epoch") && names.contains(&"ensile_memory_live_bytes"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("ensile_log_")), "{names:?}");
    let figures = stats::figures(&stats);
    assert_eq!(figures.len(), stats::figures(&full_stats()?).len(), "the list has every figure");
    assert_eq!(figures.iter().filter(|figure| figure.value.is_some()).count(), names.len());
    Ok(())
}

/// Value of a field in JSON, in base units; `None` for a text or an object that is no time.
fn json_value(value: &Value, unit: FigureUnit) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is_set) => Some(f64::from(u8::from(*is_set))),
        Value::Object(time) if unit == FigureUnit::Seconds => {
            Some(time.get("secs")?.as_f64()? + time.get("nanos")?.as_f64()? / 1e9)
        }
        _ => None,
    }
}

/// Paths of the fields of a JSON object that are no structs themselves.
fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.contains_key("secs") && !fields.contains_key("state") => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(&path, value, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// Checks that JSON has the field of each figure with the figure's value, and no further field.
fn check_json(json: &Value, figures: &[Figure]) {
    let mut with_figure = BTreeSet::new();
    for figure in figures {
        let parts: Vec<_> = figure.field.split('.').collect();
        let mut value = json;
        for (at, part) in parts.iter().enumerate() {
            value = &value[*part];
            if value.is_null() {
                with_figure.insert(parts[..=at].join("."));
                break;
            }
        }
        with_figure.insert(figure.field.clone());
        if figure.kind == FigureKind::Gauge && figure.unit == FigureUnit::Flag {
            continue; // A flag stands for a text.
        }
        if figure.field.ends_with("_nanos_per_entry") {
            assert_eq!(figure.value, value.as_f64().map(|nanos| nanos / 1e9), "{figure:?}");
            continue;
        }
        let expected = json_value(value, figure.unit);
        let differs = figure.value.unwrap_or(-1.0) - expected.unwrap_or(-1.0);
        assert!(differs.abs() < 1e-9, "{figure:?} is {value} in JSON");
    }
    let mut fields = BTreeSet::new();
    leaves("", json, &mut fields);
    let is_text = |field: &&String| {
        NO_FIGURES.iter().any(|none| field.as_str() == *none || field.starts_with(&format!("{none}.")))
    };
    let unlisted: Vec<_> = fields.difference(&with_figure).filter(|field| !is_text(field)).collect();
    assert!(unlisted.is_empty(), "fields of JSON without a figure: {unlisted:?}");
}

#[test]
fn json_has_each_field() -> Result<()> {
    for stats in [full_stats()?, Database::in_memory()?.stats()] {
        let json = serde_json::to_value(&stats).expect("the statistics are serializable");
        check_json(&json, &stats::figures(&stats));
        assert_eq!(json["checkpoints"].is_null(), stats.checkpoints.is_none());
    }
    let stats = objects_stats();
    let json = serde_json::to_value(&stats).expect("the statistics are serializable");
    check_json(&json, &ensile_objects::stats::figures(&stats));
    assert_eq!(json["log_health"]["state"], stats.log_health.name());
    let last = stats.checkpoints.last.as_ref().expect("a checkpoint was made");
    assert_eq!(json["checkpoints"]["last"]["reason"], last.reason.to_string());
    assert_eq!(json["checkpoints"]["verdict"], stats.checkpoints.verdict.to_string());
    Ok(())
}

#[test]
fn figures_and_health_are_serializable() -> Result<()> {
    let db = Database::in_memory()?;
    let health = serde_json::to_value(db.health()).expect("the health is serializable");
    assert_eq!((&health["log"], &health["is_forked"]), (&Value::Null, &Value::Bool(false)));
    let figures = serde_json::to_value(stats::figures(&db.stats())).expect("figures are serializable");
    let commits = serde_json::json!({
        "name": "ensile_commits_total",
        "field": "commits",
        "kind": "counter",
        "unit": "number",
        "help": "Committed transactions, also read-only ones, without snapshots",
        "value": 0.0,
    });
    assert_eq!(figures[0], commits);
    Ok(())
}
