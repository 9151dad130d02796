//! Many rectangles on the time of the timeline: positions across, bytes up. A plan is such a picture, and the resources are that
//! share memory.
//!
//! ```text
//!   MiB │▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒▒▒█████▒▒▒     █ strong: what has the bytes
//!       │██████▒▒▒▒▒▒▒▒██████████▒▒▒▒▒███     ▒ faint: what exists there besides
//!       └──────────────┼───────────────── events, frames or seconds
//! ```
//!
//! To draw a million rectangles takes some milliseconds. A thread draws them, as pixels, for each size and each visible part of the
//! time. A frame draws a texture, and looks in the pixels for what is under the pointer. Until the thread is done, what it drew
//! last is stretched to where it belongs.

use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use allotment_analyze::{TimeAxis, Timeline, rectangle_pixels};
use egui::{
    Align2, Color32, ColorImage, FontId, Pos2, Rect, Response, Role, Sense, Stroke, StrokeKind,
    TextureHandle, TextureOptions, Ui, WidgetInfo, ecolor::HsvaGamma, pos2, vec2,
};

use super::timeline::{BOTTOM, Frame, LEFT, byte_scale, units};
use crate::background::Background;
use crate::state::{Palette, Span, State};

/// The least width and height, in points, of a rectangle that has its name.
const NAMED: [f32; 2] = [40.0, 13.0];

/// The time to draw a rectangle or 16 pixels.
const EACH: Duration = Duration::from_nanos(20);

/// A rectangle.
pub(super) struct Rectangle {
    /// The positions at which it is there.
    pub(super) life: Range<u64>,
    /// Its first byte.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) size: u64,
    /// The angle of its colour, in degrees.
    pub(super) hue: u16,
    /// What it is, for the pane that made it.
    pub(super) of: u32,
}

/// The rectangles of a picture.
pub(super) struct Scene {
    /// The bytes from the bottom to the top.
    pub(super) height: u64,
    /// The faint rectangles are drawn first, and the strong ones over them; of each kind, the last one is on top.
    pub(super) rectangles: Vec<Rectangle>,
    /// How many of them are faint.
    pub(super) faint: usize,
}

/// What a picture shows: its size in pixels, the colours, and the visible part of which time.
#[derive(Clone, Copy, PartialEq)]
struct Shown {
    size: [usize; 2],
    dark: bool,
    axis: TimeAxis,
    view: Span,
}

/// A picture that was drawn.
struct Drawn {
    of: Shown,
    scene: Arc<Scene>,
    /// For each pixel the rectangle, or `u32::MAX`.
    pixels: Vec<u32>,
    image: ColorImage,
    /// The rectangles with enough pixels for a name.
    named: Vec<u32>,
}

/// A picture on the screen: the last one that a thread drew.
#[derive(Default)]
pub(super) struct Picture {
    drawing: Background<Shown, Arc<Drawn>>,
    texture: Option<(Arc<Drawn>, TextureHandle)>,
}

/// What the pane adds to its picture.
pub(super) struct Added {
    pub(super) response: Response,
    pub(super) frame: Frame,
    /// The rectangle under the pointer, or one beside it where there is none.
    pub(super) under: Option<usize>,
}

impl Added {
    /// Where a byte is.
    pub(super) fn y(&self, scene: &Scene, byte: u64) -> f32 {
        let share = byte as f64 / scene.height.max(1) as f64;
        self.frame.plot.bottom() - share as f32 * self.frame.plot.height()
    }
}

impl Picture {
    /// Draws other rectangles from now on. Until they are drawn, those so far stay.
    pub(super) fn renew(&mut self) {
        self.drawing = Background::default();
    }

