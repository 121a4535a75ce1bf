//! What a picture says can be read: numbers at axes, values in bars, keys, and where it comes from.

use super::{CHARACTER, Dashed, Figure, Place, Row, SIZE, svg, wrapped};

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
    let figure = Figure { drawn: MEDIAN, dashed: Dashed::Metric(P99), rows, ..Figure::default() };
    let both = svg(&figure, "here").expect("it is drawn");
    let one = svg(&Figure { dashed: Dashed::Nothing, ..figure }, "here").expect("it is drawn");
    assert!(texts(&both).iter().any(|said| said.text == "p99 latency"), "{both}");
    assert!(!one.contains("p99 latency"));
    let strokes = |svg: &str| elements(svg, "polyline").len();
    assert!(strokes(&both) > strokes(&one) + 10, "a line of dashes is many strokes");
    assert!(both.contains("median latency, p99 latency (ms)"));
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

/// A text that stands inside the picture, as wide as its characters are on average.
fn is_inside(said: &Said) -> bool {
    let right = f64::from(said.at.0) + said.text.chars().count() as f64 * CHARACTER;
    said.at.0 >= 0 && right <= f64::from(SIZE.0)
}

/// The text beside each sample, and the colour of the sample: a bar's, or that of a line's first stroke.
fn keys(svg: &str, tag: &str, colour: &str) -> Vec<(String, String)> {
    let texts = texts(svg);
    let sample = |element: &&str| {
        let place = match tag {
            "rect" => format!("{},{}", attribute(element, "x"), attribute(element, "y")),
            _ => attribute(element, "points").split_whitespace().next()?.to_owned(),
        };
        let (left, top) = place.split_once(',')?;
        let (left, top): (i32, i32) = (left.parse().ok()?, top.parse().ok()?);
        let is_beside = |said: &&Said| said.at.0 == left + 24 && (said.at.1 - top).abs() <= 12;
        Some((texts.iter().find(is_beside)?.text.clone(), attribute(element, colour).to_owned()))
    };
    elements(svg, tag).iter().filter_map(sample).collect()
}

/// Bars of two systems at each of two places, and a third system beside them.
fn berkeley() -> Vec<Row> {
    let row = |system: &str, place: &str, metric| {
        Row::new(system, Place::Bar(place.to_owned()), (metric, "a second"), vec![900.0])
    };
    let of = |place: &str| {
        [("PHT", "lookups"), ("PHT, multi-gets", "lookups"), ("Berkeley DB", "lookups")]
            .into_iter()
            .chain([("PHT", "updates"), ("Berkeley DB", "updates"), ("PHT, checkpoints", "updates")])
            .map(|(system, metric)| row(system, place, metric))
            .collect::<Vec<Row>>()
    };
    [of("30 B"), of("100 B")].concat()
}

#[test]
fn bars_of_several_systems_have_a_key_for_each_inside_the_picture() {
    let drawn = picture(("updates", "a second"), berkeley());
    let named: Vec<String> = keys(&drawn, "rect", "fill").into_iter().map(|(text, _)| text).collect();
    assert_eq!(named, ["PHT", "Berkeley DB", "PHT, checkpoints"]);
    assert!(texts(&drawn).iter().all(is_inside), "{drawn}");
}

#[test]
fn bars_of_one_place_stand_together_above_its_name() {
    let drawn = picture(("updates", "a second"), berkeley());
    let places: Vec<String> =
        texts(&drawn).into_iter().map(|said| said.text).filter(|text| text.ends_with(" B")).collect();
    assert_eq!(places, ["30 B", "100 B"], "each name once");
    let bars: Vec<i32> = elements(&drawn, "rect")
        .iter()
        .filter(|bar| attribute(bar, "height").parse::<i32>().is_ok_and(|height| height > 100))
        .filter_map(|bar| attribute(bar, "x").parse().ok())
        .filter(|left| *left > 0)
        .collect();
    let between: Vec<i32> = bars.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(bars.len() == 6 && between[2] > between[1] && between[1].abs_diff(between[3]) <= 1, "{bars:?}");
}

#[test]
fn pictures_of_the_same_rows_give_a_system_one_colour() {
    let [lookups, updates] = ["lookups", "updates"].map(|metric| {
        let drawn = picture((metric, "a second"), berkeley());
        keys(&drawn, "rect", "fill")
    });
    let colour = |keys: &[(String, String)], system| {
        keys.iter().find(|key| key.0 == system).map(|key| key.1.clone()).expect("it has a key")
    };
    for system in ["PHT", "Berkeley DB"] {
        assert_eq!(colour(&lookups, system), colour(&updates, system), "{system}");
    }
    assert_ne!(colour(&updates, "Berkeley DB"), colour(&updates, "PHT, checkpoints"));
}

#[test]
fn bars_that_are_called_by_their_systems_need_no_keys() {
    let drawn = picture(RATE, vec![bar("one", &[900.0]), bar("other", &[800.0])]);
    assert_eq!(keys(&drawn, "rect", "fill"), [], "{drawn}");
}

