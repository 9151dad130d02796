//! The passes of a deferred renderer and what they draw to.

/// How large a target is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The screen's sides, divided by this.
    Screen(u32),
    /// A square of this side, whatever the screen is.
    Square(u32),
}

/// What a texel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    R8,
    Rgba8,
    Rgba16F,
    R32F,
    Depth,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Image(Format, Side),
    /// Of so many bytes.
    Buffer(u64),
}

/// A transient resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    /// On the queue for compute, beside the graphics queue.
    pub(crate) is_async: bool,
    /// Passes on the other queue that it waits for.
    pub(crate) waits_for: &'static [&'static str],
    pub(crate) reads: &'static [&'static str],
    /// What it reads that the frame before has left.
    pub(crate) reads_before: &'static [&'static str],
    /// What it overwrites.
    pub(crate) writes: &'static [&'static str],
}

const fn image(name: &'static str, format: Format, divisor: u32) -> Target {
    Target { name, kind: Kind::Image(format, Side::Screen(divisor)) }
}

const fn shadow(name: &'static str) -> Target {
    Target { name, kind: Kind::Image(Format::Depth, Side::Square(1024)) }
}

const fn buffer(name: &'static str, bytes: u64) -> Target {
    Target { name, kind: Kind::Buffer(bytes) }
}

pub(crate) const TARGETS: &[Target] = &[
    image("depth", Format::Depth, 1),
    image("linear depth", Format::R32F, 1),
    image("albedo", Format::Rgba8, 1),
    image("normals", Format::Rgba8, 1),
    image("material", Format::Rgba8, 1),
    image("motion", Format::Rgba8, 1),
    image("emission", Format::Rgba16F, 1),
    shadow("cascade 0"),
    shadow("cascade 1"),
    shadow("cascade 2"),
    shadow("cascade 3"),
    image("shadow mask", Format::R8, 1),
    image("raw occlusion", Format::R8, 2),
    image("occlusion", Format::R8, 2),
    buffer("lights", 1 << 20),
    buffer("light lists", 4 << 20),
    image("lit", Format::Rgba16F, 1),
    image("sky", Format::Rgba16F, 2),
    image("reflected rays", Format::Rgba16F, 2),
    image("reflections", Format::Rgba16F, 1),
    image("fog", Format::Rgba16F, 4),
    image("shaded", Format::Rgba16F, 1),
    image("with particles", Format::Rgba16F, 1),
    image("resolved", Format::Rgba16F, 1),
    image("history", Format::Rgba16F, 1),
    image("near field", Format::Rgba16F, 2),
    image("far field", Format::Rgba16F, 2),
    image("near blurred", Format::Rgba16F, 2),
    image("far blurred", Format::Rgba16F, 2),
    image("with depth of field", Format::Rgba16F, 1),
    image("bloom 1", Format::Rgba16F, 2),
    image("bloom 2", Format::Rgba16F, 4),
    image("bloom 3", Format::Rgba16F, 8),
    image("bloom 4", Format::Rgba16F, 16),
    image("bloom 3 up", Format::Rgba16F, 8),
    image("bloom 2 up", Format::Rgba16F, 4),
    image("bloom 1 up", Format::Rgba16F, 2),
    buffer("exposure", 4096),
    image("mapped", Format::Rgba8, 1),
    image("smooth", Format::Rgba8, 1),
    image("edges", Format::Rgba8, 1),
];

/// What a frame leaves for the next one.
pub(crate) const HISTORIES: &[&str] = &["history"];

const fn pass(name: &'static str, reads: &'static [&'static str], writes: &'static [&'static str]) -> Pass {
    Pass { name, is_async: false, waits_for: &[], reads, reads_before: &[], writes }
}

pub(crate) const PASSES: &[Pass] = &[
    pass("depth", &[], &["depth"]),
    pass("linear depth", &["depth"], &["linear depth"]),
    pass("geometry", &[], &["albedo", "normals", "material", "motion", "emission"]),
    // While the graphics queue draws the shadows:
    Pass {
        is_async: true,
        waits_for: &["geometry"],
        ..pass("occlusion", &["linear depth", "normals"], &["raw occlusion"])
    },
    Pass { is_async: true, ..pass("occlusion, blurred", &["raw occlusion"], &["occlusion"]) },
    Pass { is_async: true, ..pass("light lists", &["linear depth"], &["lights", "light lists"]) },
    pass("cascade 0", &[], &["cascade 0"]),
    pass("cascade 1", &[], &["cascade 1"]),
    pass("cascade 2", &[], &["cascade 2"]),
    pass("cascade 3", &[], &["cascade 3"]),
    pass(
        "shadow mask",
        &["linear depth", "cascade 0", "cascade 1", "cascade 2", "cascade 3"],
        &["shadow mask"],
    ),
    pass("sky", &[], &["sky"]),
    Pass {
        waits_for: &["light lists"],
        ..pass(
            "lighting",
            &[
                "albedo",
                "normals",
                "material",
                "emission",
                "shadow mask",
                "occlusion",
                "lights",
                "light lists",
            ],
            &["lit"],
        )
    },
    pass("rays", &["lit", "normals", "linear depth"], &["reflected rays"]),
    pass("reflections", &["reflected rays", "material"], &["reflections"]),
    pass("fog", &["linear depth", "cascade 0", "lights"], &["fog"]),
    pass("shading", &["lit", "reflections", "fog", "sky"], &["shaded"]),
    pass("particles", &["shaded", "linear depth"], &["with particles"]),
    Pass { reads_before: &["history"], ..pass("temporal", &["with particles", "motion"], &["resolved"]) },
    pass("history", &["resolved"], &["history"]),
    pass("depth of field", &["resolved", "linear depth"], &["near field", "far field"]),
    pass("blur", &["near field", "far field"], &["near blurred", "far blurred"]),
    pass("focus", &["resolved", "near blurred", "far blurred"], &["with depth of field"]),
    pass("exposure", &["with depth of field"], &["exposure"]),
    pass("bloom 1", &["with depth of field"], &["bloom 1"]),
    pass("bloom 2", &["bloom 1"], &["bloom 2"]),
    pass("bloom 3", &["bloom 2"], &["bloom 3"]),
    pass("bloom 4", &["bloom 3"], &["bloom 4"]),
    pass("bloom 3, up", &["bloom 4", "bloom 3"], &["bloom 3 up"]),
    pass("bloom 2, up", &["bloom 3 up", "bloom 2"], &["bloom 2 up"]),
    pass("bloom 1, up", &["bloom 2 up", "bloom 1"], &["bloom 1 up"]),
    pass("tone mapping", &["with depth of field", "bloom 1 up", "exposure"], &["mapped"]),
    pass("edges", &["mapped"], &["edges"]),
    pass("antialiasing", &["mapped", "edges"], &["smooth"]),
    pass("presentation", &["smooth"], &[]),
];
