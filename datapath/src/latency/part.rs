//! The parts of an operation's time.

use core::fmt;
use core::ops::{Index, IndexMut};

/// What an operation was waiting for during a part of its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Part {
    /// Posted, and the engine has not seen it: its driver has not run, or the post was not handed
    /// over yet.
    Posting,
    /// Its turn: requests before it, other queue pairs, a cap of its tenant, the engine.
    Scheduler,
    /// The port had no room.
    Port,
    /// The window is full.
    Window,
    /// The congestion controller allows no more.
    Congestion,
    /// READs and atomics under way, or a fence.
    Reads,
    /// The peer has no receive posted (RNR).
    Receives,
    /// Packets of its queue pair are known to be lost, and are sent again.
    Recovery,
    /// Everything is sent: the way there and back, and of READs and atomics the peer's host.
    Network,
    /// The peer's host, as far as the acknowledgement says (ACK_DELAY, docs/protocol.md 2.2).
    Peer,
    /// Completed, and nobody has polled it.
    Polling,
}

impl Part {
    /// All of them, in the order of an operation's life.
    pub const ALL: [Self; 11] = [
        Self::Posting,
        Self::Scheduler,
        Self::Port,
        Self::Window,
        Self::Congestion,
        Self::Reads,
        Self::Receives,
        Self::Recovery,
        Self::Network,
        Self::Peer,
        Self::Polling,
    ];

    /// Its name: one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Posting => "posting",
            Self::Scheduler => "scheduler",
            Self::Port => "port",
            Self::Window => "window",
            Self::Congestion => "congestion",
            Self::Reads => "reads",
            Self::Receives => "receives",
            Self::Recovery => "recovery",
            Self::Network => "network",
            Self::Peer => "peer",
            Self::Polling => "polling",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Nanoseconds of each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts([u64; Part::ALL.len()]);

impl Parts {
    /// All of them together, in nanoseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each part with its nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        Part::ALL.into_iter().zip(self.0)
    }

    /// Adds those of another operation.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, ns) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(ns);
        }
    }
}

impl Index<Part> for Parts {
    type Output = u64;

    fn index(&self, part: Part) -> &u64 {
        &self.0[part as usize]
    }
}

impl IndexMut<Part> for Parts {
    fn index_mut(&mut self, part: Part) -> &mut u64 {
        &mut self.0[part as usize]
    }
}
