//! The picture of a figure: lines with their spread over numbers, or bars side by side, as SVG.
//!
//! Neighbours: [`super::Figure`] has the rows and writes the file; [`super::panels`] draws with the same fonts and
//! keys.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont,
    PathElement, RGBColor, Rectangle, SVGBackend, ShapeStyle, Text, TextStyle, WHITE,
};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Figure, Place, Row, figures};
use crate::number::{counted, grouped};

const SIZE: (u32, u32) = (960, 576);
pub(super) const FONT: &str = "sans-serif";
/// Sizes of fonts. The backend divides them by 1.24: a text of this size is 11 pixels high.
pub(super) const TEXT_FONT: u32 = 14;
pub(super) const TITLE_FONT: u32 = 19;
/// Pixels that a character of [`TEXT_FONT`] is wide on average, and a line high.
const CHARACTER: f64 = 6.7;
const LINE: u32 = 16;
/// Colours that can be told apart in print and by most eyes (Okabe and Ito).
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// Room below for where the figure comes from.
pub(super) const ORIGIN_HEIGHT: u32 = 6 + 4 * LINE;
/// Space above the title.
pub(super) const TITLE_MARGIN: u32 = 8;
/// Space around the chart, and for the labels of its vertical axis.
const MARGIN: u32 = 12;
pub(super) const LEFT: u32 = 84;
/// Height of the line of keys above a chart.
pub(super) const KEYS_HEIGHT: u32 = 22;
/// Half of a bar's width, where the distance between bars is 1.
const BAR_HALF: f64 = 0.36;
/// Half of the width of a spread's end strokes, as a share of the axis.
const STROKE_SHARE: f64 = 0.006;
/// The most numbers below an axis.
const MARKS_MAX: usize = 16;
/// A line that keeps below this share of the chart would lie on its axis: there the chart begins below zero, by the
/// other share.
const ON_THE_AXIS: f64 = 0.01;
const BELOW_ZERO: f64 = 0.03;
/// Values beyond this are not drawn.
const DRAWN_MAX: f64 = 1e30;

pub(super) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
pub(super) type Drawn<T = ()> = Result<T, Box<dyn Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Marked, RangedCoordf64>>;

/// A horizontal axis that is marked at these places and nowhere between.
struct Marked {
    numbers: RangedCoordf64,
    marks: Vec<f64>,
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.numbers.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.numbers.range()
    }
}

/// A key to what is drawn: how, and what that means.
pub(super) struct Key<'a> {
    pub(super) style: ShapeStyle,
    pub(super) dashed: bool,
    pub(super) what: &'a str,
}

/// Whether a value can stand in a picture. For what is no number, or beyond all that is measured, an axis has no steps.
pub(super) fn is_drawable(value: f64) -> bool {
    value.abs() <= DRAWN_MAX
}

/// Draws the figure; `origin` says below where it comes from.
pub(super) fn svg(figure: &Figure, origin: &str) -> Result<String, String> {
    let mut text = String::new();
    draw(figure, origin, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(figure: &Figure, origin: &str, text: &mut String) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    draw_origin(&area, origin, SIZE)?;
    let (upper, _) = area.split_vertically(SIZE.1 - ORIGIN_HEIGHT);
    let (_, upper) = upper.split_vertically(TITLE_MARGIN);
    let titled = upper.titled(&figure.title, (FONT, TITLE_FONT).into_font())?;
    let mut notes = figure.notes.clone();
    notes.extend(left_out(figure));
    let body = draw_notes(&titled, &notes)?;
    let rows = rows_of(figure, figure.drawn);
    if rows.iter().all(|row| matches!(row.place, Place::Bar(_))) {
        draw_bars(&area, &body, figure, &rows)?;
    } else {
        draw_lines(&body, figure, &rows)?;
    }
    area.present()?;
    Ok(())
}

/// Rows of a metric that can be drawn.
fn rows_of<'f>(figure: &'f Figure, metric: (&str, &str)) -> Vec<&'f Row> {
    figure.rows.iter().filter(|row| is_of(row, metric) && can_be_drawn(row)).collect()
}

