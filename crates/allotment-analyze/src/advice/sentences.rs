//! Advice as sentences.

use core::fmt;

use allotment::Algorithm;
use allotment_trace::recording::{Extent, Library, StallKind};

use super::{Advice, Commonest};
use crate::call_site::short_call_site;
use crate::units;

/// Bytes as people read them: `32 MiB`, `1.5 KiB`, `17 bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(
    /// How many.
    pub u64,
);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let Some((unit, shift)) = units.into_iter().find(|&(_, shift)| self.0 >> shift > 0) else {
            return write!(f, "{} bytes", self.0);
        };
        let tenths = (u128::from(self.0) * 10) >> shift;
        match tenths % 10 {
            0 => write!(f, "{} {unit}", tenths / 10),
            tenth => write!(f, "{}.{tenth} {unit}", tenths / 10),
        }
    }
}

/// What a sentence may say: what is known, and calls of the library whose memory it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) library: Library,
    pub(super) extent: Extent,
    pub(super) has_frames: bool,
}

impl Known {
    /// Returns what frees empty memory, as the end of a sentence.
    fn frees_empty(self) -> &'static str {
        match self.library {
            Library::Allotment => {
                ": `trim()` frees them, or an `EmptyBlockPolicy` with fewer frames or bytes"
            }
            Library::Vma => {
                ": VMA keeps one empty block of each memory type, and as many of a custom pool as its `minBlockCount`"
            }
            Library::D3d12MemoryAllocator => {
                ": D3D12MA keeps one empty heap of each type, and as many of a custom pool as its `MinBlockCount`"
            }
            Library::PyTorch => {
                ": `torch.cuda.empty_cache()` frees them, and `expandable_segments:True` in PYTORCH_CUDA_ALLOC_CONF \
                 leaves fewer"
            }
            _ => "",
        }
    }

    /// Returns what helps against holes, as the end of a sentence.
    fn compacts(self) -> &'static str {
        match self.library {
            Library::Vma => " (`vmaBeginDefragmentation`)",
            Library::D3d12MemoryAllocator => " (`BeginDefragmentation`)",
            _ => "",
        }
    }

    /// Returns what suits allocations that live for less than a frame.
    fn short_lived(self) -> &'static str {
        match self.library {
            Library::Allotment => ": use a ring or a linear pool",
            Library::Vma => ": use a pool with `VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT`, or a ring",
            Library::D3d12MemoryAllocator => ": use a pool with `POOL_FLAG_ALGORITHM_LINEAR`, or a ring",
            _ => ": use a ring of one allocation",
        }
    }

    /// Returns what makes fewer and larger blocks.
    fn larger_blocks(self) -> &'static str {
        match self.library {
            Library::Vma => ": use larger blocks (`preferredLargeHeapBlockSize`)",
            Library::D3d12MemoryAllocator => ": use larger blocks (`PreferredBlockSize`)",
            Library::Driver => ": place several resources in one memory object",
            _ => ": use larger blocks",
        }
    }
}

