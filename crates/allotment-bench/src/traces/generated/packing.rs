//! Generated traffic that is hard to pack: small requests of which some are aligned coarsely, and sizes that drift.

use super::writer::{KIB, Live, Writer};

/// Small buffers, of which a quarter is aligned to 64 KiB: as many live at once as the seed chooses, and random ones are replaced.
/// The least that holds them is 64 KiB for each that is aligned, as the others fit in between.
pub(super) fn aligned(out: &mut Writer) {
    // By the seed all sizes are as likely, or all octaves are.
    let even = out.once_in(2);
    let count = out.between(2_000, 10_000);
    let mut live: Vec<Live> = Vec::new();
    for at in 0..count + 40_000 {
        if at >= count {
            out.free_any(&mut live);
        }
        let size = if even { u64::from(out.between(256, 8 << 10)) } else { out.octaves(256, 4 * KIB) };
        let alignment = if out.once_in(4) { 64 * KIB } else { 256 };
        live.push(out.aligned_buffer(size, alignment));
    }
    out.free_all(&mut live);
}

/// Buffers whose sizes drift, up or down as the seed chooses: random ones are replaced by some of the sizes of the day, which fit
/// no range that was freed long ago.
pub(super) fn drifting(out: &mut Writer) {
    let rises = out.once_in(2);
    let count = out.between(1_000, 5_000);
    let (least, octaves) = (1 << out.between(9, 14), out.between(2, 5));
    // So that all are replaced several times while the sizes double.
    let steps = count * octaves * 2;
    let steps = steps.min(50_000 - count);
    let mut live: Vec<Live> = Vec::new();
    for at in 0..count + steps {
        if at >= count {
            out.free_any(&mut live);
        }
        let step = at.saturating_sub(count);
        let done = f64::from(if rises { step } else { steps - step }) / f64::from(steps);
        // Plain arithmetic between two powers of two, so that a trace is the same on every machine.
        let octave = done * f64::from(octaves);
        let middle = (least << octave as u32) as f64 * (1.0 + octave.fract());
        let size = middle as u64 * u64::from(out.between(75, 125)) / 100;
        live.push(out.buffer(size));
    }
    out.free_all(&mut live);
}
