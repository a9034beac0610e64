//! How far rounds of a measurement lie apart, and what may therefore be said about two of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::stats::Summary;

/// What the rounds of one figure were like. In the document beside the figure, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) rounds: usize,
    /// The least of them.
    pub(crate) least: f64,
    /// The median lies between these with 95 % confidence; of fewer than six rounds they are the least and the largest.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// By the key of the figure.
pub(crate) type Spreads = BTreeMap<&'static str, Spread>;

impl Spread {
    /// `None` of no rounds.
    pub(crate) fn of(rounds: &[f64]) -> Option<Self> {
        let Summary { count, min, max, confidence, .. } = Summary::of(rounds)?;
        let (low, high) = confidence.unwrap_or((min, max));
        Some(Self { rounds: count, least: min, low, high })
    }

    /// Half of what lies between the ends, in percent of their middle.
    pub(crate) fn percent(&self) -> f64 {
        let middle = f64::midpoint(self.low, self.high);
        if middle == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / middle.abs() * 100.0 }
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The spreads of several figures of one row.
pub(crate) fn spreads<'a>(figures: impl IntoIterator<Item = (&'static str, &'a [f64])>) -> Spreads {
    figures.into_iter().filter_map(|(key, rounds)| Some((key, Spread::of(rounds)?))).collect()
}

/// A figure, and the spread of its rounds where there were several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) spread: Option<Spread>,
}

/// What may be said about one figure beside another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The two lie apart, with all their rounds.
    Certain(f64),
    /// More than chance would make likely; more rounds would tell.
    Likely(f64),
    /// Within the noise, or within 2 %.
    NoDifference,
}

/// With fewer rounds than this nothing is certain: two sets of four lie apart by chance once in 35 times.
const LEAST_ROUNDS: usize = 5;

/// Below this a difference is not worth a word, however sure it is.
const NEGLIGIBLE: f64 = 0.02;

impl Verdict {
    /// How many times `base` the `other` is.
    pub(crate) fn between(base: Figure, other: Figure) -> Self {
        let ratio = other.median / base.median;
        let (Some(a), Some(b)) = (base.spread, other.spread) else {
            return if (ratio - 1.0).abs() <= NEGLIGIBLE {
                Self::NoDifference
            } else {
                Self::Likely(ratio)
            };
        };
        let overlap = a.low <= b.high && b.low <= a.high;
        if (ratio - 1.0).abs() <= NEGLIGIBLE || a.holds(other.median) || b.holds(base.median) {
            Self::NoDifference
        } else if !overlap && a.rounds.min(b.rounds) >= LEAST_ROUNDS {
            Self::Certain(ratio)
        } else {
            Self::Likely(ratio)
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |ratio: f64| match ratio {
            ratio if ratio < 0.095 => format!("{ratio:.3} x"),
            ratio if ratio < 9.95 => format!("{ratio:.2} x"),
            ratio if ratio < 99.5 => format!("{ratio:.1} x"),
            ratio => format!("{ratio:.0} x"),
        };
        match self {
            Self::Certain(ratio) => write!(f, "{}, certain", times(*ratio)),
            Self::Likely(ratio) => write!(f, "{}, likely", times(*ratio)),
            Self::NoDifference => f.write_str("no difference"),
        }
    }
}

/// How many rounds there were, and how far they lay apart; and what to do about it, if that is far.
pub(crate) fn rounds_note<'a>(spreads: impl IntoIterator<Item = &'a Spread>) -> String {
    let (mut rounds, mut widest) = (0, 0.0_f64);
    for spread in spreads {
        (rounds, widest) = (rounds.max(spread.rounds), widest.max(spread.percent()));
    }
    let advice = if widest > NOISY_PERCENT { "; more of them help: --rounds" } else { "" };
    format!("Medians of {rounds} rounds, +-{widest:.0} % at worst{advice}.")
}

/// Above this, the last rounds of a figure are worth little.
const NOISY_PERCENT: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(rounds: &[f64]) -> Figure {
        let median = crate::report::stats::median(rounds);
        Figure { median, spread: Spread::of(rounds) }
    }

    #[test]
    fn five_rounds_apart_are_certain_and_four_are_not() {
        let (slow, fast) = ([20.0, 21.0, 22.0, 23.0, 24.0], [10.0, 11.0, 12.0, 13.0, 14.0]);
        let verdict = Verdict::between(figure(&fast), figure(&slow));
        assert_eq!(verdict, Verdict::Certain(22.0 / 12.0));
        assert_eq!(verdict.to_string(), "1.83 x, certain");
        let verdict = Verdict::between(figure(&fast[..4]), figure(&slow[..4]));
        assert_eq!(verdict, Verdict::Likely(21.5 / 11.5));
    }

    #[test]
    fn a_median_within_the_others_rounds_is_no_difference() {
        let (a, b) = ([10.0, 11.0, 12.0, 13.0, 14.0], [11.0, 12.0, 13.5, 15.0, 16.0]);
        assert_eq!(Verdict::between(figure(&a), figure(&b)), Verdict::NoDifference);
        assert_eq!(Verdict::between(figure(&a), figure(&a)).to_string(), "no difference");
    }

    #[test]
    fn what_overlaps_only_at_the_ends_is_likely() {
        let (a, b) = ([10.0, 10.1, 10.2, 10.3, 14.0], [13.0, 15.0, 15.1, 15.2, 15.3]);
        assert!(matches!(Verdict::between(figure(&a), figure(&b)), Verdict::Likely(_)));
    }

    #[test]
    fn without_rounds_nothing_is_certain() {
        let alone = |median| Figure { median, spread: None };
        assert_eq!(Verdict::between(alone(1.0), alone(300.0)), Verdict::Likely(300.0));
        assert_eq!(Verdict::between(alone(100.0), alone(101.0)), Verdict::NoDifference);
    }

    /// However sure: a hundredth is nothing to act on.
    #[test]
    fn one_percent_is_no_difference() {
        let (a, b) = ([100.0; 7], [101.0; 7]);
        assert_eq!(Verdict::between(figure(&a), figure(&b)), Verdict::NoDifference);
    }

    #[test]
    fn many_rounds_are_judged_by_their_confidence() {
        let mut rounds: Vec<f64> = (0..100).map(|nth| 10.0 + f64::from(nth % 10) / 10.0).collect();
        rounds[0] = 1000.0;
        let spread = Spread::of(&rounds).unwrap();
        assert!(spread.high < 11.0 && spread.percent() < 5.0, "{spread:?}");
        assert!(!rounds_note([&spread]).contains("--rounds"));
        let noisy = Spread { low: 5.0, high: 15.0, ..spread };
        assert!(rounds_note([&noisy, &spread]).contains("--rounds"));
    }
}
