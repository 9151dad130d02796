//! Where each resource is, and whom it follows there.

use core::ops::Range;

use super::planner::{Graph, TransientPass, TransientResource};

/// The place of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The heap, as an index into [`TransientPlan::heaps`].
    pub heap: u32,
    /// Bytes from the beginning of the heap.
    pub offset: u64,
}

/// A resource that had some of the bytes of another one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Follow {
    /// The resource.
    pub resource: TransientResource,
    /// The bytes were its own in the frame before. Where this is false, in this frame.
    pub of_frame_before: bool,
}

/// Two passes on different queues, the first of the frame before: the second must not begin before the first has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameWait {
    /// The pass that waits.
    pub pass: TransientPass,
    /// The pass of the frame before.
    pub for_pass: TransientPass,
}

/// The memory that some resources of one class share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedHeap {
    /// The class of its resources.
    pub class: u32,
    /// Bytes that it needs.
    pub size: u64,
    /// No plan needs fewer bytes for the resources of this heap, in which those that kept their places from the plan before keep
    /// them. At most `size`, also where some resources have no room.
    pub lower_bound: u64,
    /// The largest alignment of its resources, in bytes: that of the memory.
    pub alignment: u64,
}

impl PlannedHeap {
    /// Returns whether no other plan for its resources is smaller that keeps the places which this one has kept.
    ///
    /// ```
    /// # use allotment::transient::{TransientDesc, TransientPlanner};
    /// # use allotment::device::QueueIndex;
    /// let mut planner = TransientPlanner::default();
    /// let pass = planner.pass(QueueIndex(0), &[])?;
    /// planner.resource(&TransientDesc::new(0, 4096), &[pass])?;
    /// assert!(planner.plan()?.heaps()[0].is_optimal());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.size == self.lower_bound
    }
}

/// What [`TransientPlanner::plan`](super::TransientPlanner::plan) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransientPlan {
    pub(super) placements: Vec<Option<Placement>>,
    pub(super) heaps: Vec<PlannedHeap>,
    /// Of each resource, its part of `follows`.
    pub(super) follows_of: Vec<Range<u32>>,
    pub(super) follows: Vec<Follow>,
    /// Each resource with each of its first passes, by pass.
    pub(super) begins: Vec<(TransientPass, TransientResource)>,
    pub(super) waits: Vec<FrameWait>,
    pub(super) total_size: u64,
    pub(super) is_kept: Vec<bool>,
    pub(super) moved_bytes: u64,
    pub(super) not_placed_bytes: u64,
    /// 0 before the first.
    pub(super) number: u64,
}

impl TransientPlan {
    /// Returns the place of a resource; `None` where the limits leave no room for it, or where it is
    /// [alone](super::TransientDesc::is_alone). A resource of another frame is not told
    /// from the one that was added in the same order.
    #[must_use]
    pub fn placement(&self, resource: TransientResource) -> Option<Placement> {
        self.placements.get(resource.index()).copied().flatten()
    }

    /// Returns the heaps: those of one class beside each other.
    #[must_use]
    pub fn heaps(&self) -> &[PlannedHeap] {
        &self.heaps
    }

    /// Returns the resources that have had some of the bytes of this one before, each the last one at some byte: an aliasing
    /// barrier from each of them is needed before the first use. Those before them need none. What has no place follows itself.
    ///
    /// In the first frame nobody of a frame before is there.
    #[must_use]
    pub fn follows(&self, resource: TransientResource) -> &[Follow] {
        let part = self.follows_of.get(resource.index()).cloned().unwrap_or_default();
        &self.follows[part.start as usize..part.end as usize]
    }

