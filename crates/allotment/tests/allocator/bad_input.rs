//! Bad input is refused with a value that says why, and changes nothing.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DedicatedNeed, DescriptionError, DeviceError, MemoryHeapIndex, MemoryTypeIndex,
    MemoryTypeMask,
};
use allotment::memory::StackSide;
use allotment::memory::blocks::{BlockSize, BlockSizes};
use allotment::memory::names::ShortName;
use allotment::memory::{
    AccessError, CreateAllocatorError, CreatePoolError, Dedicated, DestroyPoolError, ResourceError,
    WrongAllocator,
};
use allotment::{
    Algorithm, Alignment, AllocationError, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, ResourceKind,
};

use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, MOBILE, Rig, fixed_pool, profile,
    small_blocks, wanted, wanted_in,
};

const MAX: u64 = 1 << 48;

#[test]
fn a_size_of_zero_is_refused_everywhere() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(PoolDesc::new([DEVICE_TYPE])).unwrap();
    let zero = wanted(0, MemoryUsage::GpuOnly);
    assert_eq!(rig.allocate_wanted(&zero).unwrap_err(), AllocationError::ZeroSize { name: ShortName::NONE });
    assert_eq!(
        rig.allocate_wanted_in(&pool, &zero).unwrap_err(),
        AllocationError::ZeroSize { name: ShortName::NONE }
    );
    assert_eq!(rig.preview_wanted(&zero).unwrap_err(), AllocationError::ZeroSize { name: ShortName::NONE });
    let made = rig.create_buffer(&BufferDesc::new(0), &zero).unwrap_err();
    assert_eq!(
        made,
        ResourceError::Device {
            source: DeviceError::InvalidDescription(DescriptionError::ZeroSize),
            name: ShortName::NONE
        }
    );
    rig.destroy_pool(pool).unwrap();
}

