//! What follows from the facts, in plain words. A pure function: the machines it was never run on are its tests.

use super::facts::{Facts, Served};
use super::staleness::Staleness;
use crate::experiments::clocks::length;

/// The sentence about the system's clock first, then one each about the `Tsc` clock and the cached one.
pub(crate) fn verdict(facts: &Facts) -> Vec<String> {
    let mut sentences = vec![system(facts), counter(facts)];
    sentences.extend(cached(facts));
    sentences
}

fn system(facts: &Facts) -> String {
    let source = facts.source.as_deref().unwrap_or("unknown");
    let costs = &facts.costs;
    let read = nanoseconds(costs.monotonic_ns);
    match facts.served_by {
        Served::Vdso => format!(
            "clocksource is {source}: a read costs {read} and is no system call; {}",
            habit(costs.monotonic_ns)
        ),
        Served::SystemCall => {
            format!("clocksource is {source}: a read is a system call of {read}; {}", cure(facts))
        }
        Served::Unclear => match costs.counter_ns {
            Some(counter) if counter > costs.monotonic_ns / 2.0 => format!(
                "clocksource is {source}: a read costs {read}, most of it the processor's counter ({}), which the \
                 hypervisor seems to intercept; read a cached clock",
                nanoseconds(counter)
            ),
            _ => format!(
                "clocksource is {source}: a read costs {read}, about what a system call does ({}); whether it is one \
                 cannot be told by cost",
                nanoseconds(costs.getpid_ns)
            ),
        },
    }
}

/// What to do with a clock that needs no system call.
fn habit(read_ns: f64) -> &'static str {
    if read_ns <= 100.0 {
        "read it once a pass and think no more of it"
    } else {
        "that is slow: read a cached clock"
    }
}

/// What to do about a clock that needs one.
fn cure(facts: &Facts) -> String {
    let source = facts.source.as_deref().unwrap_or("unknown");
    if FAST_SOURCES.contains(&source) {
        return "this source needs none, so a sandbox stands between; read a cached clock"
            .to_owned();
    }
    match FAST_SOURCES
        .iter()
        .find(|fast| facts.available.iter().any(|available| available == *fast))
    {
        Some(fast) => format!("switch to {fast}, or read a cached clock"),
        None if facts.available.is_empty() => "read a cached clock".to_owned(),
        None => "the kernel offers no better one here; read a cached clock".to_owned(),
    }
}

fn counter(facts: &Facts) -> String {
    if let Some(why) = &facts.tsc_refused {
        return format!("the Tsc clock is not to be had here: {why}");
    }
    let Some(tsc_ns) = facts.costs.tsc_ns else {
        return "the Tsc clock was not measured".to_owned();
    };
    if !facts.counter_invariant {
        return "the processor's counter changes its rate with its power state: do not use the Tsc clock".to_owned();
    }
    if let Some(cores) =
        facts.cores.filter(|cores| cores.disagree && cores.bound_ns() > DISAGREEMENT_NS)
    {
        let apart = length(cores.bound_ns());
        return format!("the cores' counters disagree, by up to {apart}: do not use the Tsc clock");
    }
    let cost = match facts.costs.monotonic_ns / tsc_ns {
        gain if gain >= 1.2 => {
            format!("costs {}, {gain:.1} times less than the system's clock", nanoseconds(tsc_ns))
        }
        _ => format!("costs {} and gains nothing over the system's clock", nanoseconds(tsc_ns)),
    };
    let drift = facts.drift.map_or_else(String::new, |drift| {
        let worst = drift.ppm.abs() + drift.margin_ppm;
        let within = 1.0 / worst.max(1e-6);
        let how_often = if within >= 60.0 { "minute".to_owned() } else { length(within * 1e9) };
        format!("; drift below {worst:.2} ppm: re-anchored every {how_often} it stays within a microsecond")
    });
    format!("the Tsc clock {cost}{drift}")
}

