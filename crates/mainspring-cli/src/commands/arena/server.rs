//! The server's thread: connect, measure, drain, say goodbye.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use mainspring::cadence::Missed;
use mainspring::clock::Monotonic;
use mainspring::tick::TickLoop;
use mainspring::time::{Clock, Instant, saturating_nanos};
use mainspring::timers::{Plan, Timers};
use mainspring_session::set::PeerId;
use mainspring_session::udp::{Server, ServerEvent, SocketStats};
use mainspring_session::{Channel, Event, Refused, Session, WireFormat};

use super::check::{Received, Role, put_number};
use super::options::Arena;
use super::{Phase, Protocol, Shared};
use crate::report::stats::percentile;
use crate::stopwatch::CpuStopwatch;

/// What the server has to say in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) tick_rate: f64,
    pub(super) tick_ms: [f64; 3],
    pub(super) sent: u64,
    pub(super) refused: u64,
    /// What its regular clients sent it.
    pub(super) received: u64,
    pub(super) out_of_order: u64,
    pub(super) resends: u64,
    pub(super) cpu_percent: f64,
    pub(super) packets_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) send_calls_per_s: f64,
    pub(super) timer_late_us: [f64; 2],
    pub(super) timers_fired: u64,
    pub(super) session_bytes_max: u64,
    pub(super) is_drained: bool,
}

/// One client, as the server sees it.
struct Peer {
    id: PeerId,
    role: Role,
    /// The number of the next message on each channel.
    next: [u32; 2],
    received: Received,
    /// While draining there was a moment in which nothing was outstanding; what came later are times and pings.
    is_drained: bool,
}

struct Game<'a, W> {
    arena: &'a Arena,
    protocol: Protocol,
    shared: &'a Shared,
    server: Server<W>,
    timers: Timers<()>,
    /// By the index of its id.
    peers: Vec<Option<Peer>>,
    regular: u32,
    body: Vec<u8>,
    account: Account,
    /// Since measuring began.
    begun: Option<Begun>,
    /// Nanoseconds of work in each tick.
    work: Vec<u64>,
    drain_by: Instant,
}

#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    cpu: CpuStopwatch,
    socket: SocketStats,
}

/// Clients whose messages are sent together.
const FLUSHED_AT_ONCE: u32 = 32;

