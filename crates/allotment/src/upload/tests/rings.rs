//! The upload ring.

use super::*;
use crate::memory::ShortName;

#[test]
fn bytes_in_flight_are_intact_however_often_the_ring_goes_round() {
    for profile in ["discrete-large-bar", "mobile", "mobile-atom-1", "mobile-atom-4096", "d3d12-tier-1"] {
        let rig = Rig::new(profile);
        let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(1000)).unwrap();
        let target = rig.buffer(100 * 320, MemoryUsage::Readback);
        let mut last = point(0);
        for i in 0..100 {
            let recording = rig.tracker.record("a frame");
            let (offset, size) = loop {
                let size = 200 + i % 7 * 20;
                match ring.allocate(size, align(16)) {
                    Ok(mut slice) => {
                        slice.write(0, &pattern(i, size)).unwrap();
                        break (slice.offset(), size);
                    }
                    Err(RingError::FullForNow { wait: WaitFor::Point(point), .. }) => rig.wait(point),
                    Err(error) => panic!("{error}"),
                }
            };
            last = rig.copy(recording, (ring.buffer(), offset), (&target.handle(), i * 320), size);
            ring.close(last);
        }
        rig.wait(last);
        for i in 0..100 {
            let size = 200 + i % 7 * 20;
            assert_eq!(bytes(&target, i * 320, size), pattern(i, size), "{profile}, frame {i}");
        }
    }
}

#[test]
fn the_ring_takes_back_by_itself_what_queues_are_done_with() {
    let rig = Rig::new("discrete-large-bar");
    let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(1000)).unwrap();
    rig.device.pause_queues();
    ring.allocate(800, ONE).unwrap();
    let done = rig.submit(rig.tracker.record("a frame"));
    ring.close(done);
    let refused = ring.allocate(400, ONE).unwrap_err();
    let wait = WaitFor::Point(done);
    assert_eq!(refused, RingError::FullForNow { requested: 400, free: 200, largest: 200, wait });
    rig.device.resume_queues();
    rig.wait(done);
    assert_eq!(ring.allocate(400, ONE).unwrap().offset(), 0);
    assert_eq!(ring.statistics().failures, 1, "the reported failure");
    ring.discard();
    assert_eq!(ring.statistics().used, 0);
}

#[test]
fn a_ring_remembers_no_more_frames_than_are_in_flight_once_its_list_is_full() {
    let rig = Rig::new("discrete-large-bar");
    let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(1 << 20)).unwrap();
    let mut most = 0;
    for _ in 0..1000 {
        // Small enough that all thousand fit into the ring.
        ring.allocate(16, ONE).unwrap();
        let done = rig.submit(rig.tracker.record("a frame"));
        ring.close(done);
        rig.wait(done);
        most = most.max(ring.statistics().frames);
    }
    assert!(most <= 32, "{most} frames are remembered, and one is in flight");
}

#[test]
fn a_ring_that_is_dropped_waits_for_the_queue() {
    let rig = Rig::new("discrete-large-bar");
    let target = rig.buffer(64, MemoryUsage::Readback);
    let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(64)).unwrap();
    rig.device.pause_queues();
    ring.allocate(64, ONE).unwrap().write(0, &pattern(1, 64)).unwrap();
    let done = rig.copy(rig.tracker.record("a frame"), (ring.buffer(), 0), (&target.handle(), 0), 64);
    ring.close(done);
    std::thread::scope(|scope| {
        let gone = scope.spawn(|| drop(ring));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!gone.is_finished(), "the queue has not read it");
        rig.device.resume_queues();
        gone.join().unwrap();
    });
    assert_eq!(bytes(&target, 0, 64), pattern(1, 64));
}

#[test]
fn a_slice_takes_no_byte_beyond_its_end() {
    let rig = Rig::new("integrated");
    let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(100)).unwrap();
    let mut slice = ring.allocate(10, ONE).unwrap();
    for (at, size) in [(10, 1), (0, 11), (11, 0), (u64::MAX, 2)] {
        let refused =
            crate::memory::AccessError::OutOfRange { offset: at, size, available: 10, name: ShortName::NONE };
        assert_eq!(slice.write(at, &vec![1; size as usize]), Err(refused));
    }
    assert_eq!(slice.write(9, &[1]), Ok(()));
    assert_eq!(slice.write(10, &[]), Ok(()));
}

#[test]
fn what_rings_and_arenas_are_goes_from_thread_to_thread() {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<UploadRing<SimulatedGpu>>();
    is_send::<ReadbackRing<SimulatedGpu>>();
    is_send::<ReadbackTicket>();
    is_send::<UploadArena<SimulatedGpu>>();
    is_send::<UploadPool<SimulatedGpu>>();
    is_sync::<UploadPool<SimulatedGpu>>();
    is_sync::<MappedBuffer<SimulatedGpu>>();
}

#[test]
fn a_ring_may_go_before_the_recording_that_uses_it() {
    for profile in ["discrete-large-bar", "mobile", "mobile-atom-1", "mobile-atom-4096"] {
        let rig = Rig::new(profile);
        let mut ring = UploadRing::new(&rig.allocator, &rig.tracker, &RingDesc::upload(4096)).unwrap();
        let target = rig.buffer(4096, MemoryUsage::Readback);
        let recording = rig.tracker.record("outlives the ring");
        let mut slice = ring.allocate(4096, ONE).unwrap();
        slice.write(0, &pattern(1, 4096)).unwrap();
        let from = slice.buffer().clone();
        // Its frame is still open.
        drop(ring);
        assert_eq!(rig.allocator.statistics().allocations, 2, "the buffer is in use");
        let point = rig.copy(recording, (&from, 0), (&target.handle(), 0), 4096);
        rig.wait(point);
        assert_eq!(bytes(&target, 0, 4096), pattern(1, 4096));
        assert_eq!(rig.allocator.statistics().allocations, 1, "it went with its recording");
    }
}