fn cached(facts: &Facts) -> Option<String> {
    let read = nanoseconds(facts.costs.cached_ns);
    let row = facts
        .staleness
        .iter()
        .find(|row| row.refresh_ns == 1_000_000)
        .or(facts.staleness.first())?;
    let Staleness { refresh_ns, stale_ns_median, stale_ns_max, .. } = *row;
    let [every, median, worst] =
        [refresh_ns, stale_ns_median, stale_ns_max].map(|ns| length(ns as f64));
    let mut text = format!(
        "a cached clock costs {read}; refreshed every {every} it is {median} old, at worst {worst}"
    );
    if stale_ns_max > refresh_ns.saturating_mul(10) {
        text.push_str(
            ": its thread is woken late here, so the machine is busy; refresh it in your own loop",
        );
    }
    Some(text)
}

fn nanoseconds(ns: f64) -> String {
    if ns < 10.0 { format!("{ns:.1} ns") } else { format!("{ns:.0} ns") }
}

/// Clock sources that the kernel lends to programs, so that a read needs no system call; best first.
const FAST_SOURCES: [&str; 4] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Less than any program can tell between two cores.
const DISAGREEMENT_NS: f64 = 200.0;

#[cfg(test)]
mod tests {
    use super::super::cores::Cores;
    use super::super::drift::Drift;
    use super::super::facts::Costs;
    use super::*;

    /// A machine like most: the counter is the clock source, all is well.
    fn usual() -> Facts {
        let costs = Costs {
            getpid_ns: 102.0,
            monotonic_ns: 22.0,
            monotonic_coarse_ns: 5.0,
            cached_ns: 0.4,
            counter_ns: Some(10.0),
            tsc_ns: Some(11.0),
        };
        Facts {
            source: Some("tsc".to_owned()),
            available: vec!["tsc".to_owned(), "kvm-clock".to_owned()],
            hypervisor: None,
            costs,
            served_by: costs.served_by(),
            counter_invariant: true,
            tsc_refused: None,
            cores: Some(Cores {
                compared: 4,
                offset_ns_low: -60.0,
                offset_ns_high: 70.0,
                disagree: false,
            }),
            drift: Some(Drift { seconds: 2.0, ppm: 0.1, margin_ppm: 0.02, largest_ns: 200.0 }),
            staleness: vec![
                Staleness {
                    refresh_ns: 100_000,
                    stale_ns_median: 80_000,
                    stale_ns_p99: 160_000,
                    stale_ns_max: 200_000,
                },
                Staleness {
                    refresh_ns: 1_000_000,
                    stale_ns_median: 530_000,
                    stale_ns_p99: 1_050_000,
                    stale_ns_max: 1_200_000,
                },
            ],
        }
    }

    /// One whose clock is `source` and costs `monotonic_ns`.
    fn with_source(source: &str, available: &[&str], monotonic_ns: f64) -> Facts {
        let mut facts = usual();
        facts.source = Some(source.to_owned());
        facts.available = available.iter().map(|&name| name.to_owned()).collect();
        facts.costs.monotonic_ns = monotonic_ns;
        facts.served_by = facts.costs.served_by();
        facts
    }

    #[test]
    fn the_usual_machine_needs_no_advice() {
        assert_eq!(
            verdict(&usual()),
            [
                "clocksource is tsc: a read costs 22 ns and is no system call; read it once a pass and think no more of it",
                "the Tsc clock costs 11 ns, 2.0 times less than the system's clock; drift below 0.12 ppm: re-anchored \
                 every 8.3 s it stays within a microsecond",
                "a cached clock costs 0.4 ns; refreshed every 1.0 ms it is 530.0 us old, at worst 1.2 ms",
            ]
        );
    }

    #[test]
    fn a_slow_source_with_a_better_one_at_hand() {
        let facts = with_source("acpi_pm", &["tsc", "hpet", "acpi_pm"], 900.0);
        assert_eq!(
            verdict(&facts)[0],
            "clocksource is acpi_pm: a read is a system call of 900 ns; switch to tsc, or read a cached clock"
        );
        let facts = with_source("xen", &["xen", "hyperv_clocksource_tsc_page"], 300.0);
        assert!(
            verdict(&facts)[0]
                .ends_with("switch to hyperv_clocksource_tsc_page, or read a cached clock")
        );
    }

    #[test]
    fn a_slow_source_without_a_better_one() {
        let facts = with_source("hpet", &["hpet", "acpi_pm"], 1200.0);
        assert_eq!(
            verdict(&facts)[0],
            "clocksource is hpet: a read is a system call of 1200 ns; the kernel offers no better one here; read a \
             cached clock"
        );
    }

