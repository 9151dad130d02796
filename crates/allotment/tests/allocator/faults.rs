//! A driver that refuses: at every call in turn, for good, for want of room, for want of objects.

use core::error::Error;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferDevice as _, DeviceError, ImageDesc, MemoryDevice, MemoryHeapIndex, MemoryProperties,
    MemoryTypeIndex,
};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::names::ShortName;
use allotment::memory::{
    AccessError, CreatePoolError, Dedicated, ExpectedLifetime, RawBuffer, ResourceError,
};
use allotment::{
    Algorithm, Allocation, AllocationError, MemoryUsage, Pool, PoolDesc, Requirements, ResourceKind,
};

use crate::rig::{
    AllocateWanted as _, COARSE, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, MOBILE, Rig, fixed_pool, profile,
    small_blocks, wanted, wanted_in,
};

/// The objects of the scenario so far. A step that fails leaves it as it was.
struct World {
    rig: Rig,
    allocations: Vec<Allocation>,
    buffers: Vec<RawBuffer<SimulatedGpu>>,
    pools: Vec<Pool>,
}

type Step = fn(&mut World) -> Result<(), Box<dyn Error>>;

/// Every path to the driver once.
const SCENARIO: [(&str, Step); 27] = [
    ("a small buffer", |world| world.allocate(KIB, MemoryUsage::GpuOnly, ResourceKind::Buffer)),
    ("a short-lived one", |world| {
        let desc = wanted(KIB, MemoryUsage::GpuOnly).with_lifetime(ExpectedLifetime::Short);
        world.allocations.push(world.rig.allocate_wanted(&desc)?);
        Ok(())
    }),
    ("an image", |world| world.allocate(100 * KIB, MemoryUsage::GpuOnly, ResourceKind::OptimalImage)),
    ("staging", |world| world.allocate(KIB, MemoryUsage::Upload, ResourceKind::Buffer)),
    ("read back", |world| world.allocate(KIB, MemoryUsage::Readback, ResourceKind::Buffer)),
    ("something large", |world| world.allocate(40 * MIB, MemoryUsage::Readback, ResourceKind::Buffer)),
    ("a dedicated one", |world| {
        let desc = wanted(MIB, MemoryUsage::Upload).with_dedicated(Dedicated::Always);
        world.allocations.push(world.rig.allocate_wanted(&desc)?);
        Ok(())
    }),
    ("a write", |world| Ok(world.rig.write(&world.allocations[4], 100, &[9; 200])?)),
    ("a read", |world| world.expect(4, 100, [9; 200])),
    ("a write to dedicated memory", |world| Ok(world.rig.write(&world.allocations[6], 0, &[8; 65])?)),
    ("a first write to what the GPU uses", |world| world.write_if_visible(0)),
    ("a first write to what else it uses", |world| world.write_if_visible(1)),
    ("a first mapping", |world| {
        if world.is_visible(2) {
            world.rig.map(&world.allocations[2])?;
        }
        Ok(())
    }),
    ("a buffer", |world| world.create_buffer(Dedicated::Automatic)),
    ("a buffer with dedicated memory", |world| world.create_buffer(Dedicated::Always)),
    ("a write to a buffer", |world| Ok(world.rig.write(world.buffers[1].allocation(), 999, &[5])?)),
    ("a buffer over another's memory", |world| {
        let buffer = world.rig.create_aliasing_buffer(&world.allocations[0], 0, &BufferDesc::new(64))?;
        // SAFETY: made just now, and no queue has seen it.
        unsafe { world.rig.device.destroy_buffer(buffer) };
        Ok(())
    }),
    ("a pool with first blocks", |world| {
        let mut desc = fixed_pool(MemoryTypeIndex(1), 64 * KIB);
        (desc.min_blocks, desc.algorithm) = (2, Algorithm::Linear);
        world.pools.push(world.rig.create_pool(desc)?);
        Ok(())
    }),
    ("a growing pool", |world| {
        let mut desc = PoolDesc::new([DEVICE_TYPE, MemoryTypeIndex(1)]);
        desc.sizing = Some(BlockSize::Growing(small_blocks(64 * KIB, 64 * KIB)));
        (desc.algorithm, desc.empty_blocks) = (Algorithm::Buddy, EmptyBlockPolicy::NONE);
        world.pools.push(world.rig.create_pool(desc)?);
        Ok(())
    }),
    ("a first block of a pool", |world| world.allocate_in(0, 60)),
    ("its second block", |world| world.allocate_in(0, 60)),
    ("a third, which it has not begun with", |world| world.allocate_in(0, 60)),
    ("a block of a growing pool", |world| world.allocate_in(1, 10)),
    ("something large in a growing pool", |world| world.allocate_in(1, 100)),
    ("a reset", |world| Ok(world.rig.reset_pool(&world.pools[1])?)),
    ("the end of frames", |world| {
        (0..5).for_each(|_| world.rig.end_frame());
        Ok(())
    }),
    ("a trim", |world| {
        world.rig.trim();
        Ok(())
    }),
];

