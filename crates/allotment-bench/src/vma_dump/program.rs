//! A program that allocates with VMA: buffers, images and plain memory, in the default pools and in three of its own.

use core::ffi::CStr;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use allotment::ResourceKind;
use ash::vk;
use vk_mem::{
    Alloc, Allocation, AllocationCreateFlags, AllocationCreateInfo, Allocator, AllocatorCreateInfo,
    AllocatorPool, AllocatorPoolCreateFlags, MemoryUsage, PoolCreateInfo,
};

use super::ffi;
use crate::vulkan::{API_VERSION, Gpu};

pub(super) const MIB: u64 = 1 << 20;
/// Blocks of the default pools. Small, so that there are several.
const BLOCK: u64 = 8 * MIB;

/// VMA with allocations, which are freed when it is dropped.
pub(super) struct Program {
    live: Vec<Made>,
    /// Before their allocator.
    pools: Vec<AllocatorPool>,
    pub(super) allocator: Arc<Allocator>,
    /// Keeps the device alive.
    _gpu: Arc<Gpu>,
}

struct Made {
    allocation: Allocation,
    resource: Resource,
    usage: u64,
    pool: Option<usize>,
}

#[derive(Clone, Copy)]
enum Resource {
    Buffer(vk::Buffer),
    OptimalImage(vk::Image),
    LinearImage(vk::Image),
    /// Memory without a resource.
    Nothing,
}

/// A memory object, as VMA describes it through its allocations.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    pub(super) memory_type: u32,
    pub(super) size: u64,
    pub(super) dedicated: bool,
    /// The name of the custom pool; empty for an unnamed one.
    pub(super) pool: Option<String>,
    /// By offset.
    pub(super) allocations: Vec<Described>,
}

/// An allocation, as VMA describes it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Described {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) name: Option<String>,
    pub(super) user_data: u64,
    pub(super) kind: &'static str,
    pub(super) usage: u64,
}

/// Where a resource is allocated, and what it is called.
#[derive(Clone, Copy, Default)]
struct Options<'a> {
    pool: Option<usize>,
    name: &'a str,
    user_data: usize,
    dedicated: bool,
}

impl Options<'_> {
    fn info(&self) -> AllocationCreateInfo {
        let usage = MemoryUsage::AutoPreferDevice;
        let mut flags = AllocationCreateFlags::empty();
        flags.set(AllocationCreateFlags::DEDICATED_MEMORY, self.dedicated);
        AllocationCreateInfo { flags, usage, user_data: self.user_data, ..Default::default() }
    }
}

