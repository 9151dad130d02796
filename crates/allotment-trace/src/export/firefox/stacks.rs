//! Strings, functions, frames and stacks of a profile: the tables that its samples refer to.

use core::fmt;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use allotment_suballoc::json::Array;

use super::walk::{Item, MarkerKind, Sample, Walk};
use super::{Json, Text};
use crate::recording::{Recording, StackFrame, StackId, TextId};

/// Strings that no recording has: their indices come first.
const OWN: [&str; 2] = ["no call site", "unnamed"];

/// The tables. Strings are [`OWN`], the kinds of markers, the texts of the recording, and the files of call sites and the calls of
/// stacks; every string is a function and a frame of the same index.
pub(super) struct Stacks<'a> {
    recording: &'a Recording,
    /// Files of call sites, and calls.
    others: Vec<Cow<'a, str>>,
    /// Each stack: its frame, and the stack that it extends.
    nodes: Vec<(usize, Option<usize>)>,
    by_node: HashMap<(usize, Option<usize>), usize>,
    /// The stack of each call site, of an allocation of which no other call is known.
    sites: HashMap<TextId, usize>,
    /// The stack of each call that is in one.
    calls: HashMap<StackId, usize>,
}

impl<'a> Stacks<'a> {
    /// Collects the stacks of all samples.
    pub(super) fn of(walk: &Walk<'a>) -> Self {
        let recording = walk.export.recording;
        let (nodes, by_node, sites, calls) = (Vec::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let mut stacks = Self { recording, others: Vec::new(), nodes, by_node, sites, calls };
        let mut files: HashMap<&str, usize> = HashMap::new();
        let mut functions: HashMap<(TextId, TextId), usize> = HashMap::new();
        // The callback never fails.
        let _ = walk.items(|_, item| {
            let Item::Sample(sample) = item else { return Ok(()) };
            if recording.stacks.frame(sample.stack).is_some() {
                let stack = stacks.add_calls(sample.stack, &mut functions);
                stacks.intern(stacks.string(sample.name, 1), Some(stack));
                return Ok(());
            }
            let site = match stacks.sites.get(&sample.site) {
                Some(site) => *site,
                None => {
                    let file = recording.text(sample.site).and_then(parse).map(|(file, _, _)| {
                        let index = *files.entry(file).or_insert(stacks.others.len());
                        if index == stacks.others.len() {
                            stacks.others.push(file.into());
                        }
                        stacks.intern(stacks.other_string(index), None)
                    });
                    let site = stacks.intern(stacks.string(sample.site, 0), file);
                    stacks.sites.insert(sample.site, site);
                    site
                }
            };
            stacks.intern(stacks.string(sample.name, 1), Some(site));
            Ok(())
        });
        stacks
    }

    /// Adds the calls of a stack that are new, from the outermost in.
    fn add_calls(&mut self, stack: StackId, functions: &mut HashMap<(TextId, TextId), usize>) -> usize {
        let recording = self.recording;
        let mut new = Vec::new();
        let mut prefix = None;
        for call in recording.stacks.numbers(stack) {
            prefix = self.calls.get(&call).copied();
            if prefix.is_some() {
                break;
            }
            new.push(call);
        }
        for call in new.into_iter().rev() {
            let Some(&StackFrame { function, place, .. }) = recording.stacks.frame(call) else { continue };
            let index = *functions.entry((function, place)).or_insert(self.others.len());
            if index == self.others.len() {
                self.others.push(call_text(recording, function, place));
            }
            let node = self.intern(self.other_string(index), prefix);
            self.calls.insert(call, node);
            prefix = Some(node);
        }
        prefix.unwrap_or_default()
    }

    fn intern(&mut self, frame: usize, prefix: Option<usize>) -> usize {
        let next = self.nodes.len();
        let stack = *self.by_node.entry((frame, prefix)).or_insert(next);
        if stack == next {
            self.nodes.push((frame, prefix));
        }
        stack
    }

    /// Returns the index of a string. `none` is that of no text.
    fn string(&self, text: TextId, none: usize) -> usize {
        // A text that the recording lacks is none.
        self.recording.text(text).map_or(none, |_| OWN.len() + MarkerKind::ALL.len() + text.0 as usize - 1)
    }

    fn other_string(&self, other: usize) -> usize {
        OWN.len() + MarkerKind::ALL.len() + self.recording.texts.len() + other
    }

    /// Returns the string of a kind of markers.
    pub(super) fn marker(&self, kind: MarkerKind) -> usize {
        OWN.len() + MarkerKind::ALL.iter().position(|of| *of == kind).unwrap_or_default()
    }

    /// Returns the stack of a sample.
    pub(super) fn get(&self, sample: Sample) -> usize {
        let above = self.calls.get(&sample.stack).or_else(|| self.sites.get(&sample.site));
        let node = (self.string(sample.name, 1), above.copied());
        self.by_node.get(&node).copied().unwrap_or_default()
    }

    fn strings<'s>(&'s self) -> impl Iterator<Item = &'s str> + use<'s, 'a> {
        let kinds = MarkerKind::ALL.into_iter().map(|kind| -> &'s str { kind.name() });
        let texts = self.recording.texts.iter().map(String::as_str);
        let own: [&'s str; 2] = OWN;
        own.into_iter().chain(kinds).chain(texts).chain(self.others.iter().map(|other| &**other))
    }

    pub(super) fn write<W: io::Write>(&self, o: &mut Json<'_, '_, W>) -> fmt::Result {
        let count = self.other_string(self.others.len());
        o.array("stringArray", |array| self.strings().try_for_each(|string| array.text(string)))?;
        o.object("sources", |o| {
            ["id", "filename", "startLine", "startColumn", "sourceMapURL"]
                .into_iter()
                .try_for_each(|key| o.array(key, |_| Ok(())))?;
            o.number("length", 0)
        })?;
        o.object("funcTable", |o| {
            o.array("name", |array| (0..count).try_for_each(|string| array.raw(string)))?;
            for key in ["isJS", "relevantForJS"] {
                repeat(o, key, count, "false")?;
            }
            repeat(o, "resource", count, "-1")?;
            for key in ["source", "lineNumber", "columnNumber"] {
                repeat(o, key, count, "null")?;
            }
            o.number("length", count as u64)
        })?;
        o.object("frameTable", |o| {
            repeat(o, "address", count, "-1")?;
            repeat(o, "inlineDepth", count, "0")?;
            repeat(o, "category", count, "0")?;
            repeat(o, "subcategory", count, "0")?;
            o.array("func", |array| (0..count).try_for_each(|func| array.raw(func)))?;
            repeat(o, "nativeSymbol", count, "null")?;
            repeat(o, "innerWindowID", count, "0")?;
            o.array("line", |array| self.numbers(array, |(_, line, _)| line))?;
            o.array("column", |array| self.numbers(array, |(_, _, column)| column))?;
            o.number("length", count as u64)
        })?;
        o.object("stackTable", |o| {
            o.array("frame", |array| self.nodes.iter().try_for_each(|(frame, _)| array.raw(frame)))?;
            o.array("prefix", |array| {
                self.nodes.iter().try_for_each(|(_, prefix)| match prefix {
                    Some(prefix) => array.raw(prefix),
                    None => array.raw("null"),
                })
            })?;
            o.number("length", self.nodes.len() as u64)
        })?;
        for (table, keys) in [
            ("resourceTable", ["lib", "name", "host", "type"]),
            ("nativeSymbols", ["libIndex", "address", "name", "functionSize"]),
        ] {
            o.object(table, |o| {
                keys.into_iter().try_for_each(|key| o.array(key, |_| Ok(())))?;
                o.number("length", 0)
            })?;
        }
        Ok(())
    }

    /// Writes a number of each string that is a call site.
    fn numbers<W: io::Write>(
        &self,
        array: &mut Array<'_, Text<'_, W>>,
        number: impl Fn((&str, u32, u32)) -> u32,
    ) -> fmt::Result {
        self.strings().try_for_each(|string| match parse(string) {
            Some(site) => array.raw(number(site)),
            None => array.raw("null"),
        })
    }
}

/// Returns a call as the profiler lists it.
fn call_text(recording: &Recording, function: TextId, place: TextId) -> Cow<'_, str> {
    match (recording.text(function), recording.text(place)) {
        (Some(function), Some(place)) => format!("{function} ({place})").into(),
        (Some(one), None) | (None, Some(one)) => one.into(),
        (None, None) => "a call that is not known".into(),
    }
}

/// Splits a call site, `file:line:column`.
fn parse(site: &str) -> Option<(&str, u32, u32)> {
    let (rest, column) = site.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, line.parse().ok()?, column.parse().ok()?))
}

fn repeat<W: io::Write>(o: &mut Json<'_, '_, W>, key: &str, count: usize, value: &str) -> fmt::Result {
    o.array(key, |array| (0..count).try_for_each(|_| array.raw(value)))
}
