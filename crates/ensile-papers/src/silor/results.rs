//! Results of experiments, before they are written.
//!
//! Neighbours: every experiment of [`super`] ends in a result.

use ensile_bench::figure::{Figure, OverTime};

/// The result of an experiment.
pub(super) enum Made {
    OverTime(OverTime),
    /// Rows, true if every limit holds, and the verdicts as text.
    Rows(Figure, bool, String),
}
