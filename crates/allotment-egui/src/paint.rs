//! Many rectangles as two meshes, one of colours and one of stripes: no shape is tessellated for each of them.

use allotment_analyze::Class;
use egui::{
    Color32, ColorImage, Context, Id, Mesh, Painter, Rect, Shape, TextureHandle, TextureOptions, pos2,
};

use crate::state::Palette;

/// Points from one stripe to the next.
const STRIPES: f32 = 8.0;

/// Texels of a tile of stripes in each direction: one texel a physical pixel of a usual screen, and two of a fine one.
const TILE: usize = 16;

/// Rectangles that are painted together.
pub(crate) struct Rects {
    plain: Mesh,
    striped: Mesh,
}

impl Rects {
    pub(crate) fn new(ctx: &Context) -> Self {
        Self { plain: Mesh::default(), striped: Mesh::with_texture(stripes(ctx).id()) }
    }

    pub(crate) fn add(&mut self, rect: Rect, colour: Color32) {
        self.plain.add_colored_rect(rect, colour);
    }

    /// Adds bytes of a class. The stripes keep their place on the screen, so that neighbours join.
    pub(crate) fn add_class(&mut self, rect: Rect, class: Class, palette: &Palette) {
        self.add_striped(rect, palette.of(class));
    }

    /// Adds a colour, with stripes over it where there are some.
    pub(crate) fn add_striped(&mut self, rect: Rect, (colour, stripes): (Color32, Option<Color32>)) {
        self.plain.add_colored_rect(rect, colour);
        if let Some(colour) = stripes {
            let uv = |point: egui::Pos2| pos2(point.x / STRIPES, point.y / STRIPES);
            self.striped.add_rect_with_uv(rect, Rect::from_min_max(uv(rect.min), uv(rect.max)), colour);
        }
    }

    pub(crate) fn paint(self, painter: &Painter) {
        if !self.plain.is_empty() {
            painter.add(Shape::mesh(self.plain));
        }
        if !self.striped.is_empty() {
            painter.add(Shape::mesh(self.striped));
        }
    }
}

/// A tile of diagonal stripes: white, to be tinted, with nothing between.
fn stripes(ctx: &Context) -> TextureHandle {
    let id = Id::unique("allotment stripes");
    if let Some(known) = ctx.data(|data| data.get_temp::<TextureHandle>(id)) {
        return known;
    }
    let texel = |index: usize| {
        let along = (index % TILE + index / TILE) % TILE;
        // A stripe of two fifths, with soft sides.
        let alpha = match along {
            0 | 7 => 110,
            1..7 => 255,
            _ => 0,
        };
        Color32::from_white_alpha(alpha)
    };
    let image = ColorImage::new([TILE, TILE], (0..TILE * TILE).map(texel).collect());
    let handle = ctx.load_texture("allotment stripes", image, TextureOptions::LINEAR_REPEAT);
    ctx.data_mut(|data| data.insert_temp(id, handle.clone()));
    handle
}
