//! What the picture shows: a floor, a crate, two balls, and the sky, as a ray from the eye through each texel meets them.
//!
//! Each texel of the picture is one texel of a texture: of the mip level that suits its distance, and sampled in its middle.
//! So it is known what every device must show, byte by byte.

use allotment_readers::SampleAt;

/// Width and height of the picture.
pub(crate) const PICTURE: [u32; 2] = [320, 180];

/// The textures, by their number in the list of files.
pub(crate) const FLOOR: usize = 0;
pub(crate) const CRATE: usize = 1;
pub(crate) const SKY: usize = 2;

type Vector = [f32; 3];

/// The texel of a texture that the picture shows somewhere.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) texture: usize,
    pub(crate) level: u32,
    pub(crate) face: u32,
    pub(crate) texel: [u32; 2],
    /// Where a shader finds it.
    coordinates: Vector,
}

impl Seen {
    /// Returns what a shader is told: where to sample, and which texel of the picture it is.
    pub(crate) fn entry(&self, to: u32) -> SampleAt {
        SampleAt { coordinates: self.coordinates, level: self.level as f32, to }
    }
}

/// Sides of the textures, and the texels of the world's units: two units of the floor are one texture.
const FLOOR_SIDE: u32 = 128;
const FLOOR_TEXELS: f32 = FLOOR_SIDE as f32 / 2.0;
const CRATE_SIDE: u32 = 64;
const SKY_SIDE: u32 = 64;

const EYE: Vector = [0.3, 1.5, -4.2];
/// Half of what the eye sees, in height, at a distance of 1.
const TANGENT: f32 = 0.5;

const MIRROR: ([f32; 3], f32) = ([1.35, 1.0, 0.6], 1.0);
/// Less polished: it shows a small level of the sky.
const DULL: ([f32; 3], f32) = ([-0.35, 0.45, -1.1], 0.45);
const DULL_LEVEL: u32 = 3;

/// A cube on the floor, turned about its axis: its middle, half of its side, cosine and sine.
const CRATE_AT: (Vector, f32, [f32; 2]) = ([-1.7, 0.8, 0.9], 0.8, [0.866, 0.5]);

/// Returns what each texel of the picture shows, row after row.
pub(crate) fn seen() -> Vec<Seen> {
    let [width, height] = PICTURE;
    // Down a little.
    let (cosine, sine) = (0.985, -0.17);
    let texel = |i: u32| {
        let at = |at: u32, length: u32| ((2 * at + 1) as f32 - length as f32) / height as f32 * TANGENT;
        let [x, y] = [at(i % width, width), -at(i / width, height)];
        look(EYE, normal([x, y * cosine + sine, cosine - y * sine]), 0.0, 2)
    };
    (0..width * height).map(texel).collect()
}

/// Follows a ray, which has come from `far` away and may be reflected so many times more.
fn look(from: Vector, along: Vector, far: f32, reflections: u32) -> Seen {
    let ball = |(middle, radius)| {
        let t = ball(from, along, middle, radius)?;
        let at = add(from, along, t);
        let out = [0, 1, 2].map(|i| (at[i] - middle[i]) / radius);
        Some((t, at, add(along, out, -2.0 * dot(along, out))))
    };
    let mirror = ball(MIRROR).filter(|_| reflections > 0);
    let dull = ball(DULL);
    let wood = crate_face(from, along);
    let floor = (along[1] < 0.0).then(|| -from[1] / along[1]);
    let distances = [mirror.map(|(t, ..)| t), dull.map(|(t, ..)| t), wood.map(|(t, ..)| t), floor];
    let nearest = distances.into_iter().flatten().fold(f32::INFINITY, f32::min);
    match (mirror, dull, wood) {
        (Some((t, at, reflected)), ..) if t == nearest => look(at, reflected, far + t, reflections - 1),
        (_, Some((t, _, reflected)), _) if t == nearest => sky(reflected, DULL_LEVEL),
        (.., Some((t, uv, facing))) if t == nearest => {
            let texels = CRATE_SIDE as f32 / (2.0 * CRATE_AT.1);
            flat(CRATE, CRATE_SIDE, uv, level(far + t, texels, facing, CRATE_SIDE))
        }
        _ if nearest.is_finite() => {
            let at = add(from, along, nearest);
            let uv = [at[0], at[2]].map(|at| at * FLOOR_TEXELS / FLOOR_SIDE as f32);
            flat(FLOOR, FLOOR_SIDE, uv, level(far + nearest, FLOOR_TEXELS, -along[1], FLOOR_SIDE))
        }
        _ => sky(along, 0),
    }
}

