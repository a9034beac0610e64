//! `renet`: a reliable, ordered channel, without a limit of bytes a tick.

use std::time::Duration;

use renet::{ChannelConfig, ClientId, ConnectionConfig, RenetClient, RenetServer, SendType};

const CLIENT: ClientId = 1;
const CHANNEL: u8 = 0;
/// More than any bundle takes.
const ROOM: usize = 256 << 20;
const STEP: Duration = Duration::from_millis(16);

pub(super) struct Pair {
    server: RenetServer,
    client: RenetClient,
    packets: Vec<Vec<u8>>,
}

fn config() -> ConnectionConfig {
    let send_type = SendType::ReliableOrdered { resend_time: Duration::from_millis(300) };
    let channel = ChannelConfig { channel_id: CHANNEL, max_memory_usage_bytes: ROOM, send_type };
    ConnectionConfig {
        available_bytes_per_tick: ROOM as u64,
        server_channels_config: vec![channel.clone()],
        client_channels_config: vec![channel],
    }
}

impl super::Pair for Pair {
    fn new() -> Self {
        let (mut server, mut client) = (RenetServer::new(config()), RenetClient::new(config()));
        server.add_connection(CLIENT);
        client.set_connected();
        Self { server, client, packets: Vec::new() }
    }

    fn queue(&mut self, message: &[u8]) {
        self.server.send_message(CLIENT, CHANNEL, message.to_vec());
    }

    fn produce(&mut self, each: &mut dyn FnMut(&[u8])) -> Duration {
        self.packets = self.server.get_packets_to_send(CLIENT).expect("it is connected");
        self.packets.iter().for_each(|packet| each(packet));
        Duration::ZERO
    }

    fn settle(&mut self) -> Vec<Vec<u8>> {
        for packet in self.packets.drain(..) {
            self.client.process_packet(&packet);
        }
        let received =
            std::iter::from_fn(|| self.client.receive_message(CHANNEL)).map(Vec::from).collect();
        for packet in self.client.get_packets_to_send() {
            self.server.process_packet_from(&packet, CLIENT).expect("it is connected");
        }
        self.server.update(STEP);
        self.client.update(STEP);
        received
    }
}
