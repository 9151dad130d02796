//! The debug layer: `ID3D12Debug` turns it on, `ID3D12InfoQueue` keeps what it says.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use crate::{Message, Messages, Severity, Validation};

/// Turns the layer on if the first device of the process wants that, and says whether it is on. Later it can
/// be turned on no more: the runtime would remove the devices that there are.
pub(super) fn is_on(validation: Validation) -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| validation == Validation::On && enable())
}

/// False where the runtime has no such layer.
fn enable() -> bool {
    let mut debug: Option<ID3D12Debug> = None;
    // SAFETY: the interface is written where it is wanted.
    let found = unsafe { D3D12GetDebugInterface(&mut debug) };
    let Some(debug) = debug.filter(|_| found.is_ok()) else { return false };
    // SAFETY: the interface is live, and there is no device yet.
    unsafe { debug.EnableDebugLayer() };
    true
}

/// What the layer says of a device.
///
/// All devices of a process on the same adapter are one to the runtime, with one list of messages: what was
/// said is told to whoever asks first. Whoever wants to know by whom uses one device at a time.
#[derive(Debug)]
pub(super) struct DebugLayer {
    queue: ID3D12InfoQueue,
    messages: Arc<Messages>,
}

impl DebugLayer {
    /// `None` where nobody watches the device.
    pub(super) fn of(device: &ID3D12Device) -> Option<Self> {
        let queue: ID3D12InfoQueue = device.cast().ok()?;
        let mut chatter = [D3D12_MESSAGE_SEVERITY_INFO, D3D12_MESSAGE_SEVERITY_MESSAGE];
        let mut filter = D3D12_INFO_QUEUE_FILTER::default();
        filter.DenyList.NumSeverities = 2;
        filter.DenyList.pSeverityList = chatter.as_mut_ptr();
        // SAFETY: the queue is live, and the list is as long as is said.
        unsafe { queue.AddStorageFilterEntries(&filter) }.ok()?;
        // SAFETY: the queue is live.
        unsafe { queue.SetMessageCountLimit(u64::MAX) }.ok()?;
        Some(Self { queue, messages: Arc::default() })
    }

    /// What was said so far.
    pub(super) fn messages(&self) -> &Arc<Messages> {
        self.collect();
        &self.messages
    }

    /// Takes what the runtime has kept.
    fn collect(&self) {
        /// One reads at a time: to take is to read and then to clear.
        static READING: Mutex<()> = Mutex::new(());
        let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue is live.
        let count = unsafe { self.queue.GetNumStoredMessages() };
        for index in 0..count {
            if let Some(message) = self.get(index) {
                self.messages.say(message);
            }
        }
        // SAFETY: as above.
        unsafe { self.queue.ClearStoredMessages() };
    }

    /// A stored message, where it is a warning or worse.
    fn get(&self, index: u64) -> Option<Message> {
        let mut bytes = 0;
        // SAFETY: with no place to write to, the runtime says how large the message is.
        unsafe { self.queue.GetMessage(index, None, &mut bytes) }.ok()?;
        // In words of 64 bits, since the message begins with a structure of pointers.
        let mut words = vec![0_u64; bytes.div_ceil(8)];
        let message = words.as_mut_ptr().cast::<D3D12_MESSAGE>();
        // SAFETY: there are as many bytes as the runtime asked for, aligned for the structure.
        unsafe { self.queue.GetMessage(index, Some(message), &mut bytes) }.ok()?;
        // SAFETY: the runtime has written it.
        let message = unsafe { &*message };
        let severity = match message.Severity {
            D3D12_MESSAGE_SEVERITY_CORRUPTION | D3D12_MESSAGE_SEVERITY_ERROR => Severity::Error,
            D3D12_MESSAGE_SEVERITY_WARNING => Severity::Warning,
            _ => return None,
        };
        let length = message.DescriptionByteLength.saturating_sub(1);
        // SAFETY: the text stands in the same bytes, and ends with a zero.
        let text = unsafe { core::slice::from_raw_parts(message.pDescription, length) };
        let text = String::from_utf8_lossy(text).into_owned();
        Some(Message { severity, id: message.ID.0.to_string(), text })
    }
}

impl Drop for DebugLayer {
    fn drop(&mut self) {
        self.collect();
    }
}