pub(super) fn write(advice: &Advice, known: Known, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match advice {
        Advice::EmptyBlock { block, size, frames, .. } => {
            write!(f, "block {block} of {} has been empty for {frames} frames", Bytes(*size))?;
            f.write_str(match known.library {
                Library::Allotment => ": free it, or let the empty-block policy do so",
                _ => "",
            })
        }
        Advice::EmptyBlocks { count, blocks, size, all, frames } => {
            let percent = *size as f64 * 100.0 / (*all).max(1) as f64;
            let (size, all) = (Bytes(*size), Bytes(*all));
            let (count, blocks) = (units::count(*count), units::count(*blocks));
            write!(f, "{count} empty blocks of {blocks} hold {size} of {all} ({percent:.0} %)")?;
            if known.has_frames {
                write!(f, ", the first of them for {frames} frames")?;
            }
            f.write_str(known.frees_empty())
        }
        Advice::Rounding { pool, algorithm, wasted, share } => {
            let (what, remedy) = match algorithm {
                Some(Algorithm::Buddy) => {
                    ("power-of-two rounding", ": use TLSF, or request sizes near powers of two")
                }
                _ if known.library == Library::PyTorch => {
                    ("rounding", ": PyTorch splits no rest of up to 1 MiB off a large block")
                }
                _ => ("rounding", ": request sizes that are multiples of the alignment"),
            };
            let percent = share * 100.0;
            write!(f, "{what} wastes {percent:.0} % of {pool}, {}{remedy}", Bytes(*wasted))
        }
        Advice::Fragmented { pool, free, largest, holes, blocks, site, of_site: [count, all] } => {
            let (free, largest) = (Bytes(*free), Bytes(*largest));
            write!(f, "{free} are free in {pool}, in {holes} holes of at most {largest}")?;
            if !site.is_empty() {
                write!(
                    f,
                    "; of the {all} allocations between them, {count} are of {}",
                    short_call_site(site)
                )?;
            }
            match known.library {
                // It moves nothing.
                Library::PyTorch => f.write_str(
                    ": `expandable_segments:True` in PYTORCH_CUDA_ALLOC_CONF lets segments share them",
                ),
                _ if *blocks > 0 => {
                    let compacts = known.compacts();
                    write!(f, ": defragmentation{compacts} could empty up to {blocks} blocks")
                }
                _ => Ok(()),
            }
        }
        Advice::Leak { site, count, bytes, per_frame } => {
            let site = if site.is_empty() { "an unknown call site" } else { short_call_site(site) };
            let bytes = Bytes(*bytes);
            if (0.95..1.05).contains(per_frame) {
                write!(f, "one leak a frame at {site}: ")?;
            } else {
                write!(f, "{per_frame:.2} leaks a frame at {site}: ")?;
            }
            write!(f, "{count} allocations of {bytes} exist and none of them was freed")
        }
        Advice::OverBudget { heap, bytes, moment } => {
            let bytes = Bytes(*bytes);
            match (known.extent, known.has_frames) {
                (Extent::Moment, _) => write!(f, "heap {heap} is {bytes} over its budget")?,
                (_, true) => write!(f, "heap {heap} was {bytes} over its budget in frame {}", moment.frame)?,
                _ => write!(f, "heap {heap} was {bytes} over its budget at event {}", moment.event)?,
            }
            f.write_str(": free memory, or limit the heap")
        }
        Advice::Refused { reason, count, largest } => {
            write!(f, "{count} requests of up to {} were refused: {reason}", Bytes(*largest))
        }
        Advice::Stalled { kind, count, total, longest } => {
            let (total, longest) = (milliseconds(*total), milliseconds(*longest));
            write!(
                f,
                "threads waited {count} times for {kind}, {total:.2} ms in all, {longest:.2} ms at most"
            )?;
            f.write_str(match kind {
                StallKind::DriverCall if known.library != Library::Allotment => "",
                StallKind::DriverCall => {
                    ": reserve memory ahead (`reserve`), let a maintenance thread allocate it, or use larger blocks"
                }
                StallKind::FramesInFlight => "",
                _ => ": wait for work that was submitted a frame or more before",
            })
        }
        Advice::SecondChoice { count, bytes, most } => {
            let bytes = Bytes(*bytes);
            write!(f, "{count} allocations of {bytes} are in a memory type that was not their first choice")?;
            write_most(most.as_ref(), *count, f)
        }
        Advice::SlowRelease { median, longest, pending } => write!(
            f,
            "half of the released allocations wait {median} frames or more for the GPU, one of them {longest}; {} \
             wait now",
            Bytes(*pending)
        ),
        Advice::ShortLived { count, share, per_frame, most } => {
            let percent = share * 100.0;
            write!(
                f,
                "{count} allocations, {percent:.0} % of those that ended, lived for less than a frame, \
                 {per_frame:.1} a frame"
            )?;
            write_most(most.as_ref(), *count, f)?;
            f.write_str(known.short_lived())
        }
        Advice::BlockChurn { freed, live, frames } => write!(
            f,
            "{freed} shared blocks were freed and {live} exist, one allocated every {frames:.1} frames: keep more \
             empty blocks"
        ),
        Advice::ManyBlocks { count, limit } => {
            write!(f, "{count} of the {limit} memory objects that the driver allows exist")?;
            f.write_str(known.larger_blocks())
        }
        Advice::DescriptorHeapFull { heap, occupancy } => write!(
            f,
            "descriptor heap {heap} has {} of {} descriptors allocated; the longest free run is {}",
            occupancy.allocated, occupancy.capacity, occupancy.longest_free
        ),
    }
}

/// Writes which allocations are most: `; 48 of them are "constants", from game/src/draw.rs:30`.
fn write_most(most: Option<&Commonest>, of: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(Commonest { count, site, name, category }) = most else { return Ok(()) };
    if *count == of {
        f.write_str("; all of them are ")?;
    } else {
        write!(f, "; {count} of them are ")?;
    }
    match (name.name.is_empty(), category.is_empty()) {
        (false, _) => {
            write!(f, "\"{}\"", name.name)?;
            if name.others > 0 {
                write!(f, " and {} other name{}", name.others, if name.others == 1 { "" } else { "s" })?;
            }
        }
        (true, false) => write!(f, "of the category \"{category}\"")?,
        (true, true) => f.write_str("without a name")?,
    }
    if site.is_empty() { Ok(()) } else { write!(f, ", from {}", short_call_site(site)) }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
