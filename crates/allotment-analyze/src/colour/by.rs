//! What colours tell apart.

/// What the colours of a map and the bands of a timeline tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColourBy {
    /// Whether the program uses an allocation, or has released it, or whether it is a move's.
    #[default]
    State,
    /// The kind of resource.
    Kind,
    /// The category.
    Category,
    /// The pool of the block that it is in.
    Pool,
    /// The name up to its first digit.
    NameGroup,
    /// The call site.
    CallSite,
    /// The requested bytes.
    Size,
    /// The time since it was allocated: frames, or events where the recording has no frames.
    Age,
    /// The time from its allocation to its end.
    Lifetime,
    /// Whether the library may move it, and whether it did.
    Movability,
}

impl ColourBy {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::State,
        Self::Kind,
        Self::Category,
        Self::Pool,
        Self::NameGroup,
        Self::CallSite,
        Self::Size,
        Self::Age,
        Self::Lifetime,
        Self::Movability,
    ];

    /// Returns what it is, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Kind => "kind",
            Self::Category => "category",
            Self::Pool => "pool",
            Self::NameGroup => "name before digits",
            Self::CallSite => "call site",
            Self::Size => "size",
            Self::Age => "age",
            Self::Lifetime => "lifetime",
            Self::Movability => "movability",
        }
    }

    /// Returns true where the groups are about time, which a dump of one moment does not have.
    #[must_use]
    pub const fn needs_history(self) -> bool {
        matches!(self, Self::Age | Self::Lifetime)
    }

    /// Returns true where the groups are steps of a scale, from little to much. Their colours are one as well.
    #[must_use]
    pub const fn is_scale(self) -> bool {
        matches!(self, Self::Size | Self::Age | Self::Lifetime)
    }
}
