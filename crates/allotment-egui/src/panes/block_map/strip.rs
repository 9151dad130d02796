//! A row of the map in the pixels of the screen: what each shows is found once for a moment and a zoom.

use allotment_analyze::{AllocationIndex, Class, PixelRun};
use egui::{Rect, pos2};

use crate::paint::Rects;
use crate::state::{Contents, Palette, Span};

/// An allocation of so many pixels has an edge that parts it from the next.
const EDGE: f64 = 4.0;
/// Pixels from which on an allocation has its name written in it.
const NAME: f64 = 44.0;

/// Ranges a pixel up to which alignment padding is looked for.
const RANGES_A_PIXEL: usize = 2;

/// A strip is made anew when one of these changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::panes) struct Key {
    version: u64,
    /// The visible bytes of the block: whole ones, so that pixels keep their bytes while the view moves.
    start: u64,
    end: u64,
    /// Pixels of those bytes.
    pixels: u32,
    /// Pixels from the left of the strip to the first byte: 0 or less, but where the block begins later.
    left: f64,
    /// Bytes of a pixel.
    each: f64,
}

impl Key {
    /// Of a view onto a block of `size` bytes, when the whole width stands for `base` bytes.
    pub(in crate::panes) fn new(version: u64, view: Span, base: u64, size: u64, width: f32) -> Self {
        let base = base as f64;
        let each = (view.size() * base / f64::from(width.max(1.0))).max(f64::MIN_POSITIVE);
        let start = ((view.from * base).floor() as u64).min(size);
        let end = ((view.to * base).ceil() as u64).clamp(start, size);
        let pixels = ((end - start) as f64 / each).ceil() as u32;
        Self { version, start, end, pixels, left: (start as f64 - view.from * base) / each, each }
    }

    fn x(&self, byte: u64) -> f64 {
        self.left + (byte as f64 - self.start as f64) / self.each
    }
}

/// A strip.
#[derive(Debug)]
pub(in crate::panes) struct Strip {
    pub(in crate::panes) key: Key,
    runs: Vec<PixelRun>,
    /// From where to where alignment padding is, in pixels.
    padding: Vec<(f64, f64)>,
    /// The ends of allocations, in pixels.
    edges: Vec<f64>,
    /// Allocations that are wide enough for a name.
    names: Vec<(f64, f64, AllocationIndex)>,
}

impl Strip {
    pub(in crate::panes) fn new(key: Key, contents: &Contents) -> Self {
        let runs = contents.levels.pixel_runs(key.start..key.end, key.pixels);
        let mut strip = Self { key, runs, padding: Vec::new(), edges: Vec::new(), names: Vec::new() };
        let mut named = f64::MIN;
        contents.visit_wide(key.start..key.end, (EDGE * key.each) as u64, |placed| {
            let (from, to) = (key.x(placed.offset), key.x(placed.end()));
            // The bytes are whole ones, so it may be a little less.
            if to - from < EDGE {
                return;
            }
            strip.edges.extend([from, to]);
            // Where allocations overlap, one name is not written over another.
            if to - from >= NAME && from >= named {
                strip.names.push((from, to, placed.allocation));
                named = to;
            }
        });
        // With many ranges a pixel, no padding has a pixel of its own.
        if contents.ranges_in(key.start..key.end) <= RANGES_A_PIXEL * key.pixels as usize {
            for hole in contents.padding(key.start..key.end) {
                let (from, to) = (key.x(hole.start), key.x(hole.end));
                if to - from >= 1.0 {
                    strip.padding.push((from, to));
                }
            }
        }
        strip
    }

    /// Adds the rectangles of the strip. A pixel is as many points wide.
    pub(in crate::panes) fn add(&self, rects: &mut Rects, area: Rect, pixel: f32, palette: &Palette) {
        let (key, step) = (&self.key, self.runs.last().map_or(0, |run| run.first + run.count));
        // The last pixel may be a part of one, so pixels are a little narrower than those of the screen.
        let width = key.x(key.end) - key.left;
        let x = |number: u32| key.left + f64::from(number) * width / f64::from(step.max(1));
        let place = |from: f64, to: f64| {
            let point = |x: f64| area.left() + x as f32 * pixel;
            Rect::from_min_max(pos2(point(from), area.top()), pos2(point(to), area.bottom()))
        };
        for run in &self.runs {
            rects.add_class(place(x(run.first), x(run.first + run.count)), run.class, palette);
        }
        for &(from, to) in &self.padding {
            rects.add(place(from, to), palette.padding);
        }
        for &edge in &self.edges {
            rects.add(place(edge - 0.5, edge + 0.5), palette.edge);
        }
    }

    /// Calls a function for each allocation that has its name written, with its place.
    pub(in crate::panes) fn names(
        &self,
        area: Rect,
        pixel: f32,
        mut visit: impl FnMut(Rect, AllocationIndex),
    ) {
        for &(from, to, allocation) in &self.names {
            let rect = Rect::from_min_max(
                pos2(area.left() + from as f32 * pixel, area.top()),
                pos2(area.left() + to as f32 * pixel, area.bottom()),
            );
            visit(rect, allocation);
        }
    }
}

/// The class of each of a few columns: for the minimap.
pub(in crate::panes) fn overview(contents: &Contents, columns: u32) -> Vec<Class> {
    let mut classes = Vec::with_capacity(columns as usize);
    for run in contents.levels.pixel_runs(0..contents.size, columns) {
        classes.resize(classes.len() + run.count as usize, run.class);
    }
    classes
}
