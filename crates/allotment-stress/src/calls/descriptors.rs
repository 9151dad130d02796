//! Descriptors: slots, tables, chunks, sets, samplers.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use allotment::descriptor::{BindingSet, DescriptorFill, KeepAlive};
use allotment::device::{AddressMode, Compare, Filter, SamplerDesc};
use allotment::memory::Buffer;

use super::Player;
use crate::world::{Descriptors, device_local};
use crate::{Stressed, raw};

/// Most descriptors of a heap; without a limit its growth would not end.
const MOST: u32 = 2000;

/// An iterator that panics before its end, as a caller's iterator may.
struct Breaks<I> {
    inner: I,
    left: usize,
}

impl<I: ExactSizeIterator> Iterator for Breaks<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.left == 0 {
            // Like a panic, without the message.
            resume_unwind(Box::new("the caller's iterator"));
        }
        self.left -= 1;
        self.inner.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<I: ExactSizeIterator> ExactSizeIterator for Breaks<I> {}

impl<'w, D: Stressed> Player<'w, D> {
    fn descriptors(&self) -> Option<(&'w Descriptors<D>, &'w Arc<Buffer<D>>)> {
        Some((self.world.descriptors.as_ref()?, self.world.named.as_ref()?))
    }

    /// A buffer that nobody else has.
    fn new_named(&mut self) -> Option<Arc<Buffer<D>>> {
        let made = self.world.memory.create_buffer(&self.world.describable(), &device_local());
        self.done(made).map(Arc::new)
    }

