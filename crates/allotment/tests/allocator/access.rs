//! Reading, writing, mapping and looking at allocations.

use core::time::Duration;

use allotment::device::{
    BufferCopy, BufferDesc, MemoryTypeIndex, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
};
use allotment::memory::names::{Name, ShortName};
use allotment::memory::{AccessError, Dedicated, MemoryLocation, RawBuffer};
use allotment::{Algorithm, MemoryUsage, ResourceKind};

use crate::rig::{AllocateWanted as _, DISCRETE, FINE, KIB, MIB, MOBILE, Rig, aligned, profile, wanted};

/// Phones, whose readback memory is not coherent, by the bytes of an atom: 64, 1, 256, 4096.
const INCOHERENT: [&str; 4] = [MOBILE, "mobile-atom-1", "mobile-atom-256", "mobile-atom-4096"];

type SimulatedGpu = allotment::device::simulated::SimulatedGpu;

/// Copies one buffer to another on a queue and waits for it.
fn copy(rig: &Rig, from: &RawBuffer<SimulatedGpu>, to: &RawBuffer<SimulatedGpu>, size: u64) {
    let queue = QueueIndex(0);
    let copy = BufferCopy { from: from.handle(), from_offset: 0, to: to.handle(), to_offset: 0, size };
    // SAFETY: both buffers live until the wait is over.
    let submitted =
        unsafe { rig.device.submit(queue, &Submission { copies: &[copy], ..Submission::default() }) };
    let point = TimelinePoint { queue, value: submitted.unwrap() };
    assert_eq!(rig.device.wait(point, Duration::from_secs(20)), Ok(()));
}

#[test]
fn what_is_written_is_read_back_in_every_mapped_memory_type_of_every_machine() {
    for profile in allotment::device::simulated::Profile::all() {
        let rig = Rig::new(profile.name);
        for memory_usage in [MemoryUsage::Upload, MemoryUsage::Readback] {
            for choice in rig.explain_wanted(&wanted(1, memory_usage)) {
                let mut desc = wanted(3000, memory_usage);
                desc.requirements.memory_types.0 = 1 << choice.memory_type.0;
                desc.memory_types = desc.requirements.memory_types;
                let Ok(allocation) = rig.allocate_wanted(&desc) else { continue };
                let bytes: Vec<u8> = (0..=255).cycle().take(2001).collect();
                rig.write(&allocation, 777, &bytes).unwrap();
                let mut back = vec![0; 2001];
                rig.read(&allocation, 777, &mut back).unwrap();
                assert_eq!(back, bytes);
                rig.free(allocation).unwrap();
            }
        }
    }
}

#[test]
fn what_the_cpu_writes_reaches_the_queue_and_what_the_queue_writes_reaches_the_cpu() {
    for name in [DISCRETE].into_iter().chain(INCOHERENT) {
        for dedicated in [Dedicated::Automatic, Dedicated::Always] {
            let rig = Rig::new(name);
            // Readback memory of the phones is not coherent, on both ends of the copy.
            let make = || {
                let desc = wanted(1, MemoryUsage::Readback).with_dedicated(dedicated);
                rig.create_buffer(&BufferDesc::new(1001), &desc).unwrap()
            };
            let (from, to) = (make(), make());
            let bytes: Vec<u8> = (0..1001).map(|i| (i % 251) as u8).collect();
            rig.write(from.allocation(), 0, &bytes).unwrap();
            copy(&rig, &from, &to, 1001);
            let mut back = vec![0; 1001];
            rig.read(to.allocation(), 0, &mut back).unwrap();
            assert_eq!(back, bytes, "{name}, {dedicated:?}");
            rig.destroy_buffer(from).unwrap();
            rig.destroy_buffer(to).unwrap();
        }
    }
}

/// A dedicated buffer is exactly as large as it is, whole atoms or not, and no flush may reach beyond.
#[test]
fn the_last_byte_of_a_dedicated_buffer_of_odd_size_can_be_written() {
    for name in INCOHERENT {
        let rig = Rig::new(name);
        for size in [1, 63, 64, 65, 100, 1000] {
            let desc = wanted(1, MemoryUsage::Readback).with_dedicated(Dedicated::Always);
            let buffer = rig.create_buffer(&BufferDesc::new(size), &desc).unwrap();
            rig.write(buffer.allocation(), size - 1, &[42]).unwrap();
            rig.flush(buffer.allocation(), 0..size).unwrap();
            rig.invalidate(buffer.allocation(), 0..size).unwrap();
            let mut byte = [0];
            rig.read(buffer.allocation(), size - 1, &mut byte).unwrap();
            assert_eq!(byte, [42]);
            rig.destroy_buffer(buffer).unwrap();
            assert_eq!(rig.device.validation_errors(), Vec::<String>::new(), "{size} bytes, {name}");
        }
    }
}

