//! Messages of the control channel: 128 bytes each, in the byte order of the machine.

/// Bytes of every message.
pub(crate) const LEN: usize = 128;
/// Bytes of a name, with its terminating zero.
pub const NAME_LEN: usize = 32;
/// Bytes of a secret, with its terminating zero.
pub const SECRET_LEN: usize = 24;
/// Bytes of a reason, with its terminating zero.
pub const REASON_LEN: usize = 96;
/// Version 2.0.
pub const VERSION: u16 = 2 << 8;
/// Packets are Ethernet frames.
pub const MODE_ETHERNET: u8 = 0;

/// Text in a field of fixed length, up to the first zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// The text, cut so that a zero fits behind it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().take(N - 1).zip(text.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// The text.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// The capabilities of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The name of the program.
    pub name: Text<NAME_LEN>,
    /// The oldest version of the protocol.
    pub min_version: u16,
    /// The newest one.
    pub max_version: u16,
    /// The highest index of a region.
    pub max_region: u16,
    /// The highest number of a ring to the client.
    pub max_to_client: u16,
    /// The highest number of a ring to the server.
    pub max_to_server: u16,
    /// Binary logarithm of the slots of the longest ring.
    pub max_ring_size_log2: u8,
}

/// The interface that a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init {
    /// The version of the protocol.
    pub version: u16,
    /// The number of the interface.
    pub id: u32,
    /// The kind of packets.
    pub mode: u8,
    /// The secret that the server asks for; empty if it asks for none.
    pub secret: Text<SECRET_LEN>,
    /// Of the program.
    pub name: Text<NAME_LEN>,
}

/// A ring in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddRing {
    /// Packets go from the client to the server.
    pub to_server: bool,
    /// The number of the queue.
    pub index: u16,
    /// The region that the ring is in.
    pub region: u16,
    /// The offset of the ring in the region, in bytes.
    pub offset: u32,
    /// Binary logarithm of its slots.
    pub size_log2: u8,
    /// Bytes that an end keeps in front of each packet.
    pub private_header: u16,
}

/// The messages of the control channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The server has done what it was told.
    Ack,
    /// The server greets.
    Hello(Hello),
    /// The client begins.
    Init(Init),
    /// Comes with a descriptor of the memory, `size` bytes long.
    AddRegion {
        /// Regions are numbered from 0 in turn.
        index: u16,
        /// In bytes.
        size: u64,
    },
    /// Comes with an eventfd for those who sleep.
    AddRing(AddRing),
    /// The client has told everything, and what it calls its end.
    Connect(Text<NAME_LEN>),
    /// So does the server call its own: the link is up.
    Connected(Text<NAME_LEN>),
    /// Why it is over.
    Disconnect(Text<REASON_LEN>),
}

impl Message {
    /// The end, and as much of the reason as fits.
    #[must_use]
    pub fn disconnect(reason: &str) -> Self {
        Self::Disconnect(Text::new(reason))
    }

