//! Peers that say anything, and connections that end anywhere.

use core::time::Duration;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use allotment_trace::live::{
    LiveAddress, LiveDesc, LiveError, LiveReader, LiveRecording, LiveServer, LiveUpdate, PROTOCOL_VERSION,
};
use allotment_trace::recording::{Damage, DamageKind, ReadError, ReadOptions, State};

use super::{Program, until};

/// Bytes of the server's answer, of what stands before the header, and of the head of a chunk.
const ANSWER: usize = 13;
const BEFORE: usize = 12;
const HEAD: usize = 9;

/// The bytes of a viewer that has the token of an address.
fn request(address: &LiveAddress, version: u32) -> Vec<u8> {
    let mut bytes = b"\x89ALTLIVE".to_vec();
    bytes.extend(version.to_le_bytes());
    let address = address.to_string();
    let (_, token) = address.rsplit_once('/').unwrap();
    bytes.extend(u128::from_str_radix(token, 16).unwrap().to_be_bytes());
    bytes
}

/// Returns all that the server of a small program says to a viewer, up to the end.
fn whole_stream() -> Vec<u8> {
    let mut program = Program::new();
    program.run(3);
    let server = program.serve();
    let mut stream = TcpStream::connect(server.local_address()).unwrap();
    stream.write_all(&request(server.address(), PROTOCOL_VERSION)).unwrap();
    until("the viewer is served", || server.viewers() == 1);
    program.run(3);
    drop(server);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Bytes that a server says, whatever a viewer says.
struct Says(Cursor<Vec<u8>>);

impl Read for Says {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
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

fn any_address() -> LiveAddress {
    "allotment://127.0.0.1:1/00112233445566778899aabbccddeeff".parse().unwrap()
}

/// Reads what a server says. Returns the state at the end, or the first error.
fn view(bytes: &[u8]) -> Result<State, LiveError> {
    let options = ReadOptions::default();
    let reader = LiveReader::over(Says(Cursor::new(bytes.to_vec())), &any_address(), &options)?;
    let mut recording = LiveRecording::new(reader, &options);
    while !recording.has_ended() {
        recording.read()?;
    }
    Ok(recording.state().clone())
}

/// Writes the right checksum into each chunk.
fn with_right_checksums(bytes: &mut [u8]) {
    let mut at = ANSWER + BEFORE;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(payload) = bytes.get(at + HEAD..at + HEAD + length) else { return };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..5]);
        hasher.update(payload);
        bytes[at + 5..at + HEAD].copy_from_slice(&hasher.finalize().to_le_bytes());
        at += HEAD + length;
    }
}

#[test]
fn a_stream_that_is_cut_at_any_byte_is_an_error_and_no_state_that_never_was() {
    let bytes = whole_stream();
    assert!(view(&bytes).is_ok());
    assert!((500..20_000).contains(&bytes.len()), "{}", bytes.len());
    for cut in 0..bytes.len() {
        let error = view(&bytes[..cut]).unwrap_err();
        let hung_up = if cut < ANSWER {
            matches!(error, LiveError::NotAServer)
        } else {
            matches!(error, LiveError::Disconnected)
        };
        assert!(hung_up, "{cut}: {error}");
    }
}

#[test]
fn a_stream_with_any_byte_changed_is_an_error_or_another_recording() {
    let bytes = whole_stream();
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let read = view(&changed);
            // All but the header's own version of the recording has a checksum or is compared.
            assert!(read.is_err(), "{at}");
            with_right_checksums(&mut changed);
            let _ = view(&changed);
        }
    }
}

#[test]
fn what_is_no_server_is_no_server() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\x89ALTLIV"] {
        assert!(matches!(view(bytes), Err(LiveError::NotAServer)));
    }
    let mut answer = whole_stream();
    answer[8] = 77;
    assert!(matches!(view(&answer), Err(LiveError::Version { found: 77 })));
    answer[8] = 1;
    answer[12] = 200;
    assert!(matches!(view(&answer), Err(LiveError::Refused { reason: 200 })));
    answer[12] = 0;
    answer[ANSWER + 8] = 9;
    assert!(matches!(view(&answer), Err(LiveError::Recording(ReadError::Version { found: 9 }))));
    answer[ANSWER + 1] = b'X';
    assert!(matches!(view(&answer), Err(LiveError::Recording(ReadError::NotARecording))));
}

