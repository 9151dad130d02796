//! Samplers of many sets, of which few differ.

use core::error::Error;
use std::time::Instant;

use allotment::descriptor::CachedSampler;
use allotment::device::{AddressMode, Compare, DescriptorDevice, Filter, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};

const SETS: usize = 10_000;

/// Samplers of a set, each unlike the others.
const SAMPLERS: usize = 8;

/// Every set asks for its samplers, and gets the index of one that is there.
pub(crate) fn share<D: DescriptorDevice + Clone>(device: D) -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::new(device, GpuDesc::default())?;
    let cache = gpu.descriptors()?.samplers();

    let descs: [_; SAMPLERS] = core::array::from_fn(desc);
    let began = Instant::now();
    let mut sets: Vec<CachedSampler<D>> = Vec::with_capacity(SETS * SAMPLERS);
    for _ in 0..SETS {
        for desc in &descs {
            sets.push(cache.get(desc)?);
        }
    }
    let each = began.elapsed() / sets.len() as u32;
    let used = cache.heap().statistics().slots.used;
    println!("{:32}{SETS} sets × {SAMPLERS} in {used} slots, {each:.0?} each", "samplers");

    let (first, others) = sets.split_at(SAMPLERS);
    let same =
        |set: &[CachedSampler<D>]| set.iter().map(CachedSampler::index).eq(first.iter().map(|s| s.index()));
    if used as usize != SAMPLERS || cache.len() != SAMPLERS || !others.chunks(SAMPLERS).all(same) {
        return Err(format!("{SAMPLERS} samplers are in {used} slots").into());
    }
    drop(sets);
    cache.reclaim();
    if cache.is_empty() { Ok(()) } else { Err(format!("{} samplers are left", cache.len()).into()) }
}

/// No two are the same.
fn desc(number: usize) -> SamplerDesc {
    let filter = [Filter::Nearest, Filter::Linear][number % 2];
    let address = [AddressMode::Repeat, AddressMode::ClampToEdge][number / 2 % 2];
    let compare = [None, Some(Compare::Less)][number / 4 % 2];
    SamplerDesc { mag_filter: filter, address: [address; 3], compare, ..SamplerDesc::default() }
}
