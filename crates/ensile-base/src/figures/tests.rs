//! Tests of lists of figures and of the text for Prometheus.

use std::time::Duration;

use super::{Figure, FigureKind, FigureList, FigureUnit, write_prometheus};
use crate::Epoch;

struct Inner {
    share: Option<f64>,
    nanos: u64,
}

crate::figures! { Inner {
    share: gauge(Ratio, "share_ratio", "a \\ b\nc");
    nanos: nanos("apply_seconds", "time");
} }

struct Outer {
    count: u64,
    epoch: Epoch,
    elapsed: Duration,
    is_open: bool,
    error: Option<&'static str>,
    inner: Option<Inner>,
}

crate::figures! { Outer {
    count: counter(Number, "count_total", "count");
    epoch: gauge(Epoch, "epoch", "epoch");
    elapsed: gauge(Seconds, "elapsed_seconds", "elapsed");
    is_open: gauge(Flag, "open", "open");
    error: presence("failing", "failing"), flag("lost", "lost", |error| *error == Some("lost"));
    inner: part();
} }

fn outer(inner: Option<Inner>) -> Outer {
    let elapsed = Duration::from_millis(1500);
    Outer { count: 1 << 60, epoch: Epoch::new(9), elapsed, is_open: true, error: Some("lost"), inner }
}

fn values(figures: &[Figure]) -> Vec<(&str, Option<f64>)> {
    figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect()
}

#[test]
fn values_are_in_base_units() {
    let figures = FigureList::collect("x", &outer(Some(Inner { share: Some(0.1), nanos: 250_000_000 })));
    let expected = [
        ("x_count_total", Some((1u64 << 60) as f64)),
        ("x_epoch", Some(9.0)),
        ("x_elapsed_seconds", Some(1.5)),
        ("x_open", Some(1.0)),
        ("x_failing", Some(1.0)),
        ("x_lost", Some(1.0)),
        ("x_share_ratio", Some(0.1)),
        ("x_apply_seconds", Some(0.25)),
    ];
    assert_eq!(values(&figures), expected);
}

#[test]
fn a_missing_part_has_figures_without_values() {
    let figures = FigureList::collect("x", &outer(None));
    assert_eq!(values(&figures)[6..], [("x_share_ratio", None), ("x_apply_seconds", None)]);
    let fields: Vec<_> = figures.iter().map(|figure| figure.field.as_str()).collect();
    let expected = ["count", "epoch", "elapsed", "is_open", "error", "error", "inner.share", "inner.nanos"];
    assert_eq!(fields, expected);
}

#[test]
fn a_value_that_is_no_number_is_missing() {
    for share in [f64::NAN, f64::INFINITY] {
        let figures = FigureList::collect("x", &Inner { share: Some(share), nanos: 1 });
        assert_eq!(figures[0].value, None);
    }
}

#[test]
fn text_escapes_help_and_leaves_missing_values_out() {
    let mut text = String::from("# before\n");
    write_prometheus(&FigureList::collect("x", &Inner { share: Some(1e-7), nanos: 0 }), &mut text);
    let expected = "# before\n\
        # HELP x_share_ratio a \\\\ b\\nc\n# TYPE x_share_ratio gauge\nx_share_ratio 0.0000001\n\
        # HELP x_apply_seconds time\n# TYPE x_apply_seconds gauge\nx_apply_seconds 0\n";
    assert_eq!(text, expected);
    text.clear();
    write_prometheus(&FigureList::collect("x", &Inner { share: None, nanos: 7 }), &mut text);
    assert!(!text.contains("share"), "{text}");
}

#[test]
fn a_name_tells_one_unit() {
    let units = [
        ("x_log_bytes", FigureUnit::Bytes),
        ("x_load_bytes_per_second", FigureUnit::BytesPerSecond),
        ("x_entries_per_second", FigureUnit::NumberPerSecond),
        ("x_epoch", FigureUnit::Epoch),
    ];
    for (name, unit) in units {
        assert!(unit.matches_name(name), "{name}");
        assert!(!FigureUnit::Number.matches_name(name), "{name}");
        assert!(!FigureUnit::Seconds.matches_name(name), "{name}");
    }
    assert!(FigureUnit::Number.matches_name("x_files") && !FigureUnit::Bytes.matches_name("x_files"));
    assert_eq!([FigureKind::Counter, FigureKind::Gauge].map(|kind| kind.to_string()), ["counter", "gauge"]);
}
