//! Frames that allocate no host memory, whichever frame needs something for the first time.

use core::time::Duration;

use allotment::device::{
    CommandAllocator as _, CommandDevice as _, DeviceError, QueueDevice as _, QueueIndex, TimelinePoint,
    TimelineValue,
};

use crate::counting::of_this_thread;
use crate::rig::{Config, Rig};

const FIRST: QueueIndex = QueueIndex(0);

#[test]
fn the_first_wait_of_a_device_takes_nothing() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    // Nothing was submitted: the thread waits in earnest.
    let (point, timeout) =
        (TimelinePoint { queue: FIRST, value: TimelineValue(1) }, Duration::from_millis(1));
    let before = of_this_thread();
    for _ in 0..2 {
        let waited = rig.device().wait(point, timeout);
        assert_eq!(waited, Err(DeviceError::TimedOut { point, timeout }));
    }
    assert_eq!(of_this_thread() - before, 0);
}

#[test]
fn the_first_reset_of_command_memory_takes_nothing() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let mut memory = rig.device().create_command_allocator(FIRST).unwrap();
    for lists in [1, 5, 40] {
        let record = |memory: &mut allotment::device::d3d12::CommandAllocator| {
            for _ in 0..lists {
                // SAFETY: the list is open.
                unsafe { memory.next().unwrap().Close() }.unwrap();
            }
        };
        record(&mut memory);
        let before = of_this_thread();
        // Nothing was submitted of it.
        memory.reset().unwrap();
        record(&mut memory);
        memory.reset().unwrap();
        assert_eq!(of_this_thread() - before, 0, "{lists} lists");
    }
}
