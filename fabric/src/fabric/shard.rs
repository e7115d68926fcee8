//! A part of a network: what happens in it until the next window.

use super::config::Config;
use super::partition::Partition;
use crate::calendar::{Calendar, Event, Kind};
use crate::clock::Ps;
use crate::host::engine::End;
use crate::host::{Host, HostConfig, HostError, Next};
use crate::link::{Link, Node};
use crate::memory::SharedMemory;
use crate::packet::{Meta, Parcel, WIRE_OVERHEAD, mix};
use crate::pfc::Pfc;
use crate::port::Arena;
use crate::switch::{Switch, SwitchStats};
use datapath::prefetch;
use datapath::queue::WcStatus;
use std::sync::Arc;

/// How many events before its own a link or host is fetched into the caches, and how many before
/// it what those lead to. With thousands of hosts each event would wait for memory otherwise.
mod ahead {
    pub const FIRST: usize = 12;
    pub const SECOND: usize = 5;
}

/// A flow that begins in the present window.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Its number.
    pub number: u32,
    /// The host that it goes to.
    pub to: u32,
    /// Its length.
    pub bytes: u32,
    /// Of hosts with an engine: the sender's queue pair, and the key of the receiver's memory.
    pub by: Option<(End, u32)>,
}

/// A flow of which its sender knows that it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// When.
    pub at: Ps,
    /// The sender.
    pub host: u32,
    /// The flow's number.
    pub flow: usize,
    /// How.
    pub status: WcStatus,
}

/// What one shard tells another: an event, and the packet that arrives by it.
#[derive(Clone, Copy, Debug)]
struct Message {
    event: Event,
    parcel: Option<Parcel>,
}

/// Messages from one shard to another.
#[derive(Debug, Default)]
pub struct Mail(Vec<Message>);

/// Hosts and switches, and the links that begin at them.
pub struct Shard {
    number: u32,
    config: Config,
    partition: Arc<Partition>,
    calendar: Calendar,
    arena: Option<Box<Arena>>,
    /// All links of the network. A shard changes what is of the sender of those that begin in it,
    /// and what is of the receiver of those that end in it.
    links: Vec<Link>,
    /// All switches of the network, of which those of other shards are unused.
    switches: Vec<Switch>,
    /// In a lossless network.
    pfc: Option<Pfc>,
    hosts: Vec<Host>,
    first_host: u32,
    /// Flows that begin in the present window.
    starts: Vec<Start>,
    /// Flows that have ended since somebody looked.
    pub ended: Vec<Ended>,
    /// To each shard.
    outgoing: Vec<Mail>,
    /// From each shard.
    incoming: Vec<Mail>,
    /// The earliest event in `incoming`.
    expected: Ps,
    /// When the last event happened.
    pub now: Ps,
    /// All before has happened.
    until: Ps,
    /// Events that have happened.
    pub events: u64,
    /// Turns that hosts have taken.
    pub turns: u64,
}

impl core::fmt::Debug for Shard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { number, now, events, .. } = self;
        write!(f, "Shard {{ number: {number}, now: {now:?}, events: {events}, .. }}")
    }
}

