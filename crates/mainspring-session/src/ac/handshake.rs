//! The two packets of the handshake that both ends must agree on: seeds, id and cookie. The login before them is the
//! application's.

use super::flags;
use super::layout::{HEADER, Header};
use super::{Config, hash32};
use crate::Dropped;

/// The server's answer to a login: how the session will be protected, and what to prove that it arrived with.
///
/// ```
/// use mainspring_session::ac::ConnectRequest;
///
/// let request = ConnectRequest {
///     server_time: 1.5, cookie: 42, client_id: 7, send_seed: 1, receive_seed: 2,
/// };
/// let datagram = request.to_datagram(0);
/// assert_eq!(ConnectRequest::from_datagram(&datagram), Ok(request));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectRequest {
    /// The world's time, in seconds.
    pub server_time: f64,
    /// To be sent back.
    pub cookie: u64,
    /// The client's id from now on.
    pub client_id: u16,
    /// The seed of what the server sends.
    pub send_seed: u32,
    /// The seed of what it receives.
    pub receive_seed: u32,
}

/// The client's answer to a [`ConnectRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// As it came.
    pub cookie: u64,
}

impl ConnectRequest {
    /// Its packet, with the header's `time`.
    #[must_use]
    pub fn to_datagram(&self, time: u16) -> Vec<u8> {
        let mut body = Vec::with_capacity(32);
        body.extend_from_slice(&self.server_time.to_le_bytes());
        body.extend_from_slice(&self.cookie.to_le_bytes());
        body.extend_from_slice(&u32::from(self.client_id).to_le_bytes());
        body.extend_from_slice(&self.send_seed.to_le_bytes());
        body.extend_from_slice(&self.receive_seed.to_le_bytes());
        body.extend_from_slice(&0_u32.to_le_bytes());
        datagram(flags::CONNECT_REQUEST, super::SERVER_ID, time, &body)
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_datagram(bytes: &[u8]) -> Result<Self, Dropped> {
        let body = body::<32>(bytes, flags::CONNECT_REQUEST)?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| body[at + k]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| body[at + k]));
        Ok(Self {
            server_time: f64::from_bits(u64_at(0)),
            cookie: u64_at(8),
            client_id: u16::try_from(u32_at(16)).map_err(|_| Dropped::WrongId)?,
            send_seed: u32_at(20),
            receive_seed: u32_at(24),
        })
    }

    /// What a client makes its session with.
    #[must_use]
    pub fn client_config(&self) -> Config {
        Config {
            world_time: self.server_time,
            ..Config::client(self.client_id, self.send_seed, self.receive_seed)
        }
    }
}

impl ConnectResponse {
    /// Its packet.
    #[must_use]
    pub fn to_datagram(&self, client_id: u16) -> Vec<u8> {
        datagram(flags::CONNECT_RESPONSE, client_id, 0, &self.cookie.to_le_bytes())
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_datagram(bytes: &[u8]) -> Result<Self, Dropped> {
        Ok(Self { cookie: u64::from_le_bytes(body(bytes, flags::CONNECT_RESPONSE)?) })
    }
}

/// A packet in clear, before there are numbers.
fn datagram(flag: u32, id: u16, time: u16, body: &[u8]) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation, reason = "at most 32 bytes")]
    let size = body.len() as u16;
    let header = Header { number: 0, flags: flag, checksum: 0, id, time, size, iteration: 1 };
    let mut datagram = Vec::with_capacity(HEADER + body.len());
    datagram.extend_from_slice(&header.seal(hash32(body), None).to_bytes());
    datagram.extend_from_slice(body);
    datagram
}

/// The one section of a packet that must be of this kind.
fn body<const N: usize>(bytes: &[u8], flag: u32) -> Result<[u8; N], Dropped> {
    let packet = super::layout::Packet::parse(bytes)?;
    if packet.header.flags != flag {
        return Err(Dropped::Unknown);
    }
    if packet.header.seal(packet.payload_hash(), None).checksum != packet.header.checksum {
        return Err(Dropped::BadChecksum);
    }
    bytes[HEADER..].try_into().map_err(|_| Dropped::Truncated)
}
