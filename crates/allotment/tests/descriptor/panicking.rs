//! A device whose calls panic when a test says so, as one of the caller's own might, and what is left then: no descriptor
//! of what is gone, no batch that is submitted twice, no thread that waits for ever.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};

use crate::hooked_device::{Hook, HookedDevice, Point};
use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError, KeepAlive,
    SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::simulated::{Profile, SimulatedDescriptor, SimulatedGpu, SimulatedRead};
use allotment::device::{
    BufferDesc, BufferDevice, BufferUse, DescriptorDevice, DescriptorHeapType, MemoryProperties,
    QueueDevice as _, QueueIndex, SamplerDesc, Submission,
};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, MappedBuffer, OwningAllocator};
use allotment::upload::{ReadbackRing, RingDesc, UploadRing, Uploader, UploaderDesc, WhenFull};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

/// Which calls panic: the number of calls of a kind that pass, and the number after these that panic.
#[derive(Debug, Default)]
struct Plan(Mutex<Vec<(Point, u32, u32)>>);

/// A simulated device with a plan. A clone is the same device.
type PanickingDevice = HookedDevice<Plan>;

impl PanickingDevice {
    /// Lets the `k`-th call of a kind from now on panic, and `count` altogether.
    fn panic_at(&self, point: Point, k: u32, count: u32) {
        self.hook.0.lock().unwrap().push((point, k - 1, count));
    }

    fn clear_faults(&self) {
        self.hook.0.lock().unwrap().clear();
    }
}

impl Hook for Plan {
    fn reached(&self, point: Point) {
        let mut plan = self.0.lock().unwrap();
        for (planned, pass, left) in plan.iter_mut().filter(|(planned, ..)| *planned == point) {
            if *pass > 0 {
                *pass -= 1;
            } else if *left > 0 {
                *left -= 1;
                let planned = *planned;
                drop(plan);
                panic!("{planned:?}, as the test wants");
            }
        }
    }
}

const QUEUE: QueueIndex = QueueIndex(0);
const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    device: PanickingDevice,
    tracker: SubmissionTracker,
    allocator: Arc<Allocator<PanickingDevice>>,
    memory: OwningAllocator<PanickingDevice>,
    /// All bytes are 7.
    /// Keeps the buffer of sevens, whose handle is the next.
    _sevens: MappedBuffer<PanickingDevice>,
    seven_handle: <PanickingDevice as BufferDevice>::Buffer,
}

impl Rig {
    fn new(profile: &str) -> Self {
        Self::on(Profile::named(profile).unwrap())
    }

    fn on(profile: Profile) -> Self {
        let device = PanickingDevice::new(SimulatedGpu::new(profile));
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let mut desc = AllocatorDesc::default();
        desc.on_leak = LeakHandler::Ignore;
        let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let wanted = AllocationOptions::new(MemoryUsage::Upload);
        let sevens = MappedBuffer::new(&allocator, &BufferDesc::new(4), &wanted).unwrap();
        sevens.write(0, &[7; 4]).unwrap();
        let seven_handle = sevens.handle();
        Self { device, tracker, allocator, memory, _sevens: sevens, seven_handle }
    }

