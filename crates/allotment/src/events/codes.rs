//! The enumerations of events. Each has a number, which files contain: a number never changes its meaning.

/// Declares an enumeration whose variants have fixed numbers, and the conversions.
macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant = $code,)*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the number that stands for it in files.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// Returns the one with a number.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $text,)*
                })
            }
        }
    };
}

codes! {
    /// Why an allocation is where it is.
    Placement {
        /// The event does not say.
        Unknown = 0, "not known";
        /// It was allocated before the events began.
        Existing = 1, "allocated before the recording began";
        /// A range of about its size had just been freed.
        ReusedRange = 2, "a range that had just been freed";
        /// A block that was there had room.
        ExistingBlock = 3, "a block that had room";
        /// No block had room, so the driver allocated one.
        NewBlock = 4, "a new block";
        /// A block came from another thread's copy of the pool.
        LentBlock = 5, "an empty block of another shard";
        /// It has a block of its own, because it is large.
        DedicatedBlock = 6, "a dedicated block";
        /// It has a block of its own, because its resource or its request demanded it.
        DedicatedToResource = 7, "a block dedicated to its resource";
        /// It is the destination of a move.
        Destination = 8, "the destination of a move";
    }
}

codes! {
    /// What a block is for.
    BlockKind {
        /// Allocations share it.
        Shared = 0, "shared";
        /// It has the size of one large allocation. Freed, it is cached for another of about its size.
        Dedicated = 1, "dedicated";
        /// It is freed with the one resource that it was allocated for.
        DedicatedToResource = 2, "dedicated to a resource";
    }
}

codes! {
    /// Why a request was refused.
    RefusalReason {
        /// Another reason.
        Other = 0, "another reason";
        /// The heap's budget allows no more.
        OverBudget = 1, "over the budget";
        /// The program's own limit for the heap allows no more.
        HeapLimit = 2, "over the program's limit";
        /// The driver has no more memory.
        OutOfMemory = 3, "out of memory";
        /// There is no room, and the request forbids a new block.
        WouldGrow = 4, "no room without a new block";
        /// The pool has as many blocks as it may have.
        PoolFull = 5, "the pool has all its blocks";
        /// The driver allows no more memory objects.
        TooManyBlocks = 6, "too many memory objects";
        /// No memory type suits.
        NoMemoryType = 7, "no memory type suits";
    }
}

codes! {
    /// What a thread waited for.
    StallKind {
        /// A call of the driver that allocates or frees memory.
        DriverCall = 0, "a driver call";
        /// The GPU, because all frames in flight were in use.
        FramesInFlight = 1, "frames in flight";
        /// The GPU, for another reason.
        Gpu = 2, "the GPU";
    }
}

codes! {
    /// What descriptors a heap holds.
    DescriptorKind {
        /// Buffers and images, for shaders.
        ShaderVisibleResources = 0, "shader-visible resources";
        /// Samplers, for shaders.
        ShaderVisibleSamplers = 1, "shader-visible samplers";
        /// Buffers and images, for copies by the CPU.
        CpuResources = 2, "CPU resources";
        /// Samplers, for copies by the CPU.
        CpuSamplers = 3, "CPU samplers";
        /// Render targets.
        RenderTargets = 4, "render targets";
        /// Depth and stencil targets.
        DepthStencils = 5, "depth-stencil targets";
    }
}

codes! {
    /// What a ring is for.
    RingKind {
        /// From the CPU to the GPU.
        Upload = 0, "upload";
        /// From the GPU to the CPU.
        Readback = 1, "readback";
        /// The staging memory of uploads.
        Staging = 2, "staging";
    }
}

codes! {
    /// What a deletion queue holds.
    DeletionQueueKind {
        /// Buffers and images.
        Resources = 0, "resources";
        /// Other objects.
        Objects = 1, "objects";
    }
}
