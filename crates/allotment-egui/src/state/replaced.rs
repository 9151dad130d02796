//! What was selected and visible, in a recording that follows the one so far.

use allotment_analyze::{AllocationIndex, BlockIndex, Scope, TimeAxis, Timeline};

use super::{Selection, Span};
use crate::loaded::Moved;

/// The recording so far, the one that follows it, and where the events are.
#[derive(Clone, Copy)]
pub(super) struct Replaced<'a> {
    pub(super) old: &'a Timeline<'a>,
    pub(super) new: &'a Timeline<'a>,
    pub(super) moved: Moved,
}

impl Replaced<'_> {
    /// The same part of the time. A part that ends with the recording goes on with it if `follows`.
    pub(super) fn time(&self, axis: TimeAxis, span: Span, follows: bool) -> Span {
        if span.is_whole() {
            return span;
        }
        let (before, length) = (axis.length(self.old), axis.length(self.new));
        let value = |share: f64| match self.moved.is_none() {
            true => share * before,
            false => {
                let position = self.moved.position(axis.position(self.old, share * before));
                axis.value(self.new, position)
            }
        };
        let (from, to) = (value(span.from) / length, value(span.to) / length);
        let mut shown = span;
        shown.show(if follows && span.to >= 1.0 { 1.0 - (to - from) } else { from }, to - from);
        shown
    }

    /// The same selection; `None` if it is of what was forgotten.
    pub(super) fn selection(&self, selected: Selection) -> Option<Selection> {
        if self.moved.is_none() {
            return Some(selected);
        }
        Some(match selected {
            Selection::Allocation(allocation) => Selection::Allocation(self.allocation(allocation)?),
            Selection::Free { block, start, end } => {
                Selection::Free { block: self.block(block)?, start, end }
            }
            Selection::Block(block) => Selection::Block(self.block(block)?),
        })
    }

    /// The same blocks; all of them if they are forgotten.
    pub(super) fn scope(&self, scope: Scope) -> Scope {
        if self.moved.is_none() {
            return scope;
        }
        match scope {
            Scope::Block(block) => self.block(block).map_or(Scope::All, Scope::Block),
            Scope::Pool(pool) => {
                let id = self.old.pool_info(pool).map(|(id, _)| id);
                let is_same = |&new: &_| self.new.pool_info(new).map(|(id, _)| id) == id;
                self.new.pools().find(is_same).map_or(Scope::All, Scope::Pool)
            }
            Scope::All | Scope::Heap(_) | Scope::MemoryType(_) => scope,
        }
    }

    fn allocation(&self, allocation: AllocationIndex) -> Option<AllocationIndex> {
        let key = |timeline: &Timeline<'_>, of, allocated| {
            timeline.allocation_at(of, allocated + 1).map(|live| live.is.allocation)
        };
        let allocated = self.old.lifetime(allocation).allocated;
        let same = key(self.old, allocation, allocated)?;
        let kept = self.moved.keeps(allocated).then(|| self.moved.position(allocated));
        // What is older was told again, before the first event that is kept.
        let first = self.moved.position(0);
        self.new
            .lifetimes()
            .find(|&(new, life)| match kept {
                Some(at) => life.allocated == at,
                None => life.allocated < first && key(self.new, new, life.allocated) == Some(same),
            })
            .map(|(new, _)| new)
    }

    fn block(&self, block: BlockIndex) -> Option<BlockIndex> {
        let id = self.old.block_info(block).id;
        self.new.blocks().find(|&new| self.new.block_info(new).id == id)
    }
}
