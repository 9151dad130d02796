//! Things that come and go, buildings and signs alike.

use allotment::device::DescriptorDevice;
use allotment::prelude::*;
use allotment_readers::DescriptorReader;

use crate::common::Outcome;
use crate::works::Works;

/// Something that can be compared with the bytes that it was built with.
pub(crate) trait Thing<D: DescriptorDevice> {
    /// Returns the bytes that it takes at least, as the device says.
    fn takes(&self) -> u64;

    /// The GPU copies it to where the CPU reads it. Its handle is that of this frame: a step of defragmentation may
    /// change it.
    fn look<R: DescriptorReader<D>>(&self, frame: &Frame<D>, works: &mut Works<D, R>) -> Outcome;
}

/// Things of a kind.
pub(crate) struct Things<T> {
    pub(crate) all: Vec<T>,
    /// Bytes that they take at least.
    pub(crate) live: u64,
}

impl<T> Things<T> {
    pub(crate) const NONE: Self = Self { all: Vec::new(), live: 0 };

    pub(crate) fn add<D: DescriptorDevice>(&mut self, thing: T)
    where
        T: Thing<D>,
    {
        self.live += thing.takes();
        self.all.push(thing);
    }

    /// Some go for others to come, and more where the town shrinks. Each is looked at: the GPU need not have copied it when
    /// it is dropped, and destroys it once it has. Returns those that have gone.
    pub(crate) fn shrink<D: DescriptorDevice, R: DescriptorReader<D>>(
        &mut self,
        target: u64,
        go: usize,
        frame: &Frame<D>,
        works: &mut Works<D, R>,
    ) -> Outcome<Vec<T>>
    where
        T: Thing<D>,
    {
        let mut gone = Vec::new();
        while !self.all.is_empty() && (gone.len() < go || self.live > target) {
            let thing = self.all.swap_remove(works.below(self.all.len()));
            thing.look(frame, works)?;
            self.live -= thing.takes();
            gone.push(thing);
        }
        Ok(gone)
    }

    /// Looks at all of them, some in each frame.
    pub(crate) fn look_at_all<D: DescriptorDevice, R: DescriptorReader<D>>(
        &self,
        at_once: usize,
        works: &mut Works<D, R>,
    ) -> Outcome
    where
        T: Thing<D>,
    {
        for some in self.all.chunks(at_once) {
            let frame = works.gpu.begin_frame()?;
            some.iter().try_for_each(|thing| thing.look(&frame, works))?;
            frame.end()?;
            works.comparisons.compare_all()?;
        }
        Ok(())
    }
}
