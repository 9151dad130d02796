//! What of a file was not read, with what the index leaves out.

use allotment_trace::recording::{Event, Unread, UnreadKind};

use super::Timeline;

impl Timeline<'_> {
    /// Returns all of the file that was not read: what its [reader](allotment_trace::recording::Recording::unread) says, and
    /// events that are left out, events that the program lost, and that there is nothing about memory. Of a whole file, it
    /// is empty.
    ///
    /// Cost: of a recording without memory, a look at each event.
    #[must_use]
    pub fn unread(&self) -> Vec<Unread> {
        let mut all = self.recording.unread.clone();
        if let Some(first) = self.contradictions.first() {
            let text = format!("events contradict those before them and are left out; the first: {first}");
            all.push(Unread { kind: UnreadKind::Contradicts, count: self.contradiction_count, text });
        }
        if let Some(&first) = self.losses.first() {
            let text = format!(
                "the reader was too slow, first before event {first}; record with more memory for events"
            );
            all.push(Unread { kind: UnreadKind::Lost, count: self.losses.len() as u64, text });
        }
        if !self.recording.events.iter().any(is_about_memory) {
            let text = "no pool, no block, no allocation: the program made none, or was captured without its calls for memory";
            all.push(Unread { kind: UnreadKind::Nothing, count: 1, text: text.to_owned() });
        }
        all
    }
}

const fn is_about_memory(event: &Event) -> bool {
    matches!(
        event,
        Event::PoolCreated { .. }
            | Event::BlockAllocated { .. }
            | Event::Allocated(_)
            | Event::Refused { .. }
            | Event::RefusedRequest(_)
            | Event::DescriptorHeapCreated { .. }
            | Event::RingCreated { .. }
    )
}
