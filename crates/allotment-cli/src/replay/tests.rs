//! Replays on a simulated GPU that creates resources.

use allotment::Algorithm;
use allotment::device::simulated::Profile;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment_trace::Trace;

use super::{Images, Options, Outcome, Record, replay};
use crate::args::{Bytes, Setup};
use crate::failure::Failure;
use crate::target::{Maker, SimulatedTarget};

const TRACE: &str = "\
op,id,size,alignment,kind,name
a,0,1000,16,buffer,17
a,1,5000000,16,buffer,128
a,2,70000,16,image,VK_FORMAT_R8G8B8A8_UNORM 128x128x1
a,3,70000,16,image,something of unknown shape
m,,,,,
f,1,,,,
f,2,,,,
a,4,12345,16,buffer,1
";

fn replayed(target: Maker) -> Result<Outcome, Failure> {
    let trace = Trace::read(TRACE.as_bytes()).unwrap();
    let setup = Setup {
        algorithm: Algorithm::Tlsf,
        block_sizes: BlockSizes::default(),
        empty_blocks: EmptyBlockPolicy::default(),
    };
    let options = Options { bytes: Bytes::All, stop_at_refusal: true, ..Options::default() };
    replay(&trace, target, &setup, options, |_| ())
}

/// Bytes of the buffers of the trace, the one in place of an image among them.
const BUFFERS: u64 = 1000 + 5_000_000 + 70_000 + 12_345;

#[test]
fn bytes_get_into_buffers_and_images_that_the_cpu_cannot_reach() {
    for profile in ["discrete-no-bar", "discrete-large-bar", "integrated", "lavapipe"] {
        let outcome = replayed(Maker::of(profile)).unwrap();
        let images = Images { made: 1, as_buffers: 1, verified: 1, bytes_not_verified: 0 };
        assert_eq!(outcome.images, images, "{profile}");
        assert_eq!(outcome.bytes_verified, outcome.bytes_uploaded, "{profile}");
        assert_eq!(outcome.bytes_verified, BUFFERS + 128 * 128 * 4, "{profile}");
        assert_eq!((outcome.allocations, outcome.frees, outcome.failed), (5, 2, 0), "{profile}");
    }
}

#[test]
fn bytes_of_images_over_which_no_buffer_may_lie_are_counted_and_not_verified() {
    // Here buffers and images are of different memory types.
    let outcome = replayed(Maker { overlay_usage: 0, ..Maker::of("d3d12-tier-1") }).unwrap();
    let images = Images { made: 1, as_buffers: 1, verified: 0, bytes_not_verified: 128 * 128 * 4 };
    assert_eq!(outcome.images, images);
    assert_eq!(outcome.bytes_verified, BUFFERS);
}

#[test]
fn a_recording_in_memory_is_of_the_program_and_not_of_the_replays_own_buffers() {
    let setup = Setup {
        algorithm: Algorithm::Tlsf,
        block_sizes: BlockSizes::default(),
        empty_blocks: EmptyBlockPolicy::default(),
    };
    let options = Options { bytes: Bytes::All, names: true, record: Record::Memory, ..Options::default() };
    let trace = Trace::read(TRACE.as_bytes()).unwrap();
    let outcome = replay(&trace, Maker::of("discrete-large-bar"), &setup, options, |_| ()).unwrap();
    let recording = outcome.recording.unwrap();
    let mut state = allotment_trace::recording::State::default();
    recording.events.iter().for_each(|event| state.apply(event).unwrap());
    let mut sizes: Vec<_> = state.allocations.values().map(|live| live.is.requested).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1000, 12_345, 70_000]);
}

#[test]
fn validation_errors_fail_a_replay_that_went_well() {
    let messages = vec!["this is wrong".to_owned(), "so is that".to_owned()];
    let failure = replayed(Maker { messages, ..Maker::of("integrated") }).unwrap_err();
    assert_eq!(failure.to_string(), "2 validation errors:\n  this is wrong\n  so is that");
}

#[test]
fn why_a_replay_failed_is_told_after_the_validation_errors() {
    let messages = vec!["this is wrong".to_owned()];
    let mut profile = Profile::named("integrated").unwrap();
    // Staging buffers fit, and the large buffer does not.
    profile.heaps[0].size = 20 << 20;
    let maker = Maker { messages, ..Maker::of("integrated") };
    let failure = replayed(Maker { simulated: SimulatedTarget::new(profile), ..maker }).unwrap_err();
    let text = failure.to_string();
    // And of nothing else: what was made before the failure is destroyed in good order.
    assert!(text.starts_with("validation error: this is wrong\nallotment: line 3: "), "{text}");
}
