//! Servers and clients over real sockets of this machine. They run until all is done, however long that takes; the bound is
//! for what never will be.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use common::{assert_received, message};
use mainspring::clock::Monotonic;
use mainspring::time::{Clock, Instant};
use mainspring_session::ac::{self, Ac};
use mainspring_session::link::Conditions;
use mainspring_session::set::{PeerId, SetLimits};
use mainspring_session::udp::{
    Accept, Client, ClientEvent, ClientOptions, ConnectError, Patience, Refusal, Server,
    ServerEvent, ServerOptions, SocketOptions,
};
use mainspring_session::{Channel, Event, Reason, Session};

const UI: Channel = Channel(9);
const PROTOCOL: u32 = 77;

/// What takes longer is not slow, but stuck.
const LONG: Duration = Duration::from_secs(120);

struct World {
    server: Server<Ac>,
    clients: Vec<Client<Ac>>,
    heard: Vec<(PeerId, ServerEvent, Vec<u8>)>,
    told: Vec<Vec<(ClientEvent, Vec<u8>)>>,
    started: Instant,
}

fn server_options() -> ServerOptions {
    ServerOptions { protocol: PROTOCOL, ..ServerOptions::default() }
}

fn make_server(accept: &Accept, now: Instant) -> Session<Ac> {
    ac::server(accept.ac_server(), now)
}

fn make_client(accept: &Accept, now: Instant) -> Session<Ac> {
    ac::client(accept.ac_client(), now)
}

fn client(server: SocketAddr, options: ClientOptions) -> Client<Ac> {
    let options = ClientOptions { protocol: PROTOCOL, ..options };
    Client::connect(server, options, Monotonic.now(), make_client).unwrap()
}

impl World {
    fn new(options: ServerOptions, clients: usize) -> Self {
        let started = Monotonic.now();
        let server = Server::bind("127.0.0.1:0", options, started, make_server).unwrap();
        let mut world =
            Self { server, clients: Vec::new(), heard: Vec::new(), told: Vec::new(), started };
        for _ in 0..clients {
            world.add_client(ClientOptions::default());
        }
        world
    }

    fn add_client(&mut self, options: ClientOptions) -> &mut Client<Ac> {
        let address = self.server.local_address().unwrap();
        self.clients.push(client(address, options));
        self.told.push(Vec::new());
        self.clients.last_mut().unwrap()
    }

    /// One tick of everybody.
    fn tick(&mut self) {
        let now = Monotonic.now();
        let mut body = Vec::new();
        for (client, told) in self.clients.iter_mut().zip(&mut self.told) {
            client.receive(now);
            client.advance(now);
            while let Some(event) = client.poll_event(&mut body) {
                told.push((event, body.clone()));
            }
            client.flush(now);
        }
        self.server.receive(now);
        self.server.advance(now);
        while let Some((peer, event)) = self.server.poll_event(&mut body) {
            self.heard.push((peer, event, body.clone()));
        }
        self.server.flush(now);
        // All sit in one thread, so nobody may wait long for another.
        self.server.wait(Monotonic.now(), Duration::from_millis(1)).unwrap();
    }

    fn run_until(&mut self, what: &str, mut is_done: impl FnMut(&Self) -> bool) {
        while !is_done(self) {
            self.tick();
            let elapsed = Monotonic.now().saturating_duration_since(self.started);
            assert!(elapsed < LONG, "{what}: {:?} {:?}", self.server.stats(), self.server);
        }
    }

    fn connect_all(&mut self) -> Vec<PeerId> {
        self.run_until("connecting", |world| world.clients.iter().all(|c| c.session().is_some()));
        // In the order of the clients.
        let peers = self.clients.iter().map(|client| {
            let port = client.local_address().unwrap().port();
            let is_his = |address: &SocketAddr| address.port() == port;
            let opened = self.heard.iter().find(
                |(_, event, _)| matches!(event, ServerEvent::Opened { address } if is_his(address)),
            );
            opened.unwrap().0
        });
        peers.collect()
    }

    fn messages_to(&self, client: usize) -> Vec<(Channel, Vec<u8>)> {
        let of = |(event, body): &(ClientEvent, Vec<u8>)| match event {
            ClientEvent::Session(Event::Message { channel, .. }) => Some((*channel, body.clone())),
            _ => None,
        };
        self.told[client].iter().filter_map(of).collect()
    }

    fn messages_from(&self, peer: PeerId) -> Vec<(Channel, Vec<u8>)> {
        let of = |(from, event, body): &(PeerId, ServerEvent, Vec<u8>)| match event {
            ServerEvent::Session(Event::Message { channel, .. }) if *from == peer => {
                Some((*channel, body.clone()))
            }
            _ => None,
        };
        self.heard.iter().filter_map(of).collect()
    }

