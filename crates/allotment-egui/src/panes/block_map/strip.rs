//! A row of the map in the pixels of the screen: what each shows is found once for a moment and a zoom.

use allotment_analyze::{AllocationIndex, Class, ColourGroups, PixelRun, Timeline, group_pixels};
use egui::{Color32, Rect, pos2};

use crate::paint::Rects;
use crate::state::{Colours, Contents, Palette, Span};

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
    /// Of the colours, and the position where they change with each.
    colours: (u64, u64),
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
        Self {
            version,
            colours: (0, 0),
            start,
            end,
            pixels,
            left: (start as f64 - view.from * base) / each,
            each,
        }
    }

    /// With the version of the colours that it shows, and the position where they change with each.
    pub(in crate::panes) fn with_colours(self, colours: u64, position: u64) -> Self {
        Self { colours: (colours, position), ..self }
    }

    fn x(&self, byte: u64) -> f64 {
        self.left + (byte as f64 - self.start as f64) / self.each
    }
}

/// The colours of a strip that shows more than classes.
#[derive(Clone, Copy)]
pub(in crate::panes) struct Coloured<'a, 't> {
    pub(in crate::panes) colours: &'a Colours,
    pub(in crate::panes) groups: &'a ColourGroups,
    pub(in crate::panes) timeline: &'a Timeline<'t>,
    pub(in crate::panes) position: u64,
}

/// The group of the bytes of some pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Colours are by class.
    Class,
    Group(u8),
    /// All that the pixel shows is not picked, or not what a search means.
    Dimmed(u8),
}

/// A strip.
#[derive(Debug)]
pub(in crate::panes) struct Strip {
    pub(in crate::panes) key: Key,
    runs: Vec<(PixelRun, Shown)>,
    /// From where to where alignment padding is, in pixels.
    padding: Vec<(f64, f64)>,
    /// The ends of allocations, in pixels.
    edges: Vec<f64>,
    /// Allocations that are wide enough for a name.
    names: Vec<(f64, f64, AllocationIndex)>,
}

impl Strip {
    pub(in crate::panes) fn new(key: Key, contents: &Contents, coloured: Option<Coloured<'_, '_>>) -> Self {
        let runs = contents.levels.pixel_runs(key.start..key.end, key.pixels);
        let runs = match coloured {
            None => runs.into_iter().map(|run| (run, Shown::Class)).collect(),
            Some(coloured) => coloured_runs(key, contents, &runs, coloured),
        };
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
    pub(in crate::panes) fn add(
        &self,
        rects: &mut Rects,
        area: Rect,
        pixel: f32,
        palette: &Palette,
        groups: Option<&ColourGroups>,
    ) {
        let (key, step) = (&self.key, self.runs.last().map_or(0, |(run, _)| run.first + run.count));
        // The last pixel may be a part of one, so pixels are a little narrower than those of the screen.
        let width = key.x(key.end) - key.left;
        let x = |number: u32| key.left + f64::from(number) * width / f64::from(step.max(1));
        let place = |from: f64, to: f64| {
            let point = |x: f64| area.left() + x as f32 * pixel;
            Rect::from_min_max(pos2(point(from), area.top()), pos2(point(to), area.bottom()))
        };
        for (run, shown) in &self.runs {
            let colours = of_run(run.class, *shown, palette, groups);
            rects.add_striped(place(x(run.first), x(run.first + run.count)), colours);
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

/// Splits the runs of classes where what the pixels show changes.
fn coloured_runs(
    key: Key,
    contents: &Contents,
    runs: &[PixelRun],
    coloured: Coloured<'_, '_>,
) -> Vec<(PixelRun, Shown)> {
    let Coloured { colours, groups, timeline, position } = coloured;
    let view = key.start..key.end;
    let placed = contents.placed_in(view.clone());
    let count = groups.len().max(1);
    let look = |bright: bool| {
        group_pixels(placed, view.clone(), key.pixels, count, |is| {
            let of = groups.of(timeline, is.allocation, position);
            let is_bright = colours.is_picked(of) && colours.is_found(is.allocation);
            (is_bright == bright).then_some(of)
        })
    };
    let bright = look(true);
    let dimmed = if colours.dims_something() { look(false) } else { Vec::new() };
    let mut out: Vec<(PixelRun, Shown)> = Vec::new();
    for run in runs {
        for pixel in run.first..run.first + run.count {
            // What is looked for is seen in a pixel that has other bytes as well.
            let shown = match (bright.get(pixel as usize), dimmed.get(pixel as usize)) {
                _ if run.class == Class::Free => Shown::Class,
                (Some(&Some(group)), _) => Shown::Group(group),
                (_, Some(&Some(group))) => Shown::Dimmed(group),
                _ => Shown::Class,
            };
            match out.last_mut() {
                Some((last, of)) if *of == shown && last.class == run.class => last.count += 1,
                _ => out.push((PixelRun { first: pixel, count: 1, class: run.class }, shown)),
            }
        }
    }
    out
}

/// The colour of a run, and that of stripes over it.
fn of_run(
    class: Class,
    shown: Shown,
    palette: &Palette,
    groups: Option<&ColourGroups>,
) -> (Color32, Option<Color32>) {
    let by_class = palette.of(class);
    let Some(groups) = groups else { return by_class };
    let by_state = groups.by() == allotment_analyze::ColourBy::State;
    let dim = |(colour, stripes): (Color32, Option<Color32>)| {
        (palette.dimmed(colour), stripes.map(|colour| palette.dimmed(colour)))
    };
    match shown {
        Shown::Class if class == Class::Free && !by_state => (palette.free_beside_groups, None),
        Shown::Class => by_class,
        Shown::Group(_) if class.is_overhead() => by_class,
        Shown::Dimmed(_) if class.is_overhead() => dim(by_class),
        // Of what is in the pixel, the group that is picked, and not the class that matters most.
        Shown::Group(group) if by_state => palette.of_group(groups, usize::from(group)),
        Shown::Dimmed(group) if by_state => dim(palette.of_group(groups, usize::from(group))),
        Shown::Group(group) | Shown::Dimmed(group) => {
            let (colour, _) = palette.of_group(groups, usize::from(group));
            // What waits for the GPU has stripes in any colour.
            let colours = (colour, (class == Class::Pending).then_some(palette.dimmed(colour)));
            if let Shown::Dimmed(_) = shown { dim(colours) } else { colours }
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
