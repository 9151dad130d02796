//! The initial corpus of the fuzzer: sequences of calls that once found a bug.
//!
//! `allotment-stress --write-seeds fuzz/corpus/safe_calls` writes them. They are written in terms of calls and
//! arguments, so that they stay valid when calls are renumbered; if a call takes other arguments, its seeds must
//! change with it.

use crate::Call;
use crate::input::CHUNK;

/// An input and its description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seed {
    /// The name of its file.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The profile without host-visible device memory, and an allocator with blocks of 16 KiB that keeps no empty
/// block: the choices of profile, block size, shards, algorithm, empty-block policy, descriptors, no failures.
const SMALL_BLOCKS: [u8; 7] = [2, 0, 0, 0, 0, 0, 0];

/// Builds an input.
struct Script(Vec<u8>);

impl Script {
    fn new() -> Self {
        let mut bytes = SMALL_BLOCKS.to_vec();
        bytes.resize(CHUNK, 0);
        Self(bytes)
    }

    fn call(mut self, call: Call, arguments: &[u8]) -> Self {
        self.0.push(call as u8);
        self.0.extend(arguments);
        self.0.resize(self.0.len().next_multiple_of(CHUNK), 0);
        self
    }

    fn times(mut self, times: u32, call: Call, arguments: &[u8]) -> Self {
        for _ in 0..times {
            self = self.call(call, arguments);
        }
        self
    }

    fn seed(self, name: &'static str, about: &'static str) -> Seed {
        Seed { name, about, bytes: self.0 }
    }
}

/// A buffer of 4 KiB in movable device memory: its size, no description of the API, no alignment, device-local
/// memory, its movability, no options.
const MOVABLE_4_KIB: [u8; 8] = [40, 0, 15, 0, 0, 1, 0, 0];

/// A complete pass over everything movable: the strategy, limits, no plan, one pass, no calls within.
const WHOLE_PASS: [u8; 5] = [2, 0, 0, 5, 0];

