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
}

/// Mean, standard deviation, and half the width of the interval that holds the true mean with 99.9 % confidence, if the
/// measurements are about normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
    pub(crate) error: f64,
}

impl Moments {
    /// `None` of fewer than two measurements.
    pub(crate) fn of(measurements: &[f64]) -> Option<Self> {
        let count = measurements.len() as f64;
        if count < 2.0 {
            return None;
        }
        let mean = measurements.iter().sum::<f64>() / count;
        let squares = measurements.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let stddev = (squares / (count - 1.0)).sqrt();
        let error = student_999(count - 1.0) * stddev / count.sqrt();
        Some(Self { mean, stddev, error })
    }
}

/// The two-sided 99.9 % point of Student's distribution: exact for one and two degrees of freedom, from there the
/// expansion around the normal distribution's (Abramowitz and Stegun, 26.7.5), 2 % low at worst from five on.
fn student_999(degrees: f64) -> f64 {
    const Z: f64 = 3.290_526_731_491_926;
    if degrees < 1.5 {
        return 636.619;
    } else if degrees < 2.5 {
        return 31.599;
    }
    let powers = [3, 5, 7, 9].map(|power| Z.powi(power));
    Z + (powers[0] + Z) / (4.0 * degrees)
        + (5.0 * powers[1] + 16.0 * powers[0] + 3.0 * Z) / (96.0 * degrees.powi(2))
        + (3.0 * powers[2] + 19.0 * powers[1] + 17.0 * powers[0] - 15.0 * Z)
            / (384.0 * degrees.powi(3))
        + (79.0 * powers[3] + 776.0 * powers[2] + 1482.0 * powers[1]
            - 1920.0 * powers[0]
            - 945.0 * Z)
            / (92_160.0 * degrees.powi(4))
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
    fn moments_are_those_of_the_textbook() {
        assert_eq!(Moments::of(&[1.0]), None);
        let moments = Moments::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(moments.mean, 5.0);
        assert!((moments.stddev - 2.138).abs() < 1e-3);
        assert!((moments.error - 5.408 * 2.138 / 8_f64.sqrt()).abs() < 0.1, "{moments:?}");
        // The tables' values.
        for (degrees, point) in [(5.0, 6.869), (10.0, 4.587), (30.0, 3.646), (100.0, 3.390)] {
            assert!((student_999(degrees) / point - 1.0).abs() < 0.02, "{degrees}");
        }
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
}
