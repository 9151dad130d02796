//! `bandwidth`: how fast this machine moves bytes at best, by memory type; and how near to that the
//! library's own ways come.
//!
//! ```text
//!   limits     plain memcpy and plain vkCmdCopyBuffer: what there is to reach
//!   own_ways   the library's ways up and down, as parts of that
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
