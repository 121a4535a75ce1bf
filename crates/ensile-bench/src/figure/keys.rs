//! Keys of a picture: a sample of each colour and stroke beside its meaning, above the chart.
//!
//! Invariant: keys that do not fit a line continue in the next line, so every key stands inside the picture.
//!
//! [`super::drawing`] and [`super::panels`] draw the keys.

use plotters::prelude::{PathElement, RGBColor, Rectangle, ShapeStyle, Text};

use super::drawing::{Area, CHARACTER, Drawn, FONT, LEFT, MARGIN, TEXT_FONT, wrapped};

/// Height of a line of keys, in pixels.
const LINE_HEIGHT: u32 = 22;
/// Widths of a sample, between a sample and its text, and between a text and the next sample, in pixels.
const SAMPLE: i32 = 18;
const BESIDE: i32 = 6;
const BETWEEN: i32 = 22;
/// Half of the height of a bar's sample, in pixels.
const BOX_HALF: i32 = 5;

/// A sample of a stroke or colour.
#[derive(Clone, Copy)]
pub(super) enum Sample {
    Line(ShapeStyle),
    Dashes(ShapeStyle),
    Bar(RGBColor),
}

/// A sample and its meaning.
pub(super) struct Key<'a> {
    pub(super) sample: Sample,
    pub(super) text: &'a str,
}

/// A line of a key's text, and its place: pixels from the left, and the line of keys.
struct Placed {
    key: usize,
    text: String,
    left: i32,
    line: i32,
    is_first: bool,
}

/// Draws the keys at the top of an area. Returns the rest of the area.
pub(super) fn draw_keys<'b>(area: &Area<'b>, keys: &[Key<'_>]) -> Drawn<Area<'b>> {
    let placed = placed(keys, area.dim_in_pixel().0 as i32);
    let lines = placed.last().map_or(0, |last| last.line as u32 + 1);
    let (above, rest) = area.split_vertically(LINE_HEIGHT * lines);
    for Placed { key, text, left, line, is_first } in placed {
        let middle = (LINE_HEIGHT as i32) * line + LINE_HEIGHT as i32 / 2;
        if is_first {
            draw_sample(&above, keys[key].sample, (left, middle))?;
        }
        let at = (left + SAMPLE + BESIDE, middle - TEXT_FONT as i32 / 2);
        above.draw(&Text::new(text, at, (FONT, TEXT_FONT)))?;
    }
    Ok(rest)
}

/// Places of keys on lines of `width` pixels. A text longer than a line continues in the next line.
fn placed(keys: &[Key<'_>], width: i32) -> Vec<Placed> {
    let (begin, end) = ((LEFT + MARGIN) as i32, width - MARGIN as i32);
    let characters = f64::from((end - begin - SAMPLE - BESIDE).max(1)) / CHARACTER;
    let (mut left, mut line, mut placed) = (begin, 0, Vec::new());
    for (key, Key { text, .. }) in keys.iter().enumerate() {
        let texts = wrapped(text, characters as usize);
        let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let own = SAMPLE + BESIDE + (longest as f64 * CHARACTER).ceil() as i32;
        if left > begin && left + own > end {
            (left, line) = (begin, line + 1);
        }
        let last = texts.len() as i32 - 1;
        for (at, text) in (0..).zip(texts) {
            placed.push(Placed { key, text, left, line: line + at, is_first: at == 0 });
        }
        (left, line) = if last > 0 { (begin, line + last + 1) } else { (left + own + BETWEEN, line) };
    }
    placed
}

fn draw_sample(area: &Area<'_>, sample: Sample, (left, middle): (i32, i32)) -> Drawn {
    let strokes: (ShapeStyle, &[(i32, i32)]) = match sample {
        Sample::Bar(colour) => {
            let corners = [(left, middle - BOX_HALF), (left + SAMPLE, middle + BOX_HALF)];
            area.draw(&Rectangle::new(corners, ShapeStyle::from(colour).filled()))?;
            return Ok(());
        }
        Sample::Line(style) => (style, &[(0, SAMPLE)]),
        Sample::Dashes(style) => (style, &[(0, 7), (11, SAMPLE)]),
    };
    for (from, to) in strokes.1 {
        area.draw(&PathElement::new(vec![(left + from, middle), (left + to, middle)], strokes.0))?;
    }
    Ok(())
}
