//! How long a solver works between two questions whether to stop.

/// As many steps take some tenths of a millisecond, beside which a clock costs nothing.
const STEPS: usize = 1 << 14;

/// Counts the steps of a solver, and asks its caller whether to stop.
///
/// Invariant: the caller is not asked again after it said yes.
pub(super) struct Work<'a> {
    stop: &'a mut dyn FnMut() -> bool,
    is_stopped: bool,
    /// Before the next question.
    steps_left: usize,
}

impl<'a> Work<'a> {
    pub(super) fn until(stop: &'a mut dyn FnMut() -> bool) -> Self {
        Self { stop, is_stopped: false, steps_left: STEPS }
    }

    /// Counts steps, of which each takes 10 nanoseconds or so. Returns `true` if the caller wants to stop.
    pub(super) fn has_done(&mut self, steps: usize) -> bool {
        match self.steps_left.checked_sub(steps) {
            Some(left) => {
                self.steps_left = left;
                self.is_stopped
            }
            None => self.stop(),
        }
    }

    /// Asks the caller at once.
    pub(super) fn stop(&mut self) -> bool {
        self.steps_left = STEPS;
        self.is_stopped = self.is_stopped || (self.stop)();
        self.is_stopped
    }

    /// Returns `true` if the caller wanted to stop.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}
