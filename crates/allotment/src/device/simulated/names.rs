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
    slab: Slab<T>,
    /// The generation of each index: of its object, or of its next one.
    generations: Vec<u32>,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        // Enough for most programs; more names grow it.
        Self(Mutex::new(Objects { slab: Slab::with_capacity(1024), generations: Vec::with_capacity(1024) }))
    }
}

impl<T: Clone> ByName<T> {
    pub(super) fn add(&self, object: T) -> Name {
        let mut objects = locked(&self.0);
        let index = objects.slab.insert(object);
        if index as usize == objects.generations.len() {
            objects.generations.push(0);
        }
        Name(u64::from(index) << 32 | u64::from(objects.generations[index as usize]))
    }

    /// Returns the object with a name; `None` if it was removed.
    pub(super) fn get(&self, name: Name) -> Option<T> {
        let objects = locked(&self.0);
        objects.find(name).and_then(|index| objects.slab.get(index)).cloned()
    }

    /// Returns whether an object has this name.
    pub(super) fn contains(&self, name: Name) -> bool {
        let objects = locked(&self.0);
        objects.find(name).is_some_and(|index| objects.slab.get(index).is_some())
    }

    /// Removes a name; does nothing if it was removed before.
    ///
    /// Returns the object, to be dropped without the lock: it may be the last reference to memory, whose pages are
    /// unmapped then.
    pub(super) fn remove(&self, name: Name) -> Option<T> {
        let mut objects = locked(&self.0);
        let index = objects.find(name)?;
        let generation = &mut objects.generations[index as usize];
        // An index that has had all generations is never used again, or an old name would stand for a new object.
        match generation.checked_add(1) {
            Some(next) => {
                *generation = next;
                objects.slab.remove(index)
            }
            None => objects.slab.remove_for_good(index),
        }
    }
}

impl<T> Objects<T> {
    /// Returns the index of a name, unless that was removed.
    fn find(&self, name: Name) -> Option<u32> {
        let (index, generation) = ((name.0 >> 32) as u32, name.0 as u32);
        (self.generations.get(index as usize) == Some(&generation)).then_some(index)
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
    fn an_index_that_has_had_all_generations_is_not_used_again() {
        let names = Names::default();
        let first = names.add(Named::Sampler(SamplerDesc::default()));
        names.remove(first);
        locked(&names.0).generations[0] = u32::MAX;
        let last = names.add(Named::Sampler(SamplerDesc::default()));
        assert_eq!(last, Name(u64::from(u32::MAX)));
        assert!(names.remove(last).is_some() && names.remove(last).is_none() && names.get(last).is_none());
        let next = names.add(Named::Sampler(SamplerDesc::default()));
        assert_eq!(next, Name(1 << 32));
        assert!(names.get(first).is_none() && names.get(next).is_some());
    }

    #[test]
    fn a_name_out_of_nowhere_stands_for_nothing() {
        let names = Names::default();
        assert!(names.get(Name(7 << 32)).is_none());
        names.remove(Name(7 << 32));
    }
}
