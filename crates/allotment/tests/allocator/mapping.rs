//! When memory is mapped, and what becomes of requests where it cannot be.

use std::sync::Barrier;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, DeviceError, ImageDesc, MemoryDevice as _, MemoryProperties, MemoryTypeIndex, QueueIndex,
};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use allotment::memory::{
    AccessError, Dedicated, MappedBuffer, Movability, RawBuffer, Transfer, TransferError,
};
use allotment::{Allocation, AllocationError, MemoryUsage, PoolDesc};

use crate::rig::{AllocateWanted as _, DISCRETE, KIB, MIB, Rig, Wanted, wanted};

/// All of its memory is device-local and host-visible.
const UMA: &str = "integrated";
const SMALL_BAR: &str = "discrete-small-bar";

fn gpu_only(size: u64) -> Wanted {
    wanted(size, MemoryUsage::GpuOnly)
}

fn upload(size: u64) -> Wanted {
    wanted(size, MemoryUsage::Upload)
}

fn requiring(properties: MemoryProperties) -> Wanted {
    let mut desc = gpu_only(KIB);
    desc.required = properties;
    desc
}

fn preferring(properties: MemoryProperties) -> Wanted {
    let mut desc = gpu_only(KIB);
    desc.preferred = properties;
    desc
}

/// Lets the driver map what is mapped now, and nothing else.
fn end_address_space(rig: &Rig) {
    rig.device.set_address_space(rig.device.usage().mapped_bytes);
}

fn is_mapped(rig: &Rig, allocation: &Allocation) -> bool {
    rig.location(allocation).unwrap().mapped_ptr.is_some()
}

/// One request of the GPU's alone for each way to its memory.
fn all_of_the_gpu(rig: &Rig) -> Vec<Allocation> {
    let ways = [
        gpu_only(KIB),
        gpu_only(20 * MIB),
        gpu_only(MIB).with_dedicated(Dedicated::Always),
        gpu_only(MIB).with_movability(Movability::Copied),
        wanted(MIB, MemoryUsage::Transient),
    ];
    let mut all: Vec<_> =
        ways.iter().map(|way| rig.allocate_wanted(way).expect("the CPU never touches it")).collect();
    all.push(
        rig.with_memory_options(&())
            .allocate(&gpu_only(MIB).requirements, &MemoryUsage::GpuOnly.into())
            .unwrap(),
    );
    all
}

