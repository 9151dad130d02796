//! Reads by queues with many recordings in flight: no descriptor is reused too early, and none is lost.

use allotment::descriptor::{DescriptorError, DescriptorSlot};
use allotment::lifetime::WaitFor;

use crate::rig::{Range, Reading, Rig, value};

/// Numbers that look like chance and are the same each time.
fn random(state: &mut u64, end: u32) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % u64::from(end)) as u32
}

/// Also run with a half of the rule of lifetimes switched off, by `.ci/rules-off`: then it must fail.
#[test]
fn every_recording_reads_what_was_there_when_it_was_recorded() {
    let rig = Rig::new();
    rig.device.set_latency(core::time::Duration::from_micros(200));
    let heap = rig.resources(64, 128, 256);
    let mut state = 5;
    let mut slots: Vec<(DescriptorSlot, u32)> = Vec::new();
    let mut tables: Vec<(Range, Vec<u32>)> = Vec::new();
    let mut flight: Vec<(Reading, Vec<u32>)> = Vec::new();
    let (mut waited, mut compared) = (0, 0);
    for _ in 0..1500 {
        let recording = rig.record();
        let mut view = heap.begin(&recording).unwrap();
        let (mut indices, mut expected) = (Vec::new(), Vec::new());
        for (slot, number) in slots.iter().take(8) {
            indices.push(slot.index());
            expected.push(value(*number));
        }
        for (range, numbers) in tables.iter().rev().take(4) {
            let place = view.place(range).unwrap();
            indices.extend(place.first..place.first + place.count);
            expected.extend(numbers.iter().copied().map(value));
        }
        for _ in 0..3 {
            let number = random(&mut state, 4096);
            loop {
                match view.allocate(1 + number % 5) {
                    Ok(mut table) => {
                        table.write(0, &rig.number(number)).unwrap();
                        indices.push(table.place().first);
                        expected.push(value(number));
                        break;
                    }
                    Err(DescriptorError::Exhausted { wait: Some(WaitFor::Point(point)), .. }) => {
                        waited += 1;
                        rig.wait(point);
                    }
                    // What comes back was done just now.
                    Err(DescriptorError::Exhausted { wait: None, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        // Objects are created and dropped whatever is open or in flight.
        for _ in 0..4 {
            let number = random(&mut state, 4096);
            match random(&mut state, 6) {
                0 | 1 => match heap.insert(&rig.number(number), None) {
                    Ok(slot) => slots.push((slot, number)),
                    Err(DescriptorError::Exhausted { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                2 if !slots.is_empty() => {
                    let at = random(&mut state, slots.len() as u32) as usize;
                    heap.remove(slots.swap_remove(at).0).unwrap();
                }
                3 if !tables.is_empty() => {
                    let at = random(&mut state, tables.len() as u32) as usize;
                    tables.swap_remove(at);
                }
                _ => {
                    let count = 1 + random(&mut state, 6);
                    if let Ok(mut range) = heap.allocate(count) {
                        let numbers: Vec<_> = (0..count).map(|_| random(&mut state, 4096)).collect();
                        for (at, &number) in (0..).zip(&numbers) {
                            range.write(at, &rig.number(number)).unwrap();
                        }
                        tables.push((range, numbers));
                    }
                }
            }
        }
        heap.reclaim();
        flight.push((rig.submit_reads(recording, view.heap(), &indices), expected));
        if flight.len() > 12 {
            let (reading, expected) = flight.remove(0);
            compared += expected.len();
            assert_eq!(reading.wait(), expected);
        }
    }
    for (reading, expected) in flight {
        assert_eq!(reading.wait(), expected);
    }
    assert!(compared > 10_000, "{compared}");
    // It is as full as it can be at times, or nothing would have been tried here.
    assert!(waited > 0 || heap.statistics().slots.failures > 0);
    drop((slots, tables));
    rig.assert_no_complaints();
}
