//! Upload pages, and the arenas that use them.

use crate::device::QueueDevice as _;
use proptest::prelude::*;

use super::*;

const PAGE: u64 = 1000;

fn pool(rig: &Rig, kept_pages: u64) -> UploadPool<SimulatedGpu> {
    let mut desc = UploadPoolDesc::default();
    (desc.page_size, desc.kept_bytes) = (PAGE, kept_pages * PAGE);
    UploadPool::new(&rig.allocator, &rig.tracker, desc).unwrap()
}

/// Returns the bytes of all buffers, the bytes of free ones, and the number created.
fn sums(pool: &UploadPool<SimulatedGpu>) -> (u64, u64, u64) {
    pool.check_invariants();
    let UploadPoolStatistics { bytes, free_bytes, made, .. } = pool.statistics();
    (bytes, free_bytes, made)
}

#[test]
fn what_is_recorded_in_frame_1_and_submitted_in_frame_5_arrives_intact() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    let target = rig.buffer(PAGE, MemoryUsage::Readback);
    let late = rig.tracker.record("late");
    let mut arena = pool.arena(late.id());
    let mut slice = arena.allocate(PAGE, ONE).unwrap();
    slice.write(0, &pattern(1, PAGE)).unwrap();
    let recorded = slice.buffer().clone();
    drop(arena);
    for i in 2..5 {
        let recording = rig.tracker.record("a frame");
        let mut other = pool.arena(recording.id());
        other.allocate(PAGE, ONE).unwrap().write(0, &pattern(i, PAGE)).unwrap();
        drop(other);
        let done = rig.submit(recording);
        rig.wait(done);
    }
    assert_eq!(sums(&pool).2, 2, "the frames took turns with one page");
    rig.device.pause_queues();
    let done = rig.copy(late, (&recorded, 0), (&target.handle(), 0), PAGE);
    let next = rig.tracker.record("the next frame");
    let mut other = pool.arena(next.id());
    for i in 0..3 {
        other.allocate(PAGE, ONE).unwrap().write(0, &pattern(9 + i, PAGE)).unwrap();
    }
    rig.device.resume_queues();
    rig.wait(done);
    assert_eq!(bytes(&target, 0, PAGE), pattern(1, PAGE));
}

#[test]
fn pages_are_in_device_memory_where_the_cpu_can_map_more_than_a_window() {
    let take = |rig: &Rig, pool: &UploadPool<SimulatedGpu>, size| {
        let recording = rig.tracker.record("a frame");
        let mut arena = pool.arena(recording.id());
        let mut slice = arena.allocate(size, ONE).unwrap();
        slice.write(0, &pattern(1, size)).unwrap();
        drop((arena, recording));
        pool.check_invariants();
        (pool.statistics().bytes, pool.statistics().device_bytes)
    };
    for (profile, is_wide) in [
        ("discrete-large-bar", true),
        ("nvidia-h200", true),
        ("integrated", true),
        ("mobile", true),
        ("d3d12-tier-2", true),
        ("discrete-small-bar", false),
        ("discrete-no-bar", false),
        ("d3d12-tier-1", false),
    ] {
        let rig = Rig::new(profile);
        let pool = pool(&rig, 10);
        let (bytes, device_bytes) = take(&rig, &pool, 100);
        assert_eq!((bytes, device_bytes), (PAGE, if is_wide { PAGE } else { 0 }), "{profile}");
        // A larger one goes with its recording.
        let (bytes, device_bytes) = take(&rig, &pool, 5 * PAGE);
        assert_eq!((bytes, device_bytes), (6 * PAGE, if is_wide { 6 * PAGE } else { 0 }), "{profile}");
        pool.trim();
        assert_eq!((pool.statistics().bytes, pool.statistics().device_bytes), (0, 0), "{profile}");
    }
    let rig = Rig::new("discrete-large-bar");
    let host = UploadPoolDesc::default().with_page_size(PAGE).with_device_memory(false);
    let host = UploadPool::new(&rig.allocator, &rig.tracker, host).unwrap();
    assert_eq!(take(&rig, &host, 100), (PAGE, 0));
    // The program's own choice of memory stays.
    let mapped = UploadPoolDesc::default().with_page_size(PAGE).with_memory_usage(MemoryUsage::DeviceUpload);
    let mapped = UploadPool::new(&rig.allocator, &rig.tracker, mapped.with_device_memory(false)).unwrap();
    assert_eq!(take(&rig, &mapped, 100), (PAGE, PAGE));
    // Beyond the budget of the device's memory, pages are in the host's. They are larger than what its blocks have left.
    let large = UploadPoolDesc::default().with_page_size(64 << 20);
    let large = UploadPool::new(&rig.allocator, &rig.tracker, large).unwrap();
    let first = rig.tracker.record("within the budget");
    let mut arena = large.arena(first.id());
    arena.allocate(64 << 20, ONE).unwrap();
    assert_eq!(large.statistics().device_bytes, 64 << 20);
    rig.device.set_budget(crate::device::MemoryHeapIndex(0), 0);
    rig.allocator.refresh_budgets();
    for _ in 0..8 {
        arena.allocate(64 << 20, ONE).unwrap();
    }
    let UploadPoolStatistics { bytes, device_bytes, .. } = large.statistics();
    assert_eq!(bytes, 9 * (64 << 20));
    assert!(device_bytes < bytes, "{device_bytes} of {bytes}");
}

