//! Address conflict detection: whether another host uses our IP address. RFC 5227 for IPv4, RFC
//! 4862 (5.4) for IPv6, docs/protocol.md 1.13.
//!
//! The address is used while it is asked for, as an optimistic one is (RFC 4429): a holder that
//! answers ends that.

use crate::time::Time;

/// Probes that must stay unanswered before the address is ours.
pub const PROBES: u8 = 3;
/// Nanoseconds between two probes, and from the last one to the end of probing.
pub const PROBE_INTERVAL_NS: u64 = 1_000_000_000;
/// Nanoseconds that the first probe's answer is awaited for, before any neighbor is looked for.
pub const PROBE_ANSWER_NS: u64 = 10_000_000;
/// Nanoseconds between two defences of our address.
pub const DEFEND_INTERVAL_NS: u64 = 1_000_000_000;
/// Nanoseconds after which an address that another host has is asked for again; so long without a
/// dispute, the next one is worth an event of its own.
pub const RECLAIM_NS: u64 = 10_000_000_000;

/// Another host has our address, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressConflict {
    /// The Ethernet address of the other host.
    pub mac: [u8; 6],
    /// The address was ours first, and stays ours.
    pub ours: bool,
}

/// Tells the words of hosts with one Ethernet address apart (RFC 7527): 47 bits that are a host's
/// own, the smaller the older it is, behind a bit that says that it is asking still whether the
/// address is free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Nonce(pub [u8; 6]);

impl Nonce {
    /// The nonce of a host that has none.
    pub const NONE: Self = Self([0; 6]);
    const ASKING: u8 = 0x80;

    /// A nonce of these bytes, whose first bit does not count.
    pub const fn new([first, b, c, d, e, f]: [u8; 6]) -> Self {
        Self([first & !Self::ASKING, b, c, d, e, f])
    }

    const fn asking(self) -> Self {
        let [first, b, c, d, e, f] = self.0;
        Self([first | Self::ASKING, b, c, d, e, f])
    }

    /// Returns `true` if both are one host's.
    pub fn is_of(self, other: Self) -> bool {
        Self::new(self.0) == Self::new(other.0)
    }
}

/// A message about our address that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speech {
    /// Is it free?
    Probe,
    /// It is ours.
    Announcement,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody can be asked: there is no link.
    Apart,
    Held,
    /// `sent` probes so far; at `next` another one, or the end.
    Probing {
        sent: u8,
        next: Time,
    },
    /// Another host has it; at `next` it is asked for again.
    Lost {
        next: Time,
    },
}

/// The state of address conflict detection for our address.
#[derive(Debug)]
pub struct ConflictDetection {
    nonce: Nonce,
    state: State,
    /// Who has the address instead of us.
    holder: Option<[u8; 6]>,
    /// An announcement is due.
    announces: bool,
    defended_at: Option<Time>,
    disputed_at: Option<Time>,
}

impl ConflictDetection {
    /// The state of an address that is held without probing.
    pub const fn new(nonce: Nonce) -> Self {
        Self {
            nonce,
            state: State::Held,
            holder: None,
            announces: false,
            defended_at: None,
            disputed_at: None,
        }
    }

    /// There is no link. The address is to be asked for again.
    pub const fn suspend(&mut self) {
        self.state = State::Apart;
    }

    /// Begins to ask. Whose address it was keeps it meanwhile.
    pub const fn probe(&mut self, now: Time) {
        self.state = State::Probing { sent: 0, next: now };
    }

    /// The Ethernet address of the host that has our address instead of us.
    pub const fn holder(&self) -> Option<[u8; 6]> {
        self.holder
    }

    /// Returns `true` if the first probe may still be answered.
    pub fn is_open(&self, now: Time) -> bool {
        match self.state {
            State::Probing { sent: 0, .. } => true,
            State::Probing { sent: 1, next } => now.after(PROBE_INTERVAL_NS - PROBE_ANSWER_NS) < next,
            State::Probing { .. } | State::Apart | State::Held | State::Lost { .. } => false,
        }
    }

    /// Our nonce as it goes into packets: one that is asking still is larger than any that is not.
    pub const fn nonce(&self) -> Nonce {
        match self.state {
            State::Held => self.nonce,
            State::Apart | State::Probing { .. } | State::Lost { .. } => self.nonce.asking(),
        }
    }

    /// Returns `true` if another host with this nonce gets the address: we are asking for it still,
    /// and it is not, or was opened before. A host without a nonce is not.
    pub fn yields_to(&self, nonce: Option<Nonce>) -> bool {
        matches!(self.state, State::Apart | State::Probing { .. })
            && nonce.unwrap_or(Nonce::NONE) < self.nonce.asking()
    }

    /// Another host says that the address is its own. Returns what is to be told of it: the first
    /// dispute of a series.
    pub fn dispute(&mut self, now: Time, mac: [u8; 6], nonce: Option<Nonce>) -> Option<AddressConflict> {
        match self.state {
            State::Apart | State::Probing { .. } if self.yields_to(nonce) => {
                let is_new = self.lose(now, mac);
                is_new.then_some(AddressConflict { mac, ours: false })
            }
            State::Apart | State::Held | State::Probing { .. } => {
                if self.defended_at.is_none_or(|at| now.since(at) >= DEFEND_INTERVAL_NS) {
                    self.defended_at = Some(now);
                    self.announces = true;
                }
                let before = self.disputed_at.replace(now);
                let is_new = before.is_none_or(|at| now.since(at) >= RECLAIM_NS);
                is_new.then_some(AddressConflict { mac, ours: true })
            }
            State::Lost { .. } => {
                self.lose(now, mac);
                None
            }
        }
    }

    /// The address is the other host's, who must be silent for a while before it is asked for
    /// again. Returns whether that is new.
    fn lose(&mut self, now: Time, mac: [u8; 6]) -> bool {
        self.state = State::Lost { next: now.after(RECLAIM_NS) };
        self.holder.replace(mac).is_none()
    }

    /// The message that is to be sent now.
    pub fn poll(&mut self, now: Time) -> Option<Speech> {
        if core::mem::take(&mut self.announces) {
            return Some(Speech::Announcement);
        }
        match self.state {
            State::Lost { next } if next <= now => self.probe(now),
            State::Probing { sent: PROBES, next } if next <= now => {
                self.state = State::Held;
                self.holder = None;
                return Some(Speech::Announcement);
            }
            _ => {}
        }
        let State::Probing { sent, next } = self.state else { return None };
        (next <= now).then(|| {
            self.state = State::Probing { sent: sent + 1, next: now.after(PROBE_INTERVAL_NS) };
            Speech::Probe
        })
    }

    /// When [`ConflictDetection::poll`] next has a message to send. [`Time::ZERO`] means now.
    pub const fn deadline(&self) -> Option<Time> {
        match self.state {
            _ if self.announces => Some(Time::ZERO),
            State::Apart | State::Held => None,
            State::Probing { next, .. } | State::Lost { next } => Some(next),
        }
    }
}
