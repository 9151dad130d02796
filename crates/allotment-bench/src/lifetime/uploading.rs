//! `upload`: copies of 64 bytes to transient memory, frame by frame.
//!
//! The peer is the least that such a copy can be: an offset that is added to, a comparison, and `memcpy`.

use core::hint::black_box;

use allotment::Alignment;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{QueueDevice as _, QueueIndex, Submission};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::upload::UploadArena;

use super::BATCH;
use crate::failure::Failure;
use crate::race::Racer;

const SIZE: usize = 64;
/// The size of a page of the library's, and of the peer's memory.
const PAGE: usize = 1 << 20;
/// Batches of a frame: it begins and ends that seldom, so its own cost is not what is measured.
const BATCHES_OF_FRAME: u64 = 10;

const VERTICES: u64 = 16;
const CONSTANTS: u64 = 256;

/// Does one upload.
type Upload = fn(&Frame<SimulatedGpu>, &mut UploadArena<SimulatedGpu>, &[u8; SIZE], Alignment) -> u64;

fn by_frame(
    frame: &Frame<SimulatedGpu>,
    _: &mut UploadArena<SimulatedGpu>,
    bytes: &[u8; SIZE],
    alignment: Alignment,
) -> u64 {
    let Ok(upload) = frame.upload_aligned(bytes, alignment) else { unreachable!("there is memory") };
    upload.offset
}

fn by_arena(
    _: &Frame<SimulatedGpu>,
    arena: &mut UploadArena<SimulatedGpu>,
    bytes: &[u8; SIZE],
    alignment: Alignment,
) -> u64 {
    let Ok(mut slice) = arena.allocate(SIZE as u64, alignment) else { unreachable!("there is memory") };
    let written = slice.write(0, bytes);
    debug_assert!(written.is_ok(), "it fits");
    slice.offset()
}

fn alignment(bytes: u64) -> Alignment {
    Alignment::new(bytes).unwrap_or(Alignment::ONE)
}

/// All contenders, a thread each.
pub(super) fn racers(batches: u64) -> Result<Vec<Racer>, Failure> {
    Ok(vec![
        ours("allotment Frame::upload_aligned 16", VERTICES, by_frame, batches)?,
        ours("allotment Frame::upload_aligned 256", CONSTANTS, by_frame, batches)?,
        ours("allotment UploadArena 16", VERTICES, by_arena, batches)?,
        ours("allotment UploadArena 256", CONSTANTS, by_arena, batches)?,
        bump("bump and memcpy 16", VERTICES, batches),
        bump("bump and memcpy 256", CONSTANTS, batches),
    ])
}

fn failed(error: impl core::error::Error) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

fn gpu() -> Result<(SimulatedGpu, Gpu<SimulatedGpu>), Failure> {
    let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
    let device = SimulatedGpu::new(profile);
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).map_err(failed)?;
    Ok((device, gpu))
}

fn ours(name: &'static str, aligned: u64, upload: Upload, batches: u64) -> Result<Racer, Failure> {
    let (device, gpu) = gpu()?;
    Ok(Racer::alone(name, move || {
        let mut batches_left = batches;
        while batches_left > 0 {
            let now = batches_left.min(BATCHES_OF_FRAME);
            in_frame(&device, &gpu, |frame| {
                let mut arena = frame.upload_arena();
                // Not known at compile time.
                let (bytes, alignment) = black_box(([7; SIZE], alignment(aligned)));
                for _ in 0..now * BATCH {
                    black_box(upload(frame, &mut arena, &bytes, alignment));
                }
            });
            batches_left -= now;
        }
        batches * BATCH
    }))
}

/// Runs a frame, whose submission the queue completes at once.
fn in_frame(device: &SimulatedGpu, gpu: &Gpu<SimulatedGpu>, work: impl FnOnce(&Frame<SimulatedGpu>)) {
    let Ok(frame) = gpu.begin_frame() else { unreachable!("the queue completes at once") };
    work(&frame);
    let submitted = frame.submit(QueueIndex(0), |queue, waits| {
        // SAFETY: the submission is empty.
        unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    });
    let ended = frame.end();
    debug_assert!(submitted.is_ok() && ended.is_ok(), "nothing fails on the simulated GPU");
}

fn bump(name: &'static str, aligned: u64, batches: u64) -> Racer {
    let mut page = vec![0_u8; PAGE];
    let mut head = 0;
    Racer::alone(name, move || {
        let (bytes, mask) = black_box(([7; SIZE], aligned as usize - 1));
        for _ in 0..batches * BATCH {
            let mut offset = (head + mask) & !mask;
            if offset + SIZE > PAGE {
                offset = 0;
            }
            page[offset..offset + SIZE].copy_from_slice(black_box(&bytes));
            head = offset + SIZE;
            black_box(&mut head);
            black_box(offset);
        }
        black_box(&mut page);
        batches * BATCH
    })
}