/// Returns the mip level whose texels are as large as those of the picture, at a distance and on a surface that is seen at an
/// angle, of which `facing` is the cosine.
fn level(distance: f32, texels: f32, facing: f32, side: u32) -> u32 {
    let covered = distance * 2.0 * TANGENT / PICTURE[1] as f32 * texels / facing.max(1e-4).sqrt();
    (covered.max(1.0).log2().round() as u32).min(side.ilog2())
}

/// Returns the texel of a repeated texture at its coordinates.
fn flat(texture: usize, side: u32, uv: [f32; 2], level: u32) -> Seen {
    let side = (side >> level) as i32;
    let whole = uv.map(|at| (at * side as f32).floor() as i32);
    let [u, v] = whole.map(|at| (at as f32 + 0.5) / side as f32);
    let texel = whole.map(|at| at.rem_euclid(side) as u32);
    Seen { texture, level, face: 0, texel, coordinates: [u, v, 0.0] }
}

/// Returns the texel of the sky in a direction. Both graphics APIs have the faces in this order and at these angles.
fn sky(along: Vector, level: u32) -> Seen {
    let axis = (0..3).max_by(|&a, &b| along[a].abs().total_cmp(&along[b].abs())).unwrap_or(0);
    let side = SKY_SIDE >> level;
    let is_negative = along[axis] < 0.0;
    let sign = if is_negative { -1.0 } else { 1.0 };
    let [x, y, z] = along.map(|part| part / along[axis].abs());
    let st = match axis {
        0 => [-sign * z, -y],
        1 => [x, sign * z],
        _ => [sign * x, -y],
    };
    let texel = st.map(|at| (((at + 1.0) / 2.0 * side as f32) as u32).min(side - 1));
    // Back, from the middle of the texel.
    let [s, t] = texel.map(|at| (2 * at + 1) as f32 / side as f32 - 1.0);
    let coordinates = match axis {
        0 => [sign, -t, -sign * s],
        1 => [s, sign, sign * t],
        _ => [sign * s, -t, sign],
    };
    Seen { texture: SKY, level, face: 2 * axis as u32 + u32::from(is_negative), texel, coordinates }
}

/// Returns how far away a ball is along a ray.
fn ball(from: Vector, along: Vector, middle: Vector, radius: f32) -> Option<f32> {
    let to = [0, 1, 2].map(|i| from[i] - middle[i]);
    let (b, c) = (dot(to, along), dot(to, to) - radius * radius);
    let inside = b * b - c;
    let t = -b - inside.max(0.0).sqrt();
    // Not the ball that the ray comes from.
    (inside > 0.0 && t > 1e-3).then_some(t)
}

/// Returns how far away the crate is along a ray, the coordinates of its texture there, and the cosine of the angle.
fn crate_face(from: Vector, along: Vector) -> Option<(f32, [f32; 2], f32)> {
    let (middle, half, [cosine, sine]) = CRATE_AT;
    let turned = |[x, y, z]: Vector| [x * cosine - z * sine, y, x * sine + z * cosine];
    let from = turned([0, 1, 2].map(|i| from[i] - middle[i]));
    let along = turned(along);
    // Where the ray enters each pair of faces; the last one is where it enters the cube.
    let enters = [0, 1, 2].map(|i| (-half * along[i].signum() - from[i]) / along[i]);
    let axis = (0..3).max_by(|&a, &b| enters[a].total_cmp(&enters[b]))?;
    let at = add(from, along, enters[axis]);
    let [a, b] = match axis {
        0 => [at[2], at[1]],
        1 => [at[0], at[2]],
        _ => [at[0], at[1]],
    };
    let is_met = enters[axis] > 1e-3 && a.abs() < half && b.abs() < half;
    is_met.then(|| (enters[axis], [a, -b].map(|at| at / (2.0 * half) + 0.5), along[axis].abs()))
}

fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn add(from: Vector, along: Vector, t: f32) -> Vector {
    [0, 1, 2].map(|i| from[i] + along[i] * t)
}

fn normal(vector: Vector) -> Vector {
    let length = dot(vector, vector).sqrt();
    vector.map(|part| part / length)
}
