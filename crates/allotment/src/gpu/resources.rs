//! Creation of buffers and images by a [`Gpu`](super::Gpu).

use super::Gpu;
use crate::device::{Device, Requirements};
use crate::memory::{
    AllocationError, AllocationOptions, Buffer, GroupError, Image, MakingRoom, MappedBuffer, Memory,
    Movability, Name, ResourceError, RoomOfGpu,
};
use crate::upload::ReadError;

impl<D: Device> Gpu<D> {
    /// Creates a buffer and its memory. Dropping it retires it: it is destroyed once no open recording and no
    /// submission in flight can reference it.
    ///
    /// With [`AllocationOptions::relocatable`], the end of a frame may move it, where
    /// [`GpuDesc::defragmentation`](super::GpuDesc::defragmentation) asks for that. Binding sets and bindless slots that
    /// hold it [follow](crate::memory::Defragmenter#descriptors).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// println!("offset {} of memory {:?}", mesh.info().offset, mesh.info().memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind.
    #[inline(never)]
    #[doc(alias("vmaCreateBuffer", "CreateResource"))]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        match options.movability {
            // Pinned resources bypass the defragmenter: its list, and the lock that guards each handle, are needed only
            // for what moves.
            Movability::Pinned => self.memory().create_buffer(info, options),
            Movability::Copied | Movability::Recreated => self.defragmenter().create_buffer(info, options),
        }
    }

    /// Creates a persistently mapped buffer, which is retired as [buffers](Self::create_buffer) are.
    ///
    /// With [`AllocationOptions::relocatable`], the end of a frame offers to move it, and the owner
    /// [accepts](MappedBuffer::accept_move) the new address when it is done with the old one.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::Upload.with_name("instances").relocatable();
    /// let mut instances = gpu.create_mapped_buffer(&BufferDesc::new(4096), &options)?;
    /// for _ in 0..3 {
    ///     instances.accept_move()?; // between frames: from here on, the handle and the address may be new
    ///     let frame = gpu.begin_frame()?;
    ///     instances.write(0, &[7; 64])?; // record with `instances.handle()`
    ///     frame.end()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind.
    #[inline(never)]
    #[track_caller]
    pub fn create_mapped_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<MappedBuffer<D>, ResourceError> {
        match options.movability {
            Movability::Pinned => self.memory().create_mapped_buffer(info, options),
            Movability::Copied | Movability::Recreated => {
                self.defragmenter().create_mapped_buffer(info, options)
            }
        }
    }

    /// Creates an image and its memory, which are retired as [buffers](Self::create_buffer) are.
    /// A [relocatable](AllocationOptions::relocatable) one moves once its [state](Image::state) is known, and keeps its
    /// contents.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// // On the simulated device a format is its bytes a texel.
    /// let albedo = gpu.create_image(&ImageDesc::new(1024, 1024, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// assert!(albedo.size() >= 4 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither an image nor memory is left behind.
    #[inline(never)]
    #[doc(alias("vmaCreateImage", "CreateResource"))]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        match options.movability {
            Movability::Pinned => self.memory().create_image(info, options),
            Movability::Copied | Movability::Recreated => self.defragmenter().create_image(info, options),
        }
    }

    /// Allocates memory that [resources are placed in](Memory).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let passes = gpu.allocate_memory(&Requirements::new(8192), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// let culled = gpu.create_buffer_in(&passes, 0, &BufferDesc::new(4096), "culled")?;
    /// let sorted = gpu.create_buffer_in(&passes, 4096, &BufferDesc::new(4096), "sorted")?;
    /// assert_eq!(gpu.allocator().statistics().allocations, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::allocate`](crate::Allocator::allocate).
    #[inline(never)]
    #[track_caller]
    pub fn allocate_memory(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Memory<D>, AllocationError> {
        self.memory().allocate_memory(requirements, options)
    }

    /// Allocates [memory](Memory) for several resources that do not overlap, as
    /// [`OwningAllocator::allocate_group`](crate::memory::OwningAllocator::allocate_group).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let tile = ImageDesc::new(64, 64, 4);
    /// let needs = [device.image_requirements(&tile)?; 4];
    /// let (memory, offsets) = gpu.allocate_group(&needs, &MemoryUsage::GpuOnly.with_name("tiles"))?;
    /// let tiles = offsets.into_iter().map(|offset| gpu.create_image_in(&memory, offset, &tile, "tile"));
    /// let tiles = tiles.collect::<Result<Vec<_>, _>>()?;
    /// assert!(tiles.iter().all(|tile| tile.is_active()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of that call.
    #[inline(never)]
    #[track_caller]
    pub fn allocate_group(
        &self,
        members: &[Requirements],
        options: &AllocationOptions,
    ) -> Result<(Memory<D>, Vec<u64>), GroupError> {
        self.memory().allocate_group(members, options)
    }

    /// Creates a buffer `offset` bytes into [memory](Memory), which it keeps. It is retired as [buffers](Self::create_buffer)
    /// are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let passes = gpu.allocate_memory(&Requirements::new(8192), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// let culled = gpu.create_buffer_in(&passes, 4096, &BufferDesc::new(4096), "culled")?;
    /// gpu.uploads().write_buffer(&culled, 0, &[7; 4096])?;
    /// let beyond = gpu.create_buffer_in(&passes, 8192, &BufferDesc::new(4096), "sorted");
    /// println!("{}", beyond.unwrap_err()); // names the buffer, the memory and the bytes
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`OwningAllocator::create_buffer_in`](crate::memory::OwningAllocator::create_buffer_in).
    #[inline(never)]
    #[doc(alias("vmaCreateAliasingBuffer", "vmaCreateAliasingBuffer2", "CreateAliasingResource"))]
    #[track_caller]
    pub fn create_buffer_in(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &D::BufferInfo<'_>,
        name: impl Into<Name>,
    ) -> Result<Buffer<D>, ResourceError> {
        self.memory().create_buffer_in(memory, offset, info, name)
    }

    /// Creates an image `offset` bytes into [memory](Memory), which it keeps. It is retired as [buffers](Self::create_buffer)
    /// are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let desc = ImageDesc::new(64, 64, 4);
    /// let options = MemoryUsage::GpuOnly.with_name("targets");
    /// let targets = gpu.allocate_memory(&device.image_requirements(&desc)?, &options)?;
    /// let bloom = gpu.create_image_in(&targets, 0, &desc, "bloom")?;
    /// gpu.uploads().write_image(&bloom, &[7; 64 * 64 * 4])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`OwningAllocator::create_buffer_in`](crate::memory::OwningAllocator::create_buffer_in).
    #[inline(never)]
    #[doc(alias("vmaCreateAliasingImage", "vmaCreateAliasingImage2", "CreateAliasingResource"))]
    #[track_caller]
    pub fn create_image_in(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &D::ImageInfo<'_>,
        name: impl Into<Name>,
    ) -> Result<Image<D>, ResourceError> {
        self.memory().create_image_in(memory, offset, info, name)
    }

    /// Creates buffers and images for which [room is made](MakingRoom), where there is no memory for them, by moving
    /// relocatable resources. Each then waits for the GPU for at most [`GpuDesc::timeout`](super::GpuDesc::timeout).
    ///
    /// Call it between two frames: with one open, it is refused where it would have to move anything.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("level").relocatable();
    /// let level = gpu.making_room().create_buffer(&BufferDesc::new(64 << 20), &options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn making_room(&self) -> MakingRoom<'_, D> {
        MakingRoom::of_gpu(self.defragmenter(), self.desc().timeout, self)
    }

    /// Reads bytes of a buffer that can be copied from. Submits pending uploads, and returns when the bytes are there: for
    /// tests and tools. A program that draws uses [`reads`](Self::reads), which wait for nothing.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 256])?;
    /// let mut bytes = [0; 256];
    /// gpu.read_buffer(&mesh, 0, &mut bytes)?;
    /// assert_eq!(bytes, [7; 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`]; `bytes` is unchanged.
    #[inline(never)]
    pub fn read_buffer(&self, buffer: &Buffer<D>, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let reads = self.reads();
        let start = || {
            let read = reads.read_buffer(buffer, offset, bytes.len() as u64)?;
            reads.wait_for(&read).map(|()| read)
        };
        let read = match start() {
            // What the GPU still uses may be in the way, or what waits for it.
            Err(ReadError::Memory(_)) if self.wait_idle().is_ok() => start()?,
            read => read?,
        };
        read.read(bytes)
    }
}

impl<D: Device> RoomOfGpu for Gpu<D> {
    fn submit_uploads(&self) -> bool {
        // Its own error comes back with the next frame.
        self.uploads().submit_all().is_ok()
    }

    fn reclaim(&self) {
        _ = self.reclaim();
    }
}
