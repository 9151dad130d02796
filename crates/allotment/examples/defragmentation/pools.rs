//! The pools of the town beside the default ones: blocks of other sizes, for the harbour and for signs.

use allotment::device::{DescriptorDevice, Requirements};
use allotment::memory::blocks::EmptyBlockPolicy;
use allotment::memory::blocks::{BlockSize, BlockSizes};
use allotment::memory::defragmentation::PassLimits;
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, DefragmenterDesc};
use allotment::memory::{Pool, PoolDesc};
use allotment::prelude::*;
use core::time::Duration;

use allotment::descriptor::ShaderVisibleHeapDesc;
use allotment_readers::DescriptorReader;

use crate::common::Outcome;
use crate::works::{QUEUE, Works};

const IN_FLIGHT: usize = 3;

/// Bytes of a block of the default pools and of the signs' pool, and of the least block of the harbour, whose blocks grow
/// with it.
pub(crate) const BLOCK: u64 = 2 << 20;
pub(crate) const SIGNS_BLOCK: u64 = 1 << 20;
pub(crate) const HARBOUR_BLOCK: u64 = 256 << 10;

/// The limits of a frame's step.
const LIMITS: PassLimits =
    PassLimits::NONE.with_bytes(8 << 20).with_moves(128).with_time(Duration::from_millis(2));

/// Descriptors for the tables of binding sets, those that wait for the GPU included, and for recordings.
const TABLES: u32 = 4096;
const TRANSIENT: u32 = 1024;

pub(crate) fn gpu<D: DescriptorDevice + Clone>(device: D, defragmented: bool) -> Outcome<Gpu<D>> {
    let mut allocator = AllocatorDesc::default();
    allocator.block_sizes = BlockSizes::fixed(BLOCK);
    // Empty blocks are freed, with or without defragmentation.
    allocator.empty_blocks = EmptyBlockPolicy::NONE;
    let heap = ShaderVisibleHeapDesc::resources().with_regions(0, TABLES, TRANSIENT).with_chunk(64);
    let heap = heap.within(&device.descriptor_limits().resources);
    let desc = GpuDesc::default().with_frames_in_flight(IN_FLIGHT).with_allocator(allocator);
    let mut desc = desc.with_resource_descriptors(heap);
    if defragmented {
        let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(LIMITS);
        desc = desc.with_defragmentation(DefragmenterDesc::new(strategy).with_queue(QUEUE));
    }
    Ok(Gpu::new(device, desc)?)
}

pub(crate) struct Pools {
    pub(crate) harbour: Pool,
    pub(crate) signs: Pool,
}

impl Pools {
    pub(crate) fn new<D: DescriptorDevice, R: DescriptorReader<D>>(works: &Works<D, R>) -> Outcome<Self> {
        let gpu = &works.gpu;
        let buffer = gpu.device().buffer_requirements(&works.buffer_info(HARBOUR_BLOCK))?;
        let image = gpu.device().image_requirements(&R::texture_desc([64, 64]).into())?;
        let mut growing = BlockSizes::default();
        growing.smallest = HARBOUR_BLOCK;
        Ok(Self {
            harbour: create(gpu, "harbour", &buffer, BlockSize::Growing(growing), false)?,
            signs: create(gpu, "signs", &image, BlockSize::Fixed(SIGNS_BLOCK), true)?,
        })
    }

    /// When nothing is left in them.
    pub(crate) fn destroy<D: DescriptorDevice>(self, gpu: &Gpu<D>) -> Outcome {
        // Tables of sets keep what they name until the GPU is done with them, and that waits for the GPU after it.
        for _ in 0..2 {
            gpu.wait_idle()?;
            gpu.reclaim();
        }
        // The run that has begun holds the pool that it defragments.
        gpu.defragmenter().stop();
        gpu.allocator().destroy_pool(self.harbour)?;
        gpu.allocator().destroy_pool(self.signs)?;
        Ok(())
    }
}

fn create<D: DescriptorDevice>(
    gpu: &Gpu<D>,
    name: &'static str,
    requirements: &Requirements,
    sizing: BlockSize,
    only_images: bool,
) -> Outcome<Pool> {
    let best = gpu.allocator().explain(requirements, &MemoryUsage::GpuOnly.into());
    let mut desc = PoolDesc::new([best.first().ok_or("no memory type suits")?.memory_type]);
    desc.name = Some(name.into());
    desc.sizing = Some(sizing);
    // Nothing has to be kept apart where all are images.
    desc.ignore_granularity = only_images;
    // The harbour has cranes, which are pinned.
    desc.separate_movable = true;
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    Ok(gpu.allocator().create_pool(desc)?)
}