    fn seven(&self) -> SimulatedDescriptor<'_> {
        // SAFETY: the buffer lives as long as the rig.
        unsafe { self.device.buffer_descriptor(&self.seven_handle, 0..4, BufferUse::ReadOnly) }
    }

    fn heap(&self) -> ShaderVisibleHeap<PanickingDevice> {
        let desc = ShaderVisibleHeapDesc::resources().with_regions(8, 8, 8).with_chunk(4);
        ShaderVisibleHeap::new(&self.allocator, &self.tracker, desc).unwrap()
    }

    fn staging(&self) -> CpuDescriptorHeap<PanickingDevice> {
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(64);
        CpuDescriptorHeap::new(&self.allocator, &self.tracker, desc).unwrap()
    }

    /// How many of the first descriptors of a heap work reads sevens through; the others are of nothing.
    fn sevens_of(&self, heap: &ShaderVisibleHeap<PanickingDevice>) -> usize {
        self.sevens_at(heap, |_| (0..16).collect())
    }

    /// The same, of 16 descriptors.
    fn sevens_at(
        &self,
        heap: &ShaderVisibleHeap<PanickingDevice>,
        indices: impl FnOnce(&mut TransientDescriptors<PanickingDevice>) -> Vec<u32>,
    ) -> usize {
        let wanted = |memory_usage| AllocationOptions::new(memory_usage);
        let make = |memory_usage| {
            MappedBuffer::new(&self.allocator, &BufferDesc::new(64), &wanted(memory_usage)).unwrap()
        };
        let (list, to) = (make(MemoryUsage::Upload), make(MemoryUsage::Readback));
        let recording = self.tracker.record("reads");
        let mut view = heap.begin(&recording).unwrap();
        let indices: Vec<u8> = indices(&mut view).into_iter().flat_map(u32::to_le_bytes).collect();
        list.write(0, &indices).unwrap();
        let read = SimulatedRead {
            heap: view.heap(),
            indices: &list.handle(),
            indices_offset: 0,
            count: 16,
            to: &to.handle(),
            to_offset: 0,
        };
        // SAFETY: everything lives until the wait is over.
        let submitted =
            recording.submit(QUEUE, |queue| unsafe { self.device.inner.submit_reads(queue, &[], &[read]) });
        assert_eq!(self.tracker.wait(submitted.unwrap(), PATIENCE), Ok(()));
        let mut bytes = [0; 64];
        to.read(0, &mut bytes).unwrap();
        let found: Vec<_> = bytes.chunks(4).collect();
        assert!(
            found.iter().all(|found| [[0; 4], [7; 4]].contains(&(*found).try_into().unwrap())),
            "{found:?}"
        );
        found.iter().filter(|found| **found == [7; 4]).count()
    }

    fn target(&self, size: u64) -> Buffer<PanickingDevice> {
        let wanted = AllocationOptions::new(MemoryUsage::Readback);
        self.memory.create_buffer(&BufferDesc::new(size), &wanted).unwrap()
    }

    fn read(&self, buffer: &Buffer<PanickingDevice>) -> Vec<u8> {
        let mut bytes = vec![0; buffer.size() as usize];
        buffer.read(0, &mut bytes).unwrap();
        bytes
    }
}

fn panics<T>(what: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_err()
}

#[test]
fn a_slot_whose_writing_panics_is_free_and_holds_nothing() {
    for (call, k) in [(Point::AfterWrite, 1), (Point::AfterCopy, 1)] {
        let rig = Rig::new("discrete-large-bar");
        let heap = rig.heap();
        rig.device.panic_at(call, k, 1);
        assert!(panics(|| heap.insert(&rig.seven(), None)), "{call:?}");
        rig.device.panic_at(call, k + 2, 1);
        assert!(panics(|| heap.insert_all((0..5).map(|_| (rig.seven(), None)))), "{call:?}");
        assert_eq!(heap.statistics().slots.used, 0);
        heap.compact().unwrap();
        assert_eq!(rig.sevens_of(&heap), 0, "{call:?}");
        assert_eq!(heap.insert_all((0..8).map(|_| (rig.seven(), None))).unwrap().len(), 8, "all are free");
        assert_eq!(rig.sevens_of(&heap), 8, "{call:?}");
    }
}

#[test]
fn a_table_whose_writing_panics_holds_nothing_there() {
    let rig = Rig::new("discrete-large-bar");
    let (heap, staging) = (rig.heap(), rig.staging());
    let mut table = heap.allocate(4).unwrap();
    let mut view = staging.allocate(2).unwrap();
    (0..2).for_each(|at| staging.write(&mut view, at, &rig.seven()).unwrap());
    for call in [Point::AfterWrite, Point::AfterCopy] {
        rig.device.panic_at(call, 1, 1);
        assert!(panics(|| table.write(0, &rig.seven())), "{call:?}");
    }
    for k in [1, 2] {
        rig.device.panic_at(Point::AfterCopy, k, 1);
        assert!(panics(|| table.copy_from(2, &staging, &view)), "copy {k}");
    }
    heap.compact().unwrap();
    assert_eq!(rig.sevens_of(&heap), 0);
    table.write(3, &rig.seven()).unwrap();
    assert_eq!(rig.sevens_of(&heap), 1, "it can be written again");
    staging.free(view).unwrap();
}

