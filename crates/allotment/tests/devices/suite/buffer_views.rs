//! Views of buffers: constants, raw bytes, structures and texels; what is viewed, what is refused, and nothing left.

use core::ops::Range;
use std::sync::Arc;

use allotment::descriptor::{Binding, BindingSet, BufferView, DescriptorError};
use allotment::device::{
    AddressError, BufferDesc, BufferUse, BufferViewDesc, BufferViewUses, DescriptorDevice,
    DescriptorHeapType, TexelBufferDesc, TexelBufferUse,
};
use allotment::gpu::GpuDesc;
use allotment::{AllocationOptions, MemoryUsage};

use crate::fixture::{DescriptorFixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: DescriptorFixture>() -> Vec<Test<F>> {
    tests![F:
        buffers_are_seen_as_constants_bytes_and_structures_within_the_rules_of_their_use,
        buffers_are_seen_as_texels_within_the_limits_of_their_format,
        a_buffer_that_was_not_created_to_be_seen_so_is_refused,
    ]
}

const SIZE: u64 = 1 << 16;

fn texels(usage: TexelBufferUse) -> BufferViewUses {
    match usage {
        TexelBufferUse::Uniform => BufferViewUses::UNIFORM_TEXELS,
        TexelBufferUse::Storage => BufferViewUses::STORAGE_TEXELS,
    }
}

const USES: [(BufferUse, BufferViewUses); 3] = [
    (BufferUse::Constants, BufferViewUses::CONSTANTS),
    (BufferUse::ReadOnly, BufferViewUses::READ_ONLY),
    (BufferUse::ReadWrite, BufferViewUses::READ_WRITE),
];

fn buffers_are_seen_as_constants_bytes_and_structures_within_the_rules_of_their_use<F: DescriptorFixture>(
    gpu: &Gpu<F>,
) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    for (usage, flag) in USES {
        let desc = BufferDesc::new(SIZE).with_usage(gpu.fixture().buffer_for_views(flag));
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("lights");
        let limits = gpu.device().descriptor_limits();
        let (alignment, most) = (limits.buffer_alignment(usage).get(), limits.max_buffer_range(usage));
        for options in [options.clone(), options.relocatable()] {
            let buffer = Arc::new(front.create_buffer(&desc.into(), &options).unwrap());
            let mut views = Vec::new();
            for range in
                [0..SIZE.min(most), alignment..alignment.next_multiple_of(256) + 256, 512..1024, 0..256]
            {
                views.push(front.create_buffer_view(&buffer, &BufferViewDesc::new(range, usage)).unwrap());
            }
            let of_structures = |range: Range<u64>, stride| {
                front.create_buffer_view(&buffer, &BufferViewDesc::new(range, usage).with_stride(stride))
            };
            for (range, stride) in [(0..48, 12), (0..SIZE.min(most), 64), (12_288..12_288 + 36, 12)] {
                match usage {
                    BufferUse::Constants => refused(of_structures(range, stride), "a stride"),
                    _ => views.push(of_structures(range, stride).unwrap()),
                }
            }
            for stride in [0, 2, 6, 2052, u32::MAX] {
                refused(of_structures(0..256, stride), "a stride");
            }
            let plain = |range| front.create_buffer_view(&buffer, &BufferViewDesc::new(range, usage));
            refused(plain(0..SIZE + 256), "beyond");
            refused(plain(SIZE..SIZE), "beyond");
            refused(plain(u64::MAX - 255..u64::MAX), "beyond");
            refused(plain(alignment / 2..alignment / 2 + 256), "misaligned");
            refused(plain(0..258), "misaligned");
            if usage != BufferUse::Constants {
                refused(of_structures(0..50, 12), "misaligned");
                refused(of_structures(4096..4096 + 24, 12), "misaligned");
            }
            are_seen_by_shaders(&front, views);
        }
    }
    for _ in 0..3 {
        front.wait_idle().unwrap();
    }
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

#[track_caller]
fn refused<D: DescriptorDevice>(view: Result<BufferView<D>, DescriptorError>, what: &str) {
    let refused = view.map(|view| panic!("{what}: {view:?}")).unwrap_err();
    let expected = match what {
        "a stride" => matches!(refused, DescriptorError::BadStride { .. }),
        "misaligned" => matches!(refused, DescriptorError::Misaligned { .. }),
        _ => matches!(refused, DescriptorError::BadRange { .. }),
    };
    assert!(expected, "{what}: {refused}");
    assert_eq!(refused.name(), Some("lights"));
}

/// Puts views into slots and sets, where the device has them, and drops them: each has a descriptor of its own until then.
fn are_seen_by_shaders<D: DescriptorDevice>(front: &allotment::Gpu<D>, views: Vec<BufferView<D>>) {
    let Ok(descriptors) = front.descriptors() else {
        let refused = views[0].cpu_descriptor().unwrap_err();
        assert!(matches!(refused, DescriptorError::NoDescriptor { .. }), "{refused}");
        return;
    };
    let heap = descriptors.resources();
    front.wait_idle().unwrap();
    let cpu_heap = descriptors.cpu_heap(DescriptorHeapType::Resource);
    assert_eq!(cpu_heap.statistics().used as usize, views.len());
    let mut addresses: Vec<_> = views.iter().map(|view| view.cpu_descriptor().unwrap()).collect();
    addresses.retain(|&address| address != 0);
    let count = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() == count && (count == 0 || count == views.len()), "{addresses:x?}");

    let binding = Binding::mutable("seen").array(u32::try_from(views.len()).unwrap());
    let layout = descriptors.binding_layout(&[binding, Binding::dynamic("of a draw")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    let moves = views[0].buffer().is_relocatable();
    let mut slots = Vec::new();
    for (at, view) in (0..).zip(views.into_iter().map(Arc::new)) {
        slots.push(heap.insert_buffer_view(&view).unwrap());
        set.bind_buffer_view(0, at, &view).unwrap();
        set.bind_buffer_view(1, 0, &view).unwrap();
        // Those of a buffer that moves are made again where they are.
        assert!(moves || Arc::strong_count(&view) == 4, "slot and set keep the view");
    }
    let frame = front.begin_frame().unwrap();
    set.commit(&mut frame.transient_descriptors().unwrap()).unwrap();
    frame.end().unwrap();
    slots.into_iter().for_each(|slot| heap.remove(slot).unwrap());
    drop((set, layout));
    for _ in 0..3 {
        front.wait_idle().unwrap();
    }
    assert_eq!((heap.statistics().slots.used, cpu_heap.statistics().used), (0, 0));
}

fn a_buffer_that_was_not_created_to_be_seen_so_is_refused<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("mesh");
    let create = |usage| {
        let desc = BufferDesc::new(SIZE).with_usage(usage);
        Arc::new(front.create_buffer(&desc.into(), &options).unwrap())
    };
    let is_refused = |error: DescriptorError, flag| {
        let refused = matches!(error, DescriptorError::BufferUsage { missing, .. } if missing == flag);
        assert!(refused && error.name() == Some("mesh"), "{error}");
    };
    for (usage, flag) in USES {
        let Some(flags) = gpu.fixture().buffer_without_views(flag) else { continue };
        let buffer = create(flags);
        is_refused(front.create_buffer_view(&buffer, &BufferViewDesc::new(0..256, usage)).unwrap_err(), flag);
        if let Ok(descriptors) = front.descriptors() {
            is_refused(descriptors.resources().insert_buffer(&buffer, 0..256, usage).unwrap_err(), flag);
            let mut set =
                BindingSet::new(&descriptors.binding_layout(&[Binding::mutable("seen")]).unwrap()).unwrap();
            is_refused(set.bind_buffer(0, 0, &buffer, 0..256, usage).unwrap_err(), flag);
        }
    }
    let (format, texel) = gpu.fixture().texel_format();
    for usage in [TexelBufferUse::Uniform, TexelBufferUse::Storage] {
        let Some(flags) = gpu.fixture().buffer_without_views(texels(usage)) else { continue };
        let desc = TexelBufferDesc::new(0..texel, format, usage);
        is_refused(front.create_texel_buffer_view(&create(flags), &desc).unwrap_err(), texels(usage));
    }
    // Of descriptors that contain addresses, one of a buffer without would be of nothing.
    if let (true, Some(none)) = (gpu.device().descriptors_have_addresses(), gpu.fixture().no_address_usage())
    {
        let seen = gpu.fixture().buffer_for_views(BufferViewUses::READ_ONLY) & !gpu.fixture().address_usage();
        let desc = BufferViewDesc::new(0..256, BufferUse::ReadOnly);
        let error = front.create_buffer_view(&create(seen | none), &desc).unwrap_err();
        let expected = matches!(error, DescriptorError::NoAddress { reason: AddressError::MissingUsage, .. });
        assert!(expected && error.name() == Some("mesh"), "{error}");
    }
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

fn buffers_are_seen_as_texels_within_the_limits_of_their_format<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let (format, texel) = gpu.fixture().texel_format();
    for usage in [TexelBufferUse::Uniform, TexelBufferUse::Storage] {
        let desc = BufferDesc::new(SIZE).with_usage(gpu.fixture().buffer_for_views(texels(usage)));
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("grid");
        let buffer = Arc::new(front.create_buffer(&desc.into(), &options).unwrap());
        let movable = Arc::new(front.create_buffer(&desc.into(), &options.clone().relocatable()).unwrap());
        let limits = gpu.device().texel_buffer_limits(format, usage).unwrap();
        assert_eq!(limits.texel, texel);
        let view = |buffer, range, format| {
            front.create_texel_buffer_view(buffer, &TexelBufferDesc::new(range, format, usage))
        };
        let start = limits.alignment.next_multiple_of(texel);
        let views =
            [0..SIZE, start..start + 4 * texel, 0..texel].map(|range| view(&buffer, range, format).unwrap());
        // Whatever the number is, what is refused reaches no driver, and what is not is valid.
        for number in 0..200 {
            match gpu.device().texel_buffer_limits(number, usage) {
                Some(limits) => drop(view(&buffer, 0..limits.texel, number).unwrap()),
                None => {
                    let refused = view(&buffer, 0..texel, number).unwrap_err();
                    assert!(matches!(refused, DescriptorError::TexelFormat { .. }), "{number}: {refused}");
                }
            }
        }
        for (refused, what) in [
            (view(&buffer, 0..SIZE + texel, format), "beyond the buffer"),
            (view(&buffer, texel..texel, format), "nothing"),
            (view(&buffer, 0..texel + 1, format), "a part of a texel"),
        ] {
            let refused = refused.map(|_| panic!("{what}")).unwrap_err();
            let expected = match what {
                "a part of a texel" => matches!(refused, DescriptorError::Misaligned { .. }),
                _ => matches!(refused, DescriptorError::BadRange { .. }),
            };
            assert!(expected, "{what}: {refused}");
            assert_eq!(refused.name(), Some("grid"));
        }
        let of_movable = view(&movable, 0..texel, format).unwrap();
        of_movable.with(|_| ()).unwrap();
        if let Ok(descriptors) = front.descriptors() {
            let slot = descriptors.resources().insert_texel_buffer(&Arc::new(of_movable)).unwrap();
            descriptors.resources().remove(slot).unwrap();
            for view in views.map(Arc::new) {
                let slot = descriptors.resources().insert_texel_buffer(&view).unwrap();
                assert_eq!(Arc::strong_count(&view), 2);
                descriptors.resources().remove(slot).unwrap();
            }
        }
        drop((buffer, movable));
        for _ in 0..3 {
            front.wait_idle().unwrap();
        }
        assert_eq!(front.deletion_queue().statistics().pending, 0);
    }
}
