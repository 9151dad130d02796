//! Many holes into which the requests nearly fit: what a search may walk for nothing.

use super::{Build, Plan, Scale};
use crate::rng::Rng;

/// Requests per lap.
const REQUESTS: u32 = 1000;

pub(super) fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for (name, count) in [("2e4", 20_000), ("2e5", 200_000), ("1e6", 1_000_000)] {
        plans.push(Plan::new(format!("holes-1025-{name}"), move |scale| byte_more(scale, count, false)));
        plans.push(Plan::new(format!("holes-1025-full-{name}"), move |scale| byte_more(scale, count, true)));
    }
    plans.push(Plan::new("holes-1060", nearly_equal));
    plans.push(Plan::new("holes-fail", |scale| larger(scale, 8192, 96 << 10, 256)));
    plans.push(Plan::new("holes-near", near));
    plans.push(Plan::new("holes-align", |scale| larger(scale, 8192, 64 << 10, 64 << 10)));
    plans.push(Plan::new("holes-align-1e6", |scale| larger(scale, 1_000_000, 64 << 10, 64 << 10)));
    plans
}

/// `count` ranges of 1,024 bytes, every second of which is freed; then requests for 1,025 bytes. They are served
/// from the end of the space, and freed, or, where there is nothing behind the last range, refused.
fn byte_more(scale: Scale, count: u32, is_full: bool) -> Build {
    let count = scale.of(count);
    let mut build = Build::default();
    (0..count).for_each(|slot| build.allocate(slot, (1024, 1)));
    (0..count).step_by(2).for_each(|slot| build.free(slot));
    build.begin_lap();
    for _ in 0..scale.of(REQUESTS) {
        build.allocate(count, (1025, 1));
        build.free(count);
    }
    let filled = u64::from(count) * 1024;
    // An allocator that rounds sizes up cannot cut the last range out of its exact size; a rest of 512 bytes is enough
    // for that, and none for a request.
    let size = if is_full { filled + 512 } else { filled * 2 };
    Build { may_refuse: is_full, ..build }.in_space(size, 1)
}

/// Ranges of 1,000 to 1,060 bytes, a random half of which is freed and allocated anew; then requests for 1,040 to
/// 1,060 bytes, which most holes cannot serve.
fn nearly_equal(scale: Scale) -> Build {
    let count = scale.of(300_000);
    let mut rng = Rng::new(1060);
    let mut build = Build::default();
    let draw = |rng: &mut Rng, least: u32| (least + rng.below(1061 - least), 1);
    (0..count).for_each(|slot| build.allocate(slot, draw(&mut rng, 1000)));
    let half: Vec<u32> = (0..count).filter(|_| rng.below(2) == 1).collect();
    half.iter().for_each(|&slot| build.free(slot));
    half.iter().for_each(|&slot| build.allocate(slot, draw(&mut rng, 1000)));
    let again: Vec<u32> = (0..count).filter(|_| rng.below(2) == 1).collect();
    again.iter().for_each(|&slot| build.free(slot));
    build.begin_lap();
    let requests = scale.of(20_000);
    (0..requests).for_each(|i| build.allocate(count + i, draw(&mut rng, 1040)));
    (0..requests).for_each(|i| build.free(count + i));
    let size = build.peak_bytes * 2;
    build.in_space(size, 1)
}

/// `count` holes of so many bytes, with `between` bytes in use before each of them and after the last.
fn holes(count: u32, between: u32, mut bytes: impl FnMut() -> u32) -> (Build, u64) {
    let mut build = Build::default();
    build.allocate(2 * count, (256, 256));
    for i in 0..count {
        build.allocate(2 * i, (bytes(), 256));
        build.allocate(2 * i + 1, (between, 256));
    }
    let filled = build.live_bytes;
    (0..count).for_each(|i| build.free(2 * i));
    (build, filled)
}

/// Behind the last range, for allocators that round up; too small for a request.
const REST: u64 = 16 << 10;

/// Requests that fit none of so many holes of 64 KiB: they are larger, or aligned to 64 KiB, while each hole begins 256
/// bytes behind a multiple of that.
fn larger(scale: Scale, count: u32, size: u32, alignment: u32) -> Build {
    let count = scale.of(count);
    let (mut build, filled) = holes(count, 64 << 10, || 64 << 10);
    build.begin_lap();
    // Refused ones are not freed.
    for i in 1..=scale.of(REQUESTS) {
        build.allocate(2 * count + i, (size, alignment));
    }
    for i in 1..=scale.of(REQUESTS) {
        build.free(2 * count + i);
    }
    Build { may_refuse: true, ..build }.in_space(filled + REST, 256)
}

/// Requests for 71 KiB among holes of 64 to 72 KiB: an eighth of the holes fits.
fn near(scale: Scale) -> Build {
    let count = scale.of(8192);
    let mut rng = Rng::new(71);
    let (mut build, filled) = holes(count, 256, || (256 + rng.below(33)) * 256);
    build.begin_lap();
    let requests = scale.of(REQUESTS).min(count / 16);
    (1..=requests).for_each(|i| build.allocate(2 * count + i, (71 << 10, 256)));
    (1..=requests).for_each(|i| build.free(2 * count + i));
    Build { may_refuse: true, ..build }.in_space(filled + REST, 256)
}
