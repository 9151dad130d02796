//! Buffers that belong to one family of queues at a time: what the library copies from and to them, it copies there.

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, QueueKind};
use allotment::gpu::ReadError;
use allotment::memory::{AccessError, Buffer, Transfer, TransferError};
use allotment::{AllocationOptions, MemoryUsage};

use crate::rig::{QUEUE, Rig};

const SIZE: u64 = 4096;

fn exclusive(rig: &Rig, options: &AllocationOptions) -> Buffer<SimulatedGpu> {
    let desc = BufferDesc::new(SIZE).with_usage(SimulatedGpu::EXCLUSIVE);
    rig.gpu.create_buffer(&desc, options).unwrap()
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251) as u8 ^ seed).collect()
}

#[test]
fn an_exclusive_buffer_is_written_and_read_on_the_queue_that_it_belongs_to() {
    let rig = Rig::new();
    let pinned = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let relocatable = pinned.clone().relocatable();
    for options in [pinned, relocatable] {
        let buffer = exclusive(&rig, &options);
        let shared = rig.buffer(SIZE);
        for round in 0..4 {
            rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(round)).unwrap();
            rig.gpu.uploads().write_buffer(&shared, 0, &pattern(100 + round)).unwrap();
            rig.gpu.uploads().update_buffer(&buffer, 0, &pattern(round + 1)).unwrap();
            let mut found = vec![0; SIZE as usize];
            rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
            assert!(found == pattern(round + 1), "{round}");
            rig.gpu.read_buffer(&shared, 0, &mut found).unwrap();
            assert!(found == pattern(100 + round), "{round}");
        }
        let frame = rig.gpu.begin_frame().unwrap();
        let ticket = frame.read_back(QUEUE, &buffer, 0, SIZE).unwrap();
        frame.end().unwrap();
        rig.gpu.wait_idle().unwrap();
        let mut found = vec![0; SIZE as usize];
        rig.gpu.readback().unwrap().read(&ticket, &mut found).unwrap();
        assert!(found == pattern(4));
    }
    rig.finish();
}

#[test]
fn a_copy_of_an_exclusive_buffer_on_a_queue_of_another_family_is_refused() {
    let rig = Rig::new();
    let queue = rig.other_queue();
    assert_ne!(rig.gpu.device().profile().queues[usize::from(queue.0)], QueueKind::Graphics);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let name = allotment::memory::names::ShortName::new("exclusive");
    let buffer = exclusive(&rig, &options);
    let frame = rig.gpu.begin_frame().unwrap();
    let refused = frame.read_back(queue, &buffer, 0, SIZE).unwrap_err();
    assert_eq!(refused, ReadError::Access(AccessError::OtherFamily { queue, name }));
    assert!(refused.to_string().contains("graphics queue"), "{refused}");
    frame.end().unwrap();
    let desc = BufferDesc::new(SIZE).with_usage(SimulatedGpu::EXCLUSIVE);
    let raw = rig.gpu.allocator().create_buffer(&desc, &options).unwrap();
    let mut transfer = Transfer::new(rig.gpu.allocator(), queue, SIZE).unwrap();
    let refused = TransferError::Access(AccessError::OtherFamily { queue, name });
    assert_eq!(transfer.upload_to(&raw, 0, &pattern(1)), Err(refused));
    assert_eq!(transfer.download_from(&raw, 0, &mut [0; 64]), Err(refused));
    drop(transfer);
    rig.gpu.allocator().destroy_buffer(raw).unwrap();
    drop(buffer);
    rig.finish();
}
