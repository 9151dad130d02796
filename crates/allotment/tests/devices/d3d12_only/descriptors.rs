//! Descriptors: what the runtime's heaps hold, seen by shaders and by the commands that draw.

use allotment::device::d3d12::{Descriptor, DescriptorHeap, Device, ResourceInfo};
use allotment::device::{
    AddressMode, BorderColor, BufferUse, CommandAllocator as _, CommandDevice as _, Compare, CopyDirection,
    DescriptionError, DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DeviceError, Filter, ImageAspect, ImageCopy, QueueIndex, SamplerDesc,
    ShaderVisibleHeapType, TexelBlock, TimelinePoint,
};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{RawResource, Transfer};
use allotment::{Allocator, MemoryUsage};
use allotment_readers::{D3d12Reader, DescriptorReader as _, Read};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_R8G8B8A8_UNORM};
use windows::core::Interface as _;

use super::{D3d12, allocator, target, texture, wanted};
use crate::fixture::{DescriptorFixture as _, Outcome, Test, tests};
use crate::kinds::d3d12::{D3d12Fixture, no_tables};

pub(super) fn all() -> Vec<Test<D3d12Fixture>> {
    tests![D3d12Fixture:
        shaders_read_what_was_written_and_what_was_copied,
        a_range_of_a_buffer_is_read_from_its_first_byte,
        null_descriptors_and_poisoned_ones_read_zeros,
        a_heap_of_a_million_descriptors_is_read_to_its_end,
        a_heap_has_no_more_descriptors_than_the_limits_say,
        descriptors_of_a_heap_are_a_stride_apart,
        every_view_is_written_and_copied,
        a_buffer_is_cleared_through_a_copied_descriptor,
        targets_are_drawn_to_through_their_descriptors,
        samplers_are_what_they_were_described_as,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// Makes a heap, without the promise that it is destroyed before the device: it keeps the device alive.
fn try_heap(
    gpu: &D3d12,
    usage: DescriptorHeapVisibility,
    capacity: u32,
) -> Result<DescriptorHeap, DeviceError> {
    let desc = DescriptorHeapDesc { usage, capacity };
    assert!(gpu.device().descriptor_heap_buffer(&desc).is_none(), "the runtime has the memory");
    // SAFETY: so there is none to hand over.
    unsafe { gpu.device().create_descriptor_heap(&desc, None) }
}

fn staging(gpu: &D3d12, kind: DescriptorHeapType, capacity: u32) -> DescriptorHeap {
    try_heap(gpu, DescriptorHeapVisibility::CpuOnly(kind), capacity).unwrap()
}

fn visible(gpu: &D3d12, kind: ShaderVisibleHeapType, capacity: u32) -> DescriptorHeap {
    try_heap(gpu, DescriptorHeapVisibility::ShaderVisible(kind), capacity).unwrap()
}

/// Writes a descriptor; the test keeps to the heap's kind and capacity, and to its turns with the GPU.
fn write(gpu: &D3d12, heap: &DescriptorHeap, at: u32, descriptor: &Descriptor<'_>) {
    assert_eq!(Device::descriptor_kind(descriptor), heap.kind());
    assert!(heap.cpu_handle(at).is_some());
    // SAFETY: as was seen and said.
    unsafe { gpu.device().write_descriptor(heap, at, descriptor) };
}

/// Copies descriptors, as above.
fn copy(gpu: &D3d12, from: &DescriptorHeap, from_at: u32, to: &DescriptorHeap, to_at: u32, count: u32) {
    // SAFETY: as above.
    unsafe { gpu.device().copy_descriptors(from, from_at, to, to_at, count) };
}

fn nulls(gpu: &D3d12, heap: &DescriptorHeap, at: core::ops::Range<u32>) {
    // SAFETY: as above.
    unsafe { gpu.device().write_null_descriptors(heap, at) };
}

/// The buffers that the tests read, with known numbers in them.
struct Scene<'g> {
    gpu: &'g D3d12,
    allocator: Allocator<Device>,
    reader: D3d12Reader,
}

impl<'g> Scene<'g> {
    /// Runs a test, where shaders see tables at all.
    fn run(gpu: &'g D3d12, capacity: u32, test: impl FnOnce(&Self)) -> Outcome {
        match D3d12Reader::new(gpu.device(), capacity) {
            Ok(reader) => {
                test(&Self { gpu, allocator: allocator(gpu), reader });
                Outcome::Ran
            }
            Err(DeviceError::Unsupported) => no_tables(),
            Err(error) => panic!("{error}"),
        }
    }

    fn transfer(&self) -> Transfer<'_, Device> {
        Transfer::new(&self.allocator, FIRST, 1 << 16).unwrap()
    }

    fn buffer(&self, numbers: &[u32]) -> RawResource<ID3D12Resource> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let info = self.reader.buffer_info(bytes.len() as u64, true);
        let buffer = self.allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly)).unwrap();
        self.transfer().upload_to(&buffer, 0, &bytes).unwrap();
        buffer
    }

    fn destroy(&self, resources: impl IntoIterator<Item = RawResource<ID3D12Resource>>) {
        for resource in resources {
            self.allocator.destroy_resource(resource).unwrap();
        }
    }

    /// Returns the values that shaders read through these descriptors.
    fn read(&self, queue: QueueIndex, heap: &DescriptorHeap, indices: &[u32]) -> Vec<u32> {
        let list = self.buffer(indices);
        let to = self.buffer(&vec![0xdead_beef; indices.len()]);
        let read = Read {
            heap,
            indices: list.handle(),
            indices_offset: 0,
            count: indices.len() as u32,
            to: to.handle(),
            to_offset: 0,
        };
        // SAFETY: everything lives until the value is reached, which is waited for; the test's descriptors are of
        // buffers.
        let value = unsafe { self.reader.submit(queue, &[], &[read]) }.unwrap();
        self.gpu.wait(TimelinePoint { queue, value });
        let mut bytes = vec![0; indices.len() * 4];
        self.transfer().download_from(&to, 0, &mut bytes).unwrap();
        self.destroy([list, to]);
        bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

/// The descriptor of a range that shaders read.
fn of<'b>(
    gpu: &D3d12,
    buffer: &'b RawResource<ID3D12Resource>,
    range: core::ops::Range<u64>,
) -> Descriptor<'b> {
    // SAFETY: the range lies in the buffer.
    unsafe { gpu.device().buffer_descriptor(buffer.handle(), range, BufferUse::ReadOnly) }
}

