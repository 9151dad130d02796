//! Generated traffic: requests as programs make them whose lifetimes are random, one trace from a kind and a seed.
//!
//! Policies are chosen on this traffic and checked on the recorded one, never the other way round: four recordings are
//! too few to fit a policy to. Other seeds of a kind differ in scale and in the sizes of resources, not only in order.
//!
//! | kind | what | frames |
//! |---|---|---|
//! | `streaming` | a world streamed around a camera: mipped textures and meshes with random lifetimes, staging memory for three frames | yes |
//! | `levels` | levels that are loaded, played and dropped whole, beside a part that stays | yes |
//! | `ui` | windows that open and close, images in them, growing glyph atlases, render targets that are resized | yes |
//! | `documents` | an editor: documents of layers and tiles, an undo history, exports that take much memory for a moment | yes |
//! | `batches` | inference in batches of random size: activations that are freed in the reverse order, workspaces, caches | no |
//! | `churn` | sizes spread over the octaves, each lifetime random, live bytes that rise and fall | no |
//! | `aligned` | small buffers, of which a quarter is aligned to 64 KiB, each lifetime random | no |
//! | `drifting` | buffers whose sizes drift up or down, each lifetime random | no |
//!
//! Sizes and lifetimes come from the seed by `SplitMix64` and plain arithmetic, so that a trace is the same on every machine.

mod games;
mod packing;
mod tools;
mod writer;

use allotment_trace::Trace;

use crate::rng::Rng;
use writer::Writer;

/// A kind of generated traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Streaming,
    Levels,
    Ui,
    Documents,
    Batches,
    Churn,
    Aligned,
    Drifting,
}

impl Traffic {
    pub(crate) const ALL: [Self; 8] = [
        Self::Streaming,
        Self::Levels,
        Self::Ui,
        Self::Documents,
        Self::Batches,
        Self::Churn,
        Self::Aligned,
        Self::Drifting,
    ];

    /// Returns the name of the kind, as it begins the title of a trace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Levels => "levels",
            Self::Ui => "ui",
            Self::Documents => "documents",
            Self::Batches => "batches",
            Self::Churn => "churn",
            Self::Aligned => "aligned",
            Self::Drifting => "drifting",
        }
    }

    /// Generates the trace of a seed, in the text format of [`Trace`].
    pub(crate) fn text(self, seed: u64) -> String {
        // Seeds of two kinds share no numbers.
        let mut rng = Rng::new(seed.wrapping_mul(0x100) + self as u64);
        // The first numbers of neighbouring seeds are far apart already; one is skipped to be independent of `seed`.
        rng.next();
        let mut out = Writer::new(rng);
        match self {
            Self::Streaming => games::streaming(&mut out),
            Self::Levels => games::levels(&mut out),
            Self::Ui => games::ui(&mut out),
            Self::Documents => tools::documents(&mut out),
            Self::Batches => tools::batches(&mut out),
            Self::Churn => tools::churn(&mut out),
            Self::Aligned => packing::aligned(&mut out),
            Self::Drifting => packing::drifting(&mut out),
        }
        out.into_text()
    }

    /// Generates the trace of a seed.
    pub(crate) fn trace(self, seed: u64) -> Trace {
        match Trace::read(self.text(seed).as_bytes()) {
            Ok(trace) => trace,
            Err(error) => unreachable!("a generated trace is one: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_generates_the_same_trace_and_another_seed_another_one() {
        for kind in Traffic::ALL {
            assert_eq!(kind.text(1), kind.text(1), "{}", kind.name());
            assert_ne!(kind.text(1), kind.text(2), "{}", kind.name());
        }
    }

    #[test]
    fn generated_traces_have_thousands_of_allocations_and_free_most_of_them() {
        for kind in Traffic::ALL {
            for seed in 1..4 {
                let trace = kind.trace(seed);
                let what = format!("{} {seed}: {}, {}", kind.name(), trace.allocations(), trace.frees());
                assert!((1_000..60_000).contains(&trace.allocations()), "{what}");
                assert!(trace.frees() * 4 > trace.allocations() * 3, "{what}");
                // Thousands of small ones, where nearly all memory is between them.
                let least = if matches!(kind, Traffic::Aligned) { 4 << 20 } else { 8 << 20 };
                assert!((least..8 << 30).contains(&trace.peak_live_bytes()), "{what}");
                let framed =
                    matches!(kind, Traffic::Streaming | Traffic::Levels | Traffic::Ui | Traffic::Documents);
                assert_eq!(trace.frames() != 0, framed, "{what}");
            }
        }
    }
}
