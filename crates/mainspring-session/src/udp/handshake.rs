//! The handshake's datagrams: their bytes, and nothing else. All of them are 64 bytes long, so that no answer is longer
//! than its question.
//!
//! ```text
//!  0        7 8 9    12       16               24
//! +----------+-+-+----+--------+----------------+----------------------------------------+
//! | mspring  |1|k| 0  |protocol|     nonce      | by kind, zeros up to 64                |
//! +----------+-+-+----+--------+----------------+----------------------------------------+
//!             | |                                24               40
//!    layout --' |   1 Hello                      |                                 zeros |
//!               |   2 Retry                      | cookie         |                zeros |
//!        kind --'   3 Connect                    | cookie         |                zeros |
//!                   4 Accept                     |id  |seed|seed|0   |number   |  zeros |
//!                                                24   28   32   36   40        48
//!                   5 Refuse                     |reason, 1 byte|                  zeros |
//! ```
//!
//! Numbers are little-endian. The first 24 bytes are the same in all layouts to come, so that a refusal is understood. Zeros
//! are not looked at, so that a later layout may put something there. A format's own datagrams are told from these by
//! length and name, and where it matters, by cookie or nonce.

use std::fmt;

/// The length of every datagram of the handshake.
pub const LENGTH: usize = 64;

/// One datagram.
pub type Datagram = [u8; LENGTH];

/// What proves that somebody receives at the address that he sends from.
pub type Cookie = [u8; 16];

/// What the two sessions of a connection need to agree on. Unpredictable, and different for each connection, but for
/// `id`, which counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The number of the connection, of all that this server has accepted; it wraps.
    pub id: u32,
    /// Seeds of the keys: of what the server sends, and of what it receives.
    pub seeds: [u32; 2],
    /// Whatever else a format wants to know.
    pub number: u64,
}

impl Accept {
    /// What the server's session of Asheron's Call format is made with.
    #[must_use]
    pub fn ac_server(&self) -> crate::ac::Config {
        crate::ac::Config::server(self.ac_id(), self.seeds[0], self.seeds[1])
    }

    /// What the client's session of that format is made with.
    #[must_use]
    pub fn ac_client(&self) -> crate::ac::Config {
        crate::ac::Config::client(self.ac_id(), self.seeds[0], self.seeds[1])
    }

    /// What the server's session of the plain format is made with; add channels.
    #[must_use]
    pub fn plain_server(&self) -> crate::plain::Config {
        crate::plain::Config::server(self.id, self.number)
    }

    /// What the client's session of that format is made with; add the same channels.
    #[must_use]
    pub fn plain_client(&self) -> crate::plain::Config {
        crate::plain::Config::client(self.id, self.number)
    }

    fn ac_id(&self) -> u16 {
        #[allow(clippy::cast_possible_truncation, reason = "the address tells sessions apart")]
        let id = self.id as u16;
        id
    }
}

/// Why a server does not let somebody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It has as many sessions as it may have. Another time, perhaps.
    Full,
    /// It speaks another protocol, or another version of the handshake.
    WrongVersion,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server is full",
            Self::WrongVersion => "the server speaks another protocol or version",
        })
    }
}

/// What a datagram of the handshake says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody wants to connect.
    Hello,
    /// Say it again, with this.
    Retry(Cookie),
    /// Somebody wants to connect, and has heard.
    Connect(Cookie),
    /// Welcome.
    Accept(Accept),
    /// Not now, or not here.
    Refuse(Refusal),
}

/// A datagram of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What both ends speak: the application's number for its protocol and that one's version.
    pub protocol: u32,
    /// The client's own number for this attempt, in everything that it sends and is answered.
    pub nonce: u64,
    /// The rest.
    pub kind: Kind,
}

/// Why bytes are no [`Packet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOne {
    /// They are something else; see [`is_handshake`].
    Other,
    /// They have another layout; kind, protocol and nonce are where they always are.
    OtherLayout {
        /// The client's number.
        nonce: u64,
        /// Whether it is one that a client sends.
        is_clients: bool,
    },
    /// They have this layout, but no meaning.
    Senseless,
}

/// Whether these bytes look like a datagram of the handshake, of any layout.
#[must_use]
pub fn is_handshake(datagram: &[u8]) -> bool {
    datagram.len() == LENGTH && datagram.starts_with(NAME)
}

