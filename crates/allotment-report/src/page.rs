//! The page: a template whose placeholders are replaced by the styles, the scripts and the data, in one pass.

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::columns::ColumnWriter;
use crate::payload::{self, Content};

/// The markup, with the placeholders below, in their order.
const TEMPLATE: &str = include_str!("../assets/page.html");

const STYLES: &[&str] = &[include_str!("../assets/colours.css"), include_str!("../assets/layout.css")];

/// The scripts, as one: each uses only what those before it declare, except inside functions.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/format.js"),
    include_str!("../assets/columns.js"),
    include_str!("../assets/slices.js"),
    include_str!("../assets/model.js"),
    include_str!("../assets/overlap.js"),
    include_str!("../assets/moment.js"),
    include_str!("../assets/series.js"),
    include_str!("../assets/axis.js"),
    include_str!("../assets/colours.js"),
    include_str!("../assets/pointer.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/strip.js"),
    include_str!("../assets/blockmap.js"),
    include_str!("../assets/tooltip.js"),
    include_str!("../assets/details.js"),
    include_str!("../assets/query.js"),
    include_str!("../assets/tables.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/chart.js"),
    include_str!("../assets/free.js"),
    include_str!("../assets/boxes.js"),
    include_str!("../assets/shared.js"),
    include_str!("../assets/aliasing.js"),
    include_str!("../assets/planned.js"),
    include_str!("../assets/latency.js"),
    include_str!("../assets/compare.js"),
    include_str!("../assets/lifetimes.js"),
    include_str!("../assets/objects.js"),
    include_str!("../assets/calls.js"),
    include_str!("../assets/happenings.js"),
    include_str!("../assets/advice.js"),
    include_str!("../assets/keyboard.js"),
    include_str!("../assets/main.js"),
];

/// Writes the page.
pub(crate) fn write(content: &Content<'_>, mut out: impl Write) -> io::Result<()> {
    let (head, rest) = split(TEMPLATE, "/*STYLES*/");
    let (body, rest) = split(rest, "DATA");
    let (between, end) = split(rest, "/*SCRIPTS*/");
    out.write_all(head.as_bytes())?;
    for style in STYLES {
        out.write_all(style.as_bytes())?;
    }
    out.write_all(body.as_bytes())?;
    let mut encoder = EncoderWriter::new(&mut out, &STANDARD);
    let mut columns = ColumnWriter::new(DeflateEncoder::new(&mut encoder, Compression::new(6)));
    payload::write(content, &mut columns)?;
    columns.finish().finish()?;
    encoder.finish()?;
    drop(encoder);
    out.write_all(between.as_bytes())?;
    for script in SCRIPTS {
        out.write_all(script.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.write_all(end.as_bytes())?;
    out.flush()
}

/// Splits at a placeholder, which a test looks for.
fn split<'a>(text: &'a str, placeholder: &str) -> (&'a str, &'a str) {
    text.split_once(placeholder).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_each_placeholder_once_and_in_order() {
        let mut rest = TEMPLATE;
        for placeholder in ["/*STYLES*/", "DATA", "/*SCRIPTS*/"] {
            assert_eq!(TEMPLATE.matches(placeholder).count(), 1, "{placeholder}");
            rest = rest.split_once(placeholder).expect(placeholder).1;
        }
    }

    #[test]
    fn no_asset_ends_its_own_element_or_names_a_resource_elsewhere() {
        for asset in STYLES.iter().chain(SCRIPTS) {
            assert!(!asset.contains("</"), "it would end the element that it is in");
            for outside in ["http:", "https:", "@import", "import(", "fetch("] {
                assert!(!asset.contains(outside), "{outside}");
            }
        }
    }
}
