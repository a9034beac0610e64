//! `mainspring arena`: a real UDP server and its clients on loopback, in one command.
//!
//! ```text
//!   this thread: waits, shows how far it is
//!   server's thread: TickLoop -> receive, advance, timers, messages for all, flush     connecting -> measuring -> draining
//!   clients' thread: for each socket -> receive, advance, check, answer, flush
//! ```
//!
//! The phases are the server's to begin; all else that the threads share is counted.

pub(crate) mod args;
mod check;
mod clients;
pub(crate) mod options;
mod server;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use mainspring::clock::Monotonic;
use mainspring::time::{Clock, Instant};
use mainspring_session::ac::{Ac, Group};
use mainspring_session::channel::{ChannelConfig, Channels, Order};
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::plain::Plain;
use mainspring_session::set::{SetLimits, TickBudget};
use mainspring_session::udp::{Accept, GateLimits, Server, ServerOptions};
use mainspring_session::{Channel, Limits, Session, WireFormat};
use serde::Serialize;

use self::args::Format;
use self::options::Arena;
use crate::exit::Failure;
use crate::experiments::grouped;
use crate::output::Output;
use crate::report::json::{COMMIT, Document, Results, Rows, Sink};
use crate::report::machine::Machine;
use crate::report::progress::Progress;
use crate::report::table::Table;
use crate::stopwatch;

/// Of the arena's messages.
const PROTOCOL: u32 = 0xa12e_0001;

/// The two channels that are used, and on which of them order counts.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    channels: [Channel; 2],
    is_ordered: [bool; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Connecting,
    Measuring,
    Draining,
    Over,
}

/// What the three threads know of each other.
#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// Measured so far.
    ticks: AtomicU64,
    /// All that regular clients have sent was acknowledged.
    up_drained: AtomicBool,
    closed: AtomicU64,
}

impl Shared {
    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Connecting,
            1 => Phase::Measuring,
            2 => Phase::Draining,
            _ => Phase::Over,
        }
    }

    fn is_up_drained(&self) -> bool {
        self.up_drained.load(Ordering::Acquire)
    }

    fn closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The result, as it stands in the document.
#[derive(Clone, Debug, Serialize)]
struct Row {
    format: &'static str,
    clients: u32,
    rate: u32,
    messages: u32,
    bytes: usize,
    timers: u32,
    loss_percent: f64,
    reorder_percent: f64,
    duplicate_percent: f64,
    latency_ms: u64,
    flood: u32,
    deaf: u32,
    seconds: u32,
    tick_rate: f64,
    tick_ms_p50: f64,
    tick_ms_p99: f64,
    tick_ms_max: f64,
    packets_per_s: f64,
    bytes_per_s: f64,
    send_calls_per_s: f64,
    /// From the server to regular clients, and back.
    messages_sent: u64,
    messages_delivered: u64,
    messages_lost: u64,
    messages_out_of_order: u64,
    /// Not accepted, as too much waited: neither sent nor lost.
    messages_refused: u64,
    resends: u64,
    timers_fired: u64,
    timer_late_us_p50: f64,
    timer_late_us_p99: f64,
    server_cpu_percent: f64,
    session_bytes_max: u64,
    sessions_closed: u64,
    is_drained: bool,
}

pub(crate) fn run(arena: &Arena) -> Result<(), Failure> {
    let sink = Sink::open(arena.json.as_deref())?;
    let mut output = Output::new(sink.is_stdout(), !sink.is_nowhere());
    let progress = Progress::new(arena.quiet);
    let machine = Machine::observe();
    output.print(format_args!("{machine}\ncommit {COMMIT}, seed {}", arena.seed))?;
    raise_descriptors(u64::from(arena.peers()) + 64)?;
    let row = match arena.format {
        Format::Plain => {
            let protocol = Protocol { channels: server::channels(0, 1), is_ordered: [true, false] };
            play::<Plain>(arena, protocol, plain_server, plain_client, &progress)
        }
        Format::Ac => {
            let channels = server::channels(Group::Ui as u8, Group::Smartbox as u8);
            let protocol = Protocol { channels, is_ordered: [true, false] };
            play::<Ac>(arena, protocol, ac_server, ac_client, &progress)
        }
    };
    progress.end();
    let row = row.map_err(|error| Failure::Experiment(error.context("arena")))?;
    output.print(table(&row))?;
    let is_good = row.messages_lost == 0 && row.messages_out_of_order == 0;
    let rows = Rows::new(std::slice::from_ref(&row)).map_err(|e| Failure::Output(e.into()))?;
    let results = Results { seed: arena.seed, experiments: vec![("arena", rows)] };
    sink.write(&Document::new(&machine, results))?;
    if is_good {
        return Ok(());
    }
    Err(Failure::Experiment(anyhow!(
        "arena: {} messages were lost and {} out of order",
        row.messages_lost,
        row.messages_out_of_order
    )))
}

