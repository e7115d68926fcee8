//! A run: hosts, links and switches, and the loop that lets things happen.

use crate::calendar::{Calendar, Event, Kind};
use crate::clock::Ps;
use crate::host::engine::{End, EngineHostConfig};
use crate::host::{Host, HostConfig, HostError, Next};
use crate::link::{Link, Node};
use crate::memory::SharedMemory;
use crate::packet::WIRE_OVERHEAD;
use crate::packet::mix;
use crate::pfc::Pfc;
use crate::port::Arena;
use crate::switch::{Switch, SwitchConfig, SwitchStats};
use crate::topology::Topology;
use crate::workload::{Arrivals, Flow};
use datapath::queue::WcStatus;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a network is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Hosts, switches and links.
    pub topology: Topology,
    /// The hosts.
    pub host: HostConfig,
    /// The switches.
    pub switch: SwitchConfig,
    /// Part of the frames that are lost on the way from each host, 0 to 1, beside what the links of
    /// the topology lose.
    pub loss: f64,
    /// Bytes of the largest flow.
    pub flow_max: u32,
    /// Everything random.
    pub seed: u64,
}

/// What became of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// Sender.
    pub from: u32,
    /// The flow.
    pub flow: Flow,
    /// When its sender knew that it was complete; `None`: not yet.
    pub done: Option<Ps>,
    /// How its request ended, if not well.
    pub failed: Option<WcStatus>,
}

/// What a flow uses while it is under way.
#[derive(Clone, Copy, Debug)]
enum Active {
    /// A queue pair of each host.
    Pairs([End; 2]),
    /// The receiver's state, which goes by the flow's number.
    Model,
}

impl Active {
    /// The sender's queue pair.
    const fn here(&self) -> Option<End> {
        match self {
            Self::Pairs([here, _]) => Some(*here),
            Self::Model => None,
        }
    }
}

/// A network in virtual time.
pub struct Fabric {
    config: Config,
    calendar: Calendar,
    arena: Option<Box<Arena>>,
    links: Vec<Link>,
    switches: Vec<Switch>,
    /// In a lossless network.
    pfc: Option<Pfc>,
    /// Links that leave each switch.
    ports: Vec<Vec<u32>>,
    hosts: Vec<Host>,
    arrivals: Vec<Arrivals>,
    next: Vec<Option<Flow>>,
    active: Vec<Option<Active>>,
    /// All flows that have begun.
    pub flows: Vec<FlowRecord>,
    /// Flows for which a host had no queue pair yet.
    waiting: VecDeque<usize>,
    now: Ps,
    /// Events that have happened.
    pub events: u64,
    /// Turns that engines have taken.
    pub turns: u64,
    unfinished: usize,
}

