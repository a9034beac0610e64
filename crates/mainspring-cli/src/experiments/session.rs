//! `bench session`: what a session costs beside packing: a backlog that cannot leave, a datagram received, an
//! acknowledgement, and memory at rest.

use std::time::Duration;

use anyhow::{Result, ensure};
use mainspring::time::Instant;
use mainspring_session::ac::{Ac, Config, Group};
use mainspring_session::resend::ResendLimits;
use mainspring_session::{Event, Limits, Session, Transmit};
use serde::Serialize;

use super::{Context, Experiment};
use crate::os::allocated_and_freed;
use crate::packers::acknowledgement;
use crate::report::noise::{Spreads, spreads};
use crate::report::stats::median;
use crate::report::table::{Block, Table};
use crate::stopwatch::Stopwatch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// One pass over a session with 100,000 messages that a full window holds back.
    pub(crate) backlog_us: f64,
    /// A datagram of 484 bytes, verified, and its message delivered.
    pub(crate) receive_ns: f64,
    /// Memory of a session that has talked and now rests.
    pub(crate) idle_bytes: u64,
    /// Each of 4096 packets, acknowledged at once.
    pub(crate) ack_ns: f64,
    /// A message of 88 bytes accepted.
    #[serde(skip)]
    enqueue_ns: f64,
    /// As `backlog_us`, held back by the gap between two bundles.
    #[serde(skip)]
    paced_us: f64,
    pub(crate) spread: Spreads,
}

impl Experiment for Plan {
    const NAME: &'static str = "session";
    const TITLE: &'static str =
        "a session beside packing: backlog, receiving, acknowledgements, memory";
    const HOW: &'static str = "A pass over a session with 100,000 messages that cannot leave; a datagram verified and its message delivered; 4096 packets acknowledged at once; memory as the allocator counts it. Medians of rounds.";
    type Row = Row;

    fn quick() -> Self {
        Self { rounds: 31 }
    }

    fn full() -> Self {
        Self { rounds: 301 }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn estimate(&self) -> Duration {
        Duration::from_millis(u64::from(self.rounds) * 25)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        context.progress.begin(Self::NAME, self.rounds.into());
        let idle_bytes = idle_bytes()?;
        let mut backlogs = [Backlog::full_window()?, Backlog::paced()?];
        let mut receiver = Receiver::new();
        let mut rounds: [Vec<f64>; 5] = Default::default();
        for _ in 0..self.rounds {
            let (ack_ns, enqueue_ns) = acknowledging()?;
            let [full, paced] = &mut backlogs;
            let measured =
                [full.pass_us()?, paced.pass_us()?, receiver.receive_ns()?, ack_ns, enqueue_ns];
            for (all, one) in rounds.iter_mut().zip(measured) {
                all.push(one);
            }
            context.progress.step(1);
        }
        context.progress.end();
        let spread = spreads([
            ("backlog_us", &rounds[0][..]),
            ("receive_ns", &rounds[2][..]),
            ("ack_ns", &rounds[3][..]),
        ]);
        let [backlog_us, paced_us, receive_ns, ack_ns, enqueue_ns] =
            rounds.map(|rounds| median(&rounds));
        Ok(vec![Row { backlog_us, receive_ns, idle_bytes, ack_ns, enqueue_ns, paced_us, spread }])
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut table =
            Table::new("A session beside packing").words("what").numbers("cost").words("unit");
        for row in rows {
            let mut line =
                |what: &str, cost: String, unit: &str| table.row([what, cost.as_str(), unit]);
            line(
                "100,000 messages wait, window full: a pass",
                format!("{:.3}", row.backlog_us),
                "us",
            );
            line(
                "100,000 messages wait, gap not over: a pass",
                format!("{:.3}", row.paced_us),
                "us",
            );
            line("484 bytes received, verified, delivered", format!("{:.0}", row.receive_ns), "ns");
            line("4096 packets acknowledged: each", format!("{:.2}", row.ack_ns), "ns");
            line("88 bytes accepted", format!("{:.0}", row.enqueue_ns), "ns");
            line("memory of a session at rest", row.idle_bytes.to_string(), "bytes");
        }
        table.note("A pass is a timeout handled, nothing found to send, no event, and the next timeout asked for.");
        vec![table.into()]
    }
}

/// A session with messages that cannot leave.
struct Backlog {
    session: Session<Ac>,
    now: Instant,
}

impl Backlog {
    /// The window is full of what nobody acknowledges.
    fn full_window() -> Result<Self> {
        let mut session = server();
        // What fills the window, and what then waits.
        for _ in 0..BACKLOG + 4 * 4096 {
            session.enqueue(Group::Ui.into(), &[1; 88])?;
        }
        let mut now = Instant::ORIGIN;
        let mut datagram = Vec::new();
        for _ in 0..3 {
            while session.poll_transmit(now, &mut datagram).is_some() {
                datagram.clear();
            }
            // Behind the gap of the last bundle, so that only the window is in the way.
            now = now.saturating_add(Duration::from_millis(5));
        }
        let backlog = Self { session, now };
        ensure!(backlog.session.queued_messages() >= BACKLOG, "session: too few wait");
        Ok(backlog)
    }

