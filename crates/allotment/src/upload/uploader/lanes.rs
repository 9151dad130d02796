//! Which lane of an uploader does what.

use super::Uploader;
use crate::device::Device;
use crate::memory::AllocationId;
use crate::upload::lane::{Lane, Level};

impl<D: Device> Uploader<D> {
    /// Returns whether a subresource of an exclusive image is not handed over to the family of its owner.
    pub(in crate::upload) fn is_held(&self, level: Level) -> bool {
        self.lanes().any(|lane| lane.is_held(level))
    }

    /// Returns whether anything of a resource is on its way that was streamed.
    pub(in crate::upload) fn is_streaming(&self, resource: AllocationId) -> bool {
        self.lanes().any(|lane| lane.is_streaming(self.tracker(), resource))
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane<D>> {
        [Some(&self.buffers), self.images.as_ref(), self.home.as_ref()].into_iter().flatten()
    }

    /// Returns the lane that writes images.
    pub(in crate::upload) fn image_lane(&self) -> &Lane<D> {
        self.images.as_ref().unwrap_or(&self.buffers)
    }

    /// Returns the lane that writes parts of exclusive images where the rest is kept.
    pub(in crate::upload) fn home_lane(&self) -> &Lane<D> {
        self.home.as_ref().unwrap_or_else(|| self.image_lane())
    }

    /// Returns where exclusive images are copied that a lane's queue does not copy.
    pub(super) fn home_of(&self, lane: &Lane<D>) -> Option<&Lane<D>> {
        self.home.as_ref().filter(|_| core::ptr::eq(lane, self.image_lane()))
    }
}
