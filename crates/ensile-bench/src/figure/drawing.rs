//! The picture of a figure: lines with their spread over numbers, or bars side by side, as SVG.
//!
//! Neighbours: [`super::Figure`] has the rows and writes the file.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont,
    PathElement, RGBColor, Rectangle, SVGBackend, SeriesLabelPosition, Text, WHITE,
};
use plotters::series::LineSeries;

use super::{Figure, Place, Row, figures};

const SIZE: (u32, u32) = (960, 540);
pub(super) const FONT: &str = "sans-serif";
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
pub(super) const ORIGIN_HEIGHT: u32 = 48;
/// Half of a bar's width, where the distance between bars is 1.
const BAR_HALF: f64 = 0.36;
/// Half of the width of a spread's end strokes, as a share of the axis.
const STROKE_SHARE: f64 = 0.006;

pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws the figure; `origin` says below where it comes from.
pub(super) fn svg(figure: &Figure, origin: &str) -> Result<String, String> {
    let rows: Vec<&Row> =
        figure.rows.iter().filter(|row| figure.drawn == (row.metric.as_str(), row.unit)).collect();
    let mut text = String::new();
    draw(figure, &rows, origin, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(
    figure: &Figure,
    rows: &[&Row],
    origin: &str,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    draw_origin(&area, origin, SIZE)?;
    let (upper, _) = area.split_vertically(SIZE.1 - ORIGIN_HEIGHT);
    let bars = rows.iter().all(|row| matches!(row.place, Place::Bar(_)));
    let across = if bars { -0.6..rows.len() as f64 - 0.4 } else { across(rows) };
    let top = rows.iter().map(|row| row.max).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.08;
    let mut chart = ChartBuilder::on(&upper)
        .caption(&figure.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(across.clone(), 0.0..top)?;
    let name_of = |at: &f64| bar_name(rows, *at);
    let number = |at: &f64| whole_number(*at);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .x_desc(figure.horizontal)
        .axis_desc_style((FONT, 14))
        .label_style((FONT, 12));
    let vertical = format!("{} ({})", figure.drawn.0, figure.drawn.1);
    mesh.y_desc(vertical).y_label_formatter(&|at| figures(*at));
    if bars {
        // As many labels as make every bar's number come up once.
        mesh.disable_x_mesh().x_labels(rows.len() * 2 + 1).x_label_formatter(&name_of);
    } else {
        mesh.disable_x_mesh().x_label_formatter(&number);
    }
    mesh.draw()?;
    let stroke = (across.end - across.start) * STROKE_SHARE;
    if bars {
        draw_bars(&mut chart, rows, stroke)?
    } else {
        draw_lines(&mut chart, rows, stroke)?
    }
    if !bars {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .label_font((FONT, 13))
            .draw()?;
    }
    drop(chart);
    drop(upper);
    area.present()?;
    Ok(())
}

/// Says at the bottom of a picture of that size where it comes from.
pub(super) fn draw_origin(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    origin: &str,
    (width, height): (u32, u32),
) -> Result<(), Box<dyn std::error::Error>> {
    let small = (FONT, 11).into_font().color(&BLACK.mix(0.7));
    // A character of this size is about 6 wide.
    for (line, part) in wrapped(origin, width as usize / 6).into_iter().enumerate() {
        let at = (12, height as i32 - ORIGIN_HEIGHT as i32 + 6 + 14 * line as i32);
        area.draw(&Text::new(part, at, small.clone()))?;
    }
    Ok(())
}

/// Lines of at most `width` characters, cut between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && last.len() + word.len() >= width {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

/// The horizontal range of numbered places, with some room at its ends.
fn across(rows: &[&Row]) -> std::ops::Range<f64> {
    let places = rows.iter().filter_map(|row| if let Place::At(at) = row.place { Some(at) } else { None });
    let (least, most) =
        places.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| (least.min(at), most.max(at)));
    let room = if most > least { (most - least) * 0.06 } else { 0.5 };
    least - room..most + room
}

/// The name of the bar at this number, where one stands.
fn bar_name(rows: &[&Row], at: f64) -> String {
    if (at - at.round()).abs() > 1e-6 || at < -0.5 {
        return String::new();
    }
    rows.get(at.round() as usize).map_or_else(String::new, |row| row.place.to_string())
}

/// A number of workers or percent; between whole ones nothing.
fn whole_number(at: f64) -> String {
    if (at - at.round()).abs() < 1e-6 { format!("{:.0}", at.abs()) } else { String::new() }
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

/// A spread: a line from the least to the most, with strokes at its ends.
fn spread(row: &Row, at: f64, stroke: f64, colour: RGBColor) -> [PathElement<(f64, f64)>; 3] {
    let style = colour.stroke_width(1);
    [
        PathElement::new(vec![(at, row.min), (at, row.max)], style),
        PathElement::new(vec![(at - stroke, row.min), (at + stroke, row.min)], style),
        PathElement::new(vec![(at - stroke, row.max), (at + stroke, row.max)], style),
    ]
}

fn draw_lines(
    chart: &mut Chart<'_, '_>,
    rows: &[&Row],
    stroke: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    for (index, name) in systems(rows).into_iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let own: Vec<(f64, &Row)> = rows
            .iter()
            .filter(|row| row.system == name)
            .filter_map(|row| if let Place::At(at) = row.place { Some((at, *row)) } else { None })
            .collect();
        let points = own.iter().map(|(at, row)| (*at, row.median));
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?;
        chart.draw_series(own.iter().flat_map(|(at, row)| spread(row, *at, stroke, colour)))?;
    }
    Ok(())
}

fn draw_bars(
    chart: &mut Chart<'_, '_>,
    rows: &[&Row],
    stroke: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let names = systems(rows);
    for (index, row) in rows.iter().enumerate() {
        let at = index as f64;
        let colour = names.iter().position(|name| *name == row.system).unwrap_or(0) % COLOURS.len();
        let bar = [(at - BAR_HALF, 0.0), (at + BAR_HALF, row.median)];
        chart.draw_series([Rectangle::new(bar, COLOURS[colour].mix(0.85).filled())])?;
        chart.draw_series(spread(row, at, stroke, BLACK))?;
        let value = Text::new(figures(row.median), (at - BAR_HALF * 0.9, row.median), (FONT, 12).into_font());
        chart.draw_series([value])?;
    }
    Ok(())
}
