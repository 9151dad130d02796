//! A step of a defragmenter: creates the new resources of a pass, submits the copies, and replaces the old resources.

use std::sync::Weak;

use crate::device::{BufferCopy, Device, DeviceError, FullImageCopy, Submission, TimelinePoint};
use crate::lifetime::{NotSubmitted, Recording, SubmissionTracker};
use crate::memory::defragmentation::Released;
use crate::memory::resource::relocation::cell::{Member, key_in_list};
use crate::memory::resource::relocation::defragmenter::Defragmenter;
use crate::memory::resource::relocation::desc::{DefragmentationStep, StepOutcome};
use crate::memory::resource::relocation::follow::{Follower, Moving};
use crate::memory::resource::relocation::new_resource::{NewObject, NewResource, PendingCopy, retire_left};
use crate::memory::{Allocation, Movability, Move, OwningAllocator, Pass};
use crate::sync::locked;

impl<D: Device> Defragmenter<D> {
    /// Creates all resources of a pass in their new places, submits the copies, and replaces the old resources. Where a
    /// recording is open that may write to them, they stay as they are.
    pub(super) fn execute_pass(
        &self,
        pass: Pass<'_, D>,
        created: &mut Vec<Option<NewResource<D>>>,
        pending: &mut Vec<PendingCopy<D>>,
        followers: &mut Vec<Weak<dyn Follower<D>>>,
    ) -> Result<DefragmentationStep, DeviceError> {
        // Eight steps. Up to the submission, `OpenPass::stay` can take everything back; from there on it cannot:
        //   1  create     the new resources, in their places            one fails: its block stays
        //   2  prepare    descriptor heaps take all that they need      one refuses: its block stays
        //   3  quiet      no recording is open, none can be opened      one is open: everything stays
        //   4  submit     the copies                                    it fails: everything stays
        //   ───────────── no way back: a queue has the copies ─────────────
        //   5  finish     ranges are exchanged, owners get the new handles
        //   6  switch     descriptors name the new resources            one fails: the old ones are leaked
        //   7  not quiet  recordings are opened again
        //   8  retire     the old resources, which older recordings may still use
        // So what is added goes above the line if it can fail.
        // (`a_step_that_fails_at_any_call_leaves_descriptors_that_are_right` lets each call of the device fail in
        // turn.)
        debug_assert!(created.is_empty(), "each step clears the list at its end");
        let device = self.memory.allocator().device();
        let mut open = OpenPass { memory: &self.memory, pass, created };
        let OpenPass { pass, created, .. } = &mut open;
        created.extend(pass.moves().iter().map(|one| self.recreate(one)));
        // Named only now that `OpenPass` owns them: a panic of the device before that would leak them.
        for (one, new) in pass.moves().iter().zip(created.iter()) {
            new.iter().for_each(|new| new.name(self.memory.allocator(), one));
        }
        // Before the submission, since it is the last that can be undone. What a descriptor heap cannot follow stays.
        let (moving, refused) = Moving::prepare(created);
        for (new, _) in created.iter_mut().zip(refused).filter(|(_, refused)| *refused) {
            new.take().into_iter().for_each(|it| it.destroy(device));
        }
        // Before the submission, so that no byte is copied for a block that stays.
        ignore_unmovable_blocks(device, pass, created);
        let tracker = self.memory.deletion_queue().tracker();
        // Last of all, without the lock: it runs destructors.
        let _orphans = VisitOrphans(tracker);
        let recording = tracker.record("defragmentation").only_reads().leaving_orphans();
        // No recording is opened from here until the new handles are in place. One that is opened earlier keeps the
        // resources where they are; one that is opened later has the new handles, and what it submits waits for the copies.
        // As late as this, since no thread can begin a frame until it ends: all that can be done before has been.
        let Some(quiet) = tracker.keep_quiet() else {
            // No queue has used the new resources.
            created.iter_mut().filter_map(Option::take).for_each(|new| new.destroy(device));
            open.stay();
            return Ok(DefragmentationStep::new(StepOutcome::RecordingIsOpen));
        };
        // A buffer that was just created has nothing to copy, and its first bytes need not wait for that. An image that was
        // written since the plan may be in another state, or in several.
        for new in created.iter_mut() {
            new.take_if(|new| !new.note_contents()).into_iter().for_each(|it| it.destroy(device));
        }
        ignore_unmovable_blocks(device, pass, created);
        let has_images = created.iter().flatten().any(NewResource::is_image);
        // While quiet: a write that is recorded beside it would go to the old place while the copy reads that, in no
        // order. (`a_write_that_is_recorded_while_a_step_submits_its_copies_comes_after_them`)
        let submitted = match self.submit(recording, created) {
            Err(NotSubmitted {
                recording,
                error: DeviceError::Unsupported | DeviceError::InvalidCopy(_),
            }) if has_images => {
                // The device does not say which image it cannot copy in its state. Buffers can still move without images.
                for new in created.iter_mut() {
                    new.take_if(|new| new.is_image()).into_iter().for_each(|it| it.destroy(device));
                }
                ignore_unmovable_blocks(device, pass, created);
                self.submit(recording, created)
            }
            submitted => submitted,
        };
        let copied_at = match submitted {
            Ok(point) => point,
            Err(NotSubmitted { error, .. }) => {
                drop(quiet);
                // The submission failed, so no queue uses the new resources.
                created.drain(..).flatten().for_each(|new| new.destroy(device));
                return Err(error);
            }
        };
        if let Some(point) = copied_at {
            locked(&self.reports.copied_at).insert(point);
            // Also of what stays after all: the queue still reads it.
            created.iter().flatten().for_each(|new| new.note_copy(point));
        }
        let mut step =
            DefragmentationStep { copied_at, ..DefragmentationStep::new(StepOutcome::LimitReached) };
        // The sums of the pass have the bytes that the queue copies.
        for (index, _) in created.iter().enumerate().filter(|(_, new)| !copied(new)) {
            pass.note_not_copied(index);
        }
        let arriving: Vec<_> =
            created.iter().map(|new| new.as_ref().is_some_and(NewResource::blocks_cpu_access)).collect();
        let mut moved = vec![false; created.len()];
        let mut left = Vec::new();
        let mut ended = created.drain(..).zip(&mut moved);
        // The pass releases the places in the order of its moves, which is that of the new resources.
        let leave = |released, place| match (next_of(&released, &mut ended), released) {
            (Some((Some(new), moved)), Released::Source) => {
                step.outcome = StepOutcome::Moved;
                let (old, copying) = new.replace_old(place, copied_at);
                pending.extend(copying);
                left.push(old);
                *moved = true;
            }
            (not_moved, _) => leave_unused(&self.memory, not_moved.and_then(|(new, _)| new), place),
        };
        pass.finish(|index| arriving[index], leave);
        drop(ended);
        // After the handles and before the end of the quiet, so that a recording has both old or both new.
        let (following, can_leave) = moving.switch(&moved);
        // Until here a recording could begin that reads the old descriptors.
        drop(quiet);
        *followers = following;
        // Last. What is retired waits for the recordings that are open now; one that could still begin with the old
        // descriptors would not be among them.
        retire_left(&self.memory, left, can_leave);
        Ok(step)
    }

