//! Samplers of many sets, of which few differ.

use std::time::Instant;

use allotment::device::{AddressMode, Compare, DescriptorDevice, Filter, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};

use crate::common::Outcome;
use crate::common::report::row;

const SETS: usize = 10_000;

/// Samplers of a set, each unlike the others.
const SAMPLERS: usize = 8;

/// Every set asks for its samplers, and gets the index of one that is there.
pub(crate) fn share<D: DescriptorDevice + Clone>(device: D) -> Outcome {
    let gpu = Gpu::new(device, GpuDesc::default())?;
    let cache = gpu.descriptors()?.samplers();

    let descs: [_; SAMPLERS] = core::array::from_fn(desc);
    let began = Instant::now();
    let sets =
        (0..SETS * SAMPLERS).map(|at| cache.get(&descs[at % SAMPLERS])).collect::<Result<Vec<_>, _>>()?;
    let each = began.elapsed() / sets.len() as u32;
    let used = cache.heap().statistics().slots.used;
    row("samplers", format_args!("{SETS} sets × {SAMPLERS} in {used} slots, {each:.0?} each"));

    let next = sets.iter().skip(SAMPLERS);
    let are_shared = sets.iter().zip(next).all(|(one, next)| one.index() == next.index());
    if used as usize != SAMPLERS || cache.len() != SAMPLERS || !are_shared {
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
