//! The picture of a figure over time, as SVG: scenes side by side, throughput above latency, checkpoints shaded.
//!
//! Neighbours: [`super::scenes`] has the points; [`super::drawing`] has axes, keys, colours and fonts.

use std::ops::Range;

use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Color, IntoDrawingArea, RGBColor, Rectangle, SVGBackend,
    ShapeStyle, WHITE,
};
use plotters::series::LineSeries;

use super::axis::Axis;
use super::drawing::{
    ACROSS_TICKS_MAX, Area, Drawn, FONT, LEFT, ORIGIN_HEIGHT, TEXT_FONT, draw_origin, is_drawable, titled,
};
use super::keys::{Key, Sample, draw_keys};
use super::scenes::{Line, OverTime, Point, Scene};
use super::series::colour;

/// Width of a single scene, and of a scene among several.
const WIDTHS: (u32, u32) = (960, 660);
const HEIGHT: u32 = 640;
/// Throughput's share of a scene's height.
const UPPER_SHARE: f64 = 0.56;
/// Limit of ticks of a vertical axis.
const UP_TICKS_MAX: usize = 6;
const SHADE: RGBColor = RGBColor(128, 128, 128);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// One curve: its value of a point, and its stroke.
struct Curve<'a> {
    line: &'a Line,
    value: fn(&Point) -> Option<f64>,
    style: ShapeStyle,
}

/// Stroke of a main curve. The stroke of a background curve is `weak`.
fn strong(colour: RGBColor) -> ShapeStyle {
    colour.stroke_width(2)
}

fn weak(colour: RGBColor) -> ShapeStyle {
    colour.mix(0.4).stroke_width(1)
}

/// Draws the figure with its origin at the bottom.
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
    let body = titled(&upper, &figure.title)?;
    let tops = Tops::of(&figure.scenes);
    for (scene, area) in figure.scenes.iter().zip(body.split_evenly((1, scenes))) {
        draw_scene(scene, &area, &tops)?;
    }
    area.present()?;
    Ok(())
}

/// The upper ends of the vertical axes. The scenes share these ends, so scenes can be compared.
struct Tops {
    throughput: f64,
    latency: f64,
}

impl Tops {
    fn of(scenes: &[Scene]) -> Self {
        let lines = || scenes.iter().flat_map(|scene| &scene.lines);
        let most = |values: &mut dyn Iterator<Item = f64>| {
            values.filter(|value| is_drawable(*value)).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.1
        };
        let throughput = most(&mut lines().flat_map(|line| &line.points).map(|point| point.throughput));
        let durable = lines().filter(|line| line.durable).flat_map(|line| &line.points);
        let latency = most(&mut durable.filter_map(|point| point.p99_ms));
        Self { throughput, latency: if latency > 1e-9 { latency } else { 1.0 } }
    }
}

fn draw_scene(scene: &Scene, area: &Area<'_>, tops: &Tops) -> Drawn {
    let height = area.dim_in_pixel().1;
    // Without a log there is no latency until durable.
    let any_durable = scene.lines.iter().any(|line| line.durable);
    let upper_share = if any_durable { UPPER_SHARE } else { 1.0 };
    let (upper, lower) = area.split_vertically((f64::from(height) * upper_share) as u32);
    let seconds = scene.lines.iter().flat_map(|line| &line.points).map(|point| point.second);
    let last = seconds.filter(|second| is_drawable(*second)).fold(0.1, f64::max);
    let lines = || scene.lines.iter().enumerate();
    let key = |style, text| Key { sample: Sample::Line(style), text };
    let keys: Vec<Key<'_>> =
        lines().map(|(index, line)| key(strong(colour(index)), line.system.as_str())).collect();
    let throughput = lines().map(|(index, line)| Curve {
        line,
        value: |point| Some(point.throughput),
        style: strong(colour(index)),
    });
    let latency = lines().filter(|(_, line)| line.durable).flat_map(|(index, line)| {
        [
            Curve { line, value: |point| point.p99_ms, style: weak(colour(index)) },
            Curve { line, value: |point| point.mean_ms, style: strong(colour(index)) },
        ]
    });
    let title = Some(scene.title.as_str()).filter(|title| !title.is_empty());
    let across = 0.0..last;
    let below = if any_durable { "" } else { "time (s)" };
    let upper_axis = (title, below, "throughput (txn/s)", 0.0..tops.throughput);
    panel(scene, &upper, upper_axis, across.clone(), (&keys, throughput.collect()))?;
    if !any_durable {
        return Ok(());
    }
    let keys = [key(strong(BLACK), "mean"), key(weak(BLACK), "99th percentile")];
    let lower_axis = (None, "time (s)", "latency (ms)", 0.0..tops.latency);
    panel(scene, &lower, lower_axis, across, (&keys, latency.collect()))
}

/// One panel: heading, texts of the axes, range, curves and keys.
fn panel(
    scene: &Scene,
    area: &Area<'_>,
    (title, horizontal, vertical, range): (Option<&str>, &str, &str, Range<f64>),
    across: Range<f64>,
    (keys, curves): (&[Key<'_>], Vec<Curve<'_>>),
) -> Drawn {
    let area = title.map_or_else(|| Ok(area.clone()), |title| area.titled(title, (FONT, TEXT_FONT + 2)))?;
    let area = draw_keys(&area, keys)?;
    let mut builder = ChartBuilder::on(&area);
    builder
        .margin(8)
        .margin_right(20)
        .x_label_area_size(if horizontal.is_empty() { 22 } else { 40 })
        .y_label_area_size(LEFT);
    let top = range.end;
    let axes =
        [(across, ACROSS_TICKS_MAX), (range, UP_TICKS_MAX)].map(|(range, most)| Axis::round(range, most));
    let [across, up] = axes;
    let mut chart = builder.build_cartesian_2d(across.clone(), up.clone())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .disable_x_mesh()
        .axis_desc_style((FONT, TEXT_FONT + 1))
        .label_style((FONT, TEXT_FONT));
    mesh.x_desc(horizontal).y_desc(vertical);
    mesh.x_label_formatter(&|at| across.text(*at)).y_label_formatter(&|at| up.text(*at)).draw()?;
    shade(&mut chart, scene, top)?;
    for Curve { line, value, style } in curves {
        let points = line.points.iter().filter_map(|point| Some((point.second, value(point)?)));
        let points = points.filter(|(second, value)| is_drawable(*second) && is_drawable(*value));
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(())
}

/// Greys the times of checkpoints.
fn shade(chart: &mut Chart<'_, '_>, scene: &Scene, top: f64) -> Drawn {
    let periods = scene.lines.iter().flat_map(|line| &line.checkpoints);
    let periods = periods.filter(|(from, to)| is_drawable(*from) && is_drawable(*to));
    chart.draw_series(
        periods.map(|&(from, to)| Rectangle::new([(from, 0.0), (to, top)], SHADE.mix(0.22).filled())),
    )?;
    Ok(())
}