/// Figure 6 of SLACH: two schemes at three shares of writes.
fn figure6() -> Figure {
    let row = |scheme: &str, writes: u32, load: f64| {
        Row::new(&format!("{scheme}, {writes} % writes"), Place::At(load), P99, vec![load / 100.0])
    };
    let of = |writes| ["base", "log"].map(|scheme| [20.0, 90.0].map(|load| row(scheme, writes, load)));
    let rows = [20, 50, 80].map(of).concat().concat();
    Figure { drawn: P99, dashed: Dashed::Scheme(["base", "log"]), rows, ..Figure::default() }
}

#[test]
fn two_schemes_of_a_share_have_its_colour_and_the_second_is_dashed() {
    let drawn = svg(&figure6(), "here").expect("it is drawn");
    let keys = keys(&drawn, "polyline", "stroke");
    let mut named: Vec<&str> = keys.iter().map(|key| key.0.as_str()).collect();
    named.dedup();
    assert_eq!(named, ["20 % writes", "50 % writes", "80 % writes", "base", "log"]);
    for (share, colour) in &keys[..3] {
        let circles =
            elements(&drawn, "circle").into_iter().filter(|circle| attribute(circle, "fill") == colour);
        assert_eq!(circles.count(), 4, "{share}: two loads of both schemes");
        let strokes = elements(&drawn, "polyline").into_iter();
        let strokes = strokes.filter(|stroke| attribute(stroke, "stroke") == colour).count();
        assert!(strokes > 10, "{share}: a key, a line and a line of dashes, not {strokes}");
    }
}

#[test]
fn keys_that_do_not_fit_a_line_go_on_in_the_next_one() {
    let names = (0..9).map(|at| format!("fixed thresholds of the service number {at}"));
    let names: Vec<String> = names.chain(["a name as long as two lines ".repeat(8)]).collect();
    let rows = names.iter().map(|name| Row::new(name, Place::At(1.0), RATE, vec![5.0])).collect();
    let drawn = picture(RATE, rows);
    let texts = texts(&drawn);
    assert!(texts.iter().all(is_inside), "{texts:?}");
    let keys = keys(&drawn, "polyline", "stroke");
    assert_eq!(keys.len(), names.len(), "{keys:?}");
    assert!(names.iter().zip(&keys).all(|(name, key)| name.starts_with(&key.0)), "{keys:?}");
    let lines: std::collections::BTreeSet<i32> =
        texts.iter().filter(|said| said.text.starts_with("fixed")).map(|said| said.at.1).collect();
    let chart = texts.iter().find(|said| said.text == "5").expect("a number of the axis").at.1;
    assert!(lines.len() > 2 && lines.iter().all(|line| *line < chart), "{lines:?}, chart at {chart}");
}

#[test]
fn an_axis_of_measured_seconds_is_marked_at_round_numbers() {
    let rows: Vec<Row> = [0.0, 4.7, 9.39, 14.06, 54.95]
        .map(|second| Row::new("a", Place::At(second), RATE, vec![7.31]))
        .to_vec();
    let texts = texts(&picture(RATE, rows));
    let numbers = |line: i32| -> Vec<&str> {
        let on_line = texts.iter().filter(|said| (said.at.1 - line).abs() <= 1);
        on_line.map(|said| said.text.as_str()).filter(|text| text.parse::<f64>().is_ok()).collect()
    };
    let lowest = texts.iter().filter(|said| said.text == "50").map(|said| said.at.1).next().expect("a mark");
    assert_eq!(numbers(lowest), ["0", "10", "20", "30", "40", "50"]);
    let column = texts.iter().find(|said| said.text == "7").expect("a mark").at.0;
    let up: Vec<&str> =
        texts.iter().filter(|said| said.at.0 == column).map(|said| said.text.as_str()).collect();
    assert_eq!(up, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn a_title_that_is_too_long_takes_another_line() {
    let title = "Five updates a transaction while a full checkpoint is written ".repeat(3);
    let figure =
        Figure { title: title.clone(), drawn: RATE, rows: vec![bar("a", &[1.0])], ..Figure::default() };
    let texts = texts(&svg(&figure, "here").expect("it is drawn"));
    let lines: Vec<&str> = texts
        .iter()
        .map(|said| said.text.as_str())
        .filter(|text| title.contains(text) && text.len() > 9)
        .collect();
    assert_eq!(lines.join(" "), title.trim_end());
    assert!(lines.len() > 1 && lines.iter().all(|line| line.len() < 110), "{lines:?}");
}

#[test]
fn values_wider_than_their_bars_are_turned() {
    let turned = |bars: u32| {
        let rows = (0..bars).map(|system| {
            Row::new(&format!("system {system}"), Place::Bar("30 B".to_owned()), RATE, vec![1_858_826.0])
        });
        let drawn = picture(RATE, rows.collect());
        let values = elements(&drawn, "text").into_iter().filter(|text| text.contains("1,858,826"));
        let values: Vec<bool> = values.map(|text| text.contains("rotate(270")).collect();
        assert_eq!(values.len(), bars as usize, "{drawn}");
        values
    };
    assert_eq!(turned(4), [false; 4]);
    assert_eq!(turned(16), [true; 16], "side by side they would overlap");
}
