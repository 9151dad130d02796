//! Submissions, and how far the program knows that the GPU is.
//!
//! A capture has no completions, but its waits prove them: a fence that was waited for means that its submission, and
//! all earlier ones of the queue, had completed.

use std::collections::HashMap;

use serde::Deserialize;

use allotment::device::QueueIndex;
use allotment::events::Event;

use super::super::builder::Builder;
use super::CallError;
use super::json::Num;

/// The memory of a fence in the table, about.
const FENCE_BYTES: usize = 64;

#[derive(Default)]
pub(super) struct Queues {
    /// By handle: the index in events.
    index: HashMap<u64, u8>,
    /// By index: the last submitted and the last completed value.
    values: Vec<(u64, u64)>,
    /// The submission that signals a fence.
    fences: HashMap<u64, (u8, u64)>,
}

#[derive(Deserialize)]
struct Submit {
    queue: Num,
    #[serde(default)]
    fence: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wait {
    #[serde(default)]
    p_fences: Option<Vec<Num>>,
    #[serde(default)]
    wait_all: Num,
}

#[derive(Deserialize)]
struct One {
    #[serde(default)]
    queue: Num,
    #[serde(default)]
    fence: Num,
}

impl Queues {
    pub(super) fn submit(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: Submit = serde_json::from_str(args)?;
        self.submitted(args.queue.0, args.fence.0, builder)
    }

    /// Notes a submission, and the fence that it signals, if any.
    pub(super) fn submitted(
        &mut self,
        queue: u64,
        fence: u64,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        let Some(queue) = self.index_of(queue) else { return Ok(()) };
        let value = &mut self.values[usize::from(queue)].0;
        *value += 1;
        let value = *value;
        if fence != 0 && self.fences.insert(fence, (queue, value)).is_none() {
            builder.budget.charge(FENCE_BYTES)?;
        }
        builder.push(Event::Submitted { queue: QueueIndex(queue), value })?;
        Ok(())
    }

    /// A wait for fences succeeded.
    pub(super) fn waited(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: Wait = serde_json::from_str(args)?;
        let fences = args.p_fences.unwrap_or_default();
        // Of several fences, a wait for any of them does not say which one.
        if args.wait_all.0 != 0 || fences.len() == 1 {
            for fence in fences {
                self.signalled(fence.0, builder)?;
            }
        }
        Ok(())
    }

    /// A fence was found to be signalled.
    pub(super) fn fence_status(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: One = serde_json::from_str(args)?;
        self.signalled(args.fence.0, builder)
    }

    pub(super) fn fence_destroyed(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: One = serde_json::from_str(args)?;
        if self.fences.remove(&args.fence.0).is_some() {
            builder.budget.refund(FENCE_BYTES);
        }
        Ok(())
    }

    /// A wait for a queue succeeded.
    pub(super) fn queue_idle(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: One = serde_json::from_str(args)?;
        if let Some(&queue) = self.index.get(&args.queue.0) {
            self.completed(queue, self.values[usize::from(queue)].0, builder)?;
        }
        Ok(())
    }

    /// A wait for the device succeeded.
    pub(super) fn device_idle(&mut self, builder: &mut Builder<'_>) -> Result<(), CallError> {
        for queue in 0..self.values.len() {
            self.completed(queue as u8, self.values[queue].0, builder)?;
        }
        Ok(())
    }

    /// Returns how many submissions a queue had.
    pub(super) fn last(&self, queue: u64) -> Option<u64> {
        self.index.get(&queue).map(|&queue| self.values[usize::from(queue)].0)
    }

    /// The first `value` submissions of a queue are complete.
    pub(super) fn completed_of(
        &mut self,
        queue: u64,
        value: u64,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        match self.index.get(&queue) {
            Some(&queue) => self.completed(queue, value, builder),
            None => Ok(()),
        }
    }

    fn signalled(&mut self, fence: u64, builder: &mut Builder<'_>) -> Result<(), CallError> {
        match self.fences.get(&fence) {
            Some(&(queue, value)) => self.completed(queue, value, builder),
            None => Ok(()),
        }
    }

    fn completed(&mut self, queue: u8, value: u64, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let known = &mut self.values[usize::from(queue)].1;
        if value > *known {
            *known = value;
            builder.push(Event::Completed { queue: QueueIndex(queue), value })?;
        }
        Ok(())
    }

    /// Returns the index of a queue. `None` beyond 256 queues, which no device has.
    fn index_of(&mut self, handle: u64) -> Option<u8> {
        if let Some(&known) = self.index.get(&handle) {
            return Some(known);
        }
        let new = u8::try_from(self.values.len()).ok()?;
        self.values.push((0, 0));
        self.index.insert(handle, new);
        Some(new)
    }
}
