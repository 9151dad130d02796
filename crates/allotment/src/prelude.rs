//! What most programs use, for `use allotment::prelude::*`.
//!
//! ```
//! use allotment::device::simulated::{Profile, SimulatedGpu};
//! use allotment::prelude::*;
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! let gpu = Gpu::new(device, GpuDesc::default())?;
//! let mesh = gpu.create_buffer(&BufferDesc::new(4096).into(), &MemoryUsage::GpuOnly.with_name("mesh"))?;
//! gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
//!
//! let frame = gpu.begin_frame()?;
//! frame.submit(QueueIndex(0), |queue, waits| {
//!     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
//!     unsafe { gpu.device().submit(queue, &Submission { waits, ..Submission::default() }) }
//! })?;
//! frame.end()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::descriptor::{Binding, BindingLayout, BindingSet};
pub use crate::device::{
    BufferCopy, BufferDesc, CommandDevice, DescriptorDevice, Device, ImageAspect, ImageDesc, QueueIndex,
    Requirements, SamplerDesc, Submission, TexelBlock, TimelinePoint,
};
// The methods of a device, without names of their own.
pub use crate::device::{BufferDevice as _, ImageDevice as _, MemoryDevice as _, QueueDevice as _};
pub use crate::gpu::{Frame, Gpu, GpuDesc};
#[cfg(all(feature = "d3d12", windows))]
pub use crate::memory::d3d12::AllocatorExt as _;
#[cfg(feature = "vulkan")]
pub use crate::memory::vulkan::AllocatorExt as _;
pub use crate::memory::{
    AllocationOptions, Allocator, AllocatorDesc, Buffer, ExpectedLifetime, Image, MemoryUsage, Pool, PoolDesc,
};
pub use crate::upload::{ImageWrite, ReadbackTicket};
pub use allotment_suballoc::Alignment;
