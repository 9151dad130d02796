//! Failures on demand: what fails has changed nothing, and a lost device stays lost.

use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice, DeviceError, MemoryDesc, MemoryDevice, MemoryHeapIndex,
    MemoryTypeIndex, QueueDevice as _, QueueIndex, Submission, TimelinePoint, TimelineValue,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Buffer, Gpu, PATIENCE, copy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        whichever_call_fails_nothing_is_left_behind,
        when_every_call_fails_from_one_on_nothing_is_left_behind,
        a_failing_call_is_the_one_that_was_asked_for,
        failures_last_until_they_are_healed,
        every_error_comes_through_as_it_was_asked_for,
        a_failed_call_has_changed_nothing,
        every_call_that_can_fail_is_counted,
        a_lost_device_says_so_on_every_call_that_can_fail,
        a_lost_device_stays_lost,
        a_lost_device_takes_back_what_it_gave,
        a_lost_device_completes_nothing,
        a_lost_device_still_says_what_was_submitted,
        who_waits_hears_of_the_loss,
        memory_in_use_may_be_freed_after_the_loss,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);
const VISIBLE: MemoryTypeIndex = MemoryTypeIndex(1);
const REFUSED: DeviceError = DeviceError::Other { code: -7 };

/// The objects that a script has to destroy. Destruction cannot fail.
struct Taken<'a> {
    device: &'a SimulatedGpu,
    memory: Vec<<SimulatedGpu as MemoryDevice>::Memory>,
    buffers: Vec<<SimulatedGpu as BufferDevice>::Buffer>,
    submitted: TimelineValue,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let last = TimelinePoint { queue: FIRST, value: self.submitted };
        // The call that is to fail may be this one. Where all calls fail, the test cannot learn when the queue is
        // done, and so they have to end here.
        for attempt in 0.. {
            match self.device.wait(last, PATIENCE) {
                Ok(()) => break,
                answer => assert!(attempt < 2, "{last:?}: {answer:?}"),
            }
            if attempt == 1 {
                self.device.clear_faults();
            }
        }
        for buffer in self.buffers.drain(..) {
            // SAFETY: from this device, and the queue is done.
            unsafe { self.device.destroy_buffer(buffer) };
        }
        for memory in self.memory.drain(..) {
            // SAFETY: live, and the queue is done.
            unsafe { self.device.free_memory(memory) };
        }
    }
}

/// A bit of everything, as an application would do it: at the first error it gives up.
fn script(device: &SimulatedGpu) -> Result<Vec<u8>, DeviceError> {
    const SIZE: u64 = 256;
    let mut taken =
        Taken { device, memory: Vec::new(), buffers: Vec::new(), submitted: TimelineValue::default() };
    let desc = BufferDesc::new(SIZE);
    let needs = device.buffer_requirements(&desc)?;
    for offset in [0, needs.size] {
        let memory = device.allocate_memory(&MemoryDesc::new(VISIBLE, 2 * needs.size))?;
        taken.memory.push(memory);
        // SAFETY: live, and large enough.
        taken.buffers.push(unsafe { device.create_buffer(&desc, memory, offset) }?);
    }
    let (memory, buffer) = device.create_dedicated_buffer(&desc, &MemoryDesc::new(VISIBLE, 1))?;
    taken.memory.push(memory);
    taken.buffers.push(buffer);

    let (written, read) = (taken.memory[0], taken.memory[2]);
    // SAFETY: live, visible, and not mapped.
    let first = unsafe { device.map_memory(written) }?;
    // SAFETY: all of it is mapped, and nothing else accesses it now.
    unsafe { first.write_bytes(42, SIZE as usize) };
    // SAFETY: live, mapped, and all of the memory.
    unsafe { device.flush_memory(written, 0..2 * needs.size) }?;
    // SAFETY: live and mapped.
    unsafe { device.unmap_memory(written) };

    for step in 0..2 {
        let [from, to] = [&taken.buffers[step], &taken.buffers[step + 1]];
        let waits = [TimelinePoint { queue: FIRST, value: taken.submitted }];
        let copies = [BufferCopy { from, from_offset: 0, to, to_offset: 0, size: SIZE }];
        // SAFETY: `taken` gives nothing back before the queue is done.
        taken.submitted = unsafe {
            device.submit(FIRST, &Submission { waits: &waits, copies: &copies, ..Submission::default() })
        }?;
    }
    let last = TimelinePoint { queue: FIRST, value: taken.submitted };
    device.wait(last, PATIENCE)?;
    assert_eq!(device.completed(FIRST)?, taken.submitted);

    // SAFETY: live, visible, and not mapped.
    let first = unsafe { device.map_memory(read) }?;
    // SAFETY: live, mapped, and all of the memory.
    unsafe { device.invalidate_memory(read, 0..needs.size) }?;
    let mut bytes = vec![0; SIZE as usize];
    // SAFETY: all of it is mapped, and the queue is done with it.
    unsafe { first.copy_to_nonoverlapping(NonNull::from(&mut bytes[..]).cast(), SIZE as usize) };
    Ok(bytes)
}

