//! The part of an axis that is visible.

/// The least part of an axis that can be filled by a view: beyond it, two neighbouring numbers of `f64` meet.
const LEAST: f64 = 1e-12;

/// A visible part of an axis whose whole is 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Default for Span {
    fn default() -> Self {
        Self { from: 0.0, to: 1.0 }
    }
}

impl Span {
    pub(crate) fn size(self) -> f64 {
        self.to - self.from
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::default()
    }

    /// Shows a part, moved into the whole where it is not in it.
    pub(crate) fn show(&mut self, from: f64, size: f64) {
        let size = size.clamp(LEAST, 1.0);
        self.from = from.clamp(0.0, 1.0 - size);
        self.to = self.from + size;
    }

    /// Zooms by a factor, below 1 to see less. The place `at`, a share of the view, stays where it is.
    pub(crate) fn zoom(&mut self, at: f64, factor: f64, least: f64) {
        let fixed = self.from + at * self.size();
        let size = (self.size() * factor).clamp(least.max(LEAST), 1.0);
        self.show(fixed - at * size, size);
    }

    /// Moves by a share of the view.
    pub(crate) fn pan(&mut self, by: f64) {
        self.show(self.from + by * self.size(), self.size());
    }

    /// Moves as far as needed for a part to be visible, and zooms out where it is larger than the view.
    pub(crate) fn reveal(&mut self, from: f64, to: f64) {
        let size = to - from;
        if size > self.size() {
            self.show(from - size * 0.05, size * 1.1);
        } else if from < self.from || to > self.to {
            self.show(from - (self.size() - size) / 2.0, self.size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_the_pointer_stays_there_while_one_zooms() {
        let mut span = Span::default();
        span.zoom(0.25, 0.5, 0.0);
        assert_eq!(span, Span { from: 0.125, to: 0.625 });
        span.zoom(0.25, 0.1, 0.0);
        assert!((span.from + 0.25 * span.size() - 0.25).abs() < 1e-12);
        span.zoom(0.25, 1e9, 0.0);
        assert!(span.is_whole());
    }

    #[test]
    fn a_view_never_leaves_the_whole() {
        let mut span = Span { from: 0.9, to: 1.0 };
        span.pan(5.0);
        assert!((span.to - 1.0).abs() < 1e-12 && (span.size() - 0.1).abs() < 1e-12);
        span.zoom(0.5, 1e-30, 0.0);
        assert!(span.size() > 0.0);
    }

    #[test]
    fn a_range_is_revealed_with_the_least_change() {
        let mut span = Span { from: 0.0, to: 0.1 };
        span.reveal(0.02, 0.03);
        assert_eq!(span, Span { from: 0.0, to: 0.1 }, "it was visible");
        span.reveal(0.5, 0.52);
        assert!(span.from < 0.5 && span.to > 0.52 && (span.size() - 0.1).abs() < 1e-12);
        span.reveal(0.0, 0.9);
        assert!(span.from <= 0.0 && span.to >= 0.9);
    }
}
