//! A chat server: what one says, all others hear; and every second a new round begins. Something to copy and to change.
//!
//!     cargo run -p mainspring-session --features udp --example chat_server -- 127.0.0.1:7777
//!     cargo run -p mainspring-session --features udp --example chat_server -- --try

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::clock::Monotonic;
use mainspring::tick::TickLoop;
use mainspring::time::{Clock, Instant};
use mainspring::timers::{Plan, Timers};
use mainspring_session::plain::{self, Plain};
use mainspring_session::set::PeerId;
use mainspring_session::udp::{Accept, Client, ClientEvent, ClientOptions};
use mainspring_session::udp::{Server, ServerEvent, ServerOptions};
use mainspring_session::{Channel, Event, Session};

/// Both ends must name the same one: a number of your own, and another when your messages change.
const PROTOCOL: u32 = 0xc4a7_0001;

/// The channel that everybody talks on.
const CHAT: Channel = Channel(0);

/// What the game does later.
enum Later {
    NewRound(u32),
}

struct Chat {
    server: Server<Plain>,
    timers: Timers<Later>,
}

impl Chat {
    fn new(address: SocketAddr, now: Instant) -> io::Result<Self> {
        let options = ServerOptions { protocol: PROTOCOL, ..ServerOptions::default() };
        let server = Server::bind(address, options, now, |accept: &Accept, now| {
            plain::session(accept.plain_server(), now)
        })?;
        let mut timers = Timers::new(now);
        let second = Duration::from_secs(1);
        timers.arm(now, Plan::every(second, second, Missed::Skip), Later::NewRound(1));
        Ok(Self { server, timers })
    }

    /// What came in, what is due, what goes out.
    fn tick(&mut self, now: Instant) {
        let Self { server, timers } = self;
        server.receive(now);
        server.advance(now);
        let mut body = Vec::new();
        while let Some((peer, event)) = server.poll_event(&mut body) {
            match event {
                ServerEvent::Opened { address } => {
                    tell(server, Some(peer), format!("{address} is here").as_bytes());
                }
                ServerEvent::Session(Event::Message { .. }) => tell(server, Some(peer), &body),
                ServerEvent::Session(Event::Closed(reason)) => {
                    tell(server, None, format!("{peer:?} is gone: {reason:?}").as_bytes());
                }
                _ => {}
            }
        }
        let mut pass = timers.poll(now);
        while let Some(mut due) = pass.next() {
            match due.value_mut() {
                Later::NewRound(number) => {
                    tell(server, None, format!("round {number} begins").as_bytes());
                    *number += 1;
                }
            }
        }
        server.flush(now);
    }
}

/// Says something to everyone, but for one.
fn tell(server: &mut Server<Plain>, but: Option<PeerId>, message: &[u8]) {
    let peers: Vec<PeerId> = server.set().ids().filter(|peer| Some(*peer) != but).collect();
    for peer in peers {
        if let Err(refused) = server.enqueue(peer, CHAT, message) {
            eprintln!("{peer:?} does not hear it: {refused}");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let ticks = TickLoop::per_second(NonZeroU32::new(60).expect("not zero"));
    match std::env::args().nth(1).as_deref() {
        Some("--try") => try_it(&ticks),
        Some(address) => {
            let mut chat = Chat::new(address.parse()?, Monotonic.now())?;
            println!("listening on {}", chat.server.local_address()?);
            ticks.run(&Monotonic, |tick| {
                chat.tick(tick.now);
                ControlFlow::Continue(())
            });
            Ok(())
        }
        None => Err("usage: chat_server ADDRESS:PORT | --try".into()),
    }
}

/// The server and two clients on this machine, until one has heard the other and the beginning of a round.
fn try_it(ticks: &TickLoop) -> Result<(), Box<dyn Error>> {
    let now = Monotonic.now();
    let mut chat = Chat::new(SocketAddr::from(([127, 0, 0, 1], 0)), now)?;
    let options = ClientOptions { protocol: PROTOCOL, ..ClientOptions::default() };
    let address = chat.server.local_address()?;
    let make =
        |accept: &Accept, now| -> Session<Plain> { plain::session(accept.plain_client(), now) };
    let mut alice = Client::connect(address, options, now, make)?;
    let mut bob = Client::connect(address, options, now, make)?;
    let (mut has_spoken, mut heard_alice, mut heard_round) = (false, false, false);
    ticks.run(&Monotonic, |tick| {
        chat.tick(tick.now);
        let mut body = Vec::new();
        for client in [&mut alice, &mut bob] {
            client.receive(tick.now);
            client.advance(tick.now);
        }
        if chat.server.set().len() == 2 && !has_spoken {
            has_spoken = alice.enqueue(CHAT, b"hello, I am Alice").is_ok();
        }
        while alice.poll_event(&mut body).is_some() {}
        while let Some(event) = bob.poll_event(&mut body) {
            if let ClientEvent::Session(Event::Message { .. }) = event {
                println!("bob hears: {}", String::from_utf8_lossy(&body));
                heard_alice |= body.ends_with(b"Alice");
                heard_round |= body.starts_with(b"round");
            }
        }
        alice.flush(tick.now);
        bob.flush(tick.now);
        let is_over = heard_alice && heard_round || tick.number > 60 * 60;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if heard_alice && heard_round { Ok(()) } else { Err("a minute of silence".into()) }
}
