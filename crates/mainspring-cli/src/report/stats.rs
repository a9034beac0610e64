//! What can honestly be said about a handful of measurements: medians, ranks, spread, and how sure they are.

/// A set of measurements in five numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
    /// The true median lies in here with at least 95 % confidence, whatever the distribution;
    /// of fewer than six measurements no such interval exists.
    pub(crate) confidence: Option<(f64, f64)>,
}

impl Summary {
    /// `None` of no measurements.
    pub(crate) fn of(measurements: &[f64]) -> Option<Self> {
        let mut sorted = measurements.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let confidence =
            confidence_ranks(sorted.len()).map(|(low, high)| (sorted[low], sorted[high]));
        Some(Self { count: sorted.len(), min, median: middle(&sorted), max, confidence })
    }

    /// How far the ends of `confidence` are from the median at most, in percent of it; of the whole range if there
    /// is no such interval.
    pub(crate) fn margin_percent(&self) -> f64 {
        let (low, high) = self.confidence.unwrap_or((self.min, self.max));
        let widest = (high - self.median).max(self.median - low);
        if widest == 0.0 { 0.0 } else { widest / self.median.abs() * 100.0 }
    }

    /// Half the width of what was seen, in percent of the median: how much to trust the last digits.
    pub(crate) fn spread_percent(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.max - self.min) / 2.0 / self.median.abs() * 100.0
        }
    }
}

/// The median; of an even number, the mean of the two in the middle. `NaN` of no measurements.
pub(crate) fn median(measurements: &[f64]) -> f64 {
    Summary::of(measurements).map_or(f64::NAN, |summary| summary.median)
}

/// The smallest measurement that at least `percent` of all do not exceed (nearest rank). `None` of no measurements.
///
/// `percent` is clamped to 0..=100; 0 is the smallest.
pub(crate) fn percentile(sorted: &[u64], percent: f64) -> Option<u64> {
    let rank = (percent.clamp(0.0, 100.0) / 100.0 * sorted.len() as f64).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0..=len")]
    let index = (rank as usize).saturating_sub(1);
    sorted.get(index).copied()
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Indices of the two order statistics that enclose the median with at least 95 % confidence.
///
/// The number of measurements below the median is binomial(n, 1/2); the interval drops the `low` outermost on either
/// side, as many as leave each tail at most 2.5 %.
fn confidence_ranks(count: usize) -> Option<(usize, usize)> {
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut tail = probability;
    let mut low = None;
    let mut k = 0;
    while tail <= 0.025 && k < count / 2 {
        low = Some(k);
        k += 1;
        probability *= (count - k + 1) as f64 / k as f64;
        tail += probability;
    }
    low.map(|low| (low, count - 1 - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&sorted, 0.0), Some(1));
        assert_eq!(percentile(&sorted, 50.0), Some(100));
        assert_eq!(percentile(&sorted, 99.0), Some(198));
        assert_eq!(percentile(&sorted, 99.9), Some(200));
        assert_eq!(percentile(&sorted, 100.0), Some(200));
        assert_eq!(percentile(&sorted, 1e9), Some(200));
        assert_eq!(percentile(&[5], 1.0), Some(5));
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_confidence() {
        let calm: Vec<f64> = (0..20).map(f64::from).collect();
        let mut wild = calm.clone();
        wild[19] = 1e12;
        let (calm, wild) = (Summary::of(&calm).unwrap(), Summary::of(&wild).unwrap());
        assert_eq!(calm.median, wild.median);
        assert_eq!(calm.confidence, wild.confidence);
        assert_eq!(wild.max, 1e12);
    }

    /// The ranks every table of the sign test gives (1-based there: 1-6, 2-9, 6-15, 40-61).
    #[test]
    fn confidence_ranks_are_those_of_the_sign_test() {
        assert_eq!(confidence_ranks(0), None);
        assert_eq!(confidence_ranks(5), None);
        assert_eq!(confidence_ranks(6), Some((0, 5)));
        assert_eq!(confidence_ranks(10), Some((1, 8)));
        assert_eq!(confidence_ranks(20), Some((5, 14)));
        assert_eq!(confidence_ranks(100), Some((39, 60)));
    }

    #[test]
    fn the_margin_is_the_farther_end_of_the_confidence() {
        let summary = Summary::of(&[9.0, 10.0, 10.0, 10.0, 10.0, 12.0]).unwrap();
        assert!((summary.margin_percent() - 20.0).abs() < 1e-9);
        assert_eq!(Summary::of(&[0.0; 9]).unwrap().margin_percent(), 0.0);
    }

    #[test]
    fn spread_is_half_the_range_over_the_median() {
        let summary = Summary::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((summary.spread_percent() - 10.0).abs() < 1e-9);
        assert_eq!(Summary::of(&[0.0]).unwrap().spread_percent(), 0.0);
    }
}
