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

use core::hash::BuildHasher;
use std::collections::HashMap;
use std::hash::RandomState;
use std::io::Read;

use super::super::limits::Budget;
use super::super::source::Source;
use super::super::{ImportError, ImportErrorKind, Position};

/// A value, in eight bytes: a snapshot has hundreds of millions. What does not fit is an index into the [`Pickle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Value {
    #[default]
    None,
    Small(i32),
    /// A number that needs more than 32 bits.
    Large(u32),
    Text(u32),
    /// A list or a tuple.
    List(u32),
    Dict(u32),
    /// A number with a point, a large number, bytes or a set. No snapshot has one that matters here.
    Other,
}

/// All values of a pickle.
///
/// ```text
///  dicts   [ shape 0, from 0 ][ shape 0, from 3 ] …      shapes  [ addr, size, frames ] …
///             │                  └────────────┐          keys are the same in almost all dictionaries
///  values  [ 4096, 512, list 0 │ 8192, 512, list 1 │ …
///
///  lists   [ 0 .. 2 ][ 0 .. 2 ][ large 0 ] …             equal lists share their items: programs repeat call stacks
///  items   [ dict 7, dict 9 │ …                          large   lists that grow
/// ```
#[derive(Default)]
pub(super) struct Pickle {
    text: String,
    texts: Vec<(u32, u32)>,
    ints: Vec<i64>,
    lists: Vec<List>,
    items: Vec<Value>,
    large: Vec<Vec<Value>>,
    dicts: Vec<Dict>,
    values: Vec<Value>,
    shapes: Vec<Box<[Value]>>,
    pub(super) root: Value,
}

/// A range of the items; or, with the largest length, an index of a large list.
#[derive(Clone, Copy, Default)]
struct List {
    first: u32,
    length: u32,
}

const LARGE: u32 = u32::MAX;

/// The keys, and where the values begin.
#[derive(Clone, Copy, Default)]
struct Dict {
    shape: u32,
    first: u32,
}

/// The most entries of a dictionary in which a key is searched. Those of a snapshot have about a dozen.
const MOST_KEYS: usize = 64;
/// The longest line of the protocols that write numbers as text.
const MAX_NUMBER: u64 = 64;

impl Pickle {
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(index) => {
                let &(start, length) = self.texts.get(index as usize)?;
                self.text.get(start as usize..)?.get(..length as usize)
            }
            _ => None,
        }
    }

    pub(super) fn list(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::List(index) => match *self.lists.get(index as usize)? {
                List { first, length: LARGE } => self.large.get(first as usize).map(Vec::as_slice),
                List { first, length } => self.items.get(first as usize..)?.get(..length as usize),
            },
            _ => None,
        }
    }

    /// Returns a number that lists of the same items share, where they are not long. `None` of another value.
    pub(super) fn identity(&self, list: Value) -> Option<u64> {
        let Value::List(index) = list else { return None };
        let List { first, length } = *self.lists.get(index as usize)?;
        Some(u64::from(length) << 32 | u64::from(first))
    }

    pub(super) fn int(&self, value: Value) -> Option<i64> {
        match value {
            Value::Small(value) => Some(value.into()),
            Value::Large(index) => self.ints.get(index as usize).copied(),
            _ => None,
        }
    }

    /// Counts the work of looking at a value of which several keys are wanted: a value can be reached in many ways, and is
    /// looked at in each.
    pub(super) fn look_at(&self, dict: Value, budget: &Budget) -> Result<()> {
        budget.work(1 + self.entries(dict).map_or(0, |(keys, _)| keys.len()))
    }

    /// Returns the value of a key, the last one if the key is there twice.
    pub(super) fn get(&self, dict: Value, key: &str) -> Option<Value> {
        let (keys, values) = self.entries(dict)?;
        let index = keys.iter().rposition(|&found| self.text(found) == Some(key))?;
        values.get(index).copied()
    }

    /// Returns the number of a dictionary's keys, which dictionaries with the same keys share, and the keys.
    pub(super) fn keys(&self, dict: Value) -> Option<(u32, impl Iterator<Item = &str>)> {
        let Value::Dict(index) = dict else { return None };
        let shape = self.dicts.get(index as usize)?.shape;
        let keys = self.shapes.get(shape as usize)?;
        Some((shape, keys.iter().map(|&key| self.text(key).unwrap_or("(no text)"))))
    }

    /// Returns the keys of a dictionary, and its values.
    fn entries(&self, dict: Value) -> Option<(&[Value], &[Value])> {
        let Value::Dict(index) = dict else { return None };
        let Dict { shape, first } = *self.dicts.get(index as usize)?;
        let keys = self.shapes.get(shape as usize)?;
        Some((keys, self.values.get(first as usize..)?.get(..keys.len())?))
    }
}

