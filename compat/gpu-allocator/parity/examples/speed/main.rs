//! How long an allocation and a free take in gpu-allocator and in its stand-in, with 3,000 live allocations of random
//! sizes: on one thread, and on four that share an allocator through a mutex, as those of wgpu do.
//!
//! ```sh
//! cargo run --release --manifest-path compat/gpu-allocator/Cargo.toml -p gpu-allocator-parity --example speed
//! ```

macro_rules! over {
    ($name:ident) => {
        mod $name {
            use ::$name as api;
            include!("contender.rs");
        }
    };
}

over!(real);
over!(compat);

use allotment_headless::vulkan::{Headless, HeadlessDesc};

/// Each contender has as many turns, one after the other, so that both see what else the machine does.
const TURNS: usize = 7;

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn main() {
    let vulkan = Headless::open(&HeadlessDesc::default()).expect("Vulkan is there");
    println!("{}", vulkan.name());
    let handles = || (vulkan.instance().clone(), vulkan.raw().clone(), vulkan.physical_device());
    for threads in [1, 4] {
        let (mut of_real, mut of_compat) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            of_real.push(median(real::times(handles(), threads)));
            of_compat.push(median(compat::times(handles(), threads)));
        }
        let (of_real, of_compat) = (median(of_real), median(of_compat));
        println!(
            "{threads} threads: gpu-allocator {of_real} ns, the stand-in {of_compat} ns an allocation and a free: {:.3}",
            of_compat as f64 / of_real as f64
        );
    }
}
