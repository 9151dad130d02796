//! A server and its viewers without sockets, driven by a script: for tests, and for the fuzzer.
//!
//! Each byte of the script is a step: the program does something, a viewer comes, reads a few bytes, or hangs up, a
//! stranger says anything. After every step the queues are within their bounds; in the end each viewer has read all, and
//! knows the state of the program.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use allotment::Alignment;
use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, StackId, TextId,
};

use super::address::Token;
use super::handshake::{Answer, answer, request};
use super::hub::{Counts, Hub, HubDesc};
use crate::file::{StreamItem, StreamReader};
use crate::recorder::TakesEvents;
use crate::recording::{Header, ReadOptions, StackFrame, Stacks, State};

const TOKEN: Token = Token(*b"0123456789abcdef");

const MAX_VIEWERS: usize = 3;

/// A few hundred events.
const QUEUE_BYTES: usize = 10_000;

/// The program's block, and the allocations in it.
const BLOCK: BlockId = BlockId(1);
const SLOTS: u64 = 40;

/// The two directions of a connection.
#[derive(Debug, Default)]
struct Wire {
    to_server: VecDeque<u8>,
    to_viewer: VecDeque<u8>,
    /// How many bytes the viewer's system takes before it reads them.
    room: usize,
    hung_up: bool,
}

/// The server's end.
#[derive(Clone, Debug)]
struct ServerEnd(Rc<RefCell<Wire>>);

