//! The ways of probes, and the parts that they have.

use super::measure::Measured;
use core::fmt;
use std::net::IpAddr;

/// A part of the way of probes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The CPU that posts, polls and runs the engine.
    Cpu(usize),
    /// The kind of pages that the payload is in.
    Memory(Memory),
    /// What every probe needs: the program and the machine below it.
    Device,
    /// The network between, and the host at its end.
    Peer(IpAddr),
}

/// A kind of pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Memory {
    /// Pages of the heap.
    Ordinary,
    /// Reserved hugepages.
    Huge,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::Memory(Memory::Ordinary) => f.write_str("ordinary pages"),
            Self::Memory(Memory::Huge) => f.write_str("huge pages"),
            Self::Device => f.write_str("the device"),
            Self::Peer(peer) => write!(f, "peer {peer}"),
        }
    }
}

/// The way that a probe takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path {
    /// The CPU that it runs on.
    pub cpu: usize,
    /// Where its payload is.
    pub memory: Memory,
    /// Where it goes; `None`: back to this device, without its port.
    pub peer: Option<IpAddr>,
}

/// A way, and what a probe measured on it; `None`: there was no answer.
pub type Outcome = (Path, Option<Measured>);

impl Path {
    /// What it crosses.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let always = [Part::Cpu(self.cpu), Part::Memory(self.memory), Part::Device];
        always.into_iter().chain(self.peer.map(Part::Peer)).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, memory) = (Part::Cpu(self.cpu), Part::Memory(self.memory));
        match self.peer {
            Some(peer) => write!(f, "{cpu}, {memory}, {}", Part::Peer(peer)),
            None => write!(f, "{cpu}, {memory}, loopback"),
        }
    }
}