/// The page of an arena, the offset in it and the size.
fn place(slice: UploadSlice<'_, SimulatedGpu>) -> (u32, u64, u64) {
    (slice.page(), slice.offset(), slice.size())
}

#[test]
fn an_arena_may_go_before_its_recording_is_submitted() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    rig.device.pause_queues();
    let recording = rig.tracker.record("a frame");
    let mut arena = pool.arena(recording.id());
    arena.allocate(1, ONE).unwrap();
    drop(arena);
    assert_eq!(pool.reclaim().count, 0, "the recording is open");
    let done = rig.submit(recording);
    assert_eq!(pool.reclaim().count, 0, "the queue has it");
    assert_eq!(sums(&pool), (PAGE, 0, 1));
    rig.device.resume_queues();
    rig.wait(done);
    assert_eq!(pool.reclaim().bytes, PAGE);
    assert_eq!(sums(&pool), (PAGE, PAGE, 1));
}

#[test]
fn the_pages_of_a_discarded_recording_can_be_had_at_once() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    // Work in flight that no call should wait for.
    rig.device.pause_queues();
    rig.submit(rig.tracker.record("something else"));
    for _ in 0..5 {
        let recording = rig.tracker.record("given up");
        let mut arena = pool.arena(recording.id());
        arena.allocate(PAGE, ONE).unwrap();
        arena.allocate(PAGE, ONE).unwrap();
        drop(arena);
        drop(recording);
    }
    assert_eq!(sums(&pool).2, 2);
    rig.device.resume_queues();
}

#[test]
fn the_pool_returns_to_what_it_keeps_when_a_load_is_over() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 4);
    let load = rig.tracker.record("a load");
    let mut arena = pool.arena(load.id());
    for _ in 0..50 {
        arena.allocate(PAGE, ONE).unwrap();
    }
    drop(arena);
    let done = rig.submit(load);
    rig.wait(done);
    assert_eq!(sums(&pool), (50 * PAGE, 0, 50));
    // No explicit reclaim is needed: the next request for a page does it.
    let recording = rig.tracker.record("a frame");
    pool.arena(recording.id()).allocate(1, ONE).unwrap();
    assert_eq!(sums(&pool), (4 * PAGE, 3 * PAGE, 50));
    drop(recording);
    pool.reclaim();
    assert_eq!(sums(&pool), (4 * PAGE, 4 * PAGE, 50));
    assert_eq!(pool.statistics().given_back, 46);
    pool.trim();
    assert_eq!(sums(&pool), (0, 0, 50));
    assert_eq!(pool.statistics().peak_bytes, 50 * PAGE);
}

