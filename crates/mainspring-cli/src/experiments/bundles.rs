//! `bench bundles`: what it costs to pack a client's messages into datagrams.
//!
//! The experiment of a game server's `SendBundle`: N messages wait for one client; measured is from the first question to
//! the last complete datagram, checksum and copy for resending included. The ways take turns, round after round, and before
//! anything is measured their datagrams are compared byte by byte.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use mainspring_session::Channel;
use mainspring_session::ac::Group;
use serde::Serialize;

use super::{Context, Experiment, grid, grouped};
use crate::os::allocated_and_freed;
use crate::packers::{Method, Way};
use crate::report::noise::{Figure, Spreads, Verdict, spreads};
use crate::report::plot::{Axis, Line, Picture, Plot};
use crate::report::stats::{Moments, median};
use crate::report::table::{Block, Table};
use crate::stopwatch::Stopwatch;
use crate::workload::Random;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) methods: Vec<Method>,
    pub(crate) groups: Vec<GroupKind>,
    pub(crate) sizes: Vec<Sizes>,
    pub(crate) messages: Vec<u32>,
    /// Spent on each way and row, about.
    pub(crate) budget: Duration,
    /// At least so many rounds of each.
    pub(crate) rounds: u32,
    /// Rivals of other libraries as well.
    pub(crate) compare: bool,
}

/// Which rule packs a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupKind {
    /// Ends at the first message that does not fit
    Ui,
    /// Takes whatever still fits
    Smartbox,
}

/// How long the messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sizes {
    /// The public benchmark's message
    #[value(name = "88")]
    Equal,
    #[value(name = "76-144")]
    Mixed,
    /// What fits is always far behind what does not
    Adversarial,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) method: &'static str,
    pub(crate) group: &'static str,
    pub(crate) sizes: &'static str,
    pub(crate) messages: u32,
    pub(crate) mean_ns: f64,
    pub(crate) error_ns: f64,
    pub(crate) stddev_ns: f64,
    pub(crate) median_ns: f64,
    pub(crate) allocated_bytes: u64,
    /// Whether all messages arrived, where there is somebody to receive them.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) spread: Spreads,
}

impl Experiment for Plan {
    const NAME: &'static str = "bundles";
    const TITLE: &'static str = "packing a client's messages into datagrams";
    const HOW: &'static str = "N messages wait for one client; measured is everything from there to complete datagrams, checksum and copy for resending included. All ways make the same datagrams, which is checked before each row, and take turns.";
    type Row = Row;

    fn quick() -> Self {
        Self { sizes: vec![Sizes::Equal], budget: Duration::from_millis(60), ..Self::full() }
    }

    fn full() -> Self {
        Self {
            methods: vec![
                Method::RemovalList,
                Method::Tombstones,
                Method::Mainspring,
                Method::MainspringPlain,
                Method::CopyHash,
            ],
            groups: vec![GroupKind::Ui, GroupKind::Smartbox],
            sizes: vec![Sizes::Equal, Sizes::Mixed, Sizes::Adversarial],
            messages: vec![1, 10, 100, 1000, 10_000],
            budget: Duration::from_millis(500),
            rounds: 7,
            compare: false,
        }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds.max(2);
    }

    fn compare(&mut self) {
        self.compare = true;
    }

