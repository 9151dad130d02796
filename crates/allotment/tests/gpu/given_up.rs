//! Moves that a step gives up when the queue already has their copies: the copies still read the places in which the
//! buffers stay.

use std::sync::Mutex;

use allotment::Gpu;
use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::lifetime::{Recording, SubmissionTracker};
use allotment::memory::{
    BlockSizes, DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc,
    EmptyBlockPolicy, PassLimits, StepOutcome,
};
use allotment::upload::{Uploader, UploaderDesc};
use allotment::{AllocatorDesc, GpuDesc, MemoryUsage};

use crate::hooked_device::{Hook, HookedDevice, Point};

/// Opens a recording once, after the next submission, as another thread could.
#[derive(Debug, Default)]
struct OpensRecording {
    with: Mutex<Option<SubmissionTracker>>,
    opened: Mutex<Option<Recording>>,
}

impl Hook for OpensRecording {
    fn reached(&self, point: Point) {
        if point == Point::AfterSubmit {
            let tracker = self.with.lock().unwrap().take();
            tracker.iter().for_each(|it| *self.opened.lock().unwrap() = Some(it.record("beside a step")));
        }
    }
}

#[test]
fn what_is_written_to_a_buffer_whose_move_was_given_up_waits_for_the_copy_that_reads_it() {
    let device =
        HookedDevice::<OpensRecording>::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()));
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks, desc.shards) =
        (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_allocator(desc)).unwrap();
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let defragmenter = Defragmenter::new(gpu.memory(), DefragmenterDesc::new(full)).unwrap();
    let create = |_| {
        let options = MemoryUsage::DeviceUpload.with_name("mesh");
        defragmenter.create_buffer(&BufferDesc::new(60 << 10), &options).unwrap()
    };
    let meshes: Vec<_> = (0..64).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    gpu.wait_idle().unwrap();
    let mut uploader = Uploader::new(gpu.memory(), UploaderDesc::default()).unwrap();
    meshes.iter().for_each(|mesh| uploader.initialize(mesh, 0, &[1; 100]).unwrap());
    assert_eq!(uploader.statistics().staged_bytes, 0, "the CPU can write to this memory");

    device.inner.pause_queues();
    *device.hook.with.lock().unwrap() = Some(gpu.tracker().clone());
    let mut steps = (0..100).map(|_| defragmenter.step(PassLimits::NONE).unwrap());
    let given_up = steps.find(|step| step.outcome != StepOutcome::LimitReached).unwrap();
    assert_eq!((given_up.outcome, given_up.statistics.moves), (StepOutcome::RecordingIsOpen, 0));
    assert!(!defragmenter.copied_at().is_empty(), "the queue has the copies");
    drop(device.hook.opened.lock().unwrap().take());

    meshes.iter().for_each(|mesh| uploader.initialize(mesh, 0, &[2; 100]).unwrap());
    let staged = uploader.statistics().staged_bytes;
    assert!(
        staged > 0 && staged < 1600,
        "{staged} bytes: those of the buffers that the copies read, and no others"
    );
    device.inner.resume_queues();
    gpu.wait(uploader.submit().unwrap()).unwrap();
    for mesh in &meshes {
        let mut found = [0; 100];
        gpu.read_buffer(mesh, 0, &mut found).unwrap();
        assert_eq!(found, [2; 100]);
    }
    meshes.iter().for_each(|mesh| uploader.initialize(mesh, 0, &[3; 100]).unwrap());
    assert_eq!(uploader.statistics().staged_bytes, staged, "once they are complete, as before");

    drop((meshes, uploader, defragmenter));
    gpu.wait_idle().unwrap();
    assert_eq!(gpu.allocator().statistics().allocations, 0);
}
