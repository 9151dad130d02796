//! Direct3D 12.

use super::host::HostFixture;
use crate::runner::Kind;
use crate::suite;

pub(super) fn kind() -> Kind {
    Kind::missing("d3d12", "this build has no Direct3D 12 device", &suite::names::<HostFixture>())
}
