//! Statistics of durations.

use core::time::Duration;

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the duration that a share of all does not exceed; 0 without durations.
pub(super) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Returns the share of durations within a limit; 1 without durations.
pub(super) fn share_within(times: &[Duration], limit: Duration) -> f64 {
    let within = times.iter().filter(|&&time| time <= limit).count();
    if times.is_empty() { 1.0 } else { within as f64 / times.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_time_that_so_many_do_not_exceed() {
        let times: Vec<_> = (1..=1000).map(Duration::from_micros).collect();
        assert_eq!(quantile(&times, 0.5), Duration::from_micros(500));
        assert_eq!(quantile(&times, 0.999), Duration::from_micros(999));
        assert_eq!(quantile(&times, 1.0), Duration::from_micros(1000));
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
        assert_eq!(share_within(&times, Duration::from_micros(250)), 0.25);
        assert_eq!(share_within(&[], Duration::ZERO), 1.0);
    }
}
