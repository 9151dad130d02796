//! A minimal JSON writer for the dumps of this crate and of the crates built on it.
//!
//! The writer adds commas, colons and escapes; the caller's closures write the members. Hidden from the
//! documentation, and not part of the stable interface.
//!
//! ```
//! use allotment_suballoc::json::object;
//!
//! let mut text = String::new();
//! object(&mut text, |o| {
//!     o.number("Size", 4096)?;
//!     o.text("Name", "a \"mesh\"")?;
//!     o.array("Ranges", |a| (0..2).try_for_each(|i| a.object(|o| o.number("Offset", i))))
//! })?;
//! assert_eq!(text, r#"{"Size":4096,"Name":"a \"mesh\"","Ranges":[{"Offset":0},{"Offset":1}]}"#);
//! # Ok::<(), core::fmt::Error>(())
//! ```

use core::fmt::{self, Display, Write};

/// Writes `{`, the members that `fill` writes, and `}`.
///
/// # Errors
///
/// Errors of `out` only.
pub fn object<W: Write + ?Sized>(
    out: &mut W,
    fill: impl FnOnce(&mut Object<'_, W>) -> fmt::Result,
) -> fmt::Result {
    out.write_char('{')?;
    fill(&mut Object(Members { out, first: true }))?;
    out.write_char('}')
}

/// The members written so far: whether the next one needs a comma before it.
struct Members<'a, W: Write + ?Sized> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write + ?Sized> Members<'_, W> {
    fn next(&mut self) -> Result<&mut W, fmt::Error> {
        if !core::mem::take(&mut self.first) {
            self.out.write_char(',')?;
        }
        Ok(self.out)
    }

    fn key(&mut self, key: &str) -> Result<&mut W, fmt::Error> {
        let out = self.next()?;
        string(out, key)?;
        out.write_char(':')?;
        Ok(out)
    }
}

/// An object being written. All methods return errors of the output only.
#[expect(missing_debug_implementations, reason = "a borrow of the caller's output for one closure")]
pub struct Object<'a, W: Write + ?Sized>(Members<'a, W>);

impl<W: Write + ?Sized> Object<'_, W> {
    /// Writes a member with an integer value.
    pub fn number(&mut self, key: &str, value: u64) -> fmt::Result {
        write!(self.0.key(key)?, "{value}")
    }

    /// Writes a member with a string value.
    pub fn text(&mut self, key: &str, value: impl Display) -> fmt::Result {
        string(self.0.key(key)?, value)
    }

    /// Writes a member whose value is displayed as JSON.
    pub fn raw(&mut self, key: &str, json: impl Display) -> fmt::Result {
        write!(self.0.key(key)?, "{json}")
    }

    /// Writes a member with an object as its value.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_, W>) -> fmt::Result) -> fmt::Result {
        object(self.0.key(key)?, fill)
    }

    /// Writes a member with an array as its value.
    pub fn array(&mut self, key: &str, fill: impl FnOnce(&mut Array<'_, W>) -> fmt::Result) -> fmt::Result {
        let out = self.0.key(key)?;
        out.write_char('[')?;
        fill(&mut Array(Members { out, first: true }))?;
        out.write_char(']')
    }
}

/// An array being written. All methods return errors of the output only.
#[expect(missing_debug_implementations, reason = "a borrow of the caller's output for one closure")]
pub struct Array<'a, W: Write + ?Sized>(Members<'a, W>);

impl<W: Write + ?Sized> Array<'_, W> {
    /// Writes an object element.
    pub fn object(&mut self, fill: impl FnOnce(&mut Object<'_, W>) -> fmt::Result) -> fmt::Result {
        object(self.0.next()?, fill)
    }

    /// Writes an element that is displayed as JSON.
    pub fn raw(&mut self, json: impl Display) -> fmt::Result {
        write!(self.0.next()?, "{json}")
    }

    /// Writes a string element.
    pub fn text(&mut self, value: impl Display) -> fmt::Result {
        string(self.0.next()?, value)
    }
}

/// Writes `value` between quotes and escapes quotes, backslashes, control characters, and what could end the script of a
/// page that the text is embedded in (`</`, `<!`).
fn string<W: Write + ?Sized>(out: &mut W, value: impl Display) -> fmt::Result {
    // An adapter of the output, so that a value is escaped while it is formatted and no string is allocated.
    struct Escape<'a, W: Write + ?Sized> {
        out: &'a mut W,
        last: char,
    }

    impl<W: Write + ?Sized> Write for Escape<'_, W> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for char in text.chars() {
                match char {
                    '"' | '\\' => self.out.write_char('\\').and_then(|()| self.out.write_char(char)),
                    '/' if self.last == '<' => self.out.write_str("\\/"),
                    // Readers that are not quite complete know the short forms better than the long one.
                    '\n' => self.out.write_str("\\n"),
                    '\r' => self.out.write_str("\\r"),
                    '\t' => self.out.write_str("\\t"),
                    '!' if self.last == '<' => self.out.write_str("\\u0021"),
                    // The form that RFC 8259 allows for every control character.
                    control if control < ' ' => write!(self.out, "\\u{:04x}", u32::from(control)),
                    char => self.out.write_char(char),
                }?;
                self.last = char;
            }
            Ok(())
        }
    }

    out.write_char('"')?;
    write!(Escape { out, last: '"' }, "{value}")?;
    out.write_char('"')
}
