//! Reads a pickle: the instructions of Python's pickle protocols 0 to 5 that plain values need.
//!
//! # Why not a crate?
//!
//! `serde-pickle`, the well-kept one, serves trusted files. It reserves room for 128 values at each of the one-byte
//! instructions that begin a list, so that a file of 1 MiB takes 4 GiB; it copies a value as often as it is referred
//! to, which doubles at each level; and its errors cannot be told a limit. Here each value is stored once, references
//! are indices, nothing recurses, and every byte that is kept is counted.
//!
//! # What is refused
//!
//! Instructions that call or import Python code. A snapshot has dictionaries, lists, tuples, texts and numbers only.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use super::super::limits::Budget;
use super::super::source::Source;
use super::super::{ImportError, ImportErrorKind, Position};

/// A value. Texts, lists and dictionaries are indices into the [`Pickle`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Int(i64),
    /// First byte and length.
    Text(u32, u32),
    /// A list or a tuple.
    List(u32),
    Dict(u32),
    /// A number with a point, a large number, bytes or a set. No snapshot has one that matters here.
    Other,
}

/// All values of a pickle.
pub(super) struct Pickle {
    text: String,
    lists: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
    pub(super) root: Value,
}

/// The most entries of a dictionary in which a key is searched. Those of a snapshot have about a dozen.
const MOST_KEYS: usize = 64;
/// The longest line of the protocols that write numbers as text.
const MAX_NUMBER: u64 = 64;

