//! Checks the foundation of all tables: the meters are exact, and everything is freed.

use super::*;
use crate::args::Common;
use crate::vulkan::{ALONE, Gpu, Meter};

/// Returns requests of every kind and role, small ones and some with dedicated memory.
fn requests() -> Vec<Request> {
    let roles = [Role::Device, Role::Upload, Role::Readback, Role::DeviceUpload];
    let sizes = [256, 100_000, 3 << 20, 40 << 20, 300 << 20];
    let all = roles.into_iter().flat_map(|role| {
        sizes.into_iter().flat_map(move |size| {
            [Kind::Buffer, Kind::Image].map(|kind| Request { size, alignment: 256, kind, role })
        })
    });
    all.filter(|request| request.size <= 3 << 20 || request.role == Role::Device).collect()
}

/// Allocates everything, compares the meter with the contender's own count, and frees it again.
fn fill_and_clear<C: Contender>(contender: &C, own_count: impl Fn(&C) -> u64) {
    let requests = requests();
    let tokens: Vec<_> = requests.iter().map(|request| contender.allocate(request).unwrap()).collect();
    let full = contender.reading();
    let wanted: u64 = requests.iter().map(|request| request.size).sum();
    assert!(full.reserved_bytes >= wanted, "{} bytes reserved for {wanted}", full.reserved_bytes);
    assert_eq!(full.reserved_bytes, own_count(contender), "{}", contender.name());
    tokens.into_iter().for_each(|token| contender.free(token).unwrap());
    // Long enough for contenders that keep empty memory for some frames.
    (0..300).for_each(|_| contender.end_frame());
    let clear = contender.reading();
    assert_eq!(clear.reserved_bytes, own_count(contender), "{}", contender.name());
    assert!(clear.free_calls > 0 && clear.reserved_bytes < full.reserved_bytes);
}

#[test]
fn meters_agree_with_what_contenders_say_of_themselves() {
    let _alone = ALONE.lock();
    let Some(gpu) = Gpu::open_for_test() else { return };
    let allotment = Allotment::new(&gpu, Blocks::Default).unwrap();
    let vk_mem = VkMem::new(&gpu, Blocks::Default).unwrap();
    let gpu_allocator = GpuAllocator::new(&gpu, Blocks::Default).unwrap();
    fill_and_clear(&allotment, Allotment::own_count);
    fill_and_clear(&vk_mem, VkMem::own_count);
    fill_and_clear(&gpu_allocator, GpuAllocator::own_count);
    let readings = [
        (allotment.reading(), Meter::Allotment),
        (vk_mem.reading(), Meter::VkMem),
        (gpu_allocator.reading(), Meter::GpuAllocator),
    ];
    drop((allotment, vk_mem, gpu_allocator));
    for (before, meter) in readings {
        let after = meter.read();
        assert_eq!(after.reserved_bytes, 0, "{meter:?} was destroyed");
        assert_eq!(after.allocate_calls, before.allocate_calls);
        assert_eq!(after.allocate_calls, after.free_calls);
    }
}

#[test]
fn a_device_that_is_not_there_is_a_failure_that_names_those_that_are() {
    let Some(found) = Gpu::open_for_test() else { return };
    let args = Common { gpu: Some("no such device".to_owned()), ..Common::default() };
    let failure = Gpu::open(&args).err().unwrap().to_string();
    assert!(failure.contains(&found.info.name), "{failure}");
}
