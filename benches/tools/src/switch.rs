//! An Ethernet switch between ports of this process: hosts meet on it that would else only come in
//! pairs.
//!
//! It learns where addresses are, sends frames there and others everywhere, and drops and marks
//! where a queue fills. Its turn does no I/O of its own and reads no clock; `run.rs` does both.

mod config;
mod egress;
mod leases;
mod pool;
mod report;
mod run;
mod table;
#[cfg(test)]
mod tests;
pub mod tool;

pub use config::{PortSpec, PortSpecError, QueueConfig};
pub use egress::EgressStats;
pub use report::{Row, table};

use datapath::port::{Interrupt, Port, PortStats};
use egress::Egress;
use pool::Arrival;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use table::{Mac, MacTable};
use verbs_api::{LinkDown, Time};

/// Destination and source address and EtherType.
const ETHERNET_LEN: usize = 14;
/// 01:80:C2:00:00:00 to :0F never pass a bridge (IEEE 802.1D).
const LINK_LOCAL: [u8; 5] = [0x01, 0x80, 0xC2, 0, 0];

/// Between two looks at ports without a link: nobody waits longer for an answer.
const LOOK_INTERVAL_NS: u64 = 1_000_000;

/// What a port counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneStats {
    /// The port itself, faults included.
    pub port: PortStats,
    /// Frames to it.
    pub egress: EgressStats,
    /// Frames from it that went to all other ports.
    pub flooded: u64,
    /// Frames from it that go nowhere: too short, from a group address, or to an address at the
    /// same port.
    pub filtered: u64,
}

struct Lane {
    port: Box<dyn Port + Send>,
    /// Why the last client was turned away, as [`Switch::turned_away`] has said.
    said: Option<String>,
    egress: Egress,
    flooded: u64,
    filtered: u64,
}

/// What a turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Frames that came in.
    pub received: usize,
    /// When what waits in a queue can go on; `None` if nothing waits.
    pub next_due: Option<Time>,
}

/// Where a frame goes.
enum Way {
    Out(usize),
    Flood,
    Nowhere,
}

impl Lane {
    /// Returns `true` if a turn has anything to do here.
    fn is_busy(&self) -> bool {
        self.port.link_up() || self.egress.next_due().is_some()
    }
}

impl Lane {
    fn turned_away(&mut self) -> Option<String> {
        match self.port.link_down() {
            None => self.said = None,
            Some(LinkDown::TurnedAway(why)) if self.said.as_ref() != Some(&why) => {
                self.said = Some(why.clone());
                return Some(why);
            }
            Some(_) => {}
        }
        None
    }
}

/// The switch.
#[derive(Default)]
pub struct Switch {
    lanes: Vec<Lane>,
    table: MacTable,
    /// The lanes that each turn serves, by number; the others are looked at now and then.
    served: Vec<usize>,
    /// When all lanes are looked at next.
    look_at: Time,
    /// Ports that come later.
    arriving: Option<Receiver<Arrival>>,
    /// The names of those that have come.
    arrived: Vec<String>,
}

impl Switch {
    /// Adds a port.
    pub fn attach(&mut self, port: Box<dyn Port + Send>, queue: QueueConfig) {
        self.lanes.push(Lane { port, said: None, egress: Egress::new(queue), flooded: 0, filtered: 0 });
        self.look_at = Time::ZERO;
    }

    /// Attaches what comes by `arriving`, too, without a queue.
    pub fn attach_later(&mut self, arriving: Receiver<Arrival>) {
        self.arriving = Some(arriving);
    }

    fn attach_arrived(&mut self) {
        while let Some(Ok(Arrival { name, port })) = self.arriving.as_ref().map(Receiver::try_recv) {
            self.attach(port, QueueConfig::default());
            self.arrived.push(name);
        }
    }

    /// The names of the ports that came later, in the order of [`Switch::lanes`], where they are
    /// behind the others.
    pub fn arrived(&self) -> impl Iterator<Item = &str> {
        self.arrived.iter().map(String::as_str)
    }

