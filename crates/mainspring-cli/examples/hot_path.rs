//! One hot path, so many times over and nothing else: `scripts/instructions` counts what it takes with callgrind.
//!
//! Usage: `hot_path NAME TIMES`; without arguments it lists the names. Nothing here reads a clock or draws a random number
//! that is not seeded, so that two runs execute the same instructions.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::clock::Cached;
use mainspring::time::{Clock, Instant, Tick};
use mainspring::timers::Timers;
use mainspring::wheel::{TimerKey, Wheel};
use mainspring_pawn::{Arguments, Code, Entry, Image, Machine, Natives};
use mainspring_session::ac::{self, Ac, Group};
use mainspring_session::plain::{self, Plain};
use mainspring_session::{Channel, Limits, Session, WireFormat};

type Outcome = Result<(), Box<dyn Error>>;
type Path = (&'static str, fn(u64) -> Outcome);

/// A path and what it is counted by.
const PATHS: [Path; 11] = [
    ("reschedule", reschedule),
    ("cancel_insert", cancel_insert),
    ("start_expire", start_expire),
    ("periodic", periodic),
    ("cached_now", cached_now),
    ("pack_ac", pack_ac),
    ("pack_plain", pack_plain),
    ("receive_ac", receive_ac),
    ("receive_plain", receive_plain),
    ("pawn_loop", pawn_loop),
    ("pawn_native", pawn_native),
];

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let times = arguments.next().ok_or("how many times?")?.parse()?;
    let (_, path) = PATHS.iter().find(|(known, _)| *known == name).ok_or("no such path")?;
    path(times)
}

/// A thousand timers within a minute.
const LIVE: usize = 1000;

/// Weyl's sequence: even enough, and two instructions.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    *state >> 32
}

fn filled() -> (Wheel<u64>, Vec<TimerKey>, u64) {
    let (mut wheel, mut state) = (Wheel::new(Tick(0)), 1);
    let keys = (0..LIVE as u64)
        .map(|value| wheel.insert(Tick(1000 + next(&mut state) % 59_000), value))
        .collect();
    (wheel, keys, state)
}

fn index(state: &mut u64) -> usize {
    usize::try_from(next(state)).unwrap_or(0) % LIVE
}

/// A timer moved.
fn reschedule(times: u64) -> Outcome {
    let (mut wheel, keys, mut state) = filled();
    for now in 0..times {
        let key = keys[index(&mut state)];
        let deadline = Tick(now / 64 + 1000 + next(&mut state) % 59_000);
        black_box(wheel.reschedule(key, deadline));
        // What was not moved for long fires, and is started again by nobody: few of them.
        let mut pass = wheel.advance(Tick(now / 64));
        while pass.next().is_some() {}
    }
    Ok(())
}

/// A timer cancelled and another started.
fn cancel_insert(times: u64) -> Outcome {
    let (mut wheel, mut keys, mut state) = filled();
    for _ in 0..times {
        let key = &mut keys[index(&mut state)];
        let value = wheel.cancel(*key).ok_or("it is alive")?;
        *key = wheel.insert(Tick(1000 + next(&mut state) % 59_000), value);
    }
    Ok(())
}

/// How many were due.
fn fire(wheel: &mut Wheel<u64>, now: u64) -> u64 {
    let (mut pass, mut fired) = (wheel.advance(Tick(now)), 0);
    while pass.next().is_some() {
        fired += 1;
    }
    fired
}

/// A timer started that expires.
fn start_expire(times: u64) -> Outcome {
    let (mut wheel, mut state, mut fired) = (Wheel::new(Tick(0)), 1, 0);
    for now in 0..times / 10 {
        for value in 0..10 {
            wheel.insert(Tick(now + 1 + next(&mut state) % 1000), value);
        }
        fired += fire(&mut wheel, now);
    }
    fired += fire(&mut wheel, times + 1000);
    assert_eq!(fired, times / 10 * 10);
    Ok(())
}

const PERIOD: Duration = Duration::from_millis(10);

/// A periodic timer fired.
fn periodic(times: u64) -> Outcome {
    let mut timers = Timers::new(Instant::ORIGIN);
    for value in 0..LIVE {
        timers.every(Instant::ORIGIN, PERIOD, PERIOD, Missed::Skip, value);
    }
    let (mut fired, mut now) = (0, Instant::ORIGIN);
    while fired < times {
        now = now.saturating_add(PERIOD);
        let mut pass = timers.poll(now);
        while let Some(due) = pass.next() {
            black_box(&due);
            fired += 1;
        }
    }
    Ok(())
}

/// The time read that somebody publishes.
fn cached_now(times: u64) -> Outcome {
    let clock = Cached::new(Instant::from_nanos(7));
    for _ in 0..times {
        black_box(clock.now());
    }
    Ok(())
}

