//! Room for a larger resource than any block has, in a heap that is full of relocatable ones.

use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, ImageDesc, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, NextPass, PassLimits, RequestDefragmentation, RoomError,
};
use allotment::memory::{AllocationOptions, Buffer, Dedicated, Movability, ResourceError};
use allotment::{Alignment, MemoryUsage, PoolDesc, Requirements};

const MIB: u64 = 1 << 20;

/// How the memory of a device is bounded.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Driver(u64),
    Limit(u64),
}

fn bounded(bound: Bound) -> (SimulatedGpu, Gpu<SimulatedGpu>) {
    let mut profile = Profile::named("discrete-no-bar").unwrap();
    let mut desc = patient();
    match bound {
        Bound::Driver(bytes) => profile.heaps[0].size = bytes,
        Bound::Limit(bytes) => desc.allocator.heap_limits = vec![(MemoryHeapIndex(0), bytes)],
    }
    let device = SimulatedGpu::new(profile);
    (device.clone(), Gpu::new(device, desc).unwrap())
}

/// Hundreds of megabytes are copied, which takes longer than any default where a machine does much else.
fn patient() -> GpuDesc {
    GpuDesc::default().with_timeout(Duration::from_secs(300))
}

fn texture() -> AllocationOptions {
    let mut options = MemoryUsage::GpuOnly.with_name("texture").relocatable();
    options.memory_types = MemoryTypeMask(1);
    options
}

/// Fills the heap with buffers of `each` bytes, with their number in their bytes.
fn fill(gpu: &Gpu<SimulatedGpu>, each: u64, options: &AllocationOptions) -> Vec<(u8, Buffer<SimulatedGpu>)> {
    let mut all = Vec::new();
    while let Ok(buffer) = gpu.create_buffer(&BufferDesc::new(each), options) {
        let number = all.len() as u8;
        gpu.uploads().write_buffer(&buffer, 0, &[number; 64]).unwrap();
        all.push((number, buffer));
    }
    all
}

fn check_bytes(gpu: &Gpu<SimulatedGpu>, all: &[(u8, Buffer<SimulatedGpu>)]) {
    for (number, buffer) in all {
        let mut bytes = [0; 64];
        gpu.read_buffer(buffer, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [*number; 64]);
    }
}

#[test]
fn blocks_are_emptied_and_replaced_by_a_larger_one() {
    for bound in [Bound::Driver(256 * MIB), Bound::Limit(256 * MIB)] {
        for (want, each, every) in [
            (4 * MIB, MIB, 3),
            (6 * MIB, MIB, 3),
            (16 * MIB, MIB, 3),
            (40 * MIB, MIB, 2),
            (16 * MIB, MIB / 4, 2),
        ] {
            let (device, gpu) = bounded(bound);
            let mut all = fill(&gpu, each, &texture());
            let mut at = 0;
            all.retain(|_| {
                at += 1;
                at % every != 0
            });
            gpu.wait_idle().unwrap();
            let made = gpu.making_room().create_buffer(&BufferDesc::new(want), &texture());
            let made =
                made.unwrap_or_else(|error| panic!("{bound:?}, {want} of {each}, every {every}: {error}"));
            assert_eq!(made.info().memory_type.0, 0);
            check_bytes(&gpu, &all);
            let report = gpu.allocator().reports().memory_heaps()[0];
            assert!(report.peak_reserved <= 256 * MIB, "{report:?}");
            drop((made, all));
            drop(gpu);
            assert_eq!(device.validation_errors(), Vec::<String>::new());
        }
    }
}

