//! The picture of a figure: lines with their spread over numbers, or bars side by side, as SVG.
//!
//! [`super::Figure`] has the rows and writes the file. [`super::panels`] draws with the same fonts. Axes, keys and
//! colours are [`super::axis`], [`super::keys`] and [`super::series`].

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont,
    PathElement, RGBColor, Rectangle, SVGBackend, Text, TextStyle, WHITE,
};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::content::{Dashed, Figure};
use super::keys::{Key, Sample, draw_keys};
use super::rows::{Place, Row, figures};
use super::series::{Series, colour, series};
use crate::number::counted;

const SIZE: (u32, u32) = (960, 576);
pub(super) const FONT: &str = "sans-serif";
/// Sizes of fonts. The backend divides them by 1.24: a text of this size is 11 pixels high.
pub(super) const TEXT_FONT: u32 = 14;
const TITLE_FONT: u32 = 19;
/// Pixels that a character of [`TEXT_FONT`] and of [`TITLE_FONT`] is wide on average, and a line high.
pub(super) const CHARACTER: f64 = 6.7;
const TITLE_CHARACTER: f64 = 8.8;
const LINE: u32 = 16;
/// Height of the figure's origin at the bottom.
pub(super) const ORIGIN_HEIGHT: u32 = 6 + 4 * LINE;
/// Space above the title.
const TITLE_MARGIN: u32 = 8;
/// Space around the chart, and for the labels of its vertical axis.
pub(super) const MARGIN: u32 = 12;
pub(super) const LEFT: u32 = 84;
/// Half of a bar's width and the gap between groups of bars, where the distance between bars is 1.
const BAR_HALF: f64 = 0.36;
const GROUP_GAP: f64 = 0.5;
/// Half of the width of a spread's end strokes, as a share of the axis.
const STROKE_SHARE: f64 = 0.006;
/// Most places that are marked below an axis. More places have round numbers instead.
const MARKS_MAX: usize = 16;
/// Most ticks of a horizontal axis, and pixels between two ticks of a vertical one.
pub(super) const ACROSS_TICKS_MAX: usize = 10;
const TICK_HEIGHT: u32 = 36;
/// A line below this share of the chart would lie on its axis. Such a chart begins below zero, by the other share.
const ON_THE_AXIS: f64 = 0.01;
const BELOW_ZERO: f64 = 0.03;
/// Values beyond this are not drawn.
const DRAWN_MAX: f64 = 1e30;
/// Share of a vertical axis above the largest value.
const HEADROOM: f64 = 1.08;

pub(super) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
pub(super) type Drawn<T = ()> = Result<T, Box<dyn Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// True if a value can stand in a picture. An axis has no steps for other values.
pub(super) fn is_drawable(value: f64) -> bool {
    value.abs() <= DRAWN_MAX
}

/// Draws the figure with its origin at the bottom.
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
    let titled = titled(&upper, &figure.title)?;
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

/// A note with the number of values that the picture leaves out, if any.
fn left_out(figure: &Figure) -> Option<String> {
    let is_meant = |row: &&Row| {
        [Some(figure.drawn), figure.dashed.metric()].into_iter().flatten().any(|metric| is_of(row, metric))
    };
    let count = figure.rows.iter().filter(is_meant).filter(|row| !can_be_drawn(row)).count();
    (count > 0).then(|| format!("not drawn: {} that no axis can have", counted(count, "value")))
}

/// Writes the origin at the bottom of a picture of that size.
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

/// Writes a title at the top of an area, on as many lines as the title needs. Returns the rest of the area.
pub(super) fn titled<'b>(area: &Area<'b>, title: &str) -> Drawn<Area<'b>> {
    let characters = f64::from(area.dim_in_pixel().0 - 2 * MARGIN) / TITLE_CHARACTER;
    let (_, mut area) = area.split_vertically(TITLE_MARGIN);
    for line in wrapped(title, characters as usize) {
        area = area.titled(&line, (FONT, TITLE_FONT).into_font())?;
    }
    Ok(area)
}

/// Writes notes below the title. Returns the rest of the area.
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

/// Text that reads upwards from a point.
fn turned_style(colour: RGBColor) -> TextStyle<'static> {
    let font = (FONT, TEXT_FONT).into_font().transform(FontTransform::Rotate270);
    font.color(&colour).pos(Pos::new(HPos::Left, VPos::Center))
}

/// Lines of at most `width` characters, cut between words. A number stays with the word before, and with its unit.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
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
            Some(line) if line.chars().count() + 1 + piece.chars().count() <= width => {
                *line = format!("{line} {piece}")
            }
            _ => lines.push(piece),
        }
    }
    lines
}

