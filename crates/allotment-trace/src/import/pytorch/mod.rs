//! PyTorch memory snapshots: what `torch.cuda.memory._dump_snapshot` saves, as a pickle.
//!
//! A snapshot has the final state (segments and their blocks) and, if the program recorded a history, the last events
//! of each device: a ring, whose beginning is lost in a long run. The state before the first event that was kept is
//! found by walking backwards from the final one ([`backwards`]): each event is undone. Then the events are written
//! forwards ([`forwards`]). So everything is exact from the first kept event to the end.
//!
//! | in the snapshot | becomes |
//! |---|---|
//! | a segment; `segment_alloc`, `segment_free` | a block, in a pool for each device, stream, private pool and size class |
//! | an expandable segment; `segment_map`, `segment_unmap` | a block that is resized, from the lowest address it ever has to the highest mapped one |
//! | `alloc`; a block that is not inactive | an allocation, with the place of the program in its stack |
//! | `free_requested`, `free_completed` | its release, and its end |
//! | `oom` | a refusal |
//! | `snapshot`, `user_defined` | a mark |
//! | another action | a mark, and [unread](crate::recording::Recording::unread) |
//!
//! The history has requested sizes, and the final state also what a block occupies. Of what was freed before the end
//! only the former is known: PyTorch rounds it up to 512 bytes, which is what is assumed. (It gives some blocks more: a
//! rest of up to 1 MiB of a large segment is not split off.)

mod backwards;
mod forwards;
mod pickle;
mod snapshot;

use super::ImportError;
use super::builder::Builder;
use super::limits::Budget;
use super::source::Source;
use crate::recording::Recording;
use forwards::Forwards;
use snapshot::Snapshot;

pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Recording, ImportError> {
    source.limit(budget.limits().document_bytes);
    let pickle = pickle::read(source, budget)?;
    let whole = |kind| ImportError::new(None, kind);
    let mut builder = Builder::new(budget);
    let snapshot = Snapshot::parse(&pickle, budget, &mut builder).map_err(whole)?;
    let before = backwards::walk(&snapshot, budget).map_err(whole)?;
    Forwards::new(&pickle, &snapshot, builder).run(&before).map_err(whole)
}
