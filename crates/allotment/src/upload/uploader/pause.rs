//! Uploads and steps of defragmentation, which keep out of each other's way.
//!
//! A step moves what no open recording may use. So a write to a relocatable resource opens one that keeps it in its place
//! ([`Stay`]), and a step pauses the uploads ([`PausedUploads`]), whose batches would be open recordings. So does a submission
//! of reads, to which the states of images have to be those of submitted work.

use super::Uploader;
use crate::device::Device;
use crate::lifetime::{Recording, SubmissionTracker};
use crate::memory::AccessError;
use crate::upload::error::UploadError;
use crate::upload::lane::{Lane, Streamed};

/// An open recording that keeps steps from moving a relocatable target. No lock is held when it is opened or dropped.
#[derive(Default)]
pub(in crate::upload) struct Stay(Option<Recording>);

impl Stay {
    /// Opens the recording, and waits for steps that have begun to move something. A step for which uploads are paused goes
    /// first: it would end without a move.
    pub(in crate::upload) fn open<D: Device>(&mut self, tracker: &SubmissionTracker, lane: &Lane<D>) {
        lane.until_resumed();
        self.0 = Some(tracker.record_explicit("uploads to a relocatable resource"));
        tracker.wait_for_passes();
    }

    /// Calls `work`, and once more where a step was about to move the target.
    pub(super) fn beside_steps<D: Device, T>(
        &mut self,
        tracker: &SubmissionTracker,
        lane: &Lane<D>,
        mut work: impl FnMut() -> Result<T, UploadError>,
    ) -> Result<T, UploadError> {
        match work() {
            // A step has a place for the target. It ends without a move when it sees the recording, and no other begins.
            Err(UploadError::Access(AccessError::Moving { .. })) if self.0.is_none() => {
                self.open(tracker, lane);
                work()
            }
            done => done,
        }
    }
}

impl<D: Device> Uploader<D> {
    /// Submits the staged data, and keeps threads from staging more until the result is dropped: the others wait, unless they
    /// submit, for which there is nothing but what was left.
    pub(crate) fn pause(&self, streamed: Streamed) -> Result<PausedUploads<'_, D>, UploadError> {
        // Those that were paused before one fails are resumed.
        let mut paused = PausedUploads { uploader: self, lanes: 0 };
        self.while_alive(|| {
            for lane in self.lanes() {
                lane.pause(&self.memory, self.home_of(lane), streamed)?;
                paused.lanes += 1;
            }
            Ok(())
        })?;
        Ok(paused)
    }
}

impl<D: Device> PausedUploads<'_, D> {
    /// Submits what was left of the streamed data, and hands it over.
    pub(in crate::upload) fn submit_streamed(&self) -> Result<(), UploadError> {
        let uploader = self.uploader;
        // Recordings are closed by this; orphans are visited when it is over.
        let mut lanes = uploader.lanes();
        uploader.while_alive(|| {
            lanes.try_for_each(|lane| lane.submit_all(&uploader.memory, uploader.home_of(lane)))
        })
    }
}

/// While it lives, no thread stages anything.
pub(crate) struct PausedUploads<'a, D: Device> {
    uploader: &'a Uploader<D>,
    /// How many are paused, of those of the uploader.
    lanes: usize,
}

impl<D: Device> Drop for PausedUploads<'_, D> {
    fn drop(&mut self) {
        self.uploader.lanes().take(self.lanes).for_each(Lane::resume);
        // Recordings were closed before.
        self.uploader.tracker().visit_orphans();
    }
}
