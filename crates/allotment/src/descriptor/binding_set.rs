//! Binding sets: the descriptor tables of a material, a pass or an object, and the resources that they refer
//! to.
//!
//! A set keeps its resources alive: a bound resource lives until it is unbound and the GPU has finished with
//! it, and no later recording finds a descriptor of a destroyed resource. Binding to a set in flight gives it
//! another table (copy-on-write): work in flight continues with the old one.
//!
//! # Cost
//!
//! Committing a set for a draw is one addition in the recording's chunk and one bulk copy of the dynamic
//! descriptors; the long-lived table is only referenced.

use core::fmt;
use std::sync::Arc;

use super::binding_layout::{BindFrequency, BindingLayout};
use super::cpu_heap::CpuDescriptorRange;
use super::error::DescriptorError;
use super::fill::DescriptorFill;
use super::range::DescriptorRange;
use super::slots::KeepAlive;
use super::transient::{TableLocation, TransientDescriptors};
use crate::device::{BufferUse, DescriptorDevice};
use crate::memory::Buffer;
use crate::sync::locked;

/// The tables of a set for one draw.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let layout = gpu.descriptors()?.binding_layout(&[Binding::mutable("albedo")])?;
/// let material = BindingSet::new(&layout)?;
/// let frame = gpu.begin_frame()?;
/// let draw = material.commit(&mut frame.transient_descriptors()?)?;
/// println!("shaders find the material at descriptor {}", draw.table.ok_or("one binding")?.first);
/// assert!(draw.dynamic.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundSet {
    /// The set's long-lived table: static and mutable bindings. `None` if there are none.
    pub table: Option<TableLocation>,
    /// The draw's own table: dynamic bindings. `None` if there are none.
    pub dynamic: Option<TableLocation>,
}

/// The bindings of a [layout](BindingLayout). Unbound descriptors are null.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{
///     Binding, BindingLayout, BindingSet, ShaderVisibleHeap, ShaderVisibleHeapDesc, CpuDescriptorHeap, CpuDescriptorHeapDesc,
/// };
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferDesc, BufferUse, DescriptorHeapType};
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker};
/// use allotment::memory::OwningAllocator;
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
/// let heap = Arc::new(ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::resources())?);
/// let cpu_heap = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
/// let cpu_heap = Arc::new(CpuDescriptorHeap::new(&allocator, &tracker, cpu_heap)?);
///
/// let bindings = [Binding::mutable("material"), Binding::dynamic("instance")];
/// let layout = BindingLayout::new(&heap, &cpu_heap, &bindings)?;
/// let mut set = BindingSet::new(&layout)?;
///
/// let desc = AllocationOptions::new(MemoryUsage::GpuOnly);
/// let material = Arc::new(memory.create_buffer(&BufferDesc::new(256).into(), &desc)?);
/// // SAFETY: buffers of the simulated device can be used for anything.
/// unsafe { set.bind_buffer(0, 0, &material, 0..256, BufferUse::ReadOnly) }?;
/// drop(material); // The set has it.
///
/// let recording = tracker.record("a frame");
/// let mut transient = heap.begin(&recording)?;
/// let instance = Arc::new(memory.create_buffer(&BufferDesc::new(256).into(), &desc)?);
/// // SAFETY: as above.
/// unsafe { set.bind_buffer(1, 0, &instance, 0..256, BufferUse::ReadOnly) }?;
/// let draw = set.commit(&mut transient)?;
/// println!("tables at {:?} and {:?}", draw.table, draw.dynamic);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BindingSet<D: DescriptorDevice> {
    layout: BindingLayout<D>,
    /// Static and mutable bindings.
    table: Option<DescriptorRange<D>>,
    /// Dynamic bindings.
    dynamic: Option<CpuDescriptorRange>,
    /// The resources by descriptor: those of the table except static ones, which the layout keeps, and then the
    /// dynamic ones.
    keeps: Vec<Option<KeepAlive>>,
}

