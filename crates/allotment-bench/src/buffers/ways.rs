//! The ways to have a buffer with memory: each contender's own calls.

use core::fmt::Display;
use core::time::Duration;
use std::sync::Arc;

use allotment::device::BufferDesc;
use allotment::device::vulkan::EnabledFeatures;
use allotment::gpu::{Gpu as Front, GpuDesc};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{AllocationCreateDesc, AllocationScheme};
use vk_mem::Alloc as _;

use crate::clock::thread_cpu_time;
use crate::contender::{GpuAllocator, VkMem};
use crate::failure::Failure;
use crate::rng::Rng;
use crate::vulkan::Gpu;

/// Buffers that live while others come and go, so that no block becomes empty.
const LIVE: usize = 1000;

/// The position of VMA's way.
pub(super) const VMA: usize = 1;

/// A way to have buffers.
pub(super) struct Way<'a> {
    pub(super) name: &'static str,
    step: Box<DoStep<'a>>,
}

/// How long it took to create some buffers, and to destroy them.
type Times = [Duration; 2];

type DoStep<'a> = dyn FnMut(Step<'_>) -> Result<Times, Failure> + 'a;

enum Step<'a> {
    /// Create buffers of these sizes, and destroy them.
    Batch(&'a [u64]),
    /// Destroy those that live.
    Finish,
}

impl<'a> Way<'a> {
    /// `destroy` destroys all of some buffers.
    fn new<T: 'a>(
        name: &'static str,
        mut create: impl FnMut(u64) -> Result<T, Failure> + 'a,
        mut destroy: impl FnMut(&mut Vec<T>) -> Result<(), Failure> + 'a,
    ) -> Result<Self, Failure> {
        let mut rng = Rng::new(0);
        let mut live = (0..LIVE).map(|_| create(size(&mut rng))).collect::<Result<Vec<T>, _>>()?;
        let mut buffers = Vec::new();
        let step = move |step: Step<'_>| {
            let began = thread_cpu_time();
            match step {
                Step::Batch(sizes) => sizes.iter().try_for_each(|&size| {
                    buffers.push(create(size)?);
                    Ok::<_, Failure>(())
                })?,
                Step::Finish => buffers.append(&mut live),
            }
            let created = thread_cpu_time();
            destroy(&mut buffers)?;
            Ok([created - began, thread_cpu_time() - created])
        };
        Ok(Self { name, step: Box::new(step) })
    }

    /// Creates buffers of these sizes, and destroys them. Returns how long each took.
    pub(super) fn batch(&mut self, sizes: &[u64]) -> Result<Times, Failure> {
        (self.step)(Step::Batch(sizes))
    }

    /// Destroys the buffers that live.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        (self.step)(Step::Finish).map(drop)
    }
}

/// Returns a random size: 256 bytes to 64 KiB, small ones as often as large ones.
pub(super) fn size(rng: &mut Rng) -> u64 {
    let log2 = 8 + rng.below(8);
    (1 << log2) + u64::from(rng.below(1 << log2)) / 4 * 4
}

fn usage() -> vk::BufferUsageFlags {
    let copies = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    copies | vk::BufferUsageFlags::STORAGE_BUFFER
}

fn info(size: u64) -> vk::BufferCreateInfo<'static> {
    vk::BufferCreateInfo::default().size(size).usage(usage())
}

fn desc(size: u64) -> BufferDesc {
    BufferDesc::new(size).with_usage(usage().as_raw().into())
}

fn ours(error: impl Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

/// All ways, that of VMA at [`VMA`].
pub(super) fn all<'a>(
    gpu: &'a Arc<Gpu>,
    vma: &'a VkMem,
    gpu_allocator: &'a GpuAllocator,
) -> Result<Vec<Way<'a>>, Failure> {
    Ok(vec![
        of_the_driver(gpu)?,
        of_vma(vma)?,
        of_gpu_allocator(gpu, gpu_allocator)?,
        of_the_allocator(gpu)?,
        of_the_front("allotment, Gpu", gpu, |usage| usage.into())?,
        of_the_front("allotment, Gpu, named", gpu, |usage| usage.with_name("a mesh"))?,
        of_the_front("allotment, Gpu, named, relocatable", gpu, |usage| {
            usage.with_name("a mesh").relocatable()
        })?,
    ])
}

/// The calls that each way makes, without memory of a buffer's own: all are at the same place.
fn of_the_driver(gpu: &Arc<Gpu>) -> Result<Way<'_>, Failure> {
    let device = &gpu.device;
    let all = info(1 << 20);
    // SAFETY: the struct is valid and lives for the call; the buffer is destroyed below.
    let largest = unsafe { device.create_buffer(&all, None) }.map_err(Failure::vulkan("vkCreateBuffer"))?;
    // SAFETY: the buffer is the device's.
    let needs = unsafe { device.get_buffer_memory_requirements(largest) };
    // SAFETY: nothing uses it.
    unsafe { device.destroy_buffer(largest, None) };
    let memory_type = needs.memory_type_bits.trailing_zeros();
    let allocate =
        vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
    // SAFETY: the size and the type are those of a buffer of this kind.
    let memory =
        unsafe { device.allocate_memory(&allocate, None) }.map_err(Failure::vulkan("vkAllocateMemory"))?;
    let memory = Memory { memory, gpu };
    let create = move |size| {
        // SAFETY: the struct is valid and lives for the call.
        let buffer =
            unsafe { device.create_buffer(&info(size), None) }.map_err(Failure::vulkan("vkCreateBuffer"))?;
        // SAFETY: the buffer is the device's.
        let _needs = unsafe { device.get_buffer_memory_requirements(buffer) };
        // SAFETY: the buffer is not bound yet, and the memory is large enough for each of them, and of their type.
        unsafe { device.bind_buffer_memory(buffer, memory.memory, 0) }
            .map_err(Failure::vulkan("vkBindBufferMemory"))?;
        Ok(buffer)
    };
    let destroy = move |buffers: &mut Vec<vk::Buffer>| {
        // SAFETY: no queue uses a buffer, and each is destroyed once.
        buffers.drain(..).for_each(|buffer| unsafe { device.destroy_buffer(buffer, None) });
        Ok(())
    };
    Way::new("Vulkan alone: create, ask, bind", create, destroy)
}

