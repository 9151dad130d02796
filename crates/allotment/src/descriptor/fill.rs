//! The contents of descriptors between their allocation and their first write.

/// The contents of descriptors that were allocated and not yet written.
///
/// ```
/// use allotment::descriptor::{DescriptorFill, ShaderVisibleHeapDesc};
///
/// // While the program is developed: a shader that reads too far finds no valid descriptor.
/// let desc = ShaderVisibleHeapDesc::resources().with_fill(DescriptorFill::Poison);
/// assert_eq!(desc.fill, DescriptorFill::Poison);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DescriptorFill {
    /// The previous contents. For callers that write all of the descriptors.
    Leave,
    /// Null descriptors. Needed by shaders that access more of a table than was written (Direct3D 12's resource
    /// binding tiers 1 and 2).
    #[default]
    Null,
    /// Descriptors that cause a detectable error when a shader reads through them, as far as the device can do
    /// that. For debugging.
    Poison,
}
