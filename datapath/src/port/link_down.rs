//! Why a port has no link, whatever its kind.

/// Why frames cannot pass a port: for a program by its kind, for a person by its text, which says
/// what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkDown {
    /// Nobody is at the other end. The text says where this end waits, and as which end of a pair.
    #[error("{0}")]
    NoPeer(String),
    /// Somebody is there and has not answered yet.
    #[error("{0}")]
    NoAnswer(String),
    /// The ends do not go together: another MTU, another number of engines, a third process at a
    /// pair. It does not come up before one of them is opened in another way.
    #[error("{0}")]
    TurnedAway(String),
    /// There was a link; the peer left, and no other has come.
    #[error("{0}")]
    Left(String),
    /// The interface or the NIC has no carrier, or is down.
    #[error("{0}")]
    NoCarrier(String),
    /// The NIC was taken out of the machine, the interface was deleted, or the switch of a pool has
    /// ended. Close the device: it has no link any more.
    #[error("{0}")]
    Removed(String),
    /// The port does not tell.
    #[error("the port has no link, and does not tell why")]
    Unknown,
}

impl From<::memif::NoLink> for LinkDown {
    fn from(why: ::memif::NoLink) -> Self {
        use ::memif::NoLink;
        let text = why.to_string();
        match why {
            NoLink::NoClient { .. } | NoLink::NoServer { .. } => Self::NoPeer(text),
            NoLink::NoAnswer { .. } | NoLink::NotTended { .. } => Self::NoAnswer(text),
            NoLink::Left { .. } => Self::Left(text),
            // Also what is new.
            _ => Self::TurnedAway(text),
        }
    }
}

impl From<::packet::NoLink> for LinkDown {
    fn from(why: ::packet::NoLink) -> Self {
        use ::packet::NoLink;
        let text = why.to_string();
        match why {
            NoLink::Gone { .. } => Self::Removed(text),
            // Also what is new.
            _ => Self::NoCarrier(text),
        }
    }
}

#[cfg(feature = "dpdk")]
impl From<dpdk_sys::NoLink> for LinkDown {
    fn from(why: dpdk_sys::NoLink) -> Self {
        use dpdk_sys::NoLink;
        let text = why.to_string();
        match why {
            NoLink::Memif(why) => why.into(),
            NoLink::Interface(why) => why.into(),
            NoLink::NoFrontEnd { .. } | NoLink::NoBackEnd { .. } => Self::NoPeer(text),
            NoLink::BackEndNotReady { .. } | NoLink::FurtherQueue => Self::NoAnswer(text),
            NoLink::Removed { .. } => Self::Removed(text),
            // Also what is new.
            _ => Self::NoCarrier(text),
        }
    }
}
