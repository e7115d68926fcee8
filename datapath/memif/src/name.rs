//! The names of our ends. They carry properties that both ends must agree on, as memif has no other
//! field for them.

/// How the names of our ends begin, DPDK's driver or not.
const PREFIX: &str = "net_memif_f";

/// What is wrong with a client of somebody else's that names rings of other queues than its server
/// has.
pub const OTHER_QUEUES: &str = "the client has another number of queues: both ends need as many engines=";

/// Bytes of a frame that an MTU does not count: an Ethernet header and a VLAN tag.
pub const FRAME_OVERHEAD: u16 = 18;

/// The MTU of an interface with this longest frame, both in bytes: what users give.
#[must_use]
pub const fn mtu(max_frame: u16) -> u16 {
    max_frame.saturating_sub(FRAME_OVERHEAD)
}

/// A property in which the ends of a pair differ, although they must agree on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// Their longest frames, in bytes.
    #[error(
        "the server has mtu={}, the client mtu={}: both ends need the same",
        mtu(*server),
        mtu(*client)
    )]
    Frame {
        /// Of the server.
        server: u16,
        /// Of the client.
        client: u16,
    },
    /// Their queues each way.
    #[error("the server has engines={server}, the client engines={client}: both ends need as many")]
    Queues {
        /// Of the server.
        server: u8,
        /// Of the client.
        client: u8,
    },
}

/// The properties that both ends must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Longest frame, in bytes.
    pub max_frame: u16,
    /// Queues each way.
    pub queues: u8,
}

impl Told {
    /// How a name that tells this begins: something that makes it one of its kind may follow.
    ///
    /// ```
    /// use memif::Told;
    ///
    /// assert_eq!(Told { max_frame: 4608, queues: 1 }.prefix(), "net_memif_f4608_");
    /// assert_eq!(Told { max_frame: 1518, queues: 2 }.prefix(), "net_memif_f1518_q2_");
    /// ```
    #[must_use]
    pub fn prefix(self) -> String {
        let Self { max_frame, queues } = self;
        if queues == 1 { format!("{PREFIX}{max_frame}_") } else { format!("{PREFIX}{max_frame}_q{queues}_") }
    }

    /// How this end, a server, differs from a client of that name, if the name is of our kind.
    #[must_use]
    pub fn differs_from_client(self, name: &[u8]) -> Option<Difference> {
        self.differs(Self::by(name)?)
    }

    /// How this end, a client, differs from a server of that name, if the name is of our kind.
    #[must_use]
    pub fn differs_from_server(self, name: &[u8]) -> Option<Difference> {
        Self::by(name)?.differs(self)
    }

    fn differs(self, client: Self) -> Option<Difference> {
        if self.max_frame != client.max_frame {
            return Some(Difference::Frame { server: self.max_frame, client: client.max_frame });
        }
        let (server, client) = (self.queues, client.queues);
        (server != client).then_some(Difference::Queues { server, client })
    }

    /// Reads the properties from a name; `None` if it is not a name of our ends.
    #[must_use]
    pub fn by(name: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.split('_');
        let max_frame = parts.next()?.parse().ok()?;
        let queues = parts.next().and_then(|part| part.strip_prefix('q')).map_or(Ok(1), str::parse);
        Some(Self { max_frame, queues: queues.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, NAME_LEN, REASON_LEN};

    #[test]
    fn names_and_differences_fit_into_their_messages() {
        let longest = Told { max_frame: u16::MAX, queues: 8 };
        assert!(longest.prefix().len() + "srnic".len() < NAME_LEN);
        let other = Told { max_frame: u16::MAX - 1, queues: 8 };
        for difference in [longest.differs(other), longest.differs(Told { queues: 7, ..longest })] {
            let text = difference.expect("they differ").to_string();
            assert!(text.len() < REASON_LEN, "{text}");
            let Message::Disconnect(reason) = Message::disconnect(&text) else { unreachable!() };
            assert_eq!(reason.bytes(), text.as_bytes());
        }
    }

    #[test]
    fn a_name_tells_what_it_was_made_of() {
        for told in [(64, 1), (u16::MAX, 8), (4608, 2)] {
            let told = Told { max_frame: told.0, queues: told.1 };
            for rest in ["", "7", "srnic"] {
                assert_eq!(Told::by((told.prefix() + rest).as_bytes()), Some(told));
            }
        }
        for name in ["", "net_memif_f", "net_memif_fx_1", "net_memif7", "memif", "net_memif_f1518_qx_1"] {
            assert_eq!(Told::by(name.as_bytes()), None, "{name}");
        }
    }
}