#[test]
fn memory_that_only_the_gpu_uses_is_never_mapped() {
    for name in [UMA, "lavapipe", "mobile", DISCRETE] {
        let rig = Rig::new(name);
        let all = all_of_the_gpu(&rig);
        let image = rig.create_image(&ImageDesc::new(2048, 2048, 4), &gpu_only(1)).unwrap();
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        desc.min_blocks = 2;
        let pool = rig.create_pool(desc).unwrap();
        let pooled = rig.allocate_wanted_in(&pool, &gpu_only(KIB)).unwrap();
        let usage = rig.device.usage();
        assert_eq!((usage.map_calls, usage.mapped_bytes), (0, 0), "{name}");
        assert!(all.iter().chain([&pooled, image.allocation()]).all(|one| !is_mapped(&rig, one)));
        rig.free_all(all.into_iter().chain([pooled]));
        rig.destroy_image(image).unwrap();
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_request_that_the_cpu_accesses_has_an_address_and_each_block_is_mapped_once() {
    let rig = Rig::new(UMA);
    let mut got = vec![rig.allocate_wanted(&gpu_only(KIB)).unwrap()];
    let by_cpu = [
        upload(KIB),
        wanted(KIB, MemoryUsage::Readback),
        wanted(KIB, MemoryUsage::DeviceUpload),
        wanted(KIB, MemoryUsage::DeviceMapped),
        requiring(MemoryProperties::HOST_COHERENT),
        preferring(MemoryProperties::HOST_VISIBLE),
    ];
    got.extend(by_cpu.iter().map(|desc| rig.allocate_wanted(desc).unwrap()));
    assert!(got[1..].iter().all(|one| is_mapped(&rig, one)));
    assert!(u64::from(rig.objects()) >= rig.device.usage().map_calls, "no block is mapped twice");
    // The range of the first, which was freed in a block of the GPU's alone, is reused.
    let calls = rig.device.usage().map_calls;
    rig.free(got.remove(0)).unwrap();
    got.push(rig.allocate_wanted(&upload(KIB)).unwrap());
    assert!(is_mapped(&rig, got.last().unwrap()));
    assert_eq!(rig.device.usage().map_calls, calls, "in a block that is mapped by now");
    rig.free_all(got);
}

#[test]
fn a_range_of_the_quick_lists_in_a_block_that_is_not_mapped_serves_the_cpu_once_that_is_mapped() {
    let rig = Rig::new(UMA);
    let both: Vec<_> = (0..2).map(|_| rig.allocate_wanted(&gpu_only(KIB)).unwrap()).collect();
    let [first, second] = <[Allocation; 2]>::try_from(both).unwrap();
    rig.free(first).unwrap();
    let got = rig.allocate_wanted(&upload(KIB)).unwrap();
    assert!(is_mapped(&rig, &got) && is_mapped(&rig, &second), "the block is mapped");
    assert_eq!((rig.objects(), rig.device.usage().map_calls), (1, 1));
    rig.free(got).unwrap();
    rig.device.set_address_space(0);
    rig.free(second).unwrap();
    rig.trim();
    let second = rig.allocate_wanted(&gpu_only(KIB)).unwrap();
    rig.free(rig.allocate_wanted(&gpu_only(KIB)).unwrap()).unwrap();
    let refused = rig.allocate_wanted(&upload(KIB)).unwrap_err();
    assert!(matches!(refused, AllocationError::Device { source: DeviceError::MapFailed, .. }), "{refused}");
    rig.free(second).unwrap();
}

#[test]
fn memory_that_cannot_be_mapped_serves_what_only_the_gpu_uses() {
    for name in [UMA, "lavapipe", "mobile"] {
        let rig = Rig::new(name);
        rig.device.set_address_space(0);
        // A request that needs an address is refused in vain, before and after.
        for _ in 0..2 {
            let refused = rig.allocate_wanted(&upload(KIB)).unwrap_err();
            assert!(
                matches!(refused, AllocationError::Device { source: DeviceError::MapFailed, .. }),
                "{refused}"
            );
            rig.free_all(all_of_the_gpu(&rig));
        }
        let calls = rig.device.usage().map_calls;
        let all = all_of_the_gpu(&rig);
        assert_eq!(rig.device.usage().map_calls, calls);
        let error = rig.write(&all[0], 0, &[1]).unwrap_err();
        assert!(matches!(error, AccessError::Device { source: DeviceError::MapFailed, .. }), "{error}");
        // Later.
        rig.device.set_address_space(u64::MAX);
        all.iter().take(2).for_each(|one| rig.write(one, 0, &[7; 100]).unwrap());
        rig.free_all(all);
    }
}

#[test]
fn what_the_cpu_writes_goes_to_the_next_memory_type_where_the_best_cannot_be_mapped() {
    for (usage, next) in [(MemoryUsage::DeviceMapped, 1), (MemoryUsage::DeviceUpload, 0)] {
        for size in [KIB, 20 * MIB] {
            let rig = Rig::new(SMALL_BAR);
            rig.device.fail_call(2, DeviceError::MapFailed);
            let got: Vec<_> = (0..3).map(|_| rig.allocate_wanted(&wanted(size, usage)).unwrap()).collect();
            let calls = rig.device.usage().map_calls;
            for one in &got {
                assert_eq!(rig.type_of(one), MemoryTypeIndex(next), "{usage}");
            }
            // The driver is asked once for the type that it could not map.
            let mapped = if next == 0 { 0 } else { u64::from(rig.objects()) };
            assert_eq!(calls, 1 + mapped, "{usage}");
            rig.free_all(got);
        }
    }
}

#[test]
fn what_may_be_staged_is_served_where_nothing_can_be_mapped() {
    for name in [UMA, "lavapipe", SMALL_BAR] {
        let rig = Rig::new(name);
        rig.device.set_address_space(0);
        let preferred = preferring(MemoryProperties::HOST_VISIBLE);
        for desc in
            [wanted(KIB, MemoryUsage::DeviceUpload), wanted(20 * MIB, MemoryUsage::DeviceUpload), preferred]
        {
            let got = rig.allocate_wanted(&desc).expect("its caller stages");
            assert!(!is_mapped(&rig, &got));
            rig.free(got).unwrap();
        }
        let refused = rig.allocate_wanted(&wanted(KIB, MemoryUsage::DeviceMapped)).unwrap_err();
        assert!(
            matches!(refused, AllocationError::Device { source: DeviceError::MapFailed, .. }),
            "{refused}"
        );
    }
}

/// Calls `transfer` with a buffer in memory of a type that queues use in one direction alone, and that cannot be mapped.
fn transfer_of_unmappable(
    one_way: MemoryProperties,
    transfer: impl Fn(&mut Transfer<'_, SimulatedGpu>, &RawBuffer<SimulatedGpu>) -> Result<(), TransferError>,
) {
    for profile in ["d3d12-tier-1", "d3d12-tier-2", "d3d12-uma"] {
        for by_queue in [false, true] {
            let rig = Rig::new(profile);
            let new = Transfer::new(&rig, QueueIndex(0), 4 * KIB).unwrap();
            let mut new = if by_queue { new.through_the_queue() } else { new };
            // Of the GPU's alone, so nothing maps it.
            let desc = requiring(one_way).with_dedicated(Dedicated::Always);
            let buffer = rig.create_buffer(&BufferDesc::new(KIB), &desc).unwrap();
            end_address_space(&rig);
            let refused = transfer(&mut new, &buffer).unwrap_err();
            assert!(
                matches!(
                    refused,
                    TransferError::Access(AccessError::Device { source: DeviceError::MapFailed, .. })
                ),
                "{profile}: {refused}"
            );
            drop(new);
            rig.destroy_buffer(buffer).unwrap();
        }
    }
}

#[test]
fn memory_that_queues_only_read_is_never_written_by_one_also_where_it_cannot_be_mapped() {
    transfer_of_unmappable(MemoryProperties::DEVICE_READ_ONLY, |transfer, buffer| {
        transfer.upload_to(buffer, 0, &[7; 100])
    });
    transfer_of_unmappable(MemoryProperties::DEVICE_READ_ONLY, |transfer, buffer| {
        transfer.upload(buffer.allocation(), 0, &[7; 100])
    });
}

#[test]
fn memory_that_queues_only_write_is_never_read_by_one_also_where_it_cannot_be_mapped() {
    transfer_of_unmappable(MemoryProperties::DEVICE_WRITE_ONLY, |transfer, buffer| {
        transfer.download_from(buffer, 0, &mut [0; 100])
    });
    transfer_of_unmappable(MemoryProperties::DEVICE_WRITE_ONLY, |transfer, buffer| {
        transfer.download(buffer.allocation(), 0, &mut [0; 100])
    });
}

#[test]
fn where_nothing_more_can_be_mapped_the_cpu_gets_the_room_of_mapped_blocks_and_the_gpu_that_of_others() {
    let rig = Rig::new(UMA);
    let mut got = vec![rig.allocate_wanted(&upload(KIB)).unwrap()];
    let first = rig.memory_of(&got[0]);
    // Fuller blocks, which are searched before the first.
    let others: Vec<_> =
        (0..8).map(|_| rig.allocate_wanted(&gpu_only(3 * MIB + 512 * KIB)).unwrap()).collect();
    end_address_space(&rig);
    let calls = rig.device.usage().map_calls;
    for _ in 0..40 {
        got.push(rig.allocate_wanted(&upload(8 * KIB)).unwrap());
        assert_eq!(rig.memory_of(got.last().unwrap()), first);
    }
    assert_eq!(rig.device.usage().map_calls, calls);
    // Until it is full. Each refused request asks the driver for the least that would serve it, and no more.
    while let Ok(more) = rig.allocate_wanted(&upload(8 * KIB)) {
        got.push(more);
    }
    let calls = rig.device.usage().map_calls;
    for _ in 0..10 {
        rig.allocate_wanted(&upload(8 * KIB)).unwrap_err();
    }
    // Of each memory type one block that is not mapped, and a new one.
    let types = rig.device.properties().memory_types.len() as u64;
    let asked = rig.device.usage().map_calls - calls;
    assert!(asked <= 10 * 2 * types, "{asked} calls");
    let more: Vec<_> = (0..100).map(|_| rig.allocate_wanted(&gpu_only(KIB)).unwrap()).collect();
    rig.free_all(got.into_iter().chain(others).chain(more));
}

#[test]
fn an_idle_block_that_is_mapped_makes_room_for_another() {
    let rig = Rig::new(UMA);
    rig.free(rig.allocate_wanted(&upload(20 * MIB)).unwrap()).unwrap();
    end_address_space(&rig);
    let other = rig.allocate_wanted(&upload(12 * MIB)).unwrap();
    assert!(is_mapped(&rig, &other));
    rig.free(other).unwrap();
}

#[test]
fn threads_that_access_a_block_for_the_first_time_map_it_once() {
    for _ in 0..50 {
        let rig = Rig::new(UMA);
        let got: Vec<_> = (0..4).map(|_| rig.allocate_wanted(&gpu_only(KIB)).unwrap()).collect();
        let start = Barrier::new(got.len());
        std::thread::scope(|scope| {
            for one in &got {
                let (rig, start) = (&rig, &start);
                scope.spawn(move || {
                    start.wait();
                    rig.write(one, 0, &[7; 100]).unwrap();
                });
            }
        });
        assert_eq!((rig.objects(), rig.device.usage().map_calls), (1, 1));
        rig.free_all(got);
    }
}

#[test]
fn a_mapped_buffer_maps_whatever_it_is_given() {
    let device = SimulatedGpu::new(crate::rig::profile(UMA));
    let allocator = std::sync::Arc::new(
        allotment::Allocator::new(device.clone(), allotment::AllocatorDesc::default()).unwrap(),
    );
    let lights = MappedBuffer::new(&allocator, &BufferDesc::new(1024), &MemoryUsage::GpuOnly.into()).unwrap();
    lights.write(0, &[7; 1024]).unwrap();
    device.set_address_space(0);
    let refused = MappedBuffer::new(&allocator, &BufferDesc::new(20 << 20), &MemoryUsage::GpuOnly.into());
    assert!(refused.is_err());
    assert_eq!(allocator.statistics().allocations, 1);
}

/// Moves all that can be, with the bytes of what the CPU can reach.
fn move_all(rig: &Rig) -> (u64, u64) {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let mut run = Defragmentation::new(rig, None, desc).unwrap();
    let (mut moved, mut lost) = (0, 0);
    loop {
        match run.next_pass() {
            NextPass::Moves(pass) => {
                for one in pass.moves() {
                    moved += 1;
                    let (from, to) = (one.from().mapped_ptr, one.to().mapped_ptr);
                    lost += u64::from(from.is_some() && to.is_none());
                    if let (Some(from), Some(to)) = (from, to) {
                        // SAFETY: both places are mapped and reserved as long as the pass is open.
                        unsafe { to.copy_from_nonoverlapping(from, one.size() as usize) };
                    }
                }
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => return (moved, lost),
        }
    }
}

#[test]
fn an_allocation_that_has_an_address_has_one_after_a_move() {
    for space in [u64::MAX, 0] {
        let rig = Rig::new(UMA);
        let movable = |desc: Wanted| desc.with_movability(Movability::Copied);
        // Blocks of the GPU's alone with room, and one of the CPU's that a few moves would empty.
        let mut got: Vec<_> =
            (0..12).map(|_| rig.allocate_wanted(&movable(gpu_only(MIB))).unwrap()).collect();
        let written: Vec<_> = (0..2).map(|_| rig.allocate_wanted(&movable(upload(MIB))).unwrap()).collect();
        written.iter().for_each(|one| rig.write(one, 0, &[7; 100]).unwrap());
        for at in [9, 5, 1] {
            rig.free(got.remove(at)).unwrap();
        }
        if space == 0 {
            end_address_space(&rig);
        }
        let (moved, lost) = move_all(&rig);
        assert_eq!(lost, 0);
        assert!(moved > 0 || space == 0, "the GPU's blocks are mapped for what moves into them");
        for one in &written {
            assert!(is_mapped(&rig, one));
            let mut bytes = [0; 100];
            rig.read(one, 0, &mut bytes).unwrap();
            assert_eq!(bytes, [7; 100]);
        }
        rig.check_invariants();
        rig.free_all(got.into_iter().chain(written));
    }
}
