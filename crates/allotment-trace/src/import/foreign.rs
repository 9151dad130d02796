//! Files of other tools that no importer reads: each is recognised, and the error says what to do.

use std::path::Path;

/// A tool whose files are recognised and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Foreign {
    /// A binary capture of GFXReconstruct.
    GfxReconstructBinary,
    /// A Radeon memory trace (`.rmv`), of AMD's driver or of Mesa.
    RadeonMemoryTrace,
    /// A capture of `RenderDoc` (`.rdc`).
    RenderDoc,
    /// A PIX capture (`.wpix`).
    Pix,
    /// A report of Nsight Systems, or a capture of Nsight Graphics.
    Nsight,
    /// A Tracy trace (`.tracy`).
    Tracy,
    /// A Perfetto trace.
    Perfetto,
    /// Events for `chrome://tracing`.
    ChromeTrace,
    /// A ZIP archive, as `torch.save` writes.
    Zip,
    /// A file compressed by something other than gzip.
    Compressed,
}

impl Foreign {
    /// Returns what a file is, by its first bytes.
    pub(super) fn detect(start: &[u8]) -> Option<Self> {
        const MAGIC: [(&[u8], Foreign); 15] = [
            (b"GFXR", Foreign::GfxReconstructBinary),
            (b"RXFG", Foreign::GfxReconstructBinary),
            (b"AMD_RDF ", Foreign::RadeonMemoryTrace),
            // As files were before they became chunks of a container.
            (b"MINI", Foreign::RadeonMemoryTrace),
            (b"RDOC", Foreign::RenderDoc),
            (b"tlZ\x04", Foreign::Tracy),
            (b"tZst", Foreign::Tracy),
            (b"tracy", Foreign::Tracy),
            (b"trac\xfd", Foreign::Tracy),
            (b"{\"traceEvents\"", Foreign::ChromeTrace),
            (b"PK\x03\x04", Foreign::Zip),
            (b"\x28\xb5\x2f\xfd", Foreign::Compressed),
            (b"\xfd7zXZ\0", Foreign::Compressed),
            (b"BZh", Foreign::Compressed),
            (b"\x04\x22\x4d\x18", Foreign::Compressed),
        ];
        MAGIC.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, found)| *found)
    }

    /// Returns what a file is, by its name. It is asked where the first bytes say nothing.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match &*end {
            "gfxr" => Self::GfxReconstructBinary,
            "rmv" => Self::RadeonMemoryTrace,
            "rdc" => Self::RenderDoc,
            "wpix" | "pix3" => Self::Pix,
            "nsys-rep" | "qdrep" | "ngfx-capture" | "ngfx-gputrace" | "ncu-rep" => Self::Nsight,
            "tracy" => Self::Tracy,
            "pftrace" | "perfetto-trace" | "perfetto" => Self::Perfetto,
            _ => return None,
        })
    }

    /// Returns what the file is, and what to do.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::GfxReconstructBinary => {
                "a binary capture of GFXReconstruct; convert it with `gfxrecon-convert --format jsonl FILE` (version \
                 0.9.18 writes that without `--format`), and open the lines"
            }
            Self::RadeonMemoryTrace => {
                "a memory trace of AMD's driver, whose format has no description; open it in Radeon Memory Visualizer, or \
                 capture the program with GFXReconstruct and convert with `gfxrecon-convert --format jsonl`"
            }
            Self::RenderDoc => {
                "a RenderDoc capture, which has one frame and no history of memory; capture the program with \
                 GFXReconstruct and convert with `gfxrecon-convert --format jsonl`"
            }
            Self::Pix => {
                "a PIX capture, which only PIX reads; capture the program with GFXReconstruct and convert with \
                 `gfxrecon-convert --format jsonl`, or write D3D12MA's `BuildStatsString`"
            }
            Self::Nsight => {
                "a file of NVIDIA Nsight, which only its tools read; capture the program with GFXReconstruct and convert \
                 with `gfxrecon-convert --format jsonl`, or write VMA's or D3D12MA's dump; of PyTorch, \
                 `torch.cuda.memory._dump_snapshot`"
            }
            Self::Tracy => {
                "a Tracy trace, whose format changes with each version of Tracy; record the program with this library's \
                 recorder, or write VMA's or D3D12MA's dump"
            }
            Self::Perfetto => {
                "a Perfetto trace, which has counters of memory and no allocations; record the program with this library's \
                 recorder, capture it with GFXReconstruct, or write VMA's or D3D12MA's dump"
            }
            Self::ChromeTrace => {
                "events for chrome://tracing or Perfetto, which have no allocations with their places; of PyTorch, write a \
                 snapshot with `torch.cuda.memory._dump_snapshot`"
            }
            Self::Zip => {
                "a ZIP archive; unpack it, and open the file in it: JSON lines of gfxrecon-convert, a JSON dump of VMA or \
                 D3D12MA, or a PyTorch memory snapshot"
            }
            Self::Compressed => {
                "a compressed file, of which only gzip is read; decompress it and open what comes out (`zstd -dc FILE | \
                 allotment stats -`)"
            }
        }
    }
}