impl Shard {
    /// Shard `number` of a network with `links`.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(
        number: u32,
        config: &Config,
        links: &[Link],
        partition: &Arc<Partition>,
    ) -> Result<Self, HostError> {
        // Each has memory of its own: processors would otherwise take its lines from each other.
        let memory = Arc::new(SharedMemory::new(config.host.largest_message(config.flow_max) as usize)?);
        let hosts = partition.hosts(number);
        let first_host = hosts.start;
        let host = |number: u32| {
            Host::new((number, links[number as usize].ps_per_byte), config.seed, &config.host, &memory)
        };
        let frame = config.host.max_frame() as u64 + u64::from(WIRE_OVERHEAD);
        let switches = config.topology.switches() as usize;
        let mail = || (0..partition.shards()).map(|_| Mail::default()).collect();
        Ok(Self {
            number,
            partition: Arc::clone(partition),
            calendar: Calendar::default(),
            arena: Some(Box::new(Arena::new(config.host.max_frame()))),
            links: links.to_vec(),
            switches: vec![Switch::default(); switches],
            pfc: config.switch.pfc.map(|pfc| Pfc::new(pfc, links, switches, frame)),
            hosts: hosts.map(host).collect::<Result<_, _>>()?,
            config: config.clone(),
            first_host,
            starts: Vec::new(),
            ended: Vec::new(),
            outgoing: mail(),
            incoming: mail(),
            expected: Ps::NEVER,
            now: Ps(0),
            until: Ps(0),
            events: 0,
            turns: 0,
        })
    }

    /// Its hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One of its hosts, by its number in the network.
    #[must_use]
    pub fn host(&self, number: u32) -> &Host {
        &self.hosts[(number - self.first_host) as usize]
    }

    /// One of its hosts, by its number in the network.
    pub fn host_mut(&mut self, number: u32) -> &mut Host {
        &mut self.hosts[(number - self.first_host) as usize]
    }

    /// A link that begins here, but for what its receiver counts.
    #[must_use]
    pub fn link(&self, number: u32) -> &Link {
        &self.links[number as usize]
    }

    /// A switch's counters: zeros if it is not here.
    #[must_use]
    pub fn stats_of(&self, switch: u32) -> SwitchStats {
        self.switches[switch as usize].stats
    }

    /// Packets on its links and in its queues, and those that come from other shards.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let coming: usize = self.incoming.iter().map(Mail::packets).sum();
        coming + self.arena.as_ref().map_or(0, |arena| arena.packets.in_flight())
    }

    /// When the next event happens, if there is one.
    #[must_use]
    pub fn next_at(&self) -> Option<Ps> {
        let expected = (self.expected != Ps::NEVER).then_some(self.expected);
        self.calendar.next_at().into_iter().chain(expected).min()
    }

    /// A flow of one of its hosts begins at `at`, in the window to come.
    pub fn start(&mut self, at: Ps, host: u32, start: Start) {
        let place = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        self.starts.push(start);
        self.calendar.push(Event::new(at, Kind::Flow, host, start.number, place));
    }

    /// The window ends: all flows that were to begin in it have begun.
    pub fn forget_starts(&mut self) {
        self.starts.clear();
    }

    /// Hands over what `from` has for another shard.
    pub fn take_mail(&mut self, from: &mut Self) {
        let mail = &mut from.outgoing[self.number as usize];
        let first = mail.0.iter().map(|message| message.event.at).min();
        self.expected = first.map_or(self.expected, |first| first.min(self.expected));
        core::mem::swap(mail, &mut self.incoming[from.number as usize]);
    }

    /// Lets everything happen that comes before `until`.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn run(&mut self, until: Ps) -> Result<(), HostError> {
        self.deliver()?;
        while let Some(event) = self.calendar.pop_before(until) {
            self.prefetch();
            self.now = event.at;
            self.events += 1;
            match event.kind() {
                Kind::Arrival => self.arrive(event),
                Kind::Turn if self.host(event.entity()).turn_at == event.at => self.turn(event.entity())?,
                Kind::Turn => {}
                Kind::Flow => self.begin_flow(event)?,
                Kind::Pause => self.pause(event.entity(), event.packet != 0),
                Kind::Departure => self.depart(event.entity()),
            }
        }
        self.until = until;
        Ok(())
    }

    /// Starts to fetch what the events to come need.
    fn prefetch(&self) {
        let Some(arena) = &self.arena else { return };
        if let Some(event) = self.calendar.ahead(ahead::FIRST) {
            match event.kind() {
                Kind::Arrival => {
                    prefetch::read_all(&self.links[event.entity() as usize]);
                    arena.packets.prefetch_meta(event.packet);
                }
                Kind::Departure | Kind::Pause => {
                    prefetch::read_all(&self.links[event.entity() as usize]);
                }
                Kind::Turn | Kind::Flow => prefetch::read_all(self.host(event.entity())),
            }
        }
        let Some(event) = self.calendar.ahead(ahead::SECOND) else { return };
        match (event.kind(), self.links[event.entity() as usize].to) {
            (Kind::Turn, _) => self.host(event.entity()).prefetch(&arena.packets),
            (Kind::Arrival, Node::Host(host)) => prefetch::read_all(self.host(host)),
            (Kind::Arrival, Node::Switch(switch)) => {
                let out = self.route(switch, event, arena.packets.meta(event.packet));
                prefetch::read_all(&self.links[out as usize]);
            }
            _ => {}
        }
    }

    /// The link into which a switch sends the packet of an arrival.
    fn route(&self, switch: u32, arrival: Event, meta: &Meta) -> u32 {
        let own = if self.config.switch.spray { mix(arrival.number()) } else { 0 };
        self.config.topology.route(switch, meta.to, meta.flow ^ own)
    }

    /// Takes what has come from other shards.
    fn deliver(&mut self) -> Result<(), HostError> {
        let Some(arena) = &mut self.arena else { return Ok(()) };
        for Message { mut event, parcel } in self.incoming.iter_mut().flat_map(|mail| mail.0.drain(..)) {
            if event.at < self.until {
                return Err(HostError::Late { at: event.at, until: self.until });
            }
            if let Some(parcel) = parcel {
                event.packet = arena.packets.unpack(parcel);
            }
            self.calendar.push(event);
        }
        self.expected = Ps::NEVER;
        Ok(())
    }

    /// An event to come: here, or in the shard of the node that it happens to.
    fn schedule(&mut self, event: Event) {
        let shard = match event.kind() {
            Kind::Arrival => self.partition.end(event.entity()),
            Kind::Pause => self.partition.begin(event.entity()),
            _ => self.number,
        };
        if shard == self.number {
            self.calendar.push(event);
            return;
        }
        let Some(arena) = &mut self.arena else { return };
        let parcel = (event.kind() == Kind::Arrival).then(|| arena.packets.pack(event.packet));
        self.outgoing[shard as usize].0.push(Message { event, parcel });
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
        let Some(out) =
            self.arena.as_ref().map(|arena| self.route(number, event, arena.packets.meta(event.packet)))
        else {
            return;
        };
        let Some(arena) = &mut self.arena else { return };
        let meta = arena.packets.meta_mut(event.packet);
        let switch = &mut self.switches[number as usize];
        let mut pause = None;
        let admitted = match &mut self.pfc {
            None => {
                let ports = self.partition.ports(number);
                switch.admit(&self.config.switch, self.now, (&self.links, ports, out), meta)
            }
            Some(pfc) => {
                meta.ingress = event.entity();
                let verdict = pfc.arrive(number, meta.ingress, meta.wire_bytes());
                if verdict.pause {
                    switch.stats.pauses += 1;
                    pause = Some(tell(self.now, &mut self.links, (pfc, meta.ingress), true));
                }
                verdict.stored
            }
        };
        if admitted {
            switch.pass(&self.config.switch, self.now, &self.links[out as usize], meta);
        } else {
            switch.stats.dropped += 1;
            arena.packets.free(event.packet);
        }
        if let Some(pause) = pause {
            self.schedule(pause);
        }
        if admitted {
            self.send(out, event.packet);
        }
    }

    fn arrive_at_host(&mut self, number: u32, packet: u32) {
        let Some(arena) = &mut self.arena else { return };
        let host = &mut self.hosts[(number - self.first_host) as usize];
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
            self.start_link(number);
        } else {
            let len = arena.packets.meta(packet).len;
            let event = link.send(self.now, number, packet, len);
            self.schedule(event);
        }
    }

    fn start_link(&mut self, number: u32) {
        let Some(arena) = &self.arena else { return };
        let events = self.links[number as usize].start(self.now, number, &arena.packets);
        events.into_iter().flatten().for_each(|event| self.schedule(event));
    }

    /// A frame has left a link, and the memory of the switch that it begins at.
    fn depart(&mut self, number: u32) {
        let link = &mut self.links[number as usize];
        let (left, from) = (link.departed(), link.from);
        if let (Some(left), Node::Switch(switch), Some(pfc)) = (left, from, &mut self.pfc)
            && pfc.leave(switch, left.ingress, left.wire_bytes)
        {
            let goes_on = tell(self.now, &mut self.links, (pfc, left.ingress), false);
            self.schedule(goes_on);
        }
        self.start_link(number);
    }

    /// A link is told to pause, or to go on.
    fn pause(&mut self, number: u32, pause: bool) {
        let link = &mut self.links[number as usize];
        link.pause(pause);
        let from = link.from;
        self.start_link(number);
        if let (false, Node::Host(number)) = (pause, from) {
            let host = self.host(number);
            if host.next() == Next::Room {
                let at = self.now.max(host.busy_until);
                self.schedule_turn(number, at);
            }
        }
    }

    /// The host's next turn is at `at`, if none is earlier.
    fn schedule_turn(&mut self, number: u32, at: Ps) {
        let host = self.host_mut(number);
        if at < host.turn_at {
            host.turn_at = at;
            self.calendar.push(Event::new(at, Kind::Turn, number, 0, 0));
        }
    }

    fn turn(&mut self, number: u32) -> Result<(), HostError> {
        let Some(arena) = self.arena.take() else { return Ok(()) };
        let link = &self.links[number as usize];
        let frame = self.config.host.max_frame() as u64;
        let queued = link.backlog(self.now).div_ceil(frame);
        let room = self.config.host.ring().saturating_sub(u32::try_from(queued).unwrap_or(u32::MAX));
        self.turns += 1;
        let now = self.now;
        let host = self.host_mut(number);
        host.turn_at = Ps::NEVER;
        let Some(mut arena) = host.turn(now, arena, room) else { return Ok(()) };
        let mut sent = core::mem::take(&mut arena.sent);
        self.arena = Some(arena);
        sent.drain(..).for_each(|packet| self.send(number, packet));
        if let Some(arena) = &mut self.arena {
            arena.sent = sent;
        }
        let (ring, turn) = (self.config.host.ring(), self.config.host.turn());
        let host = &mut self.hosts[(number - self.first_host) as usize];
        let link = &self.links[number as usize];
        host.busy_until = self.now + turn;
        let next = match host.next() {
            Next::Soon => Some(host.busy_until),
            // It is told when the link goes on.
            Next::Room if link.is_paused() => None,
            Next::Room => {
                // Half of the ring is free then.
                let half = u64::from(ring / 2) * frame * u64::from(link.ps_per_byte);
                Some(host.busy_until.max(Ps(link.idle_at().0.saturating_sub(half))))
            }
            Next::At(at) => (at != Ps::NEVER).then(|| at.max(host.busy_until)),
        };
        if let Some(next) = next {
            self.schedule_turn(number, next);
        }
        while let Some((flow, status)) = self.host_mut(number).poll()? {
            self.ended.push(Ended { at: self.now, host: number, flow, status });
        }
        Ok(())
    }

    /// A host posts a flow.
    fn begin_flow(&mut self, event: Event) -> Result<(), HostError> {
        let Start { number, to, bytes, by } = self.starts[event.packet as usize];
        let now = self.now;
        let host = &mut self.hosts[(event.entity() - self.first_host) as usize];
        if let (HostConfig::Engine(config), Some(engine), Some((end, rkey))) =
            (&self.config.host, host.engine_mut(), by)
        {
            engine.send(config, end, (number.into(), bytes), rkey)?;
        } else if let Some((model, config)) = host.model_mut() {
            model.send(config, now, (number, to, bytes));
        }
        let at = now.max(host.busy_until);
        self.schedule_turn(event.entity(), at);
        Ok(())
    }
}

impl Mail {
    fn packets(&self) -> usize {
        self.0.iter().filter(|message| message.parcel.is_some()).count()
    }
}

/// Tells a link to pause, or to go on, by a frame on the link back; the event of its arrival.
fn tell(now: Ps, links: &mut [Link], (pfc, link): (&Pfc, u32), pause: bool) -> Event {
    let at = links[pfc.back(link) as usize].send_pause(now);
    Event::new(at, Kind::Pause, link, 0, pause.into())
}

/// A random number for a frame of a link.
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
const fn draw(seed: u64, link: u32, frame: u32) -> u32 {
    mix(mix(mix(seed as u32 ^ mix((seed >> 32) as u32)) ^ link) ^ frame)
}