#[test]
fn a_step_of_compaction_that_panics_leaves_a_table_whole_and_loses_no_range() {
    for (point, k) in [(Point::AfterCopy, 1), (Point::AfterCopy, 2), (Point::BeforeWriteNull, 1)] {
        let rig = Rig::new("discrete-large-bar");
        let heap = rig.heap();
        let (first, mut second) = (heap.allocate(3).unwrap(), heap.allocate(2).unwrap());
        (0..2).for_each(|at| second.write(at, &rig.seven()).unwrap());
        drop(first);
        heap.reclaim();
        rig.device.panic_at(point, k, 1);
        assert!(panics(|| heap.compact_step(10)), "{point:?} {k}");
        rig.device.clear_faults();
        assert_eq!(heap.compact_step(10), Err(DescriptorError::Poisoned), "{point:?} {k}");
        let sevens = rig.sevens_at(&heap, |view| {
            let first = view.place(&second).unwrap().first;
            [first, first + 1].repeat(4)
        });
        assert_eq!(sevens, 8, "{point:?} {k}");
        drop(second);
        heap.reclaim();
        assert_eq!(heap.statistics().tables.used, 0, "{point:?} {k}");
    }
}

#[test]
fn a_heap_that_could_not_be_cleared_is_not_copied_and_what_it_may_name_stays() {
    let rig = Rig::new("discrete-large-bar");
    let heap = rig.heap();
    let keep: Arc<u32> = Arc::new(0);
    let slot = heap.insert(&rig.seven(), Some(keep.clone() as KeepAlive)).unwrap();
    heap.remove(slot).unwrap();
    rig.device.panic_at(Point::BeforeWriteNull, 1, 1);
    assert!(panics(|| heap.reclaim()));
    assert_eq!(Arc::strong_count(&keep), 2, "the mirror may name what it keeps");
    assert_eq!(heap.compact(), Err(DescriptorError::Poisoned));
    assert_eq!(heap.grow(16, 16, 16), Err(DescriptorError::Poisoned));
    assert!(heap.insert(&rig.seven(), None).is_ok(), "the heap goes on as it is");
}

#[test]
fn slots_that_were_cleared_before_a_panic_are_reusable_and_what_the_next_one_keeps_stays() {
    let rig = Rig::new("discrete-large-bar");
    let heap = rig.heap();
    let keeps: Vec<Arc<u32>> = (0..4).map(Arc::new).collect();
    let slots: Vec<_> = keeps
        .iter()
        .map(|keep| heap.insert(&rig.seven(), Some(keep.clone() as KeepAlive)).unwrap())
        .collect();
    slots.iter().for_each(|&slot| heap.remove(slot).unwrap());
    // Slots come back together; the third of these cannot be cleared.
    rig.device.panic_at(Point::BeforeWriteNull, 3, 1);
    assert!(panics(|| heap.reclaim()));
    assert_eq!((heap.statistics().slots.used, heap.statistics().slots.retiring), (2, 2));
    let left: Vec<_> = keeps.iter().map(|keep| Arc::strong_count(keep) - 1).collect();
    assert_eq!(left[..3], [0, 0, 1], "the third may be named by the mirror");
    let again: Vec<_> = (0..6).map(|_| heap.insert(&rig.seven(), None).unwrap().index()).collect();
    assert!(slots[..2].iter().all(|slot| again.contains(&slot.index())));
    assert!(slots[2..].iter().all(|slot| !again.contains(&slot.index())));
    assert_eq!(heap.compact(), Err(DescriptorError::Poisoned));
}

