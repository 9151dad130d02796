//! What follows the moves of relocatable resources: the descriptor heaps that have descriptors of them.
//!
//! ```text
//!   step     creates the new resources ── prepare ── submits the copies ── new handles ── switch ── retires the old ones
//!   heap                                  takes all that can                            writes the
//!                                         fail, or refuses                              new descriptors
//!                                         └────── nobody binds these resources ───────┘
//! ```
//!
//! A resource that a heap refuses is not moved: so the only calls that can fail come before the copies. The old resources
//! are retired after the switch, and not before: a recording that begins between the new handles and the switch still
//! reads the old descriptors.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use crate::device::Device;
use crate::memory::resource::BufferOrImage;
use crate::memory::resource::relocation::cell::Cell;
use crate::memory::resource::relocation::new_resource::NewResource;
use crate::sync::locked;

/// Something that has the handles of relocatable resources in its descriptors.
pub(crate) trait Follower<D: Device>: Send + Sync {
    /// Returns whether it can follow another step already.
    fn is_ready(&self) -> bool;

    /// Takes all that it needs to follow these moves, and keeps other threads from changing what it has of them until
    /// the result is dropped. Sets `refused` for each that it cannot follow.
    fn prepare(self: Arc<Self>, moves: &[NewPlace<'_, D>], refused: &mut [bool]) -> Box<dyn Following>;
}

/// A follower that is prepared. Dropped without a switch, everything stays as it is.
pub(crate) trait Following {
    /// Writes the descriptors of the resources that have moved; for recordings that begin from now on. False where that
    /// failed: then the old resources have to stay.
    fn switch(self: Box<Self>, moved: &[bool]) -> bool;
}

/// Names a relocatable resource for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CellKey(usize);

/// The new handle of a resource that a step is about to move.
pub(crate) struct NewPlace<'a, D: Device> {
    /// Its index in the lists of the step.
    pub(crate) index: usize,
    pub(crate) key: CellKey,
    pub(crate) handle: NewHandle<'a, D>,
}

/// A new handle.
pub(crate) enum NewHandle<'a, D: Device> {
    Buffer(&'a D::Buffer),
    Image(&'a D::Image),
}

/// The followers of one resource.
pub(super) struct Followers<D: Device> {
    following: Mutex<State<D>>,
    moved: Condvar,
}

struct State<D: Device> {
    list: Vec<Weak<dyn Follower<D>>>,
    /// A step has read the list, and has not ended.
    is_moving: bool,
}

impl<D: Device> Followers<D> {
    pub(super) fn new() -> Self {
        Self { following: Mutex::new(State { list: Vec::new(), is_moving: false }), moved: Condvar::new() }
    }

    /// Adds a follower, which the next step asks. Waits for a step that would not ask it.
    pub(super) fn add(&self, follower: &Arc<dyn Follower<D>>) {
        let mut state = locked(&self.following);
        loop {
            if state.list.iter().any(|it| core::ptr::addr_eq(it.as_ptr(), Arc::as_ptr(follower))) {
                return;
            }
            if !state.is_moving {
                break;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Heaps that are gone are forgotten here, so that the list does not grow.
        state.list.retain(|it| it.strong_count() > 0);
        state.list.push(Arc::downgrade(follower));
    }

    fn begin_move(&self) -> Vec<Arc<dyn Follower<D>>> {
        let mut state = locked(&self.following);
        state.is_moving = true;
        state.list.iter().filter_map(Weak::upgrade).collect()
    }

    fn end_move(&self) {
        locked(&self.following).is_moving = false;
        self.moved.notify_all();
    }
}

/// Returns the name of a resource.
pub(super) fn key_of<D: Device, C: BufferOrImage<D>>(cell: &Arc<Cell<D, C>>) -> CellKey {
    CellKey(Arc::as_ptr(cell).addr())
}

/// The followers of all resources that a step is about to move. Dropped without a switch, they follow nothing.
pub(super) struct Moving<D: Device> {
    /// First, so that the followers end before the resources do.
    prepared: Vec<Box<dyn Following>>,
    followers: Vec<Arc<dyn Follower<D>>>,
    resources: Vec<MovingCell<D>>,
}

/// A resource whose followers do not change.
struct MovingCell<D: Device>(Arc<dyn HasFollowers<D>>);

/// A cell of either class.
trait HasFollowers<D: Device> {
    fn followers(&self) -> &Followers<D>;
}

impl<D: Device, C: BufferOrImage<D>> HasFollowers<D> for Cell<D, C> {
    fn followers(&self) -> &Followers<D> {
        &self.followers
    }
}

impl<D: Device> Drop for MovingCell<D> {
    #[inline(never)]
    fn drop(&mut self) {
        self.0.followers().end_move();
    }
}

impl<D: Device> Moving<D> {
    /// Prepares the followers of all resources. Returns which of them are refused.
    pub(super) fn prepare(created: &[Option<NewResource<D>>]) -> (Self, Vec<bool>) {
        // In two rounds. First all lists of followers are kept as they are: a heap that is about to bind one of the
        // resources for the first time waits from here on. Then each follower is prepared once, for all resources: a
        // heap is replaced once, however many of its descriptors change.
        let mut moving = Self { prepared: Vec::new(), followers: Vec::new(), resources: Vec::new() };
        let mut refused = vec![false; created.len()];
        for new in created.iter().flatten() {
            let cell: Arc<dyn HasFollowers<D>> = match new {
                NewResource::Buffer(new) => Arc::clone(&new.cell) as _,
                NewResource::Image(new) => Arc::clone(&new.cell) as _,
            };
            moving.followers.extend(cell.followers().begin_move());
            moving.resources.push(MovingCell(cell));
        }
        // In one order for all steps, since one that is prepared keeps another step waiting.
        moving.followers.sort_by_key(|it| Arc::as_ptr(it).addr());
        moving.followers.dedup_by_key(|it| Arc::as_ptr(it).addr());
        if moving.followers.is_empty() {
            return (moving, refused);
        }
        let mut moves = Vec::with_capacity(created.len());
        for (index, new) in created.iter().enumerate() {
            let (key, handle) = match new {
                Some(NewResource::Buffer(new)) => (key_of(&new.cell), NewHandle::Buffer(&new.to)),
                Some(NewResource::Image(new)) => (key_of(&new.cell), NewHandle::Image(&new.to)),
                None => continue,
            };
            moves.push(NewPlace { index, key, handle });
        }
        for follower in &moving.followers {
            moving.prepared.push(Arc::clone(follower).prepare(&moves, &mut refused));
        }
        (moving, refused)
    }

    /// Lets the followers of the resources that have moved follow. Returns the followers, and false where the old
    /// resources have to stay.
    pub(super) fn switch(mut self, moved: &[bool]) -> (Vec<Weak<dyn Follower<D>>>, bool) {
        let followers = self.followers.iter().map(Arc::downgrade).collect();
        // The handles are new by now: a heap that does not follow stays wrong, whatever became of another.
        // All of them, also after one that failed.
        let failed = self.prepared.drain(..).filter_map(|one| (!one.switch(moved)).then_some(())).count();
        (followers, failed == 0)
    }
}
