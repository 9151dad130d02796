//! What descriptors hold between their allocation and their first write.

/// What is in descriptors that were handed out and not written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DescriptorFill {
    /// What was there before. For who writes all of them.
    Leave,
    /// Descriptors of nothing. What shaders need that look at more of a table than was written (Direct3D 12's resource
    /// binding tiers 1 and 2).
    #[default]
    Null,
    /// Something that is noticed when a shader reads through it, as far as the device can do that. For debugging.
    Poison,
}