    /// Messages both ways with everyone, until all have arrived; and that they are right.
    fn talk(&mut self, peers: &[PeerId], each: u32) {
        let sent: Vec<(Channel, Vec<u8>)> =
            (0..each).map(|nth| (UI, message(9, nth, 8 + nth as usize % 400))).collect();
        for (client, &peer) in self.clients.iter_mut().zip(peers) {
            for (channel, message) in &sent {
                self.server.enqueue(peer, *channel, message).unwrap();
                client.enqueue(*channel, message).unwrap();
            }
        }
        let count = each as usize;
        self.run_until("talking", |world| {
            (0..peers.len()).all(|nth| {
                world.messages_to(nth).len() >= count
                    && world.messages_from(peers[nth]).len() >= count
            })
        });
        for (nth, &peer) in peers.iter().enumerate() {
            assert_received(&self.messages_to(nth), &sent, &format!("to {nth}"));
            assert_received(&self.messages_from(peer), &sent, &format!("from {nth}"));
        }
    }
}

#[test]
fn many_clients_talk_to_one_server_and_say_goodbye() {
    let mut world = World::new(server_options(), 20);
    let peers = world.connect_all();
    world.talk(&peers, 50);
    let now = Monotonic.now();
    for (nth, (client, &peer)) in world.clients.iter_mut().zip(&peers).enumerate() {
        if nth % 2 == 0 {
            client.close(now);
        } else {
            assert!(world.server.close(now, peer));
        }
    }
    world.run_until("goodbye", |world| world.server.set().is_empty());
    let is_end = |event: &ServerEvent| matches!(event, ServerEvent::Session(Event::Closed(_)));
    let ends = world.heard.iter().filter(|(_, event, _)| is_end(event)).count();
    assert_eq!(ends, 20);
    world.run_until("all know", |world| {
        world
            .told
            .iter()
            .all(|told| matches!(told.last(), Some((ClientEvent::Session(Event::Closed(_)), _))))
    });
    for peer in &peers {
        let mut of_peer = world.heard.iter().filter(|(of, ..)| of == peer);
        assert!(matches!(of_peer.next(), Some((_, ServerEvent::Opened { .. }, _))), "the first");
        assert!(of_peer.next_back().is_some_and(|(_, event, _)| is_end(event)), "the last");
        assert_eq!(world.server.address(*peer), None);
    }
    assert!(!world.server.close(now, peers[0]));
    let stats = world.server.stats();
    assert_eq!((stats.gate.accepted, stats.gate.bad_cookies), (20, 0));
    assert_eq!((stats.socket.send_failures, stats.without_address), (0, 0));
}

#[test]
fn a_bad_network_changes_nothing_but_the_time() {
    let mut world = World::new(server_options(), 0);
    let bad = Conditions {
        loss_percent: 15.0,
        duplicate_percent: 5.0,
        reorder_percent: 5.0,
        damage_percent: 2.0,
        latency: Duration::from_millis(3),
        jitter: Duration::from_millis(2),
        reorder_delay: Duration::from_millis(3),
        bytes_per_second: 0,
    };
    // The handshake through it, too; with enough patience for it.
    world.server.simulate(bad, bad, 3);
    for _ in 0..5 {
        let again_after = Duration::from_millis(20);
        let patience = Patience { again_after, give_up_after: LONG };
        world.add_client(ClientOptions { patience, ..ClientOptions::default() });
    }
    world.clients[0].simulate(bad, bad, 4);
    let peers = world.connect_all();
    world.talk(&peers, 25);
}

#[test]
fn runs_of_equal_datagrams_take_fewer_calls_and_are_the_same_datagrams() {
    for no_runs in [false, true] {
        let mut options = server_options();
        options.socket.no_runs = no_runs;
        let mut world = World::new(options, 1);
        let peers = world.connect_all();
        let sent: Vec<(Channel, Vec<u8>)> =
            (0..100).map(|nth| (UI, message(9, nth, 400))).collect();
        for (channel, message) in &sent {
            world.server.enqueue(peers[0], *channel, message).unwrap();
        }
        world.run_until("a burst", |world| world.messages_to(0).len() >= 100);
        assert_received(&world.messages_to(0), &sent, "a burst");
        let stats = world.server.stats().socket;

        if no_runs {
            assert_eq!((stats.runs, stats.send_calls), (0, stats.datagrams_sent));
        } else if stats.runs > 0 {
            // Where the system can.
            assert!(stats.send_calls < stats.datagrams_sent / 5, "{stats:?}");
        }
    }
}

