//! The library's own ways to bring bytes to the device, measured in the same run as what there is to
//! reach. There are none yet: each becomes an [`OwnWay`] here.

use std::sync::Arc;

use serde::Serialize;

use super::limits::{Limits, Rate};
use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::vulkan::Gpu;

/// A way of the library, and the plain way that it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OwnWay {
    /// What it is called in the table.
    pub(super) name: String,
    pub(super) bytes_per_second: Rate,
    /// The best that the plain way did.
    pub(super) limit: Rate,
}

/// Measures what there is of the library's ways.
pub(super) fn measure(
    _gpu: &Arc<Gpu>,
    _args: &BandwidthArgs,
    _limits: &[Limits],
) -> Result<Vec<OwnWay>, Failure> {
    Ok(Vec::new())
}
