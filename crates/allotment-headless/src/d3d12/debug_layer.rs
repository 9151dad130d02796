//! The debug layer: `ID3D12Debug` enables it, `ID3D12InfoQueue` stores its messages.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use crate::{Message, Messages, Severity, Validation};

/// Enables the layer if the first device of the process requests it, and returns whether it is enabled. It
/// cannot be enabled later: the runtime would remove the existing devices.
pub(super) fn is_on(validation: Validation) -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| validation == Validation::On && enable())
}

/// Returns false if the runtime has no such layer.
fn enable() -> bool {
    let mut debug: Option<ID3D12Debug> = None;
    // SAFETY: the runtime writes the interface to `debug`.
    let found = unsafe { D3D12GetDebugInterface(&mut debug) };
    let Some(debug) = debug.filter(|_| found.is_ok()) else { return false };
    // SAFETY: the interface is live, and no device exists yet.
    unsafe { debug.EnableDebugLayer() };
    true
}

/// The messages of the layer about a device.
///
/// All devices of a process on the same adapter are one device for the runtime, with one list of messages: the
/// first device that collects them gets them all. A program that needs to know which device they are about uses
/// one device at a time.
#[derive(Debug)]
pub(super) struct DebugLayer {
    queue: ID3D12InfoQueue,
    messages: Arc<Messages>,
}

impl DebugLayer {
    /// Returns `None` if the debug layer is not enabled for the device.
    pub(super) fn of(device: &ID3D12Device) -> Option<Self> {
        let queue: ID3D12InfoQueue = device.cast().ok()?;
        let mut chatter = [D3D12_MESSAGE_SEVERITY_INFO, D3D12_MESSAGE_SEVERITY_MESSAGE];
        let mut filter = D3D12_INFO_QUEUE_FILTER::default();
        filter.DenyList.NumSeverities = 2;
        filter.DenyList.pSeverityList = chatter.as_mut_ptr();
        // SAFETY: the queue is live, and the list has the length that is passed.
        unsafe { queue.AddStorageFilterEntries(&filter) }.ok()?;
        // SAFETY: the queue is live.
        unsafe { queue.SetMessageCountLimit(u64::MAX) }.ok()?;
        Some(Self { queue, messages: Arc::default() })
    }

    /// Returns the messages so far.
    pub(super) fn messages(&self) -> &Arc<Messages> {
        self.collect();
        &self.messages
    }

    /// Moves the runtime's stored messages to `messages`.
    fn collect(&self) {
        /// One thread at a time: collecting means reading and then clearing.
        static READING: Mutex<()> = Mutex::new(());
        let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue is live.
        let count = unsafe { self.queue.GetNumStoredMessages() };
        for index in 0..count {
            if let Some(message) = self.get(index) {
                self.messages.add(message);
            }
        }
        // SAFETY: as above.
        unsafe { self.queue.ClearStoredMessages() };
    }

    /// Returns a stored message if it is at least a warning.
    fn get(&self, index: u64) -> Option<Message> {
        let mut bytes = 0;
        // SAFETY: without a destination, the runtime returns the size of the message.
        unsafe { self.queue.GetMessage(index, None, &mut bytes) }.ok()?;
        // As 64-bit words, since the message starts with a structure of pointers.
        let mut words = vec![0_u64; bytes.div_ceil(8)];
        let message = words.as_mut_ptr().cast::<D3D12_MESSAGE>();
        // SAFETY: the buffer has as many bytes as the runtime requested, aligned for the structure.
        unsafe { self.queue.GetMessage(index, Some(message), &mut bytes) }.ok()?;
        // SAFETY: the runtime has written it.
        let message = unsafe { &*message };
        let severity = match message.Severity {
            D3D12_MESSAGE_SEVERITY_CORRUPTION | D3D12_MESSAGE_SEVERITY_ERROR => Severity::Error,
            D3D12_MESSAGE_SEVERITY_WARNING => Severity::Warning,
            _ => return None,
        };
        let length = message.DescriptionByteLength.saturating_sub(1);
        // SAFETY: the string is in the same buffer, and ends with a NUL.
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
