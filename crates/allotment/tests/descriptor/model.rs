//! Generated operations against a model of the owners and contents of a heap's descriptors.

use std::collections::{BTreeMap, HashMap};

use allotment::descriptor::{DescriptorError, DescriptorSlot, TableLocation};
use allotment::lifetime::Recording;

use crate::rig::{Heap, Range, Rig, Transient, value};

/// Numbers that look like chance and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(end)) as u32
    }
}

/// The owner of each descriptor. No descriptor is allocated twice.
#[derive(Default)]
struct Intervals(BTreeMap<u32, u32>);

impl Intervals {
    fn insert(&mut self, first: u32, count: u32) {
        let end = first + count;
        let before = self.0.range(..end).next_back();
        assert!(before.is_none_or(|(_, &other)| other <= first), "{first}..{end} overlaps {before:?}");
        self.0.insert(first, end);
    }

    fn remove(&mut self, first: u32) {
        assert!(self.0.remove(&first).is_some());
    }
}

#[test]
fn two_regions_never_overlap_over_a_million_operations() {
    let rig = Rig::new();
    let heap = rig.resources(500, 2000, 2048);
    let mut random = Random(7);
    let (mut owned, mut used) = (Intervals::default(), [0_u32; 2]);
    let mut peaks = used;
    let (mut tables, mut slots): (Vec<(Range, u32)>, Vec<DescriptorSlot>) = (Vec::new(), Vec::new());
    let mut open: Vec<(Recording, Transient, Vec<TableLocation>)> = Vec::new();
    let look = rig.record();
    let place_of = heap.begin(&look).unwrap();
    drop(look);
    for step in 0..1_000_000 {
        match random.below(16) {
            0..4 => {
                let count = 1 + random.below(40);
                match heap.allocate(count) {
                    Ok(range) => {
                        let first = place_of.place(&range).unwrap().first;
                        assert!(
                            (500..2500).contains(&first) && first + count <= 2500,
                            "it lies in its region"
                        );
                        owned.insert(first, count);
                        used[0] += count;
                        tables.push((range, first));
                    }
                    Err(DescriptorError::Exhausted { free, largest, .. }) => {
                        assert!(largest < count && largest <= free);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            4..7 if !tables.is_empty() => {
                let (range, first) = tables.swap_remove(random.below(tables.len() as u32) as usize);
                used[0] -= range.count();
                owned.remove(first);
                drop(range);
            }
            7..9 => match heap.insert(&rig.number(random.below(4096)), None) {
                Ok(slot) => {
                    assert!(slot.index() < 500);
                    owned.insert(slot.index(), 1);
                    used[1] += 1;
                    slots.push(slot);
                }
                Err(DescriptorError::Exhausted { .. }) => assert_eq!(heap.statistics().slots.used, 500),
                Err(error) => panic!("{error}"),
            },
            9..11 if !slots.is_empty() => {
                let slot = slots.swap_remove(random.below(slots.len() as u32) as usize);
                heap.remove(slot).unwrap();
                owned.remove(slot.index());
                used[1] -= 1;
            }
            11 if open.len() < 6 => {
                let recording = rig.record();
                let view = heap.begin(&recording).unwrap();
                open.push((recording, view, Vec::new()));
            }
            12..15 if !open.is_empty() => {
                let at = random.below(open.len() as u32) as usize;
                let (_, view, places) = &mut open[at];
                if let Ok(table) = view.allocate(1 + random.below(30)) {
                    let place = table.place();
                    assert!(place.first >= 2500 && place.first + place.count <= 2500 + 2048);
                    owned.insert(place.first, place.count);
                    places.push(place);
                }
            }
            15 if !open.is_empty() => {
                let (recording, view, places) = open.swap_remove(random.below(open.len() as u32) as usize);
                drop((view, recording));
                places.iter().for_each(|place| owned.remove(place.first));
            }
            _ => {}
        }
        // Nothing is in flight: what goes back is kept by open recordings alone. The model frees at once, so all of them
        // are closed before the heap is looked at.
        if random.below(64) == 0 {
            for (recording, view, places) in open.drain(..) {
                drop((view, recording));
                places.iter().for_each(|place| owned.remove(place.first));
            }
            heap.reclaim();
            let statistics = heap.statistics();
            assert_eq!((statistics.tables.used, statistics.slots.used), (used[0], used[1]), "step {step}");
            assert_eq!(statistics.transient.used, 0);
            peaks = [peaks[0].max(used[0]), peaks[1].max(used[1])];
            assert!(statistics.tables.peak >= peaks[0] && statistics.slots.peak >= peaks[1]);
        }
    }
    assert!(peaks[0] > 1500 && peaks[1] == 500, "it was full at times: {peaks:?}");
    rig.assert_no_complaints();
}

#[test]
fn the_peak_is_the_most_that_was_ever_used() {
    let rig = Rig::new();
    let heap = rig.resources(64, 256, 0);
    let staging = rig.staging(64);
    let mut random = Random(3);
    let (mut tables, mut staged) = (Vec::new(), Vec::new());
    let (mut used, mut peak, mut staged_used, mut staged_peak) = (0, 0, 0, 0);
    for _ in 0..20_000 {
        let count = 1 + random.below(12);
        if random.below(2) == 0 {
            if let Ok(range) = heap.allocate(count) {
                used += count;
                peak = peak.max(used);
                tables.push(range);
            }
            let range = staging.allocate(count).unwrap();
            staged_used += count;
            staged_peak = staged_peak.max(staged_used);
            staged.push(range);
        } else if !tables.is_empty() && !staged.is_empty() {
            let range = tables.swap_remove(random.below(tables.len() as u32) as usize);
            used -= range.count();
            drop(range);
            heap.reclaim();
            let range = staged.swap_remove(random.below(staged.len() as u32) as usize);
            staged_used -= range.count();
            staging.free(range).unwrap();
        }
        let (shown, staging) = (heap.statistics().tables, staging.statistics());
        assert_eq!((shown.used, shown.peak, shown.free), (used, peak, 256 - used));
        assert_eq!((staging.used, staging.peak), (staged_used, staged_peak));
        assert_eq!(staging.free, staging.capacity - staging.used);
    }
}

/// The contents of a heap, and the recordings that know locations in it.
struct World<'a> {
    rig: &'a Rig,
    heap: &'a Heap,
    tables: HashMap<u32, (Range, Vec<u32>)>,
    slots: Vec<(DescriptorSlot, u32)>,
}

impl World<'_> {
    /// All of it is read, and compared.
    fn check(&self) {
        let recording = self.rig.record();
        let view = self.heap.begin(&recording).unwrap();
        let (mut indices, mut expected) = (Vec::new(), Vec::new());
        for (slot, number) in &self.slots {
            indices.push(slot.index());
            expected.push(value(*number));
        }
        for (range, numbers) in self.tables.values() {
            let place = view.place(range).unwrap();
            indices.extend(place.first..place.first + place.count);
            expected.extend(numbers.iter().copied().map(value));
        }
        if !indices.is_empty() {
            assert_eq!(self.rig.submit_reads(recording, view.heap(), &indices).wait(), expected);
        }
    }
}

#[test]
fn what_is_read_is_what_was_written_through_growth_and_compaction() {
    let rig = Rig::on(allotment::device::simulated::Profile::named("integrated").unwrap());
    let heap = rig.resources(32, 128, 64);
    let mut world = World { rig: &rig, heap: &heap, tables: HashMap::new(), slots: Vec::new() };
    let (mut random, mut replaced, mut sizes, mut moved) = (Random(11), 0, (32, 128), 0);
    for step in 0..4000_u32 {
        match random.below(13) {
            0..3 => {
                let count = 1 + random.below(9);
                if let Ok(mut range) = heap.allocate(count) {
                    let numbers: Vec<_> = (0..count).map(|_| random.below(4096)).collect();
                    for (at, &number) in (0..).zip(&numbers) {
                        range.write(at, &rig.number(number)).unwrap();
                    }
                    world.tables.insert(step, (range, numbers));
                }
            }
            3..5 => {
                let key = world.tables.keys().copied().min_by_key(|key| key.wrapping_mul(2_654_435_761));
                key.map(|key| world.tables.remove(&key));
            }
            5..7 => {
                let number = random.below(4096);
                if let Ok(slot) = heap.insert(&rig.number(number), None) {
                    world.slots.push((slot, number));
                }
            }
            7 if !world.slots.is_empty() => {
                let at = random.below(world.slots.len() as u32) as usize;
                heap.remove(world.slots.swap_remove(at).0).unwrap();
            }
            8 => {
                let key = world.tables.keys().copied().max_by_key(|key| key.wrapping_mul(2_654_435_761));
                if let Some((range, numbers)) = key.and_then(|key| world.tables.get_mut(&key)) {
                    let number = random.below(4096);
                    if !range.is_in_use() || range.renew().is_ok() {
                        range.write(0, &rig.number(number)).unwrap();
                        numbers[0] = number;
                    }
                }
            }
            9 if random.below(4) == 0 => {
                let grows = random.below(3) == 0 && sizes.0 < 400;
                if grows {
                    sizes = (sizes.0 + random.below(20), sizes.1 + random.below(60));
                }
                rig.wait_idle();
                match heap.grow(sizes.0, sizes.1, 64) {
                    Ok(()) => replaced += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            10 => drop(heap.reclaim()),
            11 if random.below(4) == 0 => world.check(),
            12 => moved += heap.compact_step(random.below(20)).unwrap().tables,
            _ => {}
        }
    }
    world.check();
    assert!(replaced > 40 && moved > 40, "{replaced} {moved}");
    for (slot, _) in world.slots.drain(..) {
        heap.remove(slot).unwrap();
    }
    drop(world);
    rig.wait_idle();
    heap.reclaim();
    assert_eq!(
        (heap.statistics().tables.used, heap.statistics().slots.used),
        (0, 0),
        "{heap:?} {:?}",
        heap.retiring()
    );
    rig.assert_no_complaints();
}
