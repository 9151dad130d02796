//! `allotment defragment`: replays a trace up to a moment, fills the live allocations with distinct bytes,
//! defragments, verifies, and shows before and after.
//!
//! ```text
//!   moment     the frame at which the replay stops
//!   playback   replays the trace up to that frame
//!   contents   fills the live allocations with distinct bytes, and verifies them
//!   layout     a snapshot of all blocks and allocations
//!   passes     the defragmentation itself, timed
//!   carrier    copies what a pass moves, on a queue
//!   summary    the result as a table and as JSON
//! ```

mod carrier;
mod contents;
mod layout;
mod moment;
mod passes;
mod playback;
mod summary;

use crate::args::DefragmentArgs;
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::report::defragmentation as page;
use crate::source::{self, Source};
use crate::target::{SimulatedTarget, Target};
pub(crate) use layout::{Layout, Standing};
pub(crate) use moment::Moment;
pub(crate) use passes::Done;
use playback::with_playback;
use summary::Summary;

/// The outcome of a defragmentation.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) moment: Moment,
    pub(crate) before: Layout,
    pub(crate) done: Done,
    /// The same live allocations, in the same order.
    pub(crate) after: Layout,
    pub(crate) bytes_verified: u64,
}

pub(crate) fn run(args: &DefragmentArgs) -> Result<(), Failure> {
    let (profile, setup, desc) = (args.profile()?, args.setup(), args.desc());
    // Before the replay: an unwritable report should fail at once, not after minutes.
    let report = OutputFile::new(&args.report)?;
    source::keep(args.trace.as_deref(), [Some(&report)])?;
    let source = Source::open(args.trace.as_deref())?;
    let trace = &source.trace;
    let machine = SimulatedTarget::new(profile.clone()).machine().clone();
    let moment = Moment::new(trace, &profile, &setup, args.at)?;
    let outcome = with_playback(trace, &profile, &setup, |playback| {
        playback.play_until(moment.events(trace), &format!("replaying {}", source.title), |_, _| ())?;
        contents::fill(playback)?;
        // Empty blocks would be freed without a defragmentation: do not count them as a gain.
        playback.allocator.trim();
        let before = Layout::of(playback)?;
        let done = passes::defragment(playback.allocator, desc)?;
        playback.allocator.trim();
        let after = Layout::of(playback)?;
        let bytes_verified = contents::verify(playback)?;
        Ok(Outcome { moment, before, done, after, bytes_verified })
    })?;
    let summary = Summary::new(&source, &machine, args, &outcome);
    page::write(&report, &source, &machine, &summary.rows(), &summary.verdict(), args, &outcome)?;
    if args.json {
        say!("{}", serde_json::to_string(&summary)?);
    } else {
        summary.print(&machine.about);
    }
    Ok(())
}
