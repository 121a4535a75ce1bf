//! What a picture says can be read: numbers at axes, values in bars, keys, and where it comes from.

use super::{Figure, Place, Row, axis_number, svg, wrapped};

const RATE: (&str, &str) = ("throughput", "txn/s");
const MEDIAN: (&str, &str) = ("median latency", "ms");
const P99: (&str, &str) = ("p99 latency", "ms");

/// A text of a picture: its place, its colour, what it says.
#[derive(Debug)]
struct Said {
    at: (i32, i32),
    colour: String,
    text: String,
}

/// What stands behind `name=` in an element.
fn attribute<'e>(element: &'e str, name: &str) -> &'e str {
    let (_, rest) =
        element.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{name} in {element}"));
    rest.split('"').next().expect("a quoted value")
}

/// The elements of a picture that are called `tag`.
fn elements<'s>(svg: &'s str, tag: &str) -> Vec<&'s str> {
    svg.split('<').filter(|element| element.split_whitespace().next() == Some(tag)).collect()
}

fn texts(svg: &str) -> Vec<Said> {
    let number = |element: &str, name: &str| attribute(element, name).parse().expect("a number");
    let said = |element: &&str| Said {
        at: (number(element, "x"), number(element, "y")),
        colour: attribute(element, "fill").to_owned(),
        text: element.split_once('>').expect("it ends").1.trim().to_owned(),
    };
    elements(svg, "text").iter().map(said).collect()
}

fn picture(drawn: (&'static str, &'static str), rows: Vec<Row>) -> String {
    svg(&Figure { title: "A sample".to_owned(), drawn, rows, ..Figure::default() }, "here")
        .expect("it is drawn")
}

fn bar(name: &str, values: &[f64]) -> Row {
    Row::new(name, Place::Bar(name.to_owned()), RATE, values.to_vec())
}

#[test]
fn a_bars_value_stands_at_its_foot_and_no_spread_strikes_it_through() {
    let drawn = picture(RATE, vec![bar("tall", &[101_234.0, 50_000.0, 120_000.0]), bar("low", &[300.0])]);
    let texts = texts(&drawn);
    let value = |text: &str| texts.iter().find(|said| said.text == text).expect("it is there");
    let (tall, low) = (value("101,234"), value("300.0"));
    assert_eq!(tall.colour, "#FFFFFF");
    assert_eq!(low.colour, "#000000", "a bar too low for its value has it above");
    assert!(low.at.1 < tall.at.1 + 10, "{low:?} {tall:?}");
    let strikes = elements(&drawn, "polyline").into_iter().filter(|path| {
        let points = attribute(path, "points").split_whitespace().map(|point| {
            let (x, y) = point.split_once(',').expect("two numbers");
            (x.parse::<i32>().expect("a number"), y.parse::<i32>().expect("a number"))
        });
        let points: Vec<(i32, i32)> = points.collect();
        let reaches = |far: fn(i32, i32) -> bool, y| points.iter().any(|point| far(point.1, y));
        let is_in_the_middle = points.iter().all(|point| point.0 == tall.at.0);
        is_in_the_middle
            && reaches(|y, top| y > top, tall.at.1 - 14)
            && reaches(|y, foot| y < foot, tall.at.1)
    });
    assert_eq!(strikes.count(), 0, "{drawn}");
}

#[test]
fn one_round_has_no_spread() {
    let lines = |rounds: &[f64]| elements(&picture(RATE, vec![bar("a", rounds)]), "polyline").len();
    assert_eq!(lines(&[4.0, 4.0, 4.0]), lines(&[4.0]) + 3);
}

#[test]
fn long_names_of_bars_are_wrapped() {
    let name = "YCSB 70/30, while a checkpoint is written, extra resident memory";
    let rows = (0..8).map(|bar| Row::new("a", Place::Bar(format!("{name} {bar}")), RATE, vec![1.0]));
    let texts = texts(&picture(RATE, rows.collect()));
    assert!(texts.iter().all(|said| said.text.len() < name.len()), "{texts:?}");
    assert_eq!(texts.iter().filter(|said| said.text.starts_with("memory ")).count(), 8, "{texts:?}");
}

