//! The picture of a figure over time, as SVG: scenes side by side, throughput above latency, checkpoints shaded.
//!
//! Neighbours: [`super::over_time`] has the points; colours and fonts are those of [`super::drawing`].

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, IntoDrawingArea, IntoFont, PathElement, RGBColor, Rectangle,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::series::LineSeries;

use super::drawing::{COLOURS, Chart, FONT, ORIGIN_HEIGHT, draw_origin};
use super::figures;
use super::over_time::{Line, OverTime, Point, Scene};

/// Width of the only scene, and of each of several.
const WIDTHS: (u32, u32) = (960, 560);
const HEIGHT: u32 = 640;
/// Share of a scene's height that throughput has.
const UPPER_SHARE: f64 = 0.56;
const SHADE: RGBColor = RGBColor(128, 128, 128);

type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One curve: what of a point it shows, and how strongly.
struct Curve<'a> {
    line: &'a Line,
    label: String,
    value: fn(&Point) -> Option<f64>,
    colour: RGBColor,
    strength: f64,
}

/// Draws the figure; `origin` says below where it comes from.
pub(super) fn svg(figure: &OverTime, origin: &str) -> std::result::Result<String, String> {
    let mut text = String::new();
    draw(figure, origin, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(figure: &OverTime, origin: &str, text: &mut String) -> Drawn {
    let scenes = figure.scenes.len().max(1);
    let width = if scenes == 1 { WIDTHS.0 } else { WIDTHS.1 * scenes as u32 };
    let area = SVGBackend::with_string(text, (width, HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    draw_origin(&area, origin, (width, HEIGHT))?;
    let (upper, _) = area.split_vertically(HEIGHT - ORIGIN_HEIGHT);
    let body = upper.titled(&figure.title, (FONT, 18).into_font())?;
    let tops = Tops::of(&figure.scenes);
    for (scene, area) in figure.scenes.iter().zip(body.split_evenly((1, scenes))) {
        draw_scene(scene, &area, &tops)?;
    }
    area.present()?;
    Ok(())
}

/// The upper ends of the vertical axes: the same in all scenes, so that they can be compared.
struct Tops {
    throughput: f64,
    latency: f64,
}

impl Tops {
    fn of(scenes: &[Scene]) -> Self {
        let lines = || scenes.iter().flat_map(|scene| &scene.lines);
        let most =
            |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.1;
        let throughput = most(&mut lines().flat_map(|line| &line.points).map(|point| point.throughput));
        let durable = lines().filter(|line| line.durable).flat_map(|line| &line.points);
        let latency = most(&mut durable.filter_map(|point| point.p99_ms));
        Self { throughput, latency: if latency > 1e-9 { latency } else { 1.0 } }
    }
}

fn draw_scene(scene: &Scene, area: &Area<'_>, tops: &Tops) -> Drawn {
    let height = area.dim_in_pixel().1;
    let (upper, lower) = area.split_vertically((f64::from(height) * UPPER_SHARE) as u32);
    let last = scene.lines.iter().flat_map(|line| &line.points).map(|point| point.second).fold(0.1, f64::max);
    let colour = |index: usize| COLOURS[index % COLOURS.len()];
    let throughput = scene.lines.iter().enumerate().map(|(index, line)| Curve {
        line,
        label: line.system.clone(),
        value: |point| Some(point.throughput),
        colour: colour(index),
        strength: 1.0,
    });
    let durable = scene.lines.iter().enumerate().filter(|(_, line)| line.durable);
    let latency = durable.flat_map(|(index, line)| {
        let curve = |what: &str, value, strength| Curve {
            line,
            label: format!("{}, {what}", line.system),
            value,
            colour: colour(index),
            strength,
        };
        [curve("p99", |point| point.p99_ms, 0.4), curve("mean", |point| point.mean_ms, 1.0)]
    });
    let title = Some(scene.title.as_str()).filter(|title| !title.is_empty());
    let across = 0.0..last;
    let upper_axis = (title, "", "throughput (txn/s)", 0.0..tops.throughput);
    panel(scene, &upper, upper_axis, across.clone(), throughput.collect())?;
    panel(scene, &lower, (None, "time (s)", "latency (ms)", 0.0..tops.latency), across, latency.collect())
}

/// One panel: its heading, what stands at its axes, its range, its curves.
fn panel(
    scene: &Scene,
    area: &Area<'_>,
    (title, horizontal, vertical, range): (Option<&str>, &str, &str, Range<f64>),
    across: Range<f64>,
    curves: Vec<Curve<'_>>,
) -> Drawn {
    let mut builder = ChartBuilder::on(area);
    builder.margin(8).x_label_area_size(if horizontal.is_empty() { 22 } else { 40 }).y_label_area_size(84);
    if let Some(title) = title {
        builder.caption(title, (FONT, 15));
    }
    let mut chart = builder.build_cartesian_2d(across, range.clone())?;
    shade(&mut chart, scene, range.end)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).disable_x_mesh().axis_desc_style((FONT, 14)).label_style((FONT, 12));
    mesh.x_desc(horizontal).y_desc(vertical).y_label_formatter(&|at| figures(*at)).draw()?;
    let any = !curves.is_empty();
    for Curve { line, label, value, colour, strength } in curves {
        let points = line.points.iter().filter_map(|point| Some((point.second, value(point)?)));
        let style = colour.mix(strength).stroke_width(if strength < 1.0 { 1 } else { 2 });
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
    }
    if any {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 12))
            .draw()?;
    }
    Ok(())
}

/// Greys the times of checkpoints.
fn shade(chart: &mut Chart<'_, '_>, scene: &Scene, top: f64) -> Drawn {
    let periods = scene.lines.iter().flat_map(|line| &line.checkpoints);
    chart.draw_series(
        periods.map(|&(from, to)| Rectangle::new([(from, 0.0), (to, top)], SHADE.mix(0.22).filled())),
    )?;
    Ok(())
}
