//! Buffers whose pages are allocations, which the application binds itself.

use allotment::device::vulkan::BufferInfo;
use allotment::device::{BufferCopy, BufferDevice as _, DescriptionError, MemoryDesc, QueueIndex};
use allotment::memory::Dedicated;
use allotment::{MemoryUsage, Requirements};
use ash::vk;

use super::{Vulkan, allocator};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        pages_of_a_sparse_buffer_are_allocations,
        a_sparse_buffer_is_not_bound_as_a_whole,
    ]
}

const NO_SPARSE: Outcome = Outcome::DoesNotApply("the device has no sparse buffers");

/// A queue that binds pages, where the device has that.
fn binding_queue(gpu: &Vulkan) -> Option<QueueIndex> {
    let headless = gpu.fixture().headless();
    let device = headless.physical_device();
    // SAFETY: the physical device is of this instance.
    let families = unsafe { headless.instance().get_physical_device_queue_family_properties(device) };
    let binds = |family: u32| families[family as usize].queue_flags.contains(vk::QueueFlags::SPARSE_BINDING);
    let of_family = |index: &QueueIndex| binds(headless.queue_families()[usize::from(index.0)]);
    gpu.queues().find(of_family).filter(|_| headless.sparse_binding())
}

fn info(size: u64) -> vk::BufferCreateInfo<'static> {
    vk::BufferCreateInfo::default()
        .flags(vk::BufferCreateFlags::SPARSE_BINDING)
        .size(size)
        .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST)
}

/// Binds pages of a sparse buffer, and waits until they are.
fn bind(gpu: &Vulkan, queue: QueueIndex, buffer: vk::Buffer, pages: &[vk::SparseMemoryBind]) {
    let raw = gpu.device().raw();
    let binds = [vk::SparseBufferMemoryBindInfo::default().buffer(buffer).binds(pages)];
    let info = vk::BindSparseInfo::default().buffer_binds(&binds);
    let queue = gpu.device().lock_queue(queue).unwrap();
    // SAFETY: the queue is locked and binds pages; buffer and memory are live and fit.
    unsafe { raw.queue_bind_sparse(*queue, &[info], vk::Fence::null()) }.unwrap();
    // SAFETY: the queue is locked.
    unsafe { raw.queue_wait_idle(*queue) }.unwrap();
}

fn pages_of_a_sparse_buffer_are_allocations(gpu: &Vulkan) -> Outcome {
    let Some(queue) = binding_queue(gpu) else { return NO_SPARSE };
    let allocator = allocator(gpu);
    let needs = |size| {
        // SAFETY: a valid description, and sparse buffers are enabled.
        let info = unsafe { BufferInfo::from_raw(info(size)) };
        gpu.device().buffer_requirements(&info).unwrap()
    };
    let page_size = needs(1).alignment.get();
    // Whole pages: none may be bound beyond the buffer's end.
    let size = 5 * page_size;
    let whole = needs(size);
    assert_eq!(whole.alignment.get(), page_size);
    let page = Requirements { size: page_size, ..whole };
    let count = usize::try_from(whole.size.div_ceil(page_size)).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("page").with_dedicated(Dedicated::Never);
    let pages = allocator.allocate_many(&page, &options, count).unwrap();

    // SAFETY: as above.
    let buffer = unsafe { gpu.device().raw().create_buffer(&info(size), None) }.unwrap();
    // SAFETY: live.
    assert_eq!(unsafe { gpu.device().requirements_of_buffer(buffer) }, whole, "asked of either");
    let bound: Vec<_> = (0..)
        .zip(&pages)
        .map(|(i, page)| {
            let place = allocator.location(page).unwrap();
            vk::SparseMemoryBind::default()
                .resource_offset(i * page_size)
                .size(page_size)
                .memory(place.memory)
                .memory_offset(place.offset)
        })
        .collect();
    bind(gpu, queue, buffer, &bound);

    let memory_type = gpu.visible_buffer_types()[0];
    let [from, to] = [(); 2].map(|()| gpu.buffer(memory_type, size));
    from.memory().map().put(0, &pattern(3, size));
    let upload = BufferCopy { from: from.raw(), from_offset: 0, to: &buffer, to_offset: 0, size };
    let download = BufferCopy { from: &buffer, from_offset: 0, to: to.raw(), to_offset: 0, size };
    let written = gpu.submit(queue, &[], &[upload]);
    gpu.wait(gpu.submit(queue, &[written], &[download]));
    assert_same(&to.memory().map().get(0..size), &pattern(3, size), "bytes across pages");

    let unbound: Vec<_> =
        bound.iter().map(|page| page.memory(vk::DeviceMemory::null()).memory_offset(0)).collect();
    bind(gpu, queue, buffer, &unbound);
    // SAFETY: live, and no queue uses it any more.
    unsafe { gpu.device().destroy_buffer(buffer) };
    assert!(allocator.free_many(pages).is_empty());
    assert_eq!(allocator.statistics().allocation_bytes, 0);
    Outcome::Ran
}

fn a_sparse_buffer_is_not_bound_as_a_whole(gpu: &Vulkan) {
    // SAFETY: refused before the driver sees it.
    let info = unsafe { BufferInfo::from_raw(info(4096)) };
    let memory_type = gpu.buffer_types()[0];
    let alone = gpu.device().create_dedicated_buffer(&info, &MemoryDesc::new(memory_type, 4096));
    assert_eq!(alone, Err(DescriptionError::SeveralBindings.into()));
    let memory = gpu.allocate(memory_type, 1 << 16);
    // SAFETY: as above; the memory is live.
    let within = unsafe { gpu.device().create_buffer(&info, memory.handle(), 0) };
    assert_eq!(within, Err(DescriptionError::SeveralBindings.into()));
}