/// How many calls that can fail the script makes.
fn calls_of_script(gpu: &Simulated) -> u64 {
    let device = SimulatedGpu::new(gpu.device().profile().clone());
    assert_eq!(script(&device), Ok(vec![42; 256]));
    // One of them is the wait of who cleans up.
    device.fallible_calls() - 1
}

fn assert_nothing_is_left(device: &SimulatedGpu) {
    let usage = device.usage();
    assert_eq!((usage.memory_objects, usage.memory_bytes, usage.buffers), (0, 0, 0));
    assert_eq!(device.validation_errors(), [""; 0]);
}

fn whichever_call_fails_nothing_is_left_behind(gpu: &Simulated) {
    let calls = calls_of_script(gpu);
    assert!(calls >= 15, "the script makes {calls} calls");
    for k in 1..=calls {
        let device = SimulatedGpu::new(gpu.device().profile().clone());
        device.fail_call(k, REFUSED);
        assert_eq!(script(&device), Err(REFUSED), "call {k} of {calls}");
        assert_nothing_is_left(&device);
        assert_eq!(script(&device), Ok(vec![42; 256]), "only call {k} was to fail");
        assert_nothing_is_left(&device);
    }
}

fn when_every_call_fails_from_one_on_nothing_is_left_behind(gpu: &Simulated) {
    for k in 1..=calls_of_script(gpu) {
        let device = SimulatedGpu::new(gpu.device().profile().clone());
        device.fail_from(k, REFUSED);
        assert_eq!(script(&device), Err(REFUSED), "from call {k} on");
        assert_nothing_is_left(&device);
        device.clear_faults();
        assert_eq!(script(&device), Ok(vec![42; 256]), "healed");
        assert_nothing_is_left(&device);
    }
}

fn a_failing_call_is_the_one_that_was_asked_for(gpu: &Simulated) {
    for k in 1..=5 {
        gpu.device().fail_call(k, REFUSED);
        for call in 1..=8 {
            let error = gpu.try_allocate(VISIBLE, 64).err();
            assert_eq!(error, (call == k).then_some(REFUSED), "call {call}, and {k} was to fail");
        }
    }
}

fn failures_last_until_they_are_healed(gpu: &Simulated) {
    gpu.device().fail_from(3, REFUSED);
    for call in 1..=100 {
        let error = gpu.try_allocate(VISIBLE, 64).err();
        assert_eq!(error, (call >= 3).then_some(REFUSED), "call {call}");
    }
    gpu.device().clear_faults();
    drop(gpu.allocate(VISIBLE, 64));
    gpu.device().fail_call(1, REFUSED);
    gpu.device().clear_faults();
    drop(gpu.allocate(VISIBLE, 64));
}

fn every_error_comes_through_as_it_was_asked_for(gpu: &Simulated) {
    for error in [
        DeviceError::OutOfDeviceMemory,
        DeviceError::OutOfHostMemory,
        DeviceError::TooManyAllocations,
        DeviceError::MapFailed,
        DeviceError::Unsupported,
        DeviceError::Lost,
        DeviceError::Other { code: 17 },
    ] {
        gpu.device().fail_call(1, error);
        assert_eq!(gpu.try_allocate(VISIBLE, 64).err(), Some(error));
    }
    assert_eq!(
        gpu.completed(FIRST),
        TimelineValue(0),
        "a call that says it is lost does not lose the device"
    );
}

