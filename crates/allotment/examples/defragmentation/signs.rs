//! Signs: images with mip levels, which move.

use std::sync::Arc;

use allotment::device::{DescriptorDevice, ImagePart, TexelBlock};
use allotment::prelude::*;
use allotment::upload::ImageWrite;
use allotment_readers::DescriptorReader;

use crate::common::Outcome;
use crate::common::known_bytes::mixed;
use crate::pools::Pools;
use crate::things::{Thing, Things};
use crate::works::{Works, seed};

const TEXEL: TexelBlock = TexelBlock::new(4);

const LEAST_WIDTH: u32 = 64;

pub(crate) struct Sign<D: DescriptorDevice> {
    pub(crate) number: u64,
    pub(crate) image: Arc<Image<D>>,
    levels: Levels,
    /// Bytes that it takes at least, as the device says.
    takes: u64,
}

/// The mip levels of a sign.
#[derive(Clone, Copy)]
struct Levels {
    extent: [u32; 2],
    count: u32,
}

impl Levels {
    /// 64 to 256 texels wide, and an eighth of that to all of it high.
    fn of(number: u64) -> Self {
        let random = mixed(number.wrapping_add(177));
        let count = 1 + (random % 3) as u32;
        let width = LEAST_WIDTH << (count - 1);
        // Whole rows in all levels.
        let height =
            (width / 8 + (random >> 8) as u32 % (width / 8 * 7 + 1)).next_multiple_of(1 << (count + 1));
        Self { extent: [width, height], count }
    }

    /// Iterates over the levels, their extents and bytes.
    fn iter(self) -> impl Iterator<Item = (u32, [u32; 3], u64)> {
        let extent = move |level| [self.extent[0] >> level, self.extent[1] >> level, 1];
        (0..self.count).map(move |level| {
            let [width, height, _] = extent(level);
            (level, extent(level), TEXEL.row_bytes(width) * u64::from(height))
        })
    }
}

impl<D: DescriptorDevice> Thing<D> for Sign<D> {
    fn takes(&self) -> u64 {
        self.takes
    }

    /// All levels are read.
    fn look<R: DescriptorReader<D>>(&self, frame: &Frame<D>, works: &mut Works<D, R>) -> Outcome {
        let read = works.gpu.reads().read_image(&self.image, &ImagePart::default())?;
        let parts = self.levels.iter().map(|(level, _, bytes)| (seed(self.number, level), bytes));
        works.comparisons.expect(frame.number(), read, parts);
        Ok(())
    }
}

/// All signs.
pub(crate) struct Signs<D: DescriptorDevice> {
    options: AllocationOptions,
    pub(crate) signs: Things<Sign<D>>,
}

impl<D: DescriptorDevice> Signs<D> {
    pub(crate) fn new(pools: &Pools) -> Self {
        let options = MemoryUsage::GpuOnly.with_name("sign").with_pool(&pools.signs).relocatable();
        Self { options, signs: Things::NONE }
    }

    pub(crate) fn grow<R: DescriptorReader<D>>(&mut self, target: u64, works: &mut Works<D, R>) -> Outcome {
        while self.signs.live < target {
            let number = works.number();
            let levels = Levels::of(number);
            let info = R::texture_desc(levels.extent).with_mip_levels(levels.count).into();
            let requirements = works.gpu.device().image_requirements(&info)?;
            let takes = requirements.alignment.align_up(requirements.size);
            let image = works.gpu.create_image(&info, &self.options)?;
            for (mip_level, _, bytes) in levels.iter() {
                let part = ImagePart::default().with_mip_levels(mip_level..mip_level + 1);
                let bytes = seed(number, mip_level).bytes(bytes, &mut works.bytes);
                let write = ImageWrite::new(part).with_after(R::SAMPLED);
                works.gpu.uploads().write_image_part(&image, &write, bytes)?;
            }
            self.signs.add(Sign { number, image: Arc::new(image), levels, takes });
        }
        Ok(())
    }
}
