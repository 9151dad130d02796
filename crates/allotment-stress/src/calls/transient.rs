//! Transient heaps of `Gpu`s: frames that are described alike, in turn, or wrongly, and what may be asked of their resources.
//!
//! Each thread has heaps of its own. Some outlive their `Gpu`.

use std::sync::{Arc, Weak};

use allotment::device::{BufferDesc, BufferUse, BufferViewDesc, ImageViewDesc, SharingMode};
use allotment::gpu::{Frame, TransientGraph, TransientHeap, TransientResources};
use allotment::lifetime::TimelinePoints;
use allotment::memory::Buffer;
use allotment::transient::{HeapLimits, TransientPass};

use super::Player;
use crate::world::OwnGpu;
use crate::{Input, Stressed, raw};

/// Most heaps of a thread.
const MOST: usize = 2;

const NAMES: [&str; 8] =
    ["shadows", "albedo", "normals", "depth", "lit", "bright", "exposure", "accumulated"];

/// A heap, and the kinds of frames that are described to it.
pub(crate) struct TheirHeap<D: Stressed> {
    heap: TransientHeap<D>,
    of: Weak<OwnGpu<D>>,
    /// The seed of each.
    kinds: [u64; 3],
}

/// What a frame got.
struct Described {
    passes: Vec<TransientPass>,
    buffers: Vec<allotment::gpu::TransientBuffer>,
    images: Vec<allotment::gpu::TransientImage>,
}

