//! Errors of a [`Gpu`](super::Gpu) and a [`Frame`](super::Frame), one type per group of calls.

use core::error::Error;
use core::fmt;

use crate::device::{DescriptionError, DeviceError};
use crate::memory::{CreateAllocatorError, DefragmentationError};
use crate::upload::UploadError;

/// Why a [`Gpu`](super::Gpu) was not created.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::gpu::GpuError;
/// use allotment::memory::blocks::BlockSizes;
///
/// let mut desc = GpuDesc::default();
/// desc.allocator.block_sizes = BlockSizes::fixed(1000);
/// match Gpu::new(device, desc) {
///     Err(GpuError::Allocator(error)) => println!("{error}"), // 1000 is no power of two
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuError {
    /// The device has more queues than a tracker supports. Open it with fewer.
    Queues(DescriptionError),
    /// The allocator's configuration or the device's properties are invalid.
    Allocator(CreateAllocatorError),
    /// The uploader's configuration is invalid.
    Uploader(UploadError),
    /// The configuration of defragmentation is invalid.
    Defragmentation(DefragmentationError),
    /// The operating system refused to start the maintenance thread. Use
    /// [`Maintenance::EndOfFrame`](super::Maintenance::EndOfFrame) instead.
    MaintenanceThread(std::io::ErrorKind),
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queues(error) => write!(f, "the device has too many queues: {error}"),
            Self::Allocator(error) => write!(f, "invalid allocator configuration: {error}"),
            Self::Uploader(error) => write!(f, "invalid uploader configuration: {error}"),
            Self::Defragmentation(error) => write!(f, "invalid defragmentation configuration: {error}"),
            Self::MaintenanceThread(error) => write!(
                f,
                "the operating system started no maintenance thread ({error}); use `Maintenance::EndOfFrame`"
            ),
        }
    }
}

impl Error for GpuError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Queues(error) => Some(error),
            Self::Allocator(error) => Some(error),
            Self::Uploader(error) => Some(error),
            Self::Defragmentation(error) => Some(error),
            Self::MaintenanceThread(_) => None,
        }
    }
}

/// Why a frame did not begin, or why the end of a frame did not do all of its work.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use core::time::Duration;
/// use allotment::gpu::FrameError;
///
/// let desc = GpuDesc::default().with_frames_in_flight(1).with_timeout(Duration::from_millis(10));
/// let gpu = Gpu::new(device.clone(), desc)?;
/// device.pause_queues(); // the GPU executes nothing
/// let frame = gpu.begin_frame()?;
/// // SAFETY: the submission is empty.
/// frame.submit(QueueIndex(0), |queue, _| unsafe { device.submit(queue, &Submission::default()) })?;
/// frame.end()?;
/// assert!(matches!(gpu.begin_frame(), Err(FrameError::Wait(_))));
/// device.resume_queues();
/// gpu.begin_frame()?.end()?; // nothing had changed: begin again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The GPU did not complete the oldest frame in flight within [`GpuDesc::timeout`](super::GpuDesc::timeout), or the
    /// device is lost. After a timeout, begin the frame again.
    Wait(DeviceError),
    /// The uploads that must precede a step of defragmentation were not submitted. They stay pending.
    Uploads(UploadError),
    /// The step of defragmentation failed. Every resource stayed where it was; the frame has ended.
    Defragmentation(DefragmentationError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(error) => write!(f, "no frame can begin: {error}"),
            Self::Uploads(error) => write!(f, "the frame has ended, but uploads stay pending: {error}"),
            Self::Defragmentation(error) => write!(f, "the frame has ended without defragmentation: {error}"),
        }
    }
}

impl Error for FrameError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Wait(error) => Some(error),
            Self::Uploads(error) => Some(error),
            Self::Defragmentation(error) => Some(error),
        }
    }
}

/// Why nothing was submitted. The frame or the recording is as before, and the submission can be repeated.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::gpu::SubmitError;
///
/// let frame = gpu.begin_frame()?;
/// let refused = frame.submit(QueueIndex(0), |_, _| Err("the pipeline is not compiled yet"));
/// assert_eq!(refused, Err(SubmitError::Commands("the pipeline is not compiled yet")));
/// frame.end()?; // nothing was submitted, and what the frame lent comes back at once
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError<E> {
    /// The uploads that the commands may read were not submitted. They stay pending, unless the device is lost.
    Uploads(UploadError),
    /// The recording was opened by another `Gpu`, or by another tracker: nothing of this one waited while its commands
    /// were recorded. Open it with [`Gpu::record`](super::Gpu::record) of this one.
    WrongTracker,
    /// The closure that submits the commands failed.
    Commands(E),
}

impl<E: fmt::Display> fmt::Display for SubmitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uploads(error) => write!(f, "the uploads before the commands were not submitted: {error}"),
            Self::WrongTracker => {
                f.write_str("the recording was opened by another `Gpu` (another tracker); open it with `Gpu::record` of this one")
            }
            Self::Commands(error) => write!(f, "the commands were not submitted: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for SubmitError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Uploads(error) => Some(error),
            Self::WrongTracker => None,
            Self::Commands(error) => Some(error),
        }
    }
}
