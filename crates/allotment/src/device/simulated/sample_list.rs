//! Queue work that samples a texture at a list of coordinates, as a shader does with `SampleLevel`.

use core::ops::Range;
use std::sync::Arc;

use super::descriptors::{Found, HeapInUse};
use super::images::Shape;
use super::memory::MemoryObject;
use super::names::{NamedBytes, Names};
use super::queues::Task;
use super::reads::{READS, WRITES, check_buffer, check_heap, named_bytes};
use super::resources::InUse;
use super::samples::{addressed, border, sampler};
use super::{SimulatedBuffer, SimulatedDescriptorHeap, SimulatedGpu, ValidationErrors};
use crate::device::{DeviceError, ImageViewDimension, QueueIndex, SamplerDesc, TimelinePoint, TimelineValue};

/// Bytes of an entry of a list: five words.
const ENTRY: u64 = 20;

/// A texture that is sampled at a list of coordinates: the nearest texel of the nearest mip level, whatever the sampler's
/// filters are.
///
/// An entry of the list is five numbers of 4 bytes: the coordinates `u`, `v` and `w` and the mip level as `f32`, then
/// the number of the texel of the picture that is written. Of a 2D texture, `w` is not used; of a cube, all three are a
/// direction.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedSampleList<'a> {
    /// The shader-visible heap of the texture's descriptor.
    pub resources: &'a SimulatedDescriptorHeap,
    /// The index of that descriptor: of a 2D image or a cube with texels of 4 bytes.
    pub texture: u32,
    /// What the shader has declared the texture as: [`D2`](ImageViewDimension::D2) or [`Cube`](ImageViewDimension::Cube).
    pub dimension: ImageViewDimension,
    /// The shader-visible heap of the sampler.
    pub samplers: &'a SimulatedDescriptorHeap,
    /// The index of the sampler.
    pub sampler: u32,
    /// The list.
    pub coordinates: &'a SimulatedBuffer,
    /// Offset of the first entry in bytes.
    pub coordinates_offset: u64,
    /// The number of entries.
    pub count: u32,
    /// The picture: four bytes a texel.
    pub to: &'a SimulatedBuffer,
}

/// A [`SimulatedSampleList`] on a queue. The offset is relative to the memory.
#[derive(Debug)]
pub(super) struct ListedSamples {
    resources: HeapInUse,
    texture: u32,
    is_cube: bool,
    samplers: HeapInUse,
    sampler: u32,
    coordinates: InUse,
    coordinates_offset: u64,
    count: u32,
    to: InUse,
    /// The picture's range in its memory.
    picture: Range<u64>,
}

/// A texture that work can sample.
struct Texture {
    memory: Arc<MemoryObject>,
    start: u64,
    shape: Shape,
}

impl ListedSamples {
    pub(super) fn memories(&self) -> [&Arc<MemoryObject>; 2] {
        [self.coordinates.memory(), self.to.memory()]
    }

    /// Returns the ranges that are read and written, without the texture. Which texels are written the list says.
    pub(super) fn accesses(&self) -> [(&Arc<MemoryObject>, Range<u64>); 2] {
        let first = self.coordinates_offset;
        let list = first..first + ENTRY * u64::from(self.count);
        [(self.coordinates.memory(), list), (self.to.memory(), self.picture.clone())]
    }