fn shaders_read_what_was_written_and_what_was_copied(gpu: &D3d12) -> Outcome {
    Scene::run(gpu, 256, |scene| {
        let buffers: Vec<_> = (0..100).map(|number| scene.buffer(&[1000 + number, 0, 0, 0])).collect();
        let (cpu, heap) = (
            staging(gpu, DescriptorHeapType::Resource, 100),
            visible(gpu, ShaderVisibleHeapType::Resource, 256),
        );
        nulls(gpu, &heap, 0..256);
        for (at, buffer) in (0..).zip(&buffers) {
            write(gpu, &cpu, at, &of(gpu, buffer, 0..16));
        }
        // All of them in one copy, and some once more and elsewhere, one by one.
        copy(gpu, &cpu, 0, &heap, 10, 100);
        for at in 0..50 {
            copy(gpu, &cpu, 2 * at, &heap, 250 - at, 1);
        }
        write(gpu, &heap, 255, &of(gpu, &buffers[7], 0..16));
        let indices: Vec<u32> = (10..110).chain(201..=250).chain([255]).collect();
        let expected: Vec<u32> = indices
            .iter()
            .map(|&at| match at {
                255 => 1007,
                201..=250 => 1000 + 2 * (250 - at),
                _ => 1000 + at - 10,
            })
            .collect();
        for queue in [FIRST, QueueIndex(1)] {
            assert_eq!(scene.read(queue, &heap, &indices), expected, "{queue:?}");
        }
        // Written again, once the GPU has read it.
        copy(gpu, &cpu, 99, &heap, 10, 1);
        assert_eq!(scene.read(FIRST, &heap, &[10, 11]), [1099, 1001]);
        scene.destroy(buffers);
    })
}

fn a_range_of_a_buffer_is_read_from_its_first_byte(gpu: &D3d12) -> Outcome {
    Scene::run(gpu, 16, |scene| {
        let numbers: Vec<u32> = (500..600).collect();
        let buffer = scene.buffer(&numbers);
        let heap = visible(gpu, ShaderVisibleHeapType::Resource, 16);
        nulls(gpu, &heap, 0..16);
        for at in 0..16 {
            let start = 16 * u64::from(at);
            write(gpu, &heap, at, &of(gpu, &buffer, start..start + 4));
        }
        let indices: Vec<u32> = (0..16).rev().collect();
        let expected: Vec<u32> = indices.iter().map(|at| 500 + 4 * at).collect();
        assert_eq!(scene.read(FIRST, &heap, &indices), expected);
        scene.destroy([buffer]);
    })
}

