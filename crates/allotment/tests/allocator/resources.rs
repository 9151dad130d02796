//! Resources: what the request and the device demand, and what is created.

use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferDevice as _, DedicatedNeed, DeviceError, ImageDesc, MemoryTypeIndex, Priority,
    PrioritySupport, Requirements,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Dedicated, RawBuffer, ResourceError};
use allotment::{
    Allocation, AllocationError, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, PoolDesc,
};

use crate::hooked_device::{Hook, HookedDevice, Point};
use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, KIB, MIB, Rig, Wanted, aligned, fixed_pool, profile,
    wanted, wanted_in,
};

/// A buffer and an image that require dedicated memory.
fn demanding() -> (BufferDesc, ImageDesc) {
    let mut image = ImageDesc::new(64, 64, 4);
    image.usage = SimulatedGpu::REQUIRES_DEDICATED;
    (BufferDesc::new(64 * KIB).with_usage(SimulatedGpu::REQUIRES_DEDICATED), image)
}

#[test]
fn a_resource_that_requires_dedicated_memory_is_made_in_no_other_allocation() {
    let rig = Rig::new(DISCRETE);
    let (buffer, image) = demanding();
    let required = Requirements { dedicated: DedicatedNeed::Required, ..Requirements::new(MIB) };
    let mut requests = [
        wanted(MIB, MemoryUsage::GpuOnly),
        wanted(MIB, MemoryUsage::GpuOnly),
        wanted(MIB, MemoryUsage::GpuOnly),
    ];
    requests[1].dedicated = Dedicated::Always;
    requests[2].requirements = required;
    for desc in requests {
        let memory = rig.allocate_wanted(&desc).unwrap();
        let refused = ResourceError::Access(AccessError::DedicatedRequired { name: ShortName::NONE });
        assert_eq!(rig.create_aliasing_buffer(&memory, 0, &buffer).unwrap_err(), refused);
        assert_eq!(rig.create_aliasing_image(&memory, 0, &image).unwrap_err(), refused);
        let placed = rig.place_within(&memory, 0, &Requirements { size: KIB, ..required });
        assert_eq!(placed.unwrap_err(), AccessError::DedicatedRequired { name: ShortName::NONE });
        rig.free(memory).unwrap();
    }
    let usage = rig.device.usage();
    assert_eq!((usage.buffers, usage.images), (0, 0));
    // What the error says to do.
    let made = rig.create_buffer(&buffer, &wanted(1, MemoryUsage::GpuOnly)).unwrap();
    let info = rig.info(made.allocation()).unwrap();
    assert!(info.dedicated && info.dedicated_to_resource);
    rig.destroy_buffer(made).unwrap();
    let made = rig.create_image(&image, &wanted(1, MemoryUsage::GpuOnly)).unwrap();
    assert!(rig.info(made.allocation()).unwrap().dedicated_to_resource);
    rig.destroy_image(made).unwrap();
}