    /// Creates a resource in its new place. `None` when it is not the defragmenter's, or cannot be created there.
    fn recreate(&self, moved: &Move<D>) -> Option<NewResource<D>> {
        let device = self.memory.allocator().device();
        let copied = moved.contents() == Movability::Copied;
        let host_visible = moved.to().mapped_ptr.is_some();
        let members = self.members.lock();
        // Dropped since the plan, or of another defragmenter: then it stays, and its block with it.
        let (member, _) = members.get(&key_in_list(moved.id()))?;
        match member {
            Member::Buffer(cell) => {
                let cell = cell.upgrade()?;
                // Before it may be dropped here, since the last to drop it takes the lock.
                drop(members);
                // Planned before it was known to be in memory that no queue can copy within; or another one has its record.
                (cell.id() == moved.id() && cell.is_movable()).then_some(())?;
                NewObject::create(device, cell, &moved.to(), [copied, host_visible])
                    .ok()
                    .map(NewResource::Buffer)
            }
            Member::Image(cell) => {
                let cell = cell.upgrade()?;
                drop(members);
                (cell.id() == moved.id() && cell.is_movable()).then_some(())?;
                let new = NewObject::create(device, cell, &moved.to(), [copied, host_visible]).ok()?;
                // Its state became unknown since the plan: its texels cannot be copied, so it stays.
                if new.copied && new.state.is_none() {
                    NewResource::Image(new).destroy(device);
                    return None;
                }
                Some(NewResource::Image(new))
            }
        }
    }