fn null_descriptors_and_poisoned_ones_read_zeros(gpu: &D3d12) -> Outcome {
    if !gpu.fixture().null_reads_zeros() {
        return Outcome::DoesNotApply("nothing is promised of descriptors of nothing");
    }
    Scene::run(gpu, 64, |scene| {
        let buffer = scene.buffer(&[77; 4]);
        let heap = visible(gpu, ShaderVisibleHeapType::Resource, 64);
        for at in 0..64 {
            write(gpu, &heap, at, &of(gpu, &buffer, 0..16));
        }
        nulls(gpu, &heap, 8..16);
        // SAFETY: as for `write`.
        unsafe { gpu.device().poison_descriptors(&heap, 32..40) };
        let indices: Vec<u32> = (0..64).collect();
        let expected: Vec<u32> = indices
            .iter()
            .map(|at| if (8..16).contains(at) || (32..40).contains(at) { 0 } else { 77 })
            .collect();
        assert_eq!(scene.read(FIRST, &heap, &indices), expected);
        scene.destroy([buffer]);
    })
}

fn a_heap_of_a_million_descriptors_is_read_to_its_end(gpu: &D3d12) -> Outcome {
    const MILLION: u32 = 1_000_000;
    assert!(gpu.device().descriptor_limits().resources.max_capacity >= MILLION);
    Scene::run(gpu, MILLION, |scene| {
        let heap = visible(gpu, ShaderVisibleHeapType::Resource, MILLION);
        let cpu = staging(gpu, DescriptorHeapType::Resource, 1);
        let buffers: Vec<_> = (0..5).map(|number| scene.buffer(&[number + 1; 4])).collect();
        let end = MILLION - gpu.fixture().missing_of_a_million();
        let places = [0, 1, 123_456, MILLION / 2, end - 1];
        for (&at, buffer) in places.iter().zip(&buffers) {
            write(gpu, &cpu, 0, &of(gpu, buffer, 0..16));
            copy(gpu, &cpu, 0, &heap, at, 1);
        }
        assert_eq!(scene.read(FIRST, &heap, &places), [1, 2, 3, 4, 5]);
        scene.destroy(buffers);
    })
}

fn a_heap_has_no_more_descriptors_than_the_limits_say(gpu: &D3d12) {
    let limits = gpu.device().descriptor_limits();
    assert!(limits.samplers.max_capacity >= 2048);
    for kind in ShaderVisibleHeapType::ALL {
        let most = limits.shader_visible(kind).max_capacity;
        for (capacity, possible) in [(0, false), (1, true), (most.saturating_add(1), most == u32::MAX)] {
            let made = try_heap(gpu, DescriptorHeapVisibility::ShaderVisible(kind), capacity);
            assert_eq!(made.is_ok(), possible, "{kind:?}, {capacity}");
            assert!(possible || matches!(made, Err(DeviceError::InvalidDescription(_))));
        }
    }
    drop(visible(gpu, ShaderVisibleHeapType::Sampler, limits.samplers.max_capacity));
    for kind in DescriptorHeapType::ALL {
        assert!(matches!(
            try_heap(gpu, DescriptorHeapVisibility::CpuOnly(kind), 0),
            Err(DeviceError::InvalidDescription(DescriptionError::ZeroDescriptors))
        ));
        // More than shaders could see.
        drop(staging(gpu, kind, 5000));
    }
    let too_large = D3d12Reader::new(gpu.device(), u32::MAX);
    assert!(matches!(too_large, Err(DeviceError::Unsupported)));
}

fn descriptors_of_a_heap_are_a_stride_apart(gpu: &D3d12) {
    let limits = gpu.device().descriptor_limits();
    let seen = ShaderVisibleHeapType::ALL.map(DescriptorHeapVisibility::ShaderVisible);
    for usage in DescriptorHeapType::ALL.map(DescriptorHeapVisibility::CpuOnly).into_iter().chain(seen) {
        let heap = try_heap(gpu, usage, 9).unwrap();
        let address = gpu.device().descriptor_heap_address(&heap);
        let stride = u64::from(limits.stride(usage.kind()));
        for at in 0..9 {
            let cpu = heap.cpu_handle(at).unwrap().ptr as u64;
            assert_eq!(cpu, address.cpu + u64::from(at) * stride, "{usage:?}");
            let gpu = heap.gpu_handle(at).map(|handle| handle.ptr);
            let visible = matches!(usage, DescriptorHeapVisibility::ShaderVisible(_));
            assert_eq!(gpu, visible.then_some(address.gpu + u64::from(at) * stride), "{usage:?}");
        }
        assert!(heap.cpu_handle(9).is_none() && heap.gpu_handle(9).is_none());
        // SAFETY: the heap is live.
        let desc = unsafe { heap.raw().GetDesc() };
        assert_eq!((desc.NumDescriptors, heap.kind()), (9, usage.kind()));
    }
}

