//! This library with an expandable buffer, of which all buffers of the GPU's alone are pieces. Others, and images, are allocated
//! as [always](super::Allotment).
//!
//! On a Vulkan device that has room for it, and otherwise on the simulated GPU: bytes and calls are the same there, and times mean
//! nothing.

use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, Device, vulkan};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::{BufferPiece, ExpandableBuffer, OwningAllocator};
use allotment::{Alignment, Allocation, Allocator, AllocatorDesc, MemoryUsage};

use super::allotment::allocate;
use super::{Contender, Kind, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{Gpu, Meter, Reading};

const NAME: &str = "own-expandable";

/// As many addresses as no trace needs, and half of what Vulkan devices have for all buffers.
const ADDRESSES: u64 = 64 << 30;

/// The library's allocator with its default options, and a buffer.
pub(crate) struct OwnExpandable<D: Device> {
    whole: ExpandableBuffer<D>,
    memory: OwningAllocator<D>,
    reading: Box<dyn Fn() -> Reading + Sync>,
}

/// A piece, or other memory.
pub(crate) enum Token<D: Device> {
    Piece(BufferPiece<D>),
    Other(Allocation),
}

impl OwnExpandable<vulkan::Device> {
    /// Returns `None` where the device has no such buffers, or too few addresses.
    pub(crate) fn on_vulkan(gpu: &Arc<Gpu>) -> Result<Option<Self>, Failure> {
        let device = gpu.metered_for_sparse(2 * ADDRESSES)?;
        device.map(|device| Self::new(device, || Meter::OwnExpandable.read())).transpose()
    }
}

impl OwnExpandable<SimulatedGpu> {
    pub(crate) fn simulated(heap_bytes: u64) -> Result<Self, Failure> {
        let unknown = || Failure::Setup { contender: NAME, error: "there is no such profile".to_owned() };
        let mut profile = Profile::named("lavapipe").ok_or_else(unknown)?;
        profile.heaps.iter_mut().for_each(|heap| heap.size = heap_bytes);
        let device = SimulatedGpu::new(profile);
        let counted = device.clone();
        Self::new(device, move || {
            let usage = counted.usage();
            Reading {
                allocate_calls: usage.allocate_calls,
                free_calls: usage.free_calls,
                bind_calls: usage.bind_calls,
                reserved_bytes: usage.memory_bytes,
            }
        })
    }
}

impl<D> OwnExpandable<D>
where
    D: Device + Clone,
{
    fn new(device: D, reading: impl Fn() -> Reading + Sync + 'static) -> Result<Self, Failure> {
        fn failed(error: impl core::fmt::Display) -> Failure {
            Failure::Setup { contender: NAME, error: error.to_string() }
        }
        let tracker = SubmissionTracker::new(device.clone()).map_err(failed)?;
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).map_err(failed)?);
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).map_err(failed)?;
        let whole = ExpandableBuffer::new(&memory, BufferDesc::new(ADDRESSES), MemoryUsage::GpuOnly.into());
        let whole = whole.map_err(failed)?;
        Ok(Self { whole, memory, reading: Box::new(reading) })
    }
}

impl<D: Device> Contender for OwnExpandable<D> {
    type Token = Token<D>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&self, request: &Request) -> Result<Token<D>, Refusal> {
        if request.kind == Kind::Buffer && request.role == Role::Device {
            let alignment = Alignment::new(request.alignment).map_err(Refusal::new)?;
            return self.whole.create(request.size, alignment).map(Token::Piece).map_err(Refusal::new);
        }
        allocate(self.memory.allocator(), request).map(Token::Other)
    }

    fn free(&self, token: Token<D>) -> Result<(), Refusal> {
        match token {
            Token::Piece(piece) => {
                drop(piece);
                // The GPU has nothing to do.
                self.memory.deletion_queue().reclaim();
                Ok(())
            }
            Token::Other(allocation) => self.memory.allocator().free(allocation).map_err(Refusal::new),
        }
    }

    fn end_frame(&self) {
        self.memory.allocator().end_frame();
    }

    fn reading(&self) -> Reading {
        (self.reading)()
    }
}
