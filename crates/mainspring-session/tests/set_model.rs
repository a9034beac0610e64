//! A set does, datagram for datagram, what a loop does that looks at every session in every tick.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Random, START, assert_received, message};
use mainspring::time::Instant;
use mainspring_session::ac::{self, Ac, Config};
use mainspring_session::link::{Conditions, Link};
use mainspring_session::set::{Inbox, InboxLimits, PeerId, SessionSet, SetLimits, TickBudget};
use mainspring_session::{Channel, Event, Refused, Session};
use proptest::prelude::*;

/// The servers' end, driven one way or the other. Peers go by the number of their client.
trait Driver {
    fn insert(&mut self, peer: u32, session: Session<Ac>);
    fn remove(&mut self, peer: u32);
    fn enqueue(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused>;
    fn post(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused>;
    fn close(&mut self, now: Instant, peer: u32);
    fn datagram(&mut self, now: Instant, peer: u32, datagram: &[u8]);
    fn tick(&mut self, now: Instant, said: &mut dyn FnMut(u32, Said));
}

/// What a server's session says.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Message(Channel, Vec<u8>),
    Event(Event),
    Datagram(Vec<u8>),
}

fn of_event(event: Event, body: &[u8]) -> Said {
    match event {
        Event::Message { channel, .. } => Said::Message(channel, body.to_vec()),
        event => Said::Event(event),
    }
}

type Messages = Vec<(Channel, Vec<u8>)>;

/// The model: everyone, every time.
#[derive(Default)]
struct Everyone(BTreeMap<u32, (Session<Ac>, Messages)>);

impl Driver for Everyone {
    fn insert(&mut self, peer: u32, session: Session<Ac>) {
        self.0.insert(peer, (session, Vec::new()));
    }

    fn remove(&mut self, peer: u32) {
        self.0.remove(&peer);
    }

    fn enqueue(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        let (session, _) = self.0.get_mut(&peer).ok_or(Refused::Closed)?;
        session.enqueue(channel, message).map(drop)
    }

    fn post(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        let (_, mail) = self.0.get_mut(&peer).ok_or(Refused::Closed)?;
        mail.push((channel, message.to_vec()));
        Ok(())
    }

    fn close(&mut self, now: Instant, peer: u32) {
        if let Some((session, _)) = self.0.get_mut(&peer) {
            session.close(now);
        }
    }

    fn datagram(&mut self, now: Instant, peer: u32, datagram: &[u8]) {
        if let Some((session, _)) = self.0.get_mut(&peer) {
            let _ = session.handle_datagram(now, datagram);
        }
    }

    fn tick(&mut self, now: Instant, said: &mut dyn FnMut(u32, Said)) {
        let (mut body, mut datagram) = (Vec::new(), Vec::new());
        for (&peer, (session, mail)) in &mut self.0 {
            session.handle_timeout(now);
            while let Some(event) = session.poll_event(&mut body) {
                said(peer, of_event(event, &body));
            }
            for (channel, message) in mail.drain(..) {
                let _ = session.enqueue(channel, &message);
            }
            while session.poll_transmit(now, &mut datagram).is_some() {
                said(peer, Said::Datagram(std::mem::take(&mut datagram)));
            }
            while let Some(event) = session.poll_event(&mut body) {
                said(peer, of_event(event, &body));
            }
        }
    }
}

struct Set {
    set: SessionSet<Ac>,
    by_peer: BTreeMap<u32, (PeerId, Inbox)>,
    by_id: BTreeMap<PeerId, u32>,
}

impl Set {
    fn new(limits: SetLimits) -> Self {
        let set = SessionSet::new(limits, START);
        Self { set, by_peer: BTreeMap::new(), by_id: BTreeMap::new() }
    }
}

impl Driver for Set {
    fn insert(&mut self, peer: u32, session: Session<Ac>) {
        let id = self.set.insert(session).unwrap();
        self.by_peer.insert(peer, (id, self.set.inbox(id).unwrap()));
        self.by_id.insert(id, peer);
    }

    fn remove(&mut self, peer: u32) {
        let Some((id, inbox)) = self.by_peer.remove(&peer) else { return };
        assert!(self.set.remove(id).is_some());
        assert_eq!(inbox.post(Channel(9), b"too late"), Err(Refused::Closed));
    }

    fn enqueue(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        let (id, _) = self.by_peer.get(&peer).ok_or(Refused::Closed)?;
        self.set.enqueue(*id, channel, message).map(drop)
    }

