//! The town, frame by frame: what goes, what comes, what is looked at.

use core::time::Duration;
use std::time::Instant;

use allotment::device::DescriptorDevice;
use allotment_readers::DescriptorReader;

use crate::Figures;
use crate::addresses::{Addresses, Living};
use crate::buildings::{District, Kind};
use crate::common::report::{check_that_nothing_is_left, mib};
use crate::common::{self, Outcome};
use crate::idle::{Group, Idle, percent};
use crate::pools::{self, Pools, SIGNS_BLOCK};
use crate::signs::Signs;
use crate::things::Thing;
use crate::works::Works;

/// The largest and the smallest size of the town in bytes, and the number of frames in which it shrinks from the one to
/// the other and grows back.
const MOST: u64 = 320 << 20;
const LEAST: u64 = 160 << 20;
const SEASON: u64 = 400;

/// The frame after which the town is complete; it is measured after twice as many.
const SETTLED: u64 = 100;

/// Houses that go in a frame, beside those for which a smaller town has no room; and other buildings of each kind.
const HOUSES_GO: usize = 4;
const OTHERS_GO: usize = 1;

/// Houses that are looked at in a frame, beside those that go, and other buildings of each kind.
const LOOKS: usize = 2;

pub(crate) struct Town<D: DescriptorDevice, R> {
    works: Works<D, R>,
    pools: Pools,
    districts: [District<D>; Kind::ALL.len()],
    signs: Signs<D>,
    /// Where the device has descriptors that shaders index.
    addresses: Option<Addresses<D>>,
    idle: Idle,
    longest_end: Duration,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Town<D, R> {
    pub(crate) fn new(device: D, is_read: bool, defragmented: bool) -> Outcome<Self> {
        let gpu = pools::gpu(device, defragmented)?;
        common::trace::record(&gpu)?;
        let works = Works::new(gpu, is_read)?;
        let pools = Pools::new(&works)?;
        Ok(Self {
            districts: Kind::ALL.map(|kind| District::new(kind, &pools)),
            signs: Signs::new(&pools),
            addresses: Addresses::new(&works)?,
            pools,
            works,
            idle: Idle::default(),
            longest_end: Duration::ZERO,
        })
    }

    pub(crate) fn frame(&mut self) -> Outcome {
        let Self { works, districts, signs, addresses, .. } = self;
        let frame = works.gpu.begin_frame()?; // waits while three frames are in flight
        works.comparisons.compare_completed(frame.number())?;
        let town = target(frame.number());

        let mut gone = Vec::new();
        for district in &mut *districts {
            let go = if district.kind == Kind::House { HOUSES_GO } else { OTHERS_GO };
            gone.extend(district.buildings.shrink(share(district.kind, town), go, &frame, works)?);
        }
        let gone_signs = signs.signs.shrink(town / SIGNS, OTHERS_GO, &frame, works)?;
        for district in &*districts {
            for _ in 0..if district.kind == Kind::House { LOOKS } else { 1 } {
                let Some(building) = district.any(works) else { break };
                building.look(&frame, works)?;
            }
        }
        for district in &mut *districts {
            district.grow(share(district.kind, town), works)?;
        }
        signs.grow(town / SIGNS, works)?;

        let [houses, warehouses, ..] = &*districts;
        let living = Living {
            houses: &houses.buildings.all,
            warehouses: &warehouses.buildings.all,
            signs: &signs.signs.all,
        };
        let buildings = gone.iter().map(|building| building.number);
        let numbers: Vec<_> = buildings.chain(gone_signs.iter().map(|sign| sign.number)).collect();
        if let Some(addresses) = addresses {
            addresses.rebind(&numbers, &living, works)?;
            addresses.look(&frame, works)?;
        }
        // The GPU need not have copied them yet: they are destroyed once it has.
        drop((gone, gone_signs));

        let (number, began) = (frame.number(), Instant::now());
        frame.end()?; // with a step of defragmentation
        self.longest_end = self.longest_end.max(began.elapsed());
        if number >= 2 * SETTLED {
            self.idle.measure(&self.works.gpu, &self.groups());
        }
        Ok(())
    }

    /// Returns what shares blocks: lamps and letterboxes where the CPU can write to all memory.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let signs = self.signs.signs.all.first().map(|sign| sign.image.info().memory_type);
        let signs = signs.map(|memory_type| ("signs", memory_type, true, self.signs.signs.live, SIGNS_BLOCK));
        let buildings = self.districts.iter().filter_map(|district| {
            let memory_type = district.buildings.all.first()?.buffer.info().memory_type;
            let kind = district.kind;
            Some((kind.pool(), memory_type, kind.moves(), district.buildings.live, kind.block()))
        });
        for (pool, memory_type, moves, live, block) in buildings.chain(signs) {
            let same = |group: &&mut Group| {
                (group.pool, group.memory_type, group.moves) == (pool, memory_type, moves)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.live += live,
                None => groups.push(Group { pool, memory_type, moves, live, block }),
            }
        }
        groups
    }