fn a_failed_call_has_changed_nothing(gpu: &Simulated) {
    let device = gpu.device();
    let [from, to] = [(); 2].map(|()| gpu.buffer(VISIBLE, 4096));
    gpu.put(&to, 0, &pattern(2, 4096));
    let before = (device.usage().memory_bytes, gpu.completed(FIRST));

    device.fail_call(1, REFUSED);
    assert_eq!(gpu.try_submit(FIRST, &[], &[copy(&from, 0, &to, 0, 4096)]).err(), Some(REFUSED));
    assert_eq!(gpu.submit(FIRST, &[], &[]).value.0, before.1.0 + 1, "the value was not used up");
    assert_same(&gpu.get(&to), &pattern(2, 4096), "nothing was copied");

    device.fail_call(1, REFUSED);
    // SAFETY: live, visible, and not mapped.
    assert_eq!(unsafe { device.map_memory(from.memory().handle()) }, Err(REFUSED));
    // A second map would be a validation error.
    drop(from.memory().map());

    // A dedicated buffer takes more than one step here.
    for k in 1..=3 {
        device.fail_call(k, REFUSED);
        assert_eq!(gpu.try_dedicated_buffer(VISIBLE, 64).err(), Some(REFUSED), "step {k}");
        device.clear_faults();
    }
    assert_eq!(device.usage().memory_bytes, before.0);
}

fn every_call_that_can_fail_is_counted(gpu: &Simulated) {
    let device = gpu.device();
    let (mut memory, mut buffer) = (None, None);
    let point = TimelinePoint { queue: FIRST, value: TimelineValue(0) };
    let counted = |what: &str, call: &mut dyn FnMut()| {
        let before = device.fallible_calls();
        call();
        assert_eq!(device.fallible_calls(), before + 1, "{what}");
    };
    counted("buffer_requirements", &mut || {
        device.buffer_requirements(&BufferDesc::new(64)).unwrap();
    });
    counted("allocate_memory", &mut || {
        memory = Some(device.allocate_memory(&MemoryDesc::new(VISIBLE, 64)).unwrap());
    });
    let memory = memory.unwrap();
    counted("map_memory", &mut || {
        // SAFETY: live, visible, and not mapped.
        unsafe { device.map_memory(memory) }.unwrap();
    });
    // SAFETY: live, mapped, and all of the memory.
    counted("flush_memory", &mut || unsafe { device.flush_memory(memory, 0..64) }.unwrap());
    // SAFETY: live, mapped, and all of the memory.
    counted("invalidate_memory", &mut || unsafe { device.invalidate_memory(memory, 0..64) }.unwrap());
    counted("create_buffer", &mut || {
        // SAFETY: live, and large enough.
        buffer = Some(unsafe { device.create_buffer(&BufferDesc::new(64), memory, 0) }.unwrap());
    });
    counted("submit", &mut || {
        let _ = gpu.submit(FIRST, &[], &[]);
    });
    counted("completed", &mut || {
        device.completed(FIRST).unwrap();
    });
    counted("wait", &mut || gpu.wait(point));

    let before = device.fallible_calls();
    let _ = (device.properties(), device.heap_budget(MemoryHeapIndex(0)), device.usage());
    gpu.settle();
    let settled = device.fallible_calls();
    // SAFETY: from this device, and no queue uses it.
    unsafe { device.destroy_buffer(buffer.unwrap()) };
    // SAFETY: live and mapped.
    unsafe { device.unmap_memory(memory) };
    // SAFETY: live, and no queue uses it.
    unsafe { device.free_memory(memory) };
    assert_eq!(device.fallible_calls(), settled, "what gives back cannot fail");
    assert_eq!(settled, before + 1, "one queue was waited for");
}

