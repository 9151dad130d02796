//! Moves of mapped buffers, each at a point that the owner chooses.

use core::time::Duration;

use super::{MappedBuffer, Owner};
use crate::device::{Device, DeviceError, Mapped};
use crate::memory::resource::relocation::Acceptor;
use crate::memory::{AcceptedMove, DefragmentationError};

impl<D: Device> MappedBuffer<D> {
    /// Returns whether a step may offer to move the buffer.
    pub fn is_relocatable(&self) -> bool {
        matches!(self.owner, Owner::Relocatable { .. })
    }

    /// Returns how often the buffer was moved. While this number is unchanged, so are the handle and the address.
    pub fn moves(&self) -> u32 {
        self.buffer().map_or(0, |buffer| buffer.moves())
    }

    /// Moves the buffer to the place that a step of the defragmenter has offered, if there is one and the GPU does not
    /// write to the buffer. Never waits. Call it once a frame, at a point where no thread uses the old
    /// [address](Self::address) and no recording is open, such as right before the frame begins.
    ///
    /// The CPU copies the bytes, and the [handle](Self::handle) and the address are new when this returns
    /// [`Moved`](AcceptedMove::Moved). What was written before, by the CPU or by the GPU, is there. Descriptors
    /// [follow](crate::memory::Defragmenter#descriptors) as they do for a [`Buffer`](crate::memory::Buffer). The old buffer is
    /// destroyed once the GPU has completed what was recorded with it.
    ///
    /// Until then the owner uses the buffer as if no move were offered. [`NotYet`](AcceptedMove::NotYet) is returned while
    ///
    /// - a recording is open that may write to relocatable resources: all, unless they
    ///   [only read](crate::lifetime::Recording::only_reads);
    /// - a submission of such a recording is in flight, and queues can write to the buffer. They cannot write to upload
    ///   heaps of Direct3D 12, nor to buffers of Vulkan whose usages only read: vertex, index, uniform or indirect
    ///   buffers, and sources of copies.
    ///
    /// # Offers
    ///
    /// A step offers moves only to owners that call this: the first call, and each call after an offer has expired, opts
    /// in. An offer reserves room. It expires when it was not accepted within a second or so, by the allocator's
    /// [clock](crate::memory::blocks::TimeSource), and when a request has no room and reopens the block that was being emptied.
    /// Then the block stays, with what is still in it. If the buffer is dropped, the room is free at once. Moves of other
    /// resources wait for no owner.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::{AcceptedMove, PassLimits};
    ///
    /// let options = MemoryUsage::Upload.with_name("tile").relocatable();
    /// let mut tiles = Vec::new();
    /// for at in 0..5 {
    ///     tiles.push(gpu.create_mapped_buffer(&BufferDesc::new(1 << 20), &options)?); // two blocks of 4 MiB
    ///     tiles[at].write(0, &[at as u8; 64])?;
    ///     tiles[at].accept_move()?; // opts in
    /// }
    /// drop(tiles.remove(0));
    /// gpu.reclaim();
    ///
    /// while gpu.defragmenter().step(PassLimits::NONE)?.outcome != allotment::memory::defragmentation::StepOutcome::Idle {}
    /// let before = tiles[3].address();
    /// tiles[3].write(64, b"until it is accepted, the old address is valid")?;
    /// assert_eq!(tiles[3].accept_move()?, AcceptedMove::Moved);
    /// assert_ne!(tiles[3].address(), before);
    /// let mut bytes = [0; 64];
    /// tiles[3].read(0, &mut bytes)?;
    /// assert_eq!(bytes, [4; 64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DefragmentationError::Device`] where the device refuses the new buffer, or to flush it. The buffer is where it was.
    #[inline(never)]
    pub fn accept_move(&mut self) -> Result<AcceptedMove, DefragmentationError> {
        let Owner::Relocatable { handle, acceptor } = &mut self.owner else {
            return Ok(AcceptedMove::NotOffered);
        };
        let before = acceptor.buffer().moves();
        // Also where a callback panics: the buffer has moved then.
        struct Follow<'a, D: Device> {
            handle: &'a mut D::Buffer,
            first: &'a mut Mapped,
            acceptor: &'a Acceptor<D>,
            before: u32,
        }
        impl<D: Device> Drop for Follow<'_, D> {
            fn drop(&mut self) {
                let buffer = self.acceptor.buffer();
                if buffer.moves() != self.before {
                    *self.handle = buffer.handle();
                    // Of the same memory type as before, so it is mapped.
                    let address = buffer.location().mapped_ptr;
                    address.into_iter().for_each(|address| *self.first = Mapped(address));
                }
            }
        }
        let follow = Follow { handle, first: &mut self.first, acceptor, before };
        follow.acceptor.accept()
    }

    /// Moves the buffer as [`accept_move`](Self::accept_move) does, and waits for the GPU to complete its writes for at
    /// most `timeout`. It does not wait for recordings that are open.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::AcceptedMove;
    ///
    /// let options = MemoryUsage::Readback.with_name("counters").relocatable();
    /// let mut counters = gpu.create_mapped_buffer(&BufferDesc::new(4096), &options)?;
    /// let second = core::time::Duration::from_secs(1);
    /// assert_eq!(counters.accept_move_within(second)?, AcceptedMove::NotOffered); // so it does not wait
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `accept_move`.
    #[inline(never)]
    pub fn accept_move_within(&mut self, timeout: Duration) -> Result<AcceptedMove, DefragmentationError> {
        if let Owner::Relocatable { acceptor, .. } = &self.owner {
            if acceptor.has_offer() {
                let Some(points) = acceptor.written() else { return Ok(AcceptedMove::NotYet) };
                match acceptor.buffer().tracker().wait_all(&points, timeout) {
                    Err(DeviceError::TimedOut { .. }) => return Ok(AcceptedMove::NotYet),
                    // A lost device writes nothing any more.
                    Ok(()) | Err(DeviceError::Lost) => {}
                    Err(error) => return Err(DefragmentationError::Device(error)),
                }
            }
        }
        self.accept_move()
    }
}
