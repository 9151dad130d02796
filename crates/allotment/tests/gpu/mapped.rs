//! Persistently mapped buffers that move when their owners accept it.

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::channel;

use allotment::descriptor::{Binding, BindingSet};
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferCopy, BufferDesc, BufferUse, QueueDevice as _, Submission};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource};
use allotment::memory::defragmentation::{
    AcceptedMove, DefragmentationDesc, DefragmentationError, DefragmentationStrategy, Defragmenter,
    DefragmenterDesc, PassLimits,
};
use allotment::memory::{AccessError, DestroyPoolError, MappedBuffer, Movability};
use allotment::{AllocationOptions, AllocatorDesc, GpuDesc, MemoryUsage, PoolDesc, Requirements};

use crate::rig::{QUEUE, Rig};

const SIZE: u64 = 250 << 10;

/// A `Gpu` with blocks of 1 MiB, of which no empty one is kept, and a defragmenter that empties all that it can.
struct Town {
    rig: Rig,
    time: ManualTime,
    defragmenter: Defragmenter<SimulatedGpu>,
}

impl Town {
    fn on(profile: &str) -> Self {
        let time = ManualTime::new();
        let mut desc = AllocatorDesc::default();
        desc.time = TimeSource::Manual(time.clone());
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE, 1);
        let rig = Rig::on(profile, GpuDesc::default().with_allocator(desc));
        let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
        let defragmenter = Defragmenter::new(rig.gpu.memory(), DefragmenterDesc::new(full)).unwrap();
        Self { rig, time, defragmenter }
    }

    fn mapped(&self, number: u8, memory_usage: MemoryUsage) -> MappedBuffer<SimulatedGpu> {
        let options = memory_usage.with_name("mapped").with_user_data(number.into());
        let mut buffer = self.defragmenter.create_mapped_buffer(&BufferDesc::new(SIZE), &options).unwrap();
        buffer.write(0, &pattern(number)).unwrap();
        assert_eq!(buffer.accept_move(), Ok(AcceptedMove::NotOffered), "opts in");
        buffer
    }

    /// Two buffers, each alone in a block.
    fn two(&self, memory_usage: MemoryUsage) -> [MappedBuffer<SimulatedGpu>; 2] {
        let all: Vec<_> = (0..8).map(|number| self.mapped(number, memory_usage)).collect();
        let kept: Vec<_> = all.into_iter().step_by(4).collect();
        self.rig.gpu.wait_idle().unwrap();
        self.rig.gpu.reclaim();
        kept.try_into().unwrap()
    }

    fn steps(&self) {
        for _ in 0..20 {
            self.defragmenter.step(PassLimits::NONE).unwrap();
        }
    }

    fn blocks(&self) -> u32 {
        self.rig.gpu.reclaim();
        self.rig.gpu.allocator().statistics().blocks
    }

    fn finish(self) {
        drop(self.defragmenter);
        self.rig.finish();
    }
}

fn pattern(number: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at % 249) as u8 ^ number).collect()
}

fn read(buffer: &MappedBuffer<SimulatedGpu>) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

/// Accepts the move of the one that was offered it. Returns its index.
fn accept(buffers: &mut [MappedBuffer<SimulatedGpu>]) -> usize {
    let moved: Vec<_> = buffers.iter_mut().map(|it| it.accept_move().unwrap()).collect();
    assert_eq!(moved.iter().filter(|it| **it == AcceptedMove::Moved).count(), 1, "{moved:?}");
    moved.iter().position(|it| *it == AcceptedMove::Moved).unwrap()
}

