//! Binding layouts: the bindings of a pipeline, and how often each changes.
//!
//! ```text
//!   binding       0 shadow map   1 material[3]   2 instance   3 light[2]
//!   changes       never          with the set    each draw    each draw
//!                 ╰── static     ╰── mutable     ╰── dynamic ─╯
//!   table         [ 0 ][ 1 1 1 ]                 long-lived, one for each set
//!   draw                          [ 2 ][ 3 3 ]   copied to a transient table at each draw
//! ```

use core::fmt;
use core::ops::Range;
use std::sync::{Arc, Mutex};

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::slots::KeepAlive;
use crate::device::{DescriptorDevice, DescriptorHeapType, ShaderVisibleHeapType};
use crate::memory::ShortName;
use crate::sync::locked;

/// How often a binding changes.
///
/// ```
/// use allotment::descriptor::{BindFrequency, Binding};
///
/// assert_eq!(Binding::static_("shadow map").frequency, BindFrequency::Static); // the same in all sets
/// assert_eq!(Binding::mutable("albedo").frequency, BindFrequency::Mutable); // each material's own
/// assert_eq!(Binding::dynamic("instance").frequency, BindFrequency::Dynamic); // each draw's own
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindFrequency {
    /// Never: bound once, for all sets of the layout.
    Static,
    /// Per material or per pass: bound in a set, until it is bound again.
    Mutable,
    /// With each draw.
    Dynamic,
}

/// A binding: `count` adjacent descriptors.
///
/// ```
/// use allotment::descriptor::Binding;
///
/// let bindings = [Binding::mutable("albedo"), Binding::mutable("layers").array(8)];
/// assert_eq!(bindings[1].count, 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The name of the binding.
    pub name: &'static str,
    /// The number of descriptors, at least 1.
    pub count: u32,
    /// How often the binding changes.
    pub frequency: BindFrequency,
}

impl Binding {
    /// Creates a static binding of one descriptor.
    #[must_use]
    pub const fn static_(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Static }
    }

    /// Creates a mutable binding of one descriptor.
    #[must_use]
    pub const fn mutable(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Mutable }
    }

    /// Creates a dynamic binding of one descriptor.
    #[must_use]
    pub const fn dynamic(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Dynamic }
    }

    /// Sets the number of descriptors.
    #[must_use]
    pub const fn array(mut self, count: u32) -> Self {
        self.count = count;
        self
    }
}

/// The location of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) frequency: BindFrequency,
    /// The first descriptor, relative to the start of its table.
    first: u32,
    count: u32,
}

/// The bindings of a pipeline, with the descriptors of its static ones. A clone is the same layout.
///
/// A pipeline has one layout for its resources and one for its samplers. Samplers of a
/// [`SamplerCache`](super::SamplerCache) need none: shaders receive their index.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let bindings = [Binding::mutable("albedo"), Binding::dynamic("instance")];
/// let layout = gpu.descriptors()?.binding_layout(&bindings)?;
/// assert_eq!(layout.binding("instance"), Some(1));
/// assert_eq!((layout.table_size(), layout.dynamic_size()), (1, 1));
/// let materials = [BindingSet::new(&layout)?, BindingSet::new(&layout)?];
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BindingLayout<D: DescriptorDevice> {
    pub(super) inner: Arc<Inner<D>>,
}

pub(super) struct Inner<D: DescriptorDevice> {
    pub(super) heap: Arc<ShaderVisibleHeap<D>>,
    pub(super) cpu_heap: Arc<CpuDescriptorHeap<D>>,
    names: Vec<&'static str>,
    /// By binding.
    pub(super) places: Vec<Place>,
    /// The number of static descriptors, which come first in a set's table.
    pub(super) static_count: u32,
    /// The number of descriptors of a set's table.
    pub(super) table: u32,
    /// The number of descriptors of a draw's table.
    pub(super) dynamic: u32,
    pub(super) statics: Mutex<Statics>,
}

/// The static bindings, shared by all sets.
pub(super) struct Statics {
    /// The static descriptors; `None` if there are none.
    pub(super) range: Option<CpuDescriptorRange>,
    /// By descriptor: whether it is bound, and the object kept alive for it.
    pub(super) bound: Vec<Option<Option<KeepAlive>>>,
}