    /// What comes first in it.
    const fn kind(&self) -> u16 {
        match self {
            Self::Ack => 1,
            Self::Hello(_) => 2,
            Self::Init(_) => 3,
            Self::AddRegion { .. } => 4,
            Self::AddRing(_) => 5,
            Self::Connect(_) => 6,
            Self::Connected(_) => 7,
            Self::Disconnect(_) => 8,
        }
    }

    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut to = Writer { bytes: [0; LEN], at: 0 };
        to.put(&self.kind().to_ne_bytes());
        match self {
            Self::Ack => {}
            Self::Hello(hello) => {
                to.put(&hello.name.0);
                for field in [
                    hello.min_version,
                    hello.max_version,
                    hello.max_region,
                    hello.max_to_client,
                    hello.max_to_server,
                ] {
                    to.put(&field.to_ne_bytes());
                }
                to.put(&[hello.max_ring_size_log2]);
            }
            Self::Init(init) => {
                to.put(&init.version.to_ne_bytes());
                to.put(&init.id.to_ne_bytes());
                to.put(&[init.mode]);
                to.put(&init.secret.0);
                to.put(&init.name.0);
            }
            Self::AddRegion { index, size } => {
                to.put(&index.to_ne_bytes());
                to.put(&size.to_ne_bytes());
            }
            Self::AddRing(ring) => {
                to.put(&u16::from(ring.to_server).to_ne_bytes());
                to.put(&ring.index.to_ne_bytes());
                to.put(&ring.region.to_ne_bytes());
                to.put(&ring.offset.to_ne_bytes());
                to.put(&[ring.size_log2]);
                to.put(&ring.private_header.to_ne_bytes());
            }
            Self::Connect(name) | Self::Connected(name) => to.put(&name.0),
            Self::Disconnect(reason) => {
                to.put(&0_u32.to_ne_bytes());
                to.put(&reason.0);
            }
        }
        to.bytes
    }

    /// `None` for what is no message of memif's.
    pub(crate) fn decode(bytes: &[u8; LEN]) -> Option<Self> {
        let mut from = Reader { bytes, at: 0 };
        Some(match from.u16() {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: Text(from.take()),
                min_version: from.u16(),
                max_version: from.u16(),
                max_region: from.u16(),
                max_to_client: from.u16(),
                max_to_server: from.u16(),
                max_ring_size_log2: from.u8(),
            }),
            3 => Self::Init(Init {
                version: from.u16(),
                id: u32::from_ne_bytes(from.take()),
                mode: from.u8(),
                secret: Text(from.take()),
                name: Text(from.take()),
            }),
            4 => Self::AddRegion { index: from.u16(), size: u64::from_ne_bytes(from.take()) },
            5 => Self::AddRing(AddRing {
                to_server: from.u16() & 1 != 0,
                index: from.u16(),
                region: from.u16(),
                offset: u32::from_ne_bytes(from.take()),
                size_log2: from.u8(),
                private_header: from.u16(),
            }),
            6 => Self::Connect(Text(from.take())),
            7 => Self::Connected(Text(from.take())),
            8 => {
                from.take::<4>();
                Self::Disconnect(Text(from.take()))
            }
            _ => return None,
        })
    }
}

struct Writer {
    bytes: [u8; LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }
}

struct Reader<'a> {
    bytes: &'a [u8; LEN],
    at: usize,
}

impl Reader<'_> {
    /// Every message has fewer bytes of fields than there are.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a peer says is read without a panic, and what is understood is written as it
        /// was read.
        #[test]
        fn any_bytes_are_read(mut bytes in prop::array::uniform32(any::<u32>()), kind in 0..10_u16) {
            bytes[0] = bytes[0] & 0xFFFF_0000 | u32::from(kind);
            let mut raw = [0; LEN];
            for (to, from) in raw.chunks_exact_mut(4).zip(bytes) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            let message = Message::decode(&raw);
            prop_assert_eq!(message.is_some(), (1..=8).contains(&kind));
            if let Some(message) = message {
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
    }

    #[test]
    fn fields_stand_where_other_implementations_look_for_them() {
        let ring = AddRing {
            to_server: true,
            index: 0x0302,
            region: 0x0504,
            offset: 0x0908_0706,
            size_log2: 10,
            private_header: 0x0C0B,
        };
        let bytes = Message::AddRing(ring).encode();
        let expected = [5, 0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x0B, 0x0C];
        assert_eq!(bytes[..15], expected);
        let region = Message::AddRegion { index: 1, size: 0x0706_0504_0302_0100 }.encode();
        assert_eq!(region[..12], [4, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
        let init = Init {
            version: VERSION,
            id: 7,
            mode: MODE_ETHERNET,
            secret: Text::new("psst"),
            name: Text::new("a name that is longer than thirty-two bytes are"),
        };
        let bytes = Message::Init(init).encode();
        assert_eq!(bytes[..13], [3, 0, 0, 2, 7, 0, 0, 0, 0, b'p', b's', b's', b't']);
        assert_eq!((bytes[33], bytes[63], bytes[64]), (b'a', b'r', 0), "cut, with its zero");
    }
}