#[test]
fn a_resource_that_requires_dedicated_memory_is_refused_where_the_request_rules_that_out() {
    let rig = Rig::new(DISCRETE);
    let (buffer, image) = demanding();
    let never = wanted(1, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    let refused = ResourceError::Allocation(AllocationError::DedicatedRequired { name: ShortName::NONE });
    assert_eq!(rig.create_buffer(&buffer, &never).unwrap_err(), refused);
    assert_eq!(rig.create_image(&image, &never).unwrap_err(), refused);
    assert_eq!(rig.reports().device_calls().allocate, 0);
}

#[test]
fn a_resource_stands_at_a_multiple_of_the_alignment_that_the_request_asks_for() {
    for profile in [DISCRETE, COARSE] {
        let rig = Rig::new(profile);
        let offset = |allocation: &Allocation| rig.location(allocation).unwrap().offset;
        let fillers: Vec<RawBuffer<SimulatedGpu>> = (0..3)
            .map(|_| rig.create_buffer(&BufferDesc::new(100), &wanted(1, MemoryUsage::GpuOnly)).unwrap())
            .collect();
        let mut desc = wanted(1, MemoryUsage::GpuOnly);
        desc.min_alignment = aligned(1, 4096).alignment;
        let buffers: Vec<_> =
            (0..3).map(|_| rig.create_buffer(&BufferDesc::new(100), &desc).unwrap()).collect();
        for buffer in &buffers {
            assert_eq!(offset(buffer.allocation()) % 4096, 0, "{profile}");
        }
        let images: Vec<_> =
            (0..3).map(|_| rig.create_image(&ImageDesc::new(3, 3, 1), &desc).unwrap()).collect();
        for image in &images {
            assert_eq!(offset(image.allocation()) % 4096, 0, "{profile}");
            assert_eq!(rig.location(image.allocation()).unwrap().size, image.size());
        }
        // The device's own wish stays where the request asks for less.
        let own = rig.device.buffer_requirements(&BufferDesc::new(100)).unwrap();
        desc.requirements = aligned(1, 1);
        let last = rig.create_buffer(&BufferDesc::new(100), &desc).unwrap();
        assert!(own.alignment.is_aligned(offset(last.allocation())));
        fillers
            .into_iter()
            .chain(buffers)
            .chain([last])
            .for_each(|buffer| rig.destroy_buffer(buffer).unwrap());
        images.into_iter().for_each(|image| rig.destroy_image(image).unwrap());
    }
}

#[test]
fn a_resource_in_a_pool_gets_the_dedicated_memory_that_it_requires_as_a_block_of_the_pool() {
    let rig = Rig::new(DISCRETE);
    let (buffer, image) = demanding();
    let mut desc = PoolDesc::new([MemoryTypeIndex(3), DEVICE_TYPE]);
    desc.max_blocks = 2;
    let pool = rig.create_pool(desc).unwrap();
    let wish = wanted(1, MemoryUsage::GpuOnly);
    let made = rig.create_buffer(&buffer, &wish.clone().with_pool(&pool)).unwrap();
    let drawn = rig.create_image(&image, &wish.clone().with_pool(&pool)).unwrap();
    for allocation in [made.allocation(), drawn.allocation()] {
        let info = rig.info(allocation).unwrap();
        assert!(info.dedicated && info.dedicated_to_resource);
        assert_eq!(rig.type_of(allocation), MemoryTypeIndex(3), "the pool's first");
    }
    let statistics = rig.reports().pool_statistics(&pool).unwrap();
    assert_eq!((statistics.dedicated, statistics.blocks), (2, 0));
    assert_eq!(rig.statistics().allocations, 2);
    let full = rig.create_buffer(&buffer, &wish.clone().with_pool(&pool)).unwrap_err();
    assert!(matches!(full, ResourceError::Allocation(AllocationError::PoolFull { max_blocks: 2, .. })));
    rig.destroy_image(drawn).unwrap();
    // A block that nothing is in gives way.
    let shared = rig.create_buffer(&BufferDesc::new(KIB), &wish.clone().with_pool(&pool)).unwrap();
    assert!(!rig.is_dedicated(shared.allocation()));
    rig.destroy_buffer(shared).unwrap();
    let again = rig.create_buffer(&buffer, &wish.clone().with_pool(&pool)).unwrap();
    rig.destroy_buffer(again).unwrap();
    rig.destroy_buffer(made).unwrap();
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().dedicated, 0);
    rig.destroy_pool(pool).unwrap();
    assert_eq!(rig.device.usage().buffers, 0);
}

#[test]
fn a_resource_that_requires_dedicated_memory_is_refused_in_a_pool_of_fixed_blocks() {
    let rig = Rig::new(DISCRETE);
    let (buffer, image) = demanding();
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let wish = wanted(1, MemoryUsage::GpuOnly);
    let refused = ResourceError::Allocation(AllocationError::DedicatedInFixedPool { name: ShortName::NONE });
    assert_eq!(rig.create_buffer(&buffer, &wish.clone().with_pool(&pool)).unwrap_err(), refused);
    assert_eq!(rig.create_image(&image, &wish.clone().with_pool(&pool)).unwrap_err(), refused);
    let refused = ResourceError::Allocation(AllocationError::DedicatedRequired { name: ShortName::NONE });
    let never = wish.with_dedicated(Dedicated::Never);
    let growing = rig.create_pool(PoolDesc::new([DEVICE_TYPE])).unwrap();
    assert_eq!(rig.create_buffer(&buffer, &never.clone().with_pool(&growing)).unwrap_err(), refused);
    rig.destroy_pool(growing).unwrap();
    rig.destroy_pool(pool).unwrap();
    assert_eq!(rig.device.usage().allocate_calls, 0);
}