fn is_of(row: &Row, metric: (&str, &str)) -> bool {
    metric == (row.metric.as_str(), row.unit)
}

fn can_be_drawn(row: &Row) -> bool {
    let has_place = if let Place::At(at) = row.place { is_drawable(at) } else { true };
    has_place && [row.median, row.min, row.max].into_iter().all(is_drawable)
}

/// Says how many values the picture leaves out, if it does.
fn left_out(figure: &Figure) -> Option<String> {
    let is_meant = |row: &&Row| {
        [Some(figure.drawn), figure.dashed].into_iter().flatten().any(|metric| is_of(row, metric))
    };
    let count = figure.rows.iter().filter(is_meant).filter(|row| !can_be_drawn(row)).count();
    (count > 0).then(|| format!("not drawn: {} that no axis can have", counted(count, "value")))
}

/// Says at the bottom of a picture of that size where it comes from.
pub(super) fn draw_origin(area: &Area<'_>, origin: &str, (width, height): (u32, u32)) -> Drawn {
    let style = (FONT, TEXT_FONT).into_font().color(&BLACK.mix(0.7));
    let characters = f64::from(width - 2 * MARGIN) / CHARACTER;
    // The machine, and on a line of its own the command.
    let lines = origin.split("; ").flat_map(|part| wrapped(part, characters as usize));
    for (line, part) in (0..).zip(lines) {
        let at = (MARGIN as i32, (height - ORIGIN_HEIGHT + 4 + LINE * line) as i32);
        area.draw(&Text::new(part, at, style.clone()))?;
    }
    Ok(())
}

/// Writes notes below the title; what is left of the area.
fn draw_notes<'b>(area: &Area<'b>, notes: &[String]) -> Drawn<Area<'b>> {
    let mut area = area.clone();
    let middle = text_style(BLACK, VPos::Top);
    let characters = f64::from(SIZE.0 - 2 * MARGIN) / CHARACTER;
    for line in notes.iter().flat_map(|note| wrapped(note, characters as usize)) {
        let (above, below) = area.split_vertically(LINE);
        above.draw(&Text::new(line, (SIZE.0 as i32 / 2, 0), middle.clone()))?;
        area = below;
    }
    Ok(area)
}

/// Text around a point, above or below it.
fn text_style(colour: RGBColor, vertical: VPos) -> TextStyle<'static> {
    let style: TextStyle<'static> = (FONT, TEXT_FONT).into_font().color(&colour);
    style.pos(Pos::new(HPos::Center, vertical))
}

/// Lines of at most `width` characters, cut between words; a number stays with what stands before it, and with its
/// unit.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let mut pieces: Vec<String> = Vec::new();
    let mut before = "";
    for word in text.split_whitespace() {
        let has_unit = is_number(before) && !before.ends_with([',', ';', ':']) && !word.starts_with('-');
        match pieces.last_mut() {
            Some(piece) if is_number(word) || has_unit => *piece = format!("{piece} {word}"),
            _ => pieces.push(word.to_owned()),
        }
        before = word;
    }
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + piece.len() <= width => *line = format!("{line} {piece}"),
            _ => lines.push(piece),
        }
    }
    lines
}

/// Draws a line of keys, above the curves and not over them.
pub(super) fn draw_keys(area: &Area<'_>, keys: &[Key<'_>]) -> Drawn {
    let middle = KEYS_HEIGHT as i32 / 2;
    let mut left = (LEFT + MARGIN) as i32;
    for Key { style, dashed, what } in keys {
        let strokes: &[(i32, i32)] = if *dashed { &[(0, 7), (11, 18)] } else { &[(0, 18)] };
        for (from, to) in strokes {
            area.draw(&PathElement::new(vec![(left + from, middle), (left + to, middle)], *style))?;
        }
        area.draw(&Text::new(*what, (left + 24, middle - TEXT_FONT as i32 / 2), (FONT, TEXT_FONT)))?;
        left += 46 + (what.len() as f64 * CHARACTER) as i32;
    }
    Ok(())
}

