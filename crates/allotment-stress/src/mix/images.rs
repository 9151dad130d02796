//! The images of a worker.

use super::Worker;
use crate::Stressed;
use crate::images::TestImage;

/// Images that a worker keeps at most.
const IMAGES: usize = 24;

impl<D: Stressed> Worker<'_, D> {
    fn some_image(&mut self) -> Option<usize> {
        let count = self.images.len();
        (count != 0).then(|| self.input.index(count))
    }

    pub(super) fn create_image(&mut self) -> Result<(), String> {
        if self.images.len() >= IMAGES {
            let from = self.input.index(4);
            let mut index = from;
            self.images.retain(|_| (index % 4 == 0, index += 1).0);
        }
        let image = TestImage::create(self.gpu, &mut self.input)?;
        self.images.push(image);
        Ok(())
    }

    pub(super) fn write_image(&mut self) -> Result<(), String> {
        let Some(at) = self.some_image() else { return self.create_image() };
        let mut findings = Vec::new();
        let image = &mut self.images[at];
        let written = image.write(self.gpu, None, &mut self.input, &mut self.image_writes, &mut findings);
        self.find_all(findings);
        written
    }

    /// Writes by the worker's own uploader, which is refused while the `Gpu`'s has copies to the image on their way.
    pub(super) fn upload_image(&mut self) -> Result<(), String> {
        let Some(at) = self.some_image() else { return Ok(()) };
        if !self.input.once_in(4) {
            self.gpu.uploads().submit().map_err(|error| format!("{error:?}"))?;
        }
        let mut findings = Vec::new();
        let (image, own) = (&mut self.images[at], self.uploader.as_ref());
        let written = image.write(self.gpu, own, &mut self.input, &mut self.image_writes, &mut findings);
        if self.input.once_in(2) {
            image.use_beside(self.gpu, &mut self.input, &mut findings);
        }
        self.find_all(findings);
        if let Some(own) = &self.uploader {
            let points = own.submit().map_err(|error| format!("{error:?}"))?;
            points.points().for_each(|point| self.submitted.insert(point));
        }
        written
    }

    pub(super) fn read_image(&mut self) -> Result<(), String> {
        let Some(at) = self.some_image() else { return Ok(()) };
        let mut findings = Vec::new();
        let read = self.images[at].read(self.gpu, &mut self.input, &mut self.image_reads, &mut findings);
        self.find_all(findings);
        self.compare_image_reads();
        read
    }

    pub(super) fn compare_image(&mut self) -> Result<(), String> {
        let Some(at) = self.some_image() else { return Ok(()) };
        let mut findings = Vec::new();
        let compared = self.images[at].compare(self.gpu, &mut findings);
        self.find_all(findings);
        self.tally.tally.bytes_checked += compared?;
        Ok(())
    }

    pub(super) fn forget_image_state(&mut self) {
        if let Some(at) = self.some_image() {
            self.images[at].forget_state();
        }
    }

    pub(super) fn drop_image(&mut self) {
        if let Some(at) = self.some_image() {
            self.images.swap_remove(at);
        }
    }

    pub(super) fn compare_image_reads(&mut self) {
        let (mut findings, mut bytes) = (Vec::new(), 0);
        self.image_reads.retain(|read| match read.compare(&mut findings) {
            Some(count) => {
                bytes += count;
                false
            }
            None => true,
        });
        self.tally.tally.bytes_checked += bytes;
        self.find_all(findings);
    }

    /// Compares all images, reads and the ends of uploads, and drops them.
    pub(super) fn finish_images(&mut self) {
        let mut findings = Vec::new();
        for image in core::mem::take(&mut self.images) {
            match image.compare(self.gpu, &mut findings) {
                Ok(bytes) => self.tally.tally.bytes_checked += bytes,
                Err(error) => findings.push(format!("at the end: {error}")),
            }
        }
        let waited = self.gpu.uploads().submit().map_err(|error| format!("{error:?}"));
        let waited = waited.and_then(|points| self.gpu.wait(points).map_err(|error| format!("{error:?}")));
        match waited {
            Ok(()) => self.image_writes.drain(..).for_each(|write| write.compare(self.gpu, &mut findings)),
            Err(error) => findings.push(format!("uploads at the end: {error}")),
        }
        for read in self.image_reads.drain(..) {
            // For its points; the bytes are compared below.
            let _ = self.gpu.reads().wait(read.handle());
            if read.compare(&mut findings).is_none() {
                findings.push("a read that was submitted has no bytes after a wait".to_owned());
            }
        }
        self.find_all(findings);
    }

    fn find_all(&mut self, findings: Vec<String>) {
        findings.into_iter().for_each(|finding| self.tally.find(finding));
    }
}