impl Program {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        let mut info = AllocatorCreateInfo::new(&gpu.instance, &gpu.device, gpu.physical);
        info.vulkan_api_version = API_VERSION;
        info.preferred_large_heap_block_size = BLOCK;
        // SAFETY: instance, device and physical device are valid, and `_gpu` keeps them alive.
        let allocator = Arc::new(unsafe { Allocator::new(info) }.unwrap());
        Self { live: Vec::new(), pools: Vec::new(), allocator, _gpu: Arc::clone(gpu) }
    }

    /// Allocates in every way that a dump shows differently, and frees some of it.
    pub(super) fn run(&mut self) {
        self.fill_default_pools();
        let general = self.pool(Some(c"streaming"), MIB, AllocatorPoolCreateFlags::empty());
        let linear = self.pool(Some(c"frame \"ring\""), MIB, AllocatorPoolCreateFlags::LINEAR_ALGORITHM);
        let unnamed = self.pool(None, 0, AllocatorPoolCreateFlags::empty());
        for i in 0..24_u64 {
            let name = format!("chunk {i}");
            let options = Options { name: &name, ..Options::default() };
            self.buffer(3_000 + i * 9_973, Options { pool: Some(general), ..options });
            self.buffer(1_000 + i * 997, Options { pool: Some(linear), ..options });
        }
        // Leaves holes between allocations, also of two side by side.
        self.free_where(|i| i % 4 == 1 || i % 9 == 2);
        let options = Options { pool: Some(unnamed), dedicated: true, ..Options::default() };
        self.buffer(700_000, Options { name: "dedicated in a pool", ..options });
        self.buffer(5_000, Options { pool: Some(unnamed), ..Options::default() });
        self.buffer(2 * MIB, Options { pool: None, name: "shadow map", ..options });
        self.image(512, vk::ImageTiling::OPTIMAL, Options { pool: None, user_data: 0xbeef, ..options });
    }

    fn fill_default_pools(&mut self) {
        for i in 0..60_usize {
            let name = match i % 3 {
                0 => String::new(),
                1 => format!("mesh {i}"),
                _ => format!("\"quoted\"\\ \t{i} ünïcödé"),
            };
            let user_data = if i % 5 == 0 { 0 } else { 0x1000 + i };
            let options = Options { name: &name, user_data, ..Options::default() };
            match i % 6 {
                0..=3 => self.buffer(256 + (i as u64 * 7_919) % 400_000, options),
                4 => self.image(16 + 8 * i as u32, vk::ImageTiling::OPTIMAL, options),
                _ if i % 12 == 5 => self.image(64, vk::ImageTiling::LINEAR, options),
                _ => self.memory(1 + i as u64 * 1_000, options),
            }
        }
    }

    fn pool(&mut self, name: Option<&CStr>, block_size: u64, flags: AllocatorPoolCreateFlags) -> usize {
        let buffer = buffer_info(1024);
        let info = Options::default().info();
        // SAFETY: the description of the buffer is valid.
        let found = unsafe { self.allocator.find_memory_type_index_for_buffer_info(&buffer, &info) };
        let memory_type_index = found.unwrap();
        let desc = PoolCreateInfo { memory_type_index, flags, block_size, ..Default::default() };
        let pool = self.allocator.create_pool(&desc).unwrap();
        pool.set_name(name);
        self.pools.push(pool);
        self.pools.len() - 1
    }

    fn source(&self, pool: Option<usize>) -> &dyn Alloc {
        match pool {
            Some(index) => &self.pools[index],
            None => &*self.allocator,
        }
    }

    fn buffer(&mut self, size: u64, options: Options<'_>) {
        let desc = buffer_info(size);
        // SAFETY: the description is valid.
        let made = unsafe { self.source(options.pool).create_buffer(&desc, &options.info()) };
        let (buffer, allocation) = made.unwrap();
        self.add(allocation, Resource::Buffer(buffer), desc.usage.as_raw(), options);
    }

    fn image(&mut self, extent: u32, tiling: vk::ImageTiling, options: Options<'_>) {
        let desc = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: extent, height: extent, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(tiling)
            .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
        // SAFETY: every device supports such an image.
        let made = unsafe { self.source(options.pool).create_image(&desc, &options.info()) };
        let (image, allocation) = made.unwrap();
        let resource = match tiling {
            vk::ImageTiling::LINEAR => Resource::LinearImage(image),
            _ => Resource::OptimalImage(image),
        };
        self.add(allocation, resource, desc.usage.as_raw(), options);
    }

    fn memory(&mut self, size: u64, options: Options<'_>) {
        let requirements = vk::MemoryRequirements { size, alignment: 256, memory_type_bits: u32::MAX };
        let info = AllocationCreateInfo {
            preferred_flags: vk::MemoryPropertyFlags::DEVICE_LOCAL,
            usage: MemoryUsage::Unknown,
            ..options.info()
        };
        // SAFETY: the requirements are not empty, and their alignment is a power of two.
        let made = unsafe { self.source(options.pool).allocate_memory(&requirements, &info) };
        self.add(made.unwrap(), Resource::Nothing, 0, options);
    }

    fn add(&mut self, allocation: Allocation, resource: Resource, usage: u32, options: Options<'_>) {
        if !options.name.is_empty() {
            let name = CString::new(options.name).unwrap();
            // SAFETY: the allocation is new, and this allocator's.
            unsafe { ffi::set_name(&self.allocator, &allocation, &name) };
        }
        self.live.push(Made { allocation, resource, usage: usage.into(), pool: options.pool });
    }

    fn free_where(&mut self, goes: impl Fn(usize) -> bool) {
        let mut index = 0;
        let (gone, stay) = core::mem::take(&mut self.live).into_iter().partition(|_| {
            index += 1;
            goes(index)
        });
        self.live = stay;
        self.free(gone);
    }

    fn free(&self, gone: Vec<Made>) {
        for mut made in gone {
            match made.resource {
                Resource::Buffer(buffer) => {
                    // SAFETY: the buffer is this allocator's, the GPU does not use it, and it is destroyed once.
                    unsafe { self.allocator.destroy_buffer(buffer, &mut made.allocation) };
                }
                Resource::OptimalImage(image) | Resource::LinearImage(image) => {
                    // SAFETY: as above.
                    unsafe { self.allocator.destroy_image(image, &mut made.allocation) };
                }
                Resource::Nothing => {
                    // SAFETY: as above.
                    unsafe { self.allocator.free_memory(&mut made.allocation) };
                }
            }
        }
    }

    /// Returns every memory object that has allocations, sorted, as `vmaGetAllocationInfo` tells of them.
    pub(super) fn objects(&self) -> Vec<Object> {
        let mut found: BTreeMap<vk::DeviceMemory, Object> = BTreeMap::new();
        for made in &self.live {
            let info = self.allocator.get_allocation_info2(&made.allocation);
            let of = info.allocation_info;
            let object = found.entry(of.device_memory).or_insert_with(|| Object {
                memory_type: of.memory_type,
                size: info.block_size,
                dedicated: info.dedicated_memory,
                pool: made.pool.map(|pool| self.pool_name(pool)),
                allocations: Vec::new(),
            });
            // SAFETY: the allocation exists and is this allocator's.
            let name = unsafe { ffi::name(&self.allocator, &made.allocation) };
            let (user_data, usage) = (of.user_data as u64, made.usage);
            let kind = kind_name(match made.resource {
                Resource::Buffer(_) => ResourceKind::Buffer,
                Resource::OptimalImage(_) => ResourceKind::OptimalImage,
                Resource::LinearImage(_) => ResourceKind::LinearImage,
                Resource::Nothing => ResourceKind::Unknown,
            });
            let (offset, size) = (of.offset, of.size);
            object.allocations.push(Described { offset, size, name, user_data, kind, usage });
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.iter_mut().for_each(|object| object.allocations.sort());
        found.sort();
        found
    }

    fn pool_name(&self, pool: usize) -> String {
        self.pools[pool].name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let live = core::mem::take(&mut self.live);
        self.free(live);
    }
}

/// Returns a name for a kind, which unlike the kind itself can be sorted.
pub(super) const fn kind_name(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Buffer => "buffer",
        ResourceKind::LinearImage => "linear image",
        ResourceKind::OptimalImage => "optimal image",
        ResourceKind::Unknown => "unknown",
    }
}

fn buffer_info(size: u64) -> vk::BufferCreateInfo<'static> {
    let usage = vk::BufferUsageFlags::VERTEX_BUFFER | vk::BufferUsageFlags::TRANSFER_DST;
    vk::BufferCreateInfo::default().size(size).usage(usage)
}
