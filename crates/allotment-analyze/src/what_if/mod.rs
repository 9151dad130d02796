//! What if: the requests of a recording, made once more of an allocator with other settings.
//!
//! ```text
//!   recording ──player──▶ requests, frees, frames, resets … ──▶ Allocator on a simulated GPU ──events──▶ recording
//!                         in their order, each in the shard       with the recorded heaps,
//!                         and the pool that it was made in        memory types and limits
//! ```
//!
//! The allocator is the library's own, with nothing imitated: with the settings of the recording it makes the same
//! decisions, and every allocation is where it was. That is also the test of this module. Worked example: a game was
//! recorded with blocks of up to 256 MiB. [`what_if`] with `block_sizes.largest = 32 << 20` makes its 4,800 requests
//! again; the recording that comes of it is compared with the first by any analysis of this crate, such as
//! [`Peaks`](crate::Peaks), or looked at as a page.
//!
//! What limits it:
//!
//! | a recording | what happens |
//! |---|---|
//! | begins when allocations exist already | they are requested first, in the order in which it lists them, and may be elsewhere |
//! | has requests that were refused | they are made again; what such a request gets now is counted, and freed at once |
//! | has moves of defragmentation | they are left out and counted: with other settings other moves would have been made |
//! | is of threads that met in one pool | requests come in the order of their events: a thread that waited for the driver may get another place |
//! | is of another allocator (an imported dump or capture) | this library's allocator is asked; memory types stay as they were |

mod changes;
mod device;
mod peak_figures;
mod player;
mod pools;
mod story;

use core::fmt;

use allotment::memory::{AllocatorDesc, CreateAllocatorError};
use allotment_trace::desc_of_settings;
use allotment_trace::recording::Recording;

pub use changes::SettingChanges;
pub use peak_figures::PeakFigures;
use player::Player;

/// What an allocator did with the requests of a recording.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WhatIf {
    /// What happened, with the frames, times, marks and texts of the original.
    pub recording: Recording,
    /// Requests of the original that were made again.
    pub requests: u64,
    /// Of these: how many got the same offset of the same block.
    pub at_the_same_place: u64,
    /// Of these: how many were refused.
    pub refused: u64,
    /// Requests that the original refused, and that were made again.
    pub refused_before: u64,
    /// Of these: how many got memory with these settings. It was freed at once, since the original says nothing of what
    /// its program would have done with it.
    pub served_now: u64,
    /// The event of the original that got another place first.
    pub first_difference: Option<u64>,
    /// Moves of defragmentation that the original has, and that were left out.
    pub moves_left_out: u64,
}

/// The error of a replay with other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhatIfError {
    /// The settings contradict each other, or the recording's device is none.
    Allocator(CreateAllocatorError),
}

impl fmt::Display for WhatIfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocator(_) => f.write_str("an allocator cannot be created with these settings"),
        }
    }
}

impl core::error::Error for WhatIfError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Allocator(error) => Some(error),
        }
    }
}

/// Returns the settings that a recording was made with. What it does not say is as by default.
///
/// ```
/// use allotment_analyze::recorded_settings;
/// use allotment_trace::recording::Recording;
///
/// let mut settings = recorded_settings(&Recording::default());
/// settings.block_sizes.largest = 32 << 20; // bytes; everything else as it was
/// ```
#[must_use]
pub fn recorded_settings(recording: &Recording) -> AllocatorDesc {
    desc_of_settings(&recording.header.settings)
}

/// Makes the requests of a recording again, of an allocator with the given settings, on a simulated GPU with the heaps,
/// memory types and limits of the recording. The clock, the leak report and the call sites of `settings` are replaced.
///
/// Cost: about a microsecond an event; memory objects take address space and no memory, and there are at most 16,384. Pools of the program's own keep
/// their rules.
///
/// ```
/// use allotment::device::simulated::{Profile, SimulatedGpu};
/// use allotment::memory::AllocatorDesc;
/// use allotment::memory::blocks::BlockSizes;
/// use allotment::{Allocator, MemoryUsage, Requirements};
/// use allotment_analyze::{Peaks, Scope, Timeline, recorded_settings, what_if};
/// use allotment_trace::Collector;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let collector = Collector::new(&allocator)?; // or `Recording::open(path)?`, of a file
/// let mesh = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// allocator.free(mesh)?;
/// let recording = collector.into_recording();
///
/// let mut settings = recorded_settings(&recording);
/// let same = what_if(&recording, &settings)?;
/// assert_eq!((same.requests, same.at_the_same_place), (1, 1));
///
/// settings.block_sizes = BlockSizes::fixed(64 << 20);
/// let other = what_if(&recording, &settings)?;
/// let peak = |recording| Peaks::of(&Timeline::new(recording), Scope::All).blocks.bytes;
/// assert_eq!((peak(&recording), peak(&other.recording)), (4 << 20, 64 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`WhatIfError::Allocator`] for block sizes that contradict each other, and for a recording whose header has more
/// memory types or heaps than any device.
pub fn what_if(recording: &Recording, settings: &AllocatorDesc) -> Result<WhatIf, WhatIfError> {
    let mut player = Player::new(recording, settings).map_err(WhatIfError::Allocator)?;
    player.play();
    Ok(player.finish())
}
