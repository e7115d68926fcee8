//! A switch, and an uplink and a downlink to each port.

use crate::capture::Capture;
use crate::filter::{Filter, Passing, Rewrite, Verdict};
use crate::frame;
use crate::link::{Faults, Link, LinkConfig};
use crate::port::{Mailbox, Scribbles, SimPort};
use crate::recorder::Recorder;
use crate::rest::Rest;
use crate::rng::splitmix64;
use crate::stats::LinkStats;
use crate::trace::TraceHash;
use core::cell::RefCell;
use core::cmp::Ordering;
use datapath::port::PortCaps;
use datapath::time::Time;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A port of the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// A link: what a node sends passes its own uplink and then the receiver's downlink.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkId {
    /// From the node to the switch.
    Up(NodeId),
    /// From the switch to the node.
    Down(NodeId),
}

/// How a port is attached.
#[derive(Clone, Copy, Debug)]
pub struct PortOptions {
    /// Node to switch.
    pub up: LinkConfig,
    /// Switch to node.
    pub down: LinkConfig,
    /// Frames of the transmit ring: what the uplink has not taken yet blocks the sender, nothing is
    /// dropped.
    pub tx_ring: usize,
    /// The port knows what is in its transmit ring ([`Port::tx_ahead`]).
    ///
    /// [`Port::tx_ahead`]: datapath::port::Port::tx_ahead
    pub tells_ahead: bool,
    /// Frames of the receive ring: what comes while the receiver has not taken so many is dropped.
    pub rx_ring: usize,
    /// Longest frame in bytes, without FCS.
    pub max_frame: usize,
}

impl Default for PortOptions {
    fn default() -> Self {
        let (up, down) = (LinkConfig::default(), LinkConfig::default());
        Self { up, down, tx_ring: 256, tells_ahead: false, rx_ring: usize::MAX, max_frame: 4608 }
    }
}

struct Attached {
    mac: [u8; 6],
    mailbox: Rc<RefCell<Mailbox>>,
    up: Link,
    down: Link,
    tx_ring: usize,
    tells_ahead: bool,
    rx_ring: usize,
}