#[test]
fn a_request_larger_than_a_page_leaves_the_current_page_in_use_and_is_never_kept() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    let recording = rig.tracker.record("a frame");
    let mut arena = pool.arena(recording.id());
    assert_eq!(place(arena.allocate(100, ONE).unwrap()), (0, 0, 100));
    let large = arena.allocate(7 * PAGE + 3, align(1 << 20)).unwrap();
    assert_eq!(place(large), (1, 0, 7 * PAGE + 3));
    assert_eq!(place(arena.allocate(100, ONE).unwrap()), (0, 100, 100));
    assert_eq!(sums(&pool), (8 * PAGE + 3, 0, 2));
    assert_eq!(pool.statistics().made_oversize, 1);
    drop(arena);
    drop(recording);
    pool.reclaim();
    assert_eq!(sums(&pool), (PAGE, PAGE, 2), "only the page is kept");
}

#[test]
fn what_a_load_has_left_goes_with_the_next_page_though_others_are_free() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 4);
    let load = rig.tracker.record("a load");
    let mut arena = pool.arena(load.id());
    for _ in 0..4 {
        arena.allocate(PAGE, ONE).unwrap();
    }
    drop(arena);
    drop(load);
    pool.reclaim();
    let load = rig.tracker.record("a larger load");
    pool.arena(load.id()).allocate(50 * PAGE, ONE).unwrap();
    drop(load);
    assert_eq!(sums(&pool), (54 * PAGE, 4 * PAGE, 5));
    let recording = rig.tracker.record("a frame");
    pool.arena(recording.id()).allocate(1, ONE).unwrap();
    assert_eq!(sums(&pool), (4 * PAGE, 3 * PAGE, 5));
}

#[test]
fn a_large_request_does_not_waste_the_room_that_is_left() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    let recording = rig.tracker.record("a frame");
    let mut arena = pool.arena(recording.id());
    let place = |arena: &mut UploadArena<_>, size| {
        let (page, offset, _) = place(arena.allocate(size, ONE).unwrap());
        (page, offset)
    };
    assert_eq!(place(&mut arena, 200), (0, 0));
    assert_eq!(place(&mut arena, 900), (1, 0), "leaves less than page 0 has");
    assert_eq!(place(&mut arena, 200), (0, 200));
    assert_eq!(place(&mut arena, 601), (2, 0));
    assert_eq!(place(&mut arena, 600), (0, 400), "page 2 has less");
    assert_eq!(place(&mut arena, 1), (3, 0));
    assert_eq!(place(&mut arena, 1), (3, 1));
    let ArenaStatistics { used, aligned, allocated, pages } = arena.statistics();
    assert_eq!((used, aligned, allocated, pages), (2503, 2503, 4 * PAGE, 4));
}

#[test]
fn a_page_that_is_refused_leaves_everything_as_it_was() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 10);
    let recording = rig.tracker.record("a frame");
    let mut arena = pool.arena(recording.id());
    arena.allocate(600, ONE).unwrap();
    let before = arena.statistics();
    for size in [500, 5 * PAGE, u64::MAX, 1 << 60] {
        rig.device.fail_from(1, crate::device::DeviceError::OutOfDeviceMemory);
        let refused = arena.allocate(size, ONE);
        assert!(matches!(refused, Err(UploadError::Resource(_))), "{refused:?}");
        rig.device.clear_faults();
        assert_eq!(arena.statistics(), before);
    }
    assert!(matches!(arena.allocate(0, ONE), Err(UploadError::ZeroSize)));
    assert!(matches!(arena.allocate(u64::MAX, align(4096)), Err(UploadError::Resource(_))));
    assert_eq!(pool.statistics().failures, 5);
    assert_eq!(arena.allocate(400, ONE).unwrap().offset(), 600);
    assert_eq!(sums(&pool), (PAGE, 0, 1));
}

