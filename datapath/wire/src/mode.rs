//! The two dialects on the wire (protocol.md 2.2).

/// The packet format that a queue pair speaks, and with it the BTH.TVer that it sends and accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum WireMode {
    /// Standard RoCEv2, TVer 0.
    #[default]
    Plain,
    /// RoCEv2 with the SRNIC extension words, TVer 9 (bit 3: private dialect; low bits: version 1).
    Srnic,
}

impl WireMode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Srnic];

    /// The BTH.TVer that marks this mode.
    #[inline]
    #[must_use]
    pub const fn tver(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Srnic => 9,
        }
    }

    /// The mode that a BTH.TVer marks, if any.
    #[inline]
    #[must_use]
    pub const fn from_tver(tver: u8) -> Option<Self> {
        match tver {
            0 => Some(Self::Plain),
            9 => Some(Self::Srnic),
            _ => None,
        }
    }
}
