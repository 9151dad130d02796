//! Images of `Gpu`s: writes of random parts of them, and reads.

use std::sync::{Arc, Weak};

use super::Player;
use crate::Stressed;
use crate::images::TestImage;
use crate::world::OwnGpu;

/// An image of a `Gpu`, which it outlives at times.
pub(crate) struct TheirImage<D: Stressed> {
    image: TestImage<D>,
    of: Weak<OwnGpu<D>>,
}

impl<D: Stressed> Player<'_, D> {
    pub(super) fn create_gpu_image(&mut self) {
        let Some(own) = self.some_gpu() else { return };
        for _ in 0..=self.input.below(2) {
            let made = TestImage::create(&own.gpu, &mut self.input);
            if let Some(image) = self.done(made) {
                drop(self.world.gpu_images.put(TheirImage { image, of: Arc::downgrade(&own) }));
            }
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
            image.write(&own.gpu, None, &mut this.input, &mut Vec::new(), findings)
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
            read
        });
    }

    pub(super) fn drop_gpu_image(&mut self) {
        if self.input.once_in(2) {
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