/// Axes and mesh; `below` is the height of the labels below, and `name_of` their texts.
fn chart_on<'a, 'b>(
    area: &'a Area<'b>,
    figure: &Figure,
    (across, up): (Axis, Axis),
    (below, name_of): (u32, &dyn Fn(f64) -> String),
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(below)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(across, up.clone())?;
    let (drawn, unit) = figure.drawn;
    let dashed = figure.dashed.metric().map_or_else(String::new, |(metric, _)| format!(", {metric}"));
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .disable_x_mesh()
        .axis_desc_style((FONT, TEXT_FONT + 1))
        .label_style((FONT, TEXT_FONT))
        .x_desc(figure.horizontal)
        .y_desc(format!("{drawn}{dashed} ({unit})"))
        .x_label_formatter(&|at| name_of(*at))
        .y_label_formatter(&|at| up.text(*at))
        .draw()?;
    Ok(chart)
}

/// A vertical axis in an area whose labels below the chart have that height.
fn up_axis(area: &Area<'_>, range: Range<f64>, below: u32) -> Axis {
    let height = area.dim_in_pixel().1.saturating_sub(below + 2 * MARGIN);
    Axis::round(range, (height / TICK_HEIGHT).max(2) as usize)
}

/// The upper end of a vertical axis.
fn top(rows: &[&Row]) -> f64 {
    let most = rows.iter().map(|row| row.max).fold(0.0, f64::max) * HEADROOM;
    if most > f64::MIN_POSITIVE / f64::EPSILON { most } else { 1.0 }
}

/// The numbered places of rows, each once, in order.
fn places(rows: &[&Row]) -> Vec<f64> {
    let mut places: Vec<f64> = rows.iter().filter_map(|row| at_of(row)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

fn at_of(row: &Row) -> Option<f64> {
    if let Place::At(at) = row.place { Some(at) } else { None }
}

/// The horizontal axis of places, with some room at the ends. A few whole places are marked themselves, unless their
/// texts touch; otherwise round numbers are marked.
fn across_axis(places: &[f64], width: u32) -> Axis {
    let (least, most) = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(0.0));
    let room = if most > least { (most - least) * 0.06 } else { 0.5 };
    let range = least - room..most + room;
    let is_whole = |place: &f64| place.fract() == 0.0;
    if places.len() > MARKS_MAX || !places.iter().all(is_whole) {
        let mut axis = Axis::round(range, ACROSS_TICKS_MAX);
        axis.ticks.retain(|tick| *tick >= least.min(0.0));
        return axis;
    }
    let characters = Axis::marked(range.clone(), Vec::new()).text(most).len() + 1;
    let apart = characters as f64 * CHARACTER * (range.end - range.start) / f64::from(width);
    let mut marks: Vec<f64> = Vec::new();
    for &place in places {
        if marks.last().is_none_or(|last| place - last >= apart) {
            marks.push(place);
        }
    }
    Axis::marked(range, marks)
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

/// The keys of lines: each colour once, then the strokes.
fn line_keys<'f>(figure: &'f Figure, all: &[Series<'f>]) -> Vec<Key<'f>> {
    let line = |colour: RGBColor| Sample::Line(colour.stroke_width(2));
    let mut keys: Vec<Key<'_>> = Vec::new();
    for Series { group, colour, .. } in all {
        if keys.iter().all(|key| key.text != *group) {
            keys.push(Key { sample: line(*colour), text: group });
        }
    }
    let strokes = match figure.dashed {
        Dashed::Nothing => return keys,
        Dashed::Metric((metric, _)) => [figure.drawn.0, metric],
        Dashed::Scheme(_) if !all.iter().any(|series| series.is_dashed) => return keys,
        Dashed::Scheme(schemes) => schemes,
    };
    let samples = [line(BLACK), Sample::Dashes(BLACK.stroke_width(2))];
    keys.extend(samples.into_iter().zip(strokes).map(|(sample, text)| Key { sample, text }));
    keys
}

fn draw_lines(area: &Area<'_>, figure: &Figure, rows: &[&Row]) -> Drawn {
    let all = series(figure, rows);
    let area = draw_keys(area, &line_keys(figure, &all))?;
    let dashed = figure.dashed.metric().map(|metric| rows_of(figure, metric)).unwrap_or_default();
    let every_row = [rows, &dashed].concat();
    let top = top(&every_row);
    let lowest = rows.iter().map(|row| row.median).fold(f64::INFINITY, f64::min);
    let bottom = if lowest < top * ON_THE_AXIS { -top * BELOW_ZERO } else { 0.0 };
    let below = if figure.horizontal.is_empty() { 24 } else { 44 };
    let axes =
        (across_axis(&places(&every_row), SIZE.0 - LEFT - 2 * MARGIN), up_axis(&area, bottom..top, below));
    let (across, number) = (axes.0.clone(), |at: f64| axes.0.text(at));
    let length = across.length();
    let mut chart = chart_on(&area, figure, (across, axes.1.clone()), (below, &number))?;
    for (rows, is_dashed_metric) in [(rows, false), (&dashed, true)] {
        for &Series { system, colour, is_dashed, .. } in &all {
            let own = rows.iter().filter(|row| row.system == system);
            let own: Vec<(f64, &Row)> = own.filter_map(|row| Some((at_of(row)?, *row))).collect();
            let points: Vec<(f64, f64)> = own.iter().map(|(at, row)| (*at, row.median)).collect();
            let style = colour.stroke_width(2);
            if is_dashed_metric || is_dashed {
                chart.draw_series(DashedLineSeries::new(points.clone(), 8, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(points.clone(), style))?;
            }
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
            let stroke = length * STROKE_SHARE;
            chart.draw_series(own.iter().flat_map(|(at, row)| spread(row, *at, stroke, colour)))?;
        }
    }
    Ok(())
}

/// Bars that stand at one place, side by side.
struct Group<'r> {
    rows: Vec<&'r Row>,
    /// Place of the first bar.
    at: f64,
}

impl Group<'_> {
    fn middle(&self) -> f64 {
        self.at + (self.rows.len() - 1) as f64 / 2.0
    }
}

/// Rows by their places, in the order of their first ones.
fn groups<'r>(rows: &[&'r Row]) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group.rows[0].place == row.place) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { rows: vec![row], at: 0.0 }),
        }
    }
    let gap = if groups.iter().any(|group| group.rows.len() > 1) { GROUP_GAP } else { 0.0 };
    let mut at = 0.0;
    for group in &mut groups {
        group.at = at;
        at += group.rows.len() as f64 + gap;
    }
    groups
}

