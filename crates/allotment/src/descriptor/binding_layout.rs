//! What a pipeline wants bound, and how often each of it changes.
//!
//! ```text
//!   binding       0 shadow map   1 material[3]   2 instance   3 light[2]
//!   changes       never          with the set    each draw    each draw
//!                 ╰── static     ╰── mutable     ╰── dynamic ─╯
//!   table         [ 0 ][ 1 1 1 ]                 long-lived, one for each set
//!   draw                          [ 2 ][ 3 3 ]   copied to the recording's own room, at each draw
//! ```

use core::fmt;
use std::sync::{Arc, Mutex};

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::{DescriptorError, check_range};
use super::shader_visible_heap::ShaderVisibleHeap;
use super::slots::KeepAlive;
use crate::device::{DescriptorDevice, DescriptorHeapType, ShaderVisibleHeapType};
use crate::sync::locked;

/// How often what is bound changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindFrequency {
    /// Never: it is bound once, for all sets of the layout.
    Static,
    /// Now and then: it is bound in a set, and stays until it is bound again.
    Mutable,
    /// With each draw.
    Dynamic,
}

/// What is bound under one number: `count` descriptors in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// What it is called, for people.
    pub name: &'static str,
    /// Descriptors, at least 1.
    pub count: u32,
    /// How often it changes.
    pub frequency: BindFrequency,
}

impl Binding {
    /// A binding of one descriptor that never changes.
    #[must_use]
    pub const fn static_(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Static }
    }

    /// A binding of one descriptor that changes now and then.
    #[must_use]
    pub const fn mutable(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Mutable }
    }

    /// A binding of one descriptor that changes with each draw.
    #[must_use]
    pub const fn dynamic(name: &'static str) -> Self {
        Self { name, count: 1, frequency: BindFrequency::Dynamic }
    }

    /// The same with so many descriptors.
    #[must_use]
    pub const fn array(mut self, count: u32) -> Self {
        self.count = count;
        self
    }
}

/// Where a binding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingLocation {
    /// How often it changes. Dynamic bindings are in the table of a draw, the others in that of the set.
    pub frequency: BindFrequency,
    /// Its first descriptor, from the start of its table.
    pub first: u32,
    /// Descriptors.
    pub count: u32,
}

/// The bindings of a pipeline, and what is bound to the static ones. A clone is the same layout.
///
/// For the heap of resources and for that of samplers there is a layout each. Samplers need none if they come from a
/// [`SamplerCache`](super::SamplerCache): then shaders are told an index.
pub struct BindingLayout<D: DescriptorDevice> {
    pub(super) inner: Arc<Inner<D>>,
}

pub(super) struct Inner<D: DescriptorDevice> {
    pub(super) heap: Arc<ShaderVisibleHeap<D>>,
    pub(super) cpu_heap: Arc<CpuDescriptorHeap<D>>,
    names: Vec<&'static str>,
    /// By binding.
    pub(super) places: Vec<BindingLocation>,
    /// Descriptors of static bindings, which come first in a set's table.
    pub(super) static_count: u32,
    /// Descriptors of a set's table.
    pub(super) table: u32,
    /// Descriptors of a draw's table.
    pub(super) dynamic: u32,
    pub(super) statics: Mutex<Statics>,
}

/// What is bound for all sets.
pub(super) struct Statics {
    /// As many as there are static descriptors; `None` where there are none.
    pub(super) range: Option<CpuDescriptorRange>,
    /// By descriptor: whether it is bound, and what lives as long.
    pub(super) bound: Vec<Option<Option<KeepAlive>>>,
}

