//! Queue families that share a resource, as a list that a description owns.

use ash::vk;

/// Most queue families that are stored. Devices have fewer than ten.
const MOST: u32 = u64::BITS;

/// The queue families that use a resource concurrently: bit `n` for family `n`. Empty for one that is exclusive to a
/// family at a time, and for a description that borrows its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Families(u64);

/// Room for a list of all families that are stored.
pub(super) const ROOM: [u32; MOST as usize] = [0; MOST as usize];

impl Families {
    /// No list.
    pub(super) const NONE: Self = Self(0);

    /// Returns itself, or else stores a description's list. `None` where that has a family that is not stored.
    ///
    /// # Safety
    ///
    /// With concurrent sharing, the list has `count` families.
    pub(super) unsafe fn or(self, mode: vk::SharingMode, list: *const u32, count: u32) -> Option<Self> {
        // With exclusive sharing Vulkan ignores the list, so the pointer may be dangling and is not read.
        if self != Self::NONE || mode != vk::SharingMode::CONCURRENT || count == 0 {
            return Some(self);
        }
        // SAFETY: as the caller promises.
        let families = unsafe { core::slice::from_raw_parts(list, count as usize) };
        // A family above 63 is refused rather than left out: its queues could no longer use the copy.
        let add = |bits: u64, &family: &u32| (family < MOST).then(|| bits | 1 << family);
        families.iter().try_fold(0, add).map(Self)
    }

    /// Returns true if queues of all these families may use the resource without ownership transfers.
    pub(super) fn includes(self, families: &[u32]) -> bool {
        let has = |&family: &u32| family < MOST && self.0 & 1 << family != 0;
        families.len() < 2 || families.iter().all(has)
    }

    /// Returns the families in ascending order, in `room`.
    pub(super) fn list(self, room: &mut [u32; MOST as usize]) -> &[u32] {
        let (mut left, mut count) = (self.0, 0);
        while left != 0 {
            room[count] = left.trailing_zeros();
            left &= left - 1;
            count += 1;
        }
        &room[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_in_ascending_order_and_large_families_are_not_stored() {
        let of = |list: &[u32]| {
            // SAFETY: the list has as many families as it says.
            unsafe { Families::NONE.or(vk::SharingMode::CONCURRENT, list.as_ptr(), list.len() as u32) }
        };
        assert_eq!(of(&[63, 0, 2]).unwrap().list(&mut { ROOM }), [0, 2, 63]);
        assert_eq!(of(&[1, 64]), None);
        assert!(of(&[63, 0, 2]).unwrap().includes(&[0, 63]));
        assert!(!of(&[63, 0, 2]).unwrap().includes(&[0, 1]));
        assert!(!of(&[0]).unwrap().includes(&[0, 64]));
        assert!(Families::NONE.includes(&[5]), "of a device with queues of one family");
        // SAFETY: exclusive sharing ignores the list.
        let exclusive = unsafe { Families::NONE.or(vk::SharingMode::EXCLUSIVE, core::ptr::null(), 7) };
        assert_eq!(exclusive.unwrap().list(&mut { ROOM }), [0; 0]);
    }
}
