//! Queue work that samples a texture through descriptors, as a shader does with a draw of the texture.

use core::ops::Range;
use std::sync::Arc;

use super::descriptors::{Found, HeapInUse};
use super::memory::MemoryObject;
use super::names::{Named, NamedBytes, Names};
use super::queues::Task;
use super::reads::{WRITES, check_buffer, check_heap, named_bytes};
use super::resources::InUse;
use super::{SimulatedBuffer, SimulatedDescriptorHeap, SimulatedGpu, ValidationErrors};
use crate::device::{
    AddressMode, BorderColor, DeviceError, QueueIndex, SamplerDesc, TimelinePoint, TimelineValue,
};

/// A texture that is sampled into a picture: texel for texel, each in its middle, where every filter returns the texel
/// itself. What lies beyond the texture is as the sampler's address modes say.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedSample<'a> {
    /// The shader-visible heap of the texture's descriptor.
    pub resources: &'a SimulatedDescriptorHeap,
    /// The index of that descriptor: a 2D image with texels of 4 bytes, of which the first mip level is sampled.
    pub texture: u32,
    /// The shader-visible heap of the sampler.
    pub samplers: &'a SimulatedDescriptorHeap,
    /// The index of the sampler.
    pub sampler: u32,
    /// Width and height of the picture in texels; it may be larger than the texture.
    pub extent: [u32; 2],
    /// The destination: four bytes a texel, row after row.
    pub to: &'a SimulatedBuffer,
    /// Offset of the first byte that is written.
    pub to_offset: u64,
}

/// A [`SimulatedSample`] on a queue. The offset is relative to the memory.
#[derive(Debug)]
pub(super) struct TextureSamples {
    resources: HeapInUse,
    texture: u32,
    samplers: HeapInUse,
    sampler: u32,
    extent: [u32; 2],
    to: InUse,
    to_offset: u64,
}

/// A texture that work can sample.
struct Texture {
    memory: Arc<MemoryObject>,
    start: u64,
    extent: [u32; 2],
}

impl TextureSamples {
    pub(super) fn memories(&self) -> [&Arc<MemoryObject>; 2] {
        [self.to.memory(); 2]
    }

    /// Returns the range that is written.
    pub(super) fn written(&self) -> (&Arc<MemoryObject>, Range<u64>) {
        let [width, height] = self.extent.map(u64::from);
        (self.to.memory(), self.to_offset..self.to_offset + 4 * width * height)
    }

    /// Samples the texture. Descriptors are read only now. Calls `reads` with the texture.
    pub(super) fn run(
        &self,
        names: &Names,
        validation_errors: &ValidationErrors,
        reads: impl Fn(&MemoryObject, Range<u64>),
    ) {
        let report = |what, at, heap: &HeapInUse, wrong| {
            validation_errors.add(format!("sample: {what} {at} of {:?} {wrong}", heap.slots().desc));
        };
        let texture = texture(self.resources.slots().find(self.texture), names)
            .map_err(|wrong| report("descriptor", self.texture, &self.resources, wrong));
        let sampler = sampler(self.samplers.slots().find(self.sampler), names)
            .map_err(|wrong| report("sampler", self.sampler, &self.samplers, wrong));
        let found = texture.ok().zip(sampler.ok());
        if let Some((Texture { memory, start, extent: [width, height] }, _)) = &found {
            reads(memory, *start..start + 4 * u64::from(*width) * u64::from(*height));
        }
        let [width, height] = self.extent.map(u64::from);
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let texel = match &found {
                Some((texture, sampler)) => texture.sample(sampler, x, y),
                None => SimulatedGpu::NOT_READ.to_ne_bytes(),
            };
            self.to.memory().write(self.to_offset + 4 * (y * width + x), &texel);
        }
    }
}

impl Texture {
    fn sample(&self, sampler: &SamplerDesc, x: u64, y: u64) -> [u8; 4] {
        let [width, height] = self.extent.map(u64::from);
        let [u, v, _] = sampler.address;
        match (addressed(u, x as i64, width), addressed(v, y as i64, height)) {
            (Some(x), Some(y)) => {
                let mut texel = [0; 4];
                self.memory.read(self.start + 4 * (y * width + x), &mut texel);
                texel
            }
            _ => border(sampler),
        }
    }
}

/// Returns the color of the border of a sampler.
pub(super) fn border(sampler: &SamplerDesc) -> [u8; 4] {
    match sampler.border {
        BorderColor::TransparentBlack => [0; 4],
        BorderColor::OpaqueBlack => [0, 0, 0, u8::MAX],
        BorderColor::OpaqueWhite => [u8::MAX; 4],
    }
}