#[test]
fn in_small_heaps_whatever_fits_beside_what_is_allocated_is_served() {
    let rows = [(8, 3), (8, 4), (12, 5), (12, 6), (16, 5), (16, 6), (16, 8), (32, 5), (32, 9), (32, 16)];
    for (limit, want) in rows {
        let (device, gpu) = bounded(Bound::Limit(limit * MIB));
        let mut all = fill(&gpu, MIB, &texture());
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        gpu.wait_idle().unwrap();
        let made = gpu.making_room().create_buffer(&BufferDesc::new(want * MIB), &texture());
        made.unwrap_or_else(|error| panic!("{want} of {limit} MiB: {error}"));
        check_bytes(&gpu, &all);
        drop(all);
        drop(gpu);
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}

#[test]
fn a_dedicated_block_is_emptied_for_a_larger_one_too() {
    let (device, gpu) = bounded(Bound::Limit(64 * MIB));
    let options = texture();
    // Shared blocks with holes, and dedicated memory of 10 MiB that may move.
    let mut small: Vec<_> =
        (0..32).map(|_| gpu.create_buffer(&BufferDesc::new(MIB), &options).unwrap()).collect();
    let large = gpu.create_buffer(&BufferDesc::new(10 * MIB), &options).unwrap();
    let large = [(7, large)];
    gpu.uploads().write_buffer(&large[0].1, 0, &[7; 64]).unwrap();
    let rest: Vec<_> =
        core::iter::from_fn(|| gpu.create_buffer(&BufferDesc::new(MIB), &options).ok()).collect();
    assert!(large[0].1.info().dedicated);
    let mut at = 0;
    small.retain(|_| {
        at += 1;
        at % 4 == 0
    });
    drop(rest);
    gpu.wait_idle().unwrap();
    let free = 64 * MIB - gpu.allocator().statistics().allocation_bytes;
    let made = gpu.making_room().create_buffer(&BufferDesc::new(free - 8 * MIB), &options).unwrap();
    check_bytes(&gpu, &large);
    drop((made, small, large));
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn what_is_pinned_or_more_than_is_free_is_refused_and_leaves_everything_in_place() {
    let (device, gpu) = bounded(Bound::Limit(32 * MIB));
    let mut pinned = MemoryUsage::GpuOnly.with_name("pinned");
    pinned.memory_types = MemoryTypeMask(1);
    let mut all = fill(&gpu, MIB, &pinned);
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    gpu.wait_idle().unwrap();
    let refused = gpu.making_room().create_buffer(&BufferDesc::new(9 * MIB), &texture()).unwrap_err();
    assert!(matches!(refused, ResourceError::Room(RoomError::NothingHelps { .. })), "{refused}");
    let too_much = gpu.making_room().create_buffer(&BufferDesc::new(20 * MIB), &texture()).unwrap_err();
    assert!(matches!(too_much, ResourceError::Room(_)), "{too_much}");
    check_bytes(&gpu, &all);
    drop(all);
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_pool_that_has_all_its_blocks_replaces_some_by_a_larger_one() {
    let (device, gpu) = bounded(Bound::Driver(256 * MIB));
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    desc.max_blocks = 4;
    let pool = gpu.allocator().create_pool(desc).unwrap();
    let options = texture().with_pool(&pool);
    let mut all = fill(&gpu, MIB, &options);
    assert_eq!(all.len(), 16);
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    gpu.wait_idle().unwrap();
    let dedicated = options.clone().with_dedicated(Dedicated::Automatic);
    let made = gpu.making_room().create_buffer(&BufferDesc::new(6 * MIB), &dedicated).unwrap();
    check_bytes(&gpu, &all);
    drop((made, all, options, dedicated));
    gpu.wait_idle().unwrap();
    gpu.allocator().destroy_pool(pool).unwrap();
    drop(gpu);
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

/// A device with one heap of 64 MiB in two memory types, where optimal images have blocks of their own.
fn one_heap() -> (SimulatedGpu, Gpu<SimulatedGpu>) {
    let mut profile = Profile::named("integrated").unwrap();
    profile.limits.buffer_image_granularity = Alignment::new(64 << 10).unwrap();
    profile.heaps[0].size = 64 * MIB;
    let device = SimulatedGpu::new(profile);
    (device.clone(), Gpu::new(device, patient()).unwrap())
}

fn of_type(mut options: AllocationOptions, memory_type: u32) -> AllocationOptions {
    options.memory_types = MemoryTypeMask(1 << memory_type);
    options
}

/// The buffers of another memory type, of a custom pool, or beside an image.
#[test]
fn blocks_of_other_pools_are_emptied_for_a_buffer_or_an_image() {
    for case in 0..4 {
        let (device, gpu) = one_heap();
        let pool = gpu.allocator().create_pool(PoolDesc::new([MemoryTypeIndex(1)])).unwrap();
        let (filled, wanted) = match case {
            0 => (of_type(texture(), 1), of_type(texture(), 0)),
            1 => (of_type(texture(), 1).with_pool(&pool), of_type(texture(), 0)),
            2 => (of_type(texture(), 1), of_type(texture(), 1).with_pool(&pool)),
            _ => (of_type(texture(), 1), of_type(texture(), 1)),
        };
        let mut all = fill(&gpu, MIB / 2, &filled);
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        gpu.wait_idle().unwrap();
        let (buffer, image) = match case {
            3 => {
                let image = ImageDesc::new(2048, 2048, 4);
                (None, Some(gpu.making_room().create_image(&image, &wanted).unwrap()))
            }
            _ => (Some(gpu.making_room().create_buffer(&BufferDesc::new(16 * MIB), &wanted).unwrap()), None),
        };
        check_bytes(&gpu, &all);
        let report = gpu.allocator().reports().memory_heaps()[0];
        assert!(report.peak_reserved <= 64 * MIB, "{report:?}");
        drop((buffer, image, all, filled, wanted));
        gpu.wait_idle().unwrap();
        gpu.allocator().destroy_pool(pool).unwrap();
        drop(gpu);
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}

/// They belong to the `Defragmenter`.
#[test]
fn passes_of_an_allocator_leave_the_resources_of_a_gpu_in_other_pools() {
    let (device, gpu) = one_heap();
    let mut all = fill(&gpu, MIB / 2, &of_type(texture(), 1));
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    gpu.wait_idle().unwrap();
    let options = of_type(MemoryUsage::GpuOnly.with_name("raw"), 0).with_movability(Movability::Copied);
    let refused = RequestDefragmentation::new(
        gpu.allocator(),
        &Requirements::new(16 * MIB),
        &options,
        DefragmentationDesc::default(),
    )
    .and_then(|room| room.run(|_| panic!("nothing of the allocator's own is in the way")));
    assert!(matches!(refused, Err(RoomError::NothingHelps { .. })), "{refused:?}");
    check_bytes(&gpu, &all);
    drop((all, gpu));
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}

#[test]
fn what_room_is_made_for_is_moved_by_the_steps_of_its_gpu_and_by_no_pass_of_the_program() {
    // By its own options, and because a defragmenter creates it.
    for options in [texture(), texture().with_movability(Movability::Pinned)] {
        let (device, gpu) = bounded(Bound::Limit(64 * MIB));
        let making_room = gpu.defragmenter().making_room(Duration::from_secs(300));
        let mut all = fill(&gpu, MIB, &texture());
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 3 != 0
        });
        gpu.wait_idle().unwrap();
        let moved_before = gpu.defragmenter().statistics().moves;
        let mut made = Vec::new();
        for number in 0..4 {
            made.push((number, making_room.create_buffer(&BufferDesc::new(2 * MIB), &options).unwrap()));
        }
        for (number, buffer) in &made {
            gpu.uploads().write_buffer(buffer, 0, &[*number; 64]).unwrap();
        }
        assert!(gpu.defragmenter().statistics().moves > moved_before, "others were moved for them");
        // They are in several blocks, each with room for others, so that some would be moved.
        drop(all);
        gpu.wait_idle().unwrap();
        let places = |made: &[(u8, Buffer<SimulatedGpu>)]| -> Vec<_> {
            made.iter().map(|(_, buffer)| (buffer.location().memory, buffer.location().offset)).collect()
        };
        let before = places(&made);
        let mut passes = Defragmentation::new(gpu.allocator(), None, DefragmentationDesc::default()).unwrap();
        while let NextPass::Moves(pass) = passes.next_pass() {
            assert_eq!(pass.moves().len(), 0, "the resources of a `Gpu` are not the program's to move");
        }
        drop(passes);
        assert_eq!(places(&made), before);
        let mut moved = 0;
        for _ in 0..100 {
            moved += gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves;
        }
        assert!(moved > 0, "a step moves what the defragmenter created");
        check_bytes(&gpu, &made);
        drop(made);
        drop(gpu);
        assert_eq!(device.validation_errors(), Vec::<String>::new());
    }
}