    #[test]
    fn a_fast_source_behind_a_sandbox() {
        let facts = with_source("tsc", &["tsc"], 400.0);
        assert_eq!(
            verdict(&facts)[0],
            "clocksource is tsc: a read is a system call of 400 ns; this source needs none, so a sandbox stands \
             between; read a cached clock"
        );
    }

    #[test]
    fn a_system_that_does_not_tell_its_source() {
        let mut facts = with_source("", &[], 400.0);
        facts.source = None;
        assert_eq!(
            verdict(&facts)[0],
            "clocksource is unknown: a read is a system call of 400 ns; read a cached clock"
        );
    }

    #[test]
    fn a_hypervisor_that_intercepts_the_counter() {
        let mut facts = with_source("tsc", &["tsc"], 1500.0);
        facts.costs.counter_ns = Some(1400.0);
        facts.served_by = facts.costs.served_by();
        assert_eq!(
            verdict(&facts)[0],
            "clocksource is tsc: a read costs 1500 ns, most of it the processor's counter (1400 ns), which the \
             hypervisor seems to intercept; read a cached clock"
        );
    }

    #[test]
    fn a_cost_that_fits_both_is_not_judged() {
        let facts = with_source("tsc", &["tsc"], 95.0);
        assert!(verdict(&facts)[0].ends_with(
            "about what a system call does (102 ns); whether it is one cannot be told by cost"
        ));
    }

    #[test]
    fn a_slow_read_without_a_system_call() {
        let mut facts = with_source("kvm-clock", &["kvm-clock"], 150.0);
        facts.costs.getpid_ns = 700.0;
        facts.served_by = facts.costs.served_by();
        assert!(
            verdict(&facts)[0].ends_with("is no system call; that is slow: read a cached clock")
        );
    }

    #[test]
    fn a_counter_that_is_refused_or_unfit_is_not_recommended() {
        let mut facts = usual();
        facts.tsc_refused = Some("there is none".to_owned());
        assert_eq!(verdict(&facts)[1], "the Tsc clock is not to be had here: there is none");

        let mut facts = usual();
        facts.counter_invariant = false;
        assert!(
            verdict(&facts)[1]
                .ends_with("changes its rate with its power state: do not use the Tsc clock")
        );

        let mut facts = usual();
        facts.cores = Some(Cores {
            compared: 2,
            offset_ns_low: 1.5e9,
            offset_ns_high: 1.6e9,
            disagree: true,
        });
        assert_eq!(
            verdict(&facts)[1],
            "the cores' counters disagree, by up to 1.6 s: do not use the Tsc clock"
        );
    }

    #[test]
    fn wide_bounds_are_no_disagreement() {
        let mut facts = usual();
        facts.cores = Some(Cores {
            compared: 2,
            offset_ns_low: -9000.0,
            offset_ns_high: 9000.0,
            disagree: false,
        });
        assert!(verdict(&facts)[1].contains("2.0 times less"));
        facts.cores = None;
        assert!(verdict(&facts)[1].contains("2.0 times less"), "a single core");
    }

    #[test]
    fn a_counter_that_saves_nothing_says_so() {
        let mut facts = usual();
        facts.costs.tsc_ns = Some(21.0);
        assert!(
            verdict(&facts)[1]
                .starts_with("the Tsc clock costs 21 ns and gains nothing over the system's clock")
        );
    }

    #[test]
    fn drift_says_how_often_to_re_anchor() {
        let mut facts = usual();
        facts.drift =
            Some(Drift { seconds: 2.0, ppm: -83.0, margin_ppm: 0.0, largest_ns: 166_000.0 });
        assert!(verdict(&facts)[1].ends_with(
            "drift below 83.00 ppm: re-anchored every 12.0 ms it stays within a microsecond"
        ));
        facts.drift = Some(Drift { seconds: 60.0, ppm: 0.0, margin_ppm: 0.0, largest_ns: 0.0 });
        assert!(
            verdict(&facts)[1].ends_with("re-anchored every minute it stays within a microsecond")
        );
    }

    #[test]
    fn a_refresher_that_is_woken_late_is_told() {
        let mut facts = usual();
        facts.staleness[1].stale_ns_max = 40_000_000;
        assert!(verdict(&facts)[2].ends_with("at worst 40.0 ms: its thread is woken late here, so the machine is busy; refresh it in your own loop"));
    }
}
