//! Colours for allocations by what they have in common: their groups, what each pixel of a block shows, and the bytes of each
//! group over time.
//!
//! ```text
//!   by       what the colours tell apart
//!   groups   the groups, and which allocation is of which
//!   pixels   a block
//!   bands    the time
//! ```

mod bands;
mod by;
mod groups;
mod pixels;

pub use bands::{BandSample, Bands, bands_within};
pub use by::ColourBy;
pub use groups::{ColourGroup, ColourGroups};
pub use pixels::group_pixels;
