//! What happens to descriptors between the beginning of a step and its end, in other threads and by failures.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, mpsc};

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorSlot,
    ShaderVisibleHeap, ShaderVisibleHeapDesc,
};
use allotment::device::simulated::{Profile, SimulatedGpu, SimulatedImageUse, SimulatedRead};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice as _, DescriptorHeapType, ImageDesc, QueueDevice as _,
    QueueIndex, Submission,
};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, MappedBuffer, Movability, OwningAllocator};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

use crate::hooked_device::{Hook, HookedDevice, Point};

const PATIENCE: Duration = Duration::from_secs(20);

type Work = Box<dyn FnOnce() + Send>;

/// Work for the next call that reaches a point.
#[derive(Default)]
struct Beside(Mutex<Option<(Point, Work)>>);

impl Beside {
    fn at(&self, point: Point, work: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((point, Box::new(work)));
    }
}

impl Hook for Beside {
    fn reached(&self, point: Point) {
        let mut planned = self.0.lock().unwrap();
        let work = planned.take_if(|(at, _)| *at == point);
        drop(planned);
        work.into_iter().for_each(|(_, work)| work());
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
}

type Device = HookedDevice<Beside>;
type Heap = ShaderVisibleHeap<Device>;

/// Five buffers of 1 MiB of which the first was dropped: a step moves the last one.
struct Scene {
    device: Device,
    tracker: SubmissionTracker,
    allocator: Arc<Allocator<Device>>,
    memory: OwningAllocator<Device>,
    defragmenter: Defragmenter<Device>,
    buffers: Vec<Arc<Buffer<Device>>>,
}

impl Scene {
    fn new() -> Self {
        let device = Device::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()));
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let mut desc = AllocatorDesc::default();
        desc.on_leak = LeakHandler::Ignore;
        let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
        let defragmenter = Defragmenter::new(&memory, DefragmenterDesc::new(full)).unwrap();
        let options = AllocationOptions::new(MemoryUsage::DeviceUpload).with_name("followed");
        let create = |number: u32| {
            let buffer = defragmenter.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap();
            buffer.write(0, &number.to_le_bytes()).unwrap();
            Arc::new(buffer)
        };
        let mut buffers: Vec<_> = (0..5).map(create).collect();
        drop(buffers.remove(0));
        memory.deletion_queue().reclaim();
        Self { device, tracker, allocator, memory, defragmenter, buffers }
    }

    fn moving(&self) -> &Arc<Buffer<Device>> {
        &self.buffers[3]
    }

    fn heap(&self) -> Arc<Heap> {
        let desc = ShaderVisibleHeapDesc::resources().with_regions(8, 8, 8).with_chunk(4);
        Arc::new(ShaderVisibleHeap::new(&self.allocator, &self.tracker, desc).unwrap())
    }

    fn slot(&self, heap: &Heap) -> DescriptorSlot {
        heap.insert_buffer(self.moving(), 0..4, BufferUse::ReadOnly).unwrap()
    }

    fn step(&self) -> u32 {
        self.defragmenter.step(PassLimits::NONE).unwrap().statistics.moves
    }

    /// Waits until the copy has been made and the old places are gone.
    fn settle(&self, heap: &Heap) {
        assert_eq!(self.tracker.wait_idle(PATIENCE), Ok(()));
        for _ in 0..2 {
            self.memory.deletion_queue().reclaim();
            heap.reclaim();
        }
    }

    /// What work reads through a descriptor.
    fn read(&self, heap: &Heap, set: Option<&BindingSet<Device>>, slot: Option<DescriptorSlot>) -> Vec<u32> {
        let create = |usage| {
            let options = AllocationOptions::new(usage);
            MappedBuffer::new(&self.allocator, &BufferDesc::new(8), &options).unwrap()
        };
        let (list, to) = (create(MemoryUsage::Upload), create(MemoryUsage::Readback));
        let recording = self.tracker.record("reads");
        let mut view = heap.begin(&recording).unwrap();
        let table = set.map(|set| set.commit(&mut view).unwrap().table.unwrap().first);
        let indices: Vec<_> = table.into_iter().chain(slot.map(DescriptorSlot::index)).collect();
        let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        list.write(0, &bytes).unwrap();
        let read = SimulatedRead {
            heap: view.heap(),
            indices: &list.handle(),
            indices_offset: 0,
            count: indices.len() as u32,
            to: &to.handle(),
            to_offset: 0,
        };
        let submitted = recording.submit(QueueIndex(0), |queue| {
            // SAFETY: everything lives until the wait is over.
            unsafe { self.device.inner.submit_reads(queue, &[], &[read]) }
        });
        assert_eq!(self.tracker.wait(submitted.unwrap(), PATIENCE), Ok(()));
        let mut bytes = [0; 8];
        to.read(0, &mut bytes).unwrap();
        let numbers = bytes.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
        numbers.take(indices.len()).collect()
    }

    /// Lets another thread do something while a step is at its submission. Returns the result, and whether it was there
    /// before the step went on.
    fn beside_a_step<T: Send>(&self, work: impl FnOnce() -> T + Send) -> (T, bool) {
        self.beside_a_step_at(None, work)
    }

    /// Lets another thread do something while a step is at its submission, or at a later point.
    fn beside_a_step_at<T: Send>(&self, later: Option<Point>, work: impl FnOnce() -> T + Send) -> (T, bool) {
        let ((there, is_there), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let stop = move || {
            there.send(()).unwrap();
            goes_on.recv().unwrap();
        };
        let hook = Arc::clone(&self.device.hook);
        self.device.hook.at(Point::BeforeSubmit, move || match later {
            Some(later) => hook.at(later, stop),
            None => stop(),
        });
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let step = scope.spawn(|| self.step());
            is_there.recv_timeout(PATIENCE).unwrap();
            let worker = scope.spawn(|| {
                let result = work();
                done.store(true, SeqCst);
                result
            });
            // Time in which the worker could end. It must not: so the test passes however slow the worker is.
            std::thread::sleep(Duration::from_millis(50));
            let too_early = done.load(SeqCst);
            go_on.send(()).unwrap();
            assert_eq!(step.join().unwrap(), 1);
            (worker.join().unwrap(), too_early)
        })
    }
}

