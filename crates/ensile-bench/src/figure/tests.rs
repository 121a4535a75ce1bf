//! Files of a figure hold its rows, its machine and its command, whichever form they have.

use std::fs;

use serde_json::Value;

use super::rows::TABLE_WIDTH;
use super::{Figure, Line, OverTime, Place, Point, Row, Scene, panels, prepare};
use crate::machine::Machine;
use crate::verdict::{Judged, Verdict};

fn figure(places: [Place; 2]) -> Figure {
    let [first, second] = places;
    Figure {
        name: "sample",
        title: "A sample".to_owned(),
        horizontal: "workers",
        drawn: ("throughput", "txn/s"),
        rows: vec![
            Row::new("left", first.clone(), ("throughput", "txn/s"), vec![3.0, 1.0, 2.0]),
            Row::new("right, second", second, ("throughput", "txn/s"), vec![4_000.0]),
            Row::ratio(("left", &[4.0, 9.0]), ("right", &[2.0, 3.0]), first),
        ],
        ..Figure::default()
    }
}

#[test]
fn csv_json_and_svg_hold_the_rows_with_machine_and_command() {
    let folder = std::env::temp_dir().join(format!("ensile-figure-{}", std::process::id()));
    for places in [[Place::At(1.0), Place::At(2.0)], [Place::Bar("a".into()), Place::Bar("b".into())]] {
        figure(places).write(&folder, &Machine::look(), "ensile-bench sample").expect("it is written");
        let read = |extension| fs::read_to_string(folder.join(format!("sample.{extension}"))).expect("there");
        let csv = read("csv");
        let rows: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows.len(), 4, "{csv}");
        assert!(rows.iter().all(|row| row.replace("right, second", "").split(',').count() == 8), "{csv}");
        assert!(rows[2].starts_with("\"right, second\","), "a comma in a name parts no fields: {csv}");
        assert!(rows[1].starts_with("left,") && rows[1].ends_with("throughput,txn/s,2,1,3,3"), "{csv}");
        assert!(csv.contains("ensile-bench sample") && csv.contains(" cores"), "{csv}");
        let json: Value = serde_json::from_str(&read("json")).expect("it parses");
        assert_eq!(json["rows"][2]["median"], 2.5);
        assert_eq!(json["rows"][2]["system"], "left / right");
        assert_eq!(json["command"], "ensile-bench sample");
        assert!(json["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0));
        let svg = read("svg");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["A sample", "throughput (txn/s)", "ensile-bench sample"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("left / right"), "what is not drawn stays out of the picture");
    }
    fs::remove_dir_all(&folder).expect("it goes");
}

#[test]
fn points_over_time_that_no_axis_can_have_are_left_out() {
    let point = |second, throughput, p99_ms| Point {
        second,
        throughput,
        mean_ms: Some(1.0),
        p50_ms: None,
        p99_ms: Some(p99_ms),
        p999_ms: None,
        resident_mb: 1.0,
    };
    let picture = |odd: &[Point], checkpoints: &[(f64, f64)]| {
        let points = [&[point(0.5, 10.0, 2.0), point(1.0, 20.0, 3.0)], odd].concat();
        let line = Line { system: "a".to_owned(), durable: true, points, checkpoints: checkpoints.to_vec() };
        let scenes = vec![Scene { title: "one".to_owned(), lines: vec![line] }];
        let figure = OverTime { name: "odd", title: "Odd".to_owned(), scenes, rows: Vec::new() };
        panels::svg(&figure, "here").expect("it is drawn")
    };
    let whole = picture(&[], &[(0.25, 0.75)]);
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
        let points = [point(odd, 5.0, 1.0)];
        assert_eq!(picture(&points, &[(0.25, 0.75), (odd, 1.0), (0.0, odd)]), whole, "{odd}");
        let drawn = picture(&[point(0.75, odd, odd)], &[]);
        assert!(drawn.trim_end().ends_with("</svg>"), "{odd}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_anything_is_measured() {
    let refused = prepare(std::path::Path::new("/proc/nope")).expect_err("nothing can be made there");
    assert!(refused.to_string().contains("/proc/nope"), "{refused}");
    let folder = std::env::temp_dir().join(format!("ensile-figure-folder-{}", std::process::id()));
    prepare(&folder.join("inner")).expect("it is made");
    assert_eq!(fs::read_dir(folder.join("inner")).expect("it is there").count(), 0, "nothing is left in it");
    fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_table_of_long_names_fits_a_terminal_and_says_each_once() {
    let (left, right) = ("stock-level alone", "stock-level alone, read in the present");
    let row =
        |name: &str, metric| Row::new(name, Place::Bar(name.to_owned()), (metric, "txn/s"), vec![170_000.0]);
    let rows = vec![
        row(left, "throughput"),
        row(left, "stock-level run again and again"),
        row(right, "throughput"),
        Row::ratio((left, &[4.0]), (right, &[2.0]), Place::Bar(left.to_owned())),
    ];
    let table = Figure { name: "table10", rows, ..Figure::default() }.table();
    assert!(table.lines().all(|line| line.len() <= TABLE_WIDTH), "{table}");
    let said: Vec<&str> = table.lines().filter(|line| !line.contains("..")).skip(1).map(str::trim).collect();
    assert_eq!(said, [left, right, &format!("{left} / {right}")], "{table}");
}

#[test]
fn files_hold_the_verdicts_with_their_reasons() {
    let folder = std::env::temp_dir().join(format!("ensile-figure-verdicts-{}", std::process::id()));
    let judged = |verdict| Judged {
        what: "loss".to_owned(),
        value: 0.0,
        unit: " %".to_owned(),
        asked: "<= 3".to_owned(),
        verdict,
    };
    let reason = "PHT has 0 checkpoints, at least 3 are needed";
    let verdicts = vec![judged(Verdict::Held), judged(Verdict::NotComparable(reason.to_owned()))];
    let figure = Figure { verdicts, ..figure([Place::At(1.0), Place::At(2.0)]) };
    figure.write(&folder, &Machine::look(), "ensile-bench sample").expect("it is written");
    let read = |extension| fs::read_to_string(folder.join(format!("sample.{extension}"))).expect("there");
    assert!(read("csv").contains(&format!("# loss: 0 %, asked <= 3 %: NOT COMPARABLE: {reason}\n")));
    let json: Value = serde_json::from_str(&read("json")).expect("it parses");
    assert_eq!(json["verdicts"][0]["verdict"], "held");
    assert_eq!(json["verdicts"][1]["verdict"], "not_comparable");
    assert_eq!(json["verdicts"][1]["reason"], reason);
    fs::remove_dir_all(&folder).expect("it goes");
}

#[test]
fn keys_of_scenes_side_by_side_stand_inside_the_picture() {
    let point = |second| Point {
        second,
        throughput: 10.0,
        mean_ms: Some(1.0),
        p50_ms: None,
        p99_ms: Some(2.0),
        p999_ms: None,
        resident_mb: 1.0,
    };
    let names = (1..6).map(|workers| format!("memsilo beside checkpoints, {workers} workers"));
    let line = |system| {
        let points = vec![point(0.5), point(9.39)];
        Line { system, durable: true, points, checkpoints: Vec::new() }
    };
    let lines: Vec<Line> = names.map(line).collect();
    let scenes = ["one", "two"].map(|title| Scene { title: title.to_owned(), lines: lines.clone() }).to_vec();
    let figure = OverTime { name: "wide", title: "Wide".to_owned(), scenes, rows: Vec::new() };
    let svg = panels::svg(&figure, "here").expect("it is drawn");
    let keys: Vec<&str> = svg.split("<text ").filter(|text| text.contains("memsilo")).collect();
    assert_eq!(keys.len(), 10, "{svg}");
    for key in keys {
        let left = key.split("x=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("it has a place");
        let right = left.parse::<f64>().expect("a number") + 37.0 * 6.7;
        assert!(right <= 1_320.0, "{key}");
    }
}
