//! A picture of a plan as SVG: time across, offsets up. Each item is a rectangle, as wide as it lives and as high as it is large.

use core::fmt::{self, Write};
use core::ops::Range;

use crate::units::bytes;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 600.0;
/// Around the plan, for what is written there.
const MARGIN: f64 = 24.0;
/// Between two plans.
const GAP: f64 = 60.0;
/// Rectangles of less height have no name.
const NAMED_HEIGHT: f64 = 11.0;
/// And those of less have no border, which would hide them.
const BORDERED_HEIGHT: f64 = 3.0;

/// A rectangle of the picture.
pub(super) struct Drawn<'a> {
    pub(super) name: &'a str,
    pub(super) life: &'a Range<u64>,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// A plan of the picture.
pub(super) struct Part<'a> {
    pub(super) title: String,
    pub(super) items: Vec<Drawn<'a>>,
    pub(super) peak: u64,
    pub(super) lower_bound: u64,
}

/// Draws plans below each other.
pub(super) fn svg(parts: &[Part<'_>]) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let (width, height) = (WIDTH + 2.0 * MARGIN, parts.len() as f64 * (HEIGHT + GAP) + MARGIN);
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
<rect width="{width}" height="{height}" fill="white"/>"#
    )?;
    for (at, part) in parts.iter().enumerate() {
        writeln!(
            out,
            r#"<g transform="translate({MARGIN} {})">"#,
            at as f64 * (HEIGHT + GAP) + GAP - MARGIN
        )?;
        draw(&mut out, part)?;
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn draw(out: &mut String, part: &Part<'_>) -> fmt::Result {
    let begin = part.items.iter().map(|item| item.life.start).min().unwrap_or(0);
    let end = part.items.iter().map(|item| item.life.end).max().unwrap_or(1);
    let time = WIDTH / (end - begin).max(1) as f64;
    let byte = HEIGHT / part.peak.max(1) as f64;
    writeln!(out, r#"<text y="-8">{}</text>"#, escaped(&part.title))?;
    writeln!(out, r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#f4f4f4"/>"##)?;
    for item in &part.items {
        let x = (item.life.start - begin) as f64 * time;
        let width = (item.life.end - item.life.start) as f64 * time;
        let height = item.size as f64 * byte;
        let y = HEIGHT - item.offset as f64 * byte - height;
        // As many steps around the circle as have no common divisor with it: neighbours differ.
        let hue = (item.size % 9973 * 137) % 360;
        let border = if height >= BORDERED_HEIGHT { r#" stroke="white" stroke-width="0.5""# } else { "" };
        write!(
            out,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="hsl({hue} 45% 62%)"{border}>"#
        )?;
        let name = escaped(item.name);
        writeln!(
            out,
            "<title>{name}: {}, at {}, from {} to {}</title></rect>",
            bytes(item.size),
            item.offset,
            item.life.start,
            item.life.end
        )?;
        // A letter is 5 pixels wide or so.
        if height >= NAMED_HEIGHT && width >= 5.0 * item.name.chars().count() as f64 + 6.0 {
            writeln!(out, r#"<text x="{:.2}" y="{:.2}" font-size="9">{name}</text>"#, x + 3.0, y + 9.0)?;
        }
    }
    let bound = HEIGHT - part.lower_bound.min(part.peak) as f64 * byte;
    writeln!(out, r#"<path d="M0 {bound:.2}H{WIDTH}" stroke="black" stroke-dasharray="6 4" fill="none"/>"#)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