/// Bars with their values, the names of their places below, and keys for several systems; `root` is the whole picture.
fn draw_bars(root: &Area<'_>, area: &Area<'_>, figure: &Figure, rows: &[&Row]) -> Drawn {
    let all = series(figure, rows);
    // Bars whose places are their systems' names are one series.
    let is_one = all.len() == 1 || rows.iter().all(|row| row.place.to_string() == row.system);
    let keys = all.iter().map(|series| Key { sample: Sample::Bar(series.colour), text: series.system });
    let keys: Vec<Key<'_>> = keys.filter(|_| !is_one).collect();
    let area = draw_keys(area, &keys)?;
    let groups = groups(rows);
    let last = groups.last().map_or(0.0, |group| group.at + group.rows.len() as f64 - 1.0);
    let across = -0.6..last + 0.6;
    let a_bar = f64::from(SIZE.0 - LEFT - 2 * MARGIN) / (across.end - across.start);
    let named = |group: &Group<'_>| {
        let characters = a_bar * group.rows.len() as f64 / CHARACTER;
        wrapped(&group.rows[0].place.to_string(), characters as usize)
    };
    let names: Vec<Vec<String>> = groups.iter().map(named).collect();
    let lines = names.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let below = 14 + LINE * lines + if figure.horizontal.is_empty() { 0 } else { LINE + 6 };
    let stroke = (across.end - across.start) * STROKE_SHARE;
    let axes = (
        Axis::marked(across, groups.iter().map(Group::middle).collect()),
        up_axis(&area, 0.0..top(rows), below),
    );
    let mut chart = chart_on(&area, figure, axes, (below, &|_| String::new()))?;
    for (group, name) in groups.iter().zip(names) {
        for (bar, row) in group.rows.iter().enumerate() {
            let own = all.iter().find(|series| series.system == row.system).filter(|_| !is_one);
            let colour = own.map_or(colour(0), |series| series.colour);
            draw_bar(root, &mut chart, (row, group.at + bar as f64), (colour, stroke))?;
        }
        let (middle, foot) = chart.backend_coord(&(group.middle(), 0.0));
        for (line, part) in (0..).zip(name) {
            let height = foot + 9 + LINE as i32 * line;
            root.draw(&Text::new(part, (middle, height), text_style(BLACK, VPos::Top)))?;
        }
    }
    Ok(())
}

/// A bar with its spread and its value.
fn draw_bar(
    root: &Area<'_>,
    chart: &mut Chart<'_, '_>,
    (row, at): (&Row, f64),
    (colour, stroke): (RGBColor, f64),
) -> Drawn {
    let bar = [(at - BAR_HALF, 0.0), (at + BAR_HALF, row.median)];
    chart.draw_series([Rectangle::new(bar, colour.filled())])?;
    chart.draw_series(spread(row, at, stroke, BLACK))?;
    let height_of = |value: f64| chart.backend_coord(&(at, value)).1;
    let (middle, foot) = chart.backend_coord(&(at, 0.0));
    let text = figures(row.median);
    let width = chart.backend_coord(&(at + BAR_HALF, 0.0)).0 - chart.backend_coord(&(at - BAR_HALF, 0.0)).0;
    let length = (text.chars().count() as f64 * CHARACTER).ceil() as i32;
    // A value that is wider than its bar is turned, and reads upwards.
    let is_turned = length > width;
    let needed = if is_turned { length } else { LINE as i32 };
    // The value stands at the bar's foot, clear of the spread, or above both if there is no room.
    let has_room = foot - height_of(row.median.min(row.min)) >= needed + 6;
    let (ink, height) = if has_room { (ink_on(colour), foot - 4) } else { (BLACK, height_of(row.max) - 4) };
    let style = if is_turned { turned_style(ink) } else { text_style(ink, VPos::Bottom) };
    root.draw(&Text::new(text, (middle, height), style))?;
    Ok(())
}

/// White, or black on a bright colour.
fn ink_on(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let brightness = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if brightness > 140_000 { BLACK } else { WHITE }
}

#[cfg(test)]
mod tests;