    fn estimate(&self) -> Duration {
        // Preparing the bundles and the slowest rows take about as long as the measuring.
        let methods = u32::try_from(self.methods.len()).unwrap_or(u32::MAX);
        let rivals = if self.compare { 6 } else { 0 };
        self.budget * self.rows() * (methods + rivals) * 2
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        context.progress.begin(Self::NAME, self.rows().into());
        let mut rows = Vec::new();
        for &sizes in &self.sizes {
            for &group in &self.groups {
                for &count in &self.messages {
                    self.measure(group, sizes, count, context.seed, &mut rows)?;
                    context.progress.step(1);
                }
            }
        }
        context.progress.end();
        Ok(rows)
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        let axis = |label| Axis { label, is_log: true };
        let plot = |(sizes, group): (Sizes, GroupKind)| Plot {
            title: format!("{}: messages of {}", group.title(), sizes.title()),
            x: axis("messages in a bundle"),
            y: axis("ns a message"),
            lines: names(rows)
                .into_iter()
                .map(|name| Line {
                    name: name.to_owned(),
                    points: rows
                        .iter()
                        .filter(|row| row.method == name && row.valid)
                        .filter(|row| row.sizes == sizes.name() && row.group == group.name())
                        .map(|row| {
                            let messages = f64::from(row.messages);
                            (messages, row.median_ns / messages)
                        })
                        .collect(),
                })
                .collect(),
        };
        grid(&self.sizes, &self.groups).map(|row| plot(row).into()).collect()
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for &sizes in &self.sizes {
            for &group in &self.groups {
                let title = format!("{}: messages of {}", group.title(), sizes.title());
                let mut table = Table::new(title)
                    .words("method")
                    .numbers("messages")
                    .numbers("Mean")
                    .numbers("Error")
                    .numbers("StdDev")
                    .numbers("Median")
                    .numbers("Allocated")
                    .numbers("ns/message")
                    .numbers("ratio")
                    .words("mainspring beside it");
                let rows = rows
                    .iter()
                    .filter(|row| row.group == group.name() && row.sizes == sizes.name());
                let rows: Vec<&Row> = rows.collect();
                for row in &rows {
                    let at = |name: &str| {
                        rows.iter()
                            .find(|other| other.messages == row.messages && other.method == name)
                    };
                    let ours = at(Method::Mainspring.name()).map(|ours| ours.figure());
                    let beside = match (&row.reason, ours) {
                        (Some(reason), _) => format!("invalid: {reason}"),
                        (None, Some(ours)) if row.method != Method::Mainspring.name() => {
                            Verdict::between(ours, row.figure()).to_string()
                        }
                        _ => String::new(),
                    };
                    let base = rows
                        .iter()
                        .find(|base| base.messages == row.messages)
                        .map_or(f64::NAN, |base| base.median_ns);
                    table.row([
                        row.method.to_owned(),
                        grouped(row.messages.into()),
                        time(row.mean_ns),
                        time(row.error_ns),
                        time(row.stddev_ns),
                        time(row.median_ns),
                        format!("{} B", grouped(row.allocated_bytes)),
                        format!("{:.1}", row.median_ns / f64::from(row.messages)),
                        format!("{:.3}", row.median_ns / base),
                        beside,
                    ]);
                }
                blocks.push(table.into());
            }
        }
        if let Some(Block::Table(last)) = blocks.last_mut() {
            last.note("One bundle of N messages for one client, complete datagrams, checksum and copy for resending included.");
            last.note("Error is half of the 99.9 % confidence interval; ratio is to the first method, of medians. copy-hash is");
            last.note("no packing at all: the same bytes copied and summed once. The first three made the same datagrams.");
            last.note("The last column: how many times mainspring's time the method took. mainspring-plain is its other format.");
        }
        blocks
    }
}

impl Row {
    fn figure(&self) -> Figure {
        Figure { median: self.median_ns, spread: self.spread.get("median_ns").copied() }
    }
}

impl Plan {
    fn rows(&self) -> u32 {
        u32::try_from(self.sizes.len() * self.groups.len() * self.messages.len())
            .unwrap_or(u32::MAX)
    }