/// How long connecting may take, and draining.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run<W: WireFormat>(
    arena: &Arena,
    protocol: Protocol,
    server: Server<W>,
    shared: &Shared,
) -> Result<Account> {
    let now = Monotonic.now();
    let mut timers = Timers::new(now);
    for nth in 0..arena.timers {
        let period = Duration::from_millis(u64::from(10 + nth % 991));
        timers.arm(now, Plan::every(period, period, Missed::Skip), ());
    }
    let mut game = Game {
        arena,
        protocol,
        shared,
        server,
        timers,
        peers: Vec::new(),
        regular: 0,
        body: vec![0x5a; arena.bytes],
        account: Account::default(),
        begun: None,
        work: Vec::new(),
        drain_by: now.saturating_add(PATIENCE),
    };
    let mut failed = None;
    TickLoop::per_second(arena.rate).run(&Monotonic, |tick| match game.tick(tick.now) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    shared.phase.store(Phase::Over as u8, Ordering::Release);
    match failed {
        Some(error) => Err(error),
        None => Ok(game.account),
    }
}

impl<W: WireFormat> Game<'_, W> {
    fn tick(&mut self, now: Instant) -> Result<ControlFlow<()>> {
        self.server.receive(now);
        self.server.advance(now);
        self.hear();
        let mut pass = self.timers.poll(now);
        while pass.next().is_some() {}
        let phase = self.shared.phase();
        if phase == Phase::Measuring {
            self.speak(now);
        }
        self.server.flush(now);
        self.go_on(phase, now)
    }

    fn hear(&mut self) {
        let mut body = Vec::new();
        while let Some((id, event)) = self.server.poll_event(&mut body) {
            let place = id.index();
            match event {
                ServerEvent::Session(Event::Message { channel, .. }) => {
                    if self.peers.len() <= place {
                        self.peers.resize_with(place + 1, || None);
                    }
                    if let Some(peer) = &mut self.peers[place] {
                        if peer.role == Role::Regular {
                            let Protocol { channels, is_ordered } = self.protocol;
                            peer.received.take(channels, is_ordered, channel, &body);
                        }
                    } else {
                        let role = Role::of(&body);
                        self.regular += u32::from(role == Role::Regular);
                        let received = Received::default();
                        self.peers[place] =
                            Some(Peer { id, role, next: [0; 2], received, is_drained: false });
                    }
                }
                ServerEvent::Session(Event::Closed(_)) => self.shared.closed(),
                _ => {}
            }
        }
    }

    /// Every client gets its messages, by turns on the two channels. What was accepted leaves soon, while it is in the cache.
    fn speak(&mut self, now: Instant) {
        let Self { server, peers, body, protocol, account, arena, .. } = self;
        for (count, peer) in (1..).zip(peers.iter_mut().flatten()) {
            if count % FLUSHED_AT_ONCE == 0 {
                server.flush(now);
            }
            for nth in 0..arena.messages {
                let nth = (nth % 2) as usize;
                put_number(body, peer.next[nth]);
                match server.enqueue(peer.id, protocol.channels[nth], body) {
                    Ok(_) => {
                        peer.next[nth] += 1;
                        account.sent += u64::from(peer.role == Role::Regular);
                    }
                    Err(Refused::Full) => {
                        account.refused += u64::from(peer.role == Role::Regular);
                    }
                    Err(_) => break,
                }
            }
        }
    }

    /// From one phase to the next.
    fn go_on(&mut self, phase: Phase, now: Instant) -> Result<ControlFlow<()>> {
        match phase {
            Phase::Connecting => {
                let all = self.arena.peers() as usize;
                if self.peers.iter().flatten().count() == all {
                    self.begin(now);
                } else if now >= self.drain_by {
                    let here = self.peers.iter().flatten().count();
                    bail!("only {here} of {all} clients connected within {} s", PATIENCE.as_secs());
                }
            }
            Phase::Measuring => {
                let end = Monotonic.now();
                self.work.push(saturating_nanos(end.saturating_duration_since(now)));
                self.shared.ticks.fetch_add(1, Ordering::Relaxed);
                let begun = self.begun.expect("measuring has begun");
                let seconds = Duration::from_secs(self.arena.seconds.into());
                if end.saturating_duration_since(begun.at) >= seconds {
                    self.end_measuring(begun, now);
                }
            }
            Phase::Draining => {
                let Self { peers, server, .. } = self;
                let mut is_drained = self.shared.is_up_drained();
                for peer in peers.iter_mut().flatten().filter(|peer| peer.role == Role::Regular) {
                    let session = server.set().session(peer.id);
                    peer.is_drained |= session.is_none_or(Session::is_settled);
                    is_drained &= peer.is_drained;
                }
                if is_drained || now >= self.drain_by {
                    self.account.is_drained = is_drained;
                    self.finish();
                    return Ok(ControlFlow::Break(()));
                }
            }
            Phase::Over => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn begin(&mut self, now: Instant) {
        let cpu = CpuStopwatch::start();
        self.begun = Some(Begun { at: now, cpu, socket: self.server.stats().socket });
        self.shared.phase.store(Phase::Measuring as u8, Ordering::Release);
    }

    fn end_measuring(&mut self, begun: Begun, now: Instant) {
        let seconds = now.saturating_duration_since(begun.at).as_secs_f64();
        let account = &mut self.account;
        // The first tick that is measured is the one behind the beginning.
        account.tick_rate = self.work.len() as f64 / seconds;
        account.cpu_percent = begun.cpu.elapsed_ns() as f64 / 1e7 / seconds;
        let socket = self.server.stats().socket;
        let sent = socket.datagrams_sent - begun.socket.datagrams_sent;
        let received = socket.datagrams_received - begun.socket.datagrams_received;
        account.packets_per_s = (sent + received) as f64 / seconds;
        let bytes = socket.bytes_sent - begun.socket.bytes_sent + socket.bytes_received
            - begun.socket.bytes_received;
        account.bytes_per_s = bytes as f64 / seconds;
        let calls = socket.send_calls - begun.socket.send_calls;
        account.send_calls_per_s = calls as f64 / seconds;
        self.work.sort_unstable();
        let ms = |percent| percentile(&self.work, percent).unwrap_or(0) as f64 / 1e6;
        account.tick_ms = [ms(50.0), ms(99.0), ms(100.0)];
        let lateness = &self.timers.metrics().lateness;
        account.timer_late_us =
            [0.5, 0.99].map(|share| lateness.percentile(share).as_nanos() as f64 / 1e3);
        account.timers_fired = self.timers.metrics().fired;
        let set = self.server.set();
        let bytes =
            set.ids().filter_map(|id| set.session(id)).map(|session| session.memory_bytes());
        account.session_bytes_max = bytes.max().unwrap_or(0) as u64;
        self.drain_by = now.saturating_add(PATIENCE);
        self.shared.phase.store(Phase::Draining as u8, Ordering::Release);
    }

    fn finish(&mut self) {
        let set = self.server.set();
        let resends = |id| set.session(id).map_or(0, |session| session.stats().resends);
        for peer in self.peers.iter().flatten().filter(|peer| peer.role == Role::Regular) {
            self.account.received += peer.received.delivered;
            self.account.out_of_order += peer.received.out_of_order;
            self.account.resends += resends(peer.id);
        }
    }
}

/// What both ends call the two channels that are used.
pub(super) const fn channels(first: u8, second: u8) -> [Channel; 2] {
    [Channel(first), Channel(second)]
}

/// A tick of the clients is as long as the server's, but not longer than they need to answer in time.
pub(super) fn client_rate(arena: &Arena) -> NonZeroU32 {
    arena
        .rate
        .clamp(NonZeroU32::new(60).expect("not zero"), NonZeroU32::new(1000).expect("not zero"))
}
