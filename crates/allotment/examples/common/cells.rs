//! Small buffers that shaders read: 256 bytes each, side by side in a few large ones. The first 4 bytes are known.
//!
//! A slot or a binding with a descriptor of a cell keeps the cell alive by an `Arc`. A cell that nothing keeps alive is
//! reused and overwritten at once, so that a read that comes too late is noticed.

use std::collections::VecDeque;
use std::sync::Arc;

use allotment::descriptor::KeepAlive;
use allotment::device::{BufferUse, DescriptorDevice};
use allotment::memory::MappedBuffer;
use allotment::{Allocator, MemoryUsage};
use allotment_readers::DescriptorReader;

use super::Outcome;

/// Bytes of a cell. A descriptor may begin at multiples of this on every device.
pub(crate) const CELL: u64 = 256;

/// Cells that are made at once: 1 MiB.
const PAGE: u64 = 4096;

/// The contents of cells that nothing keeps alive.
const GONE: u32 = 0xDEAD_CE11;

/// A small buffer.
pub(crate) struct Cell<D: DescriptorDevice> {
    page: Arc<MappedBuffer<D>>,
    /// That of the page.
    handle: D::Buffer,
    first: u64,
}

impl<D: DescriptorDevice> Cell<D> {
    pub(crate) fn descriptor<'a>(&'a self, device: &D) -> D::Descriptor<'a> {
        let range = self.first..self.first + CELL;
        // SAFETY: the page lives as long as the cell, was made for this use, and the range lies in it.
        unsafe { device.buffer_descriptor(&self.handle, range, BufferUse::ReadOnly) }
    }

    /// Keeps the cell alive for as long as its descriptor can be read.
    pub(crate) fn keep(self: &Arc<Self>) -> Option<KeepAlive> {
        Some(self.clone())
    }
}

/// A cell, and the value that is read there.
pub(crate) type KnownCell<D> = (Arc<Cell<D>>, u32);

/// All cells.
pub(crate) struct Cells<D: DescriptorDevice> {
    free: Vec<Arc<Cell<D>>>,
    /// Cells that their owners released and that the GPU may still read, oldest first.
    leaving: VecDeque<Arc<Cell<D>>>,
    pages: u64,
    /// The last value that was written; each is written once.
    value: u32,
}

impl<D: DescriptorDevice> Cells<D> {
    pub(crate) fn new() -> Self {
        Self { free: Vec::new(), leaving: VecDeque::new(), pages: 0, value: 0 }
    }

    /// Creates cells ahead of demand until there are this many.
    pub(crate) fn reserve<R: DescriptorReader<D>>(
        &mut self,
        count: u64,
        allocator: &Arc<Allocator<D>>,
        reader: &R,
    ) -> Outcome {
        let desc = MemoryUsage::Upload.with_name("cells");
        while self.pages * PAGE < count {
            let page = MappedBuffer::new(allocator, &reader.buffer_info(PAGE * CELL, false), &desc)?;
            let (handle, page) = (page.handle(), Arc::new(page));
            self.free.extend(
                (0..PAGE).map(|at| {
                    Arc::new(Cell { page: page.clone(), handle: handle.clone(), first: at * CELL })
                }),
            );
            self.pages += 1;
        }
        self.leaving.reserve(self.free.len());
        Ok(())
    }

    /// Returns a cell with a value that no cell had before.
    pub(crate) fn take(&mut self) -> Outcome<KnownCell<D>> {
        let cell = self.free.pop().ok_or("the GPU keeps more cells than there are")?;
        self.value += 1;
        cell.page.write(cell.first, &self.value.to_ne_bytes())?;
        Ok((cell, self.value))
    }

    /// Releases a cell.
    pub(crate) fn leave(&mut self, cell: Arc<Cell<D>>) {
        self.leaving.push_back(cell);
    }

    /// Makes cells available again that nothing keeps alive any more.
    pub(crate) fn reclaim(&mut self) -> Outcome {
        while self.leaving.front_mut().is_some_and(|cell| Arc::get_mut(cell).is_some()) {
            if let Some(cell) = self.leaving.pop_front() {
                cell.page.write(cell.first, &GONE.to_ne_bytes())?;
                self.free.push(cell);
            }
        }
        Ok(())
    }

    /// Returns the number of cells in use.
    pub(crate) fn kept(&self) -> u64 {
        self.pages * PAGE - self.free.len() as u64
    }
}