impl Packet {
    /// Its bytes.
    #[must_use]
    pub fn to_datagram(&self) -> Datagram {
        let mut datagram = [0; LENGTH];
        let mut put =
            |at: usize, bytes: &[u8]| datagram[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, NAME);
        put(LAYOUT_AT, &[LAYOUT]);
        put(PROTOCOL_AT, &self.protocol.to_le_bytes());
        put(NONCE_AT, &self.nonce.to_le_bytes());
        let kind = match &self.kind {
            Kind::Hello => HELLO,
            Kind::Retry(cookie) => {
                put(BODY_AT, cookie);
                RETRY
            }
            Kind::Connect(cookie) => {
                put(BODY_AT, cookie);
                CONNECT
            }
            Kind::Accept(accept) => {
                put(BODY_AT, &accept.id.to_le_bytes());
                put(BODY_AT + 4, &accept.seeds[0].to_le_bytes());
                put(BODY_AT + 8, &accept.seeds[1].to_le_bytes());
                put(BODY_AT + 16, &accept.number.to_le_bytes());
                ACCEPT
            }
            Kind::Refuse(refusal) => {
                put(
                    BODY_AT,
                    &[match refusal {
                        Refusal::Full => FULL,
                        Refusal::WrongVersion => WRONG_VERSION,
                    }],
                );
                REFUSE
            }
        };
        put(KIND_AT, &[kind]);
        datagram
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// What it is instead.
    pub fn from_datagram(datagram: &[u8]) -> Result<Self, NotOne> {
        let Some(datagram) = Some(datagram).filter(|datagram| is_handshake(datagram)) else {
            return Err(NotOne::Other);
        };
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| datagram[at + k]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| datagram[at + k]));
        let cookie = || std::array::from_fn(|k| datagram[BODY_AT + k]);
        let nonce = u64_at(NONCE_AT);
        if datagram[LAYOUT_AT] != LAYOUT {
            let is_clients = matches!(datagram[KIND_AT], HELLO | CONNECT);
            return Err(NotOne::OtherLayout { nonce, is_clients });
        }
        let kind = match datagram[KIND_AT] {
            HELLO => Kind::Hello,
            RETRY => Kind::Retry(cookie()),
            CONNECT => Kind::Connect(cookie()),
            ACCEPT => Kind::Accept(Accept {
                id: u32_at(BODY_AT),
                seeds: [u32_at(BODY_AT + 4), u32_at(BODY_AT + 8)],
                number: u64_at(BODY_AT + 16),
            }),
            REFUSE => Kind::Refuse(match datagram[BODY_AT] {
                FULL => Refusal::Full,
                WRONG_VERSION => Refusal::WrongVersion,
                _ => return Err(NotOne::Senseless),
            }),
            _ => return Err(NotOne::Senseless),
        };
        Ok(Self { protocol: u32_at(PROTOCOL_AT), nonce, kind })
    }
}

const NAME: &[u8] = b"mspring";
const LAYOUT: u8 = 1;

const LAYOUT_AT: usize = NAME.len();
const KIND_AT: usize = LAYOUT_AT + 1;
const PROTOCOL_AT: usize = 12;
const NONCE_AT: usize = PROTOCOL_AT + 4;
const BODY_AT: usize = NONCE_AT + 8;
const _: () = assert!(KIND_AT < PROTOCOL_AT && BODY_AT + 24 <= LENGTH);

const HELLO: u8 = 1;
const RETRY: u8 = 2;
const CONNECT: u8 = 3;
const ACCEPT: u8 = 4;
const REFUSE: u8 = 5;

const FULL: u8 = 1;
const WRONG_VERSION: u8 = 2;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    /// Each kind, byte by byte.
    #[test]
    fn golden_bytes() {
        let cookie: Cookie = std::array::from_fn(|k| 0xa0 + k as u8);
        let accept =
            Accept { id: 7, seeds: [0x1234_5678, 0x9abc_def0], number: 0x0102_0304_0506_0708 };
        let cookie_text = "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf";
        let golden = [
            (Kind::Hello, "01", String::new()),
            (Kind::Retry(cookie), "02", cookie_text.to_owned()),
            (Kind::Connect(cookie), "03", cookie_text.to_owned()),
            (
                Kind::Accept(accept),
                "04",
                "0700000078563412f0debc9a000000000807060504030201".to_owned(),
            ),
            (Kind::Refuse(Refusal::Full), "05", "01".to_owned()),
            (Kind::Refuse(Refusal::WrongVersion), "05", "02".to_owned()),
        ];
        for (kind, number, body) in golden {
            let packet = Packet { protocol: 0xcafe, nonce: 0x1122_3344_5566_7788, kind };
            let datagram = packet.to_datagram();
            let hex: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
            // mspring, the layout; the kind; zeros; the protocol; the nonce; the body and zeros.
            let head = format!("6d737072696e6701{number}000000feca00008877665544332211");
            assert_eq!(hex, format!("{:0<128}", head + &body), "{kind:?}");
            assert_eq!(Packet::from_datagram(&datagram), Ok(packet));
        }
    }

    #[test]
    fn what_is_none_says_what_it_is() {
        let packet = Packet { protocol: 1, nonce: 42, kind: Kind::Refuse(Refusal::Full) };
        let good = packet.to_datagram();
        let changed = |at: usize, byte: u8| {
            let mut datagram = good;
            datagram[at] = byte;
            Packet::from_datagram(&datagram)
        };
        assert_eq!(changed(0, b'M'), Err(NotOne::Other));
        assert_eq!(Packet::from_datagram(&good[..63]), Err(NotOne::Other));
        assert_eq!(Packet::from_datagram(&[]), Err(NotOne::Other));
        assert_eq!(changed(7, 2), Err(NotOne::OtherLayout { nonce: 42, is_clients: false }));
        assert_eq!(changed(8, 0), Err(NotOne::Senseless));
        assert_eq!(changed(8, 6), Err(NotOne::Senseless));
        assert_eq!(changed(24, 3), Err(NotOne::Senseless));
        assert_eq!(changed(63, 1), Ok(packet), "zeros are not looked at");
    }
}
