//! One allocation for several resources that do not overlap.

use core::error::Error;
use core::fmt;

use allotment_suballoc::Alignment;

use super::{Memory, OwningAllocator};
use crate::device::{DedicatedNeed, Device, MemoryTypeMask, Requirements, ResourceKind};
use crate::memory::{AllocationError, AllocationOptions};

/// Why [memory for a group](OwningAllocator::allocate_group) was not allocated. Nothing is left behind.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("d3d12-tier-1").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::GroupError;
///
/// // On heap tier 1, buffers and textures are in heaps of their own.
/// let buffer = device.buffer_requirements(&BufferDesc::new(4096))?;
/// let image = device.image_requirements(&ImageDesc::new(64, 64, 4))?;
/// let refused = gpu.allocate_group(&[buffer, image], &MemoryUsage::GpuOnly.with_name("both")).unwrap_err();
/// assert!(matches!(refused, GroupError::NoCommonType { member: 1, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The group has no member.
    Empty,
    /// A member allows none of the memory types that all members before it allow. Allocate it apart.
    NoCommonType {
        /// The position of the member.
        member: usize,
        /// The memory types that it allows.
        allowed: MemoryTypeMask,
        /// Those that all members before it allow.
        others: MemoryTypeMask,
    },
    /// The device requires that a member has dedicated memory. Create it by itself.
    DedicatedRequired {
        /// The position of the member.
        member: usize,
    },
    /// The memory could not be allocated.
    Allocation(AllocationError),
}

impl GroupError {
    /// Returns the debug name of the memory that was refused, cut to 47 bytes. `None` where it has no name, or the error is about a
    /// member.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Allocation(error) => error.name(),
            _ => None,
        }
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the group has no member, name at least one"),
            Self::NoCommonType { member, allowed, others } => write!(
                f,
                "member [{member}] of the group allows none of the memory types of the others ({:#b}, and they {:#b}), allocate it apart",
                allowed.0, others.0
            ),
            Self::DedicatedRequired { member } => write!(
                f,
                "member [{member}] of the group requires dedicated memory, create it with create_buffer or create_image"
            ),
            Self::Allocation(error) => write!(f, "no memory for the group: {error}"),
        }
    }
}

impl Error for GroupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Allocation(error) => Some(error),
            _ => None,
        }
    }
}

impl From<AllocationError> for GroupError {
    fn from(error: AllocationError) -> Self {
        Self::Allocation(error)
    }
}

/// What members of a group keep between them.
#[derive(Clone, Copy, Debug)]
struct Distances {
    /// The multiple at which each member begins, so that a flush of one writes no byte of another back.
    atom: u64,
    /// The multiple at which linear and optimal members change.
    page: u64,
}

/// Returns whether two members share no page: a linear and an optimal one, and what may be either.
fn is_kept_apart(one: ResourceKind, other: ResourceKind) -> bool {
    let is_either = [one, other].contains(&ResourceKind::Unknown);
    is_either || one.is_optimal() != other.is_optimal()
}

/// The places of the members of a group, and what its memory needs.
///
/// ```text
///   linear, by alignment           | page |  optimal, by alignment
///   [ 256 ][ 256 ][ 64 ][ 16 ]            [ 64 KiB ][ 64 KiB ][ 4 KiB ]
/// ```
///
/// The larger alignments come first: where sizes are multiples of the alignments, as drivers give them, nothing is left unused
/// within a kind. Linear and optimal members meet once, so the granularity costs less than a page.
fn lay_out(members: &[Requirements], distances: Distances) -> Result<(Requirements, Vec<u64>), GroupError> {
    let mut all = *members.first().ok_or(GroupError::Empty)?;
    for (member, needs) in members.iter().enumerate() {
        if needs.dedicated == DedicatedNeed::Required {
            return Err(GroupError::DedicatedRequired { member });
        }
        let both = all.or(*needs);
        if both.memory_types.0 == 0 && needs.memory_types.0 != 0 {
            let (allowed, others) = (needs.memory_types, all.memory_types);
            return Err(GroupError::NoCommonType { member, allowed, others });
        }
        all = both;
    }
    let mut order: Vec<_> = (0..members.len()).collect();
    let is_either = |at: usize| members[at].kind == ResourceKind::Unknown;
    order.sort_by_key(|&at| {
        let needs = &members[at];
        (is_either(at), needs.kind.is_optimal(), core::cmp::Reverse(needs.alignment))
    });
    let (mut end, mut offsets) = (0_u64, vec![0; members.len()]);
    let mut before: Option<ResourceKind> = None;
    for at in order {
        let Requirements { size, alignment, kind, .. } = members[at];
        let mut multiple = alignment.get().max(distances.atom);
        if before.is_some_and(|before| is_kept_apart(before, kind)) {
            multiple = multiple.max(distances.page);
        }
        before = Some(kind);
        // What is too large stays so, and is refused as every request of that size.
        offsets[at] = end.checked_next_multiple_of(multiple).unwrap_or(u64::MAX);
        // What is placed there has at least a byte.
        end = offsets[at].saturating_add(size.max(1));
    }
    let is_mixed = members.iter().any(|needs| is_kept_apart(needs.kind, members[0].kind));
    let least = distances.atom.max(if is_mixed { distances.page } else { 1 });
    let alignment = all.alignment.max(Alignment::new(least).unwrap_or(all.alignment));
    // The driver's wish for dedicated memory is one for a resource alone.
    Ok((Requirements { size: end, alignment, dedicated: DedicatedNeed::None, ..all }, offsets))
}