impl World {
    fn new(profile: Profile) -> Self {
        let rig = Rig::with(profile, |_| {});
        Self { rig, allocations: Vec::new(), buffers: Vec::new(), pools: Vec::new() }
    }

    fn allocate(
        &mut self,
        size: u64,
        memory_usage: MemoryUsage,
        kind: ResourceKind,
    ) -> Result<(), Box<dyn Error>> {
        let needs = self.rig.device.requirements(kind, Requirements::new(size));
        let mut desc = wanted(size, memory_usage).with_kind(kind);
        desc.requirements = needs;
        self.allocations.push(self.rig.allocate_wanted(&desc)?);
        Ok(())
    }

    fn expect<const N: usize>(&self, at: usize, from: u64, bytes: [u8; N]) -> Result<(), Box<dyn Error>> {
        let mut read = [0; N];
        self.rig.read(&self.allocations[at], from, &mut read)?;
        assert_eq!(read, bytes);
        Ok(())
    }

    fn is_visible(&self, at: usize) -> bool {
        let memory_type = self.rig.type_of(&self.allocations[at]);
        let found = MemoryDevice::properties(&self.rig.device).memory_type(memory_type).unwrap();
        found.properties.contains(MemoryProperties::HOST_VISIBLE)
    }

    fn write_if_visible(&self, at: usize) -> Result<(), Box<dyn Error>> {
        if self.is_visible(at) {
            self.rig.write(&self.allocations[at], 0, &[7; 100])?;
        }
        Ok(())
    }

    fn create_buffer(&mut self, dedicated: Dedicated) -> Result<(), Box<dyn Error>> {
        let desc = wanted(1, MemoryUsage::Readback).with_dedicated(dedicated);
        self.buffers.push(self.rig.create_buffer(&BufferDesc::new(1000), &desc)?);
        Ok(())
    }

    fn allocate_in(&mut self, pool: usize, kib: u64) -> Result<(), Box<dyn Error>> {
        let desc = wanted(kib * KIB, MemoryUsage::GpuOnly);
        self.allocations.push(self.rig.allocate_wanted_in(&self.pools[pool], &desc)?);
        Ok(())
    }