    /// After the last frame everything is compared once more and dropped, and nothing may be left.
    pub(crate) fn leave(self) -> Outcome<Figures> {
        let Self { mut works, pools, districts, signs, addresses, idle, longest_end } = self;
        let moved = works.gpu.defragmenter().statistics();
        districts.iter().try_for_each(|district| district.buildings.look_at_all(32, &mut works))?;
        signs.signs.look_at_all(64, &mut works)?;
        if works.gpu.desc().defragmentation.is_some() {
            idle.check()?;
        }
        let (read, rebound) =
            addresses.as_ref().map_or((0, 0), |addresses| (addresses.read, addresses.rebound));
        let live = districts.iter().map(|district| district.buildings.live).sum::<u64>() + signs.signs.live;
        let figures = vec![
            ("frames", idle.frames().to_string()),
            ("buildings and signs built", works.numbers().to_string()),
            ("compared, all right", mib(works.comparisons.compared)),
            ("read through descriptors", read.to_string()),
            ("descriptors bound anew", rebound.to_string()),
            ("live at the end", mib(live)),
            ("pinned, of live bytes", percent(idle.pinned())),
            ("most blocks", idle.most_blocks.to_string()),
            ("idle memory, at the end", percent(idle.at_the_end())),
            ("idle memory, on average", percent(idle.on_average())),
            ("  with the least blocks", percent(idle.with_least_blocks())),
            ("  without what the GPU may use", percent(idle.free())),
            ("idle memory, at most", percent(idle.at_most())),
            ("moved", moved.moves.to_string()),
            ("copied for it", mib(moved.bytes_moved)),
            ("blocks emptied", moved.blocks_emptied.to_string()),
            ("longest end of a frame", format!("{longest_end:.1?}")),
        ];
        let gpu = works.gpu.clone();
        drop((districts, signs, addresses, works));
        pools.destroy(&gpu)?;
        check_that_nothing_is_left(gpu)?;
        Ok(figures)
    }
}

/// A fifth of the town are signs, and a fifth are warehouses.
const SIGNS: u64 = 5;
const WAREHOUSES: u64 = 5;

/// Returns the bytes of the buildings of a kind, in a town of this size.
fn share(kind: Kind, town: u64) -> u64 {
    let pinned = |kind| match kind {
        Kind::Lamp => 16 << 20,
        Kind::Letterbox => 12 << 20,
        Kind::Crane => 6 << 20,
        Kind::House | Kind::Warehouse => 0,
    };
    match kind {
        Kind::Warehouse => town / WAREHOUSES,
        Kind::House => {
            let others = town / SIGNS + town / WAREHOUSES + Kind::ALL.map(pinned).iter().sum::<u64>();
            town.saturating_sub(others).max(1)
        }
        _ => pinned(kind),
    }
}

/// Returns the bytes that shall live in a frame.
fn target(frame: u64) -> u64 {
    let part = frame % (2 * SEASON);
    let grown = if part < SEASON { part } else { 2 * SEASON - part };
    // The first frames build the whole town, some buildings at a time.
    let there = LEAST + (MOST - LEAST) * grown / SEASON;
    there.min((frame + 1) * MOST / SETTLED)
}
