//! Reads through descriptors on the simulated GPU, which executes them itself.

use allotment::device::simulated::{
    SimulatedDescriptor, SimulatedGpu, SimulatedImage, SimulatedImageUse, SimulatedRead, SimulatedSample,
    SimulatedSampleList,
};
use allotment::device::{BufferDesc, DeviceError, QueueIndex, TimelinePoint, TimelineValue};

use crate::{DescriptorReader, Read, Sample, SampleList, TargetFormats};

/// Reads that are submitted together without a heap allocation, so that tests can show that a frame makes none.
const FEW: usize = 4;

/// Reads through descriptors of the simulated GPU.
#[derive(Debug)]
pub struct SimulatedReader {
    device: SimulatedGpu,
}

impl DescriptorReader<SimulatedGpu> for SimulatedReader {
    type TextureView = ();

    const SAMPLED: () = ();

    const COPIED_FROM: () = ();

    /// A format is its bytes a texel.
    const RGBA8: u32 = 4;

    const BC7: Option<u32> = None;

    const TARGETS: TargetFormats = TargetFormats {
        r8: 1,
        rgba8: 4,
        rgba16f: 8,
        r32f: 4,
        // 4 bytes of depth and none of stencil: `SimulatedGpu::format` says how such numbers are made.
        depth: 0x8100_0400,
        color_usage: 0,
        depth_usage: 0,
    };

    fn new(device: &SimulatedGpu, _: u32) -> Result<Self, DeviceError> {
        Ok(Self { device: device.clone() })
    }

    fn buffer_info(&self, size: u64, _: bool) -> BufferDesc {
        BufferDesc::new(size)
    }

    fn texture_view_info() -> SimulatedImageUse {
        SimulatedImageUse::Sampled
    }

    unsafe fn texture_view(&self, _: &SimulatedImage) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn texture_descriptor<'a>(image: &'a SimulatedImage, (): &'a ()) -> SimulatedDescriptor<'a> {
        SimulatedDescriptor::Image { image, usage: SimulatedImageUse::Sampled }
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, SimulatedGpu>],
    ) -> Result<TimelineValue, DeviceError> {
        let [first, ..] = reads else {
            // SAFETY: there are no reads.
            return unsafe { self.device.submit_reads(queue, waits, &[]) };
        };
        if reads.len() > FEW {
            let reads: Vec<_> = reads.iter().map(simulated_read).collect();
            // SAFETY: the caller's promise.
            return unsafe { self.device.submit_reads(queue, waits, &reads) };
        }
        let mut few = [simulated_read(first); FEW];
        few.iter_mut().zip(reads).for_each(|(to, read)| *to = simulated_read(read));
        // SAFETY: the caller's promise.
        unsafe { self.device.submit_reads(queue, waits, &few[..reads.len()]) }
    }

    unsafe fn sample(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        sample: &Sample<'_, SimulatedGpu>,
    ) -> Result<TimelineValue, DeviceError> {
        let Sample { resources, texture, samplers, sampler, extent, to } = *sample;
        let sample = SimulatedSample { resources, texture, samplers, sampler, extent, to, to_offset: 0 };
        // SAFETY: the caller's promise.
        unsafe { self.device.submit_samples(queue, waits, &[sample]) }
    }

    unsafe fn sample_list(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        list: &SampleList<'_, SimulatedGpu>,
    ) -> Result<TimelineValue, DeviceError> {
        let SampleList { resources, texture, dimension, samplers, sampler, list, count, to } = *list;
        let (coordinates, coordinates_offset) = (list, 0);
        let list = SimulatedSampleList {
            resources,
            texture,
            dimension,
            samplers,
            sampler,
            coordinates,
            coordinates_offset,
            count,
            to,
        };
        // SAFETY: the caller's promise.
        unsafe { self.device.submit_sample_lists(queue, waits, &[list]) }
    }
}

fn simulated_read<'a>(read: &Read<'a, SimulatedGpu>) -> SimulatedRead<'a> {
    let Read { heap, indices, indices_offset, count, to, to_offset } = *read;
    SimulatedRead { heap, indices, indices_offset, count, to, to_offset }
}
