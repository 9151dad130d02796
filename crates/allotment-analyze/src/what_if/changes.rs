//! Which settings differ from those of a recording.

use allotment::Algorithm;
use allotment::memory::AllocatorDesc;

/// The settings that differ. What is `None` stays as it was.
///
/// ```
/// use allotment::memory::AllocatorDesc;
/// use allotment_analyze::SettingChanges;
///
/// let mut settings = AllocatorDesc::default();
/// SettingChanges { largest_block: Some(32 << 20), ..SettingChanges::default() }.apply(&mut settings);
/// assert_eq!(settings.block_sizes.largest, 32 << 20);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingChanges {
    /// The algorithm in the blocks of the default pools.
    pub algorithm: Option<Algorithm>,
    /// Bytes of a pool's first block: a power of two.
    pub smallest_block: Option<u64>,
    /// Bytes that no block exceeds: a power of two.
    pub largest_block: Option<u64>,
    /// Requests above the next block's size divided by this get dedicated memory.
    pub dedicated_divisor: Option<u64>,
    /// Frames for which an empty block stays.
    pub empty_frames: Option<u32>,
}

impl SettingChanges {
    /// Changes settings.
    pub fn apply(&self, settings: &mut AllocatorDesc) {
        let of_types = settings.block_sizes_of_types.iter_mut().map(|(_, sizes)| sizes);
        for sizes in [&mut settings.block_sizes].into_iter().chain(of_types) {
            sizes.smallest = self.smallest_block.unwrap_or(sizes.smallest);
            sizes.largest = self.largest_block.unwrap_or(sizes.largest);
            let divisor = &mut sizes.dedicated_threshold_divisor;
            *divisor = self.dedicated_divisor.unwrap_or(*divisor);
        }
        settings.algorithm = self.algorithm.unwrap_or(settings.algorithm);
        let frames = &mut settings.empty_blocks.frames;
        *frames = self.empty_frames.unwrap_or(*frames);
    }

    /// Returns true where nothing differs.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