/// The memory of a list, a dictionary, an item, a text and a reference, with the spare room of growing vectors.
const CONTAINER_BYTES: usize = 2 * size_of::<List>();
const ITEM_BYTES: usize = 2 * size_of::<Value>();
const TEXT_BYTES: usize = 2 * size_of::<(u32, u32)>();
const MEMO_BYTES: usize = 64;
/// The memory of what is found again by its contents, beside those.
const SHARED_BYTES: usize = 64;

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

struct Reader<'r, 's> {
    source: &'r mut Source<'s>,
    /// What was read of the source, and how much of that was used.
    buffer: Vec<u8>,
    used: usize,
    budget: &'r Budget,
    stack: Vec<Value>,
    /// The heights of the stack at each mark, the sizes that both have had at most.
    marks: Vec<usize>,
    most: (usize, usize),
    /// By index, as Python numbers them; and those that are numbered in another way.
    memo: Vec<Value>,
    sparse: HashMap<u32, Value>,
    shapes: HashMap<Box<[Value]>, u32>,
    /// By hash of the items.
    shared: HashMap<u64, List>,
    hasher: RandomState,
    pickle: Pickle,
}

/// Reads one pickle up to its end mark.
pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Pickle, ImportError> {
    let mut reader = Reader {
        source,
        buffer: Vec::new(),
        used: 0,
        budget,
        stack: Vec::new(),
        marks: Vec::new(),
        most: (0, 0),
        memo: Vec::new(),
        sparse: HashMap::new(),
        shapes: HashMap::new(),
        shared: HashMap::new(),
        hasher: RandomState::new(),
        pickle: Pickle { shapes: vec![Box::default()], ..Pickle::default() },
    };
    loop {
        let position = Some(Position::Byte(reader.position()));
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

/// Returns an index, of which there are fewer than 2^32.
fn index(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| corrupt("it has too many values"))
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
            0x88 => self.push(Value::Small(1))?,
            0x89 => self.push(Value::Small(0))?,
            b'I' | b'L' => {
                let line = self.line()?;
                // True and False are written as 01 and 00; long numbers end with L.
                match line.strip_suffix('L').unwrap_or(&line).parse() {
                    Ok(number) => self.int(number)?,
                    Err(_) => self.push(Value::Other)?,
                }
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
                self.int(value.into())?;
            }
            b'K' => {
                let value = self.byte()?;
                self.int(value.into())?;
            }
            b'M' => {
                let value = u16::from_le_bytes(self.bytes()?);
                self.int(value.into())?;
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
            b']' | b')' => self.new_list(0)?,
            b'l' | b't' => {
                let mark = self.mark()?;
                self.new_list(self.stack.len() - mark)?;
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let from = self.stack.len().checked_sub(count).filter(|&from| from >= self.floor());
                let from = from.ok_or(corrupt("it makes a tuple of values that are not there"))?;
                self.new_list(self.stack.len() - from)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(core::slice::from_ref(&item))?;
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
                let index = self.memo.len() + self.sparse.len();
                let index = u32::try_from(index).map_err(|_| corrupt("it has too many values"))?;
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

    /// Returns the number of bytes before the next instruction.
    fn position(&self) -> u64 {
        self.source.position() - (self.buffer.len() - self.used) as u64
    }

    fn int(&mut self, value: i64) -> Result<()> {
        let value = match i32::try_from(value) {
            Ok(small) => Value::Small(small),
            Err(_) => {
                self.budget.charge(2 * size_of::<i64>())?;
                self.pickle.ints.push(value);
                Value::Large(index(self.pickle.ints.len() - 1)?)
            }
        };
        self.push(value)
    }

    /// Makes a list of what is on top of the stack.
    fn new_list(&mut self, length: usize) -> Result<()> {
        self.budget.charge(CONTAINER_BYTES)?;
        let items = self.stack.split_off(self.stack.len() - length);
        let list = self.shared(&items)?;
        self.pickle.lists.push(list);
        self.push(Value::List(index(self.pickle.lists.len() - 1)?))
    }

    /// Returns a list of these items: one that is there already, if there is.
    fn shared(&mut self, items: &[Value]) -> Result<List> {
        if items.is_empty() {
            return Ok(List::default());
        }
        // Of the work of a value, an item is a small part.
        self.budget.work(items.len() / 8)?;
        let hash = self.hasher.hash_one(items);
        let stored = &self.pickle.items;
        let is_same = |&&List { first, length }: &&List| {
            stored.get(first as usize..).and_then(|from| from.get(..length as usize)) == Some(items)
        };
        if let Some(&list) = self.shared.get(&hash).filter(is_same) {
            return Ok(list);
        }
        self.budget.charge(ITEM_BYTES * items.len() + SHARED_BYTES)?;
        let first = index(self.pickle.items.len())?;
        let length = index(items.len()).ok().filter(|&length| length != LARGE);
        let list = List { first, length: length.ok_or(corrupt("a list is too long"))? };
        self.pickle.items.extend_from_slice(items);
        self.shared.insert(hash, list);
        Ok(list)
    }

    fn new_dict(&mut self) -> Result<()> {
        self.budget.charge(CONTAINER_BYTES)?;
        self.pickle.dicts.push(Dict::default());
        self.push(Value::Dict(index(self.pickle.dicts.len() - 1)?))
    }

    fn append(&mut self, items: &[Value]) -> Result<()> {
        let Some(&Value::List(at)) = self.stack.last() else {
            return Err(corrupt("it appends to what is no list"));
        };
        let list = self.pickle.lists.get(at as usize).copied().unwrap_or_default();
        let new = match list {
            List { length: 0, .. } => self.shared(items)?,
            List { first, length: LARGE } => {
                self.budget.charge(ITEM_BYTES * items.len())?;
                if let Some(large) = self.pickle.large.get_mut(first as usize) {
                    large.extend_from_slice(items);
                }
                list
            }
            // A list that grows is no other's.
            List { length, .. } => {
                let bytes = 2 * size_of::<Vec<Value>>() + ITEM_BYTES * (length as usize + items.len());
                self.budget.charge(bytes)?;
                let mut large = self.pickle.list(Value::List(at)).unwrap_or_default().to_vec();
                large.extend_from_slice(items);
                self.pickle.large.push(large);
                List { first: index(self.pickle.large.len() - 1)?, length: LARGE }
            }
        };
        if let Some(list) = self.pickle.lists.get_mut(at as usize) {
            *list = new;
        }
        Ok(())
    }

    fn set(&mut self, items: &[Value]) -> Result<()> {
        let Some(&Value::Dict(at)) = self.stack.last() else {
            return Err(corrupt("it sets a key of what is no dictionary"));
        };
        if items.len() % 2 != 0 {
            return Err(corrupt("a key has no value"));
        }
        let Dict { shape, first } = self.pickle.dicts.get(at as usize).copied().unwrap_or_default();
        let mut keys = self.pickle.shapes[shape as usize].to_vec();
        // No key beyond the first ones is ever searched.
        let new = items.chunks_exact(2).take(MOST_KEYS - keys.len());
        let before = keys.len();
        keys.extend(new.clone().map(|pair| pair[0]));
        self.budget.work(before)?;
        self.budget.charge(ITEM_BYTES * keys.len())?;
        let shape = match self.shapes.get(&*keys) {
            Some(&known) => known,
            None => {
                let keys: Box<[Value]> = keys.into();
                self.budget.charge(2 * size_of_val(&*keys) + SHARED_BYTES)?;
                let new = index(self.pickle.shapes.len())?;
                self.pickle.shapes.push(keys.clone());
                self.shapes.insert(keys, new);
                new
            }
        };
        let values = &mut self.pickle.values;
        let from = index(values.len())?;
        // Those of a dictionary lie side by side.
        values.extend_from_within(first as usize..first as usize + before);
        values.extend(new.map(|pair| pair[1]));
        if let Some(dict) = self.pickle.dicts.get_mut(at as usize) {
            *dict = Dict { shape, first: from };
        }
        Ok(())
    }

    fn memoize(&mut self, index: u32) -> Result<()> {
        let top = *self.stack.last().ok_or(corrupt("it stores a value that is not there"))?;
        let next = self.memo.len();
        if let Some(known) = self.memo.get_mut(index as usize) {
            *known = top;
        } else if index as usize == next && self.sparse.is_empty() {
            self.budget.charge(ITEM_BYTES)?;
            self.memo.push(top);
        } else if self.sparse.insert(index, top).is_none() {
            self.budget.charge(MEMO_BYTES)?;
        }
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<()> {
        let found = self.memo.get(index as usize).or_else(|| self.sparse.get(&index));
        let value = *found.ok_or(corrupt("it refers to a value that was not stored"))?;
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
        self.budget.charge(TEXT_BYTES)?;
        let all = u32::try_from(start).ok().zip(u32::try_from(length).ok());
        self.pickle.texts.push(all.ok_or(corrupt("it has more than 4 GiB of text"))?);
        self.push(Value::Text(index(self.pickle.texts.len() - 1)?))
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
        self.int(i64::from_le_bytes(all))
    }

    /// Passes over bytes that mean nothing here.
    fn skip(&mut self, length: u64) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let skipped = u64::min(left, self.buffered()?.len() as u64);
            self.used += skipped as usize;
            left -= skipped;
        }
        self.push(Value::Other)
    }

    fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        // Grows with what is there, whatever the length says.
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let mut found = Vec::with_capacity(usize::min(bytes, 4096));
        while found.len() < bytes {
            let part = self.buffered()?;
            let part = &part[..usize::min(part.len(), bytes - found.len())];
            found.extend_from_slice(part);
            self.used += part.len();
        }
        Ok(found)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes::<1>()?[0])
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some((found, _)) = self.buffer.get(self.used..).and_then(<[u8]>::split_first_chunk::<N>) {
            self.used += N;
            return Ok(*found);
        }
        let mut found = [0; N];
        for byte in &mut found {
            *byte = self.buffered()?[0];
            self.used += 1;
        }
        Ok(found)
    }

    /// Returns the next bytes, at least one.
    fn buffered(&mut self) -> Result<&[u8]> {
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
            let read = Read::take(&mut *self.source, BUFFER_BYTES as u64).read_to_end(&mut self.buffer);
            read.map_err(|error| self.source.failure(error))?;
            if self.buffer.is_empty() {
                return Err(ImportErrorKind::PickleTruncated);
            }
        }
        Ok(&self.buffer[self.used..])
    }

    /// Reads a line of the protocols that write text.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => break,
                _ if line.len() as u64 == MAX_NUMBER => return Err(corrupt("a number does not end")),
                byte => line.push(byte),
            }
        }
        String::from_utf8(line).map_err(|_| corrupt("a number is no text"))
    }

    fn index_line(&mut self) -> Result<u32> {
        self.line()?.parse().map_err(|_| corrupt("an index is no number"))
    }
}
