//! What is bound for one material, one pass, one object: tables of descriptors, and what they point at.
//!
//! A set owns what it points at: a resource that is bound lives until it is bound no more and the GPU is done with it,
//! and no recording that is opened later finds a descriptor of something that is gone. To bind something to a set that
//! is in flight makes it another table (copy-on-write): what is in flight goes on with the old one.
//!
//! # Cost
//!
//! To commit a set for a draw is one addition in the recording's chunk and one bulk copy of the dynamic descriptors; the
//! long-lived table is only named.

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
use crate::memory::OwnedBuffer;
use crate::sync::locked;

/// What a draw is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundSet {
    /// The set's long-lived table: static and mutable bindings. `None` where there are none of these.
    pub table: Option<TableLocation>,
    /// The draw's own: dynamic bindings. `None` where there are none.
    pub dynamic: Option<TableLocation>,
}

/// Bindings of a [layout](BindingLayout). Unbound descriptors are of nothing.
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
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
/// let heap = Arc::new(ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::resources())?);
/// let staging = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
/// let staging = Arc::new(CpuDescriptorHeap::new(&allocator, &tracker, staging)?);
///
/// let bindings = [Binding::mutable("material"), Binding::dynamic("instance")];
/// let layout = BindingLayout::new(&heap, &staging, &bindings)?;
/// let mut set = BindingSet::new(&layout)?;
///
/// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::GpuOnly);
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
    /// Dynamic ones.
    dynamic: Option<CpuDescriptorRange>,
    /// What is bound, by descriptor: those of the table, but for static ones, which the layout has; then the others.
    keeps: Vec<Option<KeepAlive>>,
}

impl<D: DescriptorDevice> BindingSet<D> {
    /// A set with nothing bound but what is static.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Missing`] where a static binding was not bound, or there is no room.
    pub fn new(layout: &BindingLayout<D>) -> Result<Self, DescriptorError> {
        let inner = &layout.inner;
        inner.check_statics()?;
        let mut table = if inner.table == 0 { None } else { Some(inner.heap.allocate(inner.table)?) };
        if let (Some(table), Some(range)) = (&mut table, &locked(&inner.statics).range) {
            table.copy_from(0, &inner.cpu_heap, range)?;
        }
        let dynamic = match inner.dynamic {
            0 => None,
            count => {
                let mut range = inner.cpu_heap.allocate(count)?;
                inner.cpu_heap.fill(&mut range, DescriptorFill::Null)?;
                Some(range)
            }
        };
        let kept = inner.table - inner.static_count + inner.dynamic;
        Ok(Self { layout: layout.clone(), table, dynamic, keeps: (0..kept).map(|_| None).collect() })
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &BindingLayout<D> {
        &self.layout
    }

    /// Binds the `at`-th descriptor of a mutable or dynamic binding. `keep` lives as long as it is bound and as long as
    /// the GPU may read it. Where the set's table is in flight, the set has another one afterwards.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoSuchBinding`], [`DescriptorError::WrongBinding`] where it is static,
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::WrongKind`], or there is no room for another table. What is
    /// bound is as before.
    pub fn bind(
        &mut self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        let place = inner.locate(binding, at, |frequency| frequency != BindFrequency::Static)?;
        let (expected, found) = (inner.heap.heap_type().into(), D::descriptor_kind(descriptor));
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        let is_dynamic = inner.places[binding].frequency == BindFrequency::Dynamic;
        let missing = || DescriptorError::NoSuchBinding { binding };
        let kept = if is_dynamic {
            let range = self.dynamic.as_mut().ok_or_else(missing)?;
            inner.cpu_heap.write(range, place, descriptor)?;
            inner.table - inner.static_count + place
        } else {
            let table = self.table.as_mut().ok_or_else(missing)?;
            if table.is_in_use() {
                table.renew()?;
            }
            table.write(place, descriptor)?;
            place - inner.static_count
        };
        if let Some(old) = core::mem::replace(&mut self.keeps[kept as usize], keep) {
            // Draws that are on their way may read it.
            inner.heap.shared.retire_keep(old);
        }
        Ok(())
    }

    /// Binds a range of a buffer, which the set keeps.
    ///
    /// # Errors
    ///
    /// As for [`bind`](Self::bind), and [`DescriptorError::BadRange`] where the range is empty, is not in the buffer, or
    /// is not at the multiples of bytes that its [use](BufferUse) wants, or is larger than the device allows;
    /// [`DescriptorError::Foreign`] where it is another device's buffer.
    ///
    /// # Safety
    ///
    /// The buffer was made to be used so: on Vulkan with `STORAGE_BUFFER` or `UNIFORM_BUFFER`, and `SHADER_DEVICE_ADDRESS`
    /// where descriptors are in buffers; on Direct3D 12 with unordered access for [`BufferUse::ReadWrite`].
    pub unsafe fn bind_buffer(
        &mut self,
        binding: usize,
        at: u32,
        buffer: &Arc<OwnedBuffer<D>>,
        range: core::ops::Range<u64>,
        usage: BufferUse,
    ) -> Result<(), DescriptorError> {
        let allocator = Arc::clone(self.layout.inner.heap.allocator());
        if buffer.allocator().device().id() != allocator.device().id() {
            return Err(DescriptorError::Foreign);
        }
        let limits = allocator.device().descriptor_limits();
        let lies = range.start < range.end && range.end <= buffer.size();
        let unit = if usage == BufferUse::Constants { 256 } else { 4 };
        let fits = range.end % unit == 0 && limits.buffer_alignment(usage).is_aligned(range.start);
        if !lies || !fits || range.end - range.start > limits.max_buffer_range(usage) {
            return Err(DescriptorError::BadRange {
                start: range.start,
                end: range.end,
                available: buffer.size(),
            });
        }
        // SAFETY: the buffer lives as long as it is borrowed, and the range was checked; the rest is the caller's promise.
        let descriptor = unsafe { allocator.device().buffer_descriptor(buffer.handle(), range, usage) };
        let keep: KeepAlive = buffer.clone();
        self.bind(binding, at, &descriptor, Some(keep))
    }

    /// What a draw of a recording is told: where the set's table is, and where the dynamic descriptors are that are bound
    /// now, copied.
    ///
    /// # Errors
    ///
    /// As for [`TransientDescriptors::allocate`] and [`TransientDescriptors::place`].
    #[inline]
    pub fn commit(&self, transient: &mut TransientDescriptors<D>) -> Result<BoundSet, DescriptorError> {
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
    /// Its table and all that it kept go when the recordings that are open now are over.
    fn drop(&mut self) {
        let inner = &self.layout.inner;
        if let Some(range) = self.dynamic.take() {
            // Draws have copies.
            let freed = inner.cpu_heap.free(range);
            debug_assert!(freed.is_ok(), "it is this heap's");
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
