//! Plans for recordings that make no sense.

use allotment::memory::defragmentation::DefragmentationStrategy;
use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{Cursor, DefragmentationPreview, PreviewOptions, Scope, Timeline, segments};

proptest! {
    #[test]
    fn a_recording_that_contradicts_itself_is_planned_without_a_panic(
        recording in recordings(Has { aliasing: true, contradictions: true }, 300),
        at: prop::sample::Index,
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, at.index(timeline.end() as usize + 1) as u64);
        for all_movable in [false, true] {
            let options = PreviewOptions { strategy: DefragmentationStrategy::Full, all_movable };
            let Ok(preview) = DefragmentationPreview::at(&cursor, Scope::All, options) else { continue };
            // What shares bytes is not moved, and nothing is moved onto it.
            let shared = |placed: fn(&crate::PreviewedBlock) -> &Vec<crate::Placed>| -> u64 {
                let blocks = preview.blocks.iter();
                blocks
                    .flat_map(|block| segments(block.size, placed(block)))
                    .filter(|segment| segment.depth > 1)
                    .map(|segment| segment.size())
                    .sum()
            };
            prop_assert_eq!(shared(|block| &block.before), shared(|block| &block.after));
            let _ = preview.verdict().sentence(crate::units::bytes);
        }
    }
}