#[test]
fn a_heap_that_the_panic_of_its_device_drops_is_not_waited_for() {
    let rig = Rig::new("discrete-large-bar");
    let heap = Arc::new(rig.heap());
    let mut table = heap.allocate(8).unwrap();
    // The second slot keeps the last owner of its heap, which goes when the clearing of the first one unwinds.
    let keeps = [None, Some(Arc::clone(&heap) as KeepAlive)];
    let slots = keeps.map(|keep| heap.insert(&rig.seven(), keep).unwrap());
    slots.into_iter().for_each(|slot| heap.remove(slot).unwrap());
    drop(heap);
    rig.device.panic_at(Point::BeforeWriteNull, 1, 1);
    assert!(panics(|| table.renew()), "no table is free, so what is ready is reclaimed");
    rig.device.clear_faults();
    assert_eq!(table.renew(), Err(DescriptorError::HeapGone));
}

#[test]
fn a_device_that_panics_again_while_a_slot_is_cleared_does_not_end_the_process() {
    let rig = Rig::new("discrete-large-bar");
    let heap = rig.heap();
    rig.device.panic_at(Point::AfterWrite, 2, 1);
    rig.device.panic_at(Point::BeforeWriteNull, 1, u32::MAX);
    assert!(panics(|| heap.insert_all((0..3).map(|_| (rig.seven(), None)))));
    rig.device.clear_faults();
    assert_eq!(heap.compact(), Err(DescriptorError::Poisoned));
    assert!(heap.insert(&rig.seven(), None).is_ok());
}

#[test]
fn a_staging_range_whose_writing_panics_is_not_copied() {
    let rig = Rig::new("discrete-large-bar");
    let (heap, staging) = (rig.heap(), rig.staging());
    let mut table = heap.allocate(4).unwrap();
    rig.device.panic_at(Point::BeforeWriteNull, 1, 1);
    assert!(panics(|| staging.allocate(2)), "a run is filled");
    assert_eq!(staging.statistics().used, 0, "and goes back where it cannot be");
    for count in [1, 2] {
        let mut view = staging.allocate(count).unwrap();
        staging.write(&mut view, 0, &rig.seven()).unwrap();
        rig.device.panic_at(Point::AfterWrite, 1, 1);
        assert!(panics(|| staging.write(&mut view, 0, &rig.seven())));
        assert_eq!(table.copy_from(0, &staging, &view), Err(DescriptorError::Unwritten));
        staging.fill(&mut view, allotment::descriptor::DescriptorFill::Null).unwrap();
        table.copy_from(0, &staging, &view).unwrap();
        staging.free(view).unwrap();
    }
    assert_eq!(rig.sevens_of(&heap), 0);
}

#[test]
fn a_sampler_whose_slot_is_not_written_is_destroyed() {
    let rig = Rig::new("discrete-large-bar");
    let desc = ShaderVisibleHeapDesc::samplers().with_regions(4, 0, 0);
    let heap = ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc).unwrap();
    let samplers = SamplerCache::new(heap).unwrap();
    rig.device.panic_at(Point::AfterWrite, 1, 1);
    assert!(panics(|| samplers.get(&SamplerDesc::default())));
    assert_eq!((samplers.len(), rig.device.inner.usage().samplers), (0, 0));
    assert!(samplers.get(&SamplerDesc::default()).is_ok());
}

#[test]
fn a_frame_that_is_closed_while_the_device_panics_is_closed() {
    let rig = Rig::new("discrete-large-bar");
    let mut up = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(4096)).unwrap();
    let mut down = ReadbackRing::new(&rig.allocator, &rig.tracker, &RingDesc::readback(4096)).unwrap();
    rig.device.inner.pause_queues();
    let mut panicked = [0; 2];
    let mut tickets = Vec::new();
    for _ in 0..40 {
        up.allocate(16, Alignment::ONE).unwrap();
        tickets.push(down.allocate(16, Alignment::ONE).unwrap());
        let recording = rig.tracker.record("a frame");
        // SAFETY: there is nothing in it.
        let submitted =
            recording.submit(QUEUE, |queue| unsafe { rig.device.submit(queue, &Submission::default()) });
        let point = submitted.unwrap();
        rig.device.panic_at(Point::BeforeCompleted, 1, u32::MAX);
        panicked[0] += u32::from(panics(|| up.close(point)));
        rig.device.clear_faults();
        // Tickets are looked at first, so that the device is not queried.
        down.close(point);
        up.discard();
        down.discard();
    }
    assert!(panicked[0] > 0, "lists that are full look for what is over");
    assert_eq!((up.statistics().used, up.statistics().frames), (640, 40), "queues have all of it");
    assert_eq!((down.statistics().used, down.statistics().frames), (640, 40));
    down.check_invariants();
    rig.device.inner.resume_queues();
    assert_eq!(rig.tracker.wait_idle(PATIENCE), Ok(()));
    assert_eq!(up.reclaim(), 640);
    drop(tickets);
    assert_eq!(down.reclaim(), 640);
}