fn ac_pair() -> (Session<Ac>, Session<Ac>) {
    let day = Duration::from_secs(86_400);
    let quiet = ac::Config { time_every: day, ..ac::Config::server(7, 1, 2) };
    let client = ac::Config { time_every: day, ..ac::Config::client(7, 1, 2) };
    (ac::server(quiet, Instant::ORIGIN), ac::client(client, Instant::ORIGIN))
}

fn plain_pair() -> (Session<Plain>, Session<Plain>) {
    let session = |config: plain::Config| {
        let config = plain::Config { window_bytes: 1 << 20, ..config };
        Session::new(Plain::new(config, Instant::ORIGIN), Limits::default(), Instant::ORIGIN)
    };
    (session(plain::Config::server(1, 2)), session(plain::Config::client(1, 2)))
}

/// Bundles of a thousand messages of 88 bytes, acknowledged by the peer after each; how many messages.
fn pack(
    server: &mut Session<impl WireFormat>,
    client: &mut Session<impl WireFormat>,
    channel: Channel,
    times: u64,
) -> Outcome {
    let (mut now, mut datagrams, mut body) = (Instant::ORIGIN, Vec::new(), Vec::new());
    for _ in 0..times / 1000 {
        for _ in 0..1000 {
            server.enqueue(channel, &[7; 88])?;
        }
        // What else is due takes its turn first; the messages leave behind the gap between two bundles.
        for wait in [Duration::from_secs(3), Duration::from_millis(5)] {
            now = now.saturating_add(wait);
            exchange(server, client, now, &mut datagrams, &mut body);
            exchange(client, server, now, &mut datagrams, &mut body);
        }
    }
    all_read(client, times / 1000 * 1000)
}

/// That nothing of it was left out.
fn all_read(client: &Session<impl WireFormat>, messages: u64) -> Outcome {
    let read = client.stats().messages_delivered;
    if read == messages { Ok(()) } else { Err(format!("{read} of {messages} arrived").into()) }
}

fn exchange(
    from: &mut Session<impl WireFormat>,
    to: &mut Session<impl WireFormat>,
    now: Instant,
    datagram: &mut Vec<u8>,
    body: &mut Vec<u8>,
) {
    loop {
        datagram.clear();
        if from.poll_transmit(now, datagram).is_none() {
            break;
        }
        to.handle_datagram(now, datagram).expect("it was just made");
    }
    while to.poll_event(body).is_some() {}
}

/// A message sent, received and acknowledged, in a bundle of a thousand.
fn pack_ac(times: u64) -> Outcome {
    let (mut server, mut client) = ac_pair();
    pack(&mut server, &mut client, Group::Ui.into(), times)
}

fn pack_plain(times: u64) -> Outcome {
    let (mut server, mut client) = plain_pair();
    pack(&mut server, &mut client, Channel(0), times)
}

/// A datagram of one message, sent and received.
fn receive(
    server: &mut Session<impl WireFormat>,
    client: &mut Session<impl WireFormat>,
    channel: Channel,
    times: u64,
) -> Outcome {
    let (mut now, mut datagram, mut body) = (Instant::ORIGIN, Vec::new(), Vec::new());
    for _ in 0..times {
        server.enqueue(channel, &[7; 400])?;
        now = now.saturating_add(Duration::from_millis(10));
        exchange(server, client, now, &mut datagram, &mut body);
        exchange(client, server, now, &mut datagram, &mut body);
    }
    // The last may wait for its turn.
    exchange(server, client, now.saturating_add(Duration::from_secs(1)), &mut datagram, &mut body);
    all_read(client, times)
}

fn receive_ac(times: u64) -> Outcome {
    let (mut server, mut client) = ac_pair();
    receive(&mut server, &mut client, Group::Ui.into(), times)
}

fn receive_plain(times: u64) -> Outcome {
    let (mut server, mut client) = plain_pair();
    receive(&mut server, &mut client, Channel(0), times)
}

/// The one native of the script.
struct Nop;

impl Natives for Nop {
    fn call(&mut self, machine: &mut Machine, _: usize, arguments: Arguments) -> Result<i32, Code> {
        Ok(machine.argument(arguments, 0)? & 1)
    }
}

fn pawn(public: &str, times: u64) -> Outcome {
    let image = Image::parse(include_bytes!("../../../pawn/vmspeed.amx"))?;
    let index = image.find_public(public).ok_or("the script has it")?;
    let mut machine = Machine::new(image)?;
    machine.set_budget(u64::MAX);
    machine.push(i32::try_from(times)?)?;
    machine.call(&mut Nop, Entry::Public(index)).map_err(|fault| format!("{fault:?}"))?;
    Ok(())
}

/// A pass of a loop.
fn pawn_loop(times: u64) -> Outcome {
    pawn("Loop", times)
}

/// A native called.
fn pawn_native(times: u64) -> Outcome {
    pawn("Natives", times)
}