/// Whatever is added to such sizes, rounded up or doubled on the way must not overflow.
#[test]
fn sizes_near_the_limits_are_refused_on_every_path_and_overflow_nowhere() {
    let sizes = [MAX - 1, MAX, MAX + 1, 1 << 47, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];
    for (name, algorithm) in [DISCRETE, MOBILE, COARSE].into_iter().zip(Algorithm::ALL) {
        let rig = Rig::with(profile(name), |desc| desc.algorithm = algorithm);
        let mut growing = PoolDesc::new([DEVICE_TYPE]);
        growing.algorithm = algorithm;
        let pools = [growing, fixed_pool(DEVICE_TYPE, MIB)].map(|desc| rig.create_pool(desc).unwrap());
        for size in sizes {
            for kind in [ResourceKind::Buffer, ResourceKind::OptimalImage] {
                for wish in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
                    for memory_usage in [MemoryUsage::GpuOnly, MemoryUsage::Readback] {
                        let mut desc = wanted(size, memory_usage).with_kind(kind).with_dedicated(wish);
                        for alignment in [1, 1 << 20, MAX] {
                            desc.requirements.alignment = Alignment::new(alignment).unwrap();
                            let refused = rig.allocate_wanted(&desc).unwrap_err();
                            let too_large = matches!(
                                refused,
                                AllocationError::TooLarge { .. } | AllocationError::TooLargeForBlock { .. }
                            );
                            assert!(too_large, "{size}: {refused}");
                            assert_eq!(rig.preview_wanted(&desc).unwrap_err(), refused);
                            for pool in &pools {
                                assert!(rig.allocate_wanted_in(pool, &desc).is_err());
                            }
                        }
                    }
                }
            }
            let made =
                rig.create_buffer(&BufferDesc::new(size), &wanted(1, MemoryUsage::GpuOnly)).unwrap_err();
            let rule = match made {
                ResourceError::Device { source: DeviceError::InvalidDescription(rule), .. } => rule,
                other => panic!("{other}"),
            };
            assert!(matches!(rule, DescriptionError::AboveLimit { requested, .. } if requested == size));
            let names = ["maxMemoryAllocationSize", "of this library"];
            assert!(names.iter().any(|name| rule.to_string().contains(name)), "{rule}");
        }
        assert_eq!(rig.reports().device_calls().allocate, 0);
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

#[test]
fn the_strictest_alignment_is_met_at_the_start_of_a_block() {
    let rig = Rig::new(DISCRETE);
    let mut desc = wanted(1, MemoryUsage::GpuOnly);
    desc.requirements.alignment = Alignment::new(MAX).unwrap();
    let got = [rig.allocate_wanted(&desc).unwrap(), rig.allocate_wanted(&desc).unwrap()];
    assert!(got.iter().all(|allocation| rig.location(allocation).unwrap().offset == 0));
    rig.free_all(got);
}

#[test]
fn a_resource_that_may_stand_nowhere_is_refused() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(PoolDesc::new([DEVICE_TYPE])).unwrap();
    let mut desc = wanted(KIB, MemoryUsage::GpuOnly);
    for mask in [0, 1 << 31, 0b1_0000] {
        let allowed = MemoryTypeMask(mask);
        desc.requirements.memory_types = allowed;
        let nowhere = AllocationError::NoMemoryType {
            allowed,
            memory_usage: MemoryUsage::GpuOnly,
            name: ShortName::NONE,
        };
        assert_eq!(rig.allocate_wanted(&desc).unwrap_err(), nowhere);
        assert_eq!(
            rig.allocate_wanted_in(&pool, &desc).unwrap_err(),
            AllocationError::NotInPool { allowed, name: ShortName::NONE }
        );
        assert_eq!(rig.preview_wanted(&desc).unwrap_err(), nowhere);
    }
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn an_allocation_of_another_allocator_comes_back_unharmed() {
    let (rig, other) = (Rig::new(DISCRETE), Rig::new(DISCRETE));
    let ours = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    let id = ours.id();
    assert_eq!(other.location(&ours).unwrap_err(), AccessError::WrongAllocator { name: ShortName::NONE });
    assert_eq!(other.reports().info(id).unwrap_err(), AccessError::WrongAllocator { name: ShortName::NONE });
    assert_eq!(other.write(&ours, 0, &[1]), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.read(&ours, 0, &mut [1]), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.map(&ours), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.unmap(&ours), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.flush(&ours, 0..1), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.set_name(&ours, None), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    assert_eq!(other.set_user_data(&ours, 1), Err(AccessError::WrongAllocator { name: ShortName::NONE }));
    let WrongAllocator(ours) = other.free(ours).unwrap_err();
    rig.write(&ours, 0, &[1]).unwrap();
    rig.free(ours).unwrap();
}

#[test]
fn a_buffer_of_another_allocator_comes_back_unharmed() {
    let (rig, other) = (Rig::new(DISCRETE), Rig::new(DISCRETE));
    let buffer = rig.create_buffer(&BufferDesc::new(KIB), &wanted(1, MemoryUsage::Upload)).unwrap();
    let WrongAllocator(buffer) = other.destroy_buffer(buffer).unwrap_err();
    rig.destroy_buffer(buffer).unwrap();
}

#[test]
fn a_pool_of_another_allocator_is_refused_and_comes_back() {
    let (rig, other) = (Rig::new(DISCRETE), Rig::new(DISCRETE));
    let ours = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let theirs = other.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let desc = wanted_in(KIB, DEVICE_TYPE);
    assert_eq!(
        other.allocate_wanted_in(&ours, &desc).unwrap_err(),
        AllocationError::WrongPool { name: ShortName::NONE }
    );
    assert_eq!(other.reset_pool(&ours).unwrap_err(), AllocationError::WrongPool { name: ShortName::NONE });
    assert_eq!(
        other.reports().pool_statistics(&ours).unwrap_err(),
        AllocationError::WrongPool { name: ShortName::NONE }
    );
    let Err(DestroyPoolError::WrongAllocator(ours)) = other.destroy_pool(ours) else {
        panic!("it was destroyed")
    };
    rig.destroy_pool(ours).unwrap();
    other.destroy_pool(theirs).unwrap();
}

#[test]
fn a_pool_that_is_in_use_is_not_destroyed_and_comes_back() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let live = rig.allocate_wanted_in(&pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap();
    let Err(DestroyPoolError::InUse { pool, allocations: 1 }) = rig.destroy_pool(pool) else {
        panic!("it was destroyed")
    };
    rig.free(live).unwrap();
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn ranges_outside_of_an_allocation_are_refused_however_they_overflow() {
    for name in [DISCRETE, MOBILE] {
        let rig = Rig::new(name);
        let allocation = rig.allocate_wanted(&wanted(100, MemoryUsage::Readback)).unwrap();
        let out = |offset, size| {
            Err(AccessError::OutOfRange { offset, size, available: 100, name: ShortName::NONE })
        };
        for offset in [99, 100, 101, 1 << 48, u64::MAX - 1, u64::MAX] {
            assert_eq!(rig.write(&allocation, offset, &[0; 2]), out(offset, 2));
            assert_eq!(rig.read(&allocation, offset, &mut [0; 2]), out(offset, 2));
        }
        assert_eq!(rig.write(&allocation, 0, &[0; 101]), out(0, 101));
        assert_eq!(rig.write(&allocation, 100, &[]), Ok(()), "nothing, right behind the end");
        assert_eq!(rig.write(&allocation, 101, &[]), out(101, 0));
        for range in [0..101, 100..101, 50..u64::MAX, u64::MAX - 1..u64::MAX] {
            let refused = out(range.start, range.end - range.start);
            assert_eq!(rig.flush(&allocation, range.clone()), refused);
            assert_eq!(rig.invalidate(&allocation, range), refused);
        }
        #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake that is made")]
        let reversed = rig.flush(&allocation, 20..10);
        assert!(matches!(reversed, Err(AccessError::OutOfRange { offset: 20, .. })));
        rig.free(allocation).unwrap();
    }
}

fn refused_pool(rig: &Rig, change: impl FnOnce(&mut PoolDesc)) -> CreatePoolError {
    let mut desc = fixed_pool(DEVICE_TYPE, MIB);
    change(&mut desc);
    rig.create_pool(desc).unwrap_err()
}

#[test]
fn pools_that_contradict_themselves_are_refused() {
    let rig = Rig::new(DISCRETE);
    let refused = |change: fn(&mut PoolDesc)| refused_pool(&rig, change);
    let types = |desc: &mut PoolDesc, types: &[u8]| {
        desc.memory_types = types.iter().map(|&index| MemoryTypeIndex(index)).collect();
    };
    let count = |change: &[u8]| refused_pool(&rig, |desc| types(desc, change));
    assert_eq!(count(&[]), CreatePoolError::MemoryTypes { count: 0, name: ShortName::NONE });
    assert_eq!(count(&[0, 1, 2, 3, 0]), CreatePoolError::MemoryTypes { count: 5, name: ShortName::NONE });
    let none =
        |index| CreatePoolError::NoMemoryType { memory_type: MemoryTypeIndex(index), name: ShortName::NONE };
    assert_eq!(count(&[0, 4]), none(4));
    assert_eq!(count(&[255]), none(255));
    assert!(count(&[31]).to_string().contains("no memory type 31"), "{}", count(&[31]));

    let size = |size| refused_pool(&rig, |desc| desc.sizing = Some(BlockSize::Fixed(size)));
    for bytes in [0, (4 << 30) + 1, MAX + 1, u64::MAX] {
        assert_eq!(size(bytes), CreatePoolError::BlockSize { size: bytes, name: ShortName::NONE });
    }
    let growing = |sizes| refused_pool(&rig, |desc| desc.sizing = Some(BlockSize::Growing(sizes)));
    for sizes in bad_block_sizes() {
        assert_eq!(growing(sizes), CreatePoolError::BlockSize { size: sizes.largest, name: ShortName::NONE });
    }
    assert_eq!(
        refused(|desc| desc.max_blocks = 0),
        CreatePoolError::BlockCounts { min: 0, max: 0, name: ShortName::NONE }
    );
    let more_than_most = refused(|desc| (desc.min_blocks, desc.max_blocks) = (3, 2));
    assert_eq!(more_than_most, CreatePoolError::BlockCounts { min: 3, max: 2, name: ShortName::NONE });
    assert_eq!(rig.reports().device_calls().allocate, 0);
}

#[test]
fn a_pool_whose_first_blocks_cannot_be_got_leaves_none_behind() {
    let rig = Rig::new(DISCRETE);
    let refused = refused_pool(&rig, |desc| {
        (desc.sizing, desc.min_blocks) = (Some(BlockSize::Fixed(4 << 30)), 3);
    });
    assert!(matches!(refused, CreatePoolError::FirstBlocks(AllocationError::OutOfMemory { .. })));
    assert_eq!((rig.objects(), rig.reports().memory_heaps()[0].reserved), (0, 0));
    let refused = refused_pool(&rig, |desc| {
        (desc.sizing, desc.min_blocks) = (Some(BlockSize::Fixed(KIB)), u32::MAX);
    });
    let limit = AllocationError::TooManyAllocations { limit: 4096, name: ShortName::NONE };
    assert_eq!(refused, CreatePoolError::FirstBlocks(limit));
    assert_eq!(rig.objects(), 0);
}

#[test]
fn a_pool_of_a_memory_type_that_the_allocator_may_not_use_is_refused() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.memory_types = MemoryTypeMask(0b0110));
    let refused = refused_pool(&rig, |_| {});
    assert_eq!(refused, CreatePoolError::NoMemoryType { memory_type: DEVICE_TYPE, name: ShortName::NONE });
}

fn bad_block_sizes() -> Vec<BlockSizes> {
    let divisors = |growth_divisor, dedicated_threshold_divisor| {
        let mut sizes = small_blocks(MIB, MIB);
        (sizes.growth_divisor, sizes.dedicated_threshold_divisor) =
            (growth_divisor, dedicated_threshold_divisor);
        sizes
    };
    vec![
        small_blocks(0, MIB),
        small_blocks(MIB, 0),
        small_blocks(3 * KIB, MIB),
        small_blocks(KIB, 3 * MIB),
        small_blocks(2 * MIB, MIB),
        small_blocks(MIB, MAX * 2),
        small_blocks(1 << 63, 1 << 63),
        divisors(0, 2),
        divisors(8, 0),
    ]
}

fn refused_allocator(profile: Profile, change: impl FnOnce(&mut AllocatorDesc)) -> CreateAllocatorError {
    let mut desc = AllocatorDesc::default();
    change(&mut desc);
    Allocator::new(SimulatedGpu::new(profile), desc).unwrap_err()
}

#[test]
fn block_sizes_that_contradict_themselves_are_refused() {
    for sizes in bad_block_sizes() {
        let BlockSizes { smallest, largest, .. } = sizes;
        let refused = refused_allocator(profile(DISCRETE), |desc| desc.block_sizes = sizes);
        assert_eq!(refused, CreateAllocatorError::BlockSizes { smallest, largest });
    }
}

#[test]
fn extreme_block_sizes_and_divisors_overflow_nowhere() {
    for (growth, own) in [(1, 1), (1, u64::MAX), (u64::MAX, 1), (u64::MAX, u64::MAX)] {
        for (smallest, largest) in [(1, 1), (1, MAX), (MAX, MAX)] {
            let mut few = profile(DISCRETE);
            few.limits.max_allocation_count = 8;
            let rig = Rig::with(few, |desc| {
                desc.block_sizes = small_blocks(smallest, largest);
                (desc.block_sizes.growth_divisor, desc.block_sizes.dedicated_threshold_divisor) =
                    (growth, own);
            });
            let sizes = [1, 100, KIB, MIB].into_iter().cycle().take(20);
            let got: Vec<_> = sizes
                .filter_map(|size| rig.allocate_wanted(&wanted(size, MemoryUsage::GpuOnly)).ok())
                .collect();
            assert!(got.len() >= 8);
            rig.check_invariants();
            rig.free_all(got);
        }
    }
}

#[test]
fn a_device_that_describes_what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Profile)| {
        let mut odd = profile(DISCRETE);
        change(&mut odd);
        refused_allocator(odd, |_| {})
    };
    let nonsense = CreateAllocatorError::DeviceProperties;
    assert_eq!(refused(|odd| odd.memory_types[1].heap = MemoryHeapIndex(2)), nonsense);
    assert_eq!(refused(|odd| odd.memory_types = vec![odd.memory_types[0]; 33]), nonsense);
    assert_eq!(refused(|odd| odd.heaps = vec![odd.heaps[0]; 17]), nonsense);
}