/// A number at an axis that ends at `top`: as many digits as its steps need, the same for all.
pub(super) fn axis_number(at: f64, top: f64) -> String {
    // An axis has about ten steps, each of one digit that is not zero.
    let decimals = (-(top / 10.0).log10()).ceil().clamp(0.0, 9.0) as usize;
    if decimals == 0 { grouped(at) } else { format!("{at:.decimals$}") }
}

/// Axes and mesh: `marks` is what is marked below and how it is called, `below` the room for that.
fn chart_on<'a, 'b>(
    area: &'a Area<'b>,
    figure: &Figure,
    (across, marks): (Range<f64>, Vec<f64>),
    up: Range<f64>,
    (below, name_of): (u32, &dyn Fn(f64) -> String),
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(below)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(Marked { numbers: across.into(), marks }, up.clone())?;
    let (drawn, unit) = figure.drawn;
    let dashed = figure.dashed.map_or_else(String::new, |(metric, _)| format!(", {metric}"));
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .disable_x_mesh()
        .axis_desc_style((FONT, TEXT_FONT + 1))
        .label_style((FONT, TEXT_FONT))
        .x_desc(figure.horizontal)
        .y_desc(format!("{drawn}{dashed} ({unit})"))
        .x_label_formatter(&|at| name_of(*at))
        .y_label_formatter(&|at| if *at < 0.0 { String::new() } else { axis_number(*at, up.end) })
        .draw()?;
    Ok(chart)
}

/// The upper end of a vertical axis.
fn top(rows: &[&Row]) -> f64 {
    rows.iter().map(|row| row.max).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.08
}

/// The numbered places of rows, each once, in order.
fn places(rows: &[&Row]) -> Vec<f64> {
    let mut places: Vec<f64> =
        rows.iter().filter_map(|row| if let Place::At(at) = row.place { Some(at) } else { None }).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// The horizontal range of places, with some room at its ends.
fn across(places: &[f64]) -> Range<f64> {
    let (least, most) = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(0.0));
    let room = if most > least { (most - least) * 0.06 } else { 0.5 };
    least - room..most + room
}

fn systems<'r>(rows: &[&'r Row]) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.system.as_str()) {
            names.push(&row.system);
        }
    }
    names
}

/// A spread: a line from the least to the most, with strokes at its ends. One round has none.
fn spread(row: &Row, at: f64, stroke: f64, colour: RGBColor) -> Vec<PathElement<(f64, f64)>> {
    let paths = [
        [(at, row.min), (at, row.max)],
        [(at - stroke, row.min), (at + stroke, row.min)],
        [(at - stroke, row.max), (at + stroke, row.max)],
    ];
    let paths = paths.into_iter().filter(|_| row.rounds > 1);
    paths.map(|path| PathElement::new(path.to_vec(), colour.stroke_width(1))).collect()
}

