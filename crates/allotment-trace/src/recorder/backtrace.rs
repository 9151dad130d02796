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

/// Reads `Backtrace [{ fn: "main", file: "src/main.rs", line: 3 }, …]`, the innermost call first. Nothing in it is escaped: a
/// name or a path ends where the next field or the call does.
fn calls(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{ fn: ") {
        let Some(quoted) = after.strip_prefix('"') else {
            calls.push(Call::default());
            rest = after;
            continue;
        };
        let Some((function, end)) = until(quoted, [FILE, END]) else { break };
        let (mut place, mut after) = (String::new(), end);
        if let Some(file) = end.strip_prefix(FILE) {
            let Some((file, end)) = until(file, [LINE, END]) else { break };
            after = end;
            place = match end.strip_prefix(LINE) {
                Some(line) => {
                    let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
                    format!("{file}:{}", &line[..digits])
                }
                None => file.to_owned(),
            };
        }
        calls.push(Call { function: function.to_owned(), place });
        rest = after;
    }
    calls
}

const FILE: &str = "\", file: \"";
const LINE: &str = "\", line: ";
const END: &str = "\" }";

/// Returns what comes before the first of two texts, and the rest, which begins with that.
fn until<'a>(text: &'a str, ends: [&str; 2]) -> Option<(&'a str, &'a str)> {
    let end = ends.iter().filter_map(|end| text.find(end)).min()?;
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_backtrace_are_read_from_its_text() {
        // As the standard library writes them.
        let text = r#"Backtrace [{ fn: "<extern "C" fn() as x::T>::go", file: "C:\game\"src".rs", line: 30 }, { fn: <unknown> }, { fn: "main", file: "./main.rs" }]"#;
        let call = |function: &str, place: &str| Call { function: function.into(), place: place.into() };
        assert_eq!(
            calls(text),
            [
                call(r#"<extern "C" fn() as x::T>::go"#, r#"C:\game\"src".rs:30"#),
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