#[test]
fn a_mapped_buffer_moves_when_its_owner_accepts_with_all_that_was_written_until_then() {
    for profile in
        ["discrete-no-bar", "discrete-large-bar", "integrated", "mobile", "mobile-atom-1", "mobile-atom-4096"]
    {
        for memory_usage in [MemoryUsage::Upload, MemoryUsage::DeviceUpload, MemoryUsage::Readback] {
            let town = Town::on(profile);
            let mut two = town.two(memory_usage);
            let (sender, moved) = channel();
            town.defragmenter.on_moved(move |one| sender.send((one.id(), one.user_data())).unwrap());
            let before = two.each_ref().map(|it| (it.address(), format!("{:?}", it.handle())));
            town.steps();
            assert_eq!(town.blocks(), 2);
            assert_eq!(town.defragmenter.statistics().moves, 0, "no owner has accepted");
            for (number, buffer) in two.iter().enumerate() {
                assert_eq!((buffer.address(), format!("{:?}", buffer.handle())), before[number]);
                buffer.write(3, &[1, 2, 3]).unwrap();
            }
            let at = accept(&mut two);
            for (number, buffer) in two.iter().enumerate() {
                let mut expected = pattern(4 * number as u8);
                expected[3..6].copy_from_slice(&[1, 2, 3]);
                assert!(read(buffer) == expected, "{profile}");
                assert_eq!(buffer.address() != before[number].0, number == at);
                assert_eq!(format!("{:?}", buffer.handle()) != before[number].1, number == at);
                assert_eq!(buffer.moves(), u32::from(number == at));
            }
            assert_eq!(town.blocks(), 1);
            assert_eq!(moved.try_iter().collect::<Vec<_>>(), [(two[at].id(), 4 * at as u64)]);
            let sums = town.defragmenter.statistics();
            assert_eq!((sums.moves, sums.bytes_moved, sums.blocks_emptied), (1, SIZE, 1));
            // The GPU reads the new place.
            let mut bytes = vec![0; SIZE as usize];
            town.rig.gpu.read_buffer(two[at].buffer().unwrap(), 0, &mut bytes).unwrap();
            assert!(bytes == read(&two[at]));
            drop(two);
            town.finish();
        }
    }
}

#[test]
fn a_frame_that_was_recorded_before_reads_the_old_place_which_lives_until_it_is_done() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    let gpu = &town.rig.gpu;
    town.rig.device.pause_queues();
    let frame = gpu.begin_frame().unwrap();
    let ticket = [0, 1].map(|at| town.rig.read(&frame, (&two[at].handle(), 0), SIZE));
    frame.end().unwrap();
    // The frame may have written to the buffer, for all that is known.
    let asked = two.each_mut().map(|it| it.accept_move().unwrap());
    assert!(asked.contains(&AcceptedMove::NotYet) && !asked.contains(&AcceptedMove::Moved), "{asked:?}");
    town.rig.device.resume_queues();
    let waited = two.each_mut().map(|it| it.accept_move_within(Duration::from_secs(10)).unwrap());
    assert!(waited.contains(&AcceptedMove::Moved), "{waited:?}");
    for at in [0, 1] {
        two[at].write(0, &[255; 100]).unwrap();
        assert!(town.rig.copied(&ticket[at]) == pattern(4 * at as u8));
    }
    drop(two);
    town.finish();
}

#[test]
fn an_open_recording_that_may_write_keeps_the_owner_from_moving_and_one_that_reads_does_not() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Readback);
    town.steps();
    let gpu = &town.rig.gpu;
    let reads = gpu.record("reads").only_reads();
    let writes = gpu.record("writes");
    let mut offered = |second: bool| {
        two.each_mut().map(|it| {
            let second = Duration::from_secs(u64::from(second));
            it.accept_move_within(second).unwrap()
        })
    };
    assert!(offered(false).contains(&AcceptedMove::NotYet));
    assert!(
        offered(true).contains(&AcceptedMove::NotYet),
        "it does not wait for a recording of its own thread"
    );
    drop(writes);
    assert!(offered(false).contains(&AcceptedMove::Moved));
    drop(reads);
    drop(two);
    town.finish();
}

#[test]
fn what_the_gpu_wrote_comes_along() {
    for profile in ["discrete-no-bar", "mobile"] {
        let town = Town::on(profile);
        let mut two = town.two(MemoryUsage::Readback);
        town.steps();
        let gpu = &town.rig.gpu;
        let nines = town.rig.buffer(5000);
        gpu.uploads().write_buffer(&nines, 0, &[9; 5000]).unwrap();
        gpu.uploads().submit().unwrap();
        town.rig.device.pause_queues();
        let frame = gpu.begin_frame().unwrap();
        let commands = frame.command_allocator(QUEUE).unwrap();
        two.iter().for_each(|it| commands.copy_buffer((&nines.handle(), 0), (&it.handle(), 1000), 5000));
        let recorded = two.each_mut().map(|it| it.accept_move().unwrap());
        assert!(recorded.contains(&AcceptedMove::NotYet), "{recorded:?}");
        town.rig.submit(&frame, &commands).unwrap();
        drop(commands);
        frame.end().unwrap();
        let in_flight = two.each_mut().map(|it| it.accept_move().unwrap());
        assert!(in_flight.contains(&AcceptedMove::NotYet), "{in_flight:?}");
        town.rig.device.resume_queues();
        let done = two.each_mut().map(|it| it.accept_move_within(Duration::from_secs(10)).unwrap());
        assert!(done.contains(&AcceptedMove::Moved), "{done:?}");
        for at in [0, 1] {
            let mut expected = pattern(4 * at as u8);
            expected[1000..6000].fill(9);
            assert!(read(&two[at]) == expected);
        }
        drop((two, nines));
        town.finish();
    }
}