impl<D: DescriptorDevice> BindingLayout<D> {
    /// Creates a layout with these bindings, numbered in this order. Its sets are allocated from `heap`, and
    /// the descriptors to copy from `cpu_heap`.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`] for a binding of no descriptors, [`DescriptorError::WrongKind`] if the heaps
    /// are of different types, [`DescriptorError::WrongDevice`] if they belong to different devices,
    /// [`DescriptorError::NeverFits`] beyond the largest heap, or the error of allocating CPU descriptors.
    #[inline(never)]
    pub fn new(
        heap: &Arc<ShaderVisibleHeap<D>>,
        cpu_heap: &Arc<CpuDescriptorHeap<D>>,
        bindings: &[Binding],
    ) -> Result<Self, DescriptorError> {
        let (expected, found) = (DescriptorHeapType::from(heap.heap_type()), cpu_heap.heap_type());
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        // Sets copy from the CPU heap to the shader-visible one, and the APIs copy within one device only.
        if heap.allocator().device().id() != cpu_heap.device_id() {
            return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
        }
        // Bindings are found by name, and the second of two would never be.
        for (second, binding) in bindings.iter().enumerate() {
            let name = binding.name;
            if let Some(first) = bindings[..second].iter().position(|before| before.name == name) {
                return Err(DescriptorError::DuplicateBinding { first, second, name });
            }
        }
        // Summed in 64 bits and bounded once, so that the sums below cannot overflow.
        let total: u64 = bindings.iter().map(|binding| u64::from(binding.count)).sum();
        let capacity = u32::MAX / 2;
        if total > u64::from(capacity) {
            return Err(DescriptorError::NeverFits { requested: u32::MAX, capacity });
        }
        let mut sums = [0; 3];
        let mut places = vec![None; bindings.len()];
        // Static bindings first, so that one copy initializes them in a set.
        for frequency in [BindFrequency::Static, BindFrequency::Mutable, BindFrequency::Dynamic] {
            for (place, binding) in places.iter_mut().zip(bindings) {
                if binding.count == 0 {
                    return Err(DescriptorError::Empty);
                }
                if binding.frequency == frequency {
                    // Static and mutable bindings share the set's table; dynamic ones have a table of their
                    // own, which each draw copies.
                    let first = if frequency == BindFrequency::Dynamic { sums[2] } else { sums[0] + sums[1] };
                    *place = Some(Place { frequency, first, count: binding.count });
                    sums[frequency as usize] += binding.count;
                }
            }
        }
        let [static_count, mutable, dynamic] = sums;
        // In a CPU heap, from which each set copies them: shaders read the sets' tables only.
        let range = if static_count == 0 { None } else { Some(cpu_heap.allocate(static_count)?) };
        let bound = (0..static_count).map(|_| None).collect();
        let inner = Inner {
            heap: Arc::clone(heap),
            cpu_heap: Arc::clone(cpu_heap),
            names: bindings.iter().map(|binding| binding.name).collect(),
            places: places.into_iter().flatten().collect(),
            static_count,
            table: static_count + mutable,
            dynamic,
            statics: Mutex::new(Statics { range, bound }),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of the binding with this name.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<usize> {
        self.inner.names.iter().position(|&found| found == name)
    }

    /// Returns where a binding is, for a root signature or a shader: its frequency, and its descriptors, counted from the
    /// start of their table. Dynamic bindings are in the table of a draw, the others in the table of the set.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::descriptor::BindFrequency;
    ///
    /// let bindings = [Binding::mutable("albedo"), Binding::mutable("layers").array(8), Binding::dynamic("instance")];
    /// let layout = gpu.descriptors()?.binding_layout(&bindings)?;
    /// assert_eq!(layout.place(1), Some((BindFrequency::Mutable, 1..9)));
    /// assert_eq!(layout.place(2), Some((BindFrequency::Dynamic, 0..1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn place(&self, binding: usize) -> Option<(BindFrequency, Range<u32>)> {
        let Place { frequency, first, count } = *self.inner.places.get(binding)?;
        Some((frequency, first..first + count))
    }

    /// Returns the type of the heap of the sets.
    #[must_use]
    pub fn heap_type(&self) -> ShaderVisibleHeapType {
        self.inner.heap.heap_type()
    }

    /// Returns the number of descriptors of a set's long-lived table.
    #[must_use]
    pub fn table_size(&self) -> u32 {
        self.inner.table
    }

    /// Returns the number of descriptors that a draw copies.
    #[must_use]
    pub fn dynamic_size(&self) -> u32 {
        self.inner.dynamic
    }

    /// Binds the `at`-th descriptor of a static binding, once. The layout keeps the descriptor and `keep`. It does not
    /// follow moves: the resource is pinned.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoSuchBinding`], [`DescriptorError::WrongBinding`] if the binding is not static,
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::AlreadySet`], or [`DescriptorError::WrongKind`].
    #[inline(never)]
    pub fn bind_static(
        &self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let at = self.inner.locate(binding, at, |frequency| frequency == BindFrequency::Static)?;
        // One lock for the check and the write: two threads that bind the same descriptor cannot both succeed.
        let mut statics = locked(&self.inner.statics);
        let Statics { range, bound } = &mut *statics;
        let bound = &mut bound[at as usize];
        // Sets may have copied the first one already, and would then differ from those created later.
        if bound.is_some() {
            return Err(DescriptorError::AlreadySet { binding, name: self.inner.names[binding] });
        }
        let count = self.inner.places.len();
        let range = range.as_mut().ok_or(DescriptorError::NoSuchBinding { binding, count })?;
        self.inner.cpu_heap.write(range, at, descriptor)?;
        // After the write, so that a refused descriptor leaves the binding unbound.
        *bound = Some(keep);
        Ok(())
    }
}

impl<D: DescriptorDevice> Inner<D> {
    /// Returns an error if a static binding is not bound. Once all are bound, none changes any more.
    pub(super) fn check_statics(&self) -> Result<(), DescriptorError> {
        let missing = locked(&self.statics).bound.iter().position(Option::is_none);
        let Some(missing) = missing else { return Ok(()) };
        // `missing` is a descriptor; the error names the binding that contains it.
        let is_it = |place: &Place| {
            let here = place.first as usize..(place.first + place.count) as usize;
            place.frequency == BindFrequency::Static && here.contains(&missing)
        };
        let binding = self.places.iter().position(is_it).unwrap_or(missing);
        let name = self.names.get(binding).copied().unwrap_or_default();
        Err(DescriptorError::Missing { binding, name })
    }

    /// Returns the index of a descriptor of a binding in its table.
    pub(super) fn locate(
        &self,
        binding: usize,
        at: u32,
        is_right: impl FnOnce(BindFrequency) -> bool,
    ) -> Result<u32, DescriptorError> {
        let count = self.places.len();
        let place = self.places.get(binding).ok_or(DescriptorError::NoSuchBinding { binding, count })?;
        let name = self.names[binding];
        if !is_right(place.frequency) {
            return Err(DescriptorError::WrongBinding { binding, name });
        }
        if at >= place.count {
            return Err(DescriptorError::NoSuchElement { binding, name, element: at, count: place.count });
        }
        Ok(place.first + at)
    }
}

impl<D: DescriptorDevice> Drop for Inner<D> {
    /// Sets hold their layout, and recordings have copies of its descriptors; their resources are released once
    /// these have completed.
    #[inline(never)]
    fn drop(&mut self) {
        // Taken out first, so that the lock is free while resources are released.
        let Statics { range, bound } = locked(&self.statics).take();
        if let Some(range) = range {
            let freed = self.cpu_heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
        // Retired and not dropped: draws of sets that are gone may still be in flight.
        self.heap.shared.retire_keeps(bound.into_iter().flatten().flatten().collect());
    }
}

impl Statics {
    fn take(&mut self) -> Self {
        Self { range: self.range.take(), bound: core::mem::take(&mut self.bound) }
    }
}

impl<D: DescriptorDevice> Clone for BindingLayout<D> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<D: DescriptorDevice> fmt::Debug for BindingLayout<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindingLayout")
            .field("names", &self.inner.names)
            .field("places", &self.inner.places)
            .finish_non_exhaustive()
    }
}