/// Both threads, from the first hello to the last message.
fn play<W: WireFormat + Send + 'static>(
    arena: &Arena,
    protocol: Protocol,
    make_server: fn(&Accept, Instant) -> Session<W>,
    make_client: fn(&Accept, Instant) -> Session<W>,
    progress: &Progress,
) -> Result<Row> {
    let per_tick = TickBudget { datagrams: 512, bytes: 512 << 10 };
    let set = SetLimits { receive: per_tick, ..SetLimits::default() };
    let gate = GateLimits { replies_per_second: 100_000, ..GateLimits::default() };
    let options = ServerOptions { protocol: PROTOCOL, set, gate, ..ServerOptions::default() };
    let mut server = Server::bind("127.0.0.1:0", options, Monotonic.now(), make_server)
        .context("the server's socket")?;
    if !arena.is_direct() {
        server.simulate(arena.network, arena.network, !arena.seed);
    }
    let address = server.local_address().context("the server's socket")?;
    let shared = Shared::default();
    progress.begin("arena: connecting", u64::from(arena.seconds) * u64::from(arena.rate.get()));
    let (server, clients) = thread::scope(|scope| {
        let server = scope.spawn(|| server::run(arena, protocol, server, &shared));
        let clients = scope.spawn(|| {
            let account = clients::run(arena, protocol, address, make_client, &shared);
            // Without clients the server has nobody to wait for.
            shared.phase.store(Phase::Over as u8, Ordering::Release);
            account
        });
        watch(&shared, progress, || server.is_finished() && clients.is_finished());
        (server.join(), clients.join())
    });
    let clients = clients.map_err(|_| anyhow!("the clients' thread panicked"))??;
    let server = server.map_err(|_| anyhow!("the server's thread panicked"))??;
    Ok(row(arena, &server, &clients, &shared))
}

/// Shows how far it is until both threads have ended.
fn watch(shared: &Shared, progress: &Progress, is_over: impl Fn() -> bool) {
    let mut shown = 0;
    while !is_over() {
        stopwatch::wait(Duration::from_millis(100));
        let ticks = shared.ticks.load(Ordering::Relaxed);
        progress.step(ticks - shown);
        shown = ticks;
        progress.label(match shared.phase() {
            Phase::Connecting => "arena: connecting",
            Phase::Measuring => "arena: measuring",
            Phase::Draining | Phase::Over => "arena: draining",
        });
    }
}

fn row(
    arena: &Arena,
    server: &server::Account,
    clients: &clients::Account,
    shared: &Shared,
) -> Row {
    let sent = server.sent + clients.sent;
    let delivered = clients.delivered + server.received;
    Row {
        format: match arena.format {
            Format::Ac => "ac",
            Format::Plain => "plain",
        },
        clients: arena.clients,
        rate: arena.rate.get(),
        messages: arena.messages,
        bytes: arena.bytes,
        timers: arena.timers,
        loss_percent: arena.network.loss_percent,
        reorder_percent: arena.network.reorder_percent,
        duplicate_percent: arena.network.duplicate_percent,
        latency_ms: u64::try_from(arena.network.latency.as_millis()).unwrap_or(u64::MAX),
        flood: arena.flood,
        deaf: arena.deaf,
        seconds: arena.seconds,
        tick_rate: server.tick_rate,
        tick_ms_p50: server.tick_ms[0],
        tick_ms_p99: server.tick_ms[1],
        tick_ms_max: server.tick_ms[2],
        packets_per_s: server.packets_per_s,
        bytes_per_s: server.bytes_per_s,
        send_calls_per_s: server.send_calls_per_s,
        messages_sent: sent,
        messages_delivered: delivered,
        messages_lost: sent.saturating_sub(delivered),
        messages_out_of_order: clients.out_of_order + server.out_of_order,
        messages_refused: server.refused,
        resends: server.resends + clients.resends,
        timers_fired: server.timers_fired,
        timer_late_us_p50: server.timer_late_us[0],
        timer_late_us_p99: server.timer_late_us[1],
        server_cpu_percent: server.cpu_percent,
        session_bytes_max: server.session_bytes_max,
        sessions_closed: shared.closed.load(Ordering::Relaxed),
        is_drained: server.is_drained,
    }
}

