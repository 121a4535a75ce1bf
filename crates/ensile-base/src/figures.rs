//! Named figures: the fields of a struct of statistics, each with name, kind, unit and meaning, for Prometheus.
//!
//! The macro [`figures!`](crate::figures!) states the figures of a struct in one table. The table names every field: a
//! field without a row is an error of the compiler.
//!
//! Invariants:
//! - A list has every figure of its table, even if the statistics lack a part. Such figures have no value.
//! - A name stands once in a list, and tells kind and unit by its end ([`FigureKind`], [`FigureUnit`]).
//! - A value is finite.
//!
//! Neighbours: memory, durability, engine and objects have the tables; the engine and the objects offer the list and
//! the text to applications.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::Epoch;

/// A figure of the statistics.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Figure {
    /// Name for Prometheus, such as `ensile_log_written_bytes_total`.
    pub name: String,
    /// Path of the field in the statistics, such as `log.bytes`.
    pub field: String,
    /// Kind of the figure.
    pub kind: FigureKind,
    /// Unit of the value.
    pub unit: FigureUnit,
    /// Meaning of the figure.
    pub help: &'static str,
    /// Finite value in `unit`, exact up to 2^53; `None` if the statistics have no such value now.
    pub value: Option<f64>,
}

/// Kind of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FigureKind {
    /// A count since the open, which never falls. The name ends in `_total`.
    Counter,
    /// A present value, which may fall.
    Gauge,
}

impl fmt::Display for FigureKind {
    /// One word, as in the text of Prometheus: `counter` or `gauge`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        })
    }
}

/// Unit of a [`Figure`]. The end of the name tells the unit, before the `_total` of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FigureUnit {
    /// A number of things, which the name names.
    Number,
    /// 1 for true, 0 for false.
    Flag,
    /// Bytes: `_bytes`.
    Bytes,
    /// Seconds: `_seconds`.
    Seconds,
    /// A fraction: `_ratio`. 1 is the whole.
    Ratio,
    /// The number of an epoch: `_epoch`.
    Epoch,
    /// Bytes in a second: `_bytes_per_second`.
    BytesPerSecond,
    /// A number of things in a second: `_per_second`.
    NumberPerSecond,
}

impl FigureUnit {
    /// Units that a name tells, with the end of the name. A longer end comes before an end that it contains.
    const NAMED: [(Self, &'static str); 6] = [
        (Self::BytesPerSecond, "_bytes_per_second"),
        (Self::NumberPerSecond, "_per_second"),
        (Self::Bytes, "_bytes"),
        (Self::Seconds, "_seconds"),
        (Self::Ratio, "_ratio"),
        (Self::Epoch, "_epoch"),
    ];

    /// True if a name with this end, without `_total`, tells this unit and no other unit.
    fn matches_name(self, name: &str) -> bool {
        match Self::NAMED.iter().find(|(_, end)| name.ends_with(end)) {
            Some((named, _)) => *named == self,
            None => matches!(self, Self::Number | Self::Flag),
        }
    }
}

impl fmt::Display for FigureUnit {
    /// The unit in words, such as `bytes per second`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "number",
            Self::Flag => "flag",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Ratio => "ratio",
            Self::Epoch => "epoch",
            Self::BytesPerSecond => "bytes per second",
            Self::NumberPerSecond => "number per second",
        })
    }
}

