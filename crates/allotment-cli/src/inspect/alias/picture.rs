//! Pictures of plans as SVG.

use core::fmt::{self, Write};

use allotment_analyze::{PlacedItem, PlanPicture};

use super::NamedItem;
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

/// A plan of the file.
pub(super) struct Part<'a> {
    pub(super) title: String,
    pub(super) picture: PlanPicture,
    /// The items of the problem.
    pub(super) items: &'a [NamedItem],
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

fn draw(out: &mut String, Part { title, picture, items }: &Part<'_>) -> fmt::Result {
    writeln!(out, r#"<text y="-8">{}</text>"#, escaped(title))?;
    writeln!(out, r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#f4f4f4"/>"##)?;
    for item in &picture.items {
        let (across, down) = picture.place(item);
        let (x, y) = (across.start * WIDTH, down.start * HEIGHT);
        let (width, height) = (across.end * WIDTH - x, down.end * HEIGHT - y);
        let hue = item.hue();
        let border = if height >= BORDERED_HEIGHT { r#" stroke="white" stroke-width="0.5""# } else { "" };
        write!(
            out,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="hsl({hue} 45% 62%)"{border}>"#
        )?;
        let name = escaped(&items[item.item].name);
        let PlacedItem { life, offset, size, .. } = item;
        writeln!(
            out,
            "<title>{name}: {}, at {offset}, from {} to {}</title></rect>",
            bytes(*size),
            life.start,
            life.end
        )?;
        // A letter is 5 pixels wide or so.
        if height >= NAMED_HEIGHT && width >= 5.0 * name.chars().count() as f64 + 6.0 {
            writeln!(out, r#"<text x="{:.2}" y="{:.2}" font-size="9">{name}</text>"#, x + 3.0, y + 9.0)?;
        }
    }
    let bound = picture.bound() * HEIGHT;
    writeln!(out, r#"<path d="M0 {bound:.2}H{WIDTH}" stroke="black" stroke-dasharray="6 4" fill="none"/>"#)
}

/// Returns a text as XML has it. XML has no control characters, not even escaped, and two other characters neither.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            character if character.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_characters_that_xml_has_not_is_shown_without_them() {
        assert_eq!(
            escaped("a<b>&\u{1b}[0m\n\0\u{ffff}é"),
            "a&lt;b&gt;&amp;\u{fffd}[0m\u{fffd}\u{fffd}\u{fffd}é"
        );
    }
}
