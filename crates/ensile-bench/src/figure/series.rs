//! Series of a picture: the drawn systems with colour and stroke.
//!
//! Invariant: a colour stands for one system, or one group of systems, in every picture of the same rows.
//!
//! [`super::drawing`] and [`super::panels`] draw the series.

use plotters::prelude::{Color, HSLColor, RGBColor};

use super::content::{Dashed, Figure};
use super::rows::{RATIO, Row};

/// Colours that differ in print and for most eyes (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// Share of the circle of hues between two further colours.
const HUE_STEP: f64 = 0.618;
const SATURATION: f64 = 0.6;
const LIGHTNESS: f64 = 0.3;

/// The colour with number `index`.
pub(super) fn colour(index: usize) -> RGBColor {
    COLOURS.get(index).copied().unwrap_or_else(|| {
        let hue = ((index - COLOURS.len()) as f64 * HUE_STEP).fract();
        let (red, green, blue) = HSLColor(hue, SATURATION, LIGHTNESS).to_backend_color().rgb;
        RGBColor(red, green, blue)
    })
}

/// A drawn system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'f> {
    pub(super) system: &'f str,
    /// The name of the colour in the picture's key.
    pub(super) group: &'f str,
    pub(super) colour: RGBColor,
    pub(super) is_dashed: bool,
}

/// The systems of the drawn rows. Colours count over every row of the drawn unit, so pictures of the same rows agree.
pub(super) fn series<'f>(figure: &'f Figure, drawn: &[&Row]) -> Vec<Series<'f>> {
    let (mut groups, mut all): (Vec<&str>, Vec<Series<'_>>) = (Vec::new(), Vec::new());
    let (metric, unit) = figure.drawn;
    let shares_axis = |row: &&Row| row.unit == unit && (row.metric != RATIO.0 || metric == RATIO.0);
    for row in figure.rows.iter().filter(shares_axis) {
        let (group, is_dashed) = figure.dashed.group_of(&row.system);
        let index = groups.iter().position(|other| *other == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        });
        if all.iter().all(|series| series.system != row.system) {
            all.push(Series { system: &row.system, group, colour: colour(index), is_dashed });
        }
    }
    all.retain(|series| drawn.iter().any(|row| row.system == series.system));
    all
}

impl Dashed {
    /// The group that sets the system's colour, and true if the system is dashed.
    fn group_of<'s>(&self, system: &'s str) -> (&'s str, bool) {
        let Self::Scheme([solid, dashed]) = self else { return (system, false) };
        let behind = |scheme: &str| system.strip_prefix(scheme)?.strip_prefix(", ");
        match (behind(solid), behind(dashed)) {
            (Some(group), _) => (group, false),
            (None, Some(group)) => (group, true),
            (None, None) => (system, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::colour;

    #[test]
    fn no_two_series_have_one_colour() {
        let mut colours: Vec<_> = (0..30).map(colour).map(|colour| (colour.0, colour.1, colour.2)).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 30);
    }
}