impl Pickle {
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(start, length) => self.text.get(start as usize..)?.get(..length as usize),
            _ => None,
        }
    }

    pub(super) fn list(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::List(index) => self.lists.get(index as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    pub(super) fn int(&self, value: Value) -> Option<i64> {
        match value {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Counts the work of looking at a value of which several keys are wanted: a value can be reached in many ways, and is
    /// looked at in each.
    pub(super) fn look_at(&self, dict: Value, budget: &Budget) -> Result<()> {
        let entries = match dict {
            Value::Dict(index) => self.dicts.get(index as usize).map_or(0, Vec::len),
            _ => 0,
        };
        budget.work(1 + usize::min(entries, MOST_KEYS))
    }

    /// Returns the value of a key, the last one if the key is there twice.
    pub(super) fn get(&self, dict: Value, key: &str) -> Option<Value> {
        let Value::Dict(index) = dict else { return None };
        let entries = self.dicts.get(index as usize)?;
        let entries = &entries[..usize::min(entries.len(), MOST_KEYS)];
        entries.iter().rev().find(|(found, _)| self.text(*found) == Some(key)).map(|&(_, value)| value)
    }
}

/// The memory of a list, a dictionary, an item, an entry and a reference, with the spare room of growing vectors.
const CONTAINER_BYTES: usize = 2 * size_of::<Vec<Value>>();
const ITEM_BYTES: usize = 3 * size_of::<Value>();
const ENTRY_BYTES: usize = 3 * size_of::<(Value, Value)>();
const MEMO_BYTES: usize = 64;

struct Reader<'r, 's> {
    source: &'r mut Source<'s>,
    budget: &'r Budget,
    stack: Vec<Value>,
    /// The heights of the stack at each mark, the sizes that both have had at most.
    marks: Vec<usize>,
    most: (usize, usize),
    memo: HashMap<u32, Value>,
    pickle: Pickle,
}

/// Reads one pickle up to its end mark.
pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Pickle, ImportError> {
    let pickle = Pickle { text: String::new(), lists: Vec::new(), dicts: Vec::new(), root: Value::None };
    let (stack, marks, memo) = (Vec::new(), Vec::new(), HashMap::new());
    let mut reader = Reader { source, budget, stack, marks, most: (0, 0), memo, pickle };
    loop {
        let position = Some(Position::Byte(reader.source.position()));
        match reader.step() {
            Ok(false) => {}
            Ok(true) => return Ok(reader.pickle),
            Err(kind) => return Err(ImportError::new(position, kind)),
        }
    }
}

type Result<T, E = ImportErrorKind> = core::result::Result<T, E>;

const fn corrupt(what: &'static str) -> ImportErrorKind {
    ImportErrorKind::PickleCorrupt { what }
}

impl Reader<'_, '_> {
    /// Executes one instruction. Returns true at the end.
    fn step(&mut self) -> Result<bool> {
        self.budget.work(1)?;
        let opcode = self.byte()?;
        match opcode {
            // PROTO, FRAME
            0x80 => {
                if self.byte()? > 5 {
                    return Err(corrupt("its protocol is newer than 5"));
                }
            }
            0x95 => drop(self.bytes::<8>()?),
            b'.' => {
                self.pickle.root = self.pop()?;
                return Ok(true);
            }
            b'(' => {
                self.marks.push(self.stack.len());
                if self.marks.len() > self.most.1 {
                    self.most.1 = self.marks.len();
                    self.budget.charge(2 * size_of::<usize>())?;
                }
            }
            // POP, POP_MARK, DUP
            b'0' => drop(self.pop()?),
            b'1' => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
            }
            b'2' => {
                let top = *self.stack.last().ok_or(corrupt("it uses a value that is not there"))?;
                self.push(top)?;
            }
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Int(1))?,
            0x89 => self.push(Value::Int(0))?,
            b'I' | b'L' => {
                let line = self.line()?;
                // True and False are written as 01 and 00; long numbers end with L.
                let value = line.strip_suffix('L').unwrap_or(&line).parse().map_or(Value::Other, Value::Int);
                self.push(value)?;
            }
            b'F' => {
                self.line()?;
                self.push(Value::Other)?;
            }
            b'G' => {
                self.bytes::<8>()?;
                self.push(Value::Other)?;
            }
            b'J' => {
                let value = i32::from_le_bytes(self.bytes()?);
                self.push(Value::Int(value.into()))?;
            }
            b'K' => {
                let value = self.byte()?;
                self.push(Value::Int(value.into()))?;
            }
            b'M' => {
                let value = u16::from_le_bytes(self.bytes()?);
                self.push(Value::Int(value.into()))?;
            }
            // LONG1, LONG4
            0x8a => {
                let length = self.byte()?;
                self.long(length.into())?;
            }
            0x8b => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.long(length.into())?;
            }
            // Texts, and byte strings of Python 2, by the width of their length.
            0x8c | b'U' => {
                let length = self.byte()?;
                self.read_text(length.into())?;
            }
            b'X' | b'T' => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.read_text(length.into())?;
            }
            0x8d => {
                let length = u64::from_le_bytes(self.bytes()?);
                self.read_text(length)?;
            }
            // Bytes.
            b'C' => {
                let length = self.byte()?;
                self.skip(length.into())?;
            }
            b'B' => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.skip(length.into())?;
            }
            0x8e | 0x96 => {
                let length = u64::from_le_bytes(self.bytes()?);
                self.skip(length)?;
            }
            // Lists and tuples.
            b']' | b')' => self.new_list(Vec::new())?,
            b'l' | b't' => {
                let mark = self.mark()?;
                let items = self.stack.split_off(mark);
                self.new_list(items)?;
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let from = self.stack.len().checked_sub(count).filter(|&from| from >= self.floor());
                let from = from.ok_or(corrupt("it makes a tuple of values that are not there"))?;
                let items = self.stack.split_off(from);
                self.new_list(items)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let mark = self.mark()?;
                let items = self.stack.split_off(mark);
                self.append(&items)?;
            }
            // Dictionaries.
            b'}' => self.new_dict()?,
            b'd' => {
                let mark = self.mark()?;
                let items = self.stack.split_off(mark);
                self.new_dict()?;
                self.set(&items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let mark = self.mark()?;
                let items = self.stack.split_off(mark);
                self.set(&items)?;
            }
            // Sets: EMPTY_SET, ADDITEMS, FROZENSET.
            0x8f => self.push(Value::Other)?,
            0x90 => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
            }
            0x91 => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
                self.push(Value::Other)?;
            }
            // The memo.
            b'p' => {
                let index = self.index_line()?;
                self.memoize(index)?;
            }
            b'q' => {
                let index = self.byte()?;
                self.memoize(index.into())?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.bytes()?);
                self.memoize(index)?;
            }
            0x94 => {
                let index = u32::try_from(self.memo.len()).map_err(|_| corrupt("it has too many values"))?;
                self.memoize(index)?;
            }
            b'g' => {
                let index = self.index_line()?;
                self.recall(index)?;
            }
            b'h' => {
                let index = self.byte()?;
                self.recall(index.into())?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.bytes()?);
                self.recall(index)?;
            }
            // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, PERSID, BINPERSID, EXT1 to EXT4.
            b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | b'P' | b'Q' | 0x82..=0x84 => {
                return Err(ImportErrorKind::PickleCode);
            }
            opcode => return Err(ImportErrorKind::PickleOpcode { opcode }),
        }
        Ok(false)
    }

    /// Returns the height of the stack below which a plain instruction may not reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.stack.push(value);
        if self.stack.len() > self.most.0 {
            self.most.0 = self.stack.len();
            self.budget.charge(ITEM_BYTES)?;
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Value> {
        if self.stack.len() <= self.floor() {
            return Err(corrupt("it uses a value that is not there"));
        }
        self.stack.pop().ok_or(corrupt("it uses a value that is not there"))
    }

    fn mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or(corrupt("it uses a mark that is not there"))
    }

    fn new_list(&mut self, items: Vec<Value>) -> Result<()> {
        self.budget.charge(CONTAINER_BYTES + ITEM_BYTES * items.len())?;
        let index = u32::try_from(self.pickle.lists.len()).map_err(|_| corrupt("it has too many lists"))?;
        self.pickle.lists.push(items);
        self.push(Value::List(index))
    }

    fn new_dict(&mut self) -> Result<()> {
        self.budget.charge(CONTAINER_BYTES)?;
        let index =
            u32::try_from(self.pickle.dicts.len()).map_err(|_| corrupt("it has too many dictionaries"))?;
        self.pickle.dicts.push(Vec::new());
        self.push(Value::Dict(index))
    }

    fn append(&mut self, items: &[Value]) -> Result<()> {
        self.budget.charge(ITEM_BYTES * items.len())?;
        let top = self.stack.last().copied();
        let list = match top {
            Some(Value::List(index)) => self.pickle.lists.get_mut(index as usize),
            _ => None,
        };
        list.ok_or(corrupt("it appends to what is no list"))?.extend_from_slice(items);
        Ok(())
    }

    fn set(&mut self, items: &[Value]) -> Result<()> {
        self.budget.charge(ENTRY_BYTES * items.len() / 2)?;
        let top = self.stack.last().copied();
        let dict = match top {
            Some(Value::Dict(index)) => self.pickle.dicts.get_mut(index as usize),
            _ => None,
        };
        let dict = dict.ok_or(corrupt("it sets a key of what is no dictionary"))?;
        let pairs = items.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(corrupt("a key has no value"));
        }
        dict.extend(pairs.map(|pair| (pair[0], pair[1])));
        Ok(())
    }

    fn memoize(&mut self, index: u32) -> Result<()> {
        let top = *self.stack.last().ok_or(corrupt("it stores a value that is not there"))?;
        if self.memo.insert(index, top).is_none() {
            self.budget.charge(MEMO_BYTES)?;
        }
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<()> {
        let value = *self.memo.get(&index).ok_or(corrupt("it refers to a value that was not stored"))?;
        self.push(value)
    }

    fn read_text(&mut self, length: u64) -> Result<()> {
        // Counted before it is there. Replacement characters have up to three times the bytes that they replace, and a
        // text that grows is there twice.
        let counted = usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(4);
        self.budget.charge(counted)?;
        let bytes = self.take(length)?;
        let start = self.pickle.text.len();
        // Python writes lone surrogates in a way that is no UTF-8.
        self.pickle.text.push_str(&String::from_utf8_lossy(&bytes));
        let length = self.pickle.text.len() - start;
        self.budget.refund(counted);
        self.budget.charge(3 * length)?;
        let all = u32::try_from(start).ok().zip(u32::try_from(length).ok());
        let (start, length) = all.ok_or(corrupt("it has more than 4 GiB of text"))?;
        self.push(Value::Text(start, length))
    }

    fn long(&mut self, length: u64) -> Result<()> {
        // Numbers beyond 64 bits are no sizes and no addresses.
        if length > 8 {
            return self.skip(length);
        }
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut all = if negative { [0xff; 8] } else { [0; 8] };
        all[..bytes.len()].copy_from_slice(&bytes);
        self.push(Value::Int(i64::from_le_bytes(all)))
    }

    /// Passes over bytes that mean nothing here.
    fn skip(&mut self, length: u64) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let found = self.source.fill_buf().map(<[u8]>::len);
            let found = found.map_err(|error| self.source.failure(error))?;
            if found == 0 {
                return Err(ImportErrorKind::PickleTruncated);
            }
            let skipped = u64::min(left, found as u64);
            self.source.consume(skipped as usize);
            left -= skipped;
        }
        self.push(Value::Other)
    }

    fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        // Grows with what is there, whatever the length says.
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let mut found = Vec::with_capacity(usize::min(bytes, 4096));
        let read = Read::take(&mut *self.source, length).read_to_end(&mut found);
        read.map_err(|error| self.source.failure(error))?;
        if found.len() == bytes { Ok(found) } else { Err(ImportErrorKind::PickleTruncated) }
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes::<1>()?[0])
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut found = [0; N];
        let mut filled = 0;
        while filled < N {
            let read = self.source.read(&mut found[filled..]);
            match read.map_err(|error| self.source.failure(error))? {
                0 => return Err(ImportErrorKind::PickleTruncated),
                read => filled += read,
            }
        }
        Ok(found)
    }

    /// Reads a line of the protocols that write text.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = Read::take(&mut *self.source, MAX_NUMBER).read_until(b'\n', &mut line);
        read.map_err(|error| self.source.failure(error))?;
        if line.pop() != Some(b'\n') {
            return Err(corrupt("a number does not end"));
        }
        String::from_utf8(line).map_err(|_| corrupt("a number is no text"))
    }

    fn index_line(&mut self) -> Result<u32> {
        self.line()?.parse().map_err(|_| corrupt("an index is no number"))
    }
}
