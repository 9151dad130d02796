//! New handles of resources whose memory a pass moved.

use super::RawResource;
use crate::device::Device;
use crate::memory::AccessError;
use crate::memory::allocator::Allocator;

impl<D: Device> Allocator<D> {
    /// Gives a buffer or an image the handle that it has in its new place, after a [pass](crate::memory::Pass) that moved its
    /// memory has ended. Returns the old handle, to be destroyed once no queue uses it. From then on safe calls may use the
    /// resource again: until here they get [`AccessError::Moved`].
    ///
    /// ```
    /// use allotment::device::BufferDevice as _;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Movability;
    /// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    ///
    /// let info = BufferDesc::new(1 << 20);
    /// let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_movability(Movability::Recreated);
    /// let mut tiles = Vec::new();
    /// for _ in 0..5 {
    ///     tiles.push(allocator.create_buffer(&info, &options)?); // two blocks of 4 MiB
    /// }
    /// allocator.destroy_buffer(tiles.remove(0))?;
    ///
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// while let NextPass::Moves(pass) = run.next_pass() {
    ///     let mut created = std::collections::HashMap::new();
    ///     for moved in pass.moves() {
    ///         let to = moved.to();
    ///         // SAFETY: the place is live, was chosen for the requirements of such a buffer, and outlives it.
    ///         let handle = unsafe { allocator.device().create_buffer(&info, to.memory, to.offset)? };
    ///         created.insert(moved.id(), handle); // and the program records the copy
    ///     }
    ///     for moved in pass.end().moved { // once the copies have completed
    ///         let tile = tiles.iter_mut().find(|tile| tile.allocation().id() == moved.id()).ok_or("a tile")?;
    ///         let handle = created.remove(&moved.id()).ok_or("created above")?;
    ///         // SAFETY: created above in the place where the allocation is now; nothing else destroys it.
    ///         let old = unsafe { allocator.set_handle(tile, handle)? };
    ///         // SAFETY: no queue uses it any more.
    ///         unsafe { allocator.device().destroy_buffer(old) };
    ///     }
    ///     // Of moves that did not happen: ignored, or the allocation was freed meanwhile.
    ///     for unused in created.into_values() {
    ///         // SAFETY: no queue uses it any more.
    ///         unsafe { allocator.device().destroy_buffer(unused) };
    ///     }
    /// }
    /// assert_eq!(allocator.statistics().blocks, 1);
    /// # drop(run);
    /// # for tile in tiles { allocator.destroy_buffer(tile)?; }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::NotMoved`] where no pass has moved the memory since the resource got its handle; the errors of any
    /// access. The resource keeps its handle then, and the new one is still the caller's to destroy.
    ///
    /// # Safety
    ///
    /// `handle` is a resource of this allocator's device, created with the description of the old one, and bound to
    /// where the allocation [is now](Self::location). Nothing else destroys it.
    #[doc(alias = "SetResource")]
    pub unsafe fn set_handle<H>(&self, resource: &mut RawResource<H>, handle: H) -> Result<H, AccessError> {
        let (slot, _) = self.slot_and_record(&resource.allocation)?;
        slot.end_moved(resource.allocation.record, resource.allocation.generation)?;
        Ok(core::mem::replace(&mut resource.handle, handle))
    }
}