/// Returns the texel along an axis that stands for the one at `at`; `None` for the border.
pub(super) fn addressed(mode: AddressMode, at: i64, length: u64) -> Option<u64> {
    // Lengths of images are 32-bit numbers.
    let length = length as i64;
    let texel = match mode {
        AddressMode::Repeat => at.rem_euclid(length),
        AddressMode::MirroredRepeat => {
            let at = at.rem_euclid(2 * length);
            at.min(2 * length - 1 - at)
        }
        AddressMode::ClampToEdge => at.clamp(0, length - 1),
        AddressMode::ClampToBorder if (0..length).contains(&at) => at,
        AddressMode::ClampToBorder => return None,
    };
    u64::try_from(texel).ok()
}

/// Returns the texture that a descriptor names, or the validation error.
fn texture(found: Found, names: &Names) -> Result<Texture, &'static str> {
    const NOT_A_TEXTURE: &str = "is not of a 2D image that is sampled, with texels of 4 bytes";
    let name = match found {
        Found::Bytes { name, sampled: true, .. } => name,
        Found::Invalid(wrong) => return Err(wrong),
        Found::Null | Found::Bytes { .. } | Found::Sampler(..) => return Err(NOT_A_TEXTURE),
    };
    let NamedBytes { memory, offset: start, shape, .. } = named_bytes(name, names)?;
    let extent = shape.and_then(|shape| shape.sampled_extent()).ok_or(NOT_A_TEXTURE)?;
    Ok(Texture { memory, start, extent })
}

/// Returns the description of a sampler, or the validation error.
pub(super) fn sampler(found: Found, names: &Names) -> Result<SamplerDesc, &'static str> {
    let desc = match found {
        Found::Sampler(None, _) => SamplerDesc::default(),
        Found::Sampler(Some(name), _) => match names.get(name) {
            Some(Named::Sampler(desc)) => desc,
            _ => return Err("names a destroyed sampler"),
        },
        Found::Invalid(wrong) => return Err(wrong),
        Found::Null | Found::Bytes { .. } => return Err("is not a sampler"),
    };
    // Comparisons return no texel, and other levels than the first are not sampled here.
    let first_level = desc.lod_bias + desc.min_lod == 0.0;
    if desc.compare.is_none() && first_level { Ok(desc) } else { Err("does not sample the first mip level") }
}

impl SimulatedGpu {
    /// Submits work that samples textures through descriptors, as a shader does: the counterpart of
    /// [`submit`](crate::device::QueueDevice::submit), on the same timeline.
    ///
    /// Descriptors are read when the work runs. An invalid one is a validation error, which begins with `sample: `, and
    /// the picture is filled with [`NOT_READ`](Self::NOT_READ); so is a sampler that compares or that does not sample
    /// the first mip level.
    ///
    /// # Errors
    ///
    /// The errors of [`submit`](crate::device::QueueDevice::submit).
    ///
    /// # Safety
    ///
    /// The pictures lie in their buffers. The heaps, the buffers, the textures and the samplers live until the returned
    /// value is reached, and nothing else writes to them, or reads what is written, in that time.
    pub unsafe fn submit_samples(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        samples: &[SimulatedSample<'_>],
    ) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        let tasks = samples.iter().map(|sample| match check_sample(sample) {
            Ok(()) => Ok(Task::Sample(TextureSamples {
                resources: HeapInUse::new(sample.resources),
                texture: sample.texture,
                samplers: HeapInUse::new(sample.samplers),
                sampler: sample.sampler,
                extent: sample.extent,
                to: InUse::new(&sample.to.range),
                to_offset: sample.to.range.offset + sample.to_offset,
            })),
            Err(wrong) => {
                self.report(format!("submit_samples: {sample:?}: {wrong}"));
                Err(wrong)
            }
        });
        self.shared.queues.submit(queue, waits, tasks)
    }
}

/// Returns the validation error of samples that are being submitted, if any.
fn check_sample(sample: &SimulatedSample<'_>) -> Result<(), DeviceError> {
    let [width, height] = sample.extent.map(u64::from);
    let bytes = width.checked_mul(height).and_then(|texels| texels.checked_mul(4));
    check_heap(sample.resources)?;
    check_heap(sample.samplers)?;
    check_buffer(WRITES, sample.to, sample.to_offset, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_a_texture_is_as_the_address_mode_says() {
        for (mode, expected) in [
            (AddressMode::Repeat, [1, 2, 0, 1, 2, 0, 1, 2, 0, 1].map(Some)),
            (AddressMode::MirroredRepeat, [1, 0, 0, 1, 2, 2, 1, 0, 0, 1].map(Some)),
            (AddressMode::ClampToEdge, [0, 0, 0, 1, 2, 2, 2, 2, 2, 2].map(Some)),
            (
                AddressMode::ClampToBorder,
                [None, None, Some(0), Some(1), Some(2), None, None, None, None, None],
            ),
        ] {
            let found: Vec<_> = (-2..8).map(|at| addressed(mode, at, 3)).collect();
            assert_eq!(found, expected, "{mode:?}");
        }
    }
}