/// The tracker does not remember the points of these, so that everything that the queues have by then is waited for.
#[test]
fn what_the_gpu_writes_for_a_recording_that_was_kept_or_for_two_queues_comes_along() {
    for is_frame in [false, true] {
        let town = Town::on("discrete-no-bar");
        let mut two = town.two(MemoryUsage::Readback);
        town.steps();
        let (gpu, device) = (&town.rig.gpu, &town.rig.device);
        let nines = town.rig.buffer(5000);
        gpu.uploads().write_buffer(&nines, 0, &[9; 5000]).unwrap();
        gpu.wait_idle().unwrap();
        device.pause_queues();
        let from = nines.handle();
        let handles = two.each_ref().map(|it| it.handle());
        let copies = handles.each_ref().map(|to| BufferCopy {
            from: &from,
            from_offset: 0,
            to,
            to_offset: 1000,
            size: 5000,
        });
        let submit = |queue, waits: &[_], copies: &[_]| {
            // SAFETY: the ranges lie in the buffers, which live until the queues are idle.
            unsafe { device.submit(queue, &Submission { waits, copies, ..Submission::default() }) }
        };
        if is_frame {
            let frame = gpu.begin_frame().unwrap();
            for (copy, queue) in copies.iter().zip([QUEUE, town.rig.other_queue()]) {
                let copies = core::slice::from_ref(copy);
                frame.submit(queue, |queue, waits| submit(queue, waits, copies)).unwrap();
            }
            frame.end().unwrap();
        } else {
            let mut recording = gpu.record("kept");
            recording.submit_and_keep(QUEUE, |queue| submit(queue, &[], &copies)).unwrap();
        }
        let in_flight = two.each_mut().map(|it| it.accept_move().unwrap());
        assert!(in_flight.contains(&AcceptedMove::NotYet), "{in_flight:?}");
        assert!(!in_flight.contains(&AcceptedMove::Moved), "{in_flight:?}");
        device.resume_queues();
        let done = two.each_mut().map(|it| it.accept_move_within(Duration::from_secs(10)).unwrap());
        assert!(done.contains(&AcceptedMove::Moved), "{done:?}");
        for at in [0, 1] {
            let mut expected = pattern(4 * at as u8);
            expected[1000..6000].fill(9);
            assert!(read(&two[at]) == expected);
        }
        drop((two, nines));
        town.finish();
    }
}

#[test]
fn no_queue_is_waited_for_where_no_queue_can_write() {
    let town = Town::on("discrete-no-bar");
    let mut desc = BufferDesc::new(SIZE);
    desc.usage = SimulatedGpu::NO_TRANSFER_DST;
    let options = MemoryUsage::Upload.with_name("mapped");
    let create = || town.defragmenter.create_mapped_buffer(&desc, &options).unwrap();
    let mut all: Vec<_> = (0..8).map(|_| create()).collect();
    all.iter_mut().for_each(|it| _ = it.accept_move().unwrap());
    let mut two: Vec<_> = all.into_iter().step_by(4).collect();
    two.iter().for_each(|it| it.write(0, &pattern(7)).unwrap());
    town.rig.gpu.wait_idle().unwrap();
    town.rig.gpu.reclaim();
    town.steps();
    town.rig.device.pause_queues();
    let frame = town.rig.gpu.begin_frame().unwrap();
    let ticket = town.rig.read(&frame, (&two[0].handle(), 0), SIZE);
    let other = town.rig.read(&frame, (&two[1].handle(), 0), SIZE);
    frame.end().unwrap();
    let at = accept(&mut two);
    two[at].write(0, &[1; 100]).unwrap();
    assert_eq!(town.rig.gpu.reclaim().count, 0, "the frame reads the old place");
    town.rig.device.resume_queues();
    assert!(town.rig.copied(&ticket) == pattern(7) && town.rig.copied(&other) == pattern(7));
    drop(two);
    town.finish();
}