    pub(super) fn insert(&mut self) {
        let Some((descriptors, _)) = self.descriptors() else { return };
        let Some(buffer) = self.new_named() else { return };
        let keep: KeepAlive = buffer.clone();
        let handle = buffer.handle();
        let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 0..256);
        let inserted = descriptors.heap.insert(&descriptor, Some(keep));
        if let Some(slot) = self.done(inserted)
            && let Some(slot) = descriptors.slots.put(slot)
        {
            self.done(descriptors.heap.remove(slot));
        }
    }

    pub(super) fn insert_all(&mut self) {
        let Some((descriptors, _)) = self.descriptors() else { return };
        let count = self.input.below(9);
        let buffers: Vec<_> = (0..count).filter_map(|_| self.new_named()).collect();
        let device = &self.world.device;
        let handles: Vec<_> = buffers.iter().map(|buffer| buffer.handle()).collect();
        let mut all: Vec<(D::Descriptor<'_>, Option<KeepAlive>)> = Vec::new();
        for (buffer, handle) in buffers.iter().zip(&handles) {
            let keep: KeepAlive = buffer.clone();
            all.push((raw::buffer_descriptor(device, handle, 0..256), Some(keep)));
        }
        let fault = self.input.below(4);
        let at = self.input.index(all.len() + 1);
        if let (0, Some(sampler)) = (fault, &self.world.odd_sampler) {
            all.insert(at, (raw::sampler_descriptor(device, sampler), None));
        }
        let inserted = if fault == 1 {
            let broken = Breaks { inner: all.into_iter(), left: at };
            match catch_unwind(AssertUnwindSafe(|| descriptors.heap.insert_all(broken))) {
                Ok(inserted) => self.done(inserted),
                Err(_) => {
                    self.tally.refused(self.call, &"Panicked");
                    None
                }
            }
        } else {
            let inserted = descriptors.heap.insert_all(all.into_iter());
            self.done(inserted)
        };
        // Buffers of refused calls are dropped here.
        drop(buffers);
        for slot in inserted.into_iter().flatten() {
            if let Some(slot) = descriptors.slots.put(slot) {
                self.done(descriptors.heap.remove(slot));
            }
        }
    }

    pub(super) fn remove(&mut self) {
        let Some((descriptors, _)) = self.descriptors() else { return };
        let Some(slot) = descriptors.slots.take(&mut self.input) else { return };
        if self.input.once_in(3) {
            let Some(buffer) = self.new_named() else { return };
            let keep: KeepAlive = buffer.clone();
            let handle = buffer.handle();
            let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 256..512);
            let replaced = descriptors.heap.replace(slot, &descriptor, Some(keep));
            let slot = self.done(replaced).unwrap_or(slot);
            let _ = descriptors.slots.put(slot);
            return;
        }
        self.done(descriptors.heap.remove(slot));
        if self.input.once_in(8) && descriptors.heap.remove(slot).is_ok() {
            self.tally.find("a slot was removed twice".to_owned());
        }
    }

    pub(super) fn use_table(&mut self) {
        let Some((descriptors, named)) = self.descriptors() else { return };
        let count = if self.input.once_in(16) {
            self.input.pick(&[0, u32::MAX, 5000])
        } else {
            1 + self.input.below(8) as u32
        };
        match self.input.below(6) {
            0 | 1 => {
                let made = descriptors.heap.allocate(count);
                self.done(made).into_iter().for_each(|range| drop(descriptors.ranges.put(range)));
            }
            2 => {
                if descriptors.ranges.take(&mut self.input).is_some() {
                    self.tally.made(self.call);
                }
            }
            what => {
                let Some(mut range) = descriptors.ranges.take(&mut self.input) else { return };
                let at = self.input.below(9) as u32;
                match what {
                    3 => drop(self.done(range.renew())),
                    4 => {
                        if let Some(staged) = descriptors.staged.take(&mut self.input) {
                            self.done(range.copy_from(at, &descriptors.staging, &staged));
                            if let Some(staged) = descriptors.staged.put(staged) {
                                self.done(descriptors.staging.free(staged));
                            }
                        }
                    }
                    _ => {
                        let handle = named.handle();
                        let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 0..256);
                        self.done(range.write(at, &descriptor));
                    }
                }
                drop(descriptors.ranges.put(range));
            }
        }
    }

    pub(super) fn use_transient(&mut self) {
        let Some((descriptors, named)) = self.descriptors() else { return };
        if self.open.is_empty() {
            return;
        }
        let index = self.input.index(self.open.len());
        let Some(mut transient) = self.open[index].transient.take() else { return };
        if self.input.once_in(3)
            && let Some(range) = descriptors.ranges.take(&mut self.input)
        {
            self.done(transient.place(&range));
            drop(descriptors.ranges.put(range));
        }
        let count = if self.input.once_in(16) {
            self.input.pick(&[0, u32::MAX, 5000])
        } else {
            1 + self.input.below(8) as u32
        };
        let (what, at) = (self.input.below(3), self.input.below(9) as u32);
        match transient.allocate(count) {
            Ok(mut table) => match what {
                0 => {
                    let fill = self.input.pick(&[
                        DescriptorFill::Null,
                        DescriptorFill::Poison,
                        DescriptorFill::Leave,
                    ]);
                    let filled = table.fill(fill);
                    self.done(filled);
                }
                1 => {
                    if let Some(staged) = descriptors.staged.take(&mut self.input) {
                        let copied = table.copy_from(at, &descriptors.staging, &staged);
                        self.done(copied);
                        if let Some(staged) = descriptors.staged.put(staged) {
                            self.done(descriptors.staging.free(staged));
                        }
                    }
                }
                _ => {
                    let handle = named.handle();
                    let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 0..256);
                    let written = table.write(at, &descriptor);
                    self.done(written);
                }
            },
            Err(error) => drop(self.done::<(), _>(Err(error))),
        }
        self.open[index].transient = Some(transient);
    }

    pub(super) fn bind(&mut self) {
        let Some((descriptors, named)) = self.descriptors() else { return };
        let Some(mut set) = descriptors.sets.take(&mut self.input) else {
            let made = BindingSet::new(&descriptors.layout);
            self.done(made).into_iter().for_each(|set| drop(descriptors.sets.put(set)));
            return;
        };
        let (binding, at) = (self.input.index(4), self.input.below(5) as u32);
        match self.input.below(8) {
            0 => {
                drop(set);
                self.tally.made(self.call);
                return;
            }
            1 => {
                let made = BindingSet::new(&descriptors.layout);
                self.done(made).into_iter().for_each(|set| drop(descriptors.sets.put(set)));
            }
            2 | 3 => {
                let Some(buffer) = self.new_named() else { return };
                let start = self.input.pick(&[0, 256, 0, u64::MAX - 255]);
                let end = start.saturating_add(256);
                self.done(raw::bind_buffer(&mut set, binding, at, &buffer, start..end));
            }
            4 => {
                let keep: KeepAlive = named.clone();
                let handle = named.handle();
                let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 0..256);
                let keep = (at % 2 == 0).then_some(keep);
                self.done(set.bind(binding, at, &descriptor, keep));
            }
            _ => {
                let transient = self.open.iter_mut().find_map(|open| open.transient.as_mut());
                if let Some(transient) = transient {
                    let committed = set.commit(transient);
                    self.done(committed);
                }
            }
        }
        drop(descriptors.sets.put(set));
    }

    pub(super) fn use_staging(&mut self) {
        let Some((descriptors, named)) = self.descriptors() else { return };
        let staging = &descriptors.staging;
        match self.input.below(8) {
            0..=2 => {
                let count = if self.input.once_in(16) {
                    self.input.pick(&[0, 5000])
                } else {
                    1 + self.input.below(8) as u32
                };
                if let Some(range) = self.done(staging.allocate(count))
                    && let Some(range) = descriptors.staged.put(range)
                {
                    self.done(staging.free(range));
                }
            }
            3 => {
                staging.trim();
                staging.reclaim();
                self.tally.made(self.call);
            }
            what => {
                let Some(mut range) = descriptors.staged.take(&mut self.input) else { return };
                let at = self.input.below(9) as u32;
                match what {
                    4 => {
                        self.done(staging.free(range));
                        return;
                    }
                    5 => {
                        self.done(staging.retire(range));
                        return;
                    }
                    6 => {
                        let fill = self.input.pick(&[
                            DescriptorFill::Null,
                            DescriptorFill::Poison,
                            DescriptorFill::Leave,
                        ]);
                        self.done(staging.fill(&mut range, fill));
                    }
                    _ => {
                        let handle = named.handle();
                        let descriptor = raw::buffer_descriptor(&self.world.device, &handle, 0..256);
                        self.done(staging.write(&mut range, at, &descriptor));
                    }
                }
                if let Some(range) = descriptors.staged.put(range) {
                    self.done(staging.free(range));
                }
            }
        }
    }

    pub(super) fn grow(&mut self) {
        let Some((descriptors, _)) = self.descriptors() else { return };
        let heap = &descriptors.heap;
        match self.input.below(4) {
            0 if heap.statistics().capacity < MOST => {
                let [slots, tables, transient] = [0; 3].map(|_: u32| self.input.below(9) as u32 * 4);
                self.done(heap.grow(slots, tables, transient));
            }
            1 => {
                heap.reclaim();
                let _ = (heap.retiring(), heap.statistics());
                self.tally.made(self.call);
            }
            2 => drop(self.done(heap.compact())),
            _ => {
                let step = heap.compact_step(self.input.below(40) as u32);
                self.done(step);
            }
        }
    }

    pub(super) fn use_sampler(&mut self) {
        let Some(samplers) = &self.world.samplers else { return };
        let mode =
            self.input.pick(&[AddressMode::Repeat, AddressMode::ClampToEdge, AddressMode::ClampToBorder]);
        let desc = SamplerDesc {
            mag_filter: self.input.pick(&[Filter::Linear, Filter::Nearest]),
            address: [mode; 3],
            lod_bias: self.input.pick(&[0.0, 1.0, -16.0, 16.0, f32::NAN, f32::INFINITY]),
            min_lod: self.input.pick(&[0.0, 1.0, -1.0, f32::NAN]),
            max_lod: self.input.pick(&[1000.0, 1.0, f32::MAX, f32::INFINITY]),
            max_anisotropy: self.input.below(18) as u8,
            compare: self.input.pick(&[None, Some(Compare::Less)]),
            ..SamplerDesc::default()
        };
        let found = samplers.get(&desc);
        drop(self.done(found));
        if self.input.once_in(4) {
            samplers.reclaim();
        }
    }
}
