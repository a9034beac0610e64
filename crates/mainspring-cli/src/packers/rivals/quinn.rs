//! `quinn-proto`: QUIC datagrams, encrypted, between two endpoints without sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "quinn's clock starts somewhere; time then passes as it is told"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::NewRenoConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event,
    ServerConfig, TransportConfig,
};

/// More than any bundle takes.
const ROOM: usize = 256 << 20;

/// One end: its endpoint, its connection once there is one, what it sends.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    address: SocketAddr,
    /// Datagrams one behind the other, and how long each is.
    buffer: Vec<u8>,
    lengths: Vec<usize>,
    scratch: Vec<u8>,
    is_connected: bool,
}

pub(super) struct Pair {
    server: End,
    client: End,
    now: Instant,
}

impl End {
    fn new(endpoint: Endpoint, port: u16) -> Self {
        Self {
            endpoint,
            connection: None,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            buffer: Vec::new(),
            lengths: Vec::new(),
            scratch: Vec::new(),
            is_connected: false,
        }
    }

    /// Appends what it has to send now.
    fn transmit(&mut self, now: Instant) -> usize {
        let Some((_, connection)) = &mut self.connection else { return 0 };
        let before = self.lengths.len();
        loop {
            // It wants its buffer empty.
            self.scratch.clear();
            if connection.poll_transmit(now, 1, &mut self.scratch).is_none() {
                return self.lengths.len() - before;
            }
            self.buffer.extend_from_slice(&self.scratch);
            self.lengths.push(self.scratch.len());
        }
    }

    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let mut answer = Vec::new();
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(now, from, None, None, data, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut answer, None);
                self.connection = Some(accepted.unwrap_or_else(|_| panic!("a good handshake")));
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }

    /// What endpoint and connection have to tell each other.
    fn talk(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            self.is_connected |= matches!(event, Event::Connected);
        }
    }

    /// Gives all that it has sent to the other end.
    fn deliver(&mut self, now: Instant, to: &mut Self) {
        let mut rest = &self.buffer[..];
        for length in self.lengths.drain(..) {
            let (datagram, behind) = rest.split_at(length);
            to.receive(now, self.address, datagram);
            rest = behind;
        }
        self.buffer.clear();
        to.talk(now);
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut window = NewRenoConfig::default();
    window.initial_window(ROOM as u64);
    let mut transport = TransportConfig::default();
    transport
        .datagram_send_buffer_size(ROOM)
        .datagram_receive_buffer_size(Some(ROOM))
        .congestion_controller_factory(Arc::new(window))
        .max_idle_timeout(None);
    Arc::new(transport)
}

impl super::Pair for Pair {
    fn new() -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let certified = certified.expect("a name is enough");
        let certificate = certified.cert.der().clone();
        let key =
            rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into());
        let mut server = server.expect("a good certificate");
        server.transport_config(transport());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("a good certificate");
        let client = ClientConfig::with_root_certificates(Arc::new(roots));
        let mut client = client.expect("good roots");
        client.transport_config(transport());

        let endpoint = |server| {
            Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([7; 32]))
        };
        let mut server = End::new(endpoint(Some(Arc::new(server))), 1);
        let mut end = End::new(endpoint(None), 2);
        let mut now = Instant::now();
        let connected = end.endpoint.connect(now, client, server.address, "localhost");
        end.connection = Some(connected.expect("a good address"));
        for _ in 0..100 {
            for is_first in [true, false] {
                let (from, to) =
                    if is_first { (&mut end, &mut server) } else { (&mut server, &mut end) };
                from.talk(now);
                from.transmit(now);
                from.deliver(now, to);
            }
            now += Duration::from_millis(10);
        }
        assert!(end.is_connected && server.is_connected, "they never connect");
        Self { server, client: end, now }
    }

    fn queue(&mut self, message: &[u8]) {
        let (_, connection) = self.server.connection.as_mut().expect("it is connected");
        connection.datagrams().send(Bytes::copy_from_slice(message), false).expect("there is room");
    }

    fn produce(&mut self, each: &mut dyn FnMut(&[u8])) -> Duration {
        // Bursts are paced: a millisecond passes in which nothing leaves, and the next one does.
        let mut idle = 0;
        while idle < 20 {
            idle = if self.server.transmit(self.now) > 0 { 0 } else { idle + 1 };
            let (_, connection) = self.server.connection.as_mut().expect("it is connected");
            if connection.datagrams().send_buffer_space() >= ROOM {
                break;
            }
            self.now += Duration::from_millis(1);
        }
        let mut rest = &self.server.buffer[..];
        for &length in &self.server.lengths {
            let (datagram, behind) = rest.split_at(length);
            each(datagram);
            rest = behind;
        }
        Duration::ZERO
    }

    fn settle(&mut self) -> Vec<Vec<u8>> {
        self.now += Duration::from_millis(1);
        self.server.deliver(self.now, &mut self.client);
        let (_, connection) = self.client.connection.as_mut().expect("it is connected");
        let received = std::iter::from_fn(|| connection.datagrams().recv())
            .map(|data| data.to_vec())
            .collect();
        for _ in 0..3 {
            self.now += Duration::from_millis(30);
            self.client.talk(self.now);
            self.client.transmit(self.now);
            self.client.deliver(self.now, &mut self.server);
            self.server.transmit(self.now);
            self.server.deliver(self.now, &mut self.client);
        }
        received
    }
}