impl<D: Device> OwningAllocator<D> {
    /// Allocates [memory](Memory) for several resources that do not overlap, in one allocation. Returns it with the offset of each
    /// member, in their order, for [`create_buffer_in`](Self::create_buffer_in) and [`create_image_in`](Self::create_image_in).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let (culled, depth) = (BufferDesc::new(4096), ImageDesc::new(64, 64, 4));
    /// let needs = [device.buffer_requirements(&culled)?, device.image_requirements(&depth)?];
    /// let options = MemoryUsage::GpuOnly.with_name("of the pass");
    /// let (memory, offsets) = gpu.memory().allocate_group(&needs, &options)?;
    /// let culled = gpu.create_buffer_in(&memory, offsets[0], &culled, "culled")?;
    /// let depth = gpu.create_image_in(&memory, offsets[1], &depth, "depth")?;
    /// assert!(culled.is_active() && depth.is_active(), "neither has bytes of the other");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`GroupError`], with the position of the member, where one does not go with the others.
    #[inline(never)]
    #[track_caller]
    pub fn allocate_group(
        &self,
        members: &[Requirements],
        options: &AllocationOptions,
    ) -> Result<(Memory<D>, Vec<u64>), GroupError> {
        let allocator = self.allocator();
        let properties = allocator.device().properties();
        let allowed = members.iter().fold(u32::MAX, |all, needs| all & needs.memory_types.0);
        let allowed = MemoryTypeMask(allowed & options.memory_types.0);
        let atoms = properties.indexed_types().filter(|(index, _)| allowed.contains(*index));
        let atom = atoms.map(|(index, _)| allocator.pools.flush_multiple(index).get()).max().unwrap_or(1);
        let page = properties.limits.buffer_image_granularity.get();
        let (requirements, offsets) = lay_out(members, Distances { atom, page })?;
        Ok((self.allocate_memory(&requirements, options)?, offsets))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::ResourceKind;

    fn member() -> impl Strategy<Value = Requirements> {
        let kinds = [
            ResourceKind::Buffer,
            ResourceKind::LinearImage,
            ResourceKind::OptimalImage,
            ResourceKind::Unknown,
        ];
        (0..100_000_u64, 0..17_u32, prop::sample::select(kinds.to_vec())).prop_map(
            |(size, alignment, kind)| {
                let alignment = Alignment::new(1 << alignment).unwrap();
                Requirements { kind, ..Requirements::new(size).with_alignment(alignment) }
            },
        )
    }

    proptest! {
        #[test]
        fn members_are_aligned_and_share_no_byte_no_atom_and_no_page_of_the_other_kind(
            members in prop::collection::vec(member(), 1..20),
            (atom, page) in (0..9_u32, 0..17_u32),
        ) {
            let distances = Distances { atom: 1 << atom, page: 1 << page };
            let (all, offsets) = lay_out(&members, distances).unwrap();
            for (needs, &offset) in members.iter().zip(&offsets) {
                prop_assert!(needs.alignment.is_aligned(offset) && all.alignment >= needs.alignment);
                prop_assert!(offset + needs.size.max(1) <= all.size);
            }
            for (at, (a, &a_offset)) in members.iter().zip(&offsets).enumerate() {
                for (b, &b_offset) in members.iter().zip(&offsets).skip(at + 1) {
                    let is_either = [a.kind, b.kind].contains(&ResourceKind::Unknown);
                    let kinds_differ = is_either || a.kind.is_optimal() != b.kind.is_optimal();
                    let unit = if kinds_differ { distances.atom.max(distances.page) } else { distances.atom };
                    // What is placed there has at least a byte.
                    let last = |offset: u64, size: u64| (offset + size.max(1) - 1) / unit;
                    let apart = last(a_offset, a.size) < b_offset / unit || last(b_offset, b.size) < a_offset / unit;
                    prop_assert!(apart, "{a:?} at {a_offset}, {b:?} at {b_offset}");
                }
            }
            // The pages are those of the memory object.
            let mut kinds = members.iter().map(|needs| (needs.kind.is_optimal(), needs.kind == ResourceKind::Unknown));
            let is_mixed = kinds.any(|kind| kind.1 || kind != (members[0].kind.is_optimal(), false));
            let unit = if is_mixed && members.len() > 1 { distances.page } else { 1 };
            prop_assert!(all.alignment.get() >= unit.max(distances.atom));
            // Not more than one gap for each member, and one page; one for each that may be either.
            let either = members.iter().filter(|needs| needs.kind == ResourceKind::Unknown).count() as u64;
            let bytes: u64 = members.iter().map(|needs| needs.size.max(1)).sum();
            let gaps: u64 = members.iter().map(|needs| needs.alignment.get().max(distances.atom)).sum();
            prop_assert!(all.size <= bytes + gaps + distances.page * (1 + either));
        }
    }

    #[test]
    fn a_member_that_does_not_go_with_the_others_is_named() {
        let distances = Distances { atom: 1, page: 1 };
        let of = |types| Requirements { memory_types: MemoryTypeMask(types), ..Requirements::new(64) };
        let refused = |members: &[Requirements]| lay_out(members, distances).unwrap_err();
        assert_eq!(refused(&[]), GroupError::Empty);
        let (allowed, others) = (MemoryTypeMask(0b1000), MemoryTypeMask(0b0010));
        let expected = GroupError::NoCommonType { member: 2, allowed, others };
        assert_eq!(refused(&[of(0b0110), of(0b0011), of(0b1000), of(0b0001)]), expected);
        let alone = Requirements { dedicated: DedicatedNeed::Required, ..of(1) };
        assert_eq!(refused(&[of(1), alone]), GroupError::DedicatedRequired { member: 1 });
        let (all, _) = lay_out(&[Requirements::new(u64::MAX), Requirements::new(2)], distances).unwrap();
        assert_eq!(all.size, u64::MAX, "refused by the allocation, as a size that no device has");
    }
}