#[test]
fn an_offer_that_nobody_accepts_expires_and_the_owner_opts_in_again() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    let allocator = town.rig.gpu.allocator();
    assert_eq!(allocator.statistics().allocations, 3, "a place is reserved");
    // The other buffer may be offered one then.
    for _ in 0..3 {
        town.time.advance(Duration::from_secs(2));
        town.steps();
    }
    assert_eq!(allocator.statistics().allocations, 2, "they were given back, and nothing is offered");
    assert_eq!(town.defragmenter.statistics().moves, 0);
    let offered = two.each_mut().map(|it| it.accept_move().unwrap());
    assert_eq!(offered, [AcceptedMove::NotOffered; 2]);
    // Much is freed, so the next step surveys again.
    for _ in 0..20 {
        let other = town.mapped(99, MemoryUsage::Upload);
        drop(other);
        town.rig.gpu.reclaim();
        (0..300).for_each(|_| _ = town.defragmenter.step(PassLimits::NONE).unwrap());
    }
    accept(&mut two);
    assert_eq!(town.blocks(), 1);
    drop(two);
    town.finish();
}

#[test]
fn a_buffer_whose_owner_never_asks_is_offered_nothing_and_holds_up_nobody() {
    let town = Town::on("discrete-no-bar");
    let options = MemoryUsage::Upload.with_name("mapped");
    let create = || town.defragmenter.create_mapped_buffer(&BufferDesc::new(SIZE), &options).unwrap();
    let two: Vec<_> = (0..8).map(|_| create()).collect::<Vec<_>>().into_iter().step_by(4).collect();
    town.rig.gpu.reclaim();
    town.steps();
    assert_eq!(town.rig.gpu.allocator().statistics().allocations, 2);
    drop(two);
    town.finish();
}

#[test]
fn a_buffer_that_is_dropped_gives_the_place_back_at_once() {
    let town = Town::on("discrete-no-bar");
    let [first, second] = town.two(MemoryUsage::Upload);
    town.steps();
    let allocator = town.rig.gpu.allocator();
    assert_eq!(allocator.statistics().allocations, 3);
    // One of them was offered the place.
    drop(first);
    town.rig.gpu.reclaim();
    drop(second);
    town.rig.gpu.reclaim();
    assert_eq!((allocator.statistics().allocations, town.blocks()), (0, 0));
    town.finish();
}

#[test]
fn a_defragmenter_that_is_dropped_or_stopped_takes_its_offers_back() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    town.defragmenter.stop();
    let allocator = town.rig.gpu.allocator().clone();
    assert_eq!(allocator.statistics().allocations, 2);
    assert_eq!(two.each_mut().map(|it| it.accept_move().unwrap()), [AcceptedMove::NotOffered; 2]);
    let Town { rig, defragmenter, .. } = town;
    drop(defragmenter);
    assert_eq!(two.each_mut().map(|it| it.accept_move().unwrap()), [AcceptedMove::NotOffered; 2]);
    two.iter().for_each(|it| it.write(5, b"still there").unwrap());
    drop((two, allocator));
    rig.finish();
}

#[test]
fn a_request_that_has_no_room_takes_the_block_back() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    // More than the block that stays has left, beside the place that is reserved in it.
    let others: Vec<_> = (0..3).map(|number| town.mapped(10 + number, MemoryUsage::Upload)).collect();
    assert_eq!(town.blocks(), 2, "no block was allocated for them");
    let offered = two.each_mut().map(|it| it.accept_move().unwrap());
    assert_eq!(offered, [AcceptedMove::NotOffered; 2]);
    for (number, buffer) in others.iter().enumerate() {
        assert!(read(buffer) == pattern(10 + number as u8));
    }
    drop((two, others));
    town.finish();
}