    /// Draws the rectangles of a scene. `name` is that of what a rectangle [is](Rectangle::of).
    pub(super) fn ui(
        &mut self,
        ui: &mut Ui,
        state: &State,
        scene: &Arc<Scene>,
        (label, height): (&str, f32),
        name: impl Fn(u32) -> String,
    ) -> Added {
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        let plot = Rect::from_min_max(
            pos2(area.left() + LEFT, area.top() + 2.0),
            pos2((area.right() - 6.0).max(area.left() + LEFT + 1.0), area.bottom() - BOTTOM),
        );
        let response = ui.interact(plot, ui.scope_id().with(("rectangles", label)), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, label));
        let frame = Frame::new(state, plot);
        if !ui.is_rect_visible(area) {
            return Added { response, frame, under: None };
        }
        ui.painter().rect_filled(plot, 2.0, palette.ground);
        byte_scale(ui, plot, scene.height.max(1) as f64, &palette);
        units(ui, state, frame, area, &palette);
        let of = shown(ui, state, plot);
        self.update(ui, state, scene, of);
        let mut added = Added { response, frame, under: None };
        if let Some((drawn, texture)) = &self.texture {
            let painter = ui.painter().with_clip_rect(plot.intersect(ui.clip_rect()));
            let whole = Rect::from_min_max(Pos2::ZERO, pos2(1.0, 1.0));
            painter.image(texture.id(), drawn.place(of.view, plot), whole, Color32::WHITE);
            // Names of what is elsewhere by now would be wrong.
            if Arc::ptr_eq(&drawn.scene, scene) && drawn.of == of {
                let rect = |at: usize| {
                    let is = &scene.rectangles[at];
                    let x = |position: u64| frame.x(state, position).clamp(plot.left(), plot.right());
                    let y = |byte: u64| added.y(scene, byte);
                    Rect::from_min_max(
                        pos2(x(is.life.start), y(is.offset + is.size)),
                        pos2(x(is.life.end), y(is.offset)),
                    )
                };
                for &at in &drawn.named {
                    let rect = rect(at as usize);
                    let painter = painter.with_clip_rect(rect.shrink2(vec2(3.0, 0.0)));
                    let point = pos2(rect.left() + 4.0, rect.center().y.min(rect.top() + 9.0));
                    let (text, font) = (name(scene.rectangles[at as usize].of), FontId::proportional(11.0));
                    painter.text(point, Align2::LEFT_CENTER, text, font, name_colour(of.dark));
                }
                let pointer = added.response.hover_pos().filter(|&at| plot.contains(at));
                let under = pointer.and_then(|at| drawn.under(plot, at));
                if let Some(at) = under {
                    let stroke = Stroke::new(1.5, palette.cursor);
                    painter.rect_stroke(rect(at).expand(0.5), 0.0, stroke, StrokeKind::Outside);
                }
                added.under = under;
            }
        }
        let x = frame.x(state, state.position());
        if plot.x_range().expand(1.0).contains(x) {
            ui.painter().vline(x, plot.y_range(), Stroke::new(1.5, palette.cursor));
        }
        added
    }

    /// Has a picture drawn, and takes the last one that was.
    fn update(&mut self, ui: &Ui, state: &State, scene: &Arc<Scene>, of: Shown) {
        let steps = scene.rectangles.len() + of.size[0] * of.size[1] / 16;
        let cost = EACH.saturating_mul(steps.try_into().unwrap_or(u32::MAX));
        let pixels = ui.pixels_per_point();
        let scene = Arc::clone(scene);
        let draw = move |timeline: &Timeline<'_>| {
            Arc::new(Drawn::new(timeline, scene, of, NAMED.map(|least| least * pixels)))
        };
        let drawn = self.drawing.get_for(ui.ctx(), &state.loaded, cost, of, draw);
        if let Some(drawn) = drawn
            && self.texture.as_ref().is_none_or(|(shown, _)| !Arc::ptr_eq(shown, drawn))
        {
            let (name, options) = ("allotment rectangles", TextureOptions::NEAREST);
            let texture = ui.ctx().load_texture(name, drawn.image.clone(), options);
            self.texture = Some((Arc::clone(drawn), texture));
        }
    }
}

/// What the picture of a plot shows.
fn shown(ui: &Ui, state: &State, plot: Rect) -> Shown {
    let most = ui.input(|input| input.max_texture_side);
    let pixels = |points: f32| ((points * ui.pixels_per_point()).round() as usize).clamp(1, most);
    let size = [pixels(plot.width()), pixels(plot.height())];
    Shown { size, dark: ui.visuals().dark_mode, axis: state.axis, view: state.time }
}

/// The colour of names, on those of the rectangles.
const fn name_colour(dark: bool) -> Color32 {
    if dark { Color32::WHITE } else { Color32::from_rgb(0x1a, 0x22, 0x2c) }
}

