//! Standard output, which may end before we do: `allotment-bench … | head` is no failure.

macro_rules! say {
    () => { say!("") };
    ($($what:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}
