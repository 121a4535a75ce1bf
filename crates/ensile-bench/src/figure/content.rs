//! Content of a figure: rows, and the choice of the drawn values.
//!
//! Neighbours: experiments make the content; [`super::drawing`] and [`super::series`] draw it.

use super::rows::Row;
use crate::verdict::Judged;

/// The lines of a picture that are drawn with dashes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Dashed {
    #[default]
    /// No dashed line.
    Nothing,
    /// Another metric of the drawn unit, in the colours of its systems.
    Metric((&'static str, &'static str)),
    /// Systems of the second scheme, beside solid lines of the first scheme. A system has a name `SCHEME, GROUP` and
    /// the colour of the group.
    Scheme([&'static str; 2]),
}

impl Dashed {
    pub(super) fn metric(self) -> Option<(&'static str, &'static str)> {
        if let Self::Metric(metric) = self { Some(metric) } else { None }
    }
}

/// A measured figure before the figure is written.
#[derive(Debug, Default)]
pub struct Figure {
    /// Name of the files.
    pub name: &'static str,
    /// Title above the picture.
    pub title: String,
    /// Text under the horizontal axis, with the unit.
    pub horizontal: &'static str,
    /// The drawn metric and the unit. The tables contain every metric.
    pub drawn: (&'static str, &'static str),
    /// Lines that are drawn with dashes.
    pub dashed: Dashed,
    /// Lines below the title.
    pub notes: Vec<String>,
    /// Measured values.
    pub rows: Vec<Row>,
    /// Verdicts on the measured values.
    pub verdicts: Vec<Judged>,
}