/// Everything that can be written, of these two resources and two targets.
fn every_descriptor<'a>(
    buffer: &'a ID3D12Resource,
    color: &'a ID3D12Resource,
    depth: &'a ID3D12Resource,
) -> Vec<Descriptor<'a>> {
    let srv = D3D12_SHADER_RESOURCE_VIEW_DESC {
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        ViewDimension: D3D12_SRV_DIMENSION_TEXTURE2D,
        Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
        Anonymous: D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
            Texture2D: D3D12_TEX2D_SRV { MipLevels: 1, ..Default::default() },
        },
    };
    let uav = D3D12_UNORDERED_ACCESS_VIEW_DESC {
        Format: windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT_R32_UINT,
        ViewDimension: D3D12_UAV_DIMENSION_BUFFER,
        Anonymous: D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
            Buffer: D3D12_BUFFER_UAV { NumElements: 16, ..Default::default() },
        },
    };
    // SAFETY: the buffer is live.
    let address = unsafe { buffer.GetGPUVirtualAddress() };
    let constants = D3D12_CONSTANT_BUFFER_VIEW_DESC { BufferLocation: address, SizeInBytes: 512 };
    let sampler = D3D12_SAMPLER_DESC {
        Filter: D3D12_FILTER_MIN_MAG_MIP_POINT,
        AddressU: D3D12_TEXTURE_ADDRESS_MODE_MIRROR_ONCE,
        AddressV: D3D12_TEXTURE_ADDRESS_MODE_WRAP,
        AddressW: D3D12_TEXTURE_ADDRESS_MODE_WRAP,
        ComparisonFunc: D3D12_COMPARISON_FUNC_NEVER,
        MaxLOD: 4.0,
        ..Default::default()
    };
    let rtv = D3D12_RENDER_TARGET_VIEW_DESC {
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        ViewDimension: D3D12_RTV_DIMENSION_TEXTURE2D,
        ..Default::default()
    };
    let dsv = D3D12_DEPTH_STENCIL_VIEW_DESC {
        Format: DXGI_FORMAT_D32_FLOAT,
        ViewDimension: D3D12_DSV_DIMENSION_TEXTURE2D,
        ..Default::default()
    };
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "all for the same reason")]
    // SAFETY: each fits its resource, and all resources outlive it.
    unsafe {
        vec![
            Descriptor::shader_resource(Some(color), None),
            Descriptor::shader_resource(Some(color), Some(srv)),
            Descriptor::shader_resource(None, Some(srv)),
            Descriptor::unordered_access(Some(buffer), None, Some(uav)),
            Descriptor::unordered_access(None, None, Some(uav)),
            Descriptor::constant_buffer(constants),
            Descriptor::constant_buffer(D3D12_CONSTANT_BUFFER_VIEW_DESC::default()),
            Descriptor::sampler(sampler),
            Descriptor::render_target(Some(color), None),
            Descriptor::render_target(Some(color), Some(rtv)),
            Descriptor::render_target(None, Some(rtv)),
            Descriptor::depth_stencil(Some(depth), None),
            Descriptor::depth_stencil(Some(depth), Some(dsv)),
            Descriptor::depth_stencil(None, Some(dsv)),
        ]
    }
}

/// A depth buffer of 64 × 64 texels.
fn depth() -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Format: DXGI_FORMAT_D32_FLOAT,
        ..texture(64, 64, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL)
    }
}