    /// Returns the resources whose first use this pass is; of a [history](super::TransientPlanner::history), the first one in the
    /// frame that fills it. Their bytes are undefined then: the pass, or a command before it, clears, discards or overwrites them.
    ///
    /// A resource that two queues may use first is in the list of two passes. Where both use it, one waits for what the other has
    /// initialized.
    pub fn begins(&self, pass: TransientPass) -> impl Iterator<Item = TransientResource> + '_ {
        let begin = self.begins.partition_point(|&(other, _)| other < pass);
        self.begins[begin..]
            .iter()
            .take_while(move |(other, _)| *other == pass)
            .map(|&(_, resource)| resource)
    }

    /// Returns the resources that several passes may be the first to use.
    pub(crate) fn begun_by_several(&self) -> impl Iterator<Item = TransientResource> + '_ {
        let mut firsts = vec![0_u32; self.placements.len()];
        let several = self.begins.iter().filter(move |(_, resource)| {
            firsts[resource.index()] += 1;
            firsts[resource.index()] == 2
        });
        several.map(|&(_, resource)| resource)
    }

    /// Returns which passes have to wait for a pass of the frame before on another queue: since a resource follows one of that
    /// frame, or reads what that has left. Waits that follow from others, or from the order of a queue, are not in the list.
    #[must_use]
    pub fn waits(&self) -> &[FrameWait] {
        &self.waits
    }

    /// Returns the bytes of all heaps.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.size).sum()
    }

    /// Returns what the heaps need at least, for the resources that are in each: the most bytes that are alive at the same time,
    /// or more where more is proved.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.lower_bound).sum()
    }

    /// Returns the bytes of the resources that have a place, if each had memory of its own.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.total_size
    }

    /// Returns the bytes of resources that are at another place than in the plan before, though neither their size nor their
    /// alignment nor their class has changed: when this plan was made, or came back. See [`is_kept`](Self::is_kept).
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns the bytes of the resources that have no place, since the limits leave no room for them.
    #[must_use]
    pub fn not_placed_bytes(&self) -> u64 {
        self.not_placed_bytes
    }

    /// Returns whether a resource is where it was in the plan before, with the size, the alignment, the class and the pin that it
    /// had. If it is a [history](super::TransientPlanner::history), the first frame of this plan reads what the frame before
    /// filled; else what it reads is undefined.
    ///
    /// This is about bytes of a heap. Where a heap is another one, since it had to grow, nothing is kept.
    #[must_use]
    pub fn is_kept(&self, resource: TransientResource) -> bool {
        self.is_kept.get(resource.index()).copied().unwrap_or_default()
    }

    /// Returns the number of the plan, from 1 on. One that a frame gets again has the number that it had. It says nothing of the
    /// objects of a [`TransientHeap`](crate::gpu::TransientHeap), which may be created anew for the same plan.
    ///
    /// What [`follows`](Self::follows) and [`waits`](Self::waits) say of the frame before holds where that had this number. Else
    /// the first passes on each queue wait for all passes of the frame before, and an aliasing barrier for all resources comes
    /// first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns a place with the number of the heap within its class.
    pub(super) fn within_class(&self, place: Placement) -> Placement {
        let class = self.heaps[place.heap as usize].class;
        let first = self.heaps.iter().position(|heap| heap.class == class).unwrap_or(0);
        Placement { heap: place.heap - first as u32, ..place }
    }

    /// Notes which resources are where they were before, and what was moved. `old` are the places of those that are what they
    /// were.
    pub(super) fn compare(&mut self, graph: &Graph, old: &[Option<Placement>]) {
        let places: Vec<Option<Placement>> =
            self.placements.iter().map(|place| place.map(|place| self.within_class(place))).collect();
        self.is_kept = places.iter().zip(old).map(|(place, old)| place.is_some() && place == old).collect();
        let moved = graph.resources.iter().zip(places.iter().zip(old));
        let moved = moved.filter(|(_, (place, old))| old.is_some() && place != old);
        self.moved_bytes = moved.map(|(resource, _)| resource.desc.size).sum();
    }

    /// What there is less of in a better plan: bytes without a place, then bytes of heaps.
    pub(super) fn cost(&self) -> (u64, u64) {
        (self.not_placed_bytes, self.size())
    }
}
