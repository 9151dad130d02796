//! Images of `Gpu`s: writes of random parts of them, and reads.

use std::sync::{Arc, Weak};

use super::Player;
use crate::Stressed;
use crate::images::TestImage;
use crate::world::OwnGpu;

/// Most images that are available to threads.
const MOST: usize = 12;

/// An image of a `Gpu`, which it outlives at times.
pub(crate) struct TheirImage<D: Stressed> {
    image: TestImage<D>,
    of: Weak<OwnGpu<D>>,
}

impl<D: Stressed> Player<'_, D> {
    pub(super) fn create_gpu_image(&mut self) {
        // Few of them, so that each is written several times.
        if self.world.gpu_images.all().len() >= MOST {
            return;
        }
        let Some(own) = self.some_gpu() else { return };
        let made = TestImage::create(&own.gpu, &mut self.input);
        if let Some(image) = self.done(made) {
            drop(self.world.gpu_images.put(TheirImage { image, of: Arc::downgrade(&own) }));
        }
    }

    /// Calls `work` with an image and its `Gpu`: without one, an image can only be dropped.
    fn with_gpu_image(
        &mut self,
        work: impl FnOnce(&mut Self, &mut TestImage<D>, &OwnGpu<D>, &mut Vec<String>) -> Result<(), String>,
    ) {
        let Some(mut taken) = self.world.gpu_images.take(&mut self.input) else { return };
        let Some(own) = taken.of.upgrade() else { return };
        let mut findings = Vec::new();
        let done = work(self, &mut taken.image, &own, &mut findings);
        self.done(done);
        for finding in findings {
            let finding = format!("{:?}: {finding}", self.call);
            self.tally.find(finding);
        }
        drop(self.world.gpu_images.put(taken));
    }

    pub(super) fn write_gpu_image(&mut self) {
        self.with_gpu_image(|this, image, own, findings| {
            // How a write ends is known once the `Gpu` has no more to do, which other threads prevent: the bytes are compared.
            let mut written = image.write(&own.gpu, None, &mut this.input, &mut Vec::new(), findings);
            for _ in 0..this.input.below(4) {
                written = image.write(&own.gpu, None, &mut this.input, &mut Vec::new(), findings);
            }
            written
        });
    }

    pub(super) fn read_gpu_image(&mut self) {
        self.with_gpu_image(|this, image, own, findings| {
            let mut reads = Vec::new();
            let read = image.read(&own.gpu, &mut this.input, &mut reads, findings);
            for read in reads {
                // Some are dropped while they are on their way.
                if this.input.once_in(4) {
                    continue;
                }
                let waited = own.gpu.reads().wait(read.handle());
                this.done(waited);
                this.tally.bytes_checked += read.compare(findings).unwrap_or_default();
            }
            if this.input.once_in(2) {
                this.tally.bytes_checked += image.compare(&own.gpu, findings)?;
            }
            read
        });
    }

    pub(super) fn drop_gpu_image(&mut self) {
        if self.input.once_in(4) {
            if self.world.gpu_images.take(&mut self.input).is_some() {
                self.tally.made(self.call);
            }
        } else {
            self.with_gpu_image(|_, image, _, _| {
                image.forget_state();
                Ok(())
            });
        }
    }
}