impl<D: Stressed> Player<'_, D> {
    pub(super) fn use_transient_heap(&mut self) {
        if self.heaps.is_empty() || (self.heaps.len() < MOST && self.input.once_in(16)) {
            self.create_transient_heap();
            return;
        }
        let at = self.input.index(self.heaps.len());
        let mut own = self.heaps.swap_remove(at);
        match self.input.below(32) {
            0 => {
                drop(own);
                self.tally.made(self.call);
                return;
            }
            1 => own.heap.release(),
            2 => {
                let mut steps = self.input.below(40);
                own.heap.improve(|| {
                    steps = steps.saturating_sub(1);
                    steps == 0
                });
            }
            3 => own.kinds[self.input.index(3)] = self.input.below(1 << 32),
            _ => {}
        }
        // Without its `Gpu` it can only be dropped.
        let Some(gpu) = own.of.upgrade() else { return };
        let other = if self.input.once_in(16) { self.some_gpu() } else { None };
        let is_own = other.as_ref().is_none_or(|other| Arc::ptr_eq(other, &gpu));
        let begun = other.as_ref().unwrap_or(&gpu).gpu.begin_frame();
        if let Some(frame) = self.done(begun) {
            self.transient_frame(&frame, &mut own, is_own);
            if self.input.once_in(8) {
                drop(frame);
            } else {
                self.done(frame.end());
            }
        }
        self.heaps.push(own);
    }

    fn create_transient_heap(&mut self) {
        let Some(own) = self.some_gpu() else { return };
        let mut limits = HeapLimits::default().with_kept_percent(self.input.pick(&[10, 0, 1000]));
        if self.input.once_in(3) {
            limits = limits.with_heaps(
                self.input.pick(&[0, 1, 2, u32::MAX]),
                self.input.pick(&[4096, 0, 65536, 1 << 62]),
            );
        }
        let kinds = [(); 3].map(|()| self.input.below(1 << 32));
        let heap = own.gpu.transient_heap(limits);
        self.heaps.push(TheirHeap { heap, of: Arc::downgrade(&own), kinds });
        self.tally.made(self.call);
    }

    fn transient_frame(&mut self, frame: &Frame<D>, own: &mut TheirHeap<D>, is_own: bool) {
        let kind = own.kinds[self.input.index(3)];
        let graph = frame.transient(&mut own.heap);
        if graph.is_ok() != is_own {
            self.tally.find("a transient heap is described by a frame of another `Gpu`".to_owned());
        }
        let Some(mut graph) = self.done(graph) else { return };
        let described = self.describe(&mut graph, kind);
        if self.input.once_in(16) {
            drop(graph);
            return;
        }
        let planned = graph.plan();
        let Some(transient) = self.done(planned) else { return };
        self.use_transient_resources(frame, &transient, &described);
        for &pass in &described.passes {
            if self.input.once_in(16) {
                continue;
            }
            let queue = self.real_queue();
            let waits = transient.waits(&[pass]);
            let mut room = TimelinePoints::ROOM;
            let waits = waits.as_slice(&mut room);
            let device = &self.world.device;
            let submitted =
                frame.submit_after(queue, waits, |queue, waits| raw::submit_nothing(device, queue, waits));
            if let Some(point) = self.done(submitted)
                && !self.input.once_in(8)
            {
                transient.submitted(&[pass], point);
            }
        }
    }

    /// Describes a frame of a kind, which is the same each time but for a mistake now and then.
    fn describe(&mut self, graph: &mut TransientGraph<'_, D>, kind: u64) -> Described {
        let mut of_kind = Input::of_seed(kind);
        let (mut passes, mut buffers, mut images) = (Vec::new(), Vec::new(), Vec::new());
        let queues = self.world.device.properties().queues.len();
        for _ in 0..of_kind.below(7) {
            let queue = allotment::device::QueueIndex(of_kind.index(queues) as u8);
            let queue = if self.input.once_in(128) { self.queue() } else { queue };
            let waits: Vec<TransientPass> =
                passes.iter().copied().filter(|_| of_kind.below(3) == 0).collect();
            let pass = graph.pass(queue, &waits);
            passes.extend(self.done(pass));
        }
        for name in NAMES.iter().take(1 + of_kind.index(NAMES.len())) {
            let uses: Vec<TransientPass> = passes.iter().copied().filter(|_| of_kind.below(2) == 0).collect();
            let (mut uses, reads) = match of_kind.below(4) {
                // Those that read come first.
                0 => {
                    let (reads, fills) = uses.split_at(uses.len() / 2);
                    (fills, reads)
                }
                _ => (&uses[..], &uses[..0]),
            };
            if self.input.once_in(128) {
                uses = &passes;
            }
            let name = if self.input.once_in(128) { NAMES[0] } else { name };
            if of_kind.below(2) == 0 {
                let desc = BufferDesc::new(256 << of_kind.below(8)).with_usage(D::DESCRIPTOR_USAGE);
                let mut desc = desc.with_sharing_mode(SharingMode::Concurrent);
                if self.input.once_in(128) {
                    desc.size = self.size();
                }
                let made = if reads.is_empty() {
                    graph.buffer(name, &desc.into(), uses)
                } else {
                    graph.history_buffer(name, &desc.into(), uses, reads)
                };
                buffers.extend(self.done(made));
            } else {
                let desc = allotment::device::ImageDesc::new(8 << of_kind.below(4), 16, D::IMAGE_FORMAT);
                let desc = desc.with_sharing_mode(SharingMode::Concurrent);
                let desc = if self.input.once_in(128) { self.image_desc() } else { desc };
                let made = if reads.is_empty() {
                    graph.image(name, &desc.into(), uses)
                } else {
                    graph.history_image(name, &desc.into(), uses, reads)
                };
                images.extend(self.done(made));
            }
        }
        Described { passes, buffers, images }
    }

    fn use_transient_resources(
        &mut self,
        frame: &Frame<D>,
        transient: &TransientResources<'_, D>,
        described: &Described,
    ) {
        let plan = transient.plan();
        for &pass in &described.passes {
            if transient
                .first_uses(pass)
                .any(|first| plan.placement(first.resource).is_some() != first.shares_memory)
            {
                self.tally.find(
                    "a first use is said to share memory, and has no place; or not, and has one".to_owned(),
                );
            }
        }
        for &handle in &described.buffers {
            let buffer = transient.buffer(handle);
            if plan.placement(handle.resource()).is_some() {
                self.misuse_transient(frame, buffer);
            }
            if self.input.once_in(4) {
                let view = BufferViewDesc::new(0..buffer.size().min(256), BufferUse::ReadOnly);
                let made = transient.buffer_view(handle, &view);
                self.done(made);
            }
            if self.input.once_in(4) {
                let view = BufferViewDesc::new(0..256, BufferUse::ReadOnly);
                let made = transient.buffer_slot(handle, &view);
                self.done(made);
            }
        }
        for &handle in &described.images {
            let image = transient.image(handle);
            if plan.placement(handle.resource()).is_some() && (image.is_active() || image.activate().is_ok())
            {
                self.tally.find("a planned image is active".to_owned());
            }
            if self.input.once_in(4) {
                let made = transient.image_view(handle, &ImageViewDesc::sampled());
                self.done(made);
            }
        }
    }

    /// Calls that reach the bytes of a buffer which a plan has placed.
    fn misuse_transient(&mut self, frame: &Frame<D>, buffer: &Arc<Buffer<D>>) {
        let mut found = [0; 4];
        let gpu = frame.gpu();
        let is_accepted = match self.input.below(8) {
            0 => gpu.uploads().write_buffer(buffer, 0, &[1; 4]).is_ok(),
            1 => gpu.reads().read_buffer(buffer, 0, 4).is_ok(),
            2 => gpu.read_buffer(buffer, 0, &mut found).is_ok(),
            3 => buffer.write(0, &[1; 4]).is_ok(),
            4 => buffer.read(0, &mut found).is_ok(),
            5 => buffer.activate().is_ok(),
            _ => buffer.is_active(),
        };
        if is_accepted {
            self.tally.find("a buffer that a plan has placed was accessed".to_owned());
        }
    }
}
