//! Table 3 of the paper: extra memory of a full picture at its peak, by the rate of updates.
//!
//! Neighbours: [`super::formulas`] works it out.

use super::Made;
use super::arguments::SirenArguments;
use super::formulas::peak_share;
use crate::failure::Result;
use crate::figure::{Figure, Place, Row};
use crate::number::grouped;

/// What is drawn.
const PEAK: (&str, &str) = ("there twice at the peak", "% of the rows");

/// Skewed updates: this share of them goes to this part of the rows.
const HOT_UPDATES: f64 = 0.99;
const HOT_ROWS: f64 = 0.01;

/// Both formulas at the rates that were asked for.
pub(super) fn by_formulas(arguments: &SirenArguments) -> Result<Made> {
    let mut rows = Vec::new();
    for &updates in &arguments.updates {
        let rates = arguments.rates(updates);
        let skewed = rates.skewed(HOT_UPDATES, HOT_ROWS);
        for (name, share) in [
            ("SIREN, formula (1)", peak_share(&[rates], 1.0)),
            ("pages, formula (2)", peak_share(&[rates], arguments.rows_per_page())),
            ("SIREN, 99 % on 1 %", peak_share(&skewed, 1.0)),
        ] {
            rows.push(Row::new(name, Place::At(updates as f64), PEAK, vec![share * 100.0]));
        }
    }
    rows.sort_by(|a, b| a.system.cmp(&b.system));
    let title = format!(
        "Extra memory by the formulas: {} rows, {} written a second, {:.1} a page",
        grouped(arguments.rows as f64),
        grouped(arguments.formula_writes as f64),
        arguments.rows_per_page()
    );
    let figure =
        Figure { name: "formulas", title, horizontal: "updates/s", drawn: PEAK, rows, ..Figure::default() };
    Ok(Made(figure, true, String::new()))
}
