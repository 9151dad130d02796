//! Whole call stacks: a tree of calls, each stored once.
//!
//! ```text
//!   1 main ─┬─ 2 load ─── 3 create_texture      an allocation has the innermost of its calls: 3, 4 or 5,
//!           └─ 4 frame ── 5 create_buffer       and the others are its callers
//! ```
//!
//! Programs allocate at the same places again and again, so that a million allocations have some thousand calls in all.

use super::{IdMap, StackId, TextId};

/// A call of a stack: a function, and the place in it that was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// The call that this one was made from. [`StackId::NONE`] of the outermost one.
    pub parent: StackId,
    /// The name of the function.
    pub function: TextId,
    /// `file:line` or `file:line:column`. [`TextId::NONE`] where it is not known.
    pub place: TextId,
}

/// The call stacks of a recording: [`StackId`] `n` is the stack whose innermost call is number `n`, counted from 1.
///
/// ```
/// use allotment_trace::recording::{StackFrame, StackId, Stacks, TextId};
///
/// let mut stacks = Stacks::default();
/// let main = StackFrame { parent: StackId::NONE, function: TextId(1), place: TextId(2) };
/// let main = stacks.push(main).ok_or("there is room")?;
/// let load = StackFrame { parent: main, function: TextId(3), place: TextId(4) };
/// let load = stacks.push(load).ok_or("there is room")?;
/// let functions: Vec<_> = stacks.calls(load).map(|call| call.function).collect();
/// assert_eq!(functions, [TextId(3), TextId(1)], "the innermost first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The parent of each is before it.
    frames: Vec<StackFrame>,
    /// How many calls the stack of each has. As long as `frames`.
    depths: Vec<u16>,
}

impl Stacks {
    /// The most calls of a stack. A deeper one is cut: whoever walks a stack needs so many steps.
    pub const MAX_DEPTH: usize = 1024;
    /// The most calls in all, 64 MiB of memory.
    pub const MAX_CALLS: usize = 1 << 22;

    /// Returns how many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if there are no stacks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns all calls, in the order of their numbers.
    #[must_use]
    pub fn frames(&self) -> &[StackFrame] {
        &self.frames
    }

    /// Returns the innermost call of a stack. `None` for [`StackId::NONE`], and for a stack that is not here.
    #[must_use]
    pub fn frame(&self, stack: StackId) -> Option<&StackFrame> {
        self.frames.get((stack.0 as usize).checked_sub(1)?)
    }

    /// Returns how many calls a stack has.
    #[must_use]
    pub fn depth(&self, stack: StackId) -> usize {
        let index = (stack.0 as usize).checked_sub(1);
        index.and_then(|index| self.depths.get(index)).map_or(0, |&depth| depth.into())
    }

    /// Returns the calls of a stack, the innermost first.
    pub fn calls(&self, stack: StackId) -> impl Iterator<Item = &StackFrame> {
        core::iter::successors(self.frame(stack), |call| self.frame(call.parent))
    }

    /// Adds a call, whether or not there is an equal one. `None` where there are [`MAX_CALLS`](Self::MAX_CALLS), where its
    /// stack has [`MAX_DEPTH`](Self::MAX_DEPTH), and where its parent is not here.
    pub fn push(&mut self, frame: StackFrame) -> Option<StackId> {
        let depth = self.depth(frame.parent) + 1;
        let is_known = frame.parent.is_none() || depth > 1;
        if !is_known || depth > Self::MAX_DEPTH || self.len() >= Self::MAX_CALLS {
            return None;
        }
        self.frames.push(frame);
        self.depths.push(u16::try_from(depth).ok()?);
        Some(StackId(u32::try_from(self.frames.len()).ok()?))
    }
}

/// Finds calls by what they are, so that equal ones are stored once.
#[derive(Clone, Debug, Default)]
pub struct StackNumbers {
    known: IdMap<StackFrame, StackId>,
}

impl StackNumbers {
    /// Returns the stack of a call, which is added to `stacks` if it is new. Where there is [no room](Stacks::push) for it,
    /// that of its parent: the stack is cut.
    ///
    /// `stacks` are the same in each call.
    pub fn number(&mut self, frame: StackFrame, stacks: &mut Stacks) -> StackId {
        if let Some(&known) = self.known.get(&frame) {
            return known;
        }
        let Some(new) = stacks.push(frame) else { return frame.parent };
        self.known.insert(frame, new);
        new
    }
}