#[test]
fn a_heap_that_is_new_to_a_resource_waits_for_the_step_that_moves_it() {
    let scene = Scene::new();
    let heap = scene.heap();
    let (slot, too_early) = scene.beside_a_step(|| scene.slot(&heap));
    assert!(!too_early, "the step knows nothing of the heap, and would leave the old descriptor in it");
    scene.settle(&heap);
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    assert_eq!(scene.read(&heap, None, Some(slot)), [7]);
    assert_eq!(scene.device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_descriptor_of_a_resource_is_not_written_while_a_step_rewrites_those_of_its_heap() {
    let scene = Scene::new();
    let heap = scene.heap();
    let staging = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
    let staging = Arc::new(CpuDescriptorHeap::new(&scene.allocator, &scene.tracker, staging).unwrap());
    let layout = BindingLayout::new(&heap, &staging, &[Binding::mutable("number")]).unwrap();
    let slot = scene.slot(&heap);
    let (set, too_early) = scene.beside_a_step(|| {
        let mut set = BindingSet::new(&layout).unwrap();
        set.bind_buffer(0, 0, scene.moving(), 0..4, BufferUse::ReadOnly).unwrap();
        set
    });
    assert!(!too_early, "the step has seen the descriptors that there were, and this is another one");
    scene.settle(&heap);
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    assert_eq!(scene.read(&heap, Some(&set), Some(slot)), [7, 7]);
    assert_eq!(scene.device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn no_recording_begins_before_the_descriptors_of_what_a_step_moved_are_rewritten() {
    let scene = Scene::new();
    let heap = scene.heap();
    let slot = scene.slot(&heap);
    let begin = || drop(scene.tracker.record("beside a step"));
    let ((), too_early) = scene.beside_a_step_at(Some(Point::AfterWrite), begin);
    assert!(!too_early, "it would have the new handle and the old descriptor");
    scene.settle(&heap);
    assert_eq!(scene.read(&heap, None, Some(slot)), [4]);
    assert_eq!(scene.device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn a_view_that_committed_draws_read_outlives_the_commit_that_replaces_it() {
    let scene = Scene::new();
    let heap = scene.heap();
    let options = MemoryUsage::GpuOnly.with_name("target").with_movability(Movability::Recreated);
    let create = |_| scene.defragmenter.create_image(&ImageDesc::new(600, 400, 4), &options).unwrap();
    let mut images: Vec<_> = (0..5).map(create).map(Arc::new).collect();
    drop(images.remove(0));
    scene.memory.deletion_queue().reclaim();
    let staging = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
    let staging = Arc::new(CpuDescriptorHeap::new(&scene.allocator, &scene.tracker, staging).unwrap());
    let layout = BindingLayout::new(&heap, &staging, &[Binding::dynamic("target")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    // SAFETY: images of the simulated device can be used for anything.
    unsafe { set.bind_image(0, 0, &images[0], &SimulatedImageUse::Storage) }.unwrap();
    let draw = || {
        let recording = scene.tracker.record("draws");
        let mut view = heap.begin(&recording).unwrap();
        set.commit(&mut view).unwrap();
        // SAFETY: the submission is empty.
        let submit = |queue| unsafe { scene.device.inner.submit(queue, &Submission::default()) };
        recording.submit(QueueIndex(0), submit).unwrap();
    };
    scene.device.inner.pause_queues();
    draw();
    let destroyed = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&destroyed);
    scene.device.hook.at(Point::BeforeDestroyView, move || noted.store(true, SeqCst));
    scene.step();
    assert_eq!(images[0].moves(), 1, "the images of the first block have gone to the second one");
    draw();
    heap.reclaim();
    assert!(!destroyed.load(SeqCst), "the first draw reads it");
    scene.device.inner.resume_queues();
    scene.settle(&heap);
    assert!(destroyed.load(SeqCst));
    assert_eq!(scene.device.inner.validation_errors(), Vec::<String>::new());
}

#[test]
fn where_descriptors_could_not_be_rewritten_the_place_that_they_name_stays() {
    let scene = Scene::new();
    let heap = scene.heap();
    let slot = scene.slot(&heap);
    // SAFETY: the range lies in the buffer, which lives as long as the test.
    let raw = unsafe {
        let handle = scene.buffers[0].handle();
        let descriptor = scene.device.buffer_descriptor(&handle, 0..4, BufferUse::ReadOnly);
        heap.insert(&descriptor, None)
    };
    heap.remove(raw.unwrap()).unwrap();
    // When the step has prepared all it needs, the heap fails to clear the slot: it is not replaced any more.
    let (device, other) = (scene.device.clone(), Arc::clone(&heap));
    scene.device.hook.at(Point::BeforeSubmit, move || {
        device.hook.at(Point::BeforeWriteNull, || panic!("as the test wants"));
        assert!(catch_unwind(AssertUnwindSafe(|| other.reclaim())).is_err());
    });
    assert_eq!(scene.step(), 1);
    assert_eq!(heap.statistics().generation, 0, "a heap that may name what is gone is not copied");
    scene.settle(&heap);
    assert_eq!(
        scene.read(&heap, None, Some(slot)),
        [4],
        "the descriptor of the old place, which has its bytes"
    );
    assert_eq!(scene.device.inner.validation_errors(), Vec::<String>::new());
}