#[test]
fn a_length_that_is_impossible_is_an_error_before_its_bytes_come() {
    let mut bytes = whole_stream();
    let header = u32::from_le_bytes(bytes[ANSWER + BEFORE..][..4].try_into().unwrap()) as usize;
    let after_header = ANSWER + BEFORE + HEAD + header;
    for (at, length) in [(ANSWER + BEFORE, u32::MAX), (after_header, u32::MAX), (after_header, 3 << 20)] {
        let right: [u8; 4] = bytes[at..][..4].try_into().unwrap();
        bytes[at..][..4].copy_from_slice(&length.to_le_bytes());
        let error = view(&bytes).unwrap_err();
        assert!(matches!(error, LiveError::Damaged(Damage { what: DamageKind::TooLong, .. })), "{error}");
        bytes[at..][..4].copy_from_slice(&right);
    }
}

#[test]
fn garbage_from_viewers_disturbs_nobody() {
    let mut program = Program::new();
    let desc = LiveDesc::default().with_handshake_timeout(Duration::from_secs(1));
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    let right = request(server.address(), PROTOCOL_VERSION);
    let says = |bytes: &[u8], then_hangs_up: bool| {
        let mut stream = TcpStream::connect(server.local_address()).unwrap();
        stream.write_all(bytes).unwrap();
        if then_hangs_up {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => answer,
        }
    };
    for end in 0..right.len() {
        // Cut, and never finished: the server hangs up in both cases.
        assert_eq!(says(&right[..end], true), b"");
    }
    assert_eq!(says(&right[..20], false), b"");
    assert_eq!(says(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", false), b"");
    let other_version = says(&request(server.address(), 2), false);
    assert_eq!(other_version[..8], right[..8]);
    assert_eq!(other_version[8..], [1, 0, 0, 0, 2], "the server's version, and why it refuses");
    // A viewer that says more than it may is disconnected.
    let mut more = right.clone();
    more.extend(b"more");
    drop(says(&more, false));
    until("they are gone", || server.viewers() == 1);
    until("they are counted", || server.statistics().refused >= right.len() as u64 + 3);

    program.run(200);
    server.mark("still here");
    super::read_to_mark(&mut viewer, "still here");
    program.compare(viewer.recording(), viewer.state());
}

#[test]
fn connections_that_say_nothing_keep_no_viewer_out() {
    let program = Program::new();
    // They would lose their places never.
    let desc = LiveDesc::default().with_handshake_timeout(Duration::MAX);
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    let mut strangers = Vec::new();
    for _ in 0..8 {
        strangers.extend((0..50).map(|_| TcpStream::connect(server.local_address()).unwrap()));
        let mut viewer = LiveReader::connect(server.address()).unwrap();
        assert!(matches!(viewer.poll(Duration::MAX), Ok(Some(LiveUpdate::Restarted { .. }))));
    }
    assert!(server.statistics().refused >= 400 - 64);
    drop(strangers);
}

#[test]
fn a_connection_that_loses_its_place_is_told_why() {
    let program = Program::new();
    let server = program.serve();
    let mut first = TcpStream::connect(server.local_address()).unwrap();
    let strangers: Vec<_> = (0..64).map(|_| TcpStream::connect(server.local_address()).unwrap()).collect();
    let mut answer = Vec::new();
    first.read_to_end(&mut answer).unwrap();
    let error = view(&answer).unwrap_err();
    assert!(matches!(error, LiveError::TooManyConnections), "{error}");
    drop(strangers);
}

#[test]
fn time_outs_without_end_are_waits_without_end() {
    let mut program = Program::new();
    let desc = LiveDesc::default().with_handshake_timeout(Duration::MAX);
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    let mut reader = LiveReader::connect(server.address()).unwrap();
    assert!(viewer.poll(Duration::MAX).unwrap().restarted.is_some());
    assert!(reader.poll(Duration::MAX).unwrap().is_some());
    program.run(10);
    assert!(viewer.poll(Duration::MAX).unwrap().events > 0);
    assert!(reader.poll(Duration::MAX).unwrap().is_some());
    // The server's thread lives.
    drop(LiveReader::connect(server.address()).unwrap());
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    let address: LiveAddress =
        format!("allotment://{host}/00112233445566778899aabbccddeeff").parse().unwrap();
    let (silent, _kept) = thread::scope(|scope| {
        let connects = scope.spawn(|| LiveReader::connect(&address).unwrap_err());
        let kept = listener.accept().unwrap();
        (connects.join().unwrap(), kept)
    });
    assert!(matches!(silent, LiveError::Io(_)), "{silent}");
    drop(listener);
    assert!(matches!(LiveReader::connect(&address), Err(LiveError::Connect { .. })));
}