fn draw_lines(area: &Area<'_>, figure: &Figure, rows: &[&Row]) -> Drawn {
    let names = systems(rows);
    let dashed = figure.dashed.map(|metric| rows_of(figure, metric)).unwrap_or_default();
    let coloured = |index: usize| COLOURS[index % COLOURS.len()];
    let key = |style: RGBColor, dashed, what| Key { style: style.stroke_width(2), dashed, what };
    let mut keys: Vec<Key<'_>> =
        names.iter().enumerate().map(|(index, name)| key(coloured(index), false, *name)).collect();
    if let Some((metric, _)) = figure.dashed {
        keys.extend([key(BLACK, false, figure.drawn.0), key(BLACK, true, metric)]);
    }
    let (above, area) = area.split_vertically(KEYS_HEIGHT);
    draw_keys(&above, &keys)?;
    let all = [rows, &dashed].concat();
    let (top, places) = (top(&all), places(&all));
    let lowest = rows.iter().map(|row| row.median).fold(f64::INFINITY, f64::min);
    let bottom = if lowest < top * ON_THE_AXIS { -top * BELOW_ZERO } else { 0.0 };
    let (across, every) = (across(&places), places.len().div_ceil(MARKS_MAX).max(1));
    let stroke = (across.end - across.start) * STROKE_SHARE;
    let marks = places.into_iter().step_by(every).collect();
    let number = |at: f64| Place::At(at).to_string();
    let mut chart = chart_on(&area, figure, (across, marks), bottom..top, (44, &number))?;
    for (rows, is_dashed) in [(rows, false), (&dashed, true)] {
        for (index, name) in names.iter().enumerate() {
            let own = rows.iter().filter(|row| row.system == *name);
            let own =
                own.filter_map(|row| if let Place::At(at) = row.place { Some((at, *row)) } else { None });
            let own: Vec<(f64, &Row)> = own.collect();
            let (colour, points) = (coloured(index), own.iter().map(|(at, row)| (*at, row.median)));
            let points: Vec<(f64, f64)> = points.collect();
            let style = colour.stroke_width(2);
            if is_dashed {
                chart.draw_series(DashedLineSeries::new(points.clone(), 8, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(points.clone(), style))?;
            }
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
            chart.draw_series(own.iter().flat_map(|(at, row)| spread(row, *at, stroke, colour)))?;
        }
    }
    Ok(())
}

/// Bars with their values in them and their names below; `root` is the whole picture.
fn draw_bars(root: &Area<'_>, area: &Area<'_>, figure: &Figure, rows: &[&Row]) -> Drawn {
    let across = -0.6..rows.len().max(1) as f64 - 0.4;
    let width = f64::from(SIZE.0 - LEFT - 2 * MARGIN) / (across.end - across.start);
    let named = |row: &&Row| wrapped(&row.place.to_string(), (width / CHARACTER) as usize);
    let names: Vec<Vec<String>> = rows.iter().map(named).collect();
    let lines = names.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let below = 14 + LINE * lines + if figure.horizontal.is_empty() { 0 } else { LINE + 6 };
    let (marks, stroke) = ((0..rows.len()).map(|bar| bar as f64), (across.end - across.start) * STROKE_SHARE);
    let nameless = |_: f64| String::new();
    let mut chart = chart_on(area, figure, (across, marks.collect()), 0.0..top(rows), (below, &nameless))?;
    let systems = systems(rows);
    for ((index, row), name) in rows.iter().enumerate().zip(names) {
        let at = index as f64;
        let colour =
            COLOURS[systems.iter().position(|name| *name == row.system).unwrap_or(0) % COLOURS.len()];
        let bar = [(at - BAR_HALF, 0.0), (at + BAR_HALF, row.median)];
        chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        chart.draw_series(spread(row, at, stroke, BLACK))?;
        let height_of = |value: f64| chart.backend_coord(&(at, value)).1;
        let (middle, foot) = chart.backend_coord(&(at, 0.0));
        // The value stands at the bar's foot, clear of the spread; above both where there is no room.
        let has_room = foot - height_of(row.median.min(row.min)) >= LINE as i32 + 6;
        let (ink, height) =
            if has_room { (ink_on(colour), foot - 4) } else { (BLACK, height_of(row.max) - 4) };
        root.draw(&Text::new(figures(row.median), (middle, height), text_style(ink, VPos::Bottom)))?;
        for (line, part) in (0..).zip(name) {
            let height = foot + 9 + LINE as i32 * line;
            root.draw(&Text::new(part, (middle, height), text_style(BLACK, VPos::Top)))?;
        }
    }
    Ok(())
}

/// White, or black where white could not be read.
fn ink_on(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let brightness = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if brightness > 140_000 { BLACK } else { WHITE }
}

#[cfg(test)]
mod tests;
