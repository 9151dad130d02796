//! What the picture must be, computed by the CPU.

use std::fs;
use std::path::Path;

use ash::vk;

use crate::Outcome;

/// Width and height of the texture. Its left half is for the first triangle, its right half for the second.
pub(crate) const TEXTURE: u32 = 16;

/// A position, and a place in the texture.
type Vertex = [f32; 5];

/// The second is farther away and drawn later: without the depth image it would cover the first.
pub(crate) const TRIANGLES: [[Vertex; 3]; 2] = [
    [[-0.7, 0.4, 0.3, 0.0, 1.0], [0.6, 0.5, 0.3, 0.5, 1.0], [0.0, -0.8, 0.3, 0.25, 0.0]],
    [[-0.4, -0.6, 0.7, 0.5, 0.0], [0.8, -0.3, 0.7, 1.0, 0.0], [0.1, 0.8, 0.7, 0.75, 1.0]],
];

pub(crate) const BACKGROUND: [f32; 4] = [0.0, 0.2, 0.4, 1.0];

/// The texel of the texture in a row and a column: red and white, or green and black.
pub(crate) fn texel(x: u32, y: u32) -> [u8; 4] {
    let is_light = (x / 2 + y / 2) % 2 == 0;
    match (x < TEXTURE / 2, is_light) {
        (true, true) => [255, 255, 255, 255],
        (true, false) => [255, 0, 0, 255],
        (false, true) => [0, 255, 0, 255],
        (false, false) => [0, 0, 0, 255],
    }
}

/// The uniform of a frame: cosine and sine of its angle, width over height, and 0.
pub(crate) fn view(frame: u64, extent: vk::Extent2D) -> [f32; 4] {
    let angle = frame as f32 * 0.1;
    [angle.cos(), angle.sin(), extent.width as f32 / extent.height as f32, 0.0]
}

/// Returns the colour of a pixel; None where it is so near to an edge of a triangle or a texel that rounding decides.
fn expected((x, y): (u32, u32), turn: [f32; 4], extent: vk::Extent2D) -> Option<[u8; 4]> {
    let (width, height) = (extent.width as f32, extent.height as f32);
    let point = [x as f32 + 0.5, y as f32 + 0.5];
    let mut nearest = (1.0, BACKGROUND.map(|channel| (channel * 255.0).round() as u8));
    for triangle in TRIANGLES {
        let corners = triangle.map(|[x, y, ..]| {
            let (x, y) = (x * turn[0] - y * turn[1], x * turn[1] + y * turn[0]);
            [(x / turn[2] + 1.0) * 0.5 * width, (y + 1.0) * 0.5 * height]
        });
        let cross = |a: [f32; 2], b: [f32; 2], c: [f32; 2]| {
            (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        };
        let area = cross(corners[0], corners[1], corners[2]);
        // How much of each corner the point has.
        let mut shares = [0.0; 3];
        for (i, share) in shares.iter_mut().enumerate() {
            let (from, to) = (corners[(i + 1) % 3], corners[(i + 2) % 3]);
            *share = cross(from, to, point) / area;
            let length = (to[0] - from[0]).hypot(to[1] - from[1]);
            if (*share * area / length).abs() < 1.0 {
                return None;
            }
        }
        let mix =
            |i: usize| triangle.iter().zip(shares).map(|(corner, share)| corner[i] * share).sum::<f32>();
        if shares.iter().all(|&share| share > 0.0) && mix(2) < nearest.0 {
            let place = [mix(3), mix(4)].map(|uv| uv * TEXTURE as f32);
            if place.iter().any(|at| (at - at.round()).abs() < 0.1) {
                return None;
            }
            let last = TEXTURE - 1;
            nearest = (mix(2), texel((place[0] as u32).min(last), (place[1] as u32).min(last)));
        }
    }
    Some(nearest.1)
}

/// Compares a picture with what it must be. Returns the number of pixels that were compared.
pub(crate) fn check(frame: u64, extent: vk::Extent2D, picture: &[[u8; 4]]) -> Outcome<usize> {
    let mut compared = 0;
    for (i, found) in (0..).zip(picture) {
        let pixel = (i % extent.width, i / extent.width);
        let Some(expected) = expected(pixel, view(frame, extent), extent) else { continue };
        compared += 1;
        if found.iter().zip(expected).any(|(&found, expected)| found.abs_diff(expected) > 1) {
            return Err(format!("frame {frame}: {pixel:?} is {found:?} instead of {expected:?}").into());
        }
    }
    if compared < picture.len() / 2 {
        return Err(format!("frame {frame}: only {compared} pixels were compared").into());
    }
    Ok(compared)
}

/// Writes a picture as a portable pixmap.
pub(crate) fn write(path: &Path, extent: vk::Extent2D, picture: &[[u8; 4]]) -> Outcome {
    let mut file = format!("P6 {} {} 255\n", extent.width, extent.height).into_bytes();
    file.extend(picture.iter().flat_map(|pixel| &pixel[..3]));
    Ok(fs::write(path, file)?)
}
