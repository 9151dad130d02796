//! Why there are no transient resources.

use core::error::Error;
use core::fmt;

use crate::device::DeviceError;
use crate::memory::{AllocationError, ResourceError, ShortName};
use crate::transient::TransientError;

/// Why a frame's transient resources were not described or created. The heap is as before: what the last plan created stays.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::gpu::TransientHeapError;
///
/// let mut heap = gpu.transient_heap(Default::default());
/// let frame = gpu.begin_frame()?;
/// let mut graph = frame.transient(&mut heap)?;
/// let bloom = graph.pass(QueueIndex(0), &[])?;
/// graph.buffer("exposure", &BufferDesc::new(256), &[bloom])?;
/// let again = graph.buffer("exposure", &BufferDesc::new(512), &[bloom]);
/// assert!(matches!(again, Err(TransientHeapError::NameUsedTwice { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransientHeapError {
    /// The heap is of another [`Gpu`](crate::Gpu) than the frame.
    WrongGpu,
    /// Two resources of the frame have one name. Names tell them apart from frame to frame: add a number.
    NameUsedTwice {
        /// The name.
        name: ShortName,
    },
    /// Passes that may run at the same time are the first to use an image, so that none of them can give it its first layout or
    /// state: let one wait for the other.
    FirstUsesNotOrdered {
        /// Name of the image.
        name: ShortName,
    },
    /// The passes and the resources make no plan.
    Plan {
        /// Why not.
        source: TransientError,
        /// Name of the resource, if the error is about one.
        name: ShortName,
    },
    /// The device cannot create such a resource, its description breaks a rule, or the device has no such queue.
    Device {
        /// The error of the device.
        source: DeviceError,
        /// Name of the resource, if the error is about one.
        name: ShortName,
    },
    /// The memory that the resources share could not be allocated. Until the GPU is done with the plan before, its memory is used,
    /// too: [release](super::TransientHeap::release) it, and plan again in a later frame.
    Memory(AllocationError),
    /// A resource was not created.
    Resource(ResourceError),
}

impl fmt::Display for TransientHeapError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongGpu => write!(out, "the transient heap is of another `Gpu` than the frame"),
            Self::NameUsedTwice { name } => {
                write!(out, "two transient resources of a frame have the name {name:?}: add a number")
            }
            Self::FirstUsesNotOrdered { name } => {
                name.begin(out)?;
                write!(
                    out,
                    "passes that may run at the same time are the first to use the image: let one wait for the other"
                )
            }
            Self::Plan { source, name } => {
                name.begin(out)?;
                write!(out, "no plan for the transient resources: {source}")
            }
            Self::Device { source, name } => {
                name.begin(out)?;
                write!(out, "the device refuses the description: {source}")
            }
            Self::Memory(source) => write!(out, "no memory for transient resources: {source}"),
            Self::Resource(source) => write!(out, "a transient resource was not created: {source}"),
        }
    }
}

impl Error for TransientHeapError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::WrongGpu | Self::NameUsedTwice { .. } | Self::FirstUsesNotOrdered { .. } => None,
            Self::Plan { source, .. } => Some(source),
            Self::Device { source, .. } => Some(source),
            Self::Memory(source) => Some(source),
            Self::Resource(source) => Some(source),
        }
    }
}