impl<D: DescriptorDevice> BindingLayout<D> {
    /// A layout with these bindings, numbered in this order. Its sets live in `heap`; `staging` has descriptors that are
    /// copied from there.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`] for a binding of no descriptors, [`DescriptorError::WrongKind`] where the heaps are
    /// not of one kind, [`DescriptorError::Foreign`] where they are not of one device, [`DescriptorError::NeverFits`] for more than a heap ever has, or there is no staging memory.
    pub fn new(
        heap: &Arc<ShaderVisibleHeap<D>>,
        cpu_heap: &Arc<CpuDescriptorHeap<D>>,
        bindings: &[Binding],
    ) -> Result<Self, DescriptorError> {
        let (expected, found) = (DescriptorHeapType::from(heap.heap_type()), cpu_heap.heap_type());
        if expected != found {
            return Err(DescriptorError::WrongKind { expected, found });
        }
        if heap.allocator().device().id() != cpu_heap.device_id() {
            return Err(DescriptorError::Foreign);
        }
        let total: u64 = bindings.iter().map(|binding| u64::from(binding.count)).sum();
        let capacity = u32::MAX / 2;
        if total > u64::from(capacity) {
            return Err(DescriptorError::NeverFits { requested: u32::MAX, capacity });
        }
        let mut sums = [0; 3];
        let mut places = vec![None; bindings.len()];
        // Static ones first, so that a set copies them in one go.
        for frequency in [BindFrequency::Static, BindFrequency::Mutable, BindFrequency::Dynamic] {
            for (place, binding) in places.iter_mut().zip(bindings) {
                if binding.count == 0 {
                    return Err(DescriptorError::Empty);
                }
                if binding.frequency == frequency {
                    let first = if frequency == BindFrequency::Dynamic { sums[2] } else { sums[0] + sums[1] };
                    *place = Some(BindingLocation { frequency, first, count: binding.count });
                    sums[frequency as usize] += binding.count;
                }
            }
        }
        let [static_count, mutable, dynamic] = sums;
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

    /// The number of the binding of this name.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<usize> {
        self.inner.names.iter().position(|&found| found == name)
    }

    /// Where a binding is: what a root signature or a shader is told.
    #[must_use]
    pub fn place(&self, binding: usize) -> Option<BindingLocation> {
        self.inner.places.get(binding).copied()
    }

    /// What the sets are of.
    #[must_use]
    pub fn heap_type(&self) -> ShaderVisibleHeapType {
        self.inner.heap.heap_type()
    }

    /// Descriptors of a set's long-lived table.
    #[must_use]
    pub fn table_size(&self) -> u32 {
        self.inner.table
    }

    /// Descriptors that a draw copies.
    #[must_use]
    pub fn dynamic_size(&self) -> u32 {
        self.inner.dynamic
    }

    /// Binds the `at`-th descriptor of a static binding, once. It and `keep` stay as long as the layout.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoSuchBinding`], [`DescriptorError::WrongBinding`] where it is not static,
    /// [`DescriptorError::OutOfRange`], [`DescriptorError::AlreadySet`], or the descriptor is of another kind.
    pub fn bind_static(
        &self,
        binding: usize,
        at: u32,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<(), DescriptorError> {
        let at = self.inner.locate(binding, at, |frequency| frequency == BindFrequency::Static)?;
        let mut statics = locked(&self.inner.statics);
        let Statics { range, bound } = &mut *statics;
        let bound = &mut bound[at as usize];
        if bound.is_some() {
            return Err(DescriptorError::AlreadySet { binding });
        }
        let range = range.as_mut().ok_or(DescriptorError::NoSuchBinding { binding })?;
        self.inner.cpu_heap.write(range, at, descriptor)?;
        *bound = Some(keep);
        Ok(())
    }
}

impl<D: DescriptorDevice> Inner<D> {
    /// Refuses where a static binding is not bound. Once none is missing, none of them ever changes.
    pub(super) fn check_statics(&self) -> Result<(), DescriptorError> {
        let missing = locked(&self.statics).bound.iter().position(Option::is_none);
        let Some(missing) = missing else { return Ok(()) };
        let is_it = |place: &BindingLocation| {
            let here = place.first as usize..(place.first + place.count) as usize;
            place.frequency == BindFrequency::Static && here.contains(&missing)
        };
        let binding = self.places.iter().position(is_it).unwrap_or(missing);
        Err(DescriptorError::Missing { binding })
    }

    /// Where a descriptor of a binding is in its table.
    pub(super) fn locate(
        &self,
        binding: usize,
        at: u32,
        is_right: impl FnOnce(BindFrequency) -> bool,
    ) -> Result<u32, DescriptorError> {
        let place = self.places.get(binding).ok_or(DescriptorError::NoSuchBinding { binding })?;
        if !is_right(place.frequency) {
            return Err(DescriptorError::WrongBinding { binding });
        }
        check_range(at, 1, place.count)?;
        Ok(place.first + at)
    }
}

impl<D: DescriptorDevice> Drop for Inner<D> {
    /// Sets hold their layout, and recordings copies of its descriptors; what these point at goes when they are over.
    fn drop(&mut self) {
        let Statics { range, bound } = locked(&self.statics).take();
        if let Some(range) = range {
            let freed = self.cpu_heap.free(range);
            debug_assert!(freed.is_ok(), "it is this heap's");
        }
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
