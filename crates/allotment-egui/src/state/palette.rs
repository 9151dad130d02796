//! Colours: in a dark and a light theme each a standard palette and one for people who see red and green alike. They are
//! those of the HTML report.

use allotment_analyze::{Class, ColourBy, ColourGroups};
use egui::Color32;
use serde::{Deserialize, Serialize};

/// The colours of the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaletteKind {
    /// Free is green, used is red, overhead is yellow, what waits for the GPU is blue.
    #[default]
    Standard,
    /// Told apart by lightness as well: with protanopia, deuteranopia and tritanopia, and in grey.
    ColourBlind,
}

/// The colours of a theme and a palette.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) free: Color32,
    pub(crate) used: Color32,
    pub(crate) overhead: Color32,
    pub(crate) padding: Color32,
    pub(crate) pending: Color32,
    /// Between the stripes of what waits for the GPU.
    pub(crate) pending_ground: Color32,
    /// The stripes of a move's range.
    pub(crate) moving: Color32,
    /// Text on used bytes.
    pub(crate) on_used: Color32,
    /// Between two allocations.
    pub(crate) edge: Color32,
    pub(crate) budget: Color32,
    pub(crate) alarm: Color32,
    pub(crate) stall: Color32,
    pub(crate) accent: Color32,
    /// The cursor, and the outline of what is selected.
    pub(crate) cursor: Color32,
    pub(crate) grid: Color32,
    pub(crate) muted: Color32,
    /// Text.
    pub(crate) ink: Color32,
    /// Behind blocks and charts.
    pub(crate) ground: Color32,
    /// Less bytes than before.
    pub(crate) less: Color32,
    /// Free bytes beside groups of many colours, one of which may be green.
    pub(crate) free_beside_groups: Color32,
    /// Groups that have nothing to do with each other.
    groups: [Color32; 10],
    /// The last of many groups: all others.
    others: Color32,
    /// Groups from little to much.
    scale: [Color32; 6],
}

/// Groups on a light and on a dark ground. Text is dark or light by what it stands on.
const LIGHT_GROUPS: [u32; 10] =
    [0x3b78b5, 0xe0812b, 0x8a63b8, 0x2f9c95, 0xc94f7c, 0x7a9a2e, 0x9c6b4e, 0x5bb0e0, 0xd9b21f, 0x56657a];
const DARK_GROUPS: [u32; 10] =
    [0x5b9bd8, 0xf0954a, 0xa988d6, 0x45b8b0, 0xe0709c, 0x9dbd4e, 0xba8768, 0x8fd0f5, 0xe8c94a, 0x8797ad];
/// Those of Okabe and Ito, and two that differ from them in lightness.
const COLOUR_BLIND_GROUPS: [u32; 10] =
    [0x0072b2, 0xe69f00, 0x56b4e9, 0xd55e00, 0x009e73, 0xf0e442, 0xcc79a7, 0x7a1f4b, 0xb8e0d2, 0x5f4bb6];
/// From viridis, whose steps differ in lightness for everybody. What is much stands out from the ground.
const LIGHT_SCALE: [u32; 6] = [0xe9dc4a, 0x9acb4c, 0x3fae7a, 0x2b868c, 0x39588c, 0x45125f];
const DARK_SCALE: [u32; 6] = [0x5a4a94, 0x4272a8, 0x2f9a92, 0x57b96a, 0xa9d24a, 0xfde940];

const fn rgb(code: u32) -> Color32 {
    Color32::from_rgb((code >> 16) as u8, (code >> 8) as u8, code as u8)
}

impl Palette {
    pub(crate) fn new(kind: PaletteKind, dark: bool) -> Self {
        let mut palette = if dark { Self::dark() } else { Self::light() };
        if kind == PaletteKind::ColourBlind {
            let [free, used, overhead, padding, pending, pending_ground, budget, on_used] = if dark {
                [0x24424f, 0xe8752a, 0xf4e07a, 0x857b46, 0x8cc9ff, 0x123456, 0xcdb4f2, 0x1c0d00]
            } else {
                [0xcfe6f1, 0xa63d00, 0xf2cf2e, 0xfbf0b8, 0x0069ad, 0xe3eefb, 0x6b3fa0, 0xffffff]
            }
            .map(rgb);
            let groups = COLOUR_BLIND_GROUPS.map(rgb);
            palette = Self {
                free,
                used,
                overhead,
                padding,
                pending,
                pending_ground,
                budget,
                on_used,
                groups,
                ..palette
            };
        }
        palette
    }