fn table(row: &Row) -> Table {
    let mut table = Table::new(format!(
        "{} clients x {} messages of {} bytes at {} Hz, format {}, {} s",
        grouped(row.clients.into()),
        row.messages,
        row.bytes,
        row.rate,
        row.format,
        row.seconds
    ))
    .words("")
    .numbers("")
    .words("");
    let mut line =
        |what: &str, number: String, unit: &str| table.row([what, number.as_str(), unit]);
    line("tick rate", format!("{:.1}", row.tick_rate), "a second");
    line("work in a tick, median", format!("{:.2}", row.tick_ms_p50), "ms");
    line("99 of 100", format!("{:.2}", row.tick_ms_p99), "ms");
    line("longest", format!("{:.2}", row.tick_ms_max), "ms");
    line("server's thread", format!("{:.0}", row.server_cpu_percent), "% of a core");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let whole = |rate: f64| grouped(rate as u64);
    line("packets, both ways", whole(row.packets_per_s), "a second");
    line("bytes", whole(row.bytes_per_s), "a second");
    line("calls to send", whole(row.send_calls_per_s), "a second");
    line("messages accepted", grouped(row.messages_sent), "");
    line("delivered", grouped(row.messages_delivered), "");
    line("lost", grouped(row.messages_lost), "");
    line("out of order or doubled", grouped(row.messages_out_of_order), "");
    line("refused, as too many waited", grouped(row.messages_refused), "");
    line("packets sent again", grouped(row.resends), "");
    line("timers fired", grouped(row.timers_fired), "");
    line("late by, median", format!("{:.0}", row.timer_late_us_p50), "us");
    line("99 of 100", format!("{:.0}", row.timer_late_us_p99), "us");
    line("largest session", grouped(row.session_bytes_max), "bytes");
    if !row.is_drained {
        table.note(format!("Not all was acknowledged within {} s.", server::PATIENCE.as_secs()));
    }
    table.note("A timer is due within a tick and fires at its end: half a tick late is what a loop can do.");
    table
}

/// What waits for one client at most: the server may have thousands.
fn limits() -> Limits {
    let outbox = OutboxLimits { bytes: 1 << 20, soft_bytes: 1 << 19, ..OutboxLimits::default() };
    Limits { outbox, ..Limits::default() }
}

/// One channel in order, one without.
fn plain_channels() -> Channels {
    let any = ChannelConfig { order: Order::None, ..ChannelConfig::default() };
    Channels::new([ChannelConfig::default(), any])
}

fn plain_server(accept: &Accept, now: Instant) -> Session<Plain> {
    let config = accept.plain_server().with_channels(plain_channels());
    Session::new(Plain::new(config, now), limits(), now)
}

fn plain_client(accept: &Accept, now: Instant) -> Session<Plain> {
    let config = accept.plain_client().with_channels(plain_channels());
    Session::new(Plain::new(config, now), limits(), now)
}

fn ac_server(accept: &Accept, now: Instant) -> Session<Ac> {
    Session::new(Ac::new(accept.ac_server(), now), limits(), now)
}

fn ac_client(accept: &Accept, now: Instant) -> Session<Ac> {
    Session::new(Ac::new(accept.ac_client(), now), limits(), now)
}

/// A socket a client: asks for as many descriptors as that takes, where the system lets it.
fn raise_descriptors(wanted: u64) -> Result<(), Failure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum };
    let is_allowed = maximum.is_none_or(|maximum| maximum >= wanted);
    if is_allowed && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "so many clients need {wanted} open files; raise the limit (ulimit -n {wanted}), or choose fewer --clients"
    )))
}
