//! Objects by names that fit into a memory handle or a descriptor. The name in a descriptor is looked up when queue
//! work reads through it, so destroyed objects are detected then.

use std::sync::{Arc, Mutex};

use super::images::Shape;
use super::memory::MemoryObject;
use crate::device::SamplerDesc;
use crate::slab::Slab;
use crate::sync::locked;

/// The name of an object: its index and the index's generation. Names are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) u64);

/// A buffer, an image or a sampler.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// A buffer or an image.
    Bytes(NamedBytes),
    Sampler(SamplerDesc),
}

/// The bytes of a buffer or an image.
#[derive(Clone, Debug)]
pub(super) struct NamedBytes {
    pub(super) memory: Arc<MemoryObject>,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The dimensions of an image.
    pub(super) shape: Option<Shape>,
}

/// The objects that descriptors name.
pub(super) type Names = ByName<Named>;

/// Objects of a device by name.
#[derive(Debug)]
pub(super) struct ByName<T>(Mutex<Objects<T>>);

#[derive(Debug)]
struct Objects<T> {
    /// With the generation of each.
    slab: Slab<(u32, T)>,
    /// The generation of the next object, counted for all indices together.
    generation: u32,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        // Enough for most programs; more names grow it.
        Self(Mutex::new(Objects { slab: Slab::with_capacity(1024), generation: 0 }))
    }
}

impl<T: Clone> ByName<T> {
    pub(super) fn add(&self, object: T) -> Name {
        let mut objects = locked(&self.0);
        let generation = objects.generation;
        objects.generation = generation.wrapping_add(1);
        let index = objects.slab.insert((generation, object));
        Name(u64::from(index) << 32 | u64::from(generation))
    }

    /// Returns the object with a name; `None` if it was removed.
    pub(super) fn get(&self, name: Name) -> Option<T> {
        let objects = locked(&self.0);
        let (generation, object) = objects.slab.get((name.0 >> 32) as u32)?;
        if *generation == name.0 as u32 { Some(object.clone()) } else { None }
    }

    /// Returns whether an object has this name.
    pub(super) fn contains(&self, name: Name) -> bool {
        let objects = locked(&self.0);
        let found = objects.slab.get((name.0 >> 32) as u32);
        found.is_some_and(|(generation, _)| *generation == name.0 as u32)
    }

    /// Removes a name; does nothing if it was removed before.
    ///
    /// Returns the object, to be dropped without the lock: it may be the last reference to memory, whose pages are
    /// unmapped then.
    pub(super) fn remove(&self, name: Name) -> Option<T> {
        let mut objects = locked(&self.0);
        let index = (name.0 >> 32) as u32;
        objects.slab.get(index).filter(|(generation, _)| *generation == name.0 as u32)?;
        objects.slab.remove(index).map(|(_, object)| object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_stands_for_what_came_after() {
        let names = Names::default();
        let first = names.add(Named::Sampler(SamplerDesc::default()));
        names.remove(first);
        let second = names.add(Named::Sampler(SamplerDesc::default()));
        assert_ne!(first, second);
        assert!(names.get(first).is_none() && names.get(second).is_some());
        names.remove(first);
        assert!(names.get(second).is_some(), "a second removal of the first is no removal of the second");
    }

    #[test]
    fn a_name_out_of_nowhere_stands_for_nothing() {
        let names = Names::default();
        assert!(names.get(Name(7 << 32)).is_none());
        names.remove(Name(7 << 32));
    }
}