/// Loses the device after it gave a buffer in mapped memory.
fn lose_with(gpu: &Simulated, test: impl FnOnce(&SimulatedGpu, &Buffer<'_, SimulatedFixture>)) {
    let buffer = gpu.buffer(VISIBLE, 4096);
    let _mapping = buffer.memory().map();
    gpu.device().lose_device();
    test(gpu.device(), &buffer);
}

/// Returns the result of each call that can fail.
fn answers(
    gpu: &Simulated,
    device: &SimulatedGpu,
    buffer: &Buffer<'_, SimulatedFixture>,
) -> Vec<(&'static str, Option<DeviceError>)> {
    let memory = buffer.memory().handle();
    let desc = BufferDesc::new(64);
    let point = |value| TimelinePoint { queue: FIRST, value: TimelineValue(value) };
    vec![
        ("allocate_memory", device.allocate_memory(&MemoryDesc::new(VISIBLE, 64)).err()),
        // SAFETY: live and visible; a lost device maps nothing.
        ("map_memory", unsafe { device.map_memory(memory) }.err()),
        // SAFETY: live, mapped, and all of the memory.
        ("flush_memory", unsafe { device.flush_memory(memory, 0..4096) }.err()),
        // SAFETY: live, mapped, and all of the memory.
        ("invalidate_memory", unsafe { device.invalidate_memory(memory, 0..4096) }.err()),
        ("buffer_requirements", device.buffer_requirements(&desc).err()),
        // SAFETY: live, and large enough.
        ("create_buffer", unsafe { device.create_buffer(&desc, memory, 0) }.err()),
        (
            "create_dedicated_buffer",
            device.create_dedicated_buffer(&desc, &MemoryDesc::new(VISIBLE, 1)).err(),
        ),
        ("submit", gpu.try_submit(FIRST, &[], &[copy(buffer, 0, buffer, 64, 64)]).err()),
        ("submit, empty", gpu.try_submit(QueueIndex(1), &[], &[]).err()),
        ("completed", device.completed(FIRST).err()),
        ("wait", device.wait(point(1), PATIENCE).err()),
        ("wait for 0", device.wait(point(0), Duration::ZERO).err()),
    ]
}

fn a_lost_device_says_so_on_every_call_that_can_fail(gpu: &Simulated) {
    lose_with(gpu, |device, buffer| {
        for (call, answer) in answers(gpu, device, buffer) {
            assert_eq!(answer, Some(DeviceError::Lost), "{call}");
        }
    });
}

fn a_lost_device_stays_lost(gpu: &Simulated) {
    lose_with(gpu, |device, buffer| {
        device.fail_call(1, REFUSED);
        device.clear_faults();
        device.resume_queues();
        for (call, answer) in answers(gpu, &device.clone(), buffer) {
            assert_eq!(answer, Some(DeviceError::Lost), "{call}");
        }
    });
}

fn a_lost_device_takes_back_what_it_gave(gpu: &Simulated) {
    // The owners unmap, destroy and free.
    lose_with(gpu, |device, _| {
        assert_eq!((device.usage().memory_objects, device.usage().buffers), (1, 1));
    });
    assert_nothing_is_left(gpu.device());
}

fn a_lost_device_completes_nothing(gpu: &Simulated) {
    let [from, to] = [(); 2].map(|()| gpu.buffer(VISIBLE, 4096));
    gpu.put(&from, 0, &pattern(1, 4096));
    gpu.put(&to, 0, &pattern(2, 4096));
    let mapping = to.memory().map();
    gpu.device().pause_queues();
    for queue in gpu.queues() {
        let _ = gpu.submit(queue, &[], &[copy(&from, 0, &to, 0, 4096)]);
    }
    gpu.device().lose_device();
    gpu.device().resume_queues();
    std::thread::sleep(Duration::from_millis(20));
    assert_same(&mapping.read(0..4096), &pattern(2, 4096), "nothing was copied");
}

fn a_lost_device_still_says_what_was_submitted(gpu: &Simulated) {
    for value in 1..=3 {
        for queue in gpu.queues() {
            assert_eq!(gpu.submit(queue, &[], &[]).value, TimelineValue(value));
        }
    }
    gpu.device().lose_device();
    for queue in gpu.queues() {
        assert!(gpu.try_submit(queue, &[], &[]).is_err());
        assert_eq!(gpu.device().submitted(queue), TimelineValue(3), "{queue:?}");
    }
}

fn who_waits_hears_of_the_loss(gpu: &Simulated) {
    gpu.device().pause_queues();
    let points: Vec<_> = gpu.queues().map(|queue| gpu.submit(queue, &[], &[])).collect();
    std::thread::scope(|scope| {
        let wait = |point| move || gpu.device().wait(point, PATIENCE);
        let waiting: Vec<_> = points.iter().map(|&point| scope.spawn(wait(point))).collect();
        std::thread::sleep(Duration::from_millis(20));
        let lost = Instant::now();
        gpu.device().lose_device();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(DeviceError::Lost));
        }
        assert!(lost.elapsed() < PATIENCE / 2, "woken, rather than timed out");
    });
}

fn memory_in_use_may_be_freed_after_the_loss(gpu: &Simulated) {
    // No thread can wait for a lost device, so it must be right not to.
    let buffers = [(); 4].map(|()| gpu.buffer(VISIBLE, 4096));
    gpu.device().set_latency(Duration::from_millis(100));
    for pair in buffers.chunks(2) {
        let _ = gpu.submit(FIRST, &[], &[copy(&pair[0], 0, &pair[1], 0, 4096)]);
    }
    // Long enough for the queue to have begun with the first.
    std::thread::sleep(Duration::from_millis(20));
    gpu.device().lose_device();
    drop(buffers);
    assert_nothing_is_left(gpu.device());
}
