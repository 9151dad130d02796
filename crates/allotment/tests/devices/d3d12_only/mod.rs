//! The promises of the Direct3D 12 device beyond the trait: resources as one word, heap types, residency, sharing,
//! and descriptors.

mod commands;
mod descriptors;
mod full_images;
pub(crate) mod host_writes;

use allotment::device::d3d12::{Device, DeviceDesc, Memory, MemoryOptions, ResourceInfo};
use allotment::device::{
    BufferDesc, BufferDevice as _, DescriptionError, DeviceError, ImageDesc, ImageDevice as _, MemoryDesc,
    MemoryDevice as _, MemoryProperties, MemoryTypeIndex, Priority, QueueDevice as _, QueueIndex,
    TimelineValue,
};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::reports::LeakHandler;
use allotment::memory::{AccessError, BufferPieces, Dedicated, ResourceError, Transfer};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, GpuDesc, MemoryUsage, Requirements};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;
use windows::Win32::Graphics::Dxgi::IDXGIAdapter3;
use windows::core::Interface as _;

use crate::bytes::pattern;
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::Gpu;
use crate::kinds::d3d12::D3d12Fixture;

type D3d12 = Gpu<D3d12Fixture>;

pub(crate) fn all() -> Vec<Test<D3d12Fixture>> {
    let mut all = own();
    all.extend(commands::all());
    all.extend(descriptors::all());
    all.extend(full_images::all());
    all
}

fn own() -> Vec<Test<D3d12Fixture>> {
    tests![D3d12Fixture:
        flags_reach_the_runtime_or_are_refused_by_number,
        a_buffer_and_a_texture_are_made_by_the_same_call,
        the_adapter_of_a_device_is_found_by_the_device,
        memory_of_its_own_is_a_committed_resource,
        resources_alias_where_they_fit_and_nowhere_else,
        a_clear_value_that_cannot_be_is_refused_placed_and_committed,
        a_buffer_that_shaders_write_to_never_lands_in_an_upload_heap,
        a_small_texture_stands_at_4_kib_and_a_large_one_does_not,
        ten_thousand_pieces_of_4_kib_take_little_more_than_their_bytes,
        what_the_trait_does_not_know_is_described_as_direct3d_does,
        every_bind_flag_makes_the_texture_that_it_names,
        a_layout_needs_enhanced_barriers,
        priorities_are_taken_where_the_runtime_has_them,
        an_allocation_alone_in_its_memory_comes_and_goes,
        memory_in_use_is_not_evicted,
        a_shared_block_is_not_evicted,
        memory_is_shared_or_refused,
        the_application_waits_for_a_copy_on_a_queue_of_its_own,
        bytes_go_up_and_come_back_by_every_memory_type,
        textures_closer_than_buffers_can_stand_are_reached_and_their_neighbours_left,
        a_custom_heap_that_cannot_be_is_refused,
        a_clone_outlives_what_opened_the_device,
    ]
}

/// As buffers of their own they would take 64 KiB each, without tight alignment: 625 MiB.
fn ten_thousand_pieces_of_4_kib_take_little_more_than_their_bytes(gpu: &D3d12) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let before = front.allocator().statistics();
    let options = wanted(MemoryUsage::GpuOnly).with_name("of pieces");
    let pieces = BufferPieces::new(front.memory(), BufferDesc::new(1 << 20), options);
    let create = |_| pieces.create(4096, Alignment::new(256).unwrap()).unwrap();
    let all: Vec<_> = (0..10_000).map(create).collect();
    let after = front.allocator().statistics();
    let (block_bytes, bytes) =
        (after.block_bytes - before.block_bytes, after.allocation_bytes - before.allocation_bytes);
    assert_eq!(bytes, 40 << 20, "the buffers that they are pieces of");
    assert!(block_bytes <= 48 << 20, "{block_bytes} bytes of memory for them");
    drop((all, pieces));
    front.wait_idle().unwrap();
}

fn allocator(gpu: &D3d12) -> Allocator<Device> {
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    Allocator::new(gpu.device().clone(), desc).unwrap()
}

fn wanted(memory_usage: MemoryUsage) -> AllocationOptions {
    AllocationOptions::new(memory_usage)
}

fn texture(width: u32, height: u32, flags: D3D12_RESOURCE_FLAGS) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Alignment: 0,
        Width: width.into(),
        Height: height,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        Flags: flags,
    }
}

fn target() -> D3D12_RESOURCE_DESC {
    texture(256, 256, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET)
}

