//! States of memory before a defragmentation: the allocations, and which of them are freed.

use crate::rng::Rng;

const KIB: u64 = 1 << 10;

/// Size of every block in bytes.
pub(super) const BLOCK: u64 = 16 << 20;

/// Alignment of all allocations in bytes.
pub(super) const ALIGNMENT: u64 = 256;

/// A size in bytes that few allocations exceed: 10,000 of them take 451 MiB, as in VMA's own benchmark.
const LARGEST: u64 = 94 * KIB;

/// A state, as the steps that create it. All contenders execute the same.
#[derive(Debug)]
pub(super) struct State {
    pub(super) name: &'static str,
    /// Granularity between linear and optimal resources in bytes.
    pub(super) granularity: u64,
    /// Minimum number of blocks of the pool.
    pub(super) min_blocks: u32,
    /// The allocations, in order.
    pub(super) wanted: Vec<Wanted>,
    /// The indices of those that are freed afterwards.
    pub(super) gone: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Size in bytes.
    pub(super) size: u64,
    /// An image of optimal tiling instead of a buffer.
    pub(super) optimal: bool,
}

/// Returns all states; the first has this number of allocations.
pub(super) fn states(allocations: u32) -> Vec<State> {
    vec![
        half("half", allocations, LARGEST),
        State { granularity: KIB, ..half("half-granularity-1024", allocations, LARGEST) },
        uneven(allocations),
        full(allocations),
        State { min_blocks: 1 + allocations / 350, ..of("empty", Vec::new(), Vec::new()) },
        aligned(half("many", allocations * 10, LARGEST / 10)),
    ]
}

fn of(name: &'static str, wanted: Vec<Wanted>, gone: Vec<usize>) -> State {
    State { name, granularity: 1, min_blocks: 0, wanted, gone }
}

fn random(random: &mut Rng, count: u32, largest: u64) -> Vec<Wanted> {
    let one = |_| Wanted {
        size: 16 + u64::from(random.below(largest as u32)),
        // A random half. Has no effect without a granularity.
        optimal: random.below(2) == 0,
    };
    (0..count).map(one).collect()
}

/// The first of VMA's own benchmarks: a random half is freed.
fn half(name: &'static str, count: u32, largest: u64) -> State {
    let mut rng = Rng::new(1);
    let wanted = random(&mut rng, count, largest);
    let mut order: Vec<_> = (0..wanted.len()).collect();
    for i in 0..order.len() {
        let other = i + rng.below((order.len() - i) as u32) as usize;
        order.swap(i, other);
    }
    order.truncate(wanted.len() / 2);
    of(name, wanted, order)
}

/// Rounds sizes up to multiples of the alignment, as drivers require.
fn aligned(mut state: State) -> State {
    state.wanted.iter_mut().for_each(|one| one.size = one.size.next_multiple_of(ALIGNMENT));
    state
}

/// Of twenty blocks seven are nearly full, and the others nearly empty: about 35 % is in use.
fn uneven(count: u32) -> State {
    let mut rng = Rng::new(2);
    let wanted = random(&mut rng, count, LARGEST);
    let (mut gone, mut filled, mut kept) = (Vec::new(), 0, 0.0);
    for (i, one) in wanted.iter().enumerate() {
        // Blocks are filled one after another, except for allocations that fit into earlier ones.
        if filled / BLOCK != (filled + one.size) / BLOCK || i == 0 {
            let nearly_full = (filled + one.size) / BLOCK * 7 % 20 < 7;
            kept = if nearly_full { 0.75 + 0.2 * rng.unit() } else { 0.02 + 0.13 * rng.unit() };
        }
        filled += one.size;
        if rng.unit() >= kept {
            gone.push(i);
        }
    }
    of("uneven", wanted, gone)
}

/// Blocks without a free byte.
fn full(count: u32) -> State {
    let size = 64 * KIB;
    let a_block = (BLOCK / size) as u32;
    let count = (count / a_block).max(1) * a_block;
    of("full", vec![Wanted { size, optimal: false }; count as usize], Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_there_and_goes_once() {
        for mut state in states(2000) {
            let gone = state.gone.len();
            state.gone.sort_unstable();
            state.gone.dedup();
            assert_eq!(state.gone.len(), gone, "{}", state.name);
            assert!(state.gone.iter().all(|&i| i < state.wanted.len()), "{}", state.name);
        }
    }

    #[test]
    fn the_uneven_state_is_in_use_by_a_third() {
        let state = uneven(20_000);
        let all: u64 = state.wanted.iter().map(|one| one.size).sum();
        let gone: u64 = state.gone.iter().map(|&i| state.wanted[i].size).sum();
        assert!((0.25..0.45).contains(&(1.0 - gone as f64 / all as f64)));
    }
}