#[test]
fn only_places_that_were_measured_are_marked_below() {
    let rows = [1.0, 2.0].map(|workers| Row::new("a", Place::At(workers), RATE, vec![50.0, 60.0, 70.0]));
    let texts = texts(&picture(RATE, rows.to_vec()));
    let lowest = texts.iter().filter(|said| said.text == "1" || said.text == "2");
    let at: Vec<i32> = lowest.map(|said| said.at.1).collect();
    assert!(at.len() == 2 && at[0] == at[1], "{texts:?}");
    let drawn = picture(RATE, rows.to_vec());
    let ticks = elements(&drawn, "polyline").into_iter().filter(|path| {
        let xs: Vec<&str> =
            attribute(path, "points").split_whitespace().filter_map(|p| p.split(',').next()).collect();
        let ys: Vec<&str> =
            attribute(path, "points").split_whitespace().filter_map(|p| p.split(',').nth(1)).collect();
        let length = ys[0].parse::<i32>().unwrap_or(0).abs_diff(ys[ys.len() - 1].parse().unwrap_or(0));
        xs[0] == xs[xs.len() - 1] && (1..=6).contains(&length)
    });
    assert_eq!(ticks.count(), 2, "{drawn}");
}

#[test]
fn what_no_axis_can_have_is_left_out_and_said() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
        let bars = picture(RATE, vec![bar("whole", &[4.0, 5.0]), bar("odd", &[odd]), bar("none", &[])]);
        let line = |place, value| Row::new("a", Place::At(place), RATE, vec![value]);
        let lines = picture(RATE, vec![line(1.0, 2.0), line(2.0, odd), line(odd, 3.0), line(3.0, 4.0)]);
        for (drawn, whole) in [(&bars, "4.500"), (&lines, "3")] {
            let texts = texts(drawn);
            let says = |text: &str| texts.iter().any(|said| said.text == text);
            assert!(says("not drawn: 2 values that no axis can have") && says(whole), "{odd}: {texts:?}");
        }
        let none = picture(RATE, vec![bar("odd", &[odd])]);
        assert!(
            texts(&none).iter().any(|said| said.text == "not drawn: 1 value that no axis can have"),
            "{none}"
        );
    }
}

#[test]
fn a_second_metric_is_dashed_and_has_its_key() {
    let rows = |metric, value: f64| [1.0, 2.0].map(|at| Row::new("silo", Place::At(at), metric, vec![value]));
    let rows = [rows(MEDIAN, 20.0), rows(P99, 44.0)].concat();
    let figure = Figure { drawn: MEDIAN, dashed: Some(P99), rows, ..Figure::default() };
    let both = svg(&figure, "here").expect("it is drawn");
    let one = svg(&Figure { dashed: None, ..figure }, "here").expect("it is drawn");
    assert!(texts(&both).iter().any(|said| said.text == "p99 latency"), "{both}");
    assert!(!one.contains("p99 latency"));
    let strokes = |svg: &str| elements(svg, "polyline").len();
    assert!(strokes(&both) > strokes(&one) + 10, "a line of dashes is many strokes");
    assert!(both.contains("median latency, p99 latency (ms)"));
}

#[test]
fn numbers_at_an_axis_have_one_format() {
    let axis =
        |top: f64, step: f64| (0..4).map(|at| axis_number(f64::from(at) * step, top)).collect::<Vec<_>>();
    assert_eq!(axis(28.0, 5.0), ["0", "5", "10", "15"]);
    assert_eq!(axis(5.4, 0.5), ["0.0", "0.5", "1.0", "1.5"]);
    assert_eq!(axis(208_000.0, 50_000.0), ["0", "50,000", "100,000", "150,000"]);
    assert_eq!(axis(0.054, 0.005), ["0.000", "0.005", "0.010", "0.015"]);
}

#[test]
fn no_line_begins_with_a_number() {
    let text = "AMD EPYC 9B14, 2 cores, 23.5 GiB, Linux 6.18.44, huge pages madvise, load 2.11, ensile 0.1.0; \
                ensile-bench silo table10 --rounds 32 --seconds 1 --snapshot-ms 100";
    for width in 20..140 {
        let lines = wrapped(text, width);
        assert_eq!(lines.join(" "), text.split_whitespace().collect::<Vec<_>>().join(" "));
        let numbered = |line: &&String| line.starts_with(|first: char| first.is_ascii_digit());
        assert_eq!(lines.iter().find(numbered), None, "{lines:?}");
        assert!(lines.iter().all(|line| !line.starts_with("cores") && !line.starts_with("GiB")), "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= width.max(32)), "{lines:?}");
    }
}