#[test]
fn a_pool_is_not_reset_while_resources_are_in_it() {
    let rig = Rig::new(DISCRETE);
    let (demanding, _) = demanding();
    let pool = rig.create_pool(PoolDesc::new([DEVICE_TYPE])).unwrap();
    let wish = wanted(1, MemoryUsage::GpuOnly);
    for desc in [BufferDesc::new(KIB), demanding] {
        let _plain = rig.allocate_wanted_in(&pool, &wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
        let buffer = rig.create_buffer(&desc, &wish.clone().with_pool(&pool)).unwrap();
        assert_eq!(
            rig.reset_pool(&pool),
            Err(AllocationError::ResourcesInPool { count: 1, name: ShortName::NONE })
        );
        assert_eq!(rig.reports().pool_statistics(&pool).unwrap().allocations, 2, "nothing has changed");
        let at = rig.location(buffer.allocation()).unwrap().offset;
        rig.destroy_buffer(buffer).unwrap();
        // In the place that the buffer left, memory alone.
        let _again = rig.allocate_wanted_in(&pool, &wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
        assert!(at <= KIB);
        rig.reset_pool(&pool).unwrap();
        assert_eq!(rig.reports().pool_statistics(&pool).unwrap().allocations, 0);
    }
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_resource_in_a_pool_whose_creation_fails_leaves_nothing_behind() {
    let (demanding, _) = demanding();
    for desc in [BufferDesc::new(KIB), demanding] {
        for k in 1..6 {
            let rig = Rig::new(DISCRETE);
            let mut pool = PoolDesc::new([MemoryTypeIndex(1)]);
            pool.max_blocks = 1;
            let pool = rig.create_pool(pool).unwrap();
            rig.device.fail_call(k, DeviceError::OutOfDeviceMemory);
            let made = rig.create_buffer(&desc, &wanted(1, MemoryUsage::Upload).with_pool(&pool));
            rig.device.clear_faults();
            rig.check_invariants();
            if let Ok(buffer) = made {
                rig.destroy_buffer(buffer).unwrap();
            }
            // The pool has room for one block still.
            let again = rig.create_buffer(&desc, &wanted(1, MemoryUsage::Upload).with_pool(&pool)).unwrap();
            rig.destroy_buffer(again).unwrap();
            rig.destroy_pool(pool).unwrap();
        }
    }
}

/// Returns the last priority that the device got for the memory of an allocation.
fn priority_of(rig: &Rig, allocation: &Allocation) -> Priority {
    rig.device.priority_of(rig.location(allocation).unwrap().memory).unwrap()
}

fn of_priority(size: u64, priority: Priority) -> Wanted {
    let mut desc = wanted_in(size, DEVICE_TYPE);
    desc.priority = priority;
    desc
}

fn with_priorities(priorities: PrioritySupport) -> Rig {
    let mut machine = profile(DISCRETE);
    machine.priorities = priorities;
    Rig::with(machine, |desc| desc.threads = 1)
}

#[test]
fn memory_that_is_used_again_has_the_priority_of_whom_it_is_used_for() {
    let rig = with_priorities(PrioritySupport::AnyTime);
    let low = Priority::new(0.1);
    let mut memory = None;
    for priority in [low, Priority::HIGH, Priority::HIGH, Priority::NORMAL, low] {
        let first = rig.allocate_wanted(&of_priority(300 * MIB, priority)).unwrap();
        assert!(rig.is_dedicated(&first));
        assert_eq!(priority_of(&rig, &first), priority);
        let now = rig.memory_of(&first);
        assert_eq!(*memory.get_or_insert(now), now, "it is used again");
        rig.free(first).unwrap();
    }
    assert_eq!(rig.reports().device_calls().allocate, 1);
}

#[test]
fn memory_whose_priority_cannot_change_is_used_again_only_for_the_same() {
    let rig = with_priorities(PrioritySupport::WhenAllocated);
    let low = Priority::new(0.1);
    let both = || {
        let made = [low, Priority::HIGH].map(|priority| {
            let allocation = rig.allocate_wanted(&of_priority(300 * MIB, priority)).unwrap();
            assert_eq!(priority_of(&rig, &allocation), priority);
            allocation
        });
        let memory = [0, 1].map(|i| rig.memory_of(&made[i]));
        // The other one is the last that was freed.
        rig.free_all(made);
        memory
    };
    assert_eq!(both(), both());
    assert_eq!(rig.reports().device_calls().allocate, 2);
    // No request needs more than one of them: memory of another priority is freed before more is allocated.
    let normal = rig.allocate_wanted(&of_priority(300 * MIB, Priority::NORMAL)).unwrap();
    assert_eq!(priority_of(&rig, &normal), Priority::NORMAL);
    assert!(rig.objects() <= 3);
    rig.free(normal).unwrap();
}

#[test]
fn memory_is_used_again_for_any_priority_where_the_device_takes_none() {
    let rig = with_priorities(PrioritySupport::Ignored);
    for priority in [Priority::new(0.1), Priority::HIGH] {
        let first = rig.allocate_wanted(&of_priority(300 * MIB, priority)).unwrap();
        assert_eq!(priority_of(&rig, &first), Priority::NORMAL);
        rig.free(first).unwrap();
    }
    assert_eq!(rig.reports().device_calls().allocate, 1);
}

#[test]
fn dedicated_memory_that_is_shared_later_has_the_priority_of_shared_blocks() {
    for priorities in [PrioritySupport::AnyTime, PrioritySupport::WhenAllocated] {
        let rig = with_priorities(priorities);
        let large = rig
            .allocate_wanted(&of_priority(6 * MIB, Priority::HIGH).with_dedicated(Dedicated::Automatic))
            .unwrap();
        assert!(rig.is_dedicated(&large));
        assert_eq!(priority_of(&rig, &large), Priority::HIGH);
        let memory = rig.memory_of(&large);
        rig.free(large).unwrap();
        let small = rig.allocate_wanted(&of_priority(KIB, Priority::HIGH)).unwrap();
        assert!(!rig.is_dedicated(&small));
        assert_eq!(rig.memory_of(&small) == memory, priorities == PrioritySupport::AnyTime);
        assert_eq!(priority_of(&rig, &small), Priority::NORMAL, "{priorities:?}");
        rig.free(small).unwrap();
    }
}

#[test]
fn memory_that_another_shard_lends_has_the_priority_of_whom_it_is_used_for() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.threads = 4);
    let low = Priority::new(0.1);
    let first = rig.allocate_wanted(&of_priority(300 * MIB, low)).unwrap();
    rig.free(first).unwrap();
    // Threads that hold a shard's lock make others move on; whichever shard serves it, the priority is right.
    std::thread::scope(|scope| {
        for i in 0..8_u8 {
            let rig = &rig;
            scope.spawn(move || {
                let priority = Priority::new(f32::from(i) / 8.0);
                for _ in 0..50 {
                    let large = rig.allocate_wanted(&of_priority(300 * MIB, priority)).unwrap();
                    assert_eq!(priority_of(rig, &large), priority);
                    rig.free(large).unwrap();
                }
            });
        }
    });
}

/// A device that says of new buffers that they need whole pages.
#[derive(Debug)]
struct InPages;

impl Hook for InPages {
    fn reached(&self, _: Point) {}

    fn rounds_buffers(&self) -> bool {
        true
    }
}

#[test]
fn memory_of_one_buffer_has_the_bytes_that_the_buffer_needs_and_no_more() {
    let inner = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let device = HookedDevice { inner, hook: Arc::new(InPages) };
    let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
    let desc = BufferDesc::new(1000);
    let needed = allocator.device().buffer_requirements(&desc).unwrap().size;
    let size = |options: &AllocationOptions| {
        let buffer = allocator.create_buffer(&desc, options).unwrap();
        let size = allocator.location(buffer.allocation()).unwrap().size;
        allocator.destroy_buffer(buffer).unwrap();
        size
    };
    // Among others it has what it was said to need; the driver allocates what is its own.
    assert_eq!(size(&MemoryUsage::Upload.into()), 4096);
    assert_eq!(size(&AllocationOptions::from(MemoryUsage::Upload).with_dedicated(Dedicated::Always)), needed);
    assert!(needed < 4096);
}