    /// Samples the texture. The list and the descriptors are read only now. Calls `reads` with the texture.
    pub(super) fn run(
        &self,
        names: &Names,
        validation_errors: &ValidationErrors,
        reads: impl Fn(&MemoryObject, Range<u64>),
    ) {
        let report = |what, at, heap: &HeapInUse, wrong| {
            validation_errors.add(format!("sample: {what} {at} of {:?} {wrong}", heap.slots().desc));
        };
        let found = self.resources.slots().find(self.texture);
        let texture = texture(found, self.is_cube, names, &reads)
            .map_err(|wrong| report("descriptor", self.texture, &self.resources, wrong));
        let sampler = sampler(self.samplers.slots().find(self.sampler), names)
            .map_err(|wrong| report("sampler", self.sampler, &self.samplers, wrong));
        let found = texture.ok().zip(sampler.ok());
        for at in (0..u64::from(self.count)).map(|i| self.coordinates_offset + ENTRY * i) {
            let mut entry = [[0; 4]; 5];
            self.coordinates.memory().read(at, entry.as_flattened_mut());
            let [u, v, w, level, to] = entry;
            let texel = match &found {
                Some((texture, sampler)) => {
                    let [u, v, w, level] = [u, v, w, level].map(f32::from_ne_bytes);
                    texture.sample(sampler, self.is_cube, [u, v, w], level)
                }
                None => SimulatedGpu::NOT_READ.to_ne_bytes(),
            };
            let to = self.picture.start + 4 * u64::from(u32::from_ne_bytes(to));
            // Compared without a sum: the number comes from a buffer that the program wrote.
            if to < self.picture.end && self.picture.end - to >= 4 {
                self.to.memory().write(to, &texel);
            } else {
                validation_errors.add(format!("sample: entry at byte {at} names a texel beyond the picture"));
            }
        }
    }
}

impl Texture {
    fn sample(&self, sampler: &SamplerDesc, is_cube: bool, at: [f32; 3], level: f32) -> [u8; 4] {
        let last = self.shape.last_level() as f32;
        // No panic of a number that is none: the conversion makes it 0.
        let level = level.min(sampler.max_lod).min(last).max(0.0).round() as u32;
        let (layer, [u, v]) = if is_cube { face(at) } else { (0, [at[0], at[1]]) };
        let Some((start, [width, height])) = self.shape.sampled_level(level, layer) else {
            return SimulatedGpu::NOT_READ.to_ne_bytes();
        };
        let texel = if is_cube {
            // Within the face, whatever the modes are.
            let texel = |at: f32, length: u32| Some(((at * length as f32) as u64).min(u64::from(length) - 1));
            (texel(u, width), texel(v, height))
        } else {
            let [mode_u, mode_v, _] = sampler.address;
            (
                addressed(mode_u, nearest(u, width), width.into()),
                addressed(mode_v, nearest(v, height), height.into()),
            )
        };
        let (Some(x), Some(y)) = texel else { return border(sampler) };
        let mut texel = [0; 4];
        self.memory.read(self.start + start + 4 * (y * u64::from(width) + x), &mut texel);
        texel
    }
}

/// Returns the number of the texel at a coordinate along an axis; beyond the texture where it is.
fn nearest(at: f32, length: u32) -> i64 {
    (at * length as f32).floor() as i64
}

/// Returns the face of a cube that a direction meets, as its array layer, and where: both graphics APIs have the same rule.
fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let [along_x, along_y, along_z] = [x, y, z].map(f32::abs);
    let (layer, [s, t], along) = if along_z >= along_x && along_z >= along_y {
        if z >= 0.0 { (4, [x, -y], along_z) } else { (5, [-x, -y], along_z) }
    } else if along_y >= along_x {
        if y >= 0.0 { (2, [x, z], along_y) } else { (3, [x, -z], along_y) }
    } else if x >= 0.0 {
        (0, [-z, -y], along_x)
    } else {
        (1, [z, -y], along_x)
    };
    (layer, [s, t].map(|at| (at / along + 1.0) / 2.0))
}

/// Returns the texture that a descriptor names, or the validation error. Calls `reads` with it.
fn texture(
    found: Found,
    is_cube: bool,
    names: &Names,
    reads: &impl Fn(&MemoryObject, Range<u64>),
) -> Result<Texture, &'static str> {
    const NOT_A_TEXTURE: &str = "is not of a 2D image or a cube that is sampled, with texels of 4 bytes";
    let name = match found {
        Found::Bytes { name, sampled: true, .. } => name,
        Found::Invalid(wrong) => return Err(wrong),
        Found::Null | Found::Bytes { .. } | Found::Sampler(..) => return Err(NOT_A_TEXTURE),
    };
    let NamedBytes { memory, offset: start, size, shape } = named_bytes(name, names)?;
    let shape = shape.filter(|shape| shape.sampled_extent().is_some()).ok_or(NOT_A_TEXTURE)?;
    if is_cube && !shape.is_cube() {
        return Err("is not of a cube");
    }
    reads(&memory, start..start + size);
    Ok(Texture { memory, start, shape })
}

