//! Numbers as people read them: the same in commands, in the report and in the viewer.

/// Returns bytes with three digits, in the largest unit with at least one whole digit.
///
/// ```
/// use allotment_analyze::units::bytes;
///
/// assert_eq!((bytes(96 << 20), bytes(1536), bytes(7)), ("96.0 MiB".into(), "1.50 KiB".into(), "7 B".into()));
/// ```
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{} {}", fixed(value, digits), UNITS[unit])
}

/// Writes a number with some digits behind the point. Halves are rounded up, as by `toFixed` in the page's JavaScript.
pub(crate) fn fixed(value: f64, digits: usize) -> String {
    let scale = [1.0, 10.0, 100.0][digits.min(2)];
    format!("{:.digits$}", (value * scale).round() / scale)
}

/// Returns a change of bytes, with its sign.
///
/// ```
/// use allotment_analyze::units::signed_bytes;
///
/// assert_eq!((signed_bytes(-2048), signed_bytes(2048)), ("−2.00 KiB".into(), "+2.00 KiB".into()));
/// ```
#[must_use]
pub fn signed_bytes(change: i128) -> String {
    let size = bytes(u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX));
    match change {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

/// Returns a whole number with thousands set apart.
///
/// ```
/// assert_eq!(allotment_analyze::units::count(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of things: `1 frame`, `2 frames`.
///
/// ```
/// assert_eq!(allotment_analyze::units::plural(2, "frame"), "2 frames");
/// ```
#[must_use]
pub fn plural(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns a share of a whole in percent, with one digit behind the point below 10 %.
///
/// ```
/// use allotment_analyze::units::percent;
///
/// assert_eq!((percent(1, 3), percent(1, 30), percent(0, 0)), ("33 %".into(), "3.3 %".into(), "–".into()));
/// ```
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    let digits = usize::from(part > 0 && share < 10.0);
    format!("{} %", fixed(share, digits))
}

/// Returns a duration in the largest unit with at least one whole digit.
///
/// ```
/// assert_eq!(allotment_analyze::units::duration(16_600_000), "16.6 ms"); // nanoseconds
/// ```
#[must_use]
pub fn duration(nanoseconds: u64) -> String {
    let three = |value: f64| {
        let digits = if value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
        fixed(value, digits)
    };
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} µs", three(nanoseconds as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three(nanoseconds as f64 / 1e6)),
        _ => format!("{:.2} s", nanoseconds as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_the_unit_that_fits() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (35072, "34.3 KiB"), // 34.25
            (96 << 20, "96.0 MiB"),
            (256 << 20, "256 MiB"),
            (3 << 30, "3.00 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!(duration(16_600_000), "16.6 ms");
    }
}