    /// A bundle has just left.
    fn paced() -> Result<Self> {
        let mut session = server();
        let mut datagram = Vec::new();
        greeting(&mut session);
        let now = Instant::from_nanos(5_000_000);
        session.enqueue(Group::Ui.into(), &[1; 88])?;
        while session.poll_transmit(now, &mut datagram).is_some() {}
        for _ in 0..BACKLOG {
            session.enqueue(Group::Smartbox.into(), &[1; 88])?;
        }
        Ok(Self { session, now })
    }

    fn pass_us(&mut self) -> Result<f64> {
        const PASSES: u32 = 1000;
        let (mut datagram, mut body) = (Vec::new(), Vec::new());
        // That much waits was said once.
        while self.session.poll_event(&mut body).is_some() {}
        let mut sent: Option<Transmit> = None;
        let mut event: Option<Event> = None;
        let watch = Stopwatch::start();
        for _ in 0..PASSES {
            self.session.handle_timeout(self.now);
            sent = sent.or(self.session.poll_transmit(self.now, &mut datagram));
            event = event.or(self.session.poll_event(&mut body));
            std::hint::black_box(self.session.next_timeout());
        }
        let elapsed = watch.elapsed();
        ensure!(sent.is_none() && event.is_none(), "session: something was due");
        ensure!(self.session.queued_messages() >= BACKLOG, "session: the backlog left");
        Ok(elapsed.as_secs_f64() * 1e6 / f64::from(PASSES))
    }
}

/// A client that is sent full datagrams.
struct Receiver {
    server: Session<Ac>,
    client: Session<Ac>,
    now: Instant,
}

impl Receiver {
    fn new() -> Self {
        let now = Instant::ORIGIN;
        let mut client =
            Session::new(Ac::new(Config::client(CLIENT, 1, 2), now), Limits::default(), now);
        let mut server = server();
        client.handle_datagram(now, &greeting(&mut server)).expect("a greeting is accepted");
        Self { server, client, now }
    }

    fn receive_ns(&mut self) -> Result<f64> {
        const DATAGRAMS: usize = 1000;
        self.now = self.now.saturating_add(Duration::from_millis(5));
        for _ in 0..DATAGRAMS {
            self.server.enqueue(Group::Smartbox.into(), &[7; 448])?;
        }
        let mut datagrams: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut datagram = Vec::new();
            if self.server.poll_transmit(self.now, &mut datagram).is_none() {
                break;
            }
            datagrams.push(datagram);
        }
        let full = datagrams.iter().filter(|datagram| datagram.len() == 484).count();
        ensure!(full == DATAGRAMS, "session: {full} datagrams of 484 bytes");
        let mut body = Vec::new();
        let mut delivered = 0;
        let watch = Stopwatch::start();
        for datagram in &datagrams {
            self.client.handle_datagram(self.now, datagram)?;
            while self.client.poll_event(&mut body).is_some() {
                delivered += 1;
            }
        }
        let elapsed = watch.elapsed();
        ensure!(delivered == DATAGRAMS, "session: {delivered} messages of {DATAGRAMS} delivered");
        acknowledge_all(&mut self.server, self.now)?;
        Ok(elapsed.as_nanos() as f64 / datagrams.len() as f64)
    }
}

