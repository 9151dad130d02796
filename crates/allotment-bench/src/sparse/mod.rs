//! `sparse`: what it costs to bind memory to a range of a sparse buffer, beside what it costs to allocate that memory.
//!
//! ```text
//!   vkAllocateMemory, vkFreeMemory        of a page
//!   vkQueueBindSparse                     the call alone, and until its fence is signalled
//!   vkCmdCopyBuffer                       between plain buffers, and between sparse ones of pages of each size
//! ```
//!
//! Medians of wall time: the driver's own threads and the kernel do much of this work.

mod buffer;
mod report;

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use ash::vk;

use crate::args::SparseArgs;
use crate::failure::Failure;
use crate::vulkan::{Buffer, Gpu, Transfer};
use buffer::{Binder, Memory, SparseBuffer};
use report::{Report, Row};

const MIB: u64 = 1 << 20;

/// Binds of one call, for the rows of several.
const SEVERAL: u64 = 16;

pub(crate) fn run(args: &SparseArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let binder = Binder::new(&gpu)?;
    let largest = args.mib.iter().copied().max().unwrap_or(1).max(args.copied_mib) * MIB;
    let start = Instant::now();
    let space = SparseBuffer::new(&gpu, largest * SEVERAL)?;
    let created = start.elapsed();
    let mut report = Report::new(&gpu, &space, created);
    let types = gpu.info.memory_types.iter().map(|found| found.index);
    for memory_type in types.filter(|&index| space.needs.memory_type_bits >> index & 1 == 1) {
        let mut bench =
            Bench { gpu: &gpu, binder: &binder, space: &space, args, memory_type, rows: Vec::new() };
        for &mib in &args.mib {
            bench.pages(mib)?;
        }
        bench.copies()?;
        report.add(memory_type, bench.rows);
    }
    report.print(&gpu, args.common.json)
}

/// What all rows of a memory type share.
struct Bench<'a> {
    gpu: &'a Arc<Gpu>,
    binder: &'a Binder,
    space: &'a SparseBuffer,
    args: &'a SparseArgs,
    memory_type: usize,
    rows: Vec<Row>,
}

impl Bench<'_> {
    /// Pages of one size: allocated and freed, bound and unbound, one by one and several at once.
    fn pages(&mut self, mib: u64) -> Result<(), Failure> {
        let size = (mib * MIB).next_multiple_of(self.space.needs.alignment);
        let (mut allocate, mut free) = (Vec::new(), Vec::new());
        let (mut call, mut bound, mut unbind_call, mut unbound) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for turn in 0..u64::from(self.args.repetitions) {
            let start = Instant::now();
            let memory = Memory::new(self.gpu, self.memory_type, size)?;
            allocate.push(start.elapsed());
            // Each time at another address, as a block that grows.
            let at = turn % SEVERAL * size;
            let (alone, whole) = self.binder.bind(self.space, &[bind(at, size, &memory, 0)])?;
            call.push(alone);
            bound.push(whole);
            let (alone, whole) = self.binder.bind(self.space, &[unbind(at, size)])?;
            unbind_call.push(alone);
            unbound.push(whole);
            let start = Instant::now();
            drop(memory);
            free.push(start.elapsed());
        }
        self.add("vkAllocateMemory", mib, &mut allocate);
        self.add("vkFreeMemory", mib, &mut free);
        self.add("bind: call", mib, &mut call);
        self.add("bind: until bound", mib, &mut bound);
        self.add("unbind: call", mib, &mut unbind_call);
        self.add("unbind: until unbound", mib, &mut unbound);

        let (mut together, mut apart) = (Vec::new(), Vec::new());
        let part = (size / SEVERAL).next_multiple_of(self.space.needs.alignment);
        let memory = Memory::new(self.gpu, self.memory_type, part * SEVERAL)?;
        for _ in 0..self.args.repetitions {
            let binds: Vec<_> =
                (0..SEVERAL).map(|index| bind(index * 2 * part, part, &memory, index * part)).collect();
            together.push(self.binder.bind(self.space, &binds)?.1);
            let unbinds: Vec<_> = (0..SEVERAL).map(|index| unbind(index * 2 * part, part)).collect();
            let start = Instant::now();
            for unbind in unbinds {
                self.binder.bind(self.space, &[unbind])?;
            }
            apart.push(start.elapsed());
        }
        self.add("bind 16 parts, one call", mib, &mut together);
        self.add("unbind 16 parts, 16 calls", mib, &mut apart);
        Ok(())
    }

    /// Copies between plain buffers, and between sparse ones.
    fn copies(&mut self) -> Result<(), Failure> {
        let (mib, size) = (self.args.copied_mib, self.args.copied_mib * MIB);
        let mut transfer = Transfer::new(self.gpu)?;
        let plain = [(); 2].map(|()| Buffer::new(self.gpu, self.memory_type, size));
        if let [Ok(Some(from)), Ok(Some(to))] = &plain {
            let mut times = Vec::new();
            for _ in 0..self.args.repetitions {
                times.push(transfer.copy(from, to, size)?);
            }
            self.add("copy, plain buffers", mib, &mut times);
        }
        drop(plain);
        for &page_mib in &self.args.mib {
            let page = (page_mib * MIB).next_multiple_of(self.space.needs.alignment);
            let mut buffers = Vec::new();
            for _ in 0..2 {
                let buffer = SparseBuffer::new(self.gpu, size.next_multiple_of(page))?;
                let count = size.div_ceil(page);
                let pages = (0..count).map(|_| Memory::new(self.gpu, self.memory_type, page));
                let pages = pages.collect::<Result<Vec<_>, _>>()?;
                let binds: Vec<_> =
                    (0..).zip(&pages).map(|(index, memory)| bind(index * page, page, memory, 0)).collect();
                self.binder.bind(&buffer, &binds)?;
                buffers.push((buffer, pages));
            }
            let mut times = Vec::new();
            for _ in 0..self.args.repetitions {
                // SAFETY: both are live and of this device, made for copies, and have memory for `size` bytes.
                times.push(unsafe { transfer.copy_between(buffers[0].0.handle, buffers[1].0.handle, size) }?);
            }
            self.add(&format!("copy, sparse, pages of {page_mib} MiB"), mib, &mut times);
        }
        Ok(())
    }

    fn add(&mut self, what: &str, mib: u64, times: &mut [Duration]) {
        times.sort_unstable();
        let micros = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
        self.rows.push(Row {
            what: what.to_owned(),
            mib,
            median_us: micros(times.get(times.len() / 2)),
            worst_us: micros(times.last()),
        });
    }
}

fn bind(at: u64, size: u64, memory: &Memory, offset: u64) -> vk::SparseMemoryBind {
    vk::SparseMemoryBind::default().resource_offset(at).size(size).memory(memory.handle).memory_offset(offset)
}

fn unbind(at: u64, size: u64) -> vk::SparseMemoryBind {
    vk::SparseMemoryBind::default().resource_offset(at).size(size)
}
