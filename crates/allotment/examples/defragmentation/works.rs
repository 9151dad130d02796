//! What all parts of the town share: the `Gpu`, numbers, known bytes, and what must come back.

use allotment::device::{DescriptorDevice, DeviceError};
use allotment::prelude::*;
use allotment_readers::DescriptorReader;

use crate::common::Outcome;
use crate::common::comparisons::Comparisons;
use crate::common::known_bytes::{Seed, mixed};

/// The queue that looks at things, and that copies those that move.
pub(crate) const QUEUE: QueueIndex = QueueIndex(0);

pub(crate) struct Works<D: DescriptorDevice, R> {
    pub(crate) gpu: Gpu<D>,
    /// Reads through descriptors, where the device has such ones.
    pub(crate) reader: Option<R>,
    /// What is read is there to be compared.
    pub(crate) is_read: bool,
    pub(crate) comparisons: Comparisons<D>,
    /// Room for bytes that are written.
    pub(crate) bytes: Vec<u8>,
    next: u64,
    random: u64,
}

impl<D: DescriptorDevice, R: DescriptorReader<D>> Works<D, R> {
    pub(crate) fn new(gpu: Gpu<D>, is_read: bool) -> Outcome<Self> {
        let reader = match gpu.device().descriptor_limits().resources.max_capacity {
            0 => None,
            _ => match R::new(gpu.device(), gpu.descriptors()?.resources().statistics().capacity) {
                Err(DeviceError::Unsupported) => None,
                reader => Some(reader?),
            },
        };
        let comparisons = Comparisons::new(&gpu);
        Ok(Self { gpu, reader, is_read, comparisons, bytes: Vec::new(), next: 0, random: 1 })
    }

    /// Returns the description of a buffer that can be copied, and read through descriptors.
    pub(crate) fn buffer_info(&self, size: u64) -> D::BufferInfo<'static> {
        match &self.reader {
            Some(reader) => reader.buffer_info(size, false),
            None => BufferDesc::new(size).into(),
        }
    }

    /// Returns a number that nothing in the town had before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns how many numbers were given.
    pub(crate) fn numbers(&self) -> u64 {
        self.next
    }

    /// Returns a number below `n`, which is not 0: the same in each run.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.random = mixed(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.random % n as u64) as usize
    }
}

/// Returns what the bytes of a thing follow from, and those of its parts. No two have the same.
pub(crate) fn seed(number: u64, part: u32) -> Seed {
    Seed(number << 24 | u64::from(part) << 20)
}
