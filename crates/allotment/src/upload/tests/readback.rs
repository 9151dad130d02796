//! Readback rings on the simulated GPU.

use proptest::prelude::*;

use super::*;
use crate::device::DeviceError;
use crate::lifetime::ManualTimelines;
use crate::memory::ShortName;

fn ring(rig: &Rig, capacity: u64) -> ReadbackRing<SimulatedGpu> {
    ReadbackRing::new(&rig.allocator, &rig.tracker, &RingDesc::readback(capacity)).unwrap()
}

fn wait_of<T: core::fmt::Debug>(refused: Result<T, RingError>) -> WaitFor {
    match refused {
        Err(RingError::FullForNow { wait, .. }) => wait,
        other => panic!("not refused for now: {other:?}"),
    }
}

#[test]
fn what_the_device_writes_is_read_when_its_point_is_reached_and_not_before() {
    for profile in ["discrete-large-bar", "mobile", "mobile-atom-1", "mobile-atom-4096", "d3d12-tier-1"] {
        let rig = Rig::new(profile);
        let source = rig.buffer(100, MemoryUsage::Upload);
        source.write(0, &pattern(3, 100)).unwrap();
        let mut ring = ring(&rig, 1000);
        let ticket = ring.allocate(100, ONE).unwrap();
        let mut back = vec![0; 100];
        let not_yet = |wait| Err(ReadbackError::NotYet { wait });
        assert_eq!(ring.read(&ticket, &mut back), not_yet(WaitFor::Submission));
        rig.device.pause_queues();
        let recording = rig.tracker.record("a query");
        let done =
            rig.copy(recording, (&source.handle(), 0), (ring.buffer(), ticket.offset()), ticket.size());
        ring.close(done);
        assert_eq!(ring.read(&ticket, &mut back), not_yet(WaitFor::Point(done)));
        assert_eq!((ring.point(&ticket), back[0]), (Ok(Some(done)), 0));
        rig.device.resume_queues();
        rig.wait(done);
        ring.read(&ticket, &mut back).unwrap();
        assert_eq!(back, pattern(3, 100), "{profile}");
        ring.read_at(&ticket, 90, &mut back[..10]).unwrap();
        assert_eq!(back[..10], pattern(3, 100)[90..]);
        let beyond = crate::memory::AccessError::OutOfRange {
            offset: 91,
            size: 10,
            available: 100,
            name: ShortName::NONE,
        };
        assert_eq!(ring.read_at(&ticket, 91, &mut back[..10]), Err(ReadbackError::Access(beyond)));
    }
}

#[test]
fn room_comes_back_when_its_tickets_were_dropped_and_its_point_is_reached() {
    let rig = Rig::new("discrete-large-bar");
    let mut ring = ring(&rig, 100);
    rig.device.pause_queues();
    let [first, second] = [(); 2].map(|()| ring.allocate(50, ONE).unwrap());
    let done = rig.submit(rig.tracker.record("a query"));
    ring.close(done);
    drop(first);
    assert_eq!(wait_of(ring.allocate(50, ONE)), WaitFor::Point(done));
    rig.device.resume_queues();
    rig.wait(done);
    assert_eq!(wait_of(ring.allocate(50, ONE)), WaitFor::Tickets);
    ring.read(&second, &mut [0; 50]).unwrap();
    drop(second);
    let next = ring.allocate(100, ONE).unwrap();
    assert_eq!(next.offset(), 0);
    drop(next);
    assert_eq!(wait_of(ring.allocate(1, ONE)), WaitFor::Submission);
    ring.check_invariants();
}

#[test]
fn tickets_that_were_dropped_unread_hold_nothing_while_others_are_kept() {
    let rig = Rig::new("discrete-large-bar");
    let mut ring = ring(&rig, 100);
    for _ in 0..20 {
        drop(ring.allocate(30, ONE).unwrap());
        ring.close(rig.submit(rig.tracker.record("never read")));
        rig.wait_idle();
    }
    let kept = ring.allocate(30, ONE).unwrap();
    ring.close(rig.submit(rig.tracker.record("read late")));
    rig.wait_idle();
    ring.reclaim();
    assert_eq!((ring.statistics().frames, ring.statistics().used - ring.statistics().padding), (1, 30));
    assert_eq!(ring.read(&kept, &mut [0; 30]), Ok(()));
}

#[test]
fn a_ticket_of_what_was_discarded_or_of_another_ring_is_stale() {
    let rig = Rig::new("discrete-large-bar");
    let (mut ring, mut other) = (ring(&rig, 100), ring(&rig, 100));
    let discarded = ring.allocate(100, ONE).unwrap();
    let foreign = other.allocate(100, ONE).unwrap();
    ring.discard();
    let ticket = ring.allocate(100, ONE).unwrap();
    let stale = Err(ReadbackError::Stale);
    for _ in 0..3 {
        assert_eq!(ring.read(&discarded, &mut [0]), stale);
        assert_eq!(ring.read(&foreign, &mut [0]), stale);
        assert_eq!(other.read(&ticket, &mut [0]), stale);
        ring.close(rig.submit(rig.tracker.record("a query")));
        rig.wait_idle();
    }
    assert_eq!(ring.read(&ticket, &mut [0]), Ok(()));
    drop(ticket);
    assert_eq!(ring.reclaim(), 100);
    assert_eq!(ring.read(&discarded, &mut [0]), stale);
    ring.check_invariants();
}