    fn post(&mut self, peer: u32, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        let (_, inbox) = self.by_peer.get(&peer).ok_or(Refused::Closed)?;
        inbox.post(channel, message)
    }

    fn close(&mut self, now: Instant, peer: u32) {
        if let Some((id, _)) = self.by_peer.get(&peer) {
            self.set.session_mut(*id).unwrap().close(now);
        }
    }

    fn datagram(&mut self, now: Instant, peer: u32, datagram: &[u8]) {
        if let Some((id, _)) = self.by_peer.get(&peer) {
            let _ = self.set.handle_datagram(now, *id, datagram);
        }
    }

    fn tick(&mut self, now: Instant, said: &mut dyn FnMut(u32, Said)) {
        let (mut body, mut datagram) = (Vec::new(), Vec::new());
        self.set.advance(now);
        while let Some((id, event)) = self.set.poll_event(&mut body) {
            said(self.by_id[&id], of_event(event, &body));
        }
        while let Some((id, _)) = self.set.poll_transmit(now, &mut datagram) {
            said(self.by_id[&id], Said::Datagram(std::mem::take(&mut datagram)));
        }
        while let Some((id, event)) = self.set.poll_event(&mut body) {
            said(self.by_id[&id], of_event(event, &body));
        }
    }
}

/// Clients, their networks, and what was said, by peer.
struct World<D> {
    driver: D,
    conditions: Conditions,
    now: Instant,
    clients: BTreeMap<u32, Client>,
    said: BTreeMap<u32, Vec<Said>>,
    told: BTreeMap<u32, Messages>,
}

struct Client {
    session: Session<Ac>,
    down: Link,
    up: Link,
    received: Messages,
    told: Messages,
}

impl<D: Driver> World<D> {
    fn new(driver: D, conditions: Conditions) -> Self {
        let (now, clients) = (START, BTreeMap::new());
        let (said, told) = (BTreeMap::new(), BTreeMap::new());
        Self { driver, conditions, now, clients, said, told }
    }

    fn insert(&mut self, peer: u32) {
        let now = self.now;
        self.driver.insert(peer, ac::server(Config::server(7, peer, !peer), now));
        self.clients.insert(
            peer,
            Client {
                session: ac::client(Config::client(7, peer, !peer), now),
                down: Link::new(self.conditions, u64::from(peer)),
                up: Link::new(self.conditions, !u64::from(peer)),
                received: Vec::new(),
                told: Vec::new(),
            },
        );
    }

    /// Both ways: a message on a channel that says which one it is.
    fn tell(&mut self, peer: u32, by_mail: bool, length: usize) {
        let told = self.told.entry(peer).or_default();
        // Mail is in no order with what is enqueued, so each has a channel of its own.
        let channel = if by_mail { Channel(4) } else { Channel(9) };
        let message = message(channel.0, told.len() as u32, length);
        let result = if by_mail {
            self.driver.post(peer, channel, &message)
        } else {
            self.driver.enqueue(peer, channel, &message)
        };
        if result.is_ok() {
            told.push((channel, message));
        }
    }

    fn hear(&mut self, peer: u32, length: usize) {
        if let Some(client) = self.clients.get_mut(&peer) {
            let message = message(9, client.told.len() as u32, length);
            if client.session.enqueue(Channel(9), &message).is_ok() {
                client.told.push((Channel(9), message));
            }
        }
    }

    fn tick(&mut self) {
        self.now = self.now.saturating_add(Duration::from_millis(1));
        let now = self.now;
        for (peer, client) in &mut self.clients {
            while let Some(datagram) = client.up.receive(now) {
                self.driver.datagram(now, *peer, &datagram);
            }
        }
        let Self { driver, clients, said, .. } = self;
        driver.tick(now, &mut |peer, what| {
            if let Said::Datagram(datagram) = &what {
                clients.get_mut(&peer).unwrap().down.send(now, datagram);
            }
            said.entry(peer).or_default().push(what);
        });
        for client in self.clients.values_mut() {
            while let Some(datagram) = client.down.receive(now) {
                let _ = client.session.handle_datagram(now, &datagram);
            }
            client.session.handle_timeout(now);
            let mut buffer = Vec::new();
            while let Some(event) = client.session.poll_event(&mut buffer) {
                if let Event::Message { channel, .. } = event {
                    client.received.push((channel, buffer.clone()));
                }
            }
            buffer.clear();
            while client.session.poll_transmit(now, &mut buffer).is_some() {
                client.up.send(now, &buffer);
                buffer.clear();
            }
        }
    }