impl Fabric {
    /// Makes all hosts and links; `arrivals` gives the flows of each host.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(config: Config, arrivals: impl FnMut(u32) -> Arrivals) -> Result<Self, HostError> {
        let (mut links, hosts) = (config.topology.links(), config.topology.hosts());
        if config.loss > 0.0 {
            links.iter_mut().take(hosts as usize).for_each(|link| *link = link.losing(config.loss));
        }
        let memory = Arc::new(SharedMemory::new(config.host.largest_message(config.flow_max) as usize)?);
        let mut ports = vec![Vec::new(); config.topology.switches() as usize];
        for (number, link) in (0..).zip(&links) {
            if let Node::Switch(switch) = link.from {
                ports[switch as usize].push(number);
            }
        }
        let arrivals: Vec<_> = (0..hosts).map(arrivals).collect();
        let host = |(number, link): (u32, &Link)| {
            Host::new((number, link.ps_per_byte), config.seed, &config.host, &memory)
        };
        let hosts = (0..hosts).zip(&links).map(host).collect::<Result<Vec<_>, _>>()?;
        let frame = config.host.max_frame() as u64 + u64::from(WIRE_OVERHEAD);
        let pfc = config.switch.pfc.map(|pfc| Pfc::new(pfc, &links, ports.len(), frame));
        let mut fabric = Self {
            pfc,
            calendar: Calendar::default(),
            arena: Some(Box::new(Arena::new(config.host.max_frame()))),
            config,
            links,
            switches: vec![Switch::default(); ports.len()],
            ports,
            next: vec![None; hosts.len()],
            hosts,
            arrivals,
            active: Vec::new(),
            flows: Vec::new(),
            waiting: VecDeque::new(),
            now: Ps(0),
            events: 0,
            turns: 0,
            unfinished: 0,
        };
        for host in 0..fabric.config.topology.hosts() {
            fabric.schedule_flow(host);
        }
        Ok(fabric)
    }

    /// What the network was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Ps {
        self.now
    }

    /// Flows that have begun and not ended.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// All switches' counters together.
    #[must_use]
    pub fn switch_stats(&self) -> SwitchStats {
        self.switches.iter().fold(SwitchStats::default(), |sum, switch| sum + switch.stats)
    }

    /// The counters of one switch.
    #[must_use]
    pub fn stats_of(&self, switch: u32) -> SwitchStats {
        self.switches[switch as usize].stats
    }

    /// A number that depends on every flow: who sent what to whom, when it began, when and how it
    /// ended.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.flows
            .iter()
            .fold(Fnv::default(), |hash, FlowRecord { from, flow, done, failed }| {
                let end = done.map_or(u64::MAX, |at| at.0);
                let failed = failed.map_or(0, |status| status as u64);
                hash.add(u64::from(*from) << 32 | u64::from(flow.to))
                    .add(flow.at.0)
                    .add(u64::from(flow.bytes) << 32 | failed)
                    .add(end)
            })
            .0
    }

    /// Bytes of the flows of a workload whose senders know that they have arrived.
    #[must_use]
    pub fn acknowledged(&self, workload: u8) -> u64 {
        let flows = self.flows.iter().zip(&self.active).enumerate();
        let own = flows.filter(|(_, (record, _))| record.flow.workload == workload);
        own.map(|(number, (record, active))| u64::from(self.acknowledged_of(number, record, *active))).sum()
    }

    fn acknowledged_of(&self, number: usize, record: &FlowRecord, active: Option<Active>) -> u32 {
        let host = &self.hosts[record.from as usize];
        match active {
            _ if record.done.is_some() && record.failed.is_none() => record.flow.bytes,
            Some(active) => host.acknowledged(number, active.here()).min(record.flow.bytes),
            None => 0,
        }
    }

    /// The part of the time, from the first flow to the end of the last one (or to now, if one is
    /// under way), in which the busiest host sent.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        let begin = self.flows.iter().map(|record| record.flow.at).min().unwrap_or_default();
        let ends = self.flows.iter().map(|record| record.done.unwrap_or(self.now));
        let span = ends.max().unwrap_or_default().since(begin).0;
        let busy = self.links.iter().take(self.hosts.len()).map(Link::busy).max().unwrap_or(0);
        if span == 0 { 0.0 } else { busy as f64 / span as f64 }
    }

    /// The links.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Packets on links and in queues.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.arena.as_ref().map_or(0, |arena| arena.packets.in_flight())
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Lets everything happen until `end`, or until nothing is left; true if something is.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn run(&mut self, end: Ps) -> Result<bool, HostError> {
        while let Some(event) = self.calendar.pop() {
            if event.at > end {
                self.calendar.push(event);
                return Ok(true);
            }
            self.now = event.at;
            self.events += 1;
            match event.kind() {
                Kind::Arrival => self.arrive(event),
                Kind::Turn if self.hosts[event.entity() as usize].turn_at == event.at => {
                    self.turn(event.entity())?;
                }
                Kind::Turn => {}
                Kind::Flow => self.begin_flow(event.entity())?,
                Kind::Pause => self.pause(event.entity(), event.packet != 0),
                Kind::Departure => self.depart(event.entity()),
            }
        }
        Ok(false)
    }

    fn arrive(&mut self, event: Event) {
        let link = &mut self.links[event.entity() as usize];
        if link.loses(draw(self.config.seed, event.entity(), event.number())) {
            if let Some(arena) = &mut self.arena {
                arena.packets.free(event.packet);
            }
            return;
        }
        match link.to {
            Node::Switch(number) => self.arrive_at_switch(number, event),
            Node::Host(number) => self.arrive_at_host(number, event.packet),
        }
    }

    fn arrive_at_switch(&mut self, number: u32, event: Event) {
        let Some(arena) = &mut self.arena else { return };
        let meta = arena.packets.meta_mut(event.packet);
        let own = if self.config.switch.spray { mix(event.number()) } else { 0 };
        let out = self.config.topology.route(number, meta.to, meta.flow ^ own);
        let switch = &mut self.switches[number as usize];
        let admitted = match &mut self.pfc {
            None => {
                let ports = &self.ports[number as usize];
                switch.admit(&self.config.switch, self.now, (&self.links, ports, out), meta)
            }
            Some(pfc) => {
                meta.ingress = event.entity();
                let verdict = pfc.arrive(number, meta.ingress, meta.wire_bytes());
                if verdict.pause {
                    switch.stats.pauses += 1;
                    tell(self.now, &mut self.links, &mut self.calendar, (pfc, meta.ingress), true);
                }
                verdict.stored
            }
        };
        if admitted {
            switch.pass(&self.config.switch, self.now, &self.links[out as usize], meta);
            self.send(out, event.packet);
        } else {
            switch.stats.dropped += 1;
            arena.packets.free(event.packet);
        }
    }

    fn arrive_at_host(&mut self, number: u32, packet: u32) {
        let Some(arena) = &mut self.arena else { return };
        let host = &mut self.hosts[number as usize];
        host.receive(self.now, &mut arena.packets, packet);
        let at = self.now.max(host.busy_until);
        self.schedule_turn(number, at);
    }

    /// Sends a packet behind what waits before a link. If links can be paused, when it leaves is
    /// not known yet.
    fn send(&mut self, number: u32, packet: u32) {
        let Some(arena) = &mut self.arena else { return };
        let link = &mut self.links[number as usize];
        if self.pfc.is_some() {
            link.enqueue(&mut arena.packets, packet);
            self.start(number);
        } else {
            let len = arena.packets.meta(packet).len;
            self.calendar.push(link.send(self.now, number, packet, len));
        }
    }

    fn start(&mut self, number: u32) {
        let Some(arena) = &self.arena else { return };
        let events = self.links[number as usize].start(self.now, number, &arena.packets);
        events.into_iter().flatten().for_each(|event| self.calendar.push(event));
    }

    /// A frame has left a link, and the memory of the switch that it begins at.
    fn depart(&mut self, number: u32) {
        let link = &mut self.links[number as usize];
        let (left, from) = (link.departed(), link.from);
        if let (Some(left), Node::Switch(switch), Some(pfc)) = (left, from, &mut self.pfc)
            && pfc.leave(switch, left.ingress, left.wire_bytes)
        {
            tell(self.now, &mut self.links, &mut self.calendar, (pfc, left.ingress), false);
        }
        self.start(number);
    }

    /// A link is told to pause, or to go on.
    fn pause(&mut self, number: u32, pause: bool) {
        let link = &mut self.links[number as usize];
        link.pause(pause);
        let from = link.from;
        self.start(number);
        if let (false, Node::Host(host)) = (pause, from)
            && self.hosts[host as usize].next() == Next::Room
        {
            let at = self.now.max(self.hosts[host as usize].busy_until);
            self.schedule_turn(host, at);
        }
    }

    /// The host's next turn is at `at`, if none is earlier.
    fn schedule_turn(&mut self, number: u32, at: Ps) {
        let host = &mut self.hosts[number as usize];
        if at < host.turn_at {
            host.turn_at = at;
            self.calendar.push(Event::new(at, Kind::Turn, number, 0, 0));
        }
    }

    fn turn(&mut self, number: u32) -> Result<(), HostError> {
        let host = &mut self.hosts[number as usize];
        host.turn_at = Ps::NEVER;
        let Some(arena) = self.arena.take() else { return Ok(()) };
        let link = &self.links[number as usize];
        let frame = self.config.host.max_frame() as u64;
        let queued = link.backlog(self.now).div_ceil(frame);
        let room = self.config.host.ring().saturating_sub(u32::try_from(queued).unwrap_or(u32::MAX));
        self.turns += 1;
        let Some(mut arena) = host.turn(self.now, arena, room) else { return Ok(()) };
        let mut sent = core::mem::take(&mut arena.sent);
        self.arena = Some(arena);
        sent.drain(..).for_each(|packet| self.send(number, packet));
        if let Some(arena) = &mut self.arena {
            arena.sent = sent;
        }
        let (host, link) = (&mut self.hosts[number as usize], &self.links[number as usize]);
        host.busy_until = self.now + self.config.host.turn();
        let next = match host.next() {
            Next::Soon => Some(host.busy_until),
            // It is told when the link goes on.
            Next::Room if link.is_paused() => None,
            Next::Room => {
                // Half of the ring is free then.
                let half = u64::from(self.config.host.ring() / 2) * frame * u64::from(link.ps_per_byte);
                Some(host.busy_until.max(Ps(link.idle_at().0.saturating_sub(half))))
            }
            Next::At(at) => (at != Ps::NEVER).then(|| at.max(host.busy_until)),
        };
        if let Some(next) = next {
            self.schedule_turn(number, next);
        }
        while let Some((flow, status)) = self.hosts[number as usize].poll()? {
            self.end_flow(flow, status)?;
        }
        Ok(())
    }

    fn schedule_flow(&mut self, host: u32) {
        let flow = self.arrivals[host as usize].next();
        self.next[host as usize] = flow;
        if let Some(flow) = flow {
            self.calendar.push(Event::new(flow.at, Kind::Flow, host, 0, 0));
        }
    }

    fn begin_flow(&mut self, host: u32) -> Result<(), HostError> {
        if let Some(flow) = self.next[host as usize].take() {
            self.flows.push(FlowRecord { from: host, flow, done: None, failed: None });
            self.active.push(None);
            self.unfinished += 1;
            let number = self.flows.len() - 1;
            if !self.start_flow(number)? {
                self.waiting.push_back(number);
            }
        }
        self.schedule_flow(host);
        Ok(())
    }

    /// Begins to send a flow; false if a host has no queue pair free.
    fn start_flow(&mut self, number: usize) -> Result<bool, HostError> {
        let FlowRecord { from, flow, .. } = self.flows[number];
        self.active[number] = match self.config.host {
            HostConfig::Engine(config) => self.connect(&config, number)?.map(Active::Pairs),
            HostConfig::Model(_) => {
                if let Some((host, config)) = self.hosts[from as usize].model_mut() {
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    host.send(config, self.now, (number, flow.to, flow.bytes));
                }
                Some(Active::Model)
            }
        };
        if self.active[number].is_none() {
            return Ok(false);
        }
        let at = self.now.max(self.hosts[from as usize].busy_until);
        self.schedule_turn(from, at);
        Ok(true)
    }

    /// Connects two queue pairs and posts the flow; `None` if a host has none free.
    fn connect(&mut self, config: &EngineHostConfig, number: usize) -> Result<Option<[End; 2]>, HostError> {
        let FlowRecord { from, flow, .. } = self.flows[number];
        let [from, to] = [from as usize, flow.to as usize];
        let Ok([sender, receiver]) = self.hosts.get_disjoint_mut([from, to]) else { return Ok(None) };
        let (Some(sender), Some(receiver)) = (sender.engine_mut(), receiver.engine_mut()) else {
            return Ok(None);
        };
        let Some(here) = sender.take_pair(config)? else { return Ok(None) };
        let Some(there) = receiver.take_pair(config)? else {
            sender.give_back(here)?;
            return Ok(None);
        };
        sender.connect(config, here, there)?;
        receiver.connect(config, there, here)?;
        sender.send(config, here, (number as u64, flow.bytes), receiver.rkey())?;
        Ok(Some([here, there]))
    }

    fn end_flow(&mut self, number: usize, status: WcStatus) -> Result<(), HostError> {
        let Some(active) = self.active.get_mut(number).and_then(Option::take) else { return Ok(()) };
        let record = &mut self.flows[number];
        record.done = Some(self.now);
        record.failed = (status != WcStatus::Success).then_some(status);
        self.unfinished -= 1;
        let receiver = &mut self.hosts[record.flow.to as usize];
        match (active, receiver.model_mut()) {
            (Active::Model, Some((host, _))) => host.forget(u32::try_from(number).unwrap_or(u32::MAX)),
            (Active::Pairs(ends), _) => self.disconnect(ends)?,
            _ => {}
        }
        for _ in 0..self.waiting.len() {
            let Some(next) = self.waiting.pop_front() else { break };
            if !self.start_flow(next)? {
                self.waiting.push_back(next);
            }
        }
        Ok(())
    }

    fn disconnect(&mut self, ends: [End; 2]) -> Result<(), HostError> {
        for end in ends {
            if let Some(host) = self.hosts[end.host as usize].engine_mut() {
                host.give_back(end)?;
            }
        }
        Ok(())
    }
}

/// Tells a link to pause, or to go on, by a frame on the link back.
fn tell(now: Ps, links: &mut [Link], calendar: &mut Calendar, (pfc, link): (&Pfc, u32), pause: bool) {
    let at = links[pfc.back(link) as usize].send_pause(now);
    calendar.push(Event::new(at, Kind::Pause, link, 0, pause.into()));
}

/// A random number for a frame of a link.
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
const fn draw(seed: u64, link: u32, frame: u32) -> u32 {
    mix(mix(mix(seed as u32 ^ mix((seed >> 32) as u32)) ^ link) ^ frame)
}

/// FNV-1a over words: the same in every build, and everywhere.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    fn add(self, word: u64) -> Self {
        let bytes = word.to_le_bytes();
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)))
    }
}
