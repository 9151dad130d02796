//! The world of the example: an endless row of tiles with three meshes each. The sizes of meshes repeat; no two meshes
//! have the same bytes.

use crate::common::comparisons::Part;
use crate::common::known_bytes::{Seed, mixed};

/// Meshes of a tile.
pub(crate) const MESHES_A_TILE: u64 = 3;

/// Tiles that can be seen before and behind the camera.
pub(crate) const SIGHT: u64 = 2;

/// Meshes that can be seen at once, at most.
pub(crate) const MOST_VISIBLE: usize = (MESHES_A_TILE * (2 * SIGHT + 1)) as usize;

/// Bytes of a frame's constants.
pub(crate) const CONSTANTS: u64 = 256;

/// Bytes of a field that are written at a time.
pub(crate) const PAGE: u64 = 4 << 10;

/// How many pages the buffers have that live as long as the world: wind and light, say.
pub(crate) const FIELDS: [u64; 2] = [16, 7];

/// The sizes of meshes repeat after this number of meshes.
const SHAPES: u64 = 8 * MESHES_A_TILE;

/// The constants of a frame.
pub(crate) fn constants(frame: u64) -> Seed {
    Seed(1 << 60 | frame << 24)
}

/// A page of a field, as it was before the first frame (`None`), or as some frame wrote it.
pub(crate) fn page(field: usize, page: u64, written: Option<u64>) -> Seed {
    Seed(2 << 60 | (field as u64) << 56 | page << 48 | written.map_or(0, |frame| frame + 1) << 24)
}

/// A mesh.
pub(crate) fn mesh(number: u64) -> Seed {
    Seed(3 << 60 | number << 24)
}

/// The page of a field that a frame writes, of this number of pages.
pub(crate) fn page_of(frame: u64, pages: u64) -> u64 {
    frame % pages
}

/// The meshes that the camera sees from its tile.
pub(crate) fn visible(frame: u64) -> core::ops::Range<u64> {
    frame.saturating_sub(SIGHT) * MESHES_A_TILE..(frame + SIGHT + 1) * MESHES_A_TILE
}

/// Bytes of a mesh: 4 KiB to 2 MiB, of each order as many.
pub(crate) fn mesh_size(number: u64) -> u64 {
    let shape = number % SHAPES;
    let order = (4 << 10) << (shape * 7 % 9);
    order + mixed(shape) % order / 8 * 8
}

/// The largest sum of the sizes of this number of consecutive meshes.
pub(crate) fn most_bytes(meshes: u64) -> u64 {
    let sum = |first| (first..first + meshes).map(mesh_size).sum();
    (0..SHAPES).map(sum).max().unwrap_or(0)
}

/// The most bytes of a picture.
pub(crate) fn most_bytes_of_picture() -> u64 {
    CONSTANTS + FIELDS.iter().sum::<u64>() * PAGE + most_bytes(MOST_VISIBLE as u64)
}

/// All that is in the picture of a frame, in its order, and how many bytes of it.
pub(crate) fn picture(frame: u64) -> impl Iterator<Item = Part> {
    let fields = (0..).zip(FIELDS).flat_map(move |(field, pages)| {
        // Each page as the last frame left it whose turn it was.
        let written = move |page| (frame >= page).then(|| frame - (frame - page) % pages);
        (0..pages).map(move |at| (page(field, at, written(at)), PAGE))
    });
    let meshes = visible(frame).map(|number| (mesh(number), mesh_size(number)));
    core::iter::once((constants(frame), CONSTANTS)).chain(fields).chain(meshes)
}
