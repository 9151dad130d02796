//! Descriptors follow moves: when defragmentation gives a resource another handle, the descriptors of it are rewritten
//! here, before a recording can begin that would read the old ones.
//!
//! Nothing that a recording may read is overwritten (copy-on-write). How, differs with what the descriptor is in:
//!
//! ```text
//!   table of a set    one heap     [ a │ b ]   [ a │ b′]      the same entry at another range; recordings that were given
//!                                   retired     the entry     the old range read the old one
//!
//!   slot              next heap    … │ b′│ …                   the same index in another heap of the device; recordings
//!                     previous     … │ b │ …                   that began with the previous heap read that one
//! ```
//!
//! A **table** is located by each recording that uses it, so it can be anywhere: a set costs a range of its size, and a
//! copy of its descriptors. No set is visited that has none of the moved resources, and committing a set looks at
//! nothing new.
//!
//! The index of a **slot** is a number in buffers of the program, which cannot be exchanged. Recordings in flight and
//! later ones read one index, and have to find different descriptors there: so they read different heaps. That is how
//! the heap grows, too. A heap is replaced once for all moves of a step, and not again before the previous heap is gone
//! ([`is_ready`](Follower::is_ready)); until then, steps move nothing.
//!
//! Two alternatives were rejected. A slot that is written in place (update-after-bind) shows recordings in flight a
//! resource whose bytes are still being copied. A second slot behind an indirection costs each shader a load, also in
//! programs in which nothing moves.

use core::mem::ManuallyDrop;
use std::collections::HashMap;
use std::sync::Arc;

use super::Shared;
use super::followed::State;
use super::mirror::WriteTarget;
use super::replacement::NextHeap;
use crate::descriptor::error::DescriptorError;
use crate::descriptor::range::DescriptorRange;
use crate::descriptor::shown::View;
use crate::device::DescriptorDevice;
use crate::memory::resource::{CellKey, Follower, Following, NewHandle, NewPlace};

/// All that a switch needs and that could be refused.
struct Switch<D: DescriptorDevice> {
    /// Ends last: until then no other thread changes the descriptors.
    heap: Switching<D>,
    /// By index in the lists of the step.
    resources: Vec<(usize, CellKey)>,
    /// By the entry of a table, another table of its size.
    tables: HashMap<u32, DescriptorRange<D>>,
    /// By descriptor, the view of the new resource, where it has one.
    views: HashMap<WriteTarget, View<D>>,
    /// The next heap, if slots are affected.
    next: Option<NextHeap<D>>,
}

/// Lets other threads change the descriptors again when it is dropped.
struct Switching<D: DescriptorDevice>(Arc<Shared<D>>);

impl<D: DescriptorDevice> Drop for Switching<D> {
    fn drop(&mut self) {
        self.0.followed.end_switch();
    }
}

impl<D: DescriptorDevice> Follower<D> for Shared<D> {
    fn is_ready(&self) -> bool {
        // Without reclaiming, which runs destructors of the program: the step may be done with a lock held. A program
        // reclaims in each frame.
        self.can_be_replaced()
    }