#[test]
fn a_request_that_makes_room_takes_the_places_that_are_offered() {
    let town = Town::on("discrete-no-bar");
    let allocator = town.rig.gpu.allocator();
    let best = allocator.explain(&Requirements::new(1), &MemoryUsage::Upload.into())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 2);
    let pool = allocator.create_pool(desc).unwrap();
    let options = MemoryUsage::Upload.with_name("mapped").with_pool(&pool);
    let create = |size| town.defragmenter.create_mapped_buffer(&BufferDesc::new(size), &options).unwrap();
    let mut all: Vec<_> = (0..8).map(|_| create(SIZE)).collect();
    all.iter_mut().for_each(|it| _ = it.accept_move().unwrap());
    let two: Vec<_> = all.into_iter().step_by(4).collect();
    two.iter().for_each(|it| it.write(0, &pattern(1)).unwrap());
    town.rig.gpu.reclaim();
    town.steps();
    assert_eq!(allocator.statistics().allocations, 3, "a place is offered");
    let large = BufferDesc::new(600 << 10);
    let first = town.defragmenter.create_buffer(&large, &options).unwrap();
    assert!(town.defragmenter.create_buffer(&large, &options).is_err(), "the place is in the way");
    let second = Duration::from_secs(1);
    let second = town.defragmenter.making_room(second).create_buffer(&large, &options).unwrap();
    assert!(two.iter().all(|it| read(it) == pattern(1)));
    drop((first, second, two));
    town.rig.gpu.wait_idle().unwrap();
    drop(pool);
    town.finish();
}

#[test]
fn other_resources_of_its_memory_type_move_without_the_owner() {
    let town = Town::on("integrated");
    let mut two = town.two(MemoryUsage::Upload);
    let options = MemoryUsage::Upload.with_name("mesh").relocatable();
    let create = || town.defragmenter.create_buffer(&BufferDesc::new(SIZE / 2), &options).unwrap();
    let meshes: Vec<_> = (0..16).map(|_| create()).collect();
    meshes.iter().for_each(|mesh| mesh.write(0, &pattern(77)[..SIZE as usize / 2]).unwrap());
    let meshes: Vec<_> = meshes.into_iter().step_by(4).collect();
    town.rig.gpu.reclaim();
    assert_eq!(town.blocks(), 2 + 2, "each kind has blocks of its own");
    for _ in 0..50 {
        town.defragmenter.step(PassLimits::NONE).unwrap();
        town.rig.gpu.wait_idle().unwrap();
        town.rig.gpu.reclaim();
    }
    assert_eq!(town.blocks(), 2 + 1, "no owner has accepted yet");
    let moved = two.each_mut().map(|it| it.accept_move().unwrap());
    assert!(moved.contains(&AcceptedMove::Moved), "{moved:?}");
    town.rig.gpu.reclaim();
    assert_eq!(town.blocks(), 1 + 1);
    for mesh in &meshes {
        let mut bytes = vec![0; SIZE as usize / 2];
        mesh.read(0, &mut bytes).unwrap();
        assert!(bytes == pattern(77)[..SIZE as usize / 2]);
    }
    for (at, buffer) in two.iter().enumerate() {
        assert!(read(buffer) == pattern(4 * at as u8));
    }
    drop((two, meshes));
    town.finish();
}

#[test]
fn bytes_that_the_options_call_recreated_are_not_copied() {
    let town = Town::on("discrete-no-bar");
    let options = AllocationOptions::new(MemoryUsage::Upload).with_movability(Movability::Recreated);
    let create = || town.defragmenter.create_mapped_buffer(&BufferDesc::new(SIZE), &options).unwrap();
    let mut all: Vec<_> = (0..8).map(|_| create()).collect();
    all.iter_mut().for_each(|it| _ = it.accept_move().unwrap());
    let mut two: Vec<_> = all.into_iter().step_by(4).collect();
    town.rig.gpu.reclaim();
    town.steps();
    accept(&mut two);
    let sums = town.defragmenter.statistics();
    assert_eq!((sums.moves, sums.bytes_moved), (1, 0));
    drop(two);
    town.finish();
}

#[test]
fn a_device_that_refuses_the_new_buffer_leaves_the_old_one_as_it_was() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    town.rig.device.fail_call(1, allotment::device::DeviceError::OutOfDeviceMemory);
    let results = two.each_mut().map(|it| it.accept_move());
    assert!(results.iter().any(Result::is_err), "{results:?}");
    for (at, buffer) in two.iter().enumerate() {
        assert_eq!((read(buffer) == pattern(4 * at as u8), buffer.moves()), (true, 0));
    }
    assert_eq!(town.rig.gpu.allocator().statistics().allocations, 2, "the place is free again");
    drop(two);
    town.finish();
}