#[test]
fn who_may_not_come_in_is_told_why() {
    let set = SetLimits { sessions: 1, ..SetLimits::default() };
    let mut world = World::new(ServerOptions { set, ..server_options() }, 1);
    world.connect_all();
    world.add_client(ClientOptions::default());
    let address = world.server.local_address().unwrap();
    let other = ClientOptions { protocol: PROTOCOL + 1, ..ClientOptions::default() };
    world.clients.push(Client::connect(address, other, Monotonic.now(), make_client).unwrap());
    world.told.push(Vec::new());
    let failed = |refusal| ClientEvent::Failed(ConnectError::Refused(refusal));
    world.run_until("refusals", |world| world.told[1..].iter().all(|told| !told.is_empty()));
    assert_eq!(world.told[1][0].0, failed(Refusal::Full));
    assert_eq!(world.told[2][0].0, failed(Refusal::WrongVersion));
    assert_eq!((world.clients[1].next_timeout(), world.server.set().len()), (None, 1));
    let stats = world.server.stats().gate;
    assert!(stats.full >= 1 && stats.wrong_version >= 1, "{stats:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    // Bound, and nobody reads.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = Instant::from_nanos(5_000_000_000);
    let address = silent.local_addr().unwrap();
    let mut client =
        Client::connect(address, ClientOptions::default(), start, make_client).unwrap();
    let mut now = start;
    let mut body = Vec::new();
    // Time is an argument, so ten seconds pass at once.
    while let Some(next) = client.next_timeout() {
        now = next;
        client.receive(now);
        client.advance(now);
        client.flush(now);
    }
    assert_eq!(now, start.saturating_add(Duration::from_secs(10)));
    let failed = ClientEvent::Failed(ConnectError::Silent);
    assert_eq!(client.poll_event(&mut body), Some(failed));
    assert_eq!(client.poll_event(&mut body), None);
    assert!(client.stats().datagrams_sent > 5);
}

#[test]
fn noise_from_strangers_costs_nothing_and_stops_nobody() {
    let mut world = World::new(server_options(), 2);
    let peers = world.connect_all();
    let address = world.server.local_address().unwrap();
    let strangers = UdpSocket::bind("127.0.0.1:0").unwrap();
    for nth in 0..2000_u32 {
        let length = nth as usize % 700;
        strangers.send_to(&vec![nth.to_le_bytes()[0]; length], address).unwrap();
        if nth.is_multiple_of(100) {
            world.tick();
        }
    }
    world.talk(&peers, 20);
    let is_read = |world: &World| world.server.stats().strangers >= 1000;
    world.run_until("reading the noise", is_read);
    assert_eq!(world.server.set().len(), 2);
}

#[test]
fn a_client_hears_its_server_and_nobody_else() {
    let mut world = World::new(server_options(), 1);
    let peers = world.connect_all();
    let port = world.clients[0].local_address().unwrap().port();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..3 {
        stranger.send_to(&[1; 64], SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    }
    world.run_until("strangers", |world| world.clients[0].strangers() == 3);
    assert_eq!(world.clients[0].session().unwrap().stats().dropped_in_all(), 0);
    world.talk(&peers, 5);
}

#[test]
fn a_client_that_begins_anew_at_its_address_is_a_new_peer() {
    let mut world = World::new(server_options(), 1);
    let peers = world.connect_all();
    // A restarted program gets its old port back: its handshake, from the old client's socket, with another nonce.
    let port = world.clients[0].local_address().unwrap().port();
    world.clients.clear();
    world.told.clear();
    let address = world.server.local_address().unwrap();
    let options = ClientOptions { protocol: PROTOCOL, ..ClientOptions::default() };
    let again = Client::connect_from(
        SocketAddr::from(([127, 0, 0, 1], port)),
        address,
        options,
        Monotonic.now(),
        make_client,
    );
    world.clients.push(again.unwrap());
    world.told.push(Vec::new());
    world.run_until("again", |world| world.clients[0].session().is_some());
    world.run_until("the end of the old one", |world| {
        world.heard.iter().any(|(peer, event, _)| {
            *peer == peers[0] && *event == ServerEvent::Session(Event::Closed(Reason::Peer))
        })
    });
    assert_eq!(world.server.set().len(), 1);
}

#[test]
fn other_threads_post_to_peers() {
    let mut world = World::new(server_options(), 3);
    let peers = world.connect_all();
    let inboxes: Vec<_> =
        peers.iter().map(|&peer| world.server.set_mut().inbox(peer).unwrap()).collect();
    std::thread::scope(|threads| {
        for inbox in &inboxes {
            threads.spawn(|| {
                for nth in 0..200 {
                    inbox.post(UI, &message(9, nth, 50)).unwrap();
                }
            });
        }
        world.run_until("mail", |world| (0..3).all(|nth| world.messages_to(nth).len() >= 200));
    });
    let sent: Vec<_> = (0..200).map(|nth| (UI, message(9, nth, 50))).collect();
    for nth in 0..3 {
        assert_received(&world.messages_to(nth), &sent, "by mail");
    }
}

#[test]
fn both_ends_go_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<Server<Ac>>();
    is_send::<Client<Ac>>();
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let options = ServerOptions { socket: SocketOptions::default(), ..server_options() };
    let taken = Server::<Ac>::bind("127.0.0.1:0", options, Monotonic.now(), make_server).unwrap();
    let address = taken.local_address().unwrap();
    assert!(Server::<Ac>::bind(address, options, Monotonic.now(), make_server).is_err());
}
