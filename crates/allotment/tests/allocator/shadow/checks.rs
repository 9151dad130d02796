//! What must hold after every operation.

use super::*;

impl Pair {
    /// Checks what must hold after every operation.
    pub(super) fn check(&mut self) {
        self.rig.check_invariants();
        self.check_sums();
        self.check_heaps();
        self.check_pools();
        self.check_places();
        self.live.iter().for_each(|live| self.check_one(live));
        assert_eq!(self.rig.device.validation_errors(), Vec::<String>::new());
    }

    fn check_sums(&self) {
        let statistics = self.rig.statistics();
        let requested: u64 = self.live.iter().map(|live| live.desc.requirements.size).sum();
        assert_eq!(statistics.allocations as usize, self.live.len());
        assert_eq!(statistics.allocation_bytes, requested);
        let usage = self.rig.device.usage();
        assert_eq!(statistics.block_bytes, usage.memory_bytes);
        assert_eq!(statistics.blocks + statistics.dedicated, usage.memory_objects);
        let used = statistics.allocation_bytes + statistics.padding + statistics.rounding;
        assert_eq!(statistics.block_bytes, used + statistics.free());
        let walked: Statistics =
            self.rig.reports().detailed_statistics().iter().map(|detailed| detailed.brief).sum();
        assert_eq!(walked, statistics, "counters and walk agree");
    }

    fn check_heaps(&mut self) {
        for (i, report) in self.rig.reports().memory_heaps().iter().enumerate() {
            let taken = self.rig.taken(MemoryHeapIndex(i as u8));
            assert_eq!((report.reserved, report.usage), (taken, taken), "heap {i}");
            self.peak[i] = self.peak[i].max(taken);
            assert_eq!(report.peak_reserved, self.peak[i], "the peak of heap {i}");
        }
    }

    fn check_pools(&self) {
        for (at, custom) in self.pools.iter().enumerate() {
            let Some(CustomPool { pool, desc }) = custom else { continue };
            let of_pool = || self.live.iter().filter(|live| live.pool == Some(at));
            let statistics = self.rig.reports().pool_statistics(pool).unwrap();
            assert_eq!(statistics.allocations as usize, of_pool().count());
            assert_eq!(statistics.allocation_bytes, of_pool().map(|live| live.place.size).sum::<u64>());
            assert!(statistics.blocks + statistics.dedicated <= desc.max_blocks, "{desc:?}: {statistics:?}");
            assert!(statistics.blocks >= desc.min_blocks, "{desc:?}: {statistics:?}");
            if let Some(BlockSize::Fixed(size)) = desc.sizing {
                assert_eq!(statistics.block_bytes, size * u64::from(statistics.blocks));
            }
        }
    }

    /// No two allocations overlap, or are too near to each other.
    fn check_places(&self) {
        let mut sorted: Vec<&Live> = self.live.iter().collect();
        sorted.sort_by_key(|live| live.range());
        for (i, a) in sorted.iter().enumerate() {
            for b in &sorted[i + 1..] {
                let ((memory, _, end), (other, start, _)) = (a.range(), b.range());
                if memory != other {
                    break;
                }
                assert!(end <= start, "{:?} and {:?} overlap", a.place, b.place);
                assert_eq!(a.pool, b.pool, "pools share no memory");
                let distance = self.distance(a, b);
                assert!(
                    distance.align_down(end - 1) < distance.align_down(start),
                    "{:?} at {:?} and {:?} at {:?} share {distance} bytes",
                    a.desc.requirements.kind,
                    a.place,
                    b.desc.requirements.kind,
                    b.place
                );
                if a.pool.is_none() {
                    assert_eq!(a.desc.lifetime, b.desc.lifetime, "lifetimes share no memory");
                }
            }
        }
    }

    /// Two neighbours may not both be in one unit of this number of bytes.
    fn distance(&self, a: &Live, b: &Live) -> Alignment {
        let limits = self.rig.device.properties().limits;
        let properties = self.properties_of(a.place.memory_type);
        let atom = if properties.needs_flush() { limits.non_coherent_atom_size } else { Alignment::ONE };
        let ignored = a.pool.is_some_and(|at| self.pool(at).desc.ignore_granularity);
        if conflict(a.desc.requirements.kind, b.desc.requirements.kind) && !ignored {
            atom.max(limits.buffer_image_granularity)
        } else {
            atom
        }
    }

    fn check_one(&self, live: &Live) {
        let Live { token, place, desc, .. } = live;
        let now = self.rig.location(token).unwrap();
        assert_eq!((now.memory, now.offset, now.size), (place.memory, place.offset, place.size));
        assert!(place.mapped_ptr.is_none() || place.mapped_ptr == now.mapped_ptr, "an address never changes");
        let info = self.rig.info(token).unwrap();
        assert_eq!((info.size, info.kind, info.maps), (place.size, desc.requirements.kind, live.maps));
        assert_eq!((&info.name, info.user_data), (&desc.name, desc.user_data));
        assert!(place.size <= info.occupied && place.offset + info.occupied <= info.block_size);

        let mut bytes = [0; WINDOW];
        for (offset, expected) in [(0, &live.head), (live.tail_offset(), &live.tail)] {
            let bytes = &mut bytes[..expected.len()];
            if !bytes.is_empty() {
                self.rig.read(token, offset, bytes).unwrap();
                assert_eq!(bytes, expected, "the bytes of {place:?} at {offset}");
            }
        }
    }
}

/// True for kinds of which one may be linear where the other is optimal.
fn conflict(a: ResourceKind, b: ResourceKind) -> bool {
    let linear = |kind| matches!(kind, ResourceKind::Buffer | ResourceKind::LinearImage);
    match (a, b) {
        (ResourceKind::Unknown, _) | (_, ResourceKind::Unknown) => true,
        (a, b) => linear(a) != linear(b),
    }
}
