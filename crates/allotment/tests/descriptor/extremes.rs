//! Arguments at the ends of their ranges: each is served or refused with an error, and nothing panics or overflows.

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError,
    ShaderVisibleHeap, ShaderVisibleHeapDesc,
};
use allotment::device::{BufferDesc, BufferUse, DescriptorHeapType};
use allotment::{AllocationOptions, MemoryUsage};

use crate::rig::Rig;

const COUNTS: [u32; 8] = [0, 1, 2, 63, (1 << 24) + 1, 1 << 30, u32::MAX / 2, u32::MAX];

#[test]
fn a_heap_of_any_regions_is_made_or_refused_and_serves_or_refuses_any_count() {
    let rig = Rig::new();
    let regions =
        [[0, 0, 0], [0, 0, 1], [1, 1, 1], [63, 0, 0], [u32::MAX; 3], [0, u32::MAX, 0], [1 << 20, 0, 1]];
    for ([slots, tables, transient], chunk) in
        regions.into_iter().flat_map(|r| [0, 1, u32::MAX].map(|chunk| (r, chunk)))
    {
        let desc =
            ShaderVisibleHeapDesc::resources().with_regions(slots, tables, transient).with_chunk(chunk);
        let Ok(heap) = ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc) else { continue };
        let recording = rig.record();
        let mut view = heap.begin(&recording).unwrap();
        for count in COUNTS {
            // A region of none refuses all.
            let table = heap.allocate(count).map(|table| table.count());
            assert!(table == Ok(count) || count != 1 || tables == 0, "{table:?}");
            let own = view.allocate(count).map(|table| table.place().count);
            assert!(own == Ok(count) || count != 1 || transient == 0, "{own:?}");
        }
        for count in [(1 << 24) + 1, 1 << 30, u32::MAX / 2, u32::MAX] {
            assert!(heap.grow(count, tables, transient).is_err());
            assert!(heap.grow(u32::MAX, count, u32::MAX).is_err());
        }
    }
    rig.assert_no_complaints();
}

#[test]
fn a_batch_that_says_it_has_as_many_descriptors_as_can_be_counted_is_refused() {
    struct Endless;
    impl Iterator for Endless {
        type Item = u32;
        fn next(&mut self) -> Option<u32> {
            Some(0)
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX, Some(usize::MAX))
        }
    }
    impl ExactSizeIterator for Endless {}
    let rig = Rig::new();
    let heap = rig.resources(8, 0, 16);
    let refused = heap.insert_all(Endless.map(|i| (rig.number(i), None)));
    assert_eq!(refused, Err(DescriptorError::NeverFits { requested: u32::MAX, capacity: 8 }));
    assert_eq!(heap.insert_all(core::iter::empty()), Ok(Vec::new()));
}

#[test]
fn a_staging_heap_of_any_page_size_serves_or_refuses_any_count() {
    let rig = Rig::new();
    for (page_size, reserve) in
        [0, 1, 65, u32::MAX].into_iter().flat_map(|size| [0, u32::MAX].map(|r| (size, r)))
    {
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource)
            .with_page_size(page_size)
            .with_reserve(reserve);
        let heap = CpuDescriptorHeap::new(&rig.allocator, &rig.tracker, desc).unwrap();
        for count in COUNTS {
            match heap.allocate(count) {
                Ok(range) => {
                    assert!((1..=1 << 24).contains(&count));
                    heap.free(range).unwrap();
                }
                Err(DescriptorError::Empty) => assert_eq!(count, 0),
                Err(DescriptorError::NeverFits { .. }) => assert!(count > 1 << 24),
                Err(error) => panic!("{error}"),
            }
        }
        heap.trim();
        for _ in 0..100 {
            heap.reclaim();
        }
    }
}

#[test]
fn bindings_of_any_counts_make_a_layout_and_a_set_or_are_refused() {
    let rig = Rig::new();
    let heap = std::sync::Arc::new(rig.resources(8, 64, 16));
    let staging = rig.staging(64);
    let sorts = [Binding::static_("a"), Binding::mutable("a"), Binding::dynamic("a")];
    for binding in sorts.into_iter().flat_map(|binding| COUNTS.map(|count| binding.array(count))) {
        for more in [&[][..], &[Binding::mutable("b")], &[binding; 3]] {
            let bindings = [&[binding], more].concat();
            let Ok(layout) = BindingLayout::new(&heap, &staging, &bindings) else { continue };
            for at in COUNTS {
                let _ = layout.bind_static(0, at, &rig.number(1), None);
                let _ = layout.bind_static(usize::MAX, at, &rig.number(1), None);
            }
            let Ok(mut set) = BindingSet::new(&layout) else { continue };
            for at in COUNTS {
                let _ = set.bind(0, at, &rig.number(1), None);
                assert!(set.bind(usize::MAX, at, &rig.number(1), None).is_err());
            }
        }
    }
    assert_eq!(staging.statistics().used, 0);
    rig.assert_no_complaints();
}

#[test]
fn ranges_of_buffers_that_cannot_be_bound_are_refused() {
    let rig = Rig::new();
    let heap = std::sync::Arc::new(rig.resources(8, 64, 16));
    let layout = BindingLayout::new(&heap, &rig.staging(64), &[Binding::mutable("a")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    let desc = AllocationOptions::new(MemoryUsage::GpuOnly);
    let buffer = std::sync::Arc::new(rig.memory.create_buffer(&BufferDesc::new(1024), &desc).unwrap());
    let ends = [0, 1, 256, 1024, 1 << 63, u64::MAX - 3, u64::MAX];
    for (start, end) in ends.into_iter().flat_map(|start| ends.map(|end| (start, end))) {
        for usage in [BufferUse::ReadOnly, BufferUse::ReadWrite, BufferUse::Constants] {
            let bound = set.bind_buffer(0, 0, &buffer, start..end, usage);
            let may = start < end && end <= 1024 && start % 256 == 0 && end % 256 == 0;
            assert_eq!(bound.is_ok(), may, "{start}..{end}: {bound:?}");
        }
    }
    rig.assert_no_complaints();
}
