//! A device that waits in the middle of a call until the test lets it go on, so that a race is run in the
//! one order that would go wrong; or that panics there, as another implementation of the trait may.

use core::time::Duration;
use std::sync::{Condvar, Mutex};

use crate::hooked_device::{Hook, HookedDevice, Point};

#[derive(Debug, Default)]
struct State {
    closed: Option<Point>,
    /// Where this number of calls panic.
    panics: Option<(Point, u32)>,
    waiting: Vec<Point>,
    frees: u32,
}

/// Makes calls wait at one point, and panic at one.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// A simulated device with a gate. A clone is the same device.
pub(crate) type GatedDevice = HookedDevice<Gate>;

/// So long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

impl GatedDevice {
    /// Stops all calls that reach this point from now on. Those that wait at another point continue.
    pub(crate) fn close(&self, gate: Point) {
        self.hook.state.lock().unwrap().closed = Some(gate);
        self.hook.changed.notify_all();
    }

    /// Lets all go on.
    pub(crate) fn open(&self) {
        self.hook.state.lock().unwrap().closed = None;
        self.hook.changed.notify_all();
    }

    /// Makes the next `calls` that pass this point panic there; calls that wait there first.
    pub(crate) fn panic_at(&self, gate: Point, calls: u32) {
        self.hook.state.lock().unwrap().panics = Some((gate, calls));
    }

    /// Waits until this number of calls wait at the point.
    pub(crate) fn wait_for(&self, calls: usize) {
        let state = self.hook.state.lock().unwrap();
        let few = |state: &mut State| {
            state.waiting.iter().filter(|&&gate| Some(gate) == state.closed).count() < calls
        };
        let waited = self.hook.changed.wait_timeout_while(state, PATIENCE, few);
        assert!(!waited.unwrap().1.timed_out(), "fewer than {calls} calls reached the point");
    }

    /// True when memory is given back within `time`.
    pub(crate) fn frees_within(&self, time: Duration) -> bool {
        let state = self.hook.state.lock().unwrap();
        let waited = self.hook.changed.wait_timeout_while(state, time, |state| state.frees == 0);
        !waited.unwrap().1.timed_out()
    }
}

impl Hook for Gate {
    fn reached(&self, gate: Point) {
        let mut state = self.state.lock().unwrap();
        if gate == Point::AfterFree {
            state.frees += 1;
            self.changed.notify_all();
        }
        if state.closed == Some(gate) {
            state.waiting.push(gate);
            self.changed.notify_all();
            // A test that failed releases no call, and its threads are joined all the same.
            let closed = |state: &mut State| state.closed == Some(gate);
            state = self.changed.wait_timeout_while(state, PATIENCE, closed).unwrap().0;
            let at = state.waiting.iter().position(|&waits_at| waits_at == gate);
            at.map(|at| state.waiting.swap_remove(at));
        }
        if let Some((at, calls)) = state.panics.filter(|&(at, calls)| at == gate && calls != 0) {
            state.panics = Some((at, calls - 1));
            drop(state);
            panic!("the device panics: {gate:?}");
        }
    }
}
