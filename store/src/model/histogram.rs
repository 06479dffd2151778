//! A histogram for `/metrics`.

/// Counts values by size. Without bounds nothing is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for larger values.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Creates an empty histogram with these ascending `bounds`.
    #[cfg(any(feature = "embedded", test))]
    pub(crate) fn between(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len().saturating_add(1)], sum: 0.0 }
    }

    /// Counts `value`.
    #[cfg(any(feature = "embedded", test))]
    pub(crate) fn record(&mut self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
            self.sum += value;
        }
    }

    /// Returns the buckets: the upper bound, and the number of values above the previous bound. The last bound is
    /// infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied())
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_once_below_the_first_bound_that_it_does_not_exceed() {
        let mut tally = Histogram::between(&[1.0, 2.0]);
        [0.5, 1.0, 2.0, 7.0].into_iter().for_each(|value| tally.record(value));
        assert_eq!(tally.buckets().collect::<Vec<_>>(), [(1.0, 2), (2.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((tally.count(), tally.sum()), (4, 10.5));
        let mut none = Histogram::default();
        none.record(1.0);
        assert_eq!((none.count(), none.buckets().count()), (0, 0));
    }
}
