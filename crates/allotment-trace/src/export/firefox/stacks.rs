//! Strings, functions, frames and stacks of a profile: the tables that its samples refer to.

use core::fmt;
use std::collections::HashMap;
use std::io;

use super::walk::{Item, MarkerKind, Walk};
use super::{Array, Json, Text};
use crate::recording::{Recording, TextId};

/// Strings that no recording has: their indices come first.
const OWN: [&str; 2] = ["no call site", "unnamed"];

/// The tables. Strings are [`OWN`], the kinds of markers, the texts of the recording, and the files of call sites; every
/// string is a function and a frame of the same index.
pub(super) struct Stacks<'a> {
    recording: &'a Recording,
    files: Vec<&'a str>,
    /// Each stack: its frame, and the stack that it extends.
    nodes: Vec<(usize, Option<usize>)>,
    by_node: HashMap<(usize, Option<usize>), usize>,
    /// The stack of each call site.
    sites: HashMap<TextId, usize>,
}

impl<'a> Stacks<'a> {
    /// Collects the stacks of all samples.
    pub(super) fn of(walk: &Walk<'a>) -> Self {
        let recording = walk.export.recording;
        let (nodes, by_node, sites) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut stacks = Self { recording, files: Vec::new(), nodes, by_node, sites };
        let mut files: HashMap<&str, usize> = HashMap::new();
        // The callback never fails.
        let _ = walk.all(|_, item| {
            let Item::Sample(sample) = item else { return Ok(()) };
            let site = match stacks.sites.get(&sample.site) {
                Some(site) => *site,
                None => {
                    let file = recording.text(sample.site).and_then(parse).map(|(file, _, _)| {
                        let index = *files.entry(file).or_insert(stacks.files.len());
                        if index == stacks.files.len() {
                            stacks.files.push(file);
                        }
                        stacks.intern(stacks.file_string(index), None)
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

    fn file_string(&self, file: usize) -> usize {
        OWN.len() + MarkerKind::ALL.len() + self.recording.texts.len() + file
    }

    /// Returns the string of a kind of markers.
    pub(super) fn marker(&self, kind: MarkerKind) -> usize {
        OWN.len() + MarkerKind::ALL.iter().position(|of| *of == kind).unwrap_or_default()
    }

    /// Returns the stack of a sample.
    pub(super) fn get(&self, site: TextId, name: TextId) -> usize {
        let node = (self.string(name, 1), self.sites.get(&site).copied());
        self.by_node.get(&node).copied().unwrap_or_default()
    }

    fn strings<'s>(&'s self) -> impl Iterator<Item = &'s str> + use<'s, 'a> {
        let kinds = MarkerKind::ALL.into_iter().map(|kind| -> &'s str { kind.name() });
        let texts = self.recording.texts.iter().map(String::as_str);
        let own: [&'s str; 2] = OWN;
        own.into_iter().chain(kinds).chain(texts).chain(self.files.iter().copied())
    }

    pub(super) fn write<W: io::Write>(&self, o: &mut Json<'_, '_, W>) -> fmt::Result {
        let count = self.file_string(self.files.len());
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

/// Splits a call site, `file:line:column`.
fn parse(site: &str) -> Option<(&str, u32, u32)> {
    let (rest, column) = site.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, line.parse().ok()?, column.parse().ok()?))
}

fn repeat<W: io::Write>(o: &mut Json<'_, '_, W>, key: &str, count: usize, value: &str) -> fmt::Result {
    o.array(key, |array| (0..count).try_for_each(|_| array.raw(value)))
}
