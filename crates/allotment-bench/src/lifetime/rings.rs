//! Rings: requests of 64 bytes, frame by frame, each reclaimed two frames later.

use core::hint::black_box;

use allotment::Alignment;
use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
use allotment::upload::Ring;

use super::BATCH;
use super::plain_ring::PlainRing;
use crate::race::Racer;

const SIZE: u64 = 64;
const ALIGNMENT: u64 = 16;
/// Frames in flight when the next one begins.
const IN_FLIGHT: u64 = 2;
/// Size in bytes: a frame more than there are at once, so that the ring wraps about every four frames.
const CAPACITY: u64 = (IN_FLIGHT + 2) * BATCH * SIZE + 777;

/// A contender.
pub(super) trait Offsets: Send + 'static {
    /// Its name in tables.
    const NAME: &'static str;

    fn new(capacity: u64) -> Self;

    /// Allocates, and returns the offset; `None` if the ring is full.
    fn allocate(&mut self, size: u64, alignment: Alignment) -> Option<u64>;

    /// Closes the frame, which has completed when the queue reaches `value`.
    fn close(&mut self, value: u64);

    /// Frees the frames closed with values up to this one.
    fn reclaim(&mut self, completed: u64);
}

impl Offsets for Ring {
    const NAME: &'static str = "allotment Ring";

    fn new(capacity: u64) -> Self {
        Self::new(capacity)
    }

    #[inline]
    fn allocate(&mut self, size: u64, alignment: Alignment) -> Option<u64> {
        self.allocate(size, alignment).ok()
    }

    fn close(&mut self, value: u64) {
        self.close(TimelinePoint { queue: QueueIndex(0), value: TimelineValue(value) });
    }

    fn reclaim(&mut self, completed: u64) {
        self.reclaim(|point| point.value.0 <= completed);
    }
}

/// The code between two requests.
#[derive(Clone, Copy)]
pub(super) enum Between {
    /// None: a compiler may keep the ring's state in registers.
    Nothing,
    /// Code that may access the ring, so that its state is stored and loaded.
    Other,
}

pub(super) fn racers(batches: u64, between: Between) -> Vec<Racer> {
    vec![racer::<Ring>(batches, between), racer::<PlainRing>(batches, between)]
}

fn racer<R: Offsets>(batches: u64, between: Between) -> Racer {
    let mut ring = R::new(CAPACITY);
    let mut frame = 0;
    Racer::alone(R::NAME, move || {
        for _ in 0..batches {
            frame += 1;
            let seen = match between {
                Between::Nothing => fill(&mut ring, |_| ()),
                Between::Other => fill(&mut ring, |ring| {
                    black_box(ring);
                }),
            };
            black_box(seen);
            ring.close(frame);
            ring.reclaim(frame.saturating_sub(IN_FLIGHT));
        }
        batches * BATCH
    })
}

/// Requests of a frame. Size and alignment are not known at compile time.
#[inline(never)]
fn fill<R: Offsets>(ring: &mut R, between: impl Fn(&mut R)) -> u64 {
    let (size, alignment) = black_box((SIZE, Alignment::new(ALIGNMENT).unwrap_or(Alignment::ONE)));
    let mut seen = 0;
    for _ in 0..BATCH {
        let Some(offset) = ring.allocate(size, alignment) else { unreachable!("two frames leave room") };
        seen ^= offset;
        between(ring);
    }
    seen
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn frames_do_not_meet<R: Offsets>() {
        let alignment = Alignment::new(ALIGNMENT).unwrap();
        let (mut ring, mut live) = (R::new(CAPACITY), VecDeque::new());
        let mut wraps = 0;
        for frame in 1..=20 {
            let mut offsets: Vec<u64> = (0..BATCH).map(|_| ring.allocate(SIZE, alignment).unwrap()).collect();
            wraps += offsets.iter().filter(|&&offset| offset == 0).count();
            live.append(&mut VecDeque::from(core::mem::take(&mut offsets)));
            let mut sorted: Vec<u64> = live.iter().copied().collect();
            sorted.sort_unstable();
            assert!(sorted.iter().all(|offset| offset % ALIGNMENT == 0 && offset + SIZE <= CAPACITY));
            assert!(sorted.windows(2).all(|pair| pair[0] + SIZE <= pair[1]), "{} in frame {frame}", R::NAME);
            ring.close(frame);
            ring.reclaim(frame.saturating_sub(IN_FLIGHT));
            if frame > IN_FLIGHT {
                live.drain(..BATCH as usize);
            }
        }
        assert!(wraps > 3, "{} passes its end", R::NAME);
    }

    #[test]
    fn what_frames_in_flight_have_is_nobody_elses() {
        frames_do_not_meet::<Ring>();
        frames_do_not_meet::<PlainRing>();
    }

    #[test]
    fn a_full_ring_refuses_until_its_oldest_frame_comes_back() {
        let mut ring = PlainRing::new(1024);
        let one = Alignment::ONE;
        assert_eq!(Offsets::allocate(&mut ring, 700, one), Some(0));
        ring.close(1);
        assert_eq!(Offsets::allocate(&mut ring, 400, one), None);
        ring.reclaim(1);
        assert_eq!(Offsets::allocate(&mut ring, 1024, one), Some(0), "an idle ring begins at 0");
    }
}
