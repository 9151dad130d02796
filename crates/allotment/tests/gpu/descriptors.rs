//! Descriptor heaps that are created on first use, and transient descriptors of frames.

use allotment::device::simulated::HostRead;
use allotment::device::{BufferUse, DescriptorDevice as _, DescriptorHeapType, SamplerDesc};
use allotment::memory::Buffer;

use crate::rig::{QUEUE, Rig};

#[test]
fn descriptor_heaps_are_created_on_first_use() {
    let rig = Rig::new();
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    let descriptors = rig.gpu.descriptors().unwrap();
    assert!(rig.device.usage().descriptor_heaps >= 2);
    for kind in DescriptorHeapType::ALL {
        assert_eq!(descriptors.cpu_heap(kind).heap_type(), kind);
    }
    let sampler = descriptors.samplers().get(&SamplerDesc::default()).unwrap();
    let same = descriptors.samplers().get(&SamplerDesc::default()).unwrap();
    assert_eq!(sampler.index(), same.index());
    drop((sampler, same));
    rig.finish();
}

#[test]
fn work_reads_through_the_descriptors_of_its_frame() {
    let rig = Rig::new();
    let (numbers, found) = (rig.buffer(256), rig.buffer(256));
    rig.gpu.uploads().write_buffer(&numbers, 0, &7_u32.to_le_bytes()).unwrap();
    let read = |numbers: &Buffer<_>| {
        let frame = rig.gpu.begin_frame().unwrap();
        let mut transient = frame.transient_descriptors().unwrap();
        let mut table = transient.allocate(1).unwrap();
        // SAFETY: the buffer is alive until the frame's submissions have completed.
        let descriptor = unsafe { rig.device.buffer_descriptor(numbers.handle(), 0..4, BufferUse::ReadOnly) };
        table.write(0, &descriptor).unwrap();
        let index = table.place().first;
        let indices = frame.upload(index.to_le_bytes()).unwrap();
        let heap = transient.heap();
        frame
            .submit(QUEUE, |queue, waits| {
                let read = HostRead {
                    heap,
                    indices: &indices.buffer,
                    indices_offset: indices.offset,
                    count: 1,
                    to: found.handle(),
                    to_offset: 0,
                };
                // SAFETY: all of it is alive until the frame's submissions have completed.
                unsafe { rig.device.submit_reads(queue, waits, &[read]) }
            })
            .unwrap();
        drop(transient);
        frame.end().unwrap();
        let mut bytes = [0; 4];
        rig.gpu.read_buffer(&found, 0, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    };
    for _ in 0..100 {
        assert_eq!(read(&numbers), 7);
    }
    drop((numbers, found));
    rig.finish();
}