    fn measure(
        &self,
        group: GroupKind,
        sizes: Sizes,
        count: u32,
        seed: u64,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        self.compare(group, sizes, &sizes.bodies(count, seed))?;
        // As many bundles at a time as make the reading of the clock small beside them.
        let peers = (64 / count as usize).clamp(1, 16);
        let mut ways: Vec<(&'static str, Box<dyn Way>, Samples)> = self
            .methods
            .iter()
            .map(|&method| (method.name(), method.make(peers), Samples::default()))
            .collect();
        #[cfg(feature = "compare")]
        if self.compare {
            let rivals = crate::packers::rivals::all(peers).into_iter();
            ways.extend(rivals.map(|(name, way)| (name, way, Samples::default())));
        }
        for round in 0_u64.. {
            let mut is_done = true;
            // Other sizes each time: a processor would learn a thousand of them by heart, which no server's have.
            let bodies = sizes.bodies(count, seed.wrapping_add(round));
            for (_, way, samples) in &mut ways {
                let is_short = samples.ns.len() < self.rounds as usize;
                if is_short || samples.spent < self.budget && samples.ns.len() < MOST_ROUNDS {
                    is_done = false;
                    samples.take(way.as_mut(), group.channel(), &bodies, peers, round == 0);
                }
            }
            if is_done {
                break;
            }
        }
        for (method, way, samples) in ways {
            let reason = way.failed();
            let moments = Moments::of(&samples.ns).expect("at least two rounds");
            rows.push(Row {
                method,
                group: group.name(),
                sizes: sizes.name(),
                messages: count,
                mean_ns: moments.mean,
                error_ns: moments.error,
                stddev_ns: moments.stddev,
                median_ns: median(&samples.ns),
                allocated_bytes: samples.allocated,
                valid: reason.is_none(),
                reason,
                spread: spreads([("median_ns", &samples.ns[..])]),
            });
        }
        Ok(())
    }

    /// That all ways make the same datagrams of these messages.
    fn compare(&self, group: GroupKind, sizes: Sizes, bodies: &[Vec<u8>]) -> Result<()> {
        let datagrams = |method: Method| {
            let mut way = method.make(1);
            let mut datagrams = Vec::new();
            way.prepare(bodies, group.channel());
            way.pack(&mut |datagram| datagrams.push(datagram.to_vec()));
            datagrams
        };
        let ours = datagrams(Method::Mainspring);
        for &method in self.methods.iter().filter(|method| method.packs()) {
            ensure!(
                datagrams(method) == ours,
                "bundles: {} packs {} messages of {} in group {} differently",
                method.name(),
                bodies.len(),
                sizes.name(),
                group.name()
            );
        }
        Ok(())
    }
}

/// Who is among the rows, in their order.
fn names(rows: &[Row]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for row in rows {
        if !names.contains(&row.method) {
            names.push(row.method);
        }
    }
    names
}

/// What one way took, round by round.
#[derive(Default)]
struct Samples {
    /// Nanoseconds a bundle.
    ns: Vec<f64>,
    spent: Duration,
    /// Bytes a bundle, in the last round: buffers have their size by then.
    allocated: u64,
}

impl Samples {
    fn take(
        &mut self,
        way: &mut dyn Way,
        group: Channel,
        bodies: &[Vec<u8>],
        peers: usize,
        warm_up: bool,
    ) {
        way.prepare(bodies, group);
        let before = allocated_and_freed().0;
        let watch = Stopwatch::start();
        way.pack(&mut |datagram| {
            std::hint::black_box(datagram);
        });
        let elapsed = watch.elapsed();
        let elapsed = elapsed.saturating_sub(way.take_aside());
        self.allocated = (allocated_and_freed().0 - before) / peers as u64;
        way.settle();
        self.spent += elapsed;
        if !warm_up {
            self.ns.push(elapsed.as_nanos() as f64 / peers as f64);
        }
    }
}

impl GroupKind {
    fn channel(self) -> Channel {
        match self {
            Self::Ui => Group::Ui.into(),
            Self::Smartbox => Group::Smartbox.into(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ui => "ui",
            Self::Smartbox => "smartbox",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Ui => "UI, which ends a packet at the first message that does not fit",
            Self::Smartbox => "Smartbox, which takes whatever still fits",
        }
    }
}

impl Sizes {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "88",
            Self::Mixed => "76-144",
            Self::Adversarial => "adversarial",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Equal => "88 bytes",
            Self::Mixed => "76 to 144 bytes",
            Self::Adversarial => "sizes chosen to make searching go far",
        }
    }

    fn bodies(self, count: u32, seed: u64) -> Vec<Vec<u8>> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|nth| {
                let length = match self {
                    Self::Equal => 88,
                    Self::Mixed => 76 + random.below(69),
                    // In front what leaves room for less than any other of its kind, behind it what just fits.
                    Self::Adversarial if nth < count * 2 / 3 => 300 + random.below(50),
                    Self::Adversarial => 60 + random.below(60),
                };
                let byte = random.bits().to_le_bytes()[0];
                (0..length).map(|at| byte ^ at.to_le_bytes()[0]).collect()
            })
            .collect()
    }
}

/// A time as the public benchmark's tables show it.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{ns:.1} ns"),
        ns if ns < 1e7 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

const MOST_ROUNDS: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_has_all_rows() {
        let plan = Plan { messages: vec![1, 30], budget: Duration::from_millis(1), ..Plan::full() };
        let rows = plan.run(&Context { seed: 1, progress: &Progress::new(true) }).unwrap();
        assert_eq!(rows.len(), 3 * 2 * 2 * 5);
        assert!(rows.iter().all(|row| row.median_ns > 0.0 && row.error_ns.is_finite()));
    }

    #[test]
    fn a_bundle_in_steady_state_allocates_nothing() {
        for group in [GroupKind::Ui, GroupKind::Smartbox] {
            let bodies = Sizes::Mixed.bodies(500, 1);
            let mut way = Method::Mainspring.make(1);
            let mut samples = Samples::default();
            for round in 0..10 {
                samples.take(way.as_mut(), group.channel(), &bodies, 1, round == 0);
            }
            assert_eq!(samples.allocated, 0, "{group:?}");
        }
    }
}
