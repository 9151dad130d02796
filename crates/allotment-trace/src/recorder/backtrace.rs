//! The calls of a backtrace, as text.
//!
//! The standard library shows them as text alone. The names of functions are found when it is made, in the thread that
//! reads the events.

use std::backtrace::Backtrace;

use crate::recording::{StackFrame, StackId, Stacks, TextId};

/// A call: the name of its function, and the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Call {
    function: String,
    place: String,
}

/// Returns the stack of a backtrace, whose texts and calls are numbered by `to`.
pub(crate) fn stack<T>(
    backtrace: &Backtrace,
    to: &mut T,
    mut text: impl FnMut(&mut T, &str) -> TextId,
    mut number: impl FnMut(&mut T, StackFrame) -> StackId,
) -> StackId {
    // Of an endless recursion, what is next to the allocation.
    let calls = calls(&format!("{backtrace:?}"));
    calls.iter().take(Stacks::MAX_DEPTH).rev().fold(StackId::NONE, |parent, call| {
        let function = text(to, &call.function);
        let place = text(to, &call.place);
        number(to, StackFrame { parent, function, place })
    })
}

/// Reads `Backtrace [{ fn: "main", file: "src/main.rs", line: 3 }, …]`, the innermost call first.
fn calls(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{ fn: ") {
        let Some((function, mut after)) = value(after) else { break };
        let mut place = String::new();
        if let Some((file, beyond)) = after.strip_prefix(", file: ").and_then(value) {
            place = file;
            after = beyond;
            if let Some(line) = after.strip_prefix(", line: ") {
                let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
                place = format!("{place}:{}", &line[..digits]);
                after = &line[digits..];
            }
        }
        calls.push(Call { function, place });
        rest = after;
    }
    calls
}

/// Reads a text in quotation marks, or the word that stands for none. Returns what follows, too.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '}'])?;
        return Some((String::new(), &text[end..]));
    };
    let mut read = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((read, &quoted[at + 1..])),
            // Names have quotation marks and backslashes at most; another escape stays readable without its backslash.
            '\\' => read.extend(chars.next().map(|(_, c)| c)),
            c => read.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_backtrace_are_read_from_its_text() {
        let text = r#"Backtrace [{ fn: "game::load::{{closure}}", file: "C:\\game\\\"src\".rs", line: 30 }, { fn: <unknown> }, { fn: "main", file: "./main.rs" }]"#;
        let call = |function: &str, place: &str| Call { function: function.into(), place: place.into() };
        assert_eq!(
            calls(text),
            [
                call("game::load::{{closure}}", r#"C:\game\"src".rs:30"#),
                call("", ""),
                call("main", "./main.rs")
            ]
        );
        for cut in (0..text.len()).filter(|&cut| text.is_char_boundary(cut)) {
            assert!(calls(&text[..cut]).len() <= 3);
        }
    }

    #[inline(never)]
    fn captures() -> Backtrace {
        Backtrace::force_capture()
    }

    #[test]
    fn a_real_backtrace_names_the_function_that_captured_it() {
        let calls = calls(&format!("{:?}", captures()));
        assert!(calls.len() > 2, "{calls:?}");
        assert!(calls.iter().any(|call| call.function.ends_with("tests::captures")), "{calls:?}");
    }
}
