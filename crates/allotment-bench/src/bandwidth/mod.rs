//! `bandwidth`: the machine's best transfer rates by memory type, and the library's rates as a share of them.
//!
//! ```text
//!   limits     plain memcpy and plain vkCmdCopyBuffer: the reference
//!   own_ways   the library's uploads and downloads, as a share of the reference
//!   report     both as tables and as JSON
//! ```

mod limits;
mod own_ways;
mod report;

use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::vulkan::Gpu;
use report::Report;

pub(crate) fn run(args: &BandwidthArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let mut report = Report::new(&gpu, args);
    for &mib in &args.mib {
        let limits = limits::measure(&gpu, args, mib)?;
        let own_ways = own_ways::measure(&gpu, args, mib, &limits)?;
        report.add(mib, limits, own_ways);
    }
    report.print(args.common.json)
}