fn buffer(size: u64, flags: D3D12_RESOURCE_FLAGS) -> ResourceInfo<'static> {
    let usage = flags.0.unsigned_abs().into();
    BufferDesc::new(size).with_usage(usage).into()
}

fn desc_of(resource: &ID3D12Resource) -> D3D12_RESOURCE_DESC {
    // SAFETY: the resource is live.
    unsafe { resource.GetDesc() }
}

fn a_buffer_and_a_texture_are_made_by_the_same_call(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let infos = [buffer(1000, D3D12_RESOURCE_FLAG_NONE), ResourceInfo::new(target())];
    let resources =
        infos.map(|info| allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly)).unwrap());
    let [buffer, texture] = &resources;
    assert_eq!(desc_of(buffer.handle()).Width, 1000);
    assert_eq!((buffer.size(), desc_of(texture.handle()).Height), (1000, 256));
    assert_eq!(allocator.statistics().allocations, 2);
    for resource in resources {
        allocator.destroy_resource(resource).unwrap();
    }
    assert_eq!(allocator.statistics().allocations, 0);
}

fn flags_reach_the_runtime_or_are_refused_by_number(gpu: &D3d12) {
    let device = gpu.device();
    let storage = u64::from(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS.0.unsigned_abs());
    let targets = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
    let shared = D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS;
    let of_images = storage | u64::from((targets | shared).0.unsigned_abs());
    let unknown = |flags| DeviceError::InvalidDescription(DescriptionError::UnknownUsage { flags });
    for flag in (0..u64::BITS).map(|bit| 1 << bit) {
        let info = ResourceInfo::from(BufferDesc::new(64).with_usage(flag));
        let refused = device.buffer_requirements(&info).err();
        assert_eq!(refused, (flag != storage).then(|| unknown(flag)), "buffer, {flag:#x}");
        let desc = ImageDesc::new(64, 64, DXGI_FORMAT_R8G8B8A8_UNORM.0.unsigned_abs()).with_usage(flag);
        let refused = device.image_requirements(&desc.into()).err();
        // Of the others, some do not suit the format.
        assert_eq!(refused == Some(unknown(flag)), flag & of_images == 0, "image, {flag:#x}: {refused:?}");
    }
}

fn heap_of(gpu: &D3d12, memory: Memory) -> Option<ID3D12Heap> {
    // SAFETY: called for live memory of this device.
    unsafe { gpu.device().heap(memory) }
}

fn the_adapter_of_a_device_is_found_by_the_device(gpu: &D3d12) {
    let found = DeviceDesc::from_device(gpu.device().raw().clone()).unwrap().adapter;
    // SAFETY: both adapters are live.
    let luid = |adapter: &IDXGIAdapter3| unsafe { adapter.GetDesc() }.unwrap().AdapterLuid;
    assert_eq!(luid(&found), luid(gpu.device().adapter()));
}

fn memory_of_its_own_is_a_committed_resource(gpu: &D3d12) {
    let allocator = allocator(gpu);
    for info in [buffer(1000, D3D12_RESOURCE_FLAG_NONE), ResourceInfo::new(target())] {
        for (dedicated, committed) in [(Dedicated::Always, true), (Dedicated::Never, false)] {
            let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            let resource = allocator.create_resource(&info, &desc).unwrap();
            let memory = allocator.location(resource.allocation()).unwrap().memory;
            // SAFETY: live as long as the resource.
            let object = unsafe { gpu.device().pageable(memory) };
            assert_eq!(object.cast::<ID3D12Resource>().is_ok(), committed, "{info:?}");
            assert_eq!(object.cast::<ID3D12Heap>().ok(), heap_of(gpu, memory), "{info:?}");
            assert_eq!(heap_of(gpu, memory).is_none(), committed, "{info:?}");
            drop(object);
            allocator.destroy_resource(resource).unwrap();
        }
    }
}

