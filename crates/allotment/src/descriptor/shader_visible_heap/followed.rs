//! The descriptors of relocatable resources in a heap: which descriptor shows which resource.
//!
//! ```text
//!   follows    slot 7               ─► an image, its view          of    the image   ─► slot 7, table 3 at 1
//!              table 3, descriptor 1 ─► the same image                   a buffer    ─► table 3 at 0
//!              table 3, descriptor 0 ─► a range of a buffer
//! ```
//!
//! Each descriptor of `follows` is in the list of its resource, and there are no others. A heap without relocatable
//! resources has two empty maps, and no call looks into them.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Shared;
use super::mirror::WriteTarget;
use crate::descriptor::error::DescriptorError;
use crate::descriptor::shown::{Shown, View};
use crate::device::DescriptorDevice;
use crate::memory::resource::CellKey;
use crate::sync::locked;

/// A descriptor of a relocatable resource.
pub(in crate::descriptor) struct Follow<D: DescriptorDevice> {
    pub(super) shown: Shown<D>,
    pub(super) key: CellKey,
    /// The view that the descriptor names, if it is of an image.
    pub(super) view: View<D>,
}

/// The descriptors of relocatable resources.
pub(in crate::descriptor) struct Followed<D: DescriptorDevice> {
    state: Mutex<State<D>>,
    /// The number of descriptors, so that a heap without any is not locked.
    count: AtomicUsize,
    switched: Condvar,
}

/// The state under the lock.
pub(in crate::descriptor) struct State<D: DescriptorDevice> {
    follows: HashMap<WriteTarget, Arc<Follow<D>>>,
    of: HashMap<CellKey, HashSet<WriteTarget>>,
    /// A step is between its first driver call and the switch.
    is_switching: bool,
}

impl<D: DescriptorDevice> Followed<D> {
    pub(super) fn new() -> Self {
        let state = State { follows: HashMap::new(), of: HashMap::new(), is_switching: false };
        Self { state: Mutex::new(state), count: AtomicUsize::new(0), switched: Condvar::new() }
    }

    /// Locks the descriptors, for a thread that changes them. Waits for a step that is about to move their resources.
    pub(in crate::descriptor) fn wait(&self) -> MutexGuard<'_, State<D>> {
        let mut state = self.lock();
        while state.is_switching {
            state = self.switched.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Locks the descriptors, also during a step.
    pub(super) fn lock(&self) -> MutexGuard<'_, State<D>> {
        locked(&self.state)
    }

    /// Keeps threads [waiting](Self::wait), and other steps.
    pub(super) fn begin_switch(&self) {
        self.wait().is_switching = true;
    }

    pub(super) fn end_switch(&self) {
        self.lock().is_switching = false;
        self.switched.notify_all();
    }

    /// Adds a descriptor, in place of what was known of it before.
    pub(in crate::descriptor) fn insert(
        &self,
        state: &mut State<D>,
        target: WriteTarget,
        follow: Follow<D>,
    ) -> Option<Arc<Follow<D>>> {
        let before = self.remove(state, target);
        state.of.entry(follow.key).or_default().insert(target);
        state.follows.insert(target, Arc::new(follow));
        self.count.store(state.follows.len(), Relaxed);
        before
    }

    /// Removes a descriptor, which no step writes from now on. The caller retires the result, since work in flight may
    /// read the view.
    pub(in crate::descriptor) fn remove(
        &self,
        state: &mut State<D>,
        target: WriteTarget,
    ) -> Option<Arc<Follow<D>>> {
        let follow = state.follows.remove(&target)?;
        if let Some(targets) = state.of.get_mut(&follow.key) {
            targets.remove(&target);
            if targets.is_empty() {
                state.of.remove(&follow.key);
            }
        }
        self.count.store(state.follows.len(), Relaxed);
        Some(follow)
    }

    pub(super) fn take_all(&self) -> Vec<Arc<Follow<D>>> {
        let mut state = self.lock();
        state.of.clear();
        self.count.store(0, Relaxed);
        state.follows.drain().map(|(_, follow)| follow).collect()
    }

    fn is_empty(&self) -> bool {
        // Relaxed: the thread that removes a descriptor has been given its handle by the one that added it.
        self.count.load(Relaxed) == 0
    }
}

impl<D: DescriptorDevice> State<D> {
    /// Returns the descriptors of a resource.
    pub(super) fn targets(&self, key: CellKey) -> impl Iterator<Item = WriteTarget> + '_ {
        self.of.get(&key).into_iter().flatten().copied()
    }

    pub(super) fn get(&self, target: WriteTarget) -> Option<&Arc<Follow<D>>> {
        self.follows.get(&target)
    }

    /// Replaces the view of a descriptor. Returns what it was.
    pub(super) fn set_view(&mut self, target: WriteTarget, view: View<D>) -> Option<Arc<Follow<D>>> {
        let follow = self.follows.get_mut(&target)?;
        let new = Follow { shown: follow.shown.clone(), key: follow.key, view };
        Some(core::mem::replace(follow, Arc::new(new)))
    }
}

impl<D: DescriptorDevice> Shared<D> {
    /// Writes the descriptor of a relocatable resource with `write`, which is given the target and the descriptor, and
    /// follows its moves from now on.
    pub(in crate::descriptor) fn follow<R>(
        self: &Arc<Self>,
        shown: Shown<D>,
        key: CellKey,
        write: impl FnOnce(&D::Descriptor<'_>) -> Result<(WriteTarget, R), DescriptorError>,
    ) -> Result<R, DescriptorError> {
        let mut write = write;
        loop {
            // A driver call, so without the lock.
            let view = shown.create_view(&self.allocator)?;
            let mut state = self.followed.wait();
            // No step moves it as long as the lock is held: it would have to begin a switch of this heap first.
            let (target, written) = match shown.with_descriptor(&view, write) {
                Ok(written) => written?,
                // Moved since the view was created: it is of the old image.
                Err(not_written) => {
                    write = not_written;
                    continue;
                }
            };
            let before = self.followed.insert(&mut state, target, Follow { shown, key, view });
            drop(state);
            before.into_iter().for_each(|before| self.retire_keep(before));
            return Ok(written);
        }
    }

    /// Follows the moves of these descriptors no longer, which are removed or overwritten.
    pub(in crate::descriptor) fn unfollow(&self, targets: impl IntoIterator<Item = WriteTarget>) {
        if self.followed.is_empty() {
            return;
        }
        let mut state = self.followed.lock();
        let remove = |target| Some((target, self.followed.remove(&mut state, target)?));
        let removed: Vec<_> = targets.into_iter().filter_map(remove).collect();
        drop(state);
        // After the lock: it may be the last owner of the resource.
        for (target, follow) in removed {
            self.forget(target, 1);
            self.retire_keep(follow);
        }
    }
}
