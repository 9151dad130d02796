//! Bytes in and out of anything.

use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, BufferDevice as _, ImageDesc, QueueIndex, TransferUsage};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Dedicated, OwningAllocator, ResourceError, Transfer, TransferError};
use allotment::upload::{UploadError, Uploader, UploaderDesc};
use allotment::{Allocator, AllocatorDesc, MemoryUsage};

use crate::rig::{AllocateWanted as _, COARSE, DISCRETE, KIB, MOBILE, Rig, Wanted, profile, wanted};

/// Less than what is moved, and no divisor of it.
const CHUNK: u64 = 3 * KIB + 5;

#[test]
fn bytes_go_through_the_buffer_itself_and_arrive_where_its_memory_is() {
    for profile in [
        DISCRETE,
        COARSE,
        MOBILE,
        "mobile-atom-1",
        "mobile-atom-4096",
        "d3d12-tier-1",
        "d3d12-tier-2",
        "d3d12-uma",
    ] {
        for memory_usage in MemoryUsage::ALL {
            for (dedicated, by_queue) in
                [(Dedicated::Automatic, true), (Dedicated::Always, true), (Dedicated::Automatic, false)]
            {
                let rig = Rig::new(profile);
                let transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
                let mut transfer = if by_queue { transfer.through_the_queue() } else { transfer };
                let desc = wanted(1, memory_usage).with_dedicated(dedicated);
                let buffer = rig.create_buffer(&BufferDesc::new(10_000), &desc).unwrap();
                let bytes: Vec<u8> = (0..9001).map(|i| (i % 251) as u8).collect();
                transfer.upload_to(&buffer, 999, &bytes).unwrap();
                let mut back = vec![0; 9001];
                let by_memory = transfer.download(buffer.allocation(), 999, &mut back);
                let mapped = rig.location(buffer.allocation()).unwrap().mapped_ptr.is_some();
                if dedicated == Dedicated::Always && !mapped {
                    // A second buffer may not be bound to memory that was created for the first.
                    let refused = TransferError::Buffer(ResourceError::Access(AccessError::Exclusive {
                        name: ShortName::NONE,
                    }));
                    assert_eq!(by_memory, Err(refused));
                } else {
                    assert_eq!(by_memory, Ok(()));
                    assert_eq!(back, bytes, "{profile}, {memory_usage}: through the memory");
                }
                back.fill(0);
                transfer.download_from(&buffer, 999, &mut back).unwrap();
                assert_eq!(back, bytes, "{profile}, {memory_usage}: through the buffer");
                drop(transfer);
                rig.destroy_buffer(buffer).unwrap();
            }
        }
    }
}

#[test]
fn a_range_beyond_the_memory_is_refused_and_moves_nothing() {
    let rig = Rig::new(DISCRETE);
    let mut transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
    let buffer = rig.create_buffer(&BufferDesc::new(1000), &wanted(1, MemoryUsage::GpuOnly)).unwrap();
    // The memory may have more.
    let beyond = AccessError::OutOfRange { offset: 990, size: 11, available: 1000, name: ShortName::NONE };
    assert_eq!(transfer.upload_to(&buffer, 990, &[0; 11]), Err(TransferError::Access(beyond)));
    assert_eq!(transfer.download_from(&buffer, 990, &mut [0; 11]), Err(TransferError::Access(beyond)));
    drop(transfer);
    rig.destroy_buffer(buffer).unwrap();
}

#[test]
fn a_buffer_takes_no_more_bytes_than_it_has_though_its_memory_has_more() {
    // This machine places everything at multiples of 64 KiB, and rounds sizes up to that.
    let rig = Rig::new("d3d12-tier-2");
    let mut transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
    let buffer = rig.create_buffer(&BufferDesc::new(1000), &wanted(1, MemoryUsage::Upload)).unwrap();
    assert!(rig.location(buffer.allocation()).unwrap().size > 1000);
    let beyond = AccessError::OutOfRange { offset: 0, size: 1001, available: 1000, name: ShortName::NONE };
    assert_eq!(transfer.upload_to(&buffer, 0, &[0; 1001]), Err(TransferError::Access(beyond)));
    drop(transfer);
    rig.destroy_buffer(buffer).unwrap();
}

