//! Buffers that come and go, with bytes that must stay theirs.

use std::process::{self, Command};
use std::thread;

use wgpu::BufferUsages as Usage;
use wgpu_proof::{Gpu, Random, pattern, requires};

/// A live buffer and the seed of its bytes.
struct Held {
    buffer: wgpu::Buffer,
    seed: u64,
}

fn create(gpu: &Gpu, random: &mut Random, seed: u64) -> Held {
    let most = 1 << [4, 8, 12, 16, 18][random.below(5) as usize];
    let size = 4 * (1 + random.below(most));
    let usage = Usage::COPY_SRC
        | Usage::COPY_DST
        | [Usage::STORAGE, Usage::VERTEX, Usage::UNIFORM][random.below(3) as usize];
    let bytes = pattern(seed, size);
    let buffer = if random.below(2) == 0 {
        let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: true };
        let buffer = gpu.device.create_buffer(&desc);
        buffer.slice(..).get_mapped_range_mut().unwrap().copy_from_slice(&bytes);
        buffer.unmap();
        buffer
    } else {
        let buffer = gpu.buffer(size, usage);
        gpu.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    };
    Held { buffer, seed }
}

fn churn(gpu: &Gpu, seed: u64, rounds: u64) {
    let mut random = Random(seed);
    let mut live: Vec<Held> = Vec::new();
    for round in 0..rounds {
        if live.len() < 20 || random.below(2) == 0 {
            live.push(create(gpu, &mut random, seed + round));
        } else {
            let held = live.swap_remove(random.below(live.len() as u64) as usize);
            assert!(gpu.read(&held.buffer) == pattern(held.seed, held.buffer.size()), "buffer {}", held.seed);
        }
        if round % 64 == 0 {
            gpu.queue.submit([]);
            gpu.wait();
        }
    }
    for held in live {
        assert!(gpu.read(&held.buffer) == pattern(held.seed, held.buffer.size()), "buffer {}", held.seed);
    }
}

#[test]
fn buffers_keep_their_bytes_while_others_come_and_go() {
    let gpu = Gpu::open();
    // What wgpu stages at the start is gone then.
    gpu.queue.submit([]);
    gpu.wait();
    let before = gpu.report();
    churn(&gpu, 1, 600);
    let kept = gpu.buffer(1 << 20, Usage::COPY_SRC | Usage::COPY_DST);
    let during = gpu.report();
    assert!(during.total_allocated_bytes >= before.total_allocated_bytes + (1 << 20));
    assert!(during.allocations.iter().any(|one| one.name == "buffer" && one.size >= 1 << 20));
    drop(kept);
    gpu.queue.submit([]);
    gpu.wait();
    let after = gpu.report();
    assert!(after.total_allocated_bytes < during.total_allocated_bytes);
    gpu.check();
}

#[test]
fn four_threads_share_a_device() {
    let gpu = Gpu::open();
    thread::scope(|scope| {
        let gpu = &gpu;
        let churns = |seed: u64| scope.spawn(move || churn(gpu, seed * 1_000_003, 120));
        // Until the threads have ended: Wine kills those that still do while the process exits, in the driver.
        for thread in [1, 2, 3, 4].map(churns) {
            thread.join().unwrap();
        }
    });
    gpu.report();
    gpu.check();
}

#[test]
fn two_devices_have_an_allocator_each_and_may_be_dropped_before_their_resources() {
    let (one, other) = (Gpu::open(), Gpu::open());
    let of_one: Vec<_> = (0..50).map(|i| create(&one, &mut Random(i + 1), i)).collect();
    let of_other: Vec<_> = (0..50).map(|i| create(&other, &mut Random(i + 99), i)).collect();
    drop(of_one);
    churn(&one, 7, 50);
    one.check();
    drop(one);
    for held in &of_other {
        assert!(other.read(&held.buffer) == pattern(held.seed, held.buffer.size()));
    }
    other.check();
    drop(other);
    drop(of_other);
}

/// Allocates until a buffer is refused, and looks whether the device goes on; returns false where none is refused.
fn is_refused_and_goes_on() -> bool {
    let gpu = Gpu::open();
    let limit = gpu.device.limits().max_buffer_size & !3;
    let mut live = Vec::new();
    // Of 256 MiB, by wgpu's standard limits: more than any device has.
    for _ in 0..1024 {
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = gpu.buffer(limit, Usage::COPY_DST);
        match pollster::block_on(scope.pop()) {
            None => live.push(buffer),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                drop(live);
                gpu.wait();
                churn(&gpu, 3, 60);
                gpu.check();
                return true;
            }
            Some(error) => panic!("{error}"),
        }
    }
    false
}

#[test]
#[cfg_attr(windows, ignore = "Wine's Direct3D 12 promises any memory")]
fn memory_that_is_not_there_is_an_error_of_its_scope() {
    const LIMITED: &str = "WGPU_PROOF_LIMITED";
    const PROMISED: i32 = 77;
    if is_refused_and_goes_on() {
        return;
    }
    if std::env::var_os(LIMITED).is_some() {
        process::exit(PROMISED);
    }
    // A driver on the processor promises memory until it is used. Some have none to promise where addresses are few.
    let status = Command::new("sh")
        .args(["-c", "ulimit -v 8388608 && exec \"$0\" --exact \"$1\""])
        // `current_exe` needs /proc, which not every root folder has.
        .arg(std::env::args_os().next().unwrap())
        .arg("memory_that_is_not_there_is_an_error_of_its_scope")
        .env(LIMITED, "1")
        .status();
    match status.unwrap().code() {
        Some(0) => {}
        Some(PROMISED) if !requires("refusal") => eprintln!("skipped: the driver promises any memory"),
        code => panic!("{code:?}: refused and wrong, or promised where a refusal is required"),
    }
}

#[test]
fn a_load_that_is_over_leaves_little_behind() {
    let gpu = Gpu::open();
    let load: Vec<_> = (0..100).map(|_| gpu.buffer(2 << 20, Usage::COPY_DST)).collect();
    gpu.queue.submit([]);
    let peak = gpu.report();
    assert!(peak.total_reserved_bytes >= 200 << 20);
    drop(load);
    gpu.queue.submit([]);
    gpu.wait();
    let after = gpu.report().total_reserved_bytes;
    assert!(after <= 32 << 20, "{after} bytes are reserved after a peak of {}", peak.total_reserved_bytes);
    gpu.check();
}
