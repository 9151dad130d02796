//! Pictures for vello to draw, and what each of their pixels must be.
//!
//! A picture is opaque shapes one above the other. A pixel has the colour of the topmost shape that covers it; those at
//! the edge of a shape are mixed, and are left out.

use std::sync::Arc;

use vello::Scene;
use vello::kurbo::{Affine, Circle, Rect};
use vello::peniko::{Blob, Color, Fill, ImageAlphaType, ImageData, ImageFormat};
use wgpu_proof::Random;

/// Of four bytes, in the order of the picture.
pub type Texel = [u8; 4];

/// A shape, or what is done with those after it.
pub enum Shape {
    Rect(Rect, Texel),
    Circle(Circle, Texel),
    /// A picture whose corner is at a whole pixel, of rows of this width.
    Picture {
        x: u32,
        y: u32,
        width: u32,
        texels: Vec<Texel>,
    },
    /// What is drawn next is seen in this circle alone.
    Clip(Circle),
    EndOfClip,
}

/// Is a pixel in a shape, or so near to its edge that it may be either?
#[derive(Clone, Copy, PartialEq)]
enum Covered {
    Yes,
    No,
    Perhaps,
}

fn in_circle(circle: &Circle, x: f64, y: f64) -> Covered {
    let distance = (x - circle.center.x).hypot(y - circle.center.y) - circle.radius;
    match distance {
        // Half of a pixel's diagonal, and what curves lose where they become lines.
        distance if distance < -1.0 => Covered::Yes,
        distance if distance > 1.0 => Covered::No,
        _ => Covered::Perhaps,
    }
}

/// The colour of the pixel whose middle is there, unless shapes are mixed in it.
pub fn expected(shapes: &[Shape], base: Texel, x: f64, y: f64) -> Option<Texel> {
    let (mut colour, mut clip) = (Some(base), Covered::Yes);
    for shape in shapes {
        let (covered, above) = match shape {
            Shape::Rect(rect, texel) => {
                let inside = (rect.x0..rect.x1).contains(&x) && (rect.y0..rect.y1).contains(&y);
                (if inside { Covered::Yes } else { Covered::No }, *texel)
            }
            Shape::Circle(circle, texel) => (in_circle(circle, x, y), *texel),
            Shape::Picture { x: left, y: top, width, texels } => {
                let at = (x - f64::from(*left), y - f64::from(*top));
                let height = texels.len() as u32 / width;
                let inside =
                    (0.0..f64::from(*width)).contains(&at.0) && (0.0..f64::from(height)).contains(&at.1);
                if inside {
                    (Covered::Yes, texels[at.1 as usize * *width as usize + at.0 as usize])
                } else {
                    continue;
                }
            }
            Shape::Clip(circle) => {
                clip = in_circle(circle, x, y);
                continue;
            }
            Shape::EndOfClip => {
                clip = Covered::Yes;
                continue;
            }
        };
        match (covered, clip) {
            (Covered::No, _) | (_, Covered::No) => {}
            (Covered::Yes, Covered::Yes) => colour = Some(above),
            _ => colour = None,
        }
    }
    colour
}

/// The shapes, as vello takes them.
pub fn scene(shapes: &[Shape]) -> Scene {
    let mut scene = Scene::new();
    let colour = |[r, g, b, a]: Texel| Color::from_rgba8(r, g, b, a);
    for shape in shapes {
        match shape {
            Shape::Rect(rect, texel) => {
                scene.fill(Fill::NonZero, Affine::IDENTITY, colour(*texel), None, rect);
            }
            Shape::Circle(circle, texel) => {
                scene.fill(Fill::NonZero, Affine::IDENTITY, colour(*texel), None, circle);
            }
            Shape::Picture { x, y, width, texels } => {
                let image = ImageData {
                    data: Blob::new(Arc::new(texels.concat())),
                    format: ImageFormat::Rgba8,
                    alpha_type: ImageAlphaType::Alpha,
                    width: *width,
                    height: texels.len() as u32 / width,
                };
                scene.draw_image(&image, Affine::translate((f64::from(*x), f64::from(*y))));
            }
            Shape::Clip(circle) => scene.push_clip_layer(Fill::NonZero, Affine::IDENTITY, circle),
            Shape::EndOfClip => scene.pop_layer(),
        }
    }
    scene
}

fn texel(random: &mut Random) -> Texel {
    [random.below(256) as u8, random.below(256) as u8, random.below(256) as u8, 255]
}

/// Shapes on a picture of this size, in all its parts.
pub fn shapes(random: &mut Random, count: usize, width: u32, height: u32) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut clipped = false;
    for _ in 0..count {
        let x = random.below(u64::from(width)) as u32;
        let y = random.below(u64::from(height)) as u32;
        let side = 4 + random.below(u64::from(width.min(height) / 3)) as u32;
        let at = (f64::from(x), f64::from(y));
        let circle = Circle::new(at, f64::from(side));
        let rect = Rect::new(at.0, at.1, f64::from(x + side), f64::from(y + side / 2 + 1));
        shapes.push(match random.below(8) {
            0 => {
                clipped = !clipped;
                if clipped { Shape::Clip(Circle::new(at, f64::from(side * 2))) } else { Shape::EndOfClip }
            }
            1 => {
                let side = side.min(64);
                Shape::Picture {
                    x,
                    y,
                    width: side,
                    texels: (0..side * side).map(|_| texel(random)).collect(),
                }
            }
            2..5 => Shape::Circle(circle, texel(random)),
            _ => Shape::Rect(rect, texel(random)),
        });
    }
    if clipped {
        shapes.push(Shape::EndOfClip);
    }
    shapes
}
