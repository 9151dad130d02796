//! Vulkan.

use super::host::HostFixture;
use crate::runner::Kind;
use crate::suite;

pub(super) fn kind() -> Kind {
    Kind::missing("vulkan", "this build has no Vulkan device", &suite::names::<HostFixture>())
}
