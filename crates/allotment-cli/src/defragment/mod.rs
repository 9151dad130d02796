//! `allotment defragment`: replays a trace up to a moment, fills the live resources with distinct bytes,
//! defragments, verifies, and shows before and after.
//!
//! ```text
//!   moment     the frame at which the replay stops
//!   playback   replays the trace up to that frame
//!   contents   fills the live resources with distinct bytes, and verifies them
//!   layout     a snapshot of all blocks and allocations
//!   passes     the defragmentation itself, timed
//!   carrier    makes the moves of a pass, on a queue
//!   overlay    a buffer that aliases the memory of a location
//!   recreated  a resource that is created again in its new place
//!   summary    the result as a table and as JSON
//! ```

mod carrier;
mod contents;
mod layout;
mod moment;
mod overlay;
mod passes;
mod playback;
mod recreated;
pub(crate) mod summary;
#[cfg(test)]
mod tests;

use allotment::memory::defragmentation::DefragmentationDesc;
use allotment_trace::Trace;

use crate::args::{DefragmentArgs, Setup};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::report::defragmentation as page;
use crate::source::{self, Source};
use crate::target::{Target, Task, close_after, on_device};
use contents::{Contents, Verified};
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
    /// Its live allocations are those of `before`, in the same order.
    pub(crate) after: Layout,
    pub(crate) verified: Verified,
}

pub(crate) fn run(args: &DefragmentArgs) -> Result<(), Failure> {
    let chosen = args.chosen()?;
    // Before the replay: an unwritable report should fail at once, not after minutes.
    let report = OutputFile::new(&args.output)?;
    source::keep(args.trace.as_deref(), [Some(&report)])?;
    let source = Source::open(args.trace.as_deref())?;
    on_device(chosen, Defragment { args, report, source })
}

/// A defragmentation, with its input and its output file.
struct Defragment<'a> {
    args: &'a DefragmentArgs,
    report: OutputFile,
    source: Source,
}

impl Task for Defragment<'_> {
    type Output = ();

    fn run(self, target: impl Target) -> Result<(), Failure> {
        let Self { args, report, source } = self;
        let machine = target.machine().clone();
        let wanted = Wanted { setup: args.setup(), at: args.at, desc: args.desc() };
        let outcome = outcome(&source.trace, &source.title, &target, &wanted);
        let outcome = close_after(target, outcome)?;
        let summary = Summary::new(&source, &machine, args, &outcome);
        page::write(&report, &source, &machine, &summary.rows(), &summary.verdict(), args, &outcome)?;
        if args.json {
            say!("{}", serde_json::to_string(&summary)?);
        } else {
            summary.print(&machine.about);
        }
        Ok(())
    }
}

/// The moment to defragment at, and the settings.
struct Wanted {
    setup: Setup,
    at: Option<u64>,
    desc: DefragmentationDesc,
}

fn outcome(trace: &Trace, title: &str, target: &impl Target, wanted: &Wanted) -> Result<Outcome, Failure> {
    let Wanted { setup, at, desc } = wanted;
    let moment = Moment::new(trace, target, setup, *at)?;
    with_playback(trace, target, setup, |playback| {
        playback.play_until(moment.events(trace), &format!("replaying {title}"), |_, _| ())?;
        let contents = Contents::fill(playback)?;
        // Empty blocks would be freed without a defragmentation: do not count them as a gain.
        playback.allocator.trim();
        let before = Layout::of(playback)?;
        let done = passes::defragment(playback, *desc)?;
        playback.allocator.trim();
        let after = Layout::of(playback)?;
        let verified = contents.verify(playback)?;
        Ok(Outcome { moment, before, done, after, verified })
    })
}