/// A frame on its way; the heap's greatest is the earliest, and of those the first sent.
struct Event {
    at: Time,
    number: u64,
    from: LinkId,
    frame: Vec<u8>,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

/// The network: frames in flight, and the links that they take.
pub struct Network {
    nodes: Vec<Attached>,
    events: BinaryHeap<Event>,
    number: u64,
    seed: u64,
    hash: TraceHash,
    recorder: Recorder,
    capture: Option<Capture>,
    held: Vec<(LinkId, Vec<u8>)>,
    unroutable: u64,
    rest: Rest,
}

impl Network {
    /// A network without ports; `seed` makes every fault.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            events: BinaryHeap::new(),
            number: 0,
            seed,
            hash: TraceHash::default(),
            recorder: Recorder::default(),
            capture: None,
            held: Vec::new(),
            unroutable: 0,
            rest: Rest::Never,
        }
    }

    /// Attaches a port. Its Ethernet address is 02:00:00:00 and its number from 1 on.
    pub fn add_port(&mut self, options: &PortOptions) -> (NodeId, SimPort) {
        let index = self.nodes.len();
        let [.., high, low] = (index as u64 + 1).to_be_bytes();
        let mac = [2, 0, 0, 0, high, low];
        let mailbox = Rc::new(RefCell::new(Mailbox { room: options.tx_ring, ..Mailbox::default() }));
        let port = SimPort::new(PortCaps { mac, max_frame: options.max_frame }, Rc::clone(&mailbox));
        // Each link draws for itself: traffic of one direction does not change the faults of the
        // other.
        let seed = |side: u64| splitmix64(self.seed ^ splitmix64(2 * index as u64 + side));
        let (up, down) = (Link::new(options.up, seed(0)), Link::new(options.down, seed(1)));
        self.nodes.push(Attached {
            mac,
            mailbox,
            up,
            down,
            tx_ring: options.tx_ring,
            tells_ahead: options.tells_ahead,
            rx_ring: options.rx_ring,
        });
        (NodeId(index), port)
    }

    /// The frames that a node receives from now on are in memory that somebody else writes.
    pub fn scribble(&mut self, node: NodeId, scribbles: Scribbles) {
        self.nodes[node.0].mailbox.borrow_mut().scribbles = Some(scribbles);
    }

    /// Ethernet address of a node.
    #[must_use]
    pub fn mac(&self, node: NodeId) -> [u8; 6] {
        self.nodes[node.0].mac
    }

    /// Configuration of a link, to change it at any time; frames in flight keep theirs.
    pub fn link_mut(&mut self, link: LinkId) -> &mut LinkConfig {
        &mut self.at_mut(link).config
    }

    /// What keeps the switch from looking for frames.
    pub fn set_rest(&mut self, rest: Rest) {
        self.rest = rest;
    }

    /// Replaces the faults of a link.
    pub fn set_faults(&mut self, link: LinkId, faults: Faults) {
        self.link_mut(link).faults = faults;
    }

    /// Replaces the faults of what a node sends and of what it receives.
    pub fn set_faults_of(&mut self, node: NodeId, up: Faults, down: Faults) {
        self.set_faults(LinkId::Up(node), up);
        self.set_faults(LinkId::Down(node), down);
    }

    /// Ends all faults and filters. Frames held back stay held.
    pub fn heal(&mut self) {
        for node in &mut self.nodes {
            for link in [&mut node.up, &mut node.down] {
                link.config.faults = Faults::default();
                link.filter = None;
            }
        }
    }

    /// Lets `filter` judge every frame that enters the link, before its faults; replaces the one
    /// before.
    pub fn set_filter(&mut self, link: LinkId, filter: Filter) {
        self.at_mut(link).filter = Some(filter);
    }

    /// Lets `rewrite` change every frame that enters the link, before its filter sees it; replaces
    /// the one before.
    pub fn set_rewrite(&mut self, link: LinkId, rewrite: Rewrite) {
        self.at_mut(link).rewrite = Some(rewrite);
    }

    /// Takes the filter away.
    pub fn clear_filter(&mut self, link: LinkId) {
        self.at_mut(link).filter = None;
    }

    /// Counters of a link.
    #[must_use]
    pub fn stats(&self, link: LinkId) -> &LinkStats {
        match link {
            LinkId::Up(node) => &self.nodes[node.0].up.stats,
            LinkId::Down(node) => &self.nodes[node.0].down.stats,
        }
    }

    /// Starts [`LinkStats::queue_max`] again.
    pub fn reset_queue_max(&mut self, link: LinkId) {
        self.at_mut(link).stats.queue_max = 0;
    }

    /// Frames whose destination no port has, most of them corrupted.
    #[must_use]
    pub const fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// Hash over every delivered frame with its time and receiver.
    #[must_use]
    pub const fn trace_hash(&self) -> u64 {
        self.hash.value()
    }

    /// The last frames and their fate, one a line.
    #[must_use]
    pub fn recent(&self) -> String {
        self.recorder.to_string()
    }

    /// How many frames [`Network::recent`] reports; 48 unless told otherwise.
    pub fn keep_recent(&mut self, frames_max: usize) {
        self.recorder.keep(frames_max);
    }

    /// Keeps all frames from now on, and what happens to them.
    pub fn capture(&mut self) {
        self.capture = Some(Capture::default());
    }

    /// The capture until now, if [`Network::capture`] began one; it ends with that.
    pub fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take()
    }

    /// When the next frame moves.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.events.peek().map(|event| event.at)
    }

    /// Frames in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.events.len()
    }

    /// Frames that wait to be received at a node.
    #[must_use]
    pub fn waiting(&self, node: NodeId) -> usize {
        self.nodes[node.0].mailbox.borrow().arrived.len()
    }

    /// Moves all frames that are due at `now`.
    pub fn run(&mut self, now: Time) {
        while self.next_event().is_some_and(|at| at <= now) {
            let Some(event) = self.events.pop() else { break };
            match event.from {
                LinkId::Up(sender) => self.switch(event.at, sender, event.frame),
                LinkId::Down(receiver) => self.arrive(event.at, receiver, event.frame),
            }
        }
    }

    /// Takes what a node has sent by `now` and says how much room its ring has. Call before and
    /// after its turn.
    pub fn exchange(&mut self, now: Time, node: NodeId) {
        let mailbox = Rc::clone(&self.nodes[node.0].mailbox);
        let sent = core::mem::take(&mut mailbox.borrow_mut().sent);
        for frame in sent {
            self.enter(now, LinkId::Up(node), frame);
        }
        let attached = &mut self.nodes[node.0];
        let busy = attached.up.queued(now);
        let mut mailbox = mailbox.borrow_mut();
        mailbox.room = attached.tx_ring.saturating_sub(busy);
        mailbox.ahead = attached.tells_ahead.then_some(busy);
    }

    /// Puts a frame on a link as if it came along, filter and faults included.
    pub fn inject(&mut self, now: Time, link: LinkId, frame: Vec<u8>) {
        self.enter(now, link, frame);
    }

    /// Delivers a frame to a node at `at`, past all links.
    pub fn deliver(&mut self, at: Time, node: NodeId, frame: Vec<u8>) {
        self.fly(at, LinkId::Down(node), frame);
    }

    /// Frames that filters hold back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the frames that filters hold back, with the link that each was about to enter.
    pub fn take_held(&mut self) -> Vec<(LinkId, Vec<u8>)> {
        core::mem::take(&mut self.held)
    }

    /// Lets the frames held back go on, past the filters but through queue and faults.
    pub fn release_held(&mut self, now: Time) {
        for (link, frame) in self.take_held() {
            self.carry(now, link, frame, 0);
        }
    }

    /// Returns `true` if the port of a node reports its link as up.
    pub fn set_link_up(&mut self, node: NodeId, up: bool) {
        self.nodes[node.0].mailbox.borrow_mut().link_down = !up;
    }

    fn at_mut(&mut self, link: LinkId) -> &mut Link {
        match link {
            LinkId::Up(node) => &mut self.nodes[node.0].up,
            LinkId::Down(node) => &mut self.nodes[node.0].down,
        }
    }

    fn enter(&mut self, now: Time, id: LinkId, mut frame: Vec<u8>) {
        if let Some(rewrite) = &mut self.at_mut(id).rewrite {
            rewrite(&mut frame);
        }
        if let (Some(capture), LinkId::Up(node)) = (&mut self.capture, id) {
            capture.see(now, node, &frame);
        }
        let link = self.at_mut(id);
        let packet = frame::packet(&frame);
        let passing = Passing { now, number: link.stats.sent, frame: &frame, packet };
        let kind = passing.kind();
        let verdict = link.filter.as_mut().map_or(Verdict::Pass, |filter| filter(&passing));
        link.stats.sent += 1;
        link.stats.sent_by.add(kind);
        match verdict {
            Verdict::Pass => self.carry(now, id, frame, 0),
            Verdict::Delay(ns) => self.carry(now, id, frame, ns),
            Verdict::Duplicate => {
                link.stats.duplicated += 1;
                self.carry(now, id, frame.clone(), 0);
                self.suffer(id, "duplicated", &frame);
                self.carry(now, id, frame, 0);
            }
            Verdict::Drop => {
                link.stats.filtered += 1;
                link.stats.dropped_by.add(kind);
                self.recorder.note(now, id, "filtered", &frame);
                self.suffer(id, "filtered", &frame);
            }
            Verdict::Hold => {
                link.stats.held += 1;
                self.recorder.note(now, id, "held", &frame);
                self.held.push((id, frame));
            }
        }
    }

    fn carry(&mut self, now: Time, id: LinkId, frame: Vec<u8>, delay_ns: u64) {
        let mut flights = Vec::with_capacity(2);
        self.recorder.note(now, id, "", &frame);
        let kept = self.capture.as_ref().map(|_| frame.clone());
        let fate = self.at_mut(id).carry(now, frame, delay_ns, |flight| flights.push(flight));
        self.recorder.amend(fate);
        if let Some(frame) = kept {
            self.suffer(id, fate, &frame);
            if flights.len() > 1 {
                self.suffer(id, "duplicated", &frame);
            }
        }
        for flight in flights {
            self.fly(flight.at, id, flight.frame);
        }
    }

    fn suffer(&mut self, link: LinkId, fate: &'static str, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.suffer(link, fate, frame);
        }
    }

    fn fly(&mut self, at: Time, from: LinkId, frame: Vec<u8>) {
        self.events.push(Event { at, number: self.number, from, frame });
        self.number += 1;
    }

    /// Forwards by destination address; a group address floods to all but the sender.
    fn switch(&mut self, now: Time, sender: NodeId, frame: Vec<u8>) {
        let (look, _) = self.rest.looks(usize::MAX, now);
        if look > now {
            return self.fly(look, LinkId::Up(sender), frame);
        }
        let up = &mut self.nodes[sender.0].up.stats;
        up.delivered += 1;
        up.delivered_bytes += frame.len() as u64;
        let Some(to) = frame.first_chunk::<6>().copied() else {
            self.unroutable += 1;
            return;
        };
        if to[0] & 1 != 0 {
            for other in (0..self.nodes.len()).filter(|other| *other != sender.0) {
                self.enter(now, LinkId::Down(NodeId(other)), frame.clone());
            }
            return;
        }
        match self.nodes.iter().position(|node| node.mac == to) {
            Some(receiver) => self.enter(now, LinkId::Down(NodeId(receiver)), frame),
            None => self.unroutable += 1,
        }
    }

    fn arrive(&mut self, now: Time, receiver: NodeId, frame: Vec<u8>) {
        self.hash.frame(now, receiver.0, &frame);
        if let Some(capture) = &mut self.capture {
            capture.see(now, receiver, &frame);
        }
        let node = &mut self.nodes[receiver.0];
        let mut mailbox = node.mailbox.borrow_mut();
        if mailbox.arrived.len() >= node.rx_ring {
            node.down.stats.missed += 1;
            drop(mailbox);
            self.suffer(LinkId::Down(receiver), "missed", &frame);
            return;
        }
        node.down.stats.delivered += 1;
        node.down.stats.delivered_bytes += frame.len() as u64;
        mailbox.arrived.push_back(frame);
    }
}
