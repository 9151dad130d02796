// One crate, `api`, under the load.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

use api::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use api::{AllocationSizes, AllocatorDebugSettings, MemoryLocation};
use ash::vk;

/// Live allocations, of all threads together.
const LIVE: usize = 3000;
/// Pairs of an allocation and a free, of all threads together.
const PAIRS: usize = 20_000;

fn allocate(allocator: &Mutex<Allocator>, random: &mut u64) -> Allocation {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    // From 256 bytes to 1 MiB, as many of each order of magnitude.
    let size = 256 << (*random % 12);
    let size = size + (*random >> 32) % size;
    let desc = AllocationCreateDesc {
        name: "one of many",
        requirements: vk::MemoryRequirements { size, alignment: 256, memory_type_bits: !0 },
        location: MemoryLocation::GpuOnly,
        linear: true,
        allocation_scheme: AllocationScheme::GpuAllocatorManaged,
    };
    allocator.lock().unwrap().allocate(&desc).unwrap()
}

/// Returns how many nanoseconds each pair took, and an allocator that is empty again.
fn pairs(allocator: &Mutex<Allocator>, start: &Barrier, seed: u64, threads: usize) -> Vec<u64> {
    let mut random = seed;
    let mut live: Vec<_> = (0..LIVE / threads).map(|_| allocate(allocator, &mut random)).collect();
    start.wait();
    let times = (0..PAIRS / threads).map(|_| {
        let freed = live.swap_remove(random as usize % live.len());
        let begun = Instant::now();
        allocator.lock().unwrap().free(freed).unwrap();
        live.push(allocate(allocator, &mut random));
        begun.elapsed().as_nanos() as u64
    });
    let times = times.collect();
    live.into_iter().for_each(|allocation| allocator.lock().unwrap().free(allocation).unwrap());
    times
}

pub(crate) fn times(
    (instance, device, physical_device): (ash::Instance, ash::Device, vk::PhysicalDevice),
    threads: usize,
) -> Vec<u64> {
    let allocator = Allocator::new(&AllocatorCreateDesc {
        instance,
        device,
        physical_device,
        debug_settings: AllocatorDebugSettings::default(),
        buffer_device_address: false,
        // Those of wgpu.
        allocation_sizes: AllocationSizes::new(128 << 20, 64 << 20)
            .with_max_device_memblock_size(256 << 20)
            .with_max_host_memblock_size(128 << 20),
    });
    let (allocator, start) = (Mutex::new(allocator.unwrap()), Barrier::new(threads));
    thread::scope(|scope| {
        let run = |seed: usize| {
            let (allocator, start) = (&allocator, &start);
            scope.spawn(move || pairs(allocator, start, 0x9e37_79b9_7f4a_7c15 ^ seed as u64, threads))
        };
        let running: Vec<_> = (1..=threads).map(run).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