    /// What came through, for peers that are still there.
    fn assert_all_arrived(&self, what: &str) {
        for (peer, client) in &self.clients {
            let told = self.told.get(peer).map_or(&[][..], Vec::as_slice);
            assert_received(&client.received, told, &format!("{what}: to {peer}"));
            let said = self.said.get(peer).map_or(&[][..], Vec::as_slice);
            let heard: Messages = said
                .iter()
                .filter_map(|said| match said {
                    Said::Message(channel, message) => Some((*channel, message.clone())),
                    _ => None,
                })
                .collect();
            assert_received(&heard, &client.told, &format!("{what}: from {peer}"));
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert,
    Remove(u32),
    Close(u32),
    Tell { peer: u32, by_mail: bool, length: usize },
    Hear { peer: u32, length: usize },
    Wait(u32),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::{Close, Hear, Insert, Remove, Tell, Wait};
    let length = || prop_oneof![8 => 8_usize..200, 1 => 200_usize..3000];
    let one = prop_oneof![
        2 => Just(Insert),
        1 => (0_u32..8).prop_map(Remove),
        1 => (0_u32..8).prop_map(Close),
        8 => (0_u32..8, any::<bool>(), length()).prop_map(|(peer, by_mail, length)| Tell { peer, by_mail, length }),
        4 => (0_u32..8, length()).prop_map(|(peer, length)| Hear { peer, length }),
        6 => prop_oneof![4 => 0_u32..20, 1 => 20_u32..400].prop_map(Wait),
    ];
    prop::collection::vec(one, 1..120)
}

impl<D: Driver> World<D> {
    fn run(&mut self, operations: &[Operation]) {
        for operation in operations {
            match *operation {
                Operation::Insert => self.insert(self.clients.len() as u32),
                Operation::Remove(peer) => self.driver.remove(peer),
                Operation::Close(peer) => self.driver.close(self.now, peer),
                Operation::Tell { peer, by_mail, length } => self.tell(peer, by_mail, length),
                Operation::Hear { peer, length } => self.hear(peer, length),
                Operation::Wait(ticks) => (0..ticks).for_each(|_| self.tick()),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_set_says_what_a_loop_over_everyone_says(
        operations in operations(), loss in 0.0_f64..20.0, latency in 0_u64..60,
    ) {
        let conditions = Conditions {
            loss_percent: loss,
            duplicate_percent: loss / 2.0,
            damage_percent: loss / 10.0,
            latency: Duration::from_millis(latency),
            jitter: Duration::from_millis(latency / 3),
            ..Conditions::default()
        };
        let mut model = World::new(Everyone::default(), conditions);
        let mut set = World::new(Set::new(SetLimits::default()), conditions);
        for world_operations in operations.chunks(8) {
            model.run(world_operations);
            set.run(world_operations);
            prop_assert_eq!(&set.said, &model.said);
        }
        (0..200).for_each(|_| {
            model.tick();
            set.tick();
        });
        prop_assert_eq!(&set.said, &model.said);
    }
}

/// With shares that are far too small, all of it arrives all the same, later.
#[test]
fn small_shares_lose_nothing() {
    for seed in 0..4 {
        let conditions = Conditions {
            loss_percent: 5.0,
            latency: Duration::from_millis(20),
            ..Conditions::default()
        };
        let limits = SetLimits {
            receive: TickBudget { datagrams: 4, bytes: 1500 },
            transmit: TickBudget { datagrams: 2, bytes: 600 },
            inbox: InboxLimits { messages: 8, bytes: 4000 },
            ..SetLimits::default()
        };
        let mut world = World::new(Set::new(limits), conditions);
        let mut random = Random(seed);
        (0..6).for_each(|peer| world.insert(peer));
        for _ in 0..400 {
            for _ in 0..random.below(12) {
                let (peer, length) = (random.below(6) as u32, random.below(900) as usize);
                match random.below(3) {
                    0 => world.hear(peer, length),
                    way => world.tell(peer, way == 1, length),
                }
            }
            world.tick();
        }
        // What a burst loses is asked for every 0.6 s, and comes as a burst.
        (0..60_000).for_each(|_| world.tick());
        world.assert_all_arrived(&format!("seed {seed}"));
        let stats = world.driver.set.stats();
        assert!(stats.put_off > 0 && stats.over_budget > 0, "{stats:?}");
    }
}