fn resources_alias_where_they_fit_and_nowhere_else(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let info = buffer(65536, D3D12_RESOURCE_FLAG_NONE);
    let needs = gpu.device().buffer_requirements(&info).unwrap();
    let four = Requirements { size: 4 * needs.size, ..needs };
    let memory = allocator.allocate(&four, &MemoryUsage::GpuOnly.into()).unwrap();
    let here = |offset| allocator.create_aliasing_resource(&memory, offset, &info);
    let both = [here(0).unwrap(), here(0).unwrap(), here(3 * needs.size).unwrap()];
    assert!(matches!(here(4 * needs.size), Err(ResourceError::Access(AccessError::OutOfRange { .. }))));
    if needs.alignment.get() > 1 {
        let odd = needs.alignment.get() / 2;
        assert!(matches!(here(odd), Err(ResourceError::Access(AccessError::Misaligned { .. }))));
    }
    drop(both);
    allocator.free(memory).unwrap();

    // Committed memory takes nothing but its resource.
    let alone = wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let committed = allocator.create_resource(&info, &alone).unwrap();
    let refused = allocator.create_aliasing_resource(committed.allocation(), 0, &info);
    assert!(matches!(refused, Err(ResourceError::Access(AccessError::Exclusive { .. }))));
    allocator.destroy_resource(committed).unwrap();
}

fn a_clear_value_that_cannot_be_is_refused_placed_and_committed(gpu: &D3d12) {
    // Only a runtime that gets the value can refuse it: a buffer has none.
    let black = |info: ResourceInfo<'static>| info.with_clear_color(DXGI_FORMAT_R8G8B8A8_UNORM, [0.0; 4]);
    let allocator = allocator(gpu);
    for dedicated in [Dedicated::Never, Dedicated::Always] {
        let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
        let buffer = buffer(1000, D3D12_RESOURCE_FLAG_NONE);
        allocator.create_resource(&black(buffer), &desc).unwrap_err();
        assert_eq!(allocator.statistics().allocations, 0, "nothing was left behind");
        let target = black(ResourceInfo::new(target()));
        let target = allocator.create_resource(&target, &desc).unwrap();
        allocator.destroy_resource(target).unwrap();
    }
}

fn a_buffer_that_shaders_write_to_never_lands_in_an_upload_heap(gpu: &D3d12) {
    let storage = buffer(1000, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
    let allowed = gpu.device().buffer_requirements(&storage).unwrap().memory_types;
    for memory_type in gpu.types().into_iter().filter(|&t| allowed.contains(t)) {
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        let properties = gpu.properties().memory_type(memory_type).unwrap().properties;
        assert!(!properties.intersects(one_way), "type {memory_type}: {properties}");
        let memory = MemoryDesc::new(memory_type, 1);
        let (memory, buffer) = gpu.device().create_dedicated_buffer(&storage, &memory).unwrap();
        drop(buffer);
        // SAFETY: live, and never used.
        unsafe { gpu.device().free_memory(memory) };
    }
    let allocator = allocator(gpu);
    let possible = gpu.visible_types().into_iter().any(|t| allowed.contains(t));
    match allocator.create_resource(&storage, &wanted(MemoryUsage::Upload)) {
        Ok(resource) => {
            let place = allocator.location(resource.allocation()).unwrap();
            assert!(possible && allowed.contains(place.memory_type));
            allocator.destroy_resource(resource).unwrap();
        }
        Err(error) => assert!(!possible, "{error}"),
    }
}

fn a_small_texture_stands_at_4_kib_and_a_large_one_does_not(gpu: &D3d12) {
    let needs = |desc| gpu.device().image_requirements(&ResourceInfo::new(desc)).unwrap();
    let none = D3D12_RESOURCE_FLAG_NONE;
    // What the device itself says when it is asked for less than 64 KiB.
    let asked = |side| {
        let desc = D3D12_RESOURCE_DESC { Alignment: 4096, ..texture(side, side, none) };
        // SAFETY: the device is live.
        unsafe { gpu.device().raw().GetResourceAllocationInfo(0, &[desc]) }
    };
    let small = needs(texture(16, 16, none));
    assert!(small.alignment.get() <= asked(16).Alignment, "{small:?}");
    let large = needs(texture(256, 256, none));
    assert!(large.size >= 4 * 256 * 256, "{large:?}");
    let allocator = allocator(gpu);
    let textures: Vec<_> = (0..40)
        .map(|_| {
            let info = ResourceInfo::new(texture(16, 16, none));
            allocator
                .create_resource(&info, &wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never))
                .unwrap()
        })
        .collect();
    let mut places: Vec<_> =
        textures.iter().map(|texture| allocator.location(texture.allocation()).unwrap()).collect();
    places.sort_by_key(|place| place.offset);
    for pair in places.windows(2) {
        assert!(pair[0].offset + small.size <= pair[1].offset);
        assert!(small.alignment.is_aligned(pair[1].offset));
    }
    for texture in textures {
        allocator.destroy_resource(texture).unwrap();
    }
}