impl Drawn {
    /// Draws rectangles as pixels. `named` is the least width and height of one that has its name.
    fn new(timeline: &Timeline<'_>, scene: Arc<Scene>, of: Shown, named: [f32; 2]) -> Self {
        let [width, height] = of.size;
        let (length, bytes) = (of.axis.length(timeline), scene.height.max(1) as f64);
        let place = |is: &Rectangle| {
            let across =
                |position| (of.axis.value(timeline, position) / length - of.view.from) / of.view.size();
            let down = |byte: u64| 1.0 - byte as f64 / bytes;
            (across(is.life.start)..across(is.life.end), down(is.offset + is.size)..down(is.offset))
        };
        // The faint ones apart: a strong one of less than a pixel would be hidden by them.
        let (faint, strong) = scene.rectangles.split_at(scene.faint);
        let mut pixels = rectangle_pixels(faint.iter().map(place), width, height);
        let above = rectangle_pixels(strong.iter().map(place), width, height);
        for (pixel, above) in pixels.iter_mut().zip(above) {
            if above != u32::MAX {
                *pixel = scene.faint as u32 + above;
            }
        }
        let image = coloured(&scene, &pixels, &of);
        let has_name = |&(at, is): &(usize, &Rectangle)| {
            let (across, down) = place(is);
            let pixels_of = |share: f64, most: usize| (share.clamp(0.0, 1.0) * most as f64) as f32;
            let (left, right) = (pixels_of(across.start, width), pixels_of(across.end, width));
            let (top, bottom) = (pixels_of(down.start, height), pixels_of(down.end, height));
            if right - left <= named[0] || bottom - top <= named[1] {
                return false;
            }
            // Where the name begins, no other rectangle may hide this one.
            let row = (top + ((bottom - top) / 2.0).min(named[1] * 0.7)) as usize * width;
            let (from, to) = (row + left as usize + 2, row + (left + named[0]) as usize - 2);
            pixels[from..to].iter().all(|&pixel| pixel == at as u32)
        };
        let named = (scene.faint..).zip(strong).filter(has_name).map(|(at, _)| at as u32).collect();
        Self { of, scene, pixels, image, named }
    }

    /// Where the picture is in a plot that shows a part of the time.
    fn place(&self, view: Span, plot: Rect) -> Rect {
        let x = |share: f64| plot.left() + ((share - view.from) / view.size()) as f32 * plot.width();
        Rect::from_x_y_ranges(x(self.of.view.from)..=x(self.of.view.to), plot.y_range())
    }

    /// Returns the rectangle under the pointer: that of its pixel, or of one beside it where that is empty.
    fn under(&self, plot: Rect, at: Pos2) -> Option<usize> {
        let [width, height] = self.of.size;
        let share = (at - plot.min) / plot.size();
        let (x, y) = ((share.x * width as f32) as i64, (share.y * height as f32) as i64);
        let pixel = |x: i64, y: i64| {
            let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
            let is = *self.pixels.get(y * width + x).filter(|_| x < width && y < height)?;
            (is != u32::MAX).then_some(is as usize)
        };
        let around = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)];
        around.into_iter().find_map(|(dx, dy)| pixel(x + dx, y + dy))
    }
}

/// Colours the pixels, with a darker edge between two rectangles that are large enough to have one.
fn coloured(scene: &Scene, pixels: &[u32], of: &Shown) -> ColorImage {
    let [width, height] = of.size;
    let (saturation, value) = if of.dark { (0.55, 0.56) } else { (0.36, 0.86) };
    let colour = |(at, is): (usize, &Rectangle)| {
        let colour =
            Color32::from(HsvaGamma { h: f32::from(is.hue % 360) / 360.0, s: saturation, v: value, a: 1.0 });
        if at < scene.faint { colour.gamma_multiply(0.3) } else { colour }
    };
    let colours: Vec<Color32> = scene.rectangles.iter().enumerate().map(colour).collect();
    let at = |x: usize, y: usize| pixels[y * width + x];
    let mut image = ColorImage::filled(of.size, Color32::TRANSPARENT);
    for y in 0..height {
        for x in 0..width {
            let Some(&colour) = colours.get(at(x, y) as usize) else { continue };
            let differs = |other: u32| other != at(x, y) && other != u32::MAX;
            let is_edge = (x > 0 && differs(at(x - 1, y))) || (y > 0 && differs(at(x, y - 1)));
            let is_large =
                x + 2 < width && y + 2 < height && at(x + 2, y) == at(x, y) && at(x, y + 2) == at(x, y);
            let colour = if is_edge && is_large { colour.gamma_multiply(0.7) } else { colour };
            image.pixels[y * width + x] = colour;
        }
    }
    image
}
