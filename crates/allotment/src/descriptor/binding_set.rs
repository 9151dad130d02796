//! Binding sets: the descriptor tables of a material, a pass or an object, and the resources that they refer
//! to.
//!
//! A set keeps its resources alive: a bound resource lives until it is unbound and the GPU has finished with
//! it, and no later recording finds a descriptor of a destroyed resource. Binding to a set in flight gives it
//! another table (copy-on-write): work in flight continues with the old one. So does a move of a relocatable resource
//! that the set has bound, without a call of the program.
//!
//! # Cost
//!
//! Committing a set for a draw is one addition in the recording's chunk and one bulk copy of the dynamic
//! descriptors; the long-lived table is only referenced.

use core::fmt;
use std::sync::Arc;

use super::binding_layout::{BindFrequency, BindingLayout};
use super::buffer_view::BufferView;
use super::cpu_heap::CpuDescriptorRange;
use super::error::DescriptorError;
use super::fill::DescriptorFill;
use super::image_view::ImageView;
use super::owned_view::OwnedView;
use super::range::DescriptorRange;
use super::relocatable_bindings::{DynamicFollow, RelocatableBindings};
use super::shader_visible_heap::WriteTarget;
use super::shown::Shown;
use super::slots::KeepAlive;
use super::texel_view::TexelBufferView;
use super::transient::{TableLocation, TransientDescriptors};
use crate::device::{BufferUse, BufferViewDesc, DescriptorDevice};
use crate::memory::{Buffer, Image};
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
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker))?;
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
/// set.bind_buffer(0, 0, &material, 0..256, BufferUse::ReadOnly)?;
/// drop(material); // The set has it.
///
/// let recording = tracker.record("a frame");
/// let mut transient = heap.begin(&recording)?;
/// let instance = Arc::new(memory.create_buffer(&BufferDesc::new(256).into(), &desc)?);
/// set.bind_buffer(1, 0, &instance, 0..256, BufferUse::ReadOnly)?;
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
    /// The descriptors of relocatable resources.
    relocatable: RelocatableBindings<D>,
}

impl<D: DescriptorDevice> BindingSet<D> {
    /// Creates a set with static bindings only.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Missing`] if a static binding is not bound, or the error of an allocation.
    #[inline(never)]
    #[track_caller]
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
        let keeps = (0..kept).map(|_| None).collect();
        Ok(Self { layout: layout.clone(), table, dynamic, keeps, relocatable: RelocatableBindings::new() })
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
    #[inline(never)]
    pub fn bind(
        &mut self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let (place, is_dynamic) = self.check(binding, at, descriptor)?;
        if is_dynamic {
            self.write_dynamic(place, descriptor, keep)
        } else {
            self.write_table(place, descriptor, keep)
        }
    }

    /// Returns the index of a descriptor in its table, and whether that is the table of dynamic bindings.
    fn locate(&self, binding: usize, at: u32) -> Result<(u32, bool), DescriptorError> {
        let inner = &self.layout.inner;
        let place = inner.locate(binding, at, |frequency| frequency != BindFrequency::Static)?;
        Ok((place, inner.places[binding].frequency == BindFrequency::Dynamic))
    }

