//! Defragmentations on a simulated GPU that creates resources, as a real driver does.

use allotment::Algorithm;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::DefragmentationStrategy;

use super::*;
use crate::target::Maker;

/// One in eight of 80 resources of 64 KiB is live in the end; ten of them in five blocks.
fn trace(kind_and_name: &str) -> Trace {
    let mut lines = "op,id,size,alignment,kind,name\n".to_owned();
    (0..80).for_each(|id| lines += &format!("a,{id},65536,256,{kind_and_name}\n"));
    (0..80).filter(|id| id % 8 != 0).for_each(|id| lines += &format!("f,{id},,,,\n"));
    Trace::read(lines.as_bytes()).unwrap()
}

const STAGING: &str = "buffer,1";
const READBACK: &str = "buffer,2";
const MESH: &str = "buffer,130";
const IMAGE: &str = "image,VK_FORMAT_R8G8B8A8_UNORM 128x128x1";
const LIVE: u64 = 10 * 65536;

fn defragmented(target: Maker, kind_and_name: &str) -> Outcome {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full);
    let trace = trace(kind_and_name);
    let setup = Setup {
        algorithm: Algorithm::Tlsf,
        block_sizes: BlockSizes::fixed(1 << 20),
        empty_blocks: EmptyBlockPolicy::NONE,
    };
    let wanted = Wanted { setup, at: Some(trace.events().len() as u64), desc };
    let outcome = outcome(&trace, "a test", &target, &wanted);
    // Fails for validation errors: of a copy, of an object that is bound to freed memory, of a leak.
    close_after(target, outcome).unwrap()
}

#[test]
fn buffers_and_images_move_with_their_bytes_on_every_kind_of_device() {
    for profile in
        ["discrete-no-bar", "discrete-large-bar", "integrated", "lavapipe", "mobile", "d3d12-tier-2"]
    {
        for kind in [STAGING, READBACK, MESH, IMAGE] {
            let Outcome { before, done, after, verified, .. } = defragmented(Maker::of(profile), kind);
            assert!(before.blocks.len() >= 5 && after.blocks.len() == 1, "{profile}, {kind}: {after:?}");
            assert!(done.statistics.moves >= 8 && done.statistics.ignored == 0, "{profile}, {kind}");
            assert_eq!((verified.bytes, verified.bytes_not_verified), (LIVE, 0), "{profile}, {kind}");
        }
    }
}

#[test]
fn images_over_which_no_buffer_may_lie_are_not_moved() {
    // Here buffers and images are of different memory types.
    let target = Maker { overlay_usage: 0, ..Maker::of("d3d12-tier-1") };
    let Outcome { before, done, after, verified, .. } = defragmented(target, IMAGE);
    assert_eq!((verified.bytes, verified.bytes_not_verified), (0, LIVE));
    assert_eq!(after.blocks.len(), before.blocks.len());
    assert!(done.statistics.moves == 0 && done.statistics.ignored > 0, "{done:?}");
    assert!(done.moved.is_empty(), "{done:?}");
}