    fn light() -> Self {
        Self {
            free: rgb(0xb5ddb9),
            used: rgb(0xd0574e),
            overhead: rgb(0xecc344),
            padding: rgb(0xf6e6ad),
            pending: rgb(0x3b7dd0),
            pending_ground: rgb(0xd6e6f8),
            moving: rgb(0x8a6a00),
            on_used: rgb(0xffffff),
            edge: Color32::from_rgba_premultiplied(6, 8, 11, 71),
            budget: rgb(0x7a4fb5),
            alarm: rgb(0xc02f26),
            stall: rgb(0xd98324),
            accent: rgb(0x2763ad),
            cursor: rgb(0x111a24),
            grid: rgb(0xe0e5ea),
            muted: rgb(0x5a6775),
            ink: rgb(0x1a222c),
            ground: rgb(0xffffff),
            less: rgb(0x2c8a4b),
            free_beside_groups: rgb(0xe3e8ec),
            groups: LIGHT_GROUPS.map(rgb),
            others: rgb(0xb3bbc4),
            scale: LIGHT_SCALE.map(rgb),
        }
    }

    fn dark() -> Self {
        Self {
            free: rgb(0x2c5538),
            used: rgb(0xcf5b52),
            overhead: rgb(0xd9b23b),
            padding: rgb(0x7d7136),
            pending: rgb(0x69a7ee),
            pending_ground: rgb(0x1d3550),
            moving: rgb(0x4d3c00),
            on_used: rgb(0xffffff),
            edge: Color32::from_rgba_premultiplied(4, 6, 8, 140),
            budget: rgb(0xb795ea),
            alarm: rgb(0xff8378),
            stall: rgb(0xeba354),
            accent: rgb(0x73aff2),
            cursor: rgb(0xffffff),
            grid: rgb(0x2a333c),
            muted: rgb(0x9ca9b6),
            ink: rgb(0xe6ebf1),
            ground: rgb(0x12161b),
            less: rgb(0x6cc58a),
            free_beside_groups: rgb(0x262c33),
            groups: DARK_GROUPS.map(rgb),
            others: rgb(0x59636e),
            scale: DARK_SCALE.map(rgb),
        }
    }

    /// The colour of a class's bytes, and that of stripes over it.
    pub(crate) const fn of(&self, class: Class) -> (Color32, Option<Color32>) {
        match class {
            Class::Free => (self.free, None),
            Class::Rounding => (self.overhead, None),
            Class::Reserved => (self.overhead, Some(self.moving)),
            Class::Pending => (self.pending_ground, Some(self.pending)),
            Class::Used => (self.used, None),
        }
    }

    /// The colour of a group, and that of stripes over it.
    pub(crate) fn of_group(&self, groups: &ColourGroups, group: usize) -> (Color32, Option<Color32>) {
        let state = [Class::Used, Class::Pending, Class::Reserved];
        match groups.by() {
            ColourBy::State => self.of(state[group.min(2)]),
            _ if groups.is_others(group) => (self.others, None),
            by if by.is_scale() => {
                let steps = groups.len().max(2) - 1;
                (self.scale[group.min(steps) * (self.scale.len() - 1) / steps], None)
            }
            _ => (self.groups[group % self.groups.len()], None),
        }
    }

    /// The colour of what is not picked, or what a search does not mean.
    pub(crate) fn dimmed(&self, colour: Color32) -> Color32 {
        colour.lerp_to_gamma(self.ground, 0.8)
    }

    /// The colour of a text on a group.
    pub(crate) fn on_group(&self, colour: Color32) -> Color32 {
        let [red, green, blue, _] = colour.to_array().map(f32::from);
        if 0.299 * red + 0.587 * green + 0.114 * blue > 140.0 { rgb(0x10151b) } else { rgb(0xffffff) }
    }
}