#[test]
fn a_buffer_that_could_not_move_is_offered_a_place_again_after_a_second_and_then_after_two() {
    let town = Town::on("discrete-no-bar");
    let options = MemoryUsage::Upload.with_name("mapped");
    let create = || town.defragmenter.create_mapped_buffer(&BufferDesc::new(SIZE), &options).unwrap();
    let all: Vec<_> = (0..8).map(|_| create()).collect();
    let mut two: Vec<_> = all.into_iter().step_by(4).collect();
    town.rig.gpu.reclaim();
    let is_offered = |buffer: &mut MappedBuffer<SimulatedGpu>| {
        assert_eq!(buffer.accept_move(), Ok(AcceptedMove::NotOffered), "its owner asks in each frame");
        (0..300).for_each(|_| _ = town.defragmenter.step(PassLimits::NONE).unwrap());
        town.rig.gpu.allocator().statistics().allocations == 3
    };
    assert!(is_offered(&mut two[0]));
    for wait in [1000, 2000] {
        town.rig.device.fail_call(1, allotment::device::DeviceError::OutOfDeviceMemory);
        assert!(two[0].accept_move().is_err());
        assert!(!is_offered(&mut two[0]));
        town.time.advance(Duration::from_millis(wait - 100));
        assert!(!is_offered(&mut two[0]));
        town.time.advance(Duration::from_millis(200));
        assert!(is_offered(&mut two[0]));
    }
    assert_eq!(two[0].accept_move(), Ok(AcceptedMove::Moved));
    drop(two);
    town.finish();
}

#[test]
fn owners_that_go_between_the_reservation_of_places_and_the_offer_leave_no_place_behind() {
    let town = Town::on("discrete-no-bar");
    let two = town.two(MemoryUsage::Upload);
    let allocator = town.rig.gpu.allocator();
    let small = PassLimits::NONE.with_time(Duration::ZERO);
    for _ in 0..100 {
        town.defragmenter.step(small).unwrap();
        if allocator.statistics().allocations == 3 {
            break;
        }
    }
    assert_eq!(allocator.statistics().allocations, 3, "a place is reserved, and offered in the next step");
    drop(two);
    town.rig.gpu.reclaim();
    (0..20).for_each(|_| _ = town.defragmenter.step(small).unwrap());
    assert_eq!((allocator.statistics().allocations, town.blocks()), (0, 0));
    assert_eq!(town.defragmenter.statistics().blocks_kept, 0);
    town.finish();
}

#[test]
fn a_pool_that_is_in_use_counts_no_places_that_are_offered() {
    let town = Town::on("discrete-no-bar");
    let memory_type = town.mapped(0, MemoryUsage::Upload).buffer().unwrap().info().memory_type;
    let mut desc = PoolDesc::new([memory_type]);
    desc.sizing = Some(BlockSize::Fixed(1 << 20));
    let allocator = town.rig.gpu.allocator();
    let pool = allocator.create_pool(desc).unwrap();
    let options = MemoryUsage::Upload.with_pool(&pool);
    let create = || town.defragmenter.create_mapped_buffer(&BufferDesc::new(SIZE), &options).unwrap();
    let all: Vec<_> = (0..8).map(|_| create()).collect();
    let mut two: Vec<_> = all.into_iter().step_by(4).collect();
    two.iter_mut().for_each(|it| assert_eq!(it.accept_move(), Ok(AcceptedMove::NotOffered)));
    town.rig.gpu.reclaim();
    town.steps();
    assert_eq!(allocator.reports().pool_statistics(&pool).unwrap().allocations, 3);
    let Err(DestroyPoolError::InUse { pool, allocations: 2 }) = allocator.destroy_pool(pool) else {
        panic!()
    };
    assert_eq!(allocator.reports().pool_statistics(&pool).unwrap().allocations, 2, "the place is free");
    drop((two, options));
    town.rig.gpu.reclaim();
    town.defragmenter.stop();
    allocator.destroy_pool(pool).unwrap();
    town.finish();
}

