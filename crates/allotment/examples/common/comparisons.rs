//! What was read, and what it must be.

use std::collections::VecDeque;

use allotment::upload::ReadHandle;
use allotment::{Device, Gpu};

use super::Outcome;
use super::known_bytes::Seed;

/// Known bytes, and how many of them.
pub(crate) type Part = (Seed, u64);

/// Reads of frames that the GPU may not have completed.
pub(crate) struct Comparisons<D: Device> {
    gpu: Gpu<D>,
    /// Oldest first.
    coming: VecDeque<Coming>,
    /// Lists of the past, to be used again, as the room for bytes is.
    lists: Vec<Vec<Part>>,
    found: Vec<u8>,
    expected: Vec<u8>,
    /// Bytes that were compared so far.
    pub(crate) compared: u64,
}

struct Coming {
    frame: u64,
    read: ReadHandle,
    parts: Vec<Part>,
}

impl<D: Device> Comparisons<D> {
    pub(crate) fn new(gpu: &Gpu<D>) -> Self {
        Self {
            gpu: gpu.clone(),
            coming: VecDeque::new(),
            lists: Vec::new(),
            found: Vec::new(),
            expected: Vec::new(),
            compared: 0,
        }
    }

    /// Notes what a read of a frame must bring, one part behind the other.
    pub(crate) fn expect(&mut self, frame: u64, read: ReadHandle, parts: impl IntoIterator<Item = Part>) {
        let mut list = self.lists.pop().unwrap_or_default();
        list.extend(parts);
        self.coming.push_back(Coming { frame, read, parts: list });
    }

    /// Compares what frames brought back that the GPU has completed, since `frame` has begun.
    pub(crate) fn compare_completed(&mut self, frame: u64) -> Outcome {
        let in_flight = self.gpu.desc().frames_in_flight.get() as u64;
        while self.coming.front().is_some_and(|oldest| oldest.frame + in_flight <= frame) {
            self.compare_oldest()?;
        }
        Ok(())
    }

    /// Waits for the rest, and compares it.
    pub(crate) fn compare_all(&mut self) -> Outcome {
        self.gpu.wait_idle()?;
        while !self.coming.is_empty() {
            self.compare_oldest()?;
        }
        Ok(())
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some(Coming { frame, read, mut parts }) = self.coming.pop_front() else { return Ok(()) };
        self.found.resize(read.size() as usize, 0);
        read.read(&mut self.found)?;
        let mut rest = &self.found[..];
        for (seed, size) in parts.drain(..) {
            let (part, others) = rest.split_at_checked(size as usize).ok_or("a part is missing")?;
            let expected = seed.bytes(size, &mut self.expected);
            if part != expected {
                let wrong = part.iter().zip(expected).filter(|(found, expected)| found != expected).count();
                return Err(format!("frame {frame}: {wrong} of {size} bytes of {seed:x?} are wrong").into());
            }
            rest = others;
        }
        self.compared += read.size();
        self.lists.push(parts);
        Ok(())
    }
}