fn every_view_is_written_and_copied(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let infos = [storage(4096), ResourceInfo::new(target()), ResourceInfo::new(depth())];
    let resources =
        infos.map(|info| allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly)).unwrap());
    let [buffer, color, depth] = &resources;
    let mut descriptors = every_descriptor(buffer.handle(), color.handle(), depth.handle());
    for usage in [BufferUse::ReadOnly, BufferUse::ReadWrite, BufferUse::Constants] {
        // SAFETY: the range is in the buffer, which takes all of these uses.
        descriptors.push(unsafe { gpu.device().buffer_descriptor(buffer.handle(), 256..1024, usage) });
    }
    for kind in DescriptorHeapType::ALL {
        let [from, to] = [(); 2].map(|()| staging(gpu, kind, 64));
        nulls(gpu, &from, 0..64);
        let ours = descriptors.iter().filter(|descriptor| descriptor.kind() == kind);
        for (at, descriptor) in (0..).zip(ours) {
            assert!(!format!("{descriptor:?}").is_empty());
            write(gpu, &from, at, descriptor);
        }
        copy(gpu, &from, 0, &to, 0, 64);
        copy(gpu, &from, 3, &from, 32, 20);
        for kind in
            ShaderVisibleHeapType::ALL.into_iter().filter(|&seen| DescriptorHeapType::from(seen) == kind)
        {
            copy(gpu, &from, 0, &visible(gpu, kind, 64), 0, 64);
        }
    }
    drop(descriptors);
    for resource in resources {
        allocator.destroy_resource(resource).unwrap();
    }
}

/// A buffer that shaders write to.
fn storage(size: u64) -> ResourceInfo<'static> {
    super::buffer(size, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)
}

fn a_buffer_is_cleared_through_a_copied_descriptor(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let buffers =
        [1, 2, 3].map(|_| allocator.create_resource(&storage(4096), &wanted(MemoryUsage::GpuOnly)).unwrap());
    let mut transfer = Transfer::new(&allocator, FIRST, 1 << 16).unwrap();
    buffers.iter().for_each(|buffer| transfer.upload_to(buffer, 0, &[0; 4096]).unwrap());
    let [from, cpu] = [(); 2].map(|()| staging(gpu, DescriptorHeapType::Resource, 16));
    let heap = visible(gpu, ShaderVisibleHeapType::Resource, 16);
    for (at, buffer) in (4..).zip(&buffers) {
        // SAFETY: the range lies in the buffer, which outlives the descriptor.
        let descriptor =
            unsafe { gpu.device().buffer_descriptor(buffer.handle(), 256..1280, BufferUse::ReadWrite) };
        write(gpu, &from, at, &descriptor);
    }
    copy(gpu, &from, 4, &cpu, 7, 3);
    copy(gpu, &cpu, 7, &heap, 1, 3);
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let list = memory.next().unwrap();
    // SAFETY: the list is open, here and below, and all that it names outlives its work.
    unsafe { list.SetDescriptorHeaps(&[Some(heap.raw().clone())]) };
    for (i, buffer) in (0..).zip(&buffers) {
        let value = [1000 + i; 4];
        let (seen, same) = (heap.gpu_handle(1 + i).unwrap(), cpu.cpu_handle(7 + i).unwrap());
        // SAFETY: as above; both descriptors are of this buffer, which is in a state to be promoted.
        unsafe { list.ClearUnorderedAccessViewUint(seen, same, buffer.handle(), &value, &[]) };
    }
    // SAFETY: as above.
    unsafe { list.Close() }.unwrap();
    // SAFETY: everything lives until the value is reached, which is waited for.
    let value = unsafe { gpu.device().submit_lists(FIRST, &[], &[Some(list.cast().unwrap())]) }.unwrap();
    gpu.wait(TimelinePoint { queue: FIRST, value });
    memory.reset().unwrap();
    for (i, buffer) in (0..).zip(&buffers) {
        let mut bytes = vec![0; 4096];
        transfer.download_from(buffer, 0, &mut bytes).unwrap();
        for (word, found) in bytes.chunks_exact(4).enumerate() {
            let expected = if (64..320).contains(&word) { 1000 + i } else { 0_u32 };
            assert_eq!(found, expected.to_le_bytes(), "word {word} of buffer {i}");
        }
    }
    drop(transfer);
    for buffer in buffers {
        allocator.destroy_resource(buffer).unwrap();
    }
}