#[test]
fn a_binding_set_follows_and_keeps_a_buffer_whose_owner_is_gone_where_it_is() {
    let town = Town::on("discrete-large-bar");
    let mut two = town.two(MemoryUsage::DeviceUpload);
    let gpu = &town.rig.gpu;
    let descriptors = gpu.descriptors().unwrap();
    let mut sets: Vec<_> = two
        .iter()
        .map(|buffer| {
            let layout = descriptors.binding_layout(&[Binding::mutable("constants")]).unwrap();
            let mut set = BindingSet::new(&layout).unwrap();
            set.bind_buffer(0, 0, buffer.buffer().unwrap(), 0..256, BufferUse::ReadOnly).unwrap();
            set
        })
        .collect();
    town.steps();
    let at = accept(&mut two);
    assert_eq!(two[at].moves(), 1);
    for (at, set) in sets.iter_mut().enumerate() {
        let frame = gpu.begin_frame().unwrap();
        let mut view = frame.transient_descriptors().unwrap();
        set.commit(&mut view).unwrap();
        drop(view);
        frame.end().unwrap();
        assert!(read(&two[at]) == pattern(4 * at as u8));
    }
    // A set keeps the buffer alive when its owner is gone; then it stays.
    let kept = Arc::clone(two[0].buffer().unwrap());
    drop(two);
    assert_eq!(kept.write(0, &[1]), Ok::<(), AccessError>(()));
    town.steps();
    drop((kept, sets));
    town.finish();
}

#[test]
fn memory_for_other_requests_is_not_touched() {
    let town = Town::on("discrete-no-bar");
    let mut two = town.two(MemoryUsage::Upload);
    town.steps();
    accept(&mut two);
    let allocator = town.rig.gpu.allocator();
    assert_eq!(town.blocks(), 1);
    let other =
        allocator.allocate(&Requirements::new(SIZE), &MemoryUsage::Upload.with_name("other")).unwrap();
    allocator.write(&other, 0, &[3; SIZE as usize]).unwrap();
    for (at, buffer) in two.iter().enumerate() {
        assert!(read(buffer) == pattern(4 * at as u8));
    }
    allocator.free(other).unwrap();
    drop(two);
    town.finish();
}

#[test]
fn a_step_of_the_hundred_thousandth_defragmenter_moves_no_buffer_that_only_its_owner_may_move() {
    let mut town = Town::on("discrete-no-bar");
    let memory = town.rig.gpu.memory().clone();
    let full = DefragmenterDesc::new(DefragmentationDesc::new(DefragmentationStrategy::Full));
    // More than the ids of movers that records have bits for.
    for _ in 0..100_000 {
        drop(Defragmenter::new(&memory, full).unwrap());
    }
    town.defragmenter = Defragmenter::new(&memory, full).unwrap();
    let mut both = town.two(MemoryUsage::Upload);
    let before = both.each_ref().map(|buffer| buffer.address());
    town.steps();
    assert_eq!(town.defragmenter.statistics().moves, 0, "only owners move mapped buffers");
    for (at, buffer) in both.iter().enumerate() {
        let now = buffer.buffer().unwrap().location().mapped_ptr;
        assert_eq!((buffer.address(), now), (before[at], Some(before[at])));
    }
    let moved = both.iter_mut().map(|buffer| buffer.accept_move().unwrap());
    assert!(moved.filter(|moved| *moved == AcceptedMove::Moved).count() == 1, "what was offered still is");
    for (buffer, number) in both.iter().zip([0, 4]) {
        assert!(read(buffer) == pattern(number));
    }
    drop(both);
    town.finish();
}

#[test]
fn a_defragmenter_more_than_can_be_told_apart_is_refused_until_one_and_its_resources_are_gone() {
    let town = Town::on("discrete-no-bar");
    let memory = town.rig.gpu.memory();
    let another = || Defragmenter::new(memory, DefragmenterDesc::default());
    // That of the `Gpu` may be there or not; that of the town is.
    let mut all: Vec<_> = core::iter::from_fn(|| another().ok()).collect();
    assert!((32_765..32_767).contains(&all.len()), "{}", all.len());
    assert_eq!(another().err(), Some(DefragmentationError::TooManyDefragmenters));
    let last = all.pop().unwrap();
    let options = MemoryUsage::GpuOnly.with_name("outlives its defragmenter");
    let buffer = last.create_buffer(&BufferDesc::new(SIZE), &options).unwrap();
    drop(last);
    assert_eq!(another().err(), Some(DefragmentationError::TooManyDefragmenters), "its buffer has its id");
    drop(buffer);
    let one = another().unwrap();
    assert_eq!(another().err(), Some(DefragmentationError::TooManyDefragmenters));
    drop((one, all));
    town.finish();
}