impl Read for ServerEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        match wire.to_server.read(buffer)? {
            0 if !wire.hung_up => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for ServerEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        if wire.hung_up {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(wire.room);
        wire.room -= count;
        wire.to_viewer.extend(&bytes[..count]);
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A viewer that keeps the state.
#[derive(Debug)]
struct Viewer {
    wire: Rc<RefCell<Wire>>,
    /// Bytes of the answer that have not come yet.
    answer: usize,
    reader: StreamReader,
    state: State,
    /// Events that it has got, and that it was told it has not.
    got: u64,
    dropped: u64,
    ended: bool,
}

impl Viewer {
    /// Reads up to `most` bytes.
    fn read(&mut self, most: usize) {
        let mut wire = self.wire.borrow_mut();
        wire.room += most;
        let count = wire.to_viewer.len().min(most);
        let bytes: Vec<_> = wire.to_viewer.drain(..count).collect();
        drop(wire);
        let (of_answer, rest) = bytes.split_at(bytes.len().min(self.answer));
        let expected = answer(None);
        assert!(expected[expected.len() - self.answer..].starts_with(of_answer), "the viewer is accepted");
        self.answer -= of_answer.len();
        self.reader.feed(rest);
        while let Some(item) = self.reader.next().expect("the server sends what can be read") {
            match item {
                StreamItem::Header(header) => assert_eq!(header, Header::default()),
                StreamItem::State { state, dropped } => {
                    let known = self.state.now.event;
                    assert!(
                        self.got == 0 || state.now.event == known + dropped,
                        "it says how many are missing"
                    );
                    self.got = state.now.event;
                    self.dropped += dropped;
                    self.state = state;
                }
                StreamItem::Events(events) => {
                    for event in &events {
                        self.state.apply(event).expect("events follow from the state");
                    }
                    self.got += events.len() as u64;
                }
                StreamItem::End => self.ended = true,
            }
        }
    }
}

/// A program that allocates and frees, and names all that it allocates otherwise.
#[derive(Debug, Default)]
struct Program {
    state: State,
    texts: Vec<String>,
    count: u64,
}

impl Program {
    fn put(&mut self, to: &mut impl TakesEvents, event: &Event) {
        self.state.apply(event).expect("the program is consistent");
        let there = event.map_texts(|text| to.text(&self.texts[text.0 as usize - 1]));
        let there = there.map_stack(|stack| {
            [String::from("main"), function(stack)].iter().fold(StackId::NONE, |parent, name| {
                let function = to.text(name);
                to.stack(StackFrame { parent, function, place: TextId::NONE })
            })
        });
        to.event(&there).expect("memory takes all");
        to.forget().expect("memory takes all");
    }

    fn text(&mut self, text: String) -> TextId {
        self.texts.push(text);
        TextId(self.texts.len() as u32)
    }

    fn begin(&mut self, to: &mut impl TakesEvents) {
        let (pool, name) = (PoolId(1), self.text("the pool".to_owned()));
        self.put(
            to,
            &Event::PoolCreated { pool, name, algorithm: Some(allotment::Algorithm::Tlsf), custom: true },
        );
        let (memory_type, kind) = (MemoryTypeIndex(0), BlockKind::Shared);
        self.put(to, &Event::BlockAllocated { block: BLOCK, pool, memory_type, kind, size: SLOTS << 10 });
    }

    /// Frees what is in a slot, or allocates there.
    fn step(&mut self, to: &mut impl TakesEvents) {
        self.count += 1;
        let slot = self.count * 7 % SLOTS;
        let allocation = AllocationKey(slot);
        if self.state.allocations.contains_key(&allocation) {
            return self.put(to, &Event::Freed { allocation });
        }
        let name = self.text(format!("allocation number {}", self.count));
        let allocated = Allocated {
            allocation,
            block: BLOCK,
            offset: slot << 10,
            requested: 1 + self.count % 1000,
            occupied: 1024,
            user_data: self.count,
            name,
            category: TextId::NONE,
            alignment: Alignment::ONE,
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ReusedRange,
            second_choice: false,
            movable: false,
        };
        self.put(to, &Event::Allocated(allocated));
        if self.count % 3 == 0 {
            let stack = StackId(1 + (self.count / 3 % 7) as u32);
            self.put(to, &Event::Stack { allocation, stack });
        }
        if self.count % 10 == 0 {
            self.put(to, &Event::FrameEnd { number: self.state.now.frame });
            self.put(to, &Event::Time { nanoseconds: self.count * 1000 });
        }
    }
}

/// The function whose stack the program knows by a number, and which `main` called.
fn function(stack: StackId) -> String {
    format!("function {}", stack.0)
}

/// The functions of a viewer's stack, the innermost first.
fn functions(stacks: &Stacks, texts: &[String], stack: StackId) -> Vec<String> {
    stacks.calls(stack).map(|call| texts[call.function.0 as usize - 1].clone()).collect()
}

type WithTexts = (State, BTreeMap<AllocationKey, (String, Vec<String>)>, Vec<String>);

/// Returns a state with its texts and the functions of its stacks, not their numbers.
fn with_texts(state: &State, texts: &[String], functions: impl Fn(StackId) -> Vec<String>) -> WithTexts {
    let text =
        |id: TextId| (id.0 as usize).checked_sub(1).map_or(String::new(), |index| texts[index].clone());
    let mut without = state.clone();
    let names = without.allocations.iter_mut().map(|(key, live)| {
        let stack = core::mem::take(&mut live.stack);
        (*key, (text(core::mem::take(&mut live.is.name)), functions(stack)))
    });
    let names = names.collect();
    let pools = without.pools.values_mut().map(|pool| text(core::mem::take(&mut pool.name))).collect();
    (without, names, pools)
}

/// What a script led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events of the program.
    pub events: u64,
    /// Viewers that were served.
    pub viewers: u64,
    /// Viewers that have read to the end.
    pub ended: usize,
    /// Events that viewers did not get.
    pub dropped: u64,
    /// Texts that the server keeps in the end.
    pub texts: u64,
}

/// Runs a script.
///
/// # Panics
///
/// If the server breaks a promise.
#[must_use]
pub fn run(script: &[u8]) -> Outcome {
    let counts = Arc::new(Counts::default());
    let desc = HubDesc {
        token: TOKEN,
        queue_bytes: QUEUE_BYTES,
        max_viewers: MAX_VIEWERS,
        handshake_timeout: Duration::from_secs(3),
        spare_texts: 64,
    };
    let mut hub = Hub::new(&Header::default(), desc, counts.clone());
    let mut now = Instant::now();
    let mut program = Program::default();
    let (mut viewers, mut strangers) = (Vec::<Viewer>::new(), Vec::new());
    program.begin(hub.source());
    let mut script = script.iter().copied();
    while let Some(step) = script.next() {
        let operand = usize::from(step >> 3);
        match step & 7 {
            0 => (0..=operand).for_each(|_| program.step(hub.source())),
            // Enough for a queue to be full, and for names to be forgotten.
            1 => (0..operand * 10).for_each(|_| program.step(hub.source())),
            2 if viewers.len() < MAX_VIEWERS => {
                let wire =
                    Rc::new(RefCell::new(Wire { to_server: request(TOKEN).into(), ..Wire::default() }));
                hub.connect(ServerEnd(wire.clone()), now);
                let (answer, reader) = (size_of::<Answer>(), StreamReader::new(&ReadOptions::default()));
                let state = State::default();
                viewers.push(Viewer { wire, answer, reader, state, got: 0, dropped: 0, ended: false });
                (0..2).for_each(|_| drop(hub.advance(now)));
            }
            3 => {
                let said: VecDeque<_> = script.by_ref().take(operand).collect();
                let wire = Rc::new(RefCell::new(Wire { to_server: said, room: operand, ..Wire::default() }));
                hub.connect(ServerEnd(wire.clone()), now);
                strangers.push(wire);
            }
            4 => {
                if let Some(viewer) = viewers.get_mut(operand % MAX_VIEWERS) {
                    viewer.read(operand * operand * 16);
                }
            }
            5 if operand < viewers.len() => hang_up(viewers.swap_remove(operand).wire),
            6 => now += Duration::from_millis(operand as u64 * 100),
            _ => {}
        }
        hub.advance(now).expect("memory takes all");
        hub.check_bounds();
    }
    hub.end();
    strangers.drain(..).for_each(hang_up);
    while viewers.iter().any(|viewer| !viewer.ended) {
        hub.advance(now).expect("memory takes all");
        viewers.iter_mut().for_each(|viewer| viewer.read(10_000));
    }
    let mut outcome =
        Outcome { events: program.state.now.event, texts: hub.text_count(), ..Outcome::default() };
    for viewer in &viewers {
        let (stacks, texts) = (viewer.reader.stacks(), viewer.reader.texts());
        let is = with_texts(&viewer.state, texts, |stack| functions(stacks, texts, stack));
        let of_program = |stack: StackId| {
            if stack.is_none() { Vec::new() } else { vec![function(stack), "main".to_owned()] }
        };
        let should = with_texts(&program.state, &program.texts, of_program);
        assert_eq!(is, should, "a viewer knows the state");
        outcome.ended += 1;
        outcome.dropped += viewer.dropped;
    }
    outcome.viewers = counts.statistics().accepted;
    outcome
}

fn hang_up(wire: Rc<RefCell<Wire>>) {
    wire.borrow_mut().hung_up = true;
}