    fn finish(self) {
        let Self { rig, allocations, buffers, pools } = self;
        rig.free_all(allocations);
        buffers.into_iter().for_each(|buffer| rig.destroy_buffer(buffer).unwrap());
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

/// Returns the driver's error, the last of the chain of causes.
fn cause(error: &(dyn Error + 'static)) -> Option<DeviceError> {
    let chain = core::iter::successors(Some(error), |&error| error.source());
    chain.filter_map(|error| error.downcast_ref().copied()).last()
}

/// Runs the scenario while calls fail as `break_device` says. A step that fails does so with the driver's
/// reason and changes nothing but blocks that were empty, and works once the driver is well again.
fn run_scenario(profile: Profile, error: DeviceError, break_device: impl Fn(&SimulatedGpu)) -> u64 {
    let mut world = World::new(profile);
    break_device(&world.rig.device);
    for (name, step) in SCENARIO {
        let (before, objects) = (world.rig.statistics(), world.rig.objects());
        if let Err(refusal) = step(&mut world) {
            // Whatever a driver lacks to map memory, more memory would not help.
            let of_mapping =
                error.is_out_of_memory() && cause(refusal.as_ref()) == Some(DeviceError::MapFailed);
            assert!(of_mapping || cause(refusal.as_ref()) == Some(error), "{name}: {refusal}");
            world.rig.check_invariants();
            let after = world.rig.statistics();
            assert_eq!(after.allocations, before.allocations, "{name}");
            assert_eq!(after.allocation_bytes, before.allocation_bytes, "{name}");
            assert!(world.rig.objects() <= objects, "{name} has left memory behind");
            world.rig.device.clear_faults();
            step(&mut world).unwrap_or_else(|error| panic!("{name} still fails: {error}"));
        }
        world.rig.check_invariants();
    }
    let calls = world.rig.device.fallible_calls();
    world.finish();
    calls
}

const ERRORS: [DeviceError; 4] =
    [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::MapFailed, DeviceError::Lost];

#[test]
fn whichever_call_fails_and_however_nothing_leaks_and_the_next_try_works() {
    for name in [DISCRETE, MOBILE, COARSE, "integrated"] {
        for error in ERRORS {
            let calls = run_scenario(profile(name), error, |_| {});
            assert!(calls >= 20, "the scenario makes {calls} calls that can fail");
            for k in 1..=calls {
                run_scenario(profile(name), error, |device| device.fail_call(k, error));
                run_scenario(profile(name), error, |device| device.fail_from(k, error));
            }
        }
    }
}

#[test]
fn a_lost_device_is_said_to_be_lost_and_everything_is_still_given_back() {
    let rig = Rig::new(MOBILE);
    let readback = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Readback)).unwrap();
    let buffer = rig.create_buffer(&BufferDesc::new(KIB), &wanted(1, MemoryUsage::Upload)).unwrap();
    rig.device.lose_device();
    let large = wanted(64 * MIB, MemoryUsage::Upload);
    assert_eq!(
        rig.allocate_wanted(&large).unwrap_err(),
        AllocationError::Device { source: DeviceError::Lost, name: ShortName::NONE }
    );
    assert_eq!(
        rig.write(&readback, 0, &[1]),
        Err(AccessError::Device { source: DeviceError::Lost, name: ShortName::NONE })
    );
    assert_eq!(
        rig.read(&readback, 0, &mut [1]),
        Err(AccessError::Device { source: DeviceError::Lost, name: ShortName::NONE })
    );
    let made = rig.create_buffer(&BufferDesc::new(KIB), &wanted(1, MemoryUsage::Upload));
    assert_eq!(made.unwrap_err(), ResourceError::Device { source: DeviceError::Lost, name: ShortName::NONE });
    rig.destroy_buffer(buffer).unwrap();
    rig.free(readback).unwrap();
}

#[test]
fn a_full_heap_sends_requests_to_the_next_memory_type() {
    let mut small = profile("discrete-small-bar");
    small.heaps[2].size = 10 * MIB;
    let rig = Rig::with(small, |_| {});
    let desc = wanted(4 * MIB, MemoryUsage::DeviceUpload).with_dedicated(Dedicated::Always);
    let got: Vec<_> = (0..3).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    let types: Vec<u8> = got.iter().map(|allocation| rig.type_of(allocation).0).collect();
    assert_eq!(types, [3, 3, 0], "the window, then device memory that is staged to");
    assert!(rig.location(&got[2]).unwrap().mapped_ptr.is_none(), "the caller sees that he has to stage");
    rig.free_all(got);
}

#[test]
fn a_heap_without_room_for_the_next_block_gives_a_smaller_one() {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 10 * MIB;
    let rig = Rig::with(small, |desc| desc.block_sizes = small_blocks(8 * MIB, 8 * MIB));
    // An eighth of the heap is less than the block size, so blocks are 1 MiB.
    let first = rig.allocate_wanted(&wanted_in(64 * KIB, DEVICE_TYPE)).unwrap();
    assert_eq!(rig.block_size_of(&first), MIB);
    let most = rig.allocate_wanted(&wanted_in(8 * MIB + 600 * KIB, DEVICE_TYPE)).unwrap();
    let second = rig.allocate_wanted(&wanted_in(1000 * KIB, DEVICE_TYPE).with_dedicated(Dedicated::Never));
    assert!(matches!(second, Err(AllocationError::OutOfMemory { .. })));
    let fill =
        rig.allocate_wanted(&wanted_in(960 * KIB, DEVICE_TYPE).with_dedicated(Dedicated::Never)).unwrap();
    let halved = rig.allocate_wanted(&wanted_in(200 * KIB, DEVICE_TYPE)).unwrap();
    assert_eq!(rig.block_size_of(&fill), MIB, "it fits behind the first");
    assert_eq!(rig.block_size_of(&halved), 256 * KIB, "there are 424 KiB left");
    rig.free_all([first, most, fill, halved]);
}

#[test]
fn a_device_that_gives_no_large_memory_objects_gives_smaller_blocks() {
    let mut small = profile(DISCRETE);
    small.limits.max_allocation_size = MIB;
    let rig = Rig::with(small, |desc| desc.block_sizes = small_blocks(4 * MIB, 4 * MIB));
    let desc = wanted_in(64 * KIB, DEVICE_TYPE);
    assert!(rig.preview_wanted(&desc).is_ok());
    let allocation = rig.allocate_wanted(&desc).unwrap();
    assert_eq!(rig.block_size_of(&allocation), MIB);
    rig.free(allocation).unwrap();
    let too_large = rig.allocate_wanted(&wanted_in(2 * MIB, DEVICE_TYPE)).unwrap_err();
    assert_eq!(too_large, AllocationError::TooLarge { size: 2 * MIB, limit: MIB, name: ShortName::NONE });
}

/// An allocator on a heap of 32 MiB, 24 of which are in a block that is empty and kept.
fn rig_that_keeps_24_of_32_mib() -> Rig {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 32 * MIB;
    let rig = Rig::with(small, |_| {});
    let idle = rig.allocate_wanted(&wanted_in(24 * MIB, DEVICE_TYPE)).unwrap();
    rig.free(idle).unwrap();
    assert_eq!((rig.objects(), rig.taken(HEAP)), (1, 24 * MIB));
    rig
}

#[test]
fn empty_blocks_are_given_back_to_a_full_heap_and_the_request_is_served() {
    let rig = rig_that_keeps_24_of_32_mib();
    let image = wanted_in(16 * MIB, DEVICE_TYPE)
        .with_kind(ResourceKind::OptimalImage)
        .with_lifetime(ExpectedLifetime::Short);
    let allocation = rig.allocate_wanted(&image).unwrap();
    assert_eq!(rig.taken(HEAP), 16 * MIB);
    rig.free(allocation).unwrap();
}

#[test]
fn empty_blocks_are_given_back_for_dedicated_memory_and_dedicated_buffers_too() {
    let rig = rig_that_keeps_24_of_32_mib();
    let desc = wanted_in(16 * MIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
    let allocation = rig.allocate_wanted(&desc).unwrap();
    rig.free(allocation).unwrap();

    let rig = rig_that_keeps_24_of_32_mib();
    let mut desc = wanted(1, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    desc.required = MemoryProperties::DEVICE_LOCAL;
    let buffer = rig.create_buffer(&BufferDesc::new(16 * MIB), &desc).unwrap();
    assert_eq!(rig.taken(HEAP), 16 * MIB);
    rig.destroy_buffer(buffer).unwrap();
}

#[test]
fn empty_blocks_of_another_heap_are_left_alone() {
    let rig = rig_that_keeps_24_of_32_mib();
    let idle = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    rig.free(idle).unwrap();
    let held = rig.taken(MemoryHeapIndex(1));
    let allocation =
        rig.allocate_wanted(&wanted_in(20 * MIB, DEVICE_TYPE).with_dedicated(Dedicated::Always)).unwrap();
    assert_eq!((rig.taken(HEAP), rig.taken(MemoryHeapIndex(1))), (20 * MIB, held));
    rig.free(allocation).unwrap();
}

fn rig_with_few_objects(count: u32) -> Rig {
    let mut few = profile(DISCRETE);
    few.limits.max_allocation_count = count;
    Rig::with(few, |_| {})
}

#[test]
fn at_the_limit_of_memory_objects_requests_are_refused_with_the_limit() {
    let rig = rig_with_few_objects(5);
    let desc = wanted(MIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let mut got: Vec<_> = (0..5).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    let limit = AllocationError::TooManyAllocations { limit: 5, name: ShortName::NONE };
    assert_eq!(rig.allocate_wanted(&desc).unwrap_err(), limit);
    assert_eq!(rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap_err(), limit);
    assert_eq!(rig.preview_wanted(&desc).unwrap_err(), limit);
    let made = rig.create_buffer(&BufferDesc::new(KIB), &desc);
    assert_eq!(made.unwrap_err(), ResourceError::Allocation(limit));
    let mut pool = fixed_pool(DEVICE_TYPE, MIB);
    pool.min_blocks = 1;
    assert_eq!(rig.create_pool(pool).unwrap_err(), CreatePoolError::FirstBlocks(limit));
    rig.check_invariants();
    rig.free(got.pop().unwrap()).unwrap();
    got.push(rig.allocate_wanted(&desc).expect("one was freed"));
    rig.free_all(got);
}

#[test]
fn at_the_limit_of_memory_objects_empty_blocks_are_given_back() {
    let rig = rig_with_few_objects(4);
    // One kept block each: long and short, in two heaps.
    let memory_usages = [MemoryUsage::GpuOnly, MemoryUsage::Upload];
    let wishes = memory_usages.map(|memory_usage| {
        [ExpectedLifetime::Long, ExpectedLifetime::Short].map(|l| wanted(KIB, memory_usage).with_lifetime(l))
    });
    let idle: Vec<_> = wishes.iter().flatten().map(|desc| rig.allocate_wanted(desc).unwrap()).collect();
    rig.free_all(idle);
    assert_eq!(rig.objects(), 4);
    let dedicated = wanted(KIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let first = rig.allocate_wanted(&dedicated).expect("kept blocks make room");
    let buffer = rig.create_buffer(&BufferDesc::new(KIB), &dedicated).expect("kept blocks make room");
    rig.destroy_buffer(buffer).unwrap();
    rig.free(first).unwrap();
}

#[test]
fn where_memory_objects_are_scarce_large_resources_share_blocks() {
    let rig = rig_with_few_objects(8);
    let dedicated = wanted(KIB, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let mut got: Vec<_> = (0..7).map(|_| rig.allocate_wanted(&dedicated).unwrap()).collect();
    let large = wanted(100 * MIB, MemoryUsage::GpuOnly);
    got.extend((0..2).map(|_| rig.allocate_wanted(&large).unwrap()));
    assert_eq!(rig.objects(), 8);
    assert_eq!(rig.memory_of(&got[7]), rig.memory_of(&got[8]));
    rig.free_all(got);
}

#[test]
fn memory_that_cannot_be_mapped_is_given_back() {
    let rig = Rig::new(DISCRETE);
    rig.device.set_address_space(0);
    let refused = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap_err();
    assert_eq!(refused, AllocationError::Device { source: DeviceError::MapFailed, name: ShortName::NONE });
    assert_eq!((rig.objects(), rig.reports().memory_heaps()[1].reserved), (0, 0));
    rig.device.set_address_space(u64::MAX);
    rig.free(rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap()).unwrap();
}

#[test]
fn a_thousand_cycles_of_making_and_destroying_leak_nothing_whichever_call_fails() {
    let errors = [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::MapFailed];
    let rig = Rig::with(profile(DISCRETE), |desc| desc.empty_blocks = EmptyBlockPolicy::NONE);
    // One cycle without a failure says how many calls there are to fail.
    let before = rig.device.fallible_calls();
    assert_eq!(cycle(&rig), 8, "all of them can be made");
    let calls = rig.device.fallible_calls() - before;
    let (mut failed, mut made) = (0, 0);
    for number in 0..1000 {
        rig.device.fail_call(1 + number % calls, errors[number as usize % errors.len()]);
        let done = cycle(&rig);
        (made, failed) = (made + done, failed + u64::from(done < 8));
        rig.device.clear_faults();
        rig.check_invariants();
        assert_eq!(rig.statistics().allocations, 0, "cycle {number}");
        let usage = rig.device.usage();
        assert_eq!((usage.buffers, usage.images, usage.memory_objects), (0, 0, 0), "cycle {number}");
    }
    assert!(failed > 300 && made > 4000, "{failed} of 1000 failed, {made} of 8000 were made");
}

/// Makes and destroys buffers and images in blocks and in dedicated memory, for the device and for the
/// CPU. Returns how many were made.
fn cycle(rig: &Rig) -> u64 {
    let mut buffers = Vec::new();
    let mut images = Vec::new();
    for dedicated in [Dedicated::Automatic, Dedicated::Always] {
        for memory_usage in [MemoryUsage::GpuOnly, MemoryUsage::Upload] {
            let desc = wanted(1, memory_usage).with_dedicated(dedicated);
            buffers.extend(rig.create_buffer(&BufferDesc::new(10_000), &desc));
        }
        for size in [64, 512] {
            let desc = wanted(1, MemoryUsage::GpuOnly).with_dedicated(dedicated);
            images.extend(rig.create_image(&ImageDesc::new(size, size, 4), &desc));
        }
    }
    let made = buffers.len() + images.len();
    buffers.into_iter().for_each(|buffer| rig.destroy_buffer(buffer).unwrap());
    images.into_iter().for_each(|image| rig.destroy_image(image).unwrap());
    made as u64
}