/// Memory that is freed with the way that uses it.
struct Memory<'a> {
    memory: vk::DeviceMemory,
    gpu: &'a Gpu,
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: all buffers that were bound to it are destroyed.
        unsafe { self.gpu.device.free_memory(self.memory, None) };
    }
}

fn of_vma(vma: &VkMem) -> Result<Way<'_>, Failure> {
    let allocator = vma.allocator();
    let options = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::Auto, ..Default::default() };
    let create = move |size| {
        // SAFETY: the structs are valid and live for the call.
        unsafe { allocator.create_buffer(&info(size), &options) }.map_err(Failure::vulkan("vmaCreateBuffer"))
    };
    let destroy = move |buffers: &mut Vec<(vk::Buffer, vk_mem::Allocation)>| {
        for (buffer, mut allocation) in buffers.drain(..) {
            // SAFETY: both are this allocator's, no queue uses them, and each is destroyed once.
            unsafe { allocator.destroy_buffer(buffer, &mut allocation) };
        }
        Ok(())
    };
    Way::new("VMA, by vk-mem", create, destroy)
}

fn of_gpu_allocator<'a>(gpu: &'a Arc<Gpu>, contender: &'a GpuAllocator) -> Result<Way<'a>, Failure> {
    let device = &gpu.device;
    let failed = |error: gpu_allocator::AllocationError| Failure::Setup {
        contender: "gpu-allocator",
        error: error.to_string(),
    };
    let create = move |size| {
        // SAFETY: the struct is valid and lives for the call.
        let buffer =
            unsafe { device.create_buffer(&info(size), None) }.map_err(Failure::vulkan("vkCreateBuffer"))?;
        let desc = AllocationCreateDesc {
            name: "a mesh",
            // SAFETY: the buffer is the device's.
            requirements: unsafe { device.get_buffer_memory_requirements(buffer) },
            location: MemoryLocation::GpuOnly,
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        };
        let allocation = contender.lock().allocate(&desc).map_err(failed)?;
        // SAFETY: the allocation lives as long as its memory is used.
        let memory = unsafe { allocation.memory() };
        // SAFETY: the buffer is not bound yet, and the memory is as it needs it.
        unsafe { device.bind_buffer_memory(buffer, memory, allocation.offset()) }
            .map_err(Failure::vulkan("vkBindBufferMemory"))?;
        Ok((buffer, allocation))
    };
    let destroy = move |buffers: &mut Vec<(vk::Buffer, gpu_allocator::vulkan::Allocation)>| {
        for (buffer, allocation) in buffers.drain(..) {
            // SAFETY: no queue uses the buffer, and it is destroyed once.
            unsafe { device.destroy_buffer(buffer, None) };
            contender.lock().free(allocation).map_err(failed)?;
        }
        Ok(())
    };
    Way::new("gpu-allocator", create, destroy)
}

fn of_the_allocator(gpu: &Arc<Gpu>) -> Result<Way<'_>, Failure> {
    let device = gpu.metered(EnabledFeatures::MAINTENANCE4)?;
    let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).map_err(ours)?);
    let options = AllocationOptions::from(MemoryUsage::GpuOnly);
    let creates = Arc::clone(&allocator);
    let create = move |size| creates.create_buffer(&desc(size).into(), &options).map_err(ours);
    let destroy = move |buffers: &mut Vec<_>| {
        buffers
            .drain(..)
            .try_for_each(|buffer| allocator.destroy_buffer(buffer))
            .map_err(|_| ours("another's"))
    };
    Way::new("allotment, Allocator", create, destroy)
}

/// Dropped, and reclaimed together, as the end of a frame does.
fn of_the_front<'a>(
    name: &'static str,
    gpu: &'a Arc<Gpu>,
    options: impl FnOnce(MemoryUsage) -> AllocationOptions,
) -> Result<Way<'a>, Failure> {
    let front = Arc::new(Front::new(gpu.library().clone(), GpuDesc::default()).map_err(ours)?);
    let options = options(MemoryUsage::GpuOnly);
    let creates = Arc::clone(&front);
    let create = move |size| creates.create_buffer(&desc(size).into(), &options).map_err(ours);
    let destroy = move |buffers: &mut Vec<_>| {
        buffers.clear();
        front.reclaim();
        Ok(())
    };
    Way::new(name, create, destroy)
}