    /// Submits the copies. Returns `None` when there is nothing to copy.
    fn submit(
        &self,
        recording: Recording,
        created: &[Option<NewResource<D>>],
    ) -> Result<Option<TimelinePoint>, NotSubmitted<DeviceError>> {
        let (mut copies, mut full_images) = (Vec::new(), Vec::new());
        for new in created.iter().flatten() {
            match new {
                NewResource::Buffer(NewObject { from, to, size, copied: true, .. }) => {
                    copies.push(BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size });
                }
                NewResource::Image(NewObject {
                    cell, from, to, state: Some(state), copied: true, ..
                }) => {
                    full_images.push(FullImageCopy {
                        from,
                        to,
                        info: &cell.info,
                        before: *state,
                        after: *state,
                    });
                }
                NewResource::Buffer(_) | NewResource::Image(_) => {}
            }
        }
        if copies.is_empty() && full_images.is_empty() {
            return Ok(None);
        }
        // Their own queue is left out: its submissions are in order as it is.
        // (`the_copies_of_a_step_come_after_what_other_queues_were_given_before`)
        // The copies read what other queues wrote, so they wait for all work submitted before. No recording is open that may
        // write, so nothing that is submitted later does.
        let waits: Vec<_> =
            recording.tracker().submitted().points().filter(|it| it.queue != self.queue).collect();
        let work =
            Submission { waits: &waits, copies: &copies, full_images: &full_images, ..Submission::default() };
        let device = self.memory.allocator().device();
        let submitted = recording.submit(self.queue, |queue| {
            // SAFETY: each new resource is the only one in its place and was created by the description of its old one,
            // and the device said that resources of this description can be copied. The old ones live at least until
            // this recording has completed, since their owners hold them or they are retired after it; so do the new
            // ones. An image is in the state in which uploads left it, or its owner promised it to `set_state`; a program
            // whose commands leave it in another says so, as it promises where it submits them.
            unsafe { device.submit(queue, &work) }
        });
        submitted.map(Some)
    }
}

/// Returns whether a queue copies the bytes of a resource that moves. One that does not move counts no bytes.
fn copied<D: Device>(new: &Option<NewResource<D>>) -> bool {
    new.as_ref().is_none_or(NewResource::is_copied)
}

/// Returns what was created for the move of which a pass releases a place. Nothing was for one whose owner freed its
/// allocation meanwhile, since what was created keeps the owner: so the GPU has finished with its old place.
fn next_of<T>(released: &Released, created: &mut impl Iterator<Item = T>) -> Option<T> {
    // Counts on the order of `finish` in `pass.rs`: a freed allocation releases two places, the new one first, and the
    // list has one entry for both.
    if matches!(released, Released::FreedSource) { None } else { created.next() }
}

/// Leaves a place that holds nothing after all. A queue may still write to what was created there.
fn leave_unused<D: Device>(memory: &OwningAllocator<D>, new: Option<NewResource<D>>, place: Allocation) {
    match new {
        Some(new) => new.retire(memory, place),
        None => memory.allocator().free_own(place),
    }
}

/// A pass, and the resources created in its new places. Dropped before the pass ended, all resources stay in their
/// places.
struct OpenPass<'a, 'p, D: Device> {
    memory: &'a OwningAllocator<D>,
    pass: Pass<'p, D>,
    /// One entry for each move, as far as created. Empty once the pass has ended.
    created: &'a mut Vec<Option<NewResource<D>>>,
}

/// Looks at orphans when dropped.
struct VisitOrphans<'a>(&'a SubmissionTracker);

impl Drop for VisitOrphans<'_> {
    fn drop(&mut self) {
        self.0.visit_orphans();
    }
}

impl<D: Device> OpenPass<'_, '_, D> {
    /// Ends the pass without a move. A queue may have the copies, so the new resources and their places are kept until all
    /// queues have completed their work.
    fn stay(&mut self) {
        for index in 0..self.created.len() {
            self.pass.ignore_with_others(index);
        }
        let memory = self.memory;
        let mut made = self.created.drain(..);
        self.pass.cancel(|released, place| {
            leave_unused(memory, next_of(&released, &mut made).flatten(), place);
        });
    }
}

impl<D: Device> Drop for OpenPass<'_, '_, D> {
    fn drop(&mut self) {
        // The list is not empty only after a panic of the device. Whether a queue got the copies is unknown then.
        self.stay();
    }
}

/// Ignores the moves of all blocks from which some allocation cannot be moved: such a block stays anyway.
fn ignore_unmovable_blocks<D: Device>(
    device: &D,
    pass: &mut Pass<'_, D>,
    created: &mut [Option<NewResource<D>>],
) {
    // A block of which one allocation stays is not freed, and what is copied out of it is copied for nothing. So all
    // its moves of this pass go the same way: `ignore` for those that cannot move, which are not planned again, and
    // `ignore_with_others` for the rest, which may be planned another time.
    for stays in 0..created.len() {
        if created[stays].is_some() || pass.moves()[stays].is_ignored() {
            continue;
        }
        for (index, new) in created.iter_mut().enumerate() {
            if pass.moves()[index].leaves_with(&pass.moves()[stays]) {
                match new.take() {
                    None => pass.ignore(index),
                    Some(new) => {
                        pass.ignore_with_others(index);
                        new.destroy(device);
                    }
                }
            }
        }
    }
}