/// Returns all seeds.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    use Call::{
        CreateBuffer, CreateGpu, CreateGpuImage, CreateMovable, CreateOwned, Defragment, DestroyBuffer,
        DropGpuImage, DropMovable, DropOwned, Grow, InsertAll, Own, ReadBuffer, ReadGpuImage, Reclaim,
        Record, Step, SubmitUploads, Upload, UploadMovable, UseMovable, UseOwned, Wait, WriteBuffer,
        WriteGpuImage,
    };
    let emptied = |script: Script| {
        let full = script.times(24, CreateBuffer, &MOVABLE_4_KIB);
        (0..16).fold(full, |script, index| script.call(DestroyBuffer, &[index, 0]))
    };
    let owned = || {
        let full = Script::new().times(24, CreateOwned, &MOVABLE_4_KIB[..7]);
        (0..16).fold(full, |script, index| script.call(DropOwned, &[0, index])).call(Reclaim, &[7])
    };
    vec![
        (0..8)
            .fold(emptied(Script::new()).call(Defragment, &WHOLE_PASS), |script, index| {
                script.call(WriteBuffer, &[index, 2]).call(ReadBuffer, &[index, 2, 0, 2])
            })
            .seed("moved_buffer", "a buffer is copied to and from after a manual pass has moved its memory"),
        owned()
            .call(Defragment, &WHOLE_PASS)
            .call(Upload, &[])
            .call(SubmitUploads, &[])
            .call(UseOwned, &[0, 1, 2, 0, 0, 0])
            .seed("moved_vec", "an owned buffer is uploaded to after a pass that finds it movable"),
        owned()
            .call(Record, &[0, 1])
            .times(4, DropOwned, &[0, 0])
            .call(Defragment, &WHOLE_PASS)
            .call(Reclaim, &[7])
            .call(Wait, &[0])
            .seed("retired_moved", "a buffer that was dropped waits for a recording, and a pass comes"),
        (0..8)
            .fold(Script::new().times(6, CreateMovable, &[5, 2, 2, 0, 0, 1, 0]), |script, index| {
                script.call(DropMovable, &[3, index, 0, 0, 0])
            })
            .call(Defragment, &[2, 0, 0, 5, 3, CreateMovable as u8, 1, 2, 2, 0, 0, 1, 0])
            .call(Step, &[0, 3])
            .call(UploadMovable, &[0, 0, 0, 0, 0])
            .call(UseMovable, &[0, 1, 0, 0])
            .seed("set_race", "a set's resources are created while a manual pass is open"),
        emptied(Script::new())
            .call(Defragment, &[2, 0, 0, 5, 4, CreateBuffer as u8, 40, 0, 15, 0, 0, 1, 0, 0, Own as u8, 1, 0])
            .seed("create_race", "buffers are created movable, and owned, while a manual pass is open"),
        Script::new()
            .call(CreateOwned, &[40, 0, 2, 0, 0, 0, 0])
            .call(Upload, &[])
            .call(SubmitUploads, &[])
            .call(UseOwned, &[1, 2])
            .call(UseOwned, &[0, 2])
            .seed("raw_usage", "a buffer that was created for no copies is copied to and from"),
        Script::new()
            .call(InsertAll, &[3, 0, 2])
            .call(InsertAll, &[3, 1, 2])
            .call(Reclaim, &[7])
            .call(Wait, &[0])
            .call(Grow, &[3])
            .call(Wait, &[0])
            .call(Grow, &[0, 1, 1, 1])
            .seed(
                "insert_all",
                "many descriptors of which one is wrong, or whose iterator panics; then compaction",
            ),
        (0..12)
            .fold(Script::new().call(CreateGpu, &[]), |script, format| {
                // A two-dimensional image of this format with all mip levels, written whole and in a box, and read.
                script
                    .call(CreateGpuImage, &[format, 0, 9, 6, 0, 7, 1, 3])
                    .call(WriteGpuImage, &[format])
                    .call(WriteGpuImage, &[format, 0, 7, 1, 1, 0, 0, 0, 1, 1, 1])
                    .call(ReadGpuImage, &[format, 1, 0, 0, 0, 0, 7, 1])
            })
            .times(4, DropGpuImage, &[0, 2])
            .times(4, WriteGpuImage, &[2, 0, 7])
            .seed("image_boxes", "images of each format are written whole and in boxes, and read"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play_bytes;

    #[test]
    fn no_seed_finds_anything() {
        for seed in seeds() {
            for threads in [1, 3] {
                let tally = play_bytes(&seed.bytes, threads);
                assert_eq!(tally.findings(), &[] as &[String], "{}: {}", seed.name, seed.about);
            }
        }
    }

    #[test]
    fn each_seed_reaches_what_it_is_about() {
        let of = |name: &str| {
            let all = seeds();
            play_bytes(&all.iter().find(|seed| seed.name == name).unwrap().bytes, 1)
        };
        let refused = |tally: &crate::Tally, call, why: &str| {
            tally.refusals_of(call).iter().any(|(found, _)| found.starts_with(why))
        };
        assert!(of("moved_buffer").moves > 0);
        assert!(refused(&of("moved_buffer"), Call::WriteBuffer, "Access(Moved"));
        assert!(of("moved_vec").calls_of(Call::Upload) > 0);
        assert_eq!(of("moved_vec").moves, 0, "what has an owner stays");
        assert_eq!(of("retired_moved").moves, 0, "what waits for the GPU stays");
        assert!(of("set_race").calls_of(Call::CreateMovable) > 6);
        assert!(of("create_race").moves > 0);
        assert!(refused(&of("raw_usage"), Call::Upload, "Access(MissingUsage"));
        assert!(refused(&of("insert_all"), Call::InsertAll, "WrongKind"));
        assert!(refused(&of("insert_all"), Call::InsertAll, "\"Panicked"));
        let images = of("image_boxes");
        assert!(images.calls_of(Call::CreateGpuImage) >= 12, "{images}");
        assert!(images.calls_of(Call::WriteGpuImage) >= 12, "{images}");
        assert!(images.calls_of(Call::ReadGpuImage) >= 6, "{images}");
        assert!(images.bytes_checked > 1000, "{images}");
    }
}
