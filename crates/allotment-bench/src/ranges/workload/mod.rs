//! The operations of the workloads, generated before any timing from fixed seeds, the same for all contenders.
//!
//! A workload begins with an empty space. The *fill* brings it to the state that is wanted; then the *lap* can be
//! repeated, since it leaves the same slots occupied that were occupied before it.
//!
//! ```text
//!   churn         random ranges are replaced by ones of other sizes
//!   ordered       textures by age, frames, stacks
//!   adversarial   holes into which the requests nearly fit
//! ```

mod adversarial;
mod churn;
mod ordered;

pub(super) use churn::lane;

use super::contender::Space;
use crate::rng::Rng;

/// An allocation or a free in a slot of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) slot: u32,
    /// In bytes; 0 for a free.
    pub(super) size: u32,
    /// In bytes.
    pub(super) alignment: u32,
}

/// A sequence that can be replayed.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) space: Space,
    pub(super) slots: u32,
    pub(super) fill: Vec<Op>,
    pub(super) lap: Vec<Op>,
    /// The most live ranges at any time.
    pub(super) live: u32,
    /// Whether requests may be refused: the space is tight, or no contender can serve all of them.
    pub(super) may_refuse: bool,
    /// Whether ranges are freed in the order of their allocation or the reverse one.
    pub(super) is_ordered: bool,
    /// Whether the quantiles of single operations are those of the frees alone.
    pub(super) is_about_frees: bool,
}

/// The size of the numbers: the full one, or one that a test can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Full,
    Quick,
}

impl Scale {
    /// Divides a number of ranges or operations for a quick run.
    pub(super) fn of(self, count: u32) -> u32 {
        match self {
            Self::Full => count,
            Self::Quick => (count / 100).clamp(64, 1000),
        }
    }
}

/// A workload that has not been generated yet: some take a second.
pub(super) struct Plan {
    pub(super) name: String,
    generate: Box<dyn Fn(Scale) -> Build>,
}

impl Plan {
    fn new(name: impl Into<String>, generate: impl Fn(Scale) -> Build + 'static) -> Self {
        Self { name: name.into(), generate: Box::new(generate) }
    }

    pub(super) fn generate(&self, scale: Scale) -> Workload {
        (self.generate)(scale).finish(self.name.clone())
    }
}

/// Returns all workloads, in the order of the tables.
pub(super) fn all() -> Vec<Plan> {
    let mut plans = churn::plans();
    plans.extend(ordered::plans());
    plans.extend(churn::tight_plans());
    plans.extend(adversarial::plans());
    plans
}

/// The sizes of requests, in units: spread evenly over the octaves from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) unit: u32,
    pub(super) least: u32,
    pub(super) most: u32,
    /// Whether alignments vary too: half of the requests need only the unit, the others a power of two up to their
    /// size, spread evenly over the octaves.
    pub(super) mixed_alignment: bool,
}

impl Sizes {
    /// Buffers: 256 B to 64 KiB.
    pub(super) const BUFFERS: Self = Self { unit: 256, least: 1, most: 256, mixed_alignment: false };
    /// Images: 64 KiB to 64 MiB, in pages of 64 KiB.
    pub(super) const TEXTURES: Self = Self { unit: 65536, least: 1, most: 1024, mixed_alignment: false };
    /// Small objects: 16 B to 4 KiB.
    pub(super) const SMALL: Self = Self { unit: 16, least: 1, most: 256, mixed_alignment: false };
    /// Ranges of 1 to 64 descriptors.
    pub(super) const DESCRIPTORS: Self = Self { unit: 1, least: 1, most: 64, mixed_alignment: false };
    /// Buffers with alignments of 256 B to 64 KiB.
    pub(super) const MIXED: Self = Self { mixed_alignment: true, ..Self::BUFFERS };

    /// Returns the mean size in bytes, rounded down.
    pub(super) fn mean(&self) -> u64 {
        let (least, most) = (f64::from(self.least), f64::from(self.most));
        ((most - least) / (most / least).ln()) as u64 * u64::from(self.unit)
    }

    /// Returns a size and an alignment, in bytes.
    pub(super) fn draw(&self, rng: &mut Rng) -> (u32, u32) {
        let octaves = (f64::from(self.most) / f64::from(self.least)).log2();
        let units = (f64::from(self.least) * (octaves * rng.unit()).exp2()).round() as u32;
        let alignment = match self.mixed_alignment && rng.below(2) == 1 {
            true => self.unit << rng.below(units.ilog2() + 1),
            false => self.unit,
        };
        (units * self.unit, alignment)
    }
}

/// The sequence so far, with what is live in it.
#[derive(Debug, Default)]
pub(super) struct Build {
    fill: Vec<Op>,
    lap: Vec<Op>,
    /// Sizes by slot; 0 for an empty one.
    live: Vec<u32>,
    live_count: u32,
    live_bytes: u64,
    peak_count: u32,
    peak_bytes: u64,
    is_lap: bool,
    space: Option<Space>,
    may_refuse: bool,
    is_ordered: bool,
    is_about_frees: bool,
}

impl Build {
    fn allocate(&mut self, slot: u32, (size, alignment): (u32, u32)) {
        if self.live.len() <= slot as usize {
            self.live.resize(slot as usize + 1, 0);
        }
        debug_assert_eq!(self.live[slot as usize], 0, "slot {slot} is occupied");
        self.live[slot as usize] = size;
        self.live_count += 1;
        self.live_bytes += u64::from(size);
        self.peak_count = self.peak_count.max(self.live_count);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.push(Op { slot, size, alignment });
    }

    fn free(&mut self, slot: u32) {
        let size = core::mem::take(&mut self.live[slot as usize]);
        debug_assert_ne!(size, 0, "slot {slot} is empty");
        self.live_count -= 1;
        self.live_bytes -= u64::from(size);
        self.push(Op { slot, size: 0, alignment: 1 });
    }

    fn push(&mut self, op: Op) {
        if self.is_lap { &mut self.lap } else { &mut self.fill }.push(op);
    }

    /// What follows is the lap.
    fn begin_lap(&mut self) {
        self.is_lap = true;
    }

    /// Sets a space of so many bytes.
    fn in_space(mut self, size: u64, unit: u32) -> Self {
        self.space = Some(Space { size, unit: unit.into(), peak: self.peak_count });
        self
    }

    /// Sets a space with more room than any contender needs: four times the live bytes or more, a power of two.
    fn in_roomy_space(self, unit: u32) -> Self {
        let size = (self.peak_bytes * 4).next_power_of_two();
        self.in_space(size, unit)
    }

    fn finish(self, name: String) -> Workload {
        let Some(space) = self.space else { unreachable!("each workload sets its space") };
        Workload {
            name,
            space,
            slots: self.live.len() as u32,
            fill: self.fill,
            lap: self.lap,
            live: self.peak_count,
            may_refuse: self.may_refuse,
            is_ordered: self.is_ordered,
            is_about_frees: self.is_about_frees,
        }
    }
}
