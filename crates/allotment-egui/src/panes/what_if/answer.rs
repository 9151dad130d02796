//! The replay of the requests with one of the settings.

use allotment_analyze::{
    PeakFigures, Scope, SeriesAxis, SettingChanges, Timeline, WhatIfError, recorded_settings, series, what_if,
};

/// Samples of a curve: as many as a wide chart has pixels, half of them.
const SAMPLES: usize = 800;

/// The outcome of a setting.
pub(super) struct Answer {
    pub(super) figures: PeakFigures,
    /// Requests that are where they were in the recording, in thousandths of all.
    pub(super) same_place: u64,
    pub(super) moves_left_out: u64,
    pub(super) curve: Vec<Sample>,
}

/// The most bytes since the sample before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The moment, as a share of the recording: of its frames, or of its events where it has none.
    pub(super) at: f64,
    pub(super) blocks: u64,
    pub(super) used: u64,
}

impl Answer {
    /// Makes the requests of a recording again, unless nothing is changed.
    pub(super) fn of(timeline: &Timeline<'_>, changes: &SettingChanges) -> Result<Self, String> {
        if changes.is_none() {
            return Ok(Self::of_timeline(timeline, 1000, 0));
        }
        let mut settings = recorded_settings(timeline.recording());
        changes.apply(&mut settings);
        let made = what_if(timeline.recording(), &settings).map_err(|error| match &error {
            WhatIfError::Allocator(why) => format!("{error}: {why}"),
            _ => error.to_string(),
        })?;
        let same = (u128::from(made.at_the_same_place) * 1000 / u128::from(made.requests.max(1))) as u64;
        Ok(Self::of_timeline(&Timeline::new(&made.recording), same, made.moves_left_out))
    }

    fn of_timeline(timeline: &Timeline<'_>, same_place: u64, moves_left_out: u64) -> Self {
        let frames = timeline.frame_count();
        let axis = if frames > 0 { SeriesAxis::Frames } else { SeriesAxis::Events };
        let all = series(timeline, &[Scope::All], axis, SAMPLES).pop();
        let samples = all.map(|series| series.samples).unwrap_or_default();
        let curve = samples.iter().map(|sample| {
            let (at, length) = if frames > 0 {
                (sample.moment.frame, frames)
            } else {
                (sample.moment.event, timeline.end())
            };
            Sample { at: at as f64 / length.max(1) as f64, blocks: sample.peak.size, used: sample.peak.used }
        });
        let curve = curve.collect();
        Self { figures: PeakFigures::of(timeline), same_place, moves_left_out, curve }
    }
}
