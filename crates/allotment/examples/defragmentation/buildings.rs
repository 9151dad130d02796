//! Everything in the town that is a buffer: houses and warehouses, which move, and what is pinned.

use std::sync::Arc;

use allotment::device::DescriptorDevice;
use allotment::prelude::*;
use allotment_readers::DescriptorReader;

use crate::common::Outcome;
use crate::common::known_bytes::mixed;
use crate::pools::{BLOCK, HARBOUR_BLOCK, Pools};
use crate::things::{Thing, Things};
use crate::works::{Works, seed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    House,
    Warehouse,
    Lamp,
    Crane,
    Letterbox,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::House, Self::Warehouse, Self::Lamp, Self::Crane, Self::Letterbox];

    pub(crate) fn moves(self) -> bool {
        matches!(self, Self::House | Self::Warehouse)
    }

    pub(crate) fn pool(self) -> &'static str {
        match self {
            Self::Warehouse | Self::Crane => "harbour",
            Self::House | Self::Lamp | Self::Letterbox => "default",
        }
    }

    pub(crate) fn block(self) -> u64 {
        match self {
            Self::Warehouse | Self::Crane => HARBOUR_BLOCK,
            Self::House | Self::Lamp | Self::Letterbox => BLOCK,
        }
    }

    fn options(self, pools: &Pools) -> AllocationOptions {
        match self {
            Self::House => MemoryUsage::GpuOnly.with_name("house").relocatable(),
            Self::Warehouse => {
                MemoryUsage::GpuOnly.with_name("warehouse").with_pool(&pools.harbour).relocatable()
            }
            Self::Lamp => MemoryUsage::GpuOnly.with_name("lamp"),
            Self::Crane => MemoryUsage::GpuOnly.with_name("crane").with_pool(&pools.harbour),
            Self::Letterbox => MemoryUsage::Upload.with_name("letterbox"),
        }
    }

    /// Returns the bytes of one. Houses and warehouses are of all sizes, of each order of magnitude as many. What is
    /// pinned is alike in each kind, as the pages of a cache are: then what comes takes the place of what has gone, which
    /// no defragmentation can do for it.
    fn size(self, number: u64) -> u64 {
        let (smallest, orders) = match self {
            Self::House => (4 << 10, 6),
            Self::Warehouse => (16 << 10, 4),
            Self::Lamp | Self::Letterbox => return 16 << 10,
            Self::Crane => return 64 << 10,
        };
        let random = mixed(number.wrapping_add(77));
        let order = smallest << (random % orders);
        order + (random >> 8) % order / 4 * 4
    }
}

pub(crate) struct Building<D: DescriptorDevice> {
    pub(crate) number: u64,
    pub(crate) buffer: Arc<Buffer<D>>,
    /// Bytes that it takes at least, as the device says: on Direct3D 12 whole pages of 64 KiB.
    takes: u64,
}

impl<D: DescriptorDevice> Thing<D> for Building<D> {
    fn takes(&self) -> u64 {
        self.takes
    }

    fn look<R: DescriptorReader<D>>(&self, frame: &Frame<D>, works: &mut Works<D, R>) -> Outcome {
        let part = (seed(self.number, 0), self.buffer.size());
        let read = works.gpu.reads().read_buffer(&self.buffer, 0, part.1)?;
        works.comparisons.expect(frame.number(), read, [part]);
        Ok(())
    }
}

/// All buildings of a kind.
pub(crate) struct District<D: DescriptorDevice> {
    pub(crate) kind: Kind,
    options: AllocationOptions,
    pub(crate) buildings: Things<Building<D>>,
}

impl<D: DescriptorDevice> District<D> {
    pub(crate) fn new(kind: Kind, pools: &Pools) -> Self {
        Self { kind, options: kind.options(pools), buildings: Things::NONE }
    }

    /// Returns one that is looked at.
    pub(crate) fn any<R: DescriptorReader<D>>(&self, works: &mut Works<D, R>) -> Option<&Building<D>> {
        let all = &self.buildings.all;
        (!all.is_empty()).then(|| &all[works.below(all.len())])
    }

    pub(crate) fn grow<R: DescriptorReader<D>>(&mut self, target: u64, works: &mut Works<D, R>) -> Outcome {
        while self.buildings.live < target {
            let number = works.number();
            let size = self.kind.size(number);
            let info = works.buffer_info(size);
            let requirements = works.gpu.device().buffer_requirements(&info)?;
            let takes = requirements.alignment.align_up(requirements.size);
            let buffer = works.gpu.create_buffer(&info, &self.options)?;
            let bytes = seed(number, 0).bytes(size, &mut works.bytes);
            match self.kind {
                // In place: no queue uses it yet.
                Kind::Letterbox => buffer.write(0, bytes)?,
                _ => works.gpu.uploads().write_buffer(&buffer, 0, bytes)?,
            }
            self.buildings.add(Building { number, buffer: Arc::new(buffer), takes });
        }
        Ok(())
    }
}
