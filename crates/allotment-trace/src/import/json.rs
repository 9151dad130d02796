//! A JSON document as a tree: its memory is counted, and the keys that an importer does not know are told.

use core::cell::Cell;
use core::fmt;
use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::builder::Builder;
use super::limits::Budget;
use super::{ImportError, ImportErrorKind, Position};
use crate::recording::UnreadKind;

/// A value. Texts are parts of the document, unless they have escapes.
#[derive(Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(u64),
    /// A number that is negative, or has a fraction, or has more than 64 bits.
    OtherNumber,
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Object(Vec<Member<'a>>),
}

/// A member of an object: its key and its value.
pub(super) type Member<'a> = (Cow<'a, str>, Json<'a>);

impl<'a> Json<'a> {
    /// Parses a document.
    ///
    /// # Errors
    ///
    /// [`ImportErrorKind::Json`] and those of the limits, with the line.
    pub(super) fn parse(text: &'a str, budget: &Budget) -> Result<Self, ImportError> {
        let exceeded = Cell::new(None);
        let mut parser = serde_json::Deserializer::from_str(text);
        let tree = Tree { budget, exceeded: &exceeded }.deserialize(&mut parser);
        tree.and_then(|tree| parser.end().map(|()| tree)).map_err(|error| {
            let kind = exceeded.take().unwrap_or_else(|| ImportErrorKind::json(&error));
            ImportError::new(Some(Position::Line(error.line() as u64)), kind)
        })
    }

    /// Returns the members of an object; of another value, none.
    pub(super) fn members(&self) -> &[Member<'a>] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    /// Returns the elements of a list; of another value, none.
    pub(super) fn list(&self) -> &[Self] {
        if let Json::List(list) = self { list } else { &[] }
    }

    /// Returns the member with a key.
    pub(super) fn member(&self, key: &str) -> Option<&Self> {
        self.members().iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }

    /// Returns the values of an object with their keys, or of a list with no keys.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let of_object = self.members().iter().map(|(key, value)| (&**key, value));
        of_object.chain(self.list().iter().map(|value| ("", value)))
    }
}

/// Reads a value, and counts it.
#[derive(Clone, Copy)]
struct Tree<'b> {
    budget: &'b Budget,
    /// Which limit ended the reading.
    exceeded: &'b Cell<Option<ImportErrorKind>>,
}

impl Tree<'_> {
    /// Counts bytes. A vector that grows has twice what it needs.
    fn charge<E: Error>(self, bytes: usize) -> Result<(), E> {
        let counted = self.budget.charge(2 * bytes).and_then(|()| self.budget.work(1));
        counted.map_err(|kind| {
            self.exceeded.set(Some(kind));
            E::custom("a limit is exceeded")
        })
    }
}

impl Tree<'_> {
    /// Counts the next value of a vector, which begins with room for four.
    fn charge_next<T, E: Error>(self, len: usize) -> Result<(), E> {
        self.charge(if len == 0 { 2 * size_of::<T>() + 8 } else { size_of::<T>() })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json<'de>, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json<'de>, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        self.charge(text.len())?;
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut found = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            self.charge_next::<Json<'_>, _>(found.len())?;
            found.push(value);
        }
        Ok(Json::List(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut found = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            let value = map.next_value_seed(self)?;
            self.charge_next::<Member<'_>, _>(found.len())?;
            found.push((key, value));
        }
        Ok(Json::Object(found))
    }
}

/// Reads a key. Keys with escapes are rare, and as short as their text.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Takes the members of an object one by one; what was not taken is told at the end.
pub(super) struct Fields<'j, 'a> {
    members: &'j [Member<'a>],
    /// The members that were taken, by index. No object with known keys has more than 64 of them.
    taken: u64,
    /// What the object is, in a sentence: `an allocation`.
    what: &'static str,
    /// Keys whose value is of another type than the format says.
    wrong: Option<&'static str>,
}

impl<'j, 'a> Fields<'j, 'a> {
    pub(super) fn new(object: &'j Json<'a>, what: &'static str) -> Self {
        Self { members: object.members(), taken: 0, what, wrong: None }
    }

    /// Returns the member with a key. A second one with the same key is not taken.
    pub(super) fn take(&mut self, key: &str) -> Option<&'j Json<'a>> {
        let index = self.members.iter().take(64).position(|(found, _)| found == key)?;
        self.taken |= 1 << index;
        Some(&self.members[index].1)
    }

    /// Takes what has nothing that a recording keeps.
    pub(super) fn skip(&mut self, keys: &[&str]) {
        for key in keys {
            self.take(key);
        }
    }

    pub(super) fn number(&mut self, key: &'static str) -> Option<u64> {
        match self.take(key)? {
            Json::Number(number) => Some(*number),
            _ => {
                self.wrong = Some(key);
                None
            }
        }
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            Json::Bool(flag) => Some(*flag),
            _ => {
                self.wrong = Some(key);
                None
            }
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<&'j str> {
        match self.take(key)? {
            Json::Text(text) => Some(text),
            _ => {
                self.wrong = Some(key);
                None
            }
        }
    }

    /// Returns the member with a key if it is an object or a list.
    pub(super) fn group(&mut self, key: &'static str) -> Option<&'j Json<'a>> {
        let found = self.take(key)?;
        if matches!(found, Json::Object(_) | Json::List(_)) {
            return Some(found);
        }
        self.wrong = Some(key);
        None
    }

    /// Calls `each` for the members that were not taken and that it knows, and tells the others.
    pub(super) fn rest(
        self,
        builder: &mut Builder<'_>,
        mut each: impl FnMut(&'j str, &'j Json<'a>) -> bool,
    ) -> Result<(), ImportErrorKind> {
        if let Some(key) = self.wrong {
            let text = format!("`{key}` of {} is of another type than the format has", self.what);
            builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
        }
        for (index, (key, value)) in self.members.iter().enumerate() {
            if (index >= 64 || self.taken & 1 << index == 0) && !each(key, value) {
                let text =
                    format!("`{}` of {} is a key that is not known, or there twice", cut_key(key), self.what);
                builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
            }
        }
        Ok(())
    }

    /// Tells the members that were not taken.
    pub(super) fn end(self, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
        self.rest(builder, |_, _| false)
    }
}

/// Returns the first part of a key or a value for a sentence.
pub(super) fn cut_key(key: &str) -> String {
    let mut end = usize::min(key.len(), 60);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    key[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
