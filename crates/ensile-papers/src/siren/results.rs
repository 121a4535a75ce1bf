//! Results of experiments, before they are written.
//!
//! Neighbours: every experiment of [`super`] ends in a result.

use ensile_bench::figure::Figure;

/// The result of an experiment: figures, true if every value is as asked, and words about the result.
pub(super) struct Made(pub(super) Vec<Figure>, pub(super) bool, pub(super) String);
