//! Object names that fit into a descriptor. A name is looked up when queue work reads through the descriptor, so
//! destroyed objects are detected then.

use std::sync::{Arc, Mutex};

use super::memory::MemoryObject;
use crate::sync::locked;

/// The name of a buffer, an image or a sampler: its slot and the slot's generation. Names are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) u64);

/// The object with a name.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// A buffer or an image.
    Bytes {
        memory: Arc<MemoryObject>,
        offset: u64,
        size: u64,
    },
    Sampler,
}

/// All names of a device.
#[derive(Debug)]
pub(super) struct Names(Mutex<Slots>);

#[derive(Debug)]
struct Slots {
    slots: Vec<(u32, Option<Named>)>,
    vacant: Vec<u32>,
}

impl Default for Names {
    fn default() -> Self {
        // Enough for most programs; more names grow it.
        let (slots, vacant) = (Vec::with_capacity(1024), Vec::with_capacity(1024));
        Self(Mutex::new(Slots { slots, vacant }))
    }
}

impl Names {
    pub(super) fn add(&self, named: Named) -> Name {
        let mut slots = locked(&self.0);
        let slot = slots.vacant.pop().unwrap_or_else(|| {
            slots.slots.push((0, None));
            // 2^32 entries would not fit into memory.
            slots.slots.len() as u32 - 1
        });
        let (generation, entry) = &mut slots.slots[slot as usize];
        *entry = Some(named);
        Name(u64::from(slot) << 32 | u64::from(*generation))
    }

    /// Returns the object with a name; `None` if it was destroyed.
    pub(super) fn get(&self, name: Name) -> Option<Named> {
        let slots = locked(&self.0);
        let (generation, named) = slots.slots.get((name.0 >> 32) as usize)?;
        // A name of an older generation belongs to a destroyed object, whatever is in the slot now.
        if *generation == name.0 as u32 { named.clone() } else { None }
    }

    /// Removes a name; does nothing if it was removed before.
    pub(super) fn remove(&self, name: Name) {
        let slot = (name.0 >> 32) as u32;
        let mut slots = locked(&self.0);
        let Some((generation, named)) = slots.slots.get_mut(slot as usize) else { return };
        if *generation != name.0 as u32 {
            return;
        }
        let removed = named.take();
        *generation = generation.wrapping_add(1);
        slots.vacant.push(slot);
        drop(slots);
        // Dropped without the lock: this may be the last reference to memory, whose pages are unmapped then.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_stands_for_what_came_after() {
        let names = Names::default();
        let first = names.add(Named::Sampler);
        names.remove(first);
        let second = names.add(Named::Sampler);
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
