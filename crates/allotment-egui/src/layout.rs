//! The panes, and their places at first.

use egui_tiles::{Container, Linear, LinearDir, Tile, TileId, Tiles, Tree};
use serde::{Deserialize, Serialize};

/// A pane. A saved layout has its name, so the names of variants stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PaneKind {
    /// The blocks and what is where in them.
    BlockMap,
    /// Memory over time, with the cursor.
    Timeline,
    /// The selected object, and its history.
    Details,
    /// The allocations as a table.
    Table,
    /// Allocations that nothing freed, by what made them.
    Leaks,
    /// Which calls allocated what, as a flame graph.
    Calls,
    /// Fourteen questions about when allocations began and ended.
    Lifetimes,
    /// The changes between two moments.
    Difference,
    /// Free ranges by size, and fragmentation over time.
    FreeRanges,
    /// The time for which the GPU kept released memory.
    ReleaseLatency,
    /// Resources that share memory, over time; and allocations that share bytes, in lanes.
    Aliasing,
    /// The fill of descriptor heaps.
    Descriptors,
    /// Suggested changes.
    Advice,
    /// The moves of a defragmentation before it runs, and its gain.
    Defragmentation,
    /// Other settings of the allocator, tried with the recorded requests.
    WhatIf,
    /// The memory that would do if all lifetimes had been known, and where everything would be.
    Planned,
}

impl PaneKind {
    /// All panes.
    pub const ALL: [Self; 16] = [
        Self::BlockMap,
        Self::Timeline,
        Self::Details,
        Self::Table,
        Self::Leaks,
        Self::Lifetimes,
        Self::Difference,
        Self::FreeRanges,
        Self::ReleaseLatency,
        Self::Aliasing,
        Self::Descriptors,
        Self::Advice,
        Self::Defragmentation,
        Self::WhatIf,
        Self::Planned,
        Self::Calls,
    ];

    /// Returns true if the pane is about time. A dump of one moment does not have it.
    #[must_use]
    pub const fn needs_history(self) -> bool {
        match self {
            Self::BlockMap | Self::Details | Self::Table | Self::Calls | Self::FreeRanges => false,
            Self::Descriptors | Self::Advice | Self::Defragmentation => false,
            Self::Timeline | Self::Leaks | Self::Lifetimes | Self::Difference | Self::ReleaseLatency => true,
            Self::Aliasing | Self::WhatIf | Self::Planned => true,
        }
    }

    /// Returns the heading of its tab.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::BlockMap => "Blocks",
            Self::Timeline => "Memory over time",
            Self::Details => "Details",
            Self::Table => "Allocations",
            Self::Leaks => "Never freed",
            Self::Calls => "Calls",
            Self::Lifetimes => "Lifetimes",
            Self::Difference => "Compare A and B",
            Self::FreeRanges => "Free ranges",
            Self::ReleaseLatency => "Release latency",
            Self::Aliasing => "Aliasing",
            Self::Descriptors => "Descriptor heaps",
            Self::Advice => "Advice",
            Self::Defragmentation => "Defragmentation",
            Self::WhatIf => "What if",
            Self::Planned => "Planned offline",
        }
    }
}

/// The panes that are lists, in tabs at the bottom.
const LISTS: [PaneKind; 13] = [
    PaneKind::Table,
    PaneKind::Leaks,
    PaneKind::Calls,
    PaneKind::Difference,
    PaneKind::Lifetimes,
    PaneKind::FreeRanges,
    PaneKind::ReleaseLatency,
    PaneKind::Aliasing,
    PaneKind::Descriptors,
    PaneKind::Advice,
    PaneKind::Defragmentation,
    PaneKind::WhatIf,
    PaneKind::Planned,
];

/// Time above, then the blocks beside the details, then the lists.
pub(crate) fn initial() -> Tree<PaneKind> {
    let mut tiles = Tiles::default();
    let timeline = tabs(&mut tiles, &[PaneKind::Timeline]);
    let map = tabs(&mut tiles, &[PaneKind::BlockMap]);
    let details = tabs(&mut tiles, &[PaneKind::Details]);
    let lists = tabs(&mut tiles, &LISTS);
    let middle = linear(&mut tiles, LinearDir::Horizontal, &[(map, 3.1), (details, 1.0)]);
    let root = linear(&mut tiles, LinearDir::Vertical, &[(timeline, 1.15), (middle, 1.7), (lists, 1.15)]);
    Tree::new(egui::Id::unique("allotment analyzer"), root, tiles)
}

/// Panes side by side, the first of them three times as wide as each of the others.
pub(crate) fn side_by_side(panes: &[PaneKind]) -> Tree<PaneKind> {
    let mut tiles = Tiles::default();
    let shares = core::iter::once(3.0).chain(core::iter::repeat(1.0));
    let parts: Vec<_> = panes.iter().map(|&pane| tabs(&mut tiles, &[pane])).zip(shares).collect();
    let root = linear(&mut tiles, LinearDir::Horizontal, &parts);
    Tree::new(egui::Id::unique("allotment analyzer"), root, tiles)
}

/// Leaves out the panes that are about time where there is none. They keep their places for the next recording.
pub(crate) fn show_time(tree: &mut Tree<PaneKind>, has_history: bool) {
    let about_time = tree.tiles.iter().filter_map(|(&id, tile)| match tile {
        Tile::Pane(pane) if pane.needs_history() => Some(id),
        _ => None,
    });
    for id in about_time.collect::<Vec<_>>() {
        tree.tiles.set_visible(id, has_history);
    }
}

/// Shows a pane: in front of the others of its tabs, or in new ones where it was closed.
pub(crate) fn open(tree: &mut Tree<PaneKind>, pane: PaneKind) {
    if tree.make_active(|_, tile| matches!(tile, Tile::Pane(kind) if *kind == pane)) {
        return;
    }
    let new = tree.tiles.insert_pane(pane);
    // Beside another list, where there is one.
    let beside = tree.tiles.iter().find_map(|(&id, tile)| match tile {
        Tile::Container(Container::Tabs(tabs)) => {
            let is_list = |child: &TileId| {
                matches!(tree.tiles.get(*child), Some(Tile::Pane(kind)) if LISTS.contains(kind))
            };
            tabs.children.iter().any(is_list).then_some(id)
        }
        _ => None,
    });
    match (beside, tree.root()) {
        (Some(tabs), _) => tree.move_tile_to_container(new, tabs, usize::MAX, false),
        (None, Some(root)) => {
            let tab = tree.tiles.insert_tab_tile(vec![new]);
            let root = linear(&mut tree.tiles, LinearDir::Vertical, &[(root, 3.0), (tab, 1.0)]);
            tree.root = Some(root);
        }
        (None, None) => tree.root = Some(tree.tiles.insert_tab_tile(vec![new])),
    }
    tree.make_active(|_, tile| matches!(tile, Tile::Pane(kind) if *kind == pane));
}

fn tabs(tiles: &mut Tiles<PaneKind>, panes: &[PaneKind]) -> TileId {
    let panes = panes.iter().map(|&pane| tiles.insert_pane(pane)).collect();
    tiles.insert_tab_tile(panes)
}

fn linear(tiles: &mut Tiles<PaneKind>, direction: LinearDir, parts: &[(TileId, f32)]) -> TileId {
    let mut linear = Linear::new(direction, parts.iter().map(|&(tile, _)| tile).collect());
    for &(tile, share) in parts {
        linear.shares.set_share(tile, share);
    }
    tiles.insert_container(linear)
}
