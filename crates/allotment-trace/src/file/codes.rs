//! The numbers of enumerations that are not of the events' own: a number never changes its meaning.
//!
//! A reader takes a number that it does not know for 0, which is the most neutral of each.

use allotment::device::{DedicatedNeed, ResourceKind};
use allotment::memory::{BudgetPolicy, Dedicated, ExpectedLifetime, NewBlocks};
use allotment::memory::{FitStrategy, StackSide};
use allotment::{Algorithm, MemoryUsage};

use crate::recording::{Api, Extent, Library, UnreadKind};

pub(super) const fn of_usage(usage: Option<MemoryUsage>) -> u8 {
    match usage {
        None => 0,
        Some(MemoryUsage::GpuOnly) => 1,
        Some(MemoryUsage::Upload) => 2,
        Some(MemoryUsage::Readback) => 3,
        Some(MemoryUsage::DeviceUpload) => 4,
        Some(MemoryUsage::Transient) => 5,
        Some(MemoryUsage::DeviceMapped) => 6,
    }
}

pub(super) const fn usage(code: u8) -> Option<MemoryUsage> {
    Some(match code {
        1 => MemoryUsage::GpuOnly,
        2 => MemoryUsage::Upload,
        3 => MemoryUsage::Readback,
        4 => MemoryUsage::DeviceUpload,
        5 => MemoryUsage::Transient,
        6 => MemoryUsage::DeviceMapped,
        _ => return None,
    })
}

pub(super) const fn of_resource(kind: ResourceKind) -> u8 {
    match kind {
        ResourceKind::Unknown => 0,
        ResourceKind::Buffer => 1,
        ResourceKind::LinearImage => 2,
        ResourceKind::OptimalImage => 3,
    }
}

pub(super) const fn resource(code: u8) -> ResourceKind {
    match code {
        1 => ResourceKind::Buffer,
        2 => ResourceKind::LinearImage,
        3 => ResourceKind::OptimalImage,
        _ => ResourceKind::Unknown,
    }
}

pub(super) const fn of_algorithm(algorithm: Option<Algorithm>) -> u8 {
    match algorithm {
        Some(Algorithm::Tlsf) => 0,
        Some(Algorithm::Buddy) => 1,
        Some(Algorithm::Linear) => 2,
        None => 3,
    }
}

pub(super) const fn algorithm(code: u8) -> Option<Algorithm> {
    Some(match code {
        0 => Algorithm::Tlsf,
        1 => Algorithm::Buddy,
        2 => Algorithm::Linear,
        _ => return None,
    })
}

/// Declares the two directions of enumerations whose first value has the number 0.
macro_rules! both_ways {
    ($($to:ident, $from:ident: $type:ident { $first:ident $(, $other:ident = $code:literal)* })*) => {$(
        pub(super) const fn $to(value: $type) -> u8 {
            match value {
                $type::$first => 0,
                $($type::$other => $code,)*
            }
        }

        pub(super) const fn $from(code: u8) -> $type {
            match code {
                $($code => $type::$other,)*
                _ => $type::$first,
            }
        }
    )*};
}

both_ways! {
    of_dedicated, dedicated: Dedicated { Automatic, Always = 1, Never = 2 }
    of_need, need: DedicatedNeed { None, Preferred = 1, Required = 2 }
    of_new_blocks, new_blocks: NewBlocks { Allowed, NeverAllocate = 1 }
    of_budget, budget: BudgetPolicy { AllowOverBudget, WithinBudget = 1 }
    of_strategy, strategy: FitStrategy { Balanced, LeastTime = 1, LeastMemory = 2, LowestOffset = 3 }
    of_side, side: StackSide { Lower, Upper = 1 }
    of_lifetime, lifetime: ExpectedLifetime { Long, Short = 1 }
    of_library, library: Library {
        Unknown, Allotment = 1, Vma = 2, D3d12MemoryAllocator = 3, GpuAllocator = 4, Wgpu = 5, PyTorch = 6, Driver = 7
    }
    of_extent, extent: Extent { History, Moment = 1 }
    of_unread, unread: UnreadKind {
        Damaged, NotUnderstood = 1, Contradicts = 2, Nothing = 3, Lost = 4, Encoding = 5
    }
}

pub(super) const fn of_api(api: Api) -> u8 {
    match api {
        Api::Other => 0,
        Api::Simulated => 1,
        Api::Vulkan => 2,
        Api::Direct3D12 => 3,
        Api::Cuda => 4,
    }
}

pub(super) const fn api(code: u8) -> Api {
    match code {
        1 => Api::Simulated,
        2 => Api::Vulkan,
        3 => Api::Direct3D12,
        4 => Api::Cuda,
        _ => Api::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_a_number_of_its_own() {
        for value in MemoryUsage::ALL.map(Some).into_iter().chain([None]) {
            assert_eq!(usage(of_usage(value)), value);
        }
        for value in [
            ResourceKind::Buffer,
            ResourceKind::LinearImage,
            ResourceKind::OptimalImage,
            ResourceKind::Unknown,
        ] {
            assert_eq!(resource(of_resource(value)), value);
        }
        for value in Algorithm::ALL.map(Some).into_iter().chain([None]) {
            assert_eq!(algorithm(of_algorithm(value)), value);
        }
        for value in [Api::Other, Api::Simulated, Api::Vulkan, Api::Direct3D12, Api::Cuda] {
            assert_eq!(api(of_api(value)), value);
        }
        for value in [
            FitStrategy::Balanced,
            FitStrategy::LeastTime,
            FitStrategy::LeastMemory,
            FitStrategy::LowestOffset,
        ] {
            assert_eq!(strategy(of_strategy(value)), value);
        }
        for value in [
            Library::Unknown,
            Library::Allotment,
            Library::Vma,
            Library::D3d12MemoryAllocator,
            Library::GpuAllocator,
            Library::Wgpu,
            Library::PyTorch,
            Library::Driver,
        ] {
            assert_eq!(library(of_library(value)), value);
        }
        for value in [Extent::History, Extent::Moment] {
            assert_eq!(extent(of_extent(value)), value);
        }
        for value in UnreadKind::ALL {
            assert_eq!(unread(of_unread(value)), value);
        }
        for value in [DedicatedNeed::None, DedicatedNeed::Preferred, DedicatedNeed::Required] {
            assert_eq!(need(of_need(value)), value);
        }
        for value in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
            assert_eq!(dedicated(of_dedicated(value)), value);
        }
        assert_eq!(
            (usage(99), resource(99), algorithm(99), api(99)),
            (None, ResourceKind::Unknown, None, Api::Other)
        );
    }
}