#[test]
fn coherent_memory_is_never_flushed_and_other_memory_only_where_something_was_written() {
    let rig = Rig::new(DISCRETE);
    let coherent = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    rig.write(&coherent, 0, &[1; 100]).unwrap();
    rig.read(&coherent, 0, &mut [0; 100]).unwrap();
    rig.flush(&coherent, 0..KIB).unwrap();
    assert_eq!(rig.reports().device_calls().make_visible, 0);
    rig.free(coherent).unwrap();

    for name in INCOHERENT {
        let rig = Rig::new(name);
        let other = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Readback)).unwrap();
        rig.write(&other, 0, &[]).unwrap();
        rig.flush(&other, 7..7).unwrap();
        assert_eq!(rig.reports().device_calls().make_visible, 0);
        rig.write(&other, 3, &[1]).unwrap();
        rig.read(&other, 3, &mut [0]).unwrap();
        assert_eq!(rig.reports().device_calls().make_visible, 2, "{name}");
        rig.free(other).unwrap();
    }
}

#[test]
fn maps_are_counted_and_call_no_driver() {
    let rig = Rig::new(DISCRETE);
    let allocation = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    let calls = rig.device.usage().map_calls;
    let address = rig.map(&allocation).unwrap();
    assert_eq!(rig.map(&allocation), Ok(address));
    assert_eq!(Some(address), rig.location(&allocation).unwrap().mapped_ptr);
    assert_eq!(rig.info(&allocation).unwrap().maps, 2);
    assert_eq!((rig.unmap(&allocation), rig.unmap(&allocation)), (Ok(()), Ok(())));
    assert_eq!(rig.unmap(&allocation), Err(AccessError::NotMapped { name: ShortName::NONE }));
    assert_eq!(rig.device.usage().map_calls, calls);
    rig.map(&allocation).unwrap();
    rig.free(allocation).unwrap();
    let next = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    assert_eq!(rig.info(&next).unwrap().maps, 0, "the maps of who was there before are not inherited");
    rig.free(next).unwrap();
}

#[test]
fn places_in_one_block_are_mapped_at_their_distance() {
    let rig = Rig::new(DISCRETE);
    let desc = wanted(KIB, MemoryUsage::Upload);
    let got = [rig.allocate_wanted(&desc).unwrap(), rig.allocate_wanted(&desc).unwrap()];
    let [a, b]: [MemoryLocation<SimulatedGpu>; 2] = [0, 1].map(|i| rig.location(&got[i]).unwrap());
    let copied = a;
    assert_eq!(copied.memory, a.memory, "a place can be copied");
    let distance = |at: MemoryLocation<SimulatedGpu>| at.mapped_ptr.unwrap().addr().get() as u64 - at.offset;
    assert_eq!((a.memory, distance(a)), (b.memory, distance(b)));
    rig.free_all(got);
}

#[test]
fn an_allocation_tells_everything_that_was_said_of_it() {
    let rig = Rig::new(DISCRETE);
    let mut desc = wanted(1000, MemoryUsage::GpuOnly)
        .with_name(String::from("albedo"))
        .with_category("texture")
        .with_kind(ResourceKind::OptimalImage);
    desc.user_data = 99;
    let allocation = rig.allocate_wanted(&desc).unwrap();
    let info = rig.info(&allocation).unwrap();
    assert_eq!((info.size, info.occupied, info.kind), (1000, 1000, ResourceKind::OptimalImage));
    assert_eq!((info.name.as_ref().map(Name::as_str), info.category), (Some("albedo"), "texture"));
    assert_eq!((info.user_data, info.dedicated, info.maps), (99, false, 0));
    rig.set_name(&allocation, Some(Name::Static("normals"))).unwrap();
    rig.set_user_data(&allocation, 100).unwrap();
    let info = rig.info(&allocation).unwrap();
    assert_eq!((info.name.unwrap().to_string().as_str(), info.user_data), ("normals", 100));
    rig.set_name(&allocation, None).unwrap();
    assert_eq!(rig.info(&allocation).unwrap().name, None);
    rig.free(allocation).unwrap();
}

