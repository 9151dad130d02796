//! What of a file was not read.

use core::fmt;

/// Something of a file that a recording lacks: it was damaged, or not understood, or contradicted the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Why it was not read.
    pub kind: UnreadKind,
    /// How many: bytes, records, calls or names, as the text says. At least 1.
    pub count: u64,
    /// What it was, where the first is, and what to do: one sentence, without a full stop.
    pub text: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}: {}", self.kind, self.text),
            count => write!(f, "{} ({count} times): {}", self.kind, self.text),
        }
    }
}

/// Why something of a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UnreadKind {
    /// Bytes are broken or missing: the file was cut, or changed.
    Damaged,
    /// A record, a call, a key or a flag is of a kind that the reader does not know.
    NotUnderstood,
    /// It cannot be true beside the rest, and was left out; or a sum that the file states differs from what is in it.
    Contradicts,
    /// The file says nothing about memory.
    Nothing,
    /// The program that wrote the file says that it lost events.
    Lost,
    /// Names are not UTF-8, and are shown as Latin-1.
    Encoding,
}

impl UnreadKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Damaged, Self::NotUnderstood, Self::Contradicts, Self::Nothing, Self::Lost, Self::Encoding];

    /// Returns the name, as the command takes and prints it: `not-understood`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::NotUnderstood => "not-understood",
            Self::Contradicts => "contradicts",
            Self::Nothing => "nothing",
            Self::Lost => "lost",
            Self::Encoding => "encoding",
        }
    }

    /// Returns the kind with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for UnreadKind {
    /// Writes what a reader is told before the text: `not understood`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "damaged",
            Self::NotUnderstood => "not understood",
            Self::Contradicts => "contradicts itself",
            Self::Nothing => "nothing about memory",
            Self::Lost => "events were lost",
            Self::Encoding => "names of another encoding",
        })
    }
}
