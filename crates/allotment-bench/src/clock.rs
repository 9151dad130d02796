//! Time: of a thread, which excludes preemption, and of the wall clock, which includes it.

use core::mem::MaybeUninit;
use core::time::Duration;

/// Returns the processor time of the calling thread. Zero if the system does not report it.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a local `timespec`, which the call may write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    // SAFETY: every bit pattern is a `timespec`, zeros too.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_time_moves_with_work_and_not_with_sleep() {
        let start = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(30));
        let slept = thread_cpu_time() - start;
        assert!(slept < Duration::from_millis(20), "{slept:?} of work while asleep");
        let mut sum = 0u64;
        while thread_cpu_time() - start < slept + Duration::from_millis(1) {
            sum = core::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