/// Serializes these types as their texts.
#[cfg(feature = "serde")]
macro_rules! serialize_texts {
    ($($type:ty),+) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

#[cfg(feature = "serde")]
serialize_texts!(FigureKind, FigureUnit);

/// Statistics with a table of figures, made by [`figures!`](crate::figures!).
pub trait Figures {
    /// Adds all figures to `list`. Without statistics, no figure has a value.
    fn add_figures(stats: Option<&Self>, list: &mut FigureList);
}

/// Statistics that may be missing.
impl<S: Figures> Figures for Option<S> {
    fn add_figures(stats: Option<&Self>, list: &mut FigureList) {
        S::add_figures(stats.and_then(Option::as_ref), list);
    }
}

/// Type of a field that is a figure.
pub trait FigureValue {
    /// Value in the base unit; `None` if the field has no value.
    fn in_base_unit(&self) -> Option<f64>;
}

impl FigureValue for u64 {
    fn in_base_unit(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl FigureValue for f64 {
    fn in_base_unit(&self) -> Option<f64> {
        Some(*self)
    }
}

impl FigureValue for bool {
    fn in_base_unit(&self) -> Option<f64> {
        Some(f64::from(u8::from(*self)))
    }
}

impl FigureValue for Duration {
    fn in_base_unit(&self) -> Option<f64> {
        Some(self.as_secs_f64())
    }
}

impl FigureValue for Epoch {
    fn in_base_unit(&self) -> Option<f64> {
        self.number().in_base_unit()
    }
}

impl<V: FigureValue> FigureValue for Option<V> {
    fn in_base_unit(&self) -> Option<f64> {
        self.as_ref().and_then(V::in_base_unit)
    }
}

/// Meaning of a figure, as a row of a table states it.
struct Meaning {
    kind: FigureKind,
    unit: FigureUnit,
    name: &'static str,
    help: &'static str,
}

/// A list of figures that grows by tables. The methods are the kinds of rows. Each takes the field first, which is
/// `None` if the statistics are missing.
#[derive(Debug)]
pub struct FigureList {
    /// Beginning of all names, before an underscore.
    prefix: &'static str,
    /// Fields that lead from the statistics to the present field.
    path: Vec<&'static str>,
    figures: Vec<Figure>,
}

impl FigureList {
    /// The figures of `stats`, with names that begin with `prefix`.
    #[must_use]
    pub fn collect<S: Figures>(prefix: &'static str, stats: &S) -> Vec<Figure> {
        let mut list = Self { prefix, path: Vec::new(), figures: Vec::new() };
        S::add_figures(Some(stats), &mut list);
        debug_assert!(list.path.is_empty(), "a field that was entered is left");
        list.figures
    }

    /// Begins the rows of a field.
    pub fn enter(&mut self, field: &'static str) {
        self.path.push(field);
    }

    /// Ends the rows of a field.
    pub fn leave(&mut self) {
        assert!(self.path.pop().is_some(), "a field that is left was entered");
    }

    /// A count since the open.
    pub fn counter(&mut self, value: Option<&u64>, unit: FigureUnit, name: &'static str, help: &'static str) {
        self.add(Meaning { kind: FigureKind::Counter, unit, name, help }, value.map(|count| *count as f64));
    }

    /// A present value.
    pub fn gauge<V: FigureValue>(
        &mut self,
        value: Option<&V>,
        unit: FigureUnit,
        name: &'static str,
        help: &'static str,
    ) {
        self.add(Meaning { kind: FigureKind::Gauge, unit, name, help }, value.and_then(V::in_base_unit));
    }

    /// A present time in nanoseconds, shown in seconds.
    pub fn nanos(&mut self, value: Option<&u64>, name: &'static str, help: &'static str) {
        let time = value.map(|nanos| Duration::from_nanos(*nanos));
        self.gauge(time.as_ref(), FigureUnit::Seconds, name, help);
    }

    /// True while the field is present.
    pub fn presence<T>(&mut self, value: Option<&Option<T>>, name: &'static str, help: &'static str) {
        self.flag(value, name, help, Option::is_some);
    }

    /// True while the field has this property.
    pub fn flag<T>(
        &mut self,
        value: Option<&T>,
        name: &'static str,
        help: &'static str,
        is_set: impl Fn(&T) -> bool,
    ) {
        self.gauge(value.map(is_set).as_ref(), FigureUnit::Flag, name, help);
    }

    /// Further statistics with a table of their own.
    pub fn part<S: Figures>(&mut self, stats: Option<&S>) {
        S::add_figures(stats, self);
    }

    /// A text, a reason or a detail, which is no figure.
    pub fn no_figure<T>(&mut self, _: Option<&T>) {}

    fn add(&mut self, meaning: Meaning, value: Option<f64>) {
        let Meaning { kind, unit, name, help } = meaning;
        let name = format!("{}_{name}", self.prefix);
        debug_assert!(is_metric_name(&name), "{name} is no name for Prometheus");
        let total = name.strip_suffix("_total");
        debug_assert_eq!(total.is_some(), kind == FigureKind::Counter, "{name} tells its kind");
        debug_assert!(unit.matches_name(total.unwrap_or(&name)), "{name} tells its unit, {unit}");
        debug_assert!(self.figures.iter().all(|figure| figure.name != name), "{name} stands once");
        let value = value.filter(|value| value.is_finite());
        self.figures.push(Figure { name, field: self.path.join("."), kind, unit, help, value });
    }
}

/// True if Prometheus takes the name, and the name is in lower case. Colons are for rules of Prometheus itself.
fn is_metric_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// Appends the figures to `text`, in the text format 0.0.4 of Prometheus: three lines for each figure with a value.
pub fn write_prometheus(figures: &[Figure], text: &mut String) {
    for Figure { name, kind, help, value, .. } in figures {
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // A write to memory does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
}

/// States the figures of a struct: implements [`Figures`](crate::figures::Figures) by a table with all fields. A row
/// has the field, the kind of row (a method of [`FigureList`](crate::figures::FigureList)), and the arguments of the
/// method. A field may have several rows, with commas between the rows.
///
/// ```
/// use ensile_base::figures::FigureList;
///
/// struct Queue {
///     pushed: u64,
///     waiting_bytes: u64,
///     error: Option<String>,
/// }
///
/// ensile_base::figures! { Queue {
///     pushed: counter(Number, "pushed_total", "Entries that were pushed");
///     waiting_bytes: gauge(Bytes, "waiting_bytes", "Bytes of the waiting entries");
///     error: presence("failing", "1 while the queue takes no entries");
/// } }
///
/// let figures = FigureList::collect("queue", &Queue { pushed: 7, waiting_bytes: 80, error: None });
/// let values: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
/// let expected =
///     [("queue_pushed_total", Some(7.0)), ("queue_waiting_bytes", Some(80.0)), ("queue_failing", Some(0.0))];
/// assert_eq!(values, expected);
/// ```
#[macro_export]
macro_rules! figures {
    ($stats:ident { $($field:ident: $($row:ident($($argument:expr),*)),+;)+ }) => {
        impl $crate::figures::Figures for $stats {
            fn add_figures(stats: Option<&Self>, list: &mut $crate::figures::FigureList) {
                use $crate::figures::FigureUnit::*;

                // A field that is missing in the table, or is there twice, is an error here.
                const _: fn(&$stats) = |$stats { $($field: _),+ }| ();
                $(
                    list.enter(stringify!($field));
                    $(list.$row(stats.map(|stats| &stats.$field) $(, $argument)*);)+
                    list.leave();
                )+
            }
        }
    };
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