impl SimulatedGpu {
    /// Submits work that samples textures at lists of coordinates, as a shader does: the counterpart of
    /// [`submit`](crate::device::QueueDevice::submit), on the same timeline.
    ///
    /// Lists and descriptors are read when the work runs. An invalid descriptor is a validation error, which begins with
    /// `sample: `, and [`NOT_READ`](Self::NOT_READ) is written; so is a sampler that compares, or with a bias or a smallest
    /// level of detail. An entry that names a texel beyond the picture is a validation error and writes nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`submit`](crate::device::QueueDevice::submit).
    ///
    /// # Safety
    ///
    /// The lists lie in their buffers. The heaps, the buffers, the textures and the samplers live until the returned
    /// value is reached, and nothing else writes to them, or reads what is written, in that time.
    pub unsafe fn submit_sample_lists(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        lists: &[SimulatedSampleList<'_>],
    ) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        let tasks = lists.iter().map(|list| match check_list(list) {
            Ok(()) => {
                let (coordinates, to) = (&list.coordinates.range, &list.to.range);
                Ok(Task::SampleList(ListedSamples {
                    resources: HeapInUse::new(list.resources),
                    texture: list.texture,
                    is_cube: list.dimension == ImageViewDimension::Cube,
                    samplers: HeapInUse::new(list.samplers),
                    sampler: list.sampler,
                    coordinates: InUse::new(coordinates),
                    coordinates_offset: coordinates.offset + list.coordinates_offset,
                    count: list.count,
                    to: InUse::new(to),
                    picture: to.offset..to.offset + to.size,
                }))
            }
            Err(wrong) => {
                self.report(format!("submit_sample_lists: {list:?}: {wrong}"));
                Err(wrong)
            }
        });
        self.shared.queues.submit(queue, waits, tasks)
    }
}

/// Returns the validation error of a list that is being submitted, if any.
fn check_list(list: &SimulatedSampleList<'_>) -> Result<(), DeviceError> {
    if !matches!(list.dimension, ImageViewDimension::D2 | ImageViewDimension::Cube) {
        return Err(DeviceError::Unsupported);
    }
    check_heap(list.resources)?;
    check_heap(list.samplers)?;
    check_buffer(READS, list.coordinates, list.coordinates_offset, Some(ENTRY * u64::from(list.count)))?;
    check_buffer(WRITES, list.to, 0, Some(list.to.range.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_meets_the_face_that_both_graphics_apis_say() {
        // The middle of a face, and a point towards the right and the top of it as it is seen from within.
        for (direction, layer, [s, t]) in [
            ([1.0, 0.0, 0.0], 0, [0.5, 0.5]),
            ([1.0, 0.5, -0.5], 0, [0.75, 0.25]),
            ([-2.0, 1.0, 1.0], 1, [0.75, 0.25]),
            ([0.5, 1.0, -0.5], 2, [0.75, 0.25]),
            ([0.5, -1.0, 0.5], 3, [0.75, 0.25]),
            ([0.5, 0.5, 1.0], 4, [0.75, 0.25]),
            ([-0.5, 0.5, -1.0], 5, [0.75, 0.25]),
        ] {
            assert_eq!(face(direction), (layer, [s, t]), "{direction:?}");
        }
    }

    #[test]
    fn coordinates_of_a_texture_are_of_its_nearest_texels() {
        assert_eq!([0.0, 0.24, 0.26, 0.99, 1.0, -0.01].map(|at| nearest(at, 4)), [0, 0, 1, 3, 4, -1]);
    }
}