fn what_the_trait_does_not_know_is_described_as_direct3d_does(gpu: &D3d12) {
    // All levels, one dimension, typeless: words that this crate's own description lacks.
    let mut all_levels = texture(256, 64, D3D12_RESOURCE_FLAG_NONE);
    all_levels.MipLevels = 0;
    let mut one_dimension = texture(300, 1, D3D12_RESOURCE_FLAG_NONE);
    one_dimension.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE1D;
    let mut typeless = texture(64, 64, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL);
    typeless.Format = DXGI_FORMAT_R32_TYPELESS;
    let allocator = allocator(gpu);
    for desc in [all_levels, one_dimension, typeless] {
        for dedicated in [Dedicated::Never, Dedicated::Always] {
            let wanted = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            let resource = allocator.create_resource(&ResourceInfo::new(desc), &wanted).unwrap();
            assert_eq!(desc_of(resource.handle()).Width, desc.Width);
            allocator.destroy_resource(resource).unwrap();
        }
    }
    let mut nothing = texture(0, 0, D3D12_RESOURCE_FLAG_NONE);
    nothing.Format = DXGI_FORMAT_UNKNOWN;
    let refused = gpu.device().image_requirements(&ResourceInfo::new(nothing));
    assert!(matches!(refused, Err(DeviceError::InvalidDescription(_))), "{refused:?}");
}

fn every_bind_flag_makes_the_texture_that_it_names(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let flags = [
        D3D12_RESOURCE_FLAG_NONE,
        D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET,
        D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
        D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
    ];
    for flags in flags {
        let info = ResourceInfo::new(texture(128, 128, flags));
        let resource = allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly)).unwrap();
        assert_eq!(desc_of(resource.handle()).Flags.0 & flags.0, flags.0);
        allocator.destroy_resource(resource).unwrap();
    }
    let mut depth = texture(128, 128, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL);
    depth.Format = DXGI_FORMAT_D32_FLOAT;
    let depth = ResourceInfo::new(depth).with_initial_state(D3D12_RESOURCE_STATE_DEPTH_WRITE);
    let depth = allocator.create_resource(&depth, &wanted(MemoryUsage::GpuOnly)).unwrap();
    allocator.destroy_resource(depth).unwrap();
}

fn a_layout_needs_enhanced_barriers(gpu: &D3d12) {
    let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS12::default();
    let (feature, size) = (D3D12_FEATURE_D3D12_OPTIONS12, size_of_val(&options));
    // SAFETY: the structure of the feature, and its size.
    let told = unsafe {
        gpu.device().raw().CheckFeatureSupport(feature, (&raw mut options).cast(), size.try_into().unwrap())
    };
    let has = told.is_ok() && options.EnhancedBarriersSupported.as_bool();
    let info = ResourceInfo::new(target()).with_initial_layout(D3D12_BARRIER_LAYOUT_COMMON);
    let allocator = allocator(gpu);
    for dedicated in [Dedicated::Never, Dedicated::Always] {
        match allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated)) {
            Ok(resource) => {
                assert!(has);
                allocator.destroy_resource(resource).unwrap();
            }
            Err(error) => assert!(!has, "{error}"),
        }
    }
    assert_eq!(allocator.statistics().allocations, 0);
}

fn priorities_are_taken_where_the_runtime_has_them(gpu: &D3d12) -> Outcome {
    if gpu.device().raw().cast::<ID3D12Device1>().is_err() {
        return Outcome::DoesNotApply("the runtime has no residency priorities");
    }
    for priority in [Priority::new(0.0), Priority::NORMAL, Priority::HIGH] {
        let desc = MemoryDesc::new(gpu.types()[0], 1 << 20).with_priority(priority);
        let memory = gpu.device().allocate_memory(&desc).unwrap();
        // SAFETY: live.
        unsafe { gpu.device().set_memory_priority(memory, Priority::new(0.3)) }.unwrap();
        // SAFETY: live, and never used.
        unsafe { gpu.device().free_memory(memory) };
    }
    Outcome::Ran
}