    fn prepare(self: Arc<Self>, moves: &[NewPlace<'_, D>], refused: &mut [bool]) -> Box<dyn Following> {
        // Nothing is reclaimed from here on: a destructor of the program that binds one of the resources would wait for
        // this thread.
        self.followed.begin_switch();
        let heap = Switching(Arc::clone(&self));
        let (tables, views) = (HashMap::new(), HashMap::new());
        let mut switch = Switch { heap, resources: Vec::new(), tables, views, next: None };
        for one in moves {
            if refused[one.index] {
                continue;
            }
            let targets: Vec<_> = self.followed.lock().targets(one.key).collect();
            match targets.iter().try_for_each(|&target| switch.reserve(&self, target, &one.handle)) {
                Ok(()) => switch.resources.push((one.index, one.key)),
                // What was taken for it is given back with the switch, or used by the other resources of its tables.
                Err(_) => refused[one.index] = true,
            }
        }
        Box::new(switch)
    }
}

impl<D: DescriptorDevice> Switch<D> {
    /// Takes what rewriting a descriptor needs.
    fn reserve(
        &mut self,
        heap: &Arc<Shared<D>>,
        target: WriteTarget,
        handle: &NewHandle<'_, D>,
    ) -> Result<(), DescriptorError> {
        let follow = heap.followed.lock().get(target).cloned();
        // Removed since the list was read: another thread has dropped its set.
        let Some(follow) = follow else { return Ok(()) };
        // If another thread removes it meanwhile, that one retires it: the GPU has finished with what is dropped here.
        if let Some(view) = follow.shown.create_next_view(&heap.allocator, handle)? {
            self.views.insert(target, view);
        }
        match target {
            WriteTarget::Slot(_) if self.next.is_none() => self.next = Some(heap.create_next(Ok)?),
            WriteTarget::Slot(_) => {}
            WriteTarget::Table { entry, .. } if !self.tables.contains_key(&entry) => {
                let Some(count) = heap.tables.count(entry) else { return Ok(()) };
                let taken = heap.try_take_table(count)?.ok_or(DescriptorError::Stale)?;
                self.tables.insert(entry, DescriptorRange::new(Arc::clone(heap), taken, count));
            }
            WriteTarget::Table { .. } => {}
        }
        Ok(())
    }
}

impl<D: DescriptorDevice> Following for Switch<D> {
    fn switch(self: Box<Self>, moved: &[bool]) -> bool {
        let Self { heap, resources, tables, mut views, next } = *self;
        let shared = &heap.0;
        // Locked to the end: a set that is dropped meanwhile would free the table that is written here.
        let mut state = shared.followed.lock();
        let moved = resources.into_iter().filter(|&(index, _)| moved[index]);
        let (mut slots, mut of_tables) = (Vec::new(), HashMap::<u32, Vec<WriteTarget>>::new());
        for target in moved.flat_map(|(_, key)| state.targets(key).collect::<Vec<_>>()) {
            match target {
                WriteTarget::Slot(_) => slots.push(target),
                WriteTarget::Table { entry, .. } => of_tables.entry(entry).or_default().push(target),
            }
        }
        // Leaked where something fails or panics below: the descriptors that stay name these views.
        let mut before = ManuallyDrop::new(Vec::new());
        let mut replace_view = |state: &mut State<D>, target| {
            before.extend(views.remove(&target).and_then(|view| state.set_view(target, view)));
        };
        let mut done = Ok(());
        for (entry, targets) in of_tables {
            targets.iter().for_each(|&target| replace_view(&mut state, target));
            let written = match tables.get(&entry) {
                Some(new) => shared.rewrite_table(&state, entry, new, &targets),
                None => Err(DescriptorError::Stale),
            };
            done = done.and(written);
        }
        if let Some(next) = next.filter(|_| !slots.is_empty()) {
            slots.iter().for_each(|&target| replace_view(&mut state, target));
            let replaced = shared.replace_by(next, |mirror| {
                slots.iter().try_for_each(|&target| {
                    let (WriteTarget::Slot(at), Some(follow)) = (target, state.get(target)) else {
                        return Ok(());
                    };
                    let written = follow.shown.with_descriptor(&follow.view, |descriptor| {
                        // SAFETY: the slot lies in the mirror of the next heap, which no other code has access to.
                        unsafe { mirror.write(at, descriptor) }
                    });
                    written.unwrap_or(Err(DescriptorError::Stale))
                })
            });
            done = done.and(replaced);
        }
        drop(state);
        // Without a heap no recording begins that could read anything.
        let is_done = matches!(done, Ok(()) | Err(DescriptorError::HeapGone));
        if is_done {
            ManuallyDrop::into_inner(before).into_iter().for_each(|follow| shared.retire_keep(follow));
        }
        is_done
    }
}

impl<D: DescriptorDevice> Shared<D> {
    /// Overwrites descriptors of relocatable resources that no step will rewrite, in the mirror and nowhere else: work in
    /// flight reads them in the device's heap. At once, and not when they can be reused: a move may destroy the place
    /// that they name before that, and a heap that replaces this one is a copy of the mirror.
    pub(in crate::descriptor) fn forget(&self, target: WriteTarget, count: u32) {
        self.clear(target, count);
    }

    /// Gives a table another range with its descriptors, of which `targets` are written anew. `new` is then the old
    /// range.
    fn rewrite_table(
        &self,
        state: &State<D>,
        entry: u32,
        new: &DescriptorRange<D>,
        targets: &[WriteTarget],
    ) -> Result<(), DescriptorError> {
        self.copy_table(entry, new.entry(), new.count())?;
        for &target in targets {
            let (WriteTarget::Table { at, .. }, Some(follow)) = (target, state.get(target)) else { continue };
            let target = WriteTarget::Table { entry: new.entry(), at };
            let write = |descriptor: &D::Descriptor<'_>| self.write(target, descriptor);
            follow.shown.with_descriptor(&follow.view, write).unwrap_or(Err(DescriptorError::Stale))?;
        }
        // Last: a recording that asks for the table from now on is given the new range.
        self.tables.swap(entry, new.entry());
        self.forget(WriteTarget::Table { entry: new.entry(), at: 0 }, new.count());
        Ok(())
    }
}