#[test]
fn threads_that_record_at_once_do_not_see_each_others_bytes() {
    let rig = Rig::new("discrete-large-bar");
    let pool = pool(&rig, 8);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (rig, pool) = (&rig, &pool);
            scope.spawn(move || {
                let target = rig.buffer(20 * 250, MemoryUsage::Readback);
                for frame in 0..50 {
                    let recording = rig.tracker.record("a frame");
                    let mut arena = pool.arena(recording.id());
                    let seed = |i| thread * 1000 + frame * 20 + i;
                    let places: Vec<_> = (0..20)
                        .map(|i| {
                            let mut slice = arena.allocate(250, align(4)).unwrap();
                            slice.write(0, &pattern(seed(i), 250)).unwrap();
                            place(slice)
                        })
                        .collect();
                    let to = target.handle();
                    let copies: Vec<_> = places
                        .iter()
                        .zip(0..)
                        .map(|(&(page, offset, _), i)| BufferCopy {
                            from: arena.buffer(page).unwrap(),
                            from_offset: offset,
                            to: &to,
                            to_offset: i * 250,
                            size: 250,
                        })
                        .collect();
                    let work = Submission { copies: &copies, ..Submission::default() };
                    // SAFETY: the ranges lie in the buffers, which the arena and the wait below keep.
                    let done =
                        recording.submit(QUEUE, |queue| unsafe { rig.device.submit(queue, &work) }).unwrap();
                    drop(copies);
                    drop(arena);
                    rig.wait(done);
                    for i in 0..20 {
                        assert_eq!(bytes(&target, i * 250, 250), pattern(seed(i), 250));
                    }
                }
            });
        }
    });
    pool.reclaim();
    let (bytes, free, _) = sums(&pool);
    assert!(bytes == free && bytes <= 8 * PAGE, "{bytes} bytes, {free} of them free");
}

/// A model of an arena: which bytes of its pages are allocated.
struct Model {
    pages: Vec<Vec<bool>>,
    current: Option<usize>,
    used: u64,
}

impl Model {
    /// Returns the end of the last allocated range.
    fn head(&self, page: usize) -> usize {
        self.pages[page].iter().rposition(|taken| *taken).map_or(0, |last| last + 1)
    }

    fn room(&self, page: usize) -> usize {
        self.pages[page].len() - self.head(page)
    }

    fn allocate(&mut self, size: usize, alignment: usize) -> (usize, usize) {
        self.used += size as u64;
        if let Some(current) = self.current {
            let offset = self.head(current).next_multiple_of(alignment);
            if offset + size <= self.pages[current].len() {
                self.take(current, offset, size);
                return (current, offset);
            }
        }
        let page = self.pages.len();
        self.pages.push(vec![false; size.max(PAGE as usize)]);
        self.take(page, 0, size);
        if self.room(page) > self.current.map_or(0, |current| self.room(current)) {
            self.current = Some(page);
        }
        (page, 0)
    }

    fn take(&mut self, page: usize, offset: usize, size: usize) {
        let bytes = &mut self.pages[page][offset..offset + size];
        assert!(bytes.iter().all(|taken| !taken), "overlap");
        bytes.fill(true);
    }

    fn statistics(&self) -> ArenaStatistics {
        ArenaStatistics {
            used: self.used,
            aligned: (0..self.pages.len()).map(|page| self.head(page) as u64).sum(),
            allocated: self.pages.iter().map(|page| page.len() as u64).sum(),
            pages: self.pages.len() as u32,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn an_arena_agrees_with_a_map_of_its_pages(
        requests in prop::collection::vec((prop_oneof![4 => 1..300usize, 1 => 1..1500usize], 0..9u32), 1..60),
    ) {
        let rig = Rig::new("discrete-large-bar");
        let pool = pool(&rig, 3);
        let recording = rig.tracker.record("a frame");
        let mut arena = pool.arena(recording.id());
        let mut model = Model { pages: Vec::new(), current: None, used: 0 };
        for (size, alignment) in requests {
            let found = place(arena.allocate(size as u64, align(1 << alignment)).unwrap());
            let (page, offset) = model.allocate(size, 1 << alignment);
            assert_eq!(found, (page as u32, offset as u64, size as u64));
            assert_eq!(arena.statistics(), model.statistics());
        }
        let allocated = arena.statistics().allocated;
        drop(arena);
        drop(recording);
        assert_eq!(pool.reclaim().bytes, allocated);
        let ordinary = model.pages.iter().filter(|page| page.len() as u64 == PAGE).count() as u64;
        let kept = ordinary.min(3) * PAGE;
        assert_eq!(sums(&pool), (kept, kept, model.pages.len() as u64));
    }
}