fn an_allocation_alone_in_its_memory_comes_and_goes(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let info = buffer(1 << 20, D3D12_RESOURCE_FLAG_NONE);
    let buffer = allocator.create_resource(&info, &desc).unwrap();
    let queue = QueueIndex(0);
    let mut transfer = Transfer::new(&allocator, queue, 1 << 20).unwrap();
    let bytes = pattern(7, 1 << 20);
    transfer.upload_to(&buffer, 0, &bytes).unwrap();
    let until = allotment::device::TimelinePoint { queue, value: gpu.completed(queue) };
    for _ in 0..2 {
        // SAFETY: no queue uses it until it is back.
        let gone = unsafe { allocator.evict(buffer.allocation(), &[until]) };
        assert_eq!(gone, Ok(()));
        // SAFETY: no other queue uses it.
        unsafe { allocator.make_resident(buffer.allocation(), queue) }.unwrap();
    }
    let mut back = vec![0; bytes.len()];
    transfer.download_from(&buffer, 0, &mut back).unwrap();
    assert!(back == bytes, "what was evicted came back as it was");
    drop(transfer);
    allocator.destroy_resource(buffer).unwrap();
}

fn memory_in_use_is_not_evicted(gpu: &D3d12) {
    let memory = gpu.allocate(gpu.types()[0], 1 << 20);
    let later = allotment::device::TimelinePoint { queue: QueueIndex(0), value: TimelineValue(1) };
    // SAFETY: no queue uses it at all.
    let early = unsafe { gpu.device().evict(&[memory.handle()], &[later]) };
    assert!(early.is_err_and(DeviceError::is_timeout), "nothing was submitted yet");
    gpu.wait(gpu.submit(QueueIndex(0), &[], &[]));
    // SAFETY: as above.
    let now = unsafe { gpu.device().evict(&[memory.handle()], &[later]) };
    assert_eq!(now, Ok(()));
    // SAFETY: live.
    unsafe { gpu.device().make_resident(&[memory.handle()]) }.unwrap();
}

fn a_shared_block_is_not_evicted(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    let resource = allocator.create_resource(&buffer(1000, D3D12_RESOURCE_FLAG_NONE), &desc).unwrap();
    // SAFETY: no queue uses it.
    let refused = unsafe { allocator.evict(resource.allocation(), &[]) };
    assert!(matches!(refused, Err(AccessError::NotDedicated { .. })), "{refused:?}");
    allocator.destroy_resource(resource).unwrap();
}

fn memory_is_shared_or_refused(gpu: &D3d12) -> Outcome {
    let options = MemoryOptions::new().with_heap_flags(D3D12_HEAP_FLAG_SHARED);
    let size = 1 << 20;
    let desc = MemoryDesc::new(MemoryTypeIndex(0), size).with_options(Some(&options));
    let memory = gpu.device().allocate_memory(&desc).unwrap();
    // SAFETY: live, and made to be shared.
    let handle = unsafe { gpu.device().export_memory(memory) };
    let free = |memory| {
        // SAFETY: live, and never used.
        unsafe { gpu.device().free_memory(memory) };
    };
    let handle = match handle {
        Ok(handle) => handle,
        Err(error) => {
            assert_eq!(error, DeviceError::Unsupported);
            free(memory);
            return Outcome::DoesNotApply("the runtime cannot share memory");
        }
    };
    let opened = MemoryOptions::new().with_shared_handle(handle);
    let desc = |size| MemoryDesc::new(MemoryTypeIndex(0), size).with_options(Some(&opened));
    let again = gpu.device().allocate_memory(&desc(size)).unwrap();
    let larger = gpu.device().allocate_memory(&desc(2 * size));
    assert_eq!(larger, Err(DescriptionError::SharedHeap.into()));
    free(again);
    free(memory);
    Outcome::Ran
}

fn the_application_waits_for_a_copy_on_a_queue_of_its_own(gpu: &D3d12) {
    let desc = D3D12_COMMAND_QUEUE_DESC::default();
    // SAFETY: the device is live.
    let own: ID3D12CommandQueue = unsafe { gpu.device().raw().CreateCommandQueue(&desc) }.unwrap();
    // SAFETY: as above.
    let fence: ID3D12Fence = unsafe { gpu.device().raw().CreateFence(0, D3D12_FENCE_FLAG_NONE) }.unwrap();
    let timeline = gpu.device().timeline(QueueIndex(0)).unwrap();
    // Waits for what is submitted only afterwards.
    // SAFETY: both are live until the queue is done.
    unsafe { own.Wait(timeline, 1) }.unwrap();
    // SAFETY: as above.
    unsafe { own.Signal(&fence, 1) }.unwrap();
    // SAFETY: the fence is live.
    assert_eq!(unsafe { fence.GetCompletedValue() }, 0);
    let [from, to] = [gpu.source_types()[0], gpu.target_types()[0]].map(|t| gpu.buffer(t, 4096));
    let point = gpu.submit(QueueIndex(0), &[], &[crate::gpu::copy(&from, 0, &to, 0, 4096)]);
    assert_eq!(point.value, TimelineValue(1));
    // SAFETY: the fence is live; without an event, this waits.
    unsafe { fence.SetEventOnCompletion(1, Default::default()) }.unwrap();
    // Reached on the GPU by now; a runtime may tell of one fence after another.
    assert_eq!(gpu.device().wait(point, core::time::Duration::from_secs(10)), Ok(()));
}

