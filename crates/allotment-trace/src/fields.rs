//! One line of CSV, split into its six fields.

use core::fmt;
use std::borrow::Cow;

use crate::error::TraceErrorKind;

/// The first line of every trace.
pub const HEADER: &str = "op,id,size,alignment,kind,name";

/// A column of the format, in the order of the [`HEADER`]. Displayed as in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// The operation: `a`, `f` or `m`.
    Op,
    /// The id of the resource.
    Id,
    /// Its size in bytes.
    Size,
    /// Its alignment in bytes.
    Alignment,
    /// `buffer` or `image`.
    Kind,
    /// An image's format and extent, or a buffer's usage flags.
    Name,
}

impl Column {
    pub(crate) const ALL: [Self; 6] =
        [Self::Op, Self::Id, Self::Size, Self::Alignment, Self::Kind, Self::Name];

    /// Returns the word in the header.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Op => "op",
            Self::Id => "id",
            Self::Size => "size",
            Self::Alignment => "alignment",
            Self::Kind => "kind",
            Self::Name => "name",
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The fields of one line, borrowed from it unless a doubled quote had to be undone.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>([Cow<'a, str>; Column::ALL.len()]);

impl<'a> Fields<'a> {
    /// Splits a line, given without its line break.
    pub(crate) fn split(line: &'a str) -> Result<Self, TraceErrorKind> {
        let mut fields = Self::default();
        let mut found = 0;
        let mut rest = line;
        loop {
            let (field, after) = first_field(rest)?;
            if let Some(slot) = fields.0.get_mut(found) {
                *slot = field;
            }
            // The fields beyond the sixth are only counted, for the error.
            found += 1;
            match after {
                Some(after) => rest = after,
                None => break,
            }
        }
        if found == fields.0.len() { Ok(fields) } else { Err(TraceErrorKind::FieldCount { found }) }
    }

    pub(crate) fn get(&self, column: Column) -> &str {
        &self.0[column as usize]
    }

    /// Returns whether this is the header of a trace.
    pub(crate) fn are_header(&self) -> bool {
        Column::ALL.into_iter().all(|column| self.get(column) == column.as_str())
    }
}

/// Splits the first field off a line. The second value is the text after its comma, or `None` at the end of the
/// line.
fn first_field(rest: &str) -> Result<(Cow<'_, str>, Option<&str>), TraceErrorKind> {
    let Some(mut quoted) = rest.strip_prefix('"') else {
        let (field, after) = match rest.split_once(',') {
            Some((field, after)) => (field, Some(after)),
            None => (rest, None),
        };
        // RFC 4180 allows a quotation mark only in a field that is quoted as a whole. Accepting it as text would
        // guess what a broken writer meant.
        return if field.contains('"') {
            Err(TraceErrorKind::Quote)
        } else {
            Ok((Cow::Borrowed(field), after))
        };
    };

    let mut field = Cow::Borrowed("");
    loop {
        let (part, after) = quoted.split_once('"').ok_or(TraceErrorKind::Quote)?;
        field += part;
        if after.is_empty() {
            return Ok((field, None));
        } else if let Some(after) = after.strip_prefix(',') {
            return Ok((field, Some(after)));
        }
        quoted = after.strip_prefix('"').ok_or(TraceErrorKind::Quote)?;
        field += "\"";
    }
}
