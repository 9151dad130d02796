//! Submissions whose commands wait for the uploads before them.

use super::{Gpu, SubmitError};
use crate::device::{Device, QueueIndex, TimelinePoint, TimelineValue};
use crate::lifetime::{NotSubmitted, Recording, TimelinePoints, WrongTracker};
use crate::upload::UploadError;

impl<D: Device> Gpu<D> {
    /// Opens a recording that belongs to no frame: commands that are recorded over several frames, on a loader thread
    /// or by a program that only computes. [`submit`](Self::submit) submits it.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let recording = gpu.record("bake lightmaps");
    /// for _ in 0..5 {
    ///     gpu.begin_frame()?.end()?; // some commands are recorded in each
    /// }
    /// gpu.submit(recording, QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(&self, label: &'static str) -> Recording {
        self.tracker().record(label)
    }

    /// Submits a recording that belongs to no frame. `submit` hands the commands to the queue, which waits for the
    /// points that it is given, and returns the value that the queue's timeline has when the commands are completed.
    /// The points are those of the uploads that were written before, and of resources that defragmentation moved.
    ///
    /// No lock is held while `submit` runs.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let numbers = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("numbers"))?;
    /// gpu.uploads().write_buffer(&numbers, 0, &[1; 4096])?;
    /// let recording = gpu.record("sums");
    /// let point = gpu.submit(recording, QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { gpu.device().submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// gpu.wait(point)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SubmitError`], and the recording, which is still open; [`SubmitError::WrongTracker`] for one that another `Gpu`
    /// opened, also of the same device.
    pub fn submit<E>(
        &self,
        recording: Recording,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, Box<NotSubmitted<SubmitError<E>>>> {
        if let Err(WrongTracker) = self.tracker().check_same(recording.tracker()) {
            return Err(Box::new(NotSubmitted { recording, error: SubmitError::WrongTracker }));
        }
        // Boxed, since a recording is large, and only a failure pays for it.
        recording.submit(queue, |queue| self.submit_after(queue, &[], submit)).map_err(Box::new)
    }

    /// Submits pending uploads, then the commands, which wait for the uploads and for `waits`.
    pub(super) fn submit_after<E>(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelineValue, SubmitError<E>> {
        let points = self.submission_waits(queue, waits).map_err(SubmitError::Uploads)?;
        self.submit_with(queue, &points, submit).map_err(SubmitError::Commands)
    }

    /// Submits pending uploads. Returns the points that commands wait for which are submitted next, to this queue: `waits`,
    /// and those of the uploads and of what was moved.
    pub(super) fn submission_waits(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
    ) -> Result<TimelinePoints, UploadError> {
        let mut points = self.uploads().submit_for(queue)?;
        // All of these points, since this layer does not know which resources the commands read.
        self.defragmenter().copied_at().points().for_each(|point| points.insert(point));
        waits.iter().for_each(|point| points.insert(*point));
        Ok(points)
    }

    /// Submits commands, which wait for these points.
    pub(super) fn submit_with<E>(
        &self,
        queue: QueueIndex,
        points: &TimelinePoints,
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelineValue, E> {
        // Also points of the same queue: that a submission comes later does not make its reads see earlier writes.
        let mut room = TimelinePoints::ROOM;
        let value = submit(queue, points.as_slice(&mut room))?;
        self.emit_submitted(queue, value);
        Ok(value)
    }
}
