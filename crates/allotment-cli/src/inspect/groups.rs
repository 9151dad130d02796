//! Groups of allocations, as the JSON outputs of `leaks` and `lifetimes` have them.

use allotment_analyze::{AllocationGroup, Timeline};
use allotment_trace::recording::Moment;
use serde::Serialize;

/// Returns the groups for a JSON output.
pub(super) fn json<'a>(
    groups: &'a [AllocationGroup],
    timeline: &Timeline<'a>,
    now: Moment,
) -> Vec<GroupJson<'a>> {
    groups.iter().map(|group| GroupJson::new(group, timeline, now)).collect()
}

/// A group in a JSON output.
#[derive(Serialize)]
pub(super) struct GroupJson<'a> {
    group: &'a str,
    name: &'a str,
    other_names: u64,
    count: u64,
    bytes: u64,
    /// Nothing about frames where the recording has none.
    first_frame: Option<u64>,
    last_frame: Option<u64>,
    frames: Option<u64>,
    per_frame: Option<f64>,
    steady: bool,
    examples: Vec<ExampleJson<'a>>,
}

#[derive(Serialize)]
struct ExampleJson<'a> {
    name: &'a str,
    bytes: u64,
    block: u64,
    offset: u64,
    allocated_by_event: u64,
}

impl<'a> GroupJson<'a> {
    fn new(group: &'a AllocationGroup, timeline: &Timeline<'a>, now: Moment) -> Self {
        let example = |&allocation: &_| {
            // Of one that does not exist now, the place that it had last or will have first.
            let place = timeline.place_at(allocation, now.event);
            ExampleJson {
                name: timeline.recording().text(timeline.texts(allocation).name).unwrap_or(""),
                bytes: timeline.requested(allocation),
                block: timeline.block_info(place.block).id.0,
                offset: place.offset,
                allocated_by_event: timeline.lifetime(allocation).allocated,
            }
        };
        let has_frames = timeline.frame_count() > 0;
        Self {
            group: &group.key,
            name: &group.name.name,
            other_names: group.name.others,
            count: group.count,
            bytes: group.bytes,
            first_frame: has_frames.then_some(group.first.frame),
            last_frame: has_frames.then_some(group.last.frame),
            frames: has_frames.then_some(group.frames),
            per_frame: has_frames.then(|| group.per_frame()),
            steady: group.is_steady(now),
            examples: group.examples.iter().map(example).collect(),
        }
    }
}