    /// Locates a descriptor, and checks its type.
    fn check(
        &self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(u32, bool), DescriptorError> {
        // Every check comes before the table is renewed, so that an error costs no table.
        let located = self.locate(binding, at)?;
        let (expected, found) = (self.layout.inner.heap.heap_type().into(), D::descriptor_kind(descriptor));
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        Ok(located)
    }

    /// Writes a dynamic descriptor.
    fn write_dynamic(
        &mut self,
        place: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        let range = self.dynamic.as_mut().ok_or(DescriptorError::Stale)?;
        // A CPU range, which the GPU never reads: draws have copies, so it is written in place.
        inner.cpu_heap.write(range, place, descriptor)?;
        self.relocatable.remove_dynamic(place).into_iter().for_each(|it| inner.heap.shared.retire_keep(it));
        self.keep(inner.table - inner.static_count + place, keep);
        Ok(())
    }

    /// Writes a descriptor of the set's table.
    fn write_table(
        &mut self,
        place: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        let table = self.table.as_mut().ok_or(DescriptorError::Stale)?;
        let shared = Arc::clone(table.shared());
        // Most sets have none, and take no lock. Renewed on the first write after a commit only; further writes before the
        // next commit go to the same range.
        if self.relocatable.in_table.is_empty() {
            if table.is_in_use() {
                table.renew()?;
            }
            table.write(place, descriptor)?;
        } else {
            let new = if table.is_in_use() { Some(table.reserve()?) } else { None };
            let mut state = shared.followed.wait();
            let old = table.renew_as(new)?;
            let written = table.write(place, descriptor);
            let target = WriteTarget::Table { entry: table.entry(), at: place };
            let before = written.map(|()| shared.followed.remove(&mut state, target));
            drop(state);
            // Also after a refusal: no step rewrites what is in the old range.
            old.iter().for_each(DescriptorRange::forget);
            let before = before?;
            self.relocatable.in_table.retain(|&other| other != place);
            before.into_iter().for_each(|before| shared.retire_keep(before));
        }
        self.keep(place - inner.static_count, keep);
        Ok(())
    }

    /// Keeps what a descriptor names alive, in place of what it named before.
    fn keep(&mut self, kept: u32, keep: Option<KeepAlive>) {
        if let Some(old) = core::mem::replace(&mut self.keeps[kept as usize], keep) {
            // Recorded draws may still read the old descriptor.
            self.layout.inner.heap.shared.retire_keep(old);
        }
    }

    /// Binds a range of a buffer, which the set keeps alive. Where defragmentation may move the buffer, the set follows:
    /// each [commit](Self::commit) is of the buffer as it is then.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::BufferUse;
    /// use allotment::memory::defragmentation::PassLimits;
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("material").relocatable();
    /// let mut buffers = Vec::new();
    /// for _ in 0..5 {
    ///     buffers.push(Arc::new(gpu.create_buffer(&BufferDesc::new(1 << 20), &options)?));
    /// }
    /// let layout = gpu.descriptors()?.binding_layout(&[Binding::mutable("material")])?;
    /// let mut set = BindingSet::new(&layout)?;
    /// set.bind_buffer(0, 0, &buffers[4], 0..256, BufferUse::ReadOnly)?; // on Vulkan: a storage buffer
    ///
    /// drop(buffers.remove(0)); // leaves a hole
    /// gpu.reclaim();
    /// gpu.defragmenter().step(PassLimits::NONE)?;
    /// assert_eq!(buffers[3].moves(), 1);
    ///
    /// // As in every frame: the program does nothing for the move.
    /// let frame = gpu.begin_frame()?;
    /// let draw = set.commit(&mut frame.transient_descriptors()?)?;
    /// println!("the table at {:?} names the buffer in its new place", draw.table);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind); [`DescriptorError::BufferUsage`] for a buffer that was not created for this
    /// [use](BufferUse): on Vulkan with `STORAGE_BUFFER` or `UNIFORM_BUFFER`, on Direct3D 12 with unordered access for
    /// [`BufferUse::ReadWrite`]; [`DescriptorError::NoAddress`] without `SHADER_DEVICE_ADDRESS` if descriptors are in buffers;
    /// [`DescriptorError::BadRange`] if the range is empty, exceeds the buffer, or is larger than the device allows;
    /// [`DescriptorError::Misaligned`] if it is not aligned as its use requires; [`DescriptorError::WrongDevice`],
    /// [`DescriptorError::WrongTracker`] if the buffer belongs to another device or tracker.
    #[inline(never)]
    pub fn bind_buffer(
        &mut self,
        binding: usize,
        at: u32,
        buffer: &Arc<Buffer<D>>,
        range: core::ops::Range<u64>,
        usage: BufferUse,
    ) -> Result<(), DescriptorError> {
        let heap = &self.layout.inner.heap;
        let desc = BufferViewDesc::new(range, usage);
        let shown =
            Shown::Buffer { buffer: Arc::clone(buffer), desc }.checked(heap.allocator(), heap.tracker())?;
        self.bind_shown(binding, at, shown)
    }

    /// Binds an image, of which the set creates a view. It keeps both alive, and follows moves of the image as of a
    /// [buffer](Self::bind_buffer).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::simulated::SimulatedImageUse;
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("albedo").relocatable();
    /// let albedo = Arc::new(gpu.create_image(&ImageDesc::new(64, 64, 4), &options)?);
    /// let layout = gpu.descriptors()?.binding_layout(&[Binding::mutable("albedo")])?;
    /// let mut material = BindingSet::new(&layout)?;
    /// // On Vulkan the description of a `VkImageView`, on Direct3D 12 that of a shader resource view.
    /// let view = SimulatedImageUse::Sampled;
    /// // SAFETY: images of the simulated device can be used for anything.
    /// unsafe { material.bind_image(0, 0, &albedo, &view) }?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind), [`DescriptorError::WrongDevice`] if the image belongs to another device, or the
    /// device refuses the view.
    ///
    /// # Safety
    ///
    /// The image was created for such a view, and is in the layout that the view's descriptor names whenever shaders
    /// read it.
    #[inline(never)]
    pub unsafe fn bind_image(
        &mut self,
        binding: usize,
        at: u32,
        image: &Arc<Image<D>>,
        view: &D::ImageViewInfo,
    ) -> Result<(), DescriptorError> {
        let heap = &self.layout.inner.heap;
        let shown = Shown::Image { image: Arc::clone(image), info: view.clone() };
        let shown = shown.checked(heap.allocator(), heap.tracker())?;
        self.bind_shown(binding, at, shown)
    }

    /// Binds a view of an image, which the set keeps alive with the image. It follows moves of the image as of a
    /// [buffer](Self::bind_buffer).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::ImageViewDesc;
    ///
    /// let albedo = Arc::new(gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?);
    /// let view = Arc::new(gpu.create_image_view(&albedo, &ImageViewDesc::sampled())?);
    /// let layout = gpu.descriptors()?.binding_layout(&[Binding::mutable("albedo")])?;
    /// let mut material = BindingSet::new(&layout)?;
    /// material.bind_view(0, 0, &view)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind), [`DescriptorError::NotForShaders`] for a view that is rendered to or an input attachment,
    /// [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    #[inline(never)]
    pub fn bind_view(
        &mut self,
        binding: usize,
        at: u32,
        view: &Arc<ImageView<D>>,
    ) -> Result<(), DescriptorError> {
        view.check_for_shaders()?;
        self.bind_owned(binding, at, view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Binds a view of a buffer, which the set keeps alive with the buffer. It follows moves as of a
    /// [buffer](Self::bind_buffer).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::{BufferUse, BufferViewDesc};
    ///
    /// let lights = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("lights"))?);
    /// let desc = BufferViewDesc::new(0..4096, BufferUse::ReadOnly).with_stride(64);
    /// let view = Arc::new(gpu.create_buffer_view(&lights, &desc)?);
    /// let layout = gpu.descriptors()?.binding_layout(&[Binding::mutable("lights")])?;
    /// let mut pass = BindingSet::new(&layout)?;
    /// pass.bind_buffer_view(0, 0, &view)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind), [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    #[inline(never)]
    pub fn bind_buffer_view(
        &mut self,
        binding: usize,
        at: u32,
        view: &Arc<BufferView<D>>,
    ) -> Result<(), DescriptorError> {
        self.bind_owned(binding, at, view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Binds a buffer that shaders see as texels. The set keeps the view alive with its buffer. It follows moves as of a
    /// [buffer](Self::bind_buffer).
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind), [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    #[inline(never)]
    pub fn bind_texel_buffer(
        &mut self,
        binding: usize,
        at: u32,
        view: &Arc<TexelBufferView<D>>,
    ) -> Result<(), DescriptorError> {
        self.bind_owned(binding, at, view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Binds a view. `keep` is its owner.
    fn bind_owned<V>(
        &mut self,
        binding: usize,
        at: u32,
        view: &OwnedView<D, V>,
        keep: KeepAlive,
    ) -> Result<(), DescriptorError> {
        let heap = &self.layout.inner.heap;
        view.shown().check_for(heap.allocator(), heap.tracker())?;
        if view.shown().is_relocatable() {
            return self.bind_shown(binding, at, view.shown().clone());
        }
        view.with_descriptor(|descriptor| self.bind(binding, at, descriptor, Some(Arc::clone(&keep))))
    }

    fn bind_shown(&mut self, binding: usize, at: u32, shown: Shown<D>) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        let (place, is_dynamic) = self.locate(binding, at)?;
        if is_dynamic && shown.is_relocatable() {
            return self.bind_dynamic(binding, at, place, shown);
        }
        let shared = &inner.heap.shared;
        let Some(key) = shown.follow(shared) else {
            let view = shown.create_view(inner.heap.allocator())?;
            // The descriptor borrows the view, which is to be kept: so that it is kept after the write.
            let bind = |descriptor: &D::Descriptor<'_>| self.bind(binding, at, descriptor, None);
            shown.with_descriptor(&view, bind).unwrap_or(Err(DescriptorError::Stale))?;
            let kept = if is_dynamic {
                inner.table - inner.static_count + place
            } else {
                place - inner.static_count
            };
            self.keep(kept, Some(shown.keep_with(view)));
            return Ok(());
        };
        let keep = shown.keep();
        let table = self.table.as_mut().ok_or(DescriptorError::Stale)?;
        // Before the lock, since a heap without room reclaims, which runs destructors of the program.
        let mut new = if table.is_in_use() { Some(table.reserve()?) } else { None };
        let mut old = None;
        let followed = shared.follow(shown, key, |descriptor| {
            let expected = inner.heap.heap_type().into();
            let found = D::descriptor_kind(descriptor);
            if expected != found {
                return Err(DescriptorError::WrongKind { expected, found });
            }
            old = table.renew_as(new.take())?;
            table.write(place, descriptor)?;
            Ok((WriteTarget::Table { entry: table.entry(), at: place }, ()))
        });
        old.iter().for_each(DescriptorRange::forget);
        followed?;
        if !self.relocatable.in_table.contains(&place) {
            self.relocatable.in_table.push(place);
        }
        self.keep(place - inner.static_count, Some(keep));
        Ok(())
    }

    /// Binds a relocatable resource to a dynamic binding: each commit describes it as it is then.
    fn bind_dynamic(
        &mut self,
        binding: usize,
        at: u32,
        place: u32,
        shown: Shown<D>,
    ) -> Result<(), DescriptorError> {
        let inner = Arc::clone(&self.layout.inner);
        let bound = DynamicFollow::new(place, shown, inner.heap.allocator())?;
        // Written once, so that what the device refuses is refused here and not at a commit.
        bound.with_descriptor(&inner.heap, |descriptor| {
            self.check(binding, at, descriptor)?;
            let range = self.dynamic.as_mut().ok_or(DescriptorError::Stale)?;
            inner.cpu_heap.write(range, place, descriptor)
        })?;
        let range = self.dynamic.as_mut().ok_or(DescriptorError::Stale)?;
        // Each commit copies the range and then writes this descriptor; what is there meanwhile must name nothing that is
        // destroyed.
        inner.cpu_heap.clear(range, place)?;
        let keep = bound.keep();
        let before = self.relocatable.insert_dynamic(bound);
        before.into_iter().for_each(|before| inner.heap.shared.retire_keep(before));
        self.keep(inner.table - inner.static_count + place, Some(keep));
        Ok(())
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
                // Empty for most sets.
                for follow in &self.relocatable.dynamic {
                    let write = |descriptor: &D::Descriptor<'_>| copied.write(follow.place(), descriptor);
                    follow.with_descriptor(&self.layout.inner.heap, write)?;
                }
                Some(copied.place())
            }
            None => None,
        };
        Ok(BoundSet { table, dynamic })
    }
}

impl<D: DescriptorDevice> Drop for BindingSet<D> {
    /// The table and the resources are released once the recordings that are open now have completed.
    #[inline(never)]
    fn drop(&mut self) {
        let inner = &self.layout.inner;
        if let Some(range) = self.dynamic.take() {
            // Freed at once, since draws have copies.
            let freed = inner.cpu_heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
        let shared = &inner.heap.shared;
        if let Some(table) = &self.table {
            let entry = table.entry();
            // Before the table is retired, since its entry is reused.
            let places = self.relocatable.in_table.drain(..);
            shared.unfollow(places.map(|at| WriteTarget::Table { entry, at }));
        }
        // Before the resources: a step of compaction copies what is not retired.
        drop(self.table.take());
        let dynamic = self.relocatable.dynamic.drain(..).map(|follow| Arc::new(follow) as KeepAlive);
        shared.retire_keeps(self.keeps.drain(..).flatten().chain(dynamic).collect());
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