#[test]
fn an_id_is_noticed_when_what_it_names_is_gone_even_if_its_place_is_taken_again() {
    let rig = Rig::new(DISCRETE);
    let allocation = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    let id = allocation.id();
    assert!(rig.reports().info(id).is_ok());
    rig.free(allocation).unwrap();
    assert_eq!(rig.reports().info(id).unwrap_err(), AccessError::Stale);
    let next = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    assert_ne!(next.id(), id);
    assert_eq!(rig.reports().info(id).unwrap_err(), AccessError::Stale);
    rig.free(next).unwrap();
}

#[test]
fn device_memory_that_cannot_be_mapped_says_so_and_has_no_address() {
    let rig = Rig::new(DISCRETE);
    let allocation = rig.allocate_wanted(&wanted(MIB, MemoryUsage::GpuOnly)).unwrap();
    let refused = AccessError::NotHostVisible { memory_type: MemoryTypeIndex(0), name: ShortName::NONE };
    assert_eq!(rig.location(&allocation).unwrap().mapped_ptr, None);
    assert_eq!(rig.map(&allocation), Err(refused));
    assert_eq!(rig.write(&allocation, 0, &[1]), Err(refused));
    assert_eq!(rig.read(&allocation, 0, &mut [1]), Err(refused));
    assert_eq!(rig.flush(&allocation, 0..1), Err(refused));
    assert_eq!(rig.unmap(&allocation), Err(AccessError::NotMapped { name: ShortName::NONE }));
    rig.free(allocation).unwrap();
}

#[test]
fn what_an_allocation_occupies_is_all_that_nothing_else_gets() {
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy, Algorithm::Linear] {
        // On the second, images are rounded up to 1 KiB.
        for name in [DISCRETE, FINE] {
            let rig = Rig::with(profile(name), |desc| (desc.algorithm, desc.threads) = (algorithm, 1));
            let sizes = [5, 1000, 1024, 1025, 300, 70 * KIB, 3, MIB - 1, 5000];
            let live: Vec<_> = (0..2 * sizes.len())
                .map(|i| {
                    let kind = if i % 3 == 0 { ResourceKind::OptimalImage } else { ResourceKind::Buffer };
                    let mut desc = wanted(1, MemoryUsage::GpuOnly).with_kind(kind);
                    desc.requirements = aligned(sizes[i % sizes.len()], [1, 16, 256][i % 3]);
                    rig.allocate_wanted(&desc).unwrap()
                })
                .collect();
            let mut ranges: Vec<_> =
                live.iter().map(|one| (rig.memory_of(one), rig.info(one).unwrap(), one)).collect();
            ranges.sort_by_key(|(memory, _, one)| (*memory, rig.location(one).unwrap().offset));
            for pair in ranges.windows(2) {
                let [(memory, info, one), (next_memory, _, next)] = pair else { unreachable!() };
                let end = rig.location(one).unwrap().offset + info.occupied;
                assert!(end <= info.block_size, "{algorithm:?} {name}");
                assert!(
                    memory != next_memory || end <= rig.location(next).unwrap().offset,
                    "{algorithm:?} {name}"
                );
            }
            let statistics = rig.statistics();
            let occupied: u64 = ranges.iter().map(|(_, info, _)| info.occupied).sum();
            assert_eq!(occupied, statistics.allocation_bytes + statistics.rounding, "{algorithm:?} {name}");
            let cells = ranges.iter().all(|(_, info, _)| info.occupied.is_power_of_two());
            assert_eq!(cells, algorithm == Algorithm::Buddy);
            rig.free_all(live);
        }
    }
}

#[test]
fn an_allocation_in_dedicated_memory_that_is_used_again_occupies_all_of_it() {
    let rig = Rig::new(DISCRETE);
    let large = rig.allocate_wanted(&wanted(310 * MIB, MemoryUsage::GpuOnly)).unwrap();
    rig.free(large).unwrap();
    let smaller = rig.allocate_wanted(&wanted(300 * MIB, MemoryUsage::GpuOnly)).unwrap();
    let info = rig.info(&smaller).unwrap();
    assert!(info.dedicated);
    assert_eq!((info.size, info.occupied, info.block_size), (300 * MIB, 310 * MIB, 310 * MIB));
    rig.free(smaller).unwrap();
}