impl<D: DescriptorDevice> BindingSet<D> {
    /// Creates a set with static bindings only.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Missing`] if a static binding is not bound, or the error of an allocation.
    pub fn new(layout: &BindingLayout<D>) -> Result<Self, DescriptorError> {
        let inner = &layout.inner;
        // All must be bound by now: the set copies them once, and would never see one that is bound later.
        inner.check_statics()?;
        let mut table = if inner.table == 0 { None } else { Some(inner.heap.allocate(inner.table)?) };
        // Static bindings come first in the table, so one copy covers all of them.
        if let (Some(table), Some(range)) = (&mut table, &locked(&inner.statics).range) {
            table.copy_from(0, &inner.cpu_heap, range)?;
        }
        let dynamic = match inner.dynamic {
            0 => None,
            count => {
                let mut range = inner.cpu_heap.allocate(count)?;
                // Each commit copies the whole range, and a range with unwritten descriptors cannot be copied.
                inner.cpu_heap.fill(&mut range, DescriptorFill::Null)?;
                Some(range)
            }
        };
        // Without the static ones, whose resources the layout keeps alive.
        let kept = inner.table - inner.static_count + inner.dynamic;
        Ok(Self { layout: layout.clone(), table, dynamic, keeps: (0..kept).map(|_| None).collect() })
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &BindingLayout<D> {
        &self.layout
    }

    /// Binds the `at`-th descriptor of a mutable or dynamic binding. `keep` is kept alive as long as it is
    /// bound and the GPU may read the descriptor. If the set's table is in flight, the set gets another one.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoSuchBinding`], [`DescriptorError::WrongBinding`] for a static binding,
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::WrongKind`], or the error of allocating another
    /// table. The bindings are unchanged then.
    pub fn bind(
        &mut self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        // Every check comes before the table is renewed, so that an error costs no table.
        let place = inner.locate(binding, at, |frequency| frequency != BindFrequency::Static)?;
        let (expected, found) = (inner.heap.heap_type().into(), D::descriptor_kind(descriptor));
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        let is_dynamic = inner.places[binding].frequency == BindFrequency::Dynamic;
        let missing = || DescriptorError::NoSuchBinding { binding };
        let kept = if is_dynamic {
            // A CPU range, which the GPU never reads: draws have copies, so it is written in place.
            let range = self.dynamic.as_mut().ok_or_else(missing)?;
            inner.cpu_heap.write(range, place, descriptor)?;
            inner.table - inner.static_count + place
        } else {
            let table = self.table.as_mut().ok_or_else(missing)?;
            // Renewed on the first write after a commit only; further writes before the next commit go to the
            // same table.
            if table.is_in_use() {
                table.renew()?;
            }
            table.write(place, descriptor)?;
            place - inner.static_count
        };
        if let Some(old) = core::mem::replace(&mut self.keeps[kept as usize], keep) {
            // Recorded draws may still read the old descriptor.
            inner.heap.shared.retire_keep(old);
        }
        Ok(())
    }

    /// Binds a range of a buffer, which the set keeps alive.
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind), and [`DescriptorError::BadRange`] if the range is empty, exceeds the
    /// buffer, is not aligned as its [use](BufferUse) requires, or is larger than the device allows;
    /// [`DescriptorError::WrongDevice`] if the buffer belongs to another device;
    /// [`DescriptorError::Relocatable`] if defragmentation may move it.
    ///
    /// # Safety
    ///
    /// The buffer was created for this use: on Vulkan with `STORAGE_BUFFER` or `UNIFORM_BUFFER`, and
    /// `SHADER_DEVICE_ADDRESS` if descriptors are in buffers; on Direct3D 12 with unordered access for
    /// [`BufferUse::ReadWrite`].
    pub unsafe fn bind_buffer(
        &mut self,
        binding: usize,
        at: u32,
        buffer: &Arc<Buffer<D>>,
        range: core::ops::Range<u64>,
        usage: BufferUse,
    ) -> Result<(), DescriptorError> {
        let allocator = Arc::clone(self.layout.inner.heap.allocator());
        let (handle, of_device) =
            buffer.with_owned(|owned, _| (owned.handle().clone(), owned.allocator().device().id()));
        if of_device != allocator.device().id() {
            return Err(DescriptorError::WrongDevice);
        }
        // A move gives the buffer another handle, and nothing here would write the descriptor again.
        if buffer.is_relocatable() {
            return Err(DescriptorError::Relocatable);
        }
        let limits = allocator.device().descriptor_limits();
        let lies = range.start < range.end && range.end <= buffer.size();
        // Rules of Direct3D 12, applied on each API: a constant buffer view has a multiple of 256 bytes, a raw view
        // whole words.
        let unit = if usage == BufferUse::Constants { 256 } else { 4 };
        let fits = range.end % unit == 0 && limits.buffer_alignment(usage).is_aligned(range.start);
        if !lies || !fits || range.end - range.start > limits.max_buffer_range(usage) {
            return Err(DescriptorError::BadRange {
                start: range.start,
                end: range.end,
                available: buffer.size(),
            });
        }
        // SAFETY: the buffer lives as long as it is borrowed, and the range was checked; the rest is the
        // caller's promise.
        let descriptor = unsafe { allocator.device().buffer_descriptor(&handle, range, usage) };
        let keep: KeepAlive = buffer.clone();
        self.bind(binding, at, &descriptor, Some(keep))
    }

    /// Returns the tables for a draw: the location of the set's table, and of a copy of the dynamic descriptors
    /// that are bound now.
    ///
    /// # Errors
    ///
    /// Those of [`TransientDescriptors::allocate`] and [`TransientDescriptors::place`].
    #[inline]
    pub fn commit(&self, transient: &mut TransientDescriptors<D>) -> Result<BoundSet, DescriptorError> {
        // Marks the table as in use: the next `bind` writes to another one.
        let table = self.table.as_ref().map(|table| transient.place(table)).transpose()?;
        let dynamic = match &self.dynamic {
            Some(range) => {
                let mut copied = transient.allocate(range.count())?;
                copied.copy_from(0, &self.layout.inner.cpu_heap, range)?;
                Some(copied.place())
            }
            None => None,
        };
        Ok(BoundSet { table, dynamic })
    }
}

impl<D: DescriptorDevice> Drop for BindingSet<D> {
    /// The table and the resources are released once the recordings that are open now have completed.
    fn drop(&mut self) {
        let inner = &self.layout.inner;
        if let Some(range) = self.dynamic.take() {
            // Freed at once, since draws have copies.
            let freed = inner.cpu_heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
        inner.heap.shared.retire_keeps(self.keeps.drain(..).flatten().collect());
    }
}

impl<D: DescriptorDevice> fmt::Debug for BindingSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindingSet")
            .field("layout", &self.layout)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
