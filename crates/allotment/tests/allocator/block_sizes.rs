//! Block sizes of single memory types.

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::BlockSizes;
use allotment::memory::{CreateAllocatorError, PoolDesc};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};

use crate::rig::{AllocateWanted as _, DEVICE_TYPE, DISCRETE, MIB, Rig, profile, wanted_in};

/// Memory of the host that the CPU writes.
const STAGING_TYPE: MemoryTypeIndex = MemoryTypeIndex(1);

#[test]
fn a_memory_type_has_block_sizes_of_its_own_where_they_are_given() {
    let of_staging = BlockSizes::fixed(MIB);
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.block_sizes = BlockSizes::fixed(16 * MIB);
        let others = BlockSizes::fixed(2 * MIB);
        desc.block_sizes_of_types = vec![(STAGING_TYPE, of_staging), (STAGING_TYPE, others)];
    });
    for (memory_type, block) in [(DEVICE_TYPE, 16 * MIB), (STAGING_TYPE, MIB)] {
        let allocation = rig.allocate_wanted(&wanted_in(1, memory_type)).unwrap();
        assert_eq!(rig.info(&allocation).unwrap().block_size, block, "type {memory_type}");
        let pool = rig.create_pool(PoolDesc::new([memory_type])).unwrap();
        let in_pool = rig.allocate(&Requirements::new(1), &MemoryUsage::GpuOnly.with_pool(&pool)).unwrap();
        assert_eq!(rig.info(&in_pool).unwrap().block_size, block, "a pool of type {memory_type}");
        rig.free(in_pool).unwrap();
        rig.free(allocation).unwrap();
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn block_sizes_that_no_memory_type_can_have_are_refused() {
    let create = |memory_type, sizes| {
        let mut desc = AllocatorDesc::default();
        desc.block_sizes_of_types = vec![(memory_type, sizes)];
        Allocator::new(SimulatedGpu::new(profile(DISCRETE)), desc).err()
    };
    let no_power_of_two = CreateAllocatorError::BlockSizes { smallest: 3, largest: 3 };
    assert_eq!(create(STAGING_TYPE, BlockSizes::fixed(3)), Some(no_power_of_two));
    let memory_type = MemoryTypeIndex(4);
    let refused = create(memory_type, BlockSizes::fixed(MIB)).unwrap();
    assert_eq!(refused, CreateAllocatorError::NoSuchMemoryType { memory_type });
    assert_eq!(
        refused.to_string(),
        "block sizes are given for memory type 4, which the device does not have"
    );
    assert_eq!(create(STAGING_TYPE, BlockSizes::fixed(MIB)), None);
}
