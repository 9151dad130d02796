//! The requests of the frames of a streamed scene.

use allotment::memory::ExpectedLifetime;
use allotment::{Alignment, AllocationOptions, MemoryUsage, Requirements, ResourceKind};

use crate::rng::Rng;

/// Bytes that a frame adds: the minimum, and the range above it.
const FRAME: [u64; 2] = [8 << 20, 16 << 20];
/// Size of a resource in bytes: the smallest, and the number of octaves above it.
const SMALLEST: f64 = 65536.0;
const OCTAVES: f64 = 8.0;
/// Bytes of a frame's upload: the minimum, and the range above it.
const UPLOAD: [u64; 2] = [4 << 20, 4 << 20];
/// The number of images among five resources.
const IMAGES_OF_FIVE: u32 = 3;
/// The alignment of images; drivers round their sizes to it.
const IMAGE_UNIT: u64 = 65536;
const BUFFER_UNIT: u64 = 256;

/// The number of frames after which the staging memory of an upload is free again.
pub(super) const UPLOAD_FRAMES: usize = 3;

/// A camera path through a world that does not fit into memory.
pub(super) struct Scene {
    pub(super) frames: Vec<Frame>,
    /// Bytes that stay resident; beyond, the oldest resources are freed.
    pub(super) resident: u64,
}

/// The requests of one frame.
pub(super) struct Frame {
    /// Sizes and kinds of resources, for long.
    pub(super) resources: Vec<(Requirements, AllocationOptions)>,
    /// Staging memory, for three frames.
    pub(super) upload: (Requirements, AllocationOptions),
}

impl Scene {
    /// Generates a scene; the same for the same arguments.
    pub(super) fn new(frames: u32, resident: u64) -> Self {
        let mut rng = Rng::new(3);
        Self { frames: (0..frames).map(|_| Frame::new(&mut rng)).collect(), resident }
    }

    /// Returns the most bytes of four consecutive uploads: the most staging memory that is needed.
    pub(super) fn upload_bytes(&self) -> u64 {
        (UPLOAD_FRAMES as u64 + 1) * (UPLOAD[0] + UPLOAD[1])
    }
}

impl Frame {
    fn new(rng: &mut Rng) -> Self {
        let wanted = FRAME[0] + (rng.unit() * FRAME[1] as f64) as u64;
        let mut resources = Vec::new();
        let mut bytes = 0;
        while bytes < wanted {
            let size = (SMALLEST * (OCTAVES * rng.unit()).exp2()) as u64;
            // The last resource takes the rest, so that the frame adds the intended number of bytes.
            let size = size.min(wanted - bytes).max(SMALLEST as u64);
            resources.push(if rng.below(5) < IMAGES_OF_FIVE { image(size) } else { buffer(size) });
            bytes += size;
        }
        let upload = UPLOAD[0] + (rng.unit() * UPLOAD[1] as f64) as u64;
        Self { resources, upload: staging(upload) }
    }
}

/// An image of optimal tiling.
pub(super) fn image(size: u64) -> (Requirements, AllocationOptions) {
    (required(size, IMAGE_UNIT).with_kind(ResourceKind::OptimalImage), MemoryUsage::GpuOnly.into())
}

/// A buffer of the device's.
pub(super) fn buffer(size: u64) -> (Requirements, AllocationOptions) {
    (required(size, BUFFER_UNIT), MemoryUsage::GpuOnly.into())
}

/// Memory to upload from.
pub(super) fn staging(size: u64) -> (Requirements, AllocationOptions) {
    let options = AllocationOptions::new(MemoryUsage::Upload).with_lifetime(ExpectedLifetime::Short);
    (required(size, BUFFER_UNIT), options)
}

fn required(size: u64, unit: u64) -> Requirements {
    let alignment = Alignment::new(unit).unwrap_or(Alignment::ONE);
    Requirements::new(size.next_multiple_of(unit)).with_alignment(alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_bring_what_they_should() {
        let scene = Scene::new(200, 1 << 30);
        for frame in &scene.frames {
            let bytes: u64 = frame.resources.iter().map(|(requirements, _)| requirements.size).sum();
            assert!((8 << 20..=25 << 20).contains(&bytes), "{bytes}");
            assert!((4 << 20..=8 << 20).contains(&frame.upload.0.size));
            let sizes = frame.resources.iter().map(|(requirements, _)| requirements.size);
            assert!(sizes.into_iter().all(|size| (65536..=16 << 20).contains(&size)));
        }
    }
}