    /// Moves what is there: a burst of each port, and what waits in queues. A port without a link
    /// has a turn now and then only, so that any number of them cost next to nothing.
    pub fn turn(&mut self, now: Time) -> Turn {
        let looks = now >= self.look_at;
        if looks {
            self.look_at = now.after(LOOK_INTERVAL_NS);
            self.served.clear();
            self.served.extend(0..self.lanes.len());
        }
        for &served in &self.served {
            let lane = &mut self.lanes[served];
            lane.port.set_now(now);
            lane.egress.drain(&mut *lane.port, now);
        }
        let received = (0..self.served.len()).map(|at| self.receive(self.served[at], now)).sum();
        let mut next_due = None;
        for &served in &self.served {
            let lane = &mut self.lanes[served];
            lane.port.tx_flush();
            let due = [next_due, lane.egress.next_due(), lane.port.next_due()];
            next_due = due.into_iter().flatten().min();
        }
        if looks {
            self.served.retain(|&served| self.lanes[served].is_busy());
        }
        Turn { received, next_due }
    }

    /// What wakes a thread that found nothing to do and is going to sleep, and for how long it may:
    /// for `usual`, or for what all ports allow if nothing is due before `next_due`.
    fn rest(&mut self, usual: Duration, now: Time, next_due: Option<Time>) -> (Vec<Interrupt>, Duration) {
        let rests: Vec<_> = self.lanes.iter_mut().map(|lane| lane.port.rest()).collect();
        let limit = rests.iter().map(|rest| rest.sleep(usual, now, next_due)).min();
        (rests.into_iter().filter_map(|rest| rest.interrupt).collect(), limit.unwrap_or(usual))
    }

    /// Why each port has no link, if it has none, and what it counted.
    pub fn lanes(&self) -> impl Iterator<Item = (Option<LinkDown>, LaneStats)> {
        self.lanes.iter().map(|lane| {
            let (port, egress) = (lane.port.stats(), lane.egress.stats());
            let stats = LaneStats { port, egress, flooded: lane.flooded, filtered: lane.filtered };
            (lane.port.link_down(), stats)
        })
    }

    /// Of hosts that came and cannot be let in, why; each reason once until a host is at the port.
    pub fn turned_away(&mut self) -> Vec<String> {
        self.lanes.iter_mut().filter_map(Lane::turned_away).collect()
    }

    fn receive(&mut self, from: usize, now: Time) -> usize {
        let count = self.lanes[from].port.rx_burst();
        for index in 0..count {
            match self.way(from, index, now) {
                Way::Out(to) => self.pass(from, index, to, now),
                Way::Flood => {
                    self.lanes[from].flooded += 1;
                    for to in (0..self.lanes.len()).filter(|to| *to != from) {
                        self.pass(from, index, to, now);
                    }
                }
                Way::Nowhere => self.lanes[from].filtered += 1,
            }
        }
        self.lanes[from].port.rx_release();
        count
    }

    fn way(&mut self, from: usize, index: usize, now: Time) -> Way {
        let frame = self.lanes[from].port.rx_frame(index);
        let Some((to, source)) = addresses(frame.head()) else { return Way::Nowhere };
        if is_group(source) || to.starts_with(&LINK_LOCAL) && to[5] < 16 {
            return Way::Nowhere;
        }
        self.table.learn(source, from, now);
        if is_group(to) {
            return Way::Flood;
        }
        match self.table.port_of(to, now) {
            Some(port) if port == from => Way::Nowhere,
            Some(port) => Way::Out(port),
            None => Way::Flood,
        }
    }

    /// Copies a frame of the burst of `from` to another port.
    fn pass(&mut self, from: usize, index: usize, to: usize, now: Time) {
        if let Ok([source, target]) = self.lanes.get_disjoint_mut([from, to]) {
            target.egress.offer(&mut *target.port, source.port.rx_frame(index).bytes(), now);
        }
    }
}

/// Destination and source of a frame that has a whole header.
fn addresses(frame: &[u8]) -> Option<(Mac, Mac)> {
    let header = frame.first_chunk::<ETHERNET_LEN>()?;
    let (to, rest) = header.split_first_chunk::<6>()?;
    Some((*to, *rest.first_chunk::<6>()?))
}

const fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}