fn bytes_go_up_and_come_back_by_every_memory_type(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16).unwrap();
    for memory_usage in MemoryUsage::ALL {
        let info = buffer(100_000, D3D12_RESOURCE_FLAG_NONE);
        let buffer = allocator.create_resource(&info, &wanted(memory_usage)).unwrap();
        let bytes = pattern(3, 100_000);
        transfer.upload_to(&buffer, 0, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        transfer.download_from(&buffer, 0, &mut back).unwrap();
        assert!(back == bytes, "{memory_usage}");
        allocator.destroy_resource(buffer).unwrap();
    }
}

fn textures_closer_than_buffers_can_stand_are_reached_and_their_neighbours_left(gpu: &D3d12) -> Outcome {
    let info = ResourceInfo::new(texture(16, 16, D3D12_RESOURCE_FLAG_NONE));
    let either = gpu.device().image_requirements(&info).unwrap().memory_types.0
        & gpu.device().buffer_requirements(&buffer(1, D3D12_RESOURCE_FLAG_NONE)).unwrap().memory_types.0;
    if either == 0 {
        return Outcome::DoesNotApply("no memory type takes both buffers and images");
    }
    let allocator = allocator(gpu);
    let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    let textures: Vec<_> = (0..20).map(|_| allocator.create_resource(&info, &desc).unwrap()).collect();
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16).unwrap();
    let bytes = |seed: usize| pattern(seed as u64, textures[seed].size());
    for (seed, texture) in textures.iter().enumerate() {
        transfer.upload(texture.allocation(), 0, &bytes(seed)).unwrap();
    }
    for (seed, texture) in textures.iter().enumerate() {
        let mut back = vec![0; texture.size() as usize];
        transfer.download(texture.allocation(), 0, &mut back).unwrap();
        assert!(back == bytes(seed), "texture {seed}");
    }
    drop(transfer);
    for texture in textures {
        allocator.destroy_resource(texture).unwrap();
    }
    Outcome::Ran
}

fn a_clone_outlives_what_opened_the_device(_: &D3d12) {
    let headless =
        allotment_headless::d3d12::Headless::open(&allotment_headless::d3d12::HeadlessDesc::default());
    let device = headless.unwrap().device().clone();
    let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 65536)).unwrap();
    // SAFETY: live, and never used.
    unsafe { device.free_memory(memory) };
}

fn a_custom_heap_that_cannot_be_is_refused(gpu: &D3d12) {
    let custom = |kind, page, pool| {
        let heap = D3D12_HEAP_PROPERTIES {
            Type: kind,
            CPUPageProperty: page,
            MemoryPoolPreference: pool,
            CreationNodeMask: 1,
            VisibleNodeMask: 1,
        };
        let desc = DeviceDesc::new(gpu.device().raw().clone(), gpu.device().adapter().clone());
        Device::new(desc.with_custom_heap(heap)).map(|_| ())
    };
    let (none, back) = (D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_CPU_PAGE_PROPERTY_WRITE_BACK);
    let (system, unknown) = (D3D12_MEMORY_POOL_L0, D3D12_MEMORY_POOL_UNKNOWN);
    assert_eq!(custom(D3D12_HEAP_TYPE_CUSTOM, back, system), Ok(()));
    for (kind, page, pool) in [
        (D3D12_HEAP_TYPE_DEFAULT, none, unknown),
        (D3D12_HEAP_TYPE_CUSTOM, none, system),
        (D3D12_HEAP_TYPE_CUSTOM, back, unknown),
        (D3D12_HEAP_TYPE(99), back, system),
    ] {
        let refused = custom(kind, page, pool);
        assert_eq!(refused, Err(DescriptionError::CustomHeap.into()), "{kind:?}, {page:?}, {pool:?}");
    }
}
