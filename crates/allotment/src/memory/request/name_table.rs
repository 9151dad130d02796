//! Names that are made at run time, each stored once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::choices::name::Name;
use crate::sync::locked;

/// Fewer texts than this are never looked through for unused ones.
const FEW: usize = 64;

/// Stores each text once and returns it as a [`Name`]: for programs that have their names as `&str`, and make many
/// allocations of few names. Without it, each allocation has a copy of its name.
///
/// A text is stored until no name of it is left and the table has grown to twice the texts that were in use.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::names::NameTable;
///
/// let names = NameTable::new();
/// let tiles = (0..100).map(|tile| {
///     let label = format!("layer {}", tile % 3); // as another library hands it over
///     let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(names.name(&label));
///     allocator.allocate(&Requirements::new(1 << 16), &options)
/// });
/// let tiles: Vec<_> = tiles.collect::<Result<_, _>>()?;
/// assert_eq!(names.len(), 3, "texts for 100 allocations");
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct NameTable {
    texts: Mutex<Texts>,
}

#[derive(Debug, Default)]
struct Texts {
    stored: HashSet<Arc<str>>,
    /// How many texts may be stored before unused ones are removed.
    limit: usize,
}

impl NameTable {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the name with a text. Allocates host memory only for a text that is not stored.
    #[expect(clippy::disallowed_methods, reason = "texts without other clones are dropped, not used again")]
    pub fn name(&self, text: &str) -> Name {
        let mut texts = locked(&self.texts);
        if let Some(stored) = texts.stored.get(text) {
            return stored.clone().into();
        }
        if texts.stored.len() >= texts.limit {
            // Only the table has them, and a name is made of them only with the lock held.
            texts.stored.retain(|text| Arc::strong_count(text) > 1);
            texts.limit = 2 * texts.stored.len().max(FEW / 2);
        }
        let new: Arc<str> = text.into();
        texts.stored.insert(Arc::clone(&new));
        new.into()
    }

    /// Returns how many texts are stored.
    #[must_use]
    pub fn len(&self) -> usize {
        locked(&self.texts).stored.len()
    }

    /// Returns true when no text is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_stored_once_and_until_no_name_of_it_is_left() {
        let table = NameTable::new();
        let kept: Vec<_> = (0..10).map(|i| table.name(&format!("kept {i}"))).collect();
        for i in 0..10_000 {
            let name = table.name(&format!("unused {i}"));
            assert_eq!(name.as_str(), format!("unused {i}"));
            assert!(table.len() <= 10 + FEW, "{} texts", table.len());
        }
        for (i, kept) in kept.iter().enumerate() {
            let (Name::Shared(one), Name::Shared(other)) = (kept, table.name(&format!("kept {i}"))) else {
                panic!("made at run time");
            };
            assert!(Arc::ptr_eq(one, &other), "kept {i} is stored once");
        }
    }

    #[test]
    fn many_texts_in_use_stay() {
        let table = NameTable::new();
        let names: Vec<_> = (0..1_000).map(|i| table.name(&i.to_string())).collect();
        assert_eq!(table.len(), names.len());
        drop(names);
        for i in 0..2_000 {
            table.name(&format!("new {i}"));
        }
        assert!(table.len() <= 2_000, "those are gone");
    }
}