#[test]
fn a_resource_that_requires_what_the_request_rules_out_is_refused() {
    let rig = Rig::new(DISCRETE);
    let mut desc = wanted(KIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    desc.requirements.dedicated = DedicatedNeed::Required;
    assert_eq!(rig.allocate_wanted(&desc), Err(AllocationError::DedicatedRequired { name: ShortName::NONE }));
    let mut desc = wanted(KIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always).without_new_blocks();
    assert!(matches!(rig.allocate_wanted(&desc), Err(AllocationError::WouldGrow { .. })));
    let made = rig.create_buffer(&BufferDesc::new(KIB), &desc);
    assert!(matches!(made, Err(ResourceError::Allocation(AllocationError::WouldGrow { .. }))), "{made:?}");
    desc.dedicated = Dedicated::Automatic;
    let made = rig.create_buffer(&BufferDesc::new(KIB), &desc);
    assert!(matches!(made, Err(ResourceError::Allocation(AllocationError::WouldGrow { .. }))));
    assert_eq!(rig.reports().device_calls().allocate, 0);
}

#[test]
fn every_refusal_reads_like_the_middle_of_a_sentence() {
    let rig = Rig::new(DISCRETE);
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let dedicated = wanted_in(KIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
    let refusals = [
        rig.allocate_wanted(&wanted(0, MemoryUsage::GpuOnly)).unwrap_err().to_string(),
        rig.allocate_wanted(&wanted(u64::MAX, MemoryUsage::GpuOnly)).unwrap_err().to_string(),
        rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly).without_new_blocks()).unwrap_err().to_string(),
        rig.allocate_wanted_in(&pool, &dedicated).unwrap_err().to_string(),
        rig.create_pool(PoolDesc::new([])).unwrap_err().to_string(),
        refused_allocator(profile(DISCRETE), |desc| desc.block_sizes = small_blocks(3, 3)).to_string(),
    ];
    for text in &refusals {
        let first = text.chars().next().unwrap();
        assert!(!first.is_uppercase() && !text.ends_with('.'), "{text}");
    }
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_dedicated_buffer_on_the_upper_side_is_refused_and_leaves_nothing_behind() {
    let rig = Rig::new(DISCRETE);
    let mut wish = wanted(MIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    wish.side = StackSide::Upper;
    let refused = rig.create_buffer(&BufferDesc::new(MIB), &wish).unwrap_err();
    assert_eq!(refused, ResourceError::Allocation(AllocationError::UpperSide { name: ShortName::NONE }));
    rig.check_invariants();
    assert_eq!(rig.device().usage().memory_objects, 0);
}

#[test]
fn what_may_not_grow_gives_no_empty_block_back_either() {
    let rig = Rig::new(DISCRETE);
    let kept = rig.allocate_wanted(&wanted(MIB, MemoryUsage::GpuOnly)).unwrap();
    rig.free(kept).unwrap();
    let calls = rig.reports().device_calls();
    let wish = wanted(MIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always).without_new_blocks();
    assert!(rig.create_buffer(&BufferDesc::new(MIB), &wish).is_err());
    assert_eq!(rig.reports().device_calls().memory(), calls.memory());
}

#[test]
fn a_refusal_names_what_was_to_be_allocated() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.heap_limits = vec![(HEAP, 16 * MIB)]);
    let pool = rig.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    let name = "terrain/größe 12";
    let named = |size| wanted_in(size, DEVICE_TYPE).with_name(name);
    let limit = rig.allocate_wanted(&named(32 * MIB)).unwrap_err();
    assert!(matches!(limit, AllocationError::HeapLimit { limit, .. } if limit == 16 * MIB));
    let mut nowhere = named(KIB);
    nowhere.requirements.memory_types = MemoryTypeMask(0);
    let refusals = [
        limit,
        rig.allocate_wanted(&nowhere).unwrap_err(),
        rig.allocate_wanted_in(&pool, &nowhere).unwrap_err(),
        rig.allocate_wanted_in(&pool, &named(2 * MIB)).unwrap_err(),
        rig.allocate_wanted(&named(KIB).without_new_blocks()).unwrap_err(),
        rig.preview_wanted(&named(32 * MIB)).unwrap_err(),
        rig.allocate_wanted_many(&named(9 * MIB).with_dedicated(Dedicated::Always), 2).unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.name(), Some(name), "{refusal:?}");
        assert!(refusal.to_string().starts_with("\"terrain/größe 12\": "), "{refusal}");
    }
    let dedicated = named(1).with_dedicated(Dedicated::Always);
    let made = rig.create_buffer(&BufferDesc::new(32 * MIB), &dedicated).unwrap_err();
    assert!(made.to_string().contains(name), "{made}");
    let made = rig.create_buffer(&BufferDesc::new(2 * MIB), &named(1).with_pool(&pool)).unwrap_err();
    assert!(made.to_string().contains(name), "{made}");
    assert_eq!(rig.allocate_wanted(&wanted_in(32 * MIB, DEVICE_TYPE)).unwrap_err().name(), None);
    // What is too long is cut between two characters.
    let long = "ß".repeat(100);
    let refusal = rig.allocate_wanted(&wanted_in(32 * MIB, DEVICE_TYPE).with_name(long.clone())).unwrap_err();
    assert!(refusal.name().is_some_and(|name| name.len() > 40 && long.starts_with(name)), "{refusal}");
    // A device's error within it, a name, and two sizes: clippy calls errors from 128 bytes on large.
    assert!(size_of::<AllocationError>() <= 104, "{}", size_of::<AllocationError>());
    rig.destroy_pool(pool).unwrap();
}
