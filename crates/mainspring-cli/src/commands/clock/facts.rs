//! What is measured about this machine's clocks, before anything is concluded from it.

use std::time::Duration;

use anyhow::Result;
use mainspring::clock::{Cached, ClockSource, Monotonic, Tsc, counter_is_invariant};
use mainspring::time::Clock;
use serde::Serialize;

use super::cores::{self, Cores};
use super::drift::{self, Drift};
use super::staleness::{self, Staleness};
use crate::experiments::clocks::{cost_ns, counter_unit_ns, length};
use crate::os;
use crate::report::progress::Progress;
use crate::report::table::{Block, Table};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Facts {
    /// What the kernel makes its clocks from; none if it does not tell.
    pub(super) source: Option<String>,
    pub(super) available: Vec<String>,
    pub(super) hypervisor: Option<String>,
    pub(super) costs: Costs,
    pub(super) served_by: Served,
    /// Whether the processor promises one rate for its counter.
    pub(super) counter_invariant: bool,
    /// Why there is no `Tsc` clock here, if there is none.
    pub(super) tsc_refused: Option<String>,
    pub(super) cores: Option<Cores>,
    pub(super) drift: Option<Drift>,
    pub(super) staleness: Vec<Staleness>,
}

/// Nanoseconds a read, or a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Costs {
    pub(super) getpid_ns: f64,
    pub(super) monotonic_ns: f64,
    pub(super) monotonic_coarse_ns: f64,
    pub(super) cached_ns: f64,
    pub(super) counter_ns: Option<f64>,
    pub(super) tsc_ns: Option<f64>,
}

/// Who answers when a program reads the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Served {
    /// Code the kernel lends to every program: no system call.
    Vdso,
    SystemCall,
    /// The cost fits both.
    #[default]
    Unclear,
}

impl Facts {
    pub(crate) fn measure(span: Duration, progress: &Progress) -> Result<Self> {
        progress.begin("clock: costs", 4);
        let source = ClockSource::of_this_machine();
        let tsc = Tsc::start();
        let costs = Costs::measure(tsc.as_ref().ok());
        progress.step(1);
        progress.label("clock: agreement of cores");
        let cores = cores::compare(counter_unit_ns());
        progress.step(1);
        progress.label(format!("clock: drift, {} s", span.as_secs()));
        let drift = tsc.as_ref().ok().map(|tsc| drift::measure(tsc, span));
        progress.step(1);
        progress.label("clock: staleness");
        let staleness = staleness::measure()?;
        progress.step(1);
        Ok(Self {
            source: source.as_ref().map(|source| source.current.clone()),
            available: source.map(|source| source.available).unwrap_or_default(),
            hypervisor: os::hypervisor(),
            served_by: costs.served_by(),
            costs,
            counter_invariant: counter_is_invariant(),
            tsc_refused: tsc.err().map(|refusal| refusal.to_string()),
            cores,
            drift,
            staleness,
        })
    }

    pub(crate) fn show(&self) -> Vec<Block> {
        vec![self.table().into(), staleness::table(&self.staleness).into()]
    }

    fn table(&self) -> Table {
        let mut table = Table::new("This machine's clocks").words("").words("");
        let mut fact = |name: &str, value: String| table.row([name.to_owned(), value]);
        let unknown = || "unknown".to_owned();
        let ns = |ns: Option<f64>| ns.map_or_else(unknown, |ns| format!("{ns:.1} ns"));

        fact("clock source", self.source.clone().unwrap_or_else(unknown));
        fact(
            "  available",
            if self.available.is_empty() { unknown() } else { self.available.join(", ") },
        );
        fact("a system call (getpid)", ns(Some(self.costs.getpid_ns)));
        let by = match self.served_by {
            Served::Vdso => "no system call",
            Served::SystemCall => "a system call",
            Served::Unclear => "perhaps a system call",
        };
        fact("the monotonic clock", format!("{:.1} ns, {by}", self.costs.monotonic_ns));
        fact("  its coarse form", ns(Some(self.costs.monotonic_coarse_ns)));
        fact("a cached clock", ns(Some(self.costs.cached_ns)));
        fact("the processor's counter", ns(self.costs.counter_ns));
        fact("  of one rate", if self.counter_invariant { "yes" } else { "no" }.to_owned());
        let agreement =
            self.cores.as_ref().map_or_else(|| "nothing to compare".to_owned(), Cores::to_string);
        fact("  on all cores", agreement);
        let tsc = self
            .tsc_refused
            .as_ref()
            .map_or_else(|| ns(self.costs.tsc_ns), |why| format!("none: {why}"));
        fact("the Tsc clock", tsc);
        if let Some(drift) = &self.drift {
            let (ppm, margin) = (drift.ppm, drift.margin_ppm);
            let over = length(drift.seconds * 1e9);
            fact(
                "  drift",
                format!(
                    "{ppm:+.3} +- {margin:.3} ppm over {over}, at most {}",
                    length(drift.largest_ns)
                ),
            );
        }
        table
    }
}

impl Costs {
    fn measure(tsc: Option<&Tsc>) -> Self {
        let cached = Cached::new(Monotonic.now());
        let tsc = tsc.cloned();
        Self {
            getpid_ns: cost_ns(os::getpid),
            monotonic_ns: cost_ns(|| os::clock_gettime(libc::CLOCK_MONOTONIC)),
            monotonic_coarse_ns: cost_ns(|| os::clock_gettime(libc::CLOCK_MONOTONIC_COARSE)),
            cached_ns: cost_ns(move || cached.now()),
            counter_ns: os::rdtsc().map(|_| cost_ns(os::rdtsc)),
            tsc_ns: tsc.map(|tsc| cost_ns(move || tsc.now())),
        }
    }

    /// Judged by cost: a clock that is read by a system call costs at least what the cheapest call does.
    pub(super) fn served_by(&self) -> Served {
        // A hypervisor that intercepts the counter makes reads slow without any system call.
        let intercepted = self
            .counter_ns
            .is_some_and(|counter| counter > self.getpid_ns.min(self.monotonic_ns) / 2.0);
        match self.monotonic_ns / self.getpid_ns {
            ratio if ratio < 0.8 => Served::Vdso,
            ratio if ratio >= 1.0 && !intercepted => Served::SystemCall,
            _ => Served::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(getpid_ns: f64, monotonic_ns: f64, counter_ns: Option<f64>) -> Served {
        Costs { getpid_ns, monotonic_ns, counter_ns, ..Costs::default() }.served_by()
    }

    #[test]
    fn who_serves_a_read_is_judged_by_its_cost() {
        assert_eq!(costs(102.0, 22.0, Some(10.0)), Served::Vdso);
        assert_eq!(costs(40.0, 25.0, Some(18.0)), Served::Vdso, "a fast system call");
        assert_eq!(costs(100.0, 900.0, Some(10.0)), Served::SystemCall, "acpi_pm");
        assert_eq!(costs(100.0, 140.0, None), Served::SystemCall);
        assert_eq!(
            costs(100.0, 1500.0, Some(1400.0)),
            Served::Unclear,
            "the hypervisor intercepts the counter"
        );
        assert_eq!(costs(100.0, 90.0, Some(10.0)), Served::Unclear);
    }

    #[test]
    fn nothing_known_is_shown_as_unknown() {
        let text = Facts::default().table().to_string();
        assert!(text.contains("unknown") && text.contains("nothing to compare"), "{text}");
    }
}