#[test]
fn on_a_lost_device_only_what_was_written_before_is_read() {
    let rig = Rig::new("discrete-large-bar");
    let mut ring = ring(&rig, 100);
    let written = ring.allocate(10, ONE).unwrap();
    let done = rig.submit(rig.tracker.record("before"));
    ring.close(done);
    rig.wait(done);
    assert!(rig.tracker.is_reached(done));
    rig.device.pause_queues();
    let unwritten = ring.allocate(10, ONE).unwrap();
    ring.close(rig.submit(rig.tracker.record("after")));
    rig.device.lose_device();
    assert_eq!(ring.read(&unwritten, &mut [0; 10]), Err(ReadbackError::Device(DeviceError::Lost)));
    assert_eq!(ring.read(&written, &mut [0; 10]), Ok(()));
    drop((written, unwritten));
    assert_eq!(ring.reclaim(), 20, "nothing is in flight any more");
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64),
    Close,
    Discard,
    Reach(u64),
    Drop(usize),
    Reclaim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..40u64).prop_map(Step::Allocate),
        3 => Just(Step::Close),
        1 => Just(Step::Discard),
        3 => (1..4u64).prop_map(Step::Reach),
        5 => any::<prop::sample::Index>().prop_map(|index| Step::Drop(index.index(1 << 20))),
        2 => Just(Step::Reclaim),
    ];
    prop::collection::vec(step, 1..150)
}

/// The origin of a ticket: a frame closed with this value, the open frame, or a discarded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Open,
    Closed(u64),
    Discarded,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_ticket_has_its_room_to_itself_for_as_long_as_it_lives(steps in steps()) {
        let rig = Rig::new("integrated");
        let timelines = ManualTimelines::new(1);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        let mut ring = ReadbackRing::new(&rig.allocator, &tracker, &RingDesc::readback(200)).unwrap();
        let mut tickets: Vec<(ReadbackTicket, From)> = Vec::new();
        // Points of closed frames, and the number of tickets of each.
        let mut frames: Vec<u64> = Vec::new();
        let (mut reached, mut open) = (0, 0);
        for step in steps {
            match step {
                Step::Allocate(size) => match ring.allocate(size, ONE) {
                    Ok(ticket) => {
                        let range = ticket.offset()..ticket.offset() + ticket.size();
                        for (other, from) in &tickets {
                            let others = other.offset()..other.offset() + other.size();
                            let apart = range.end <= others.start || others.end <= range.start;
                            assert!(apart || *from == From::Discarded, "{range:?} is {others:?}'s");
                        }
                        tickets.push((ticket, From::Open));
                        open += 1;
                    }
                    Err(RingError::FullForNow { wait, .. }) => {
                        let held = |frame: u64| tickets.iter().any(|(_, from)| *from == From::Closed(frame));
                        frames.retain({
                            let mut over = true;
                            move |&frame| { over &= frame <= reached && !held(frame); !over }
                        });
                        match wait {
                            WaitFor::Point(point) => assert!(point.value.0 > reached && frames[0] > reached),
                            WaitFor::Tickets => assert!(frames[0] <= reached && held(frames[0])),
                            WaitFor::Submission => assert!(open > 0),
                        }
                    }
                    Err(error) => panic!("{error}"),
                },
                Step::Close => {
                    let point = TimelinePoint { queue: QUEUE, value: timelines.submit(QUEUE) };
                    ring.close(point);
                    if core::mem::take(&mut open) > 0 {
                        frames.push(point.value.0);
                    }
                    for (_, from) in tickets.iter_mut().filter(|(_, from)| *from == From::Open) {
                        *from = From::Closed(point.value.0);
                    }
                }
                Step::Discard => {
                    ring.discard();
                    open = 0;
                    for (_, from) in tickets.iter_mut().filter(|(_, from)| *from == From::Open) {
                        *from = From::Discarded;
                    }
                }
                Step::Reach(values) => {
                    let submitted = tracker.submitted().points().map(|point| point.value.0).max().unwrap_or(0);
                    reached = (reached + values).min(submitted);
                    timelines.complete(QUEUE, TimelineValue(reached));
                }
                Step::Drop(index) => if !tickets.is_empty() {
                    drop(tickets.swap_remove(index % tickets.len()));
                },
                Step::Reclaim => {
                    ring.reclaim();
                    let held = |frame: u64| tickets.iter().any(|(_, from)| *from == From::Closed(frame));
                    while frames.first().is_some_and(|&frame| frame <= reached && !held(frame)) {
                        frames.remove(0);
                    }
                    assert_eq!(ring.statistics().frames, frames.len());
                }
            }
            ring.check_invariants();
            for (ticket, from) in &tickets {
                let expected = match *from {
                    From::Open => Err(ReadbackError::NotYet { wait: WaitFor::Submission }),
                    From::Discarded => Err(ReadbackError::Stale),
                    From::Closed(value) if value <= reached => Ok(()),
                    From::Closed(value) => Err(ReadbackError::NotYet { wait: WaitFor::Point(point(value)) }),
                };
                assert_eq!(ring.read(ticket, &mut [0]), expected);
            }
        }
        timelines.complete_all(QUEUE);
    }
}