#[test]
fn a_batch_that_was_submitted_before_the_device_panics_is_not_submitted_again() {
    let rig = Rig::new("discrete-large-bar");
    let uploader = Uploader::new(&rig.memory, UploaderDesc::default()).unwrap();
    let targets = [1, 2, 3].map(|_| rig.target(100));
    rig.device.inner.pause_queues();
    uploader.update(&targets[0], 0, &[1; 100]).unwrap();
    uploader.submit().unwrap();
    uploader.update(&targets[1], 0, &[2; 100]).unwrap();
    let queue = uploader.queues()[0];
    rig.device.panic_at(Point::BeforeCompleted, 1, u32::MAX);
    assert!(panics(|| uploader.submit()));
    rig.device.clear_faults();
    let submitted = rig.device.submitted(queue);
    assert_eq!(uploader.statistics().open_bytes, 0, "it was submitted");
    let [first, second, third] = targets;
    // Items that are not known to be in a batch are released by the next look.
    drop(second);
    uploader.submit().unwrap();
    assert_eq!(rig.device.submitted(queue), submitted, "nothing is left to submit");
    uploader.update(&third, 0, &[3; 100]).unwrap();
    rig.device.inner.resume_queues();
    let there = uploader.submit().unwrap();
    assert_eq!(rig.tracker.wait_all(&there, PATIENCE), Ok(()));
    assert_eq!((rig.read(&first), rig.read(&third)), (vec![1; 100], vec![3; 100]));
    assert_eq!(uploader.statistics().copies, 3);
    assert_eq!(rig.device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn bytes_whose_staging_panics_leave_the_room_to_the_next() {
    // With memory that every write flushes.
    let mut profile = Profile::named("integrated").unwrap();
    profile
        .memory_types
        .iter_mut()
        .for_each(|found| found.properties.remove(MemoryProperties::HOST_COHERENT));
    let rig = Rig::on(profile);
    for when_full in [WhenFull::Wait(PATIENCE), WhenFull::Refuse] {
        let mut desc = UploaderDesc::default();
        (desc.staging, desc.when_full) = (64, when_full);
        let uploader = Uploader::new(&rig.memory, desc).unwrap();
        let target = rig.target(64);
        for at in 1..5 {
            rig.device.panic_at(Point::BeforeFlush, 1, 1);
            let bytes = if when_full == WhenFull::Refuse { 64 } else { 16 };
            assert!(panics(|| uploader.update(&target, 0, &[at; 64][..bytes])), "{when_full:?}");
        }
        uploader.update(&target, 0, &[9; 64]).unwrap();
        let there = uploader.submit().unwrap();
        assert_eq!(rig.tracker.wait_all(&there, PATIENCE), Ok(()));
        assert_eq!(rig.read(&target), vec![9; 64], "{when_full:?}");
    }
}

#[test]
fn a_thread_that_panics_in_a_large_upload_leaves_its_share_to_the_others() {
    // With memory that every write flushes.
    let mut profile = Profile::named("integrated").unwrap();
    profile
        .memory_types
        .iter_mut()
        .for_each(|found| found.properties.remove(MemoryProperties::HOST_COHERENT));
    let rig = Rig::on(profile);
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.when_full) = (64 << 10, WhenFull::Wait(PATIENCE));
    let uploader = Uploader::new(&rig.memory, desc).unwrap();
    const SIZE: usize = 256 << 10;
    let targets: Vec<_> = (0..8).map(|_| rig.target(SIZE as u64)).collect();
    // Created before: a panic in a driver call that allocates is another test's.
    uploader.update(&targets[0], 0, &[0]).unwrap();
    for k in [1, 5, 40] {
        rig.device.panic_at(Point::BeforeFlush, k, 1);
        let panicked: usize = std::thread::scope(|scope| {
            let upload = |(i, target): (u8, _)| {
                let uploader = &uploader;
                scope.spawn(move || panics(|| uploader.update(target, 0, &[i; SIZE]).unwrap()))
            };
            let threads: Vec<_> = (0..).zip(&targets).map(upload).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        });
        assert_eq!(panicked, 1);
        let there = uploader.submit().unwrap();
        assert_eq!(rig.tracker.wait_all(&there, PATIENCE), Ok(()));
        let wrong = (0..).zip(&targets).filter(|(i, target)| rig.read(target) != vec![*i; SIZE]).count();
        assert!(wrong <= 1, "all but the one of the thread that panicked");
        let now = uploader.statistics();
        assert_eq!((now.waiting, now.open_bytes, now.bytes_in_flight), (0, 0, 0));
    }
    // All of the memory is free: as much as before is staged without a wait.
    let waits = uploader.statistics().waits;
    rig.device.inner.pause_queues();
    uploader.update(&targets[0], 0, &[9; 16 << 10]).unwrap();
    assert_eq!(uploader.statistics().waits, waits);
    rig.device.inner.resume_queues();
}

#[test]
fn a_device_that_panics_while_descriptors_follow_a_move_leaves_what_names_nothing_that_is_gone() {
    for (point, calls) in [(Point::AfterCopy, 6), (Point::AfterWrite, 3), (Point::BeforeWriteNull, 3)] {
        for k in 1..=calls {
            let rig = Rig::new("discrete-large-bar");
            let (heap, staging) = (Arc::new(rig.heap()), Arc::new(rig.staging()));
            let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full);
            let defragmenter = Defragmenter::new(&rig.memory, DefragmenterDesc::new(strategy)).unwrap();
            let wanted = AllocationOptions::new(MemoryUsage::DeviceUpload);
            let create = |_| {
                let buffer = defragmenter.create_buffer(&BufferDesc::new(1 << 20), &wanted).unwrap();
                buffer.write(0, &[7; 4]).unwrap();
                Arc::new(buffer)
            };
            let mut buffers: Vec<_> = (0..5).map(create).collect();
            drop(buffers.remove(0));
            rig.memory.deletion_queue().reclaim();
            let layout = BindingLayout::new(&heap, &staging, &[Binding::mutable("number")]).unwrap();
            let mut set = BindingSet::new(&layout).unwrap();
            let bind =
                |set: &mut BindingSet<_>| set.bind_buffer(0, 0, &buffers[3], 0..4, BufferUse::ReadOnly);
            bind(&mut set).unwrap();
            let slot = heap.insert_buffer(&buffers[3], 0..4, BufferUse::ReadOnly).unwrap();
            let sevens = |set: &BindingSet<_>| {
                rig.sevens_at(&heap, |view| {
                    let table = set.commit(view).unwrap().table.unwrap().first;
                    [slot.index(), table].repeat(8)
                })
            };
            rig.device.panic_at(point, k, 1);
            let step = catch_unwind(AssertUnwindSafe(|| defragmenter.step(PassLimits::NONE)));
            rig.device.clear_faults();
            assert_eq!(rig.tracker.wait_idle(PATIENCE), Ok(()));
            for _ in 0..2 {
                rig.memory.deletion_queue().reclaim();
                heap.reclaim();
            }
            // What the slot names is there, and so is what the set names.
            assert_eq!(sevens(&set), 16, "{point:?} {k}: {step:?}");
            // No thread waits for the step.
            let bound = bind(&mut set);
            assert!(matches!(bound, Ok(()) | Err(DescriptorError::Poisoned)), "{bound:?}");
            let step = heap.compact_step(100);
            assert!(matches!(step, Ok(_) | Err(DescriptorError::Poisoned)), "{step:?}");
            let compacted = heap.compact();
            assert!(matches!(compacted, Ok(()) | Err(DescriptorError::Poisoned)), "{compacted:?}");
            assert_eq!(sevens(&set), 16);
            assert_eq!(rig.device.inner.validation_errors(), Vec::<String>::new(), "{point:?} {k}");
        }
    }
}
