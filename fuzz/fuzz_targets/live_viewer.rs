//! Any bytes are what a server says, in pieces of any size: a viewer has a recording of what is in them, or says what is
//! wrong. The answer is that of a server, and the checksums are made right, or hardly any bytes would get beyond them.
#![no_main]

#[path = "common/checksums.rs"]
mod checksums;

use std::io::{self, Cursor, Read, Write};

use allotment_trace::live::{LiveAddress, LiveReader, LiveRecording};
use allotment_trace::recording::{ReadOptions, Recording};
use checksums::with_right_checksums;

const ANSWER: &[u8; 13] = b"\x89ALTLIVE\x01\0\0\0\0";

/// What a server says, so many bytes at a time.
struct Says {
    bytes: Cursor<Vec<u8>>,
    piece: usize,
}

impl Read for Says {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.piece);
        self.bytes.read(&mut buffer[..length])
    }
}

impl Write for Says {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn view(bytes: Vec<u8>, piece: usize) -> Option<Recording> {
    let address: LiveAddress = "allotment://[::1]:1/00112233445566778899aabbccddeeff".parse().ok()?;
    let options = ReadOptions::default().with_max_events(100_000).with_max_text_bytes(1 << 20);
    let says = Says { bytes: Cursor::new(bytes), piece };
    let reader = LiveReader::over(says, &address, &options).ok()?;
    let mut recording = LiveRecording::new(reader, &options);
    while recording.read().is_ok() && !recording.has_ended() {}
    assert!(recording.recording().events.len() <= 100_000);
    let _ = recording.state().to_events();
    Some(recording.into_recording())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let _ = view(bytes.to_vec(), 7);
    let mut with_answer = ANSWER.to_vec();
    with_answer.extend(bytes);
    with_right_checksums(&mut with_answer[ANSWER.len()..]);
    // However it is cut, the same is in it.
    let whole = view(with_answer.clone(), usize::MAX);
    assert_eq!(view(with_answer, usize::from(piece).max(1)), whole);
});