/// Nanoseconds for each of 4096 packets acknowledged at once, and for each message accepted before.
fn acknowledging() -> Result<(f64, f64)> {
    const PACKETS: usize = 4096;
    // One packet tells the time.
    let messages = (PACKETS - 1) * 4;
    let mut session = server();
    let now = Instant::ORIGIN;
    let watch = Stopwatch::start();
    for _ in 0..messages {
        session.enqueue(Group::Ui.into(), &[1; 88])?;
    }
    let enqueued = watch.elapsed();
    let mut datagram = Vec::new();
    for ms in [0, 5] {
        let now = now.saturating_add(Duration::from_millis(ms));
        while session.poll_transmit(now, &mut datagram).is_some() {
            datagram.clear();
        }
    }
    ensure!(session.wire().unacknowledged() == PACKETS as u64, "session: not 4096 packets");
    let ack = acknowledgement(last_number(&session));
    let watch = Stopwatch::start();
    session.handle_datagram(now, &ack)?;
    let elapsed = watch.elapsed();
    ensure!(session.is_settled(), "session: not all acknowledged");
    let each = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
    Ok((each(elapsed, PACKETS), each(enqueued, messages)))
}

/// Memory of one of many sessions that have talked and rest, as the allocator counts it.
fn idle_bytes() -> Result<u64> {
    const SESSIONS: usize = 100;
    let (allocated, freed) = allocated_and_freed();
    let mut sessions: Vec<Box<Session<Ac>>> = Vec::with_capacity(SESSIONS);
    let mut datagram = Vec::with_capacity(4096);
    for _ in 0..SESSIONS {
        let mut session = Box::new(server());
        let mut now = Instant::ORIGIN;
        for _ in 0..1000 {
            session.enqueue(Group::Smartbox.into(), &[1; 88])?;
        }
        for _ in 0..3 {
            now = now.saturating_add(Duration::from_millis(5));
            while session.poll_transmit(now, &mut datagram).is_some() {
                datagram.clear();
            }
        }
        acknowledge_all(&mut session, now)?;
        while session.poll_transmit(now, &mut datagram).is_some() {
            datagram.clear();
        }
        session.handle_timeout(now.saturating_add(Duration::from_secs(6)));
        ensure!(session.is_settled(), "session: not at rest");
        sessions.push(session);
    }
    let (allocated, freed) = (allocated_and_freed().0 - allocated, allocated_and_freed().1 - freed);
    drop(sessions);
    Ok((allocated - freed) / SESSIONS as u64)
}

fn acknowledge_all(session: &mut Session<Ac>, now: Instant) -> Result<()> {
    session.handle_datagram(now, &acknowledgement(last_number(session)))?;
    Ok(())
}

/// The number of the last packet sent, of a session that has sent nothing but numbered ones: they start at 2.
fn last_number(session: &Session<Ac>) -> u32 {
    u32::try_from(session.stats().datagrams_sent + 1).expect("few datagrams")
}

fn server() -> Session<Ac> {
    let day = Duration::from_secs(86_400);
    let config = Config {
        time_every: day,
        ack_every: day,
        resend: ResendLimits::default(),
        ..Config::server(CLIENT, 1, 2)
    };
    Session::new(Ac::new(config, Instant::ORIGIN), Limits::default(), Instant::ORIGIN)
}

/// The first datagram of a server: it tells the time.
fn greeting(server: &mut Session<Ac>) -> Vec<u8> {
    let mut datagram = Vec::new();
    server.poll_transmit(Instant::ORIGIN, &mut datagram).expect("a server tells the time at once");
    datagram
}

const CLIENT: u16 = 7;
const BACKLOG: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_is_valid() {
        let progress = Progress::new(true);
        let rows = Plan { rounds: 1 }.run(&Context { seed: 1, progress: &progress }).unwrap();
        assert!(rows[0].receive_ns > 0.0);
        assert!(rows[0].idle_bytes <= 6 << 10, "{} bytes", rows[0].idle_bytes);
    }
}
