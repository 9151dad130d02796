//! The texts of events in memory: each distinct text has one number.

use core::panic::Location;

use allotment::events::{Event, EventBatch, TextId};

use super::IdMap;

/// Numbers the texts of [batches](EventBatch) of events as texts of one [`Recording`](super::Recording), where equal texts
/// have equal numbers and an empty one has none. In a batch they are other texts' as soon as the next one is read.
///
/// For a program that keeps only some events, or changes them; a [`Collector`](crate::Collector) keeps all.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{Event, EventBatch, SubscriptionDesc};
/// use allotment_trace::recording::{Recording, TextNumbers};
///
/// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
/// let (mut batch, mut numbers, mut recording) =
///     (EventBatch::new(), TextNumbers::default(), Recording::default());
/// for name in ["mesh", "texture", "mesh"] {
///     let allocation = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name(name))?;
///     events.read(&mut batch);
///     for event in batch.events().iter().filter(|event| matches!(event, Event::Allocated(_))) {
///         recording.events.push(numbers.renumber(event, &batch, &mut recording.texts));
///     }
///     # allocator.free(allocation)?;
/// }
/// assert_eq!((recording.events.len(), recording.texts), (3, vec!["mesh".to_owned(), "texture".to_owned()]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cost: a look-up for each text of an event. Each distinct text is kept a second time, beside the recording's.
#[derive(Clone, Debug, Default)]
pub struct TextNumbers {
    numbers: IdMap<String, TextId>,
    /// The texts of call sites, by the address of the place: they are made into text once.
    sites: IdMap<usize, TextId>,
}

impl TextNumbers {
    /// Returns an event of a batch as one of the recording with these texts, to which its new texts are added.
    ///
    /// A stack stays that of the batch ([`Event::map_stack`], [`EventBatch::backtrace`]).
    ///
    /// `texts` are the same in each call. Those that were there before the first one keep their numbers; an equal text of
    /// a batch gets another.
    #[must_use]
    pub fn renumber(&mut self, event: &Event, batch: &EventBatch, texts: &mut Vec<String>) -> Event {
        event.map_texts(|text| {
            if let Some(site) = batch.call_site(text) {
                let address = core::ptr::from_ref::<Location<'_>>(site).addr();
                if let Some(&known) = self.sites.get(&address) {
                    return known;
                }
                let number = self.number(&site.to_string(), texts);
                self.sites.insert(address, number);
                number
            } else {
                batch.text(text).map_or(TextId::NONE, |text| self.number(&text, texts))
            }
        })
    }

    /// Returns the number of a text, which is added to `texts` if it is new.
    pub fn number(&mut self, text: &str, texts: &mut Vec<String>) -> TextId {
        if text.is_empty() {
            return TextId::NONE;
        }
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        texts.push(text.to_owned());
        // Memory would be full before 2^32 texts.
        let number = TextId(texts.len() as u32);
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