#[test]
fn memory_that_was_made_with_its_resource_takes_no_other() {
    let rig = Rig::new(DISCRETE);
    let alone = wanted(1, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    let buffer = rig.create_buffer(&BufferDesc::new(64 * KIB), &alone).unwrap();
    let image = rig.create_image(&ImageDesc::new(64, 64, 4), &alone).unwrap();
    for allocation in [buffer.allocation(), image.allocation()] {
        assert!(rig.info(allocation).unwrap().dedicated_to_resource);
        let second = rig.create_aliasing_buffer(allocation, 0, &BufferDesc::new(16));
        assert_eq!(
            second.unwrap_err(),
            ResourceError::Access(AccessError::Exclusive { name: ShortName::NONE })
        );
    }
    rig.destroy_buffer(buffer).unwrap();
    rig.destroy_image(image).unwrap();

    let memory = rig.allocate_wanted(&alone_of(64 * KIB)).unwrap();
    assert!(!rig.info(&memory).unwrap().dedicated_to_resource, "memory by itself takes whatever fits");
    let second = rig.create_aliasing_buffer(&memory, 0, &BufferDesc::new(16)).unwrap();
    // SAFETY: made by this device, and never used.
    unsafe { rig.device.destroy_buffer(second) };
    rig.free(memory).unwrap();
}

fn alone_of(size: u64) -> Wanted {
    wanted(size, MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always)
}

#[test]
fn a_buffer_is_copied_only_as_its_usage_allows() {
    for (usage, missing) in [
        (SimulatedGpu::NO_TRANSFER_SRC, TransferUsage::SRC),
        (SimulatedGpu::NO_TRANSFER_DST, TransferUsage::DST),
    ] {
        let rig = Rig::new(COARSE);
        let mut transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
        let info = BufferDesc::new(1000).with_usage(usage);
        let buffer = rig.create_buffer(&info, &wanted(1, MemoryUsage::GpuOnly)).unwrap();
        let expect = |copy| {
            let refused = Err(TransferError::Access(AccessError::MissingUsage {
                missing: copy,
                name: ShortName::NONE,
            }));
            if copy == missing { refused } else { Ok(()) }
        };
        assert_eq!(transfer.upload_to(&buffer, 0, &[1; 100]), expect(TransferUsage::DST));
        assert_eq!(transfer.download_from(&buffer, 0, &mut [0; 100]), expect(TransferUsage::SRC));
        drop(transfer);
        // The same of a buffer that is created for the copy.
        let mut transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap().with_usage(usage);
        let memory = rig.allocate_wanted(&wanted(1000, MemoryUsage::GpuOnly)).unwrap();
        let expect = |copy| {
            let refused =
                ResourceError::Access(AccessError::MissingUsage { missing: copy, name: ShortName::NONE });
            if copy == missing { Err(TransferError::Buffer(refused)) } else { Ok(()) }
        };
        assert_eq!(transfer.upload(&memory, 0, &[1; 100]), expect(TransferUsage::DST));
        assert_eq!(transfer.download(&memory, 0, &mut [0; 100]), expect(TransferUsage::SRC));
        drop(transfer);
        rig.free(memory).unwrap();
        rig.destroy_buffer(buffer).unwrap();
    }
}

#[test]
fn an_uploader_copies_into_a_buffer_only_as_its_usage_allows() {
    let device = SimulatedGpu::new(profile(COARSE));
    let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    let uploader = Uploader::new(&memory, UploaderDesc::default()).unwrap();
    let missing =
        UploadError::Access(AccessError::MissingUsage { missing: TransferUsage::DST, name: ShortName::NONE });
    let make = |usage| {
        let info = BufferDesc::new(1000).with_usage(usage);
        memory.create_buffer(&info, &wanted(1, MemoryUsage::GpuOnly)).unwrap()
    };
    let (no_target, no_source) = (make(SimulatedGpu::NO_TRANSFER_DST), make(SimulatedGpu::NO_TRANSFER_SRC));
    assert_eq!(uploader.initialize(&no_target, 0, &[1; 100]), Err(missing));
    assert_eq!(uploader.update(&no_target, 0, &[1; 100]), Err(missing));
    assert_eq!(uploader.statistics().copies, 0);
    uploader.update(&no_source, 0, &[1; 100]).unwrap();
    uploader.submit().unwrap();
    drop((uploader, no_target, no_source));
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}
