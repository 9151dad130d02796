//! A trial read, which checks whether shaders see descriptors at all.

use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapVisibility, DeviceError,
    MemoryDevice as _, QueueIndex, QueueKind, ShaderVisibleHeapType,
};
use windows::Win32::Graphics::Direct3D12::{D3D12_HEAP_TYPE_DEFAULT, D3D12_HEAP_TYPE_UPLOAD};

use super::{D3d12Reader, committed, map};
use crate::{DescriptorReader as _, Read};

/// The value that is read.
const NUMBER: u32 = 0x600d_feed;
/// The descriptor through which it is read, and the number of descriptors.
const AT: u32 = 2;
const DESCRIPTORS: u32 = 4;

impl D3d12Reader {
    /// Returns true if the value is read through a descriptor, and if there is no queue to try it on.
    pub(super) fn reads(&self) -> Result<bool, DeviceError> {
        let computes = |kind| matches!(kind, QueueKind::Graphics | QueueKind::Compute);
        let mut queues = self.device.properties().queues.iter();
        let Some(queue) = queues.position(|&kind| computes(kind)) else { return Ok(true) };
        // There are at most 256.
        let queue = QueueIndex(queue as u8);
        let raw = self.device.raw();
        let from = committed(raw, D3D12_HEAP_TYPE_UPLOAD, BufferDesc::new(512).into())?;
        let to = committed(raw, D3D12_HEAP_TYPE_DEFAULT, self.buffer_info(256, true))?;
        let first = map(&from)?;
        // SAFETY: the buffer is mapped, and has 128 numbers.
        unsafe { first.write(AT) };
        // SAFETY: as above.
        let number = unsafe { first.add(64) };
        // SAFETY: as above.
        unsafe { number.write(NUMBER) };

        let usage = DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Resource);
        let desc = DescriptorHeapDesc { usage, capacity: DESCRIPTORS };
        // SAFETY: the runtime provides the memory of heaps.
        let heap = unsafe { self.device.create_descriptor_heap(&desc, None) }?;
        // SAFETY: the slots exist, here and below, and no other code uses them.
        unsafe { self.device.write_null_descriptors(&heap, 0..DESCRIPTORS) };
        // SAFETY: the range lies in the buffer.
        let descriptor = unsafe { self.device.buffer_descriptor(&from, 256..272, BufferUse::ReadOnly) };
        // SAFETY: as above.
        unsafe { self.device.write_descriptor(&heap, AT, &descriptor) };
        let read = Read { heap: &heap, indices: &from, indices_offset: 0, count: 1, to: &to, to_offset: 0 };
        // SAFETY: all objects live until the work is complete, which is waited for below, or are leaked.
        let found = unsafe { self.submit(queue, &[], &[read]) }
            // SAFETY: the buffer is live, and contains a number.
            .and_then(|_| unsafe { self.numbers(queue, &[], &to, 0, 1) });
        if found.is_err() {
            core::mem::forget((from, to, heap));
        }
        Ok(found? == [NUMBER])
    }
}