fn targets_are_drawn_to_through_their_descriptors(gpu: &D3d12) {
    let allocator = allocator(gpu);
    let states =
        [(target(), D3D12_RESOURCE_STATE_RENDER_TARGET), (depth(), D3D12_RESOURCE_STATE_DEPTH_WRITE)];
    let [color, depth] = states.map(|(desc, state)| {
        let info = ResourceInfo::new(desc).with_initial_state(state);
        allocator.create_resource(&info, &wanted(MemoryUsage::GpuOnly)).unwrap()
    });
    let made = [
        // SAFETY: a view of all of the texture, which outlives it.
        unsafe { Descriptor::render_target(Some(color.handle()), None) },
        // SAFETY: as above.
        unsafe { Descriptor::depth_stencil(Some(depth.handle()), None) },
    ];
    let heaps = made.map(|descriptor| {
        let heap = staging(gpu, descriptor.kind(), 8);
        write(gpu, &heap, 5, &descriptor);
        heap
    });
    let [to_color, to_depth] = [0, 1].map(|heap: usize| heaps[heap].cpu_handle(5).unwrap());
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let list = memory.next().unwrap();
    // SAFETY: the list is open, here and below, and the targets are in the states to be cleared in.
    unsafe { list.ClearRenderTargetView(to_color, &[1.0, 0.0, 0.0, 1.0], None) };
    // SAFETY: as above.
    unsafe { list.ClearDepthStencilView(to_depth, D3D12_CLEAR_FLAG_DEPTH, 0.5, 0, None) };
    // SAFETY: as above.
    unsafe { list.Close() }.unwrap();
    // SAFETY: everything lives until the value is reached, which is waited for.
    let drawn = unsafe { gpu.device().submit_lists(FIRST, &[], &[Some(list.cast().unwrap())]) }.unwrap();
    gpu.wait(TimelinePoint { queue: FIRST, value: drawn });
    memory.reset().unwrap();

    let bytes = gpu.buffer(gpu.readback_type(), 256 * 1024);
    gpu.wait(gpu.submit_images(
        FIRST,
        &[],
        &[ImageCopy {
            buffer: bytes.raw(),
            buffer_offset: 0,
            row_pitch: 1024,
            rows: 256,
            image: color.handle(),
            mip_level: 0,
            array_layer: 0,
            origin: [0; 3],
            extent: [256, 256, 1],
            aspect: ImageAspect::Color,
            texels: TexelBlock::new(4).into(),
            direction: CopyDirection::OutOfImage,
            before: D3D12_RESOURCE_STATE_RENDER_TARGET,
            after: D3D12_RESOURCE_STATE_COMMON,
        }],
    ));
    assert!(gpu.get(&bytes).chunks_exact(4).all(|texel| texel == [255, 0, 0, 255]), "all of it is red");
    for resource in [color, depth] {
        allocator.destroy_resource(resource).unwrap();
    }
}

fn samplers_are_what_they_were_described_as(gpu: &D3d12) {
    let heap = visible(gpu, ShaderVisibleHeapType::Sampler, 1024);
    let modes = [
        (AddressMode::Repeat, D3D12_TEXTURE_ADDRESS_MODE_WRAP),
        (AddressMode::MirroredRepeat, D3D12_TEXTURE_ADDRESS_MODE_MIRROR),
        (AddressMode::ClampToEdge, D3D12_TEXTURE_ADDRESS_MODE_CLAMP),
        (AddressMode::ClampToBorder, D3D12_TEXTURE_ADDRESS_MODE_BORDER),
    ];
    let both = [Filter::Nearest, Filter::Linear];
    let mut at = 0;
    for (mode, raw_mode) in modes {
        for (min_filter, mag_filter) in both.into_iter().flat_map(|min| both.map(|mag| (min, mag))) {
            for compare in [None, Some(Compare::Never), Some(Compare::LessOrEqual), Some(Compare::Always)] {
                for max_anisotropy in [1, 16] {
                    let desc = SamplerDesc {
                        min_filter,
                        mag_filter,
                        address: [mode; 3],
                        lod_bias: -0.5,
                        max_anisotropy,
                        compare,
                        border: BorderColor::OpaqueWhite,
                        ..SamplerDesc::default()
                    };
                    let sampler = gpu.device().create_sampler(&desc).unwrap();
                    assert_eq!((sampler.raw().AddressV, sampler.raw().BorderColor), (raw_mode, [1.0; 4]));
                    // SAFETY: of this device, to which it is enough that it is live now.
                    write(gpu, &heap, at, &unsafe { gpu.device().sampler_descriptor(&sampler) });
                    // SAFETY: no work uses it.
                    unsafe { gpu.device().destroy_sampler(sampler) };
                    at += 1;
                }
            }
        }
    }
    assert_eq!(at, 128);
    let wrong = SamplerDesc { max_anisotropy: 0, ..SamplerDesc::default() };
    let refused = gpu.device().create_sampler(&wrong).map(drop);
    assert_eq!(refused, Err(DescriptionError::Sampler(wrong.check().unwrap_err()).into()));
}
