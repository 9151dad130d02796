//! Reads through descriptors on the simulated GPU, which executes them itself.

use allotment::device::simulated::{SimulatedGpu, SimulatedRead};
use allotment::device::{BufferDesc, DeviceError, QueueIndex, TimelinePoint, TimelineValue};

use crate::{DescriptorReader, Read};

/// Reads that are submitted together without a heap allocation, so that tests can show that a frame makes none.
const FEW: usize = 4;

/// Reads through descriptors of the simulated GPU.
#[derive(Debug)]
pub struct SimulatedReader {
    device: SimulatedGpu,
}

impl DescriptorReader<SimulatedGpu> for SimulatedReader {
    fn new(device: &SimulatedGpu, _: u32) -> Result<Self, DeviceError> {
        Ok(Self { device: device.clone() })
    }

    fn buffer_info(&self, size: u64, _: bool) -> BufferDesc {
        BufferDesc::new(size)
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
}

fn simulated_read<'a>(read: &Read<'a, SimulatedGpu>) -> SimulatedRead<'a> {
    let Read { heap, indices, indices_offset, count, to, to_offset } = *read;
    SimulatedRead { heap, indices, indices_offset, count, to, to_offset }
}
