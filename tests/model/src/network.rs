//! The network between the two hosts, and the queue of all that is to happen.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::packet::{Body, Packet};
use crate::rng::Rng;
use crate::schedule::Faults;

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A packet arrives at a host.
    Deliver {
        /// The host.
        to: usize,
        /// The packet.
        packet: Packet,
    },
    /// A host's slow path runs.
    SlowWork {
        /// The host.
        host: usize,
    },
    /// A host's fast path looks at its commands.
    Commands {
        /// The host.
        host: usize,
    },
    /// A host's slow path reads an acknowledgement.
    Evidence {
        /// The host.
        host: usize,
    },
    /// An end of a connection enters RESET.
    Disconnect {
        /// The host.
        host: usize,
        /// The queue pair.
        qp: usize,
    },
    /// An end of a connection leaves RESET.
    Connect {
        /// The host.
        host: usize,
        /// The queue pair.
        qp: usize,
    },
    /// All faults stop.
    Heal,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Events in order of time; those of one tick in the order in which they were scheduled.
#[derive(Clone, Default, Debug)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<Timed>>,
    scheduled: u64,
}

impl Agenda {
    /// Schedules `event`.
    pub fn at(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.heap.push(Reverse(Timed { at, order: self.scheduled, event }));
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |timed| timed.0.at)
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|timed| timed.0.event)
    }
}

/// What became of a packet handed to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It will arrive.
    Sent,
    /// It will not.
    Lost,
    /// It will not, because of a blackout.
    BlackedOut,
}

/// The two directions and their faults.
#[derive(Clone, Debug)]
pub struct Network {
    rng: Rng,
    /// By sending host: no packet that is not reordered arrives before this.
    in_order_at: [u64; 2],
    /// By sending host, queue pair and kind: losses since the last packet that got through.
    losses: Vec<u32>,
}

impl Network {
    /// A network for `qps` connections.
    #[must_use]
    pub fn new(rng: Rng, qps: usize) -> Self {
        Self { rng, in_order_at: [0; 2], losses: vec![0; qps * 4] }
    }

    /// Takes a packet, which host `from` sends. With `healed` it only delays.
    pub fn send(
        &mut self,
        (from, packet): (usize, Packet),
        now: u64,
        faults: Option<&Faults>,
        delay_max: u64,
        agenda: &mut Agenda,
    ) -> Fate {
        let ordinary = now + self.rng.between(1, delay_max);
        let event = Event::Deliver { to: 1 - from, packet };
        let Some(faults) = faults else {
            self.in_order_at[from] = self.in_order_at[from].max(ordinary);
            agenda.at(self.in_order_at[from], event);
            return Fate::Sent;
        };
        if faults.blackouts.iter().any(|(start, end, hosts)| (*start..*end).contains(&now) && hosts[from]) {
            return Fate::BlackedOut;
        }
        let ack = matches!(packet.body, Body::Ack(_));
        let (loss, duplicate, reorder) = if ack {
            (faults.loss_ack, faults.duplicate_ack, faults.reorder_ack)
        } else {
            (faults.loss_data, faults.duplicate_data, faults.reorder_data)
        };
        let losses = &mut self.losses[packet.qp * 4 + from * 2 + usize::from(ack)];
        if *losses < faults.loss_run_max && self.rng.chance(loss) {
            *losses += 1;
            return Fate::Lost;
        }
        *losses = 0;
        let arrives = if self.rng.chance(reorder) {
            now + self.rng.between(1, faults.delay_reordered_max)
        } else {
            self.in_order_at[from] = self.in_order_at[from].max(ordinary);
            self.in_order_at[from]
        };
        agenda.at(arrives, event);
        if self.rng.chance(duplicate) {
            agenda.at(arrives + self.rng.between(1, faults.delay_reordered_max), event);
        }
        Fate::Sent
    }
}
