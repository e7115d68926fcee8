//! A run: hosts, links and switches, divided among threads, and the flows between them.
//!
//! Time goes in windows, in which each shard of the network runs by itself: nothing that happens in
//! one reaches another before the next. What two hosts do together, and the order of flows, is
//! settled between windows. Windows do not depend on the number of shards, nor does anything else
//! that a run computes.

mod config;
mod crew;
mod partition;
mod shard;

pub use config::Config;

use crate::clock::Ps;
use crate::host::engine::{End, EngineHost, EngineHostConfig};
use crate::host::{Host, HostConfig, HostError};
use crate::link::{Link, Node};
use crate::switch::SwitchStats;
use crate::workload::{Arrivals, Flow};
use core::cmp::Reverse;
use crew::Crew;
use datapath::queue::WcStatus;
use partition::{Partition, window};
use shard::{Ended, Shard, Start};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

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
    partition: Arc<Partition>,
    shards: Vec<Shard>,
    crew: Crew,
    arrivals: Vec<Arrivals>,
    /// The next flow of each host, and when it begins.
    next: Vec<Option<Flow>>,
    beginning: BinaryHeap<Reverse<(Ps, u32)>>,
    active: Vec<Option<Active>>,
    /// All flows that have begun, or begin in the present window.
    pub flows: Vec<FlowRecord>,
    /// Flows for which a host had no queue pair yet.
    waiting: VecDeque<usize>,
    /// Flows that have ended in the present window.
    ended: Vec<Ended>,
    /// The length of a window.
    window: Ps,
    /// The end of the present window; 0: there was none.
    window_end: Ps,
    unfinished: usize,
}

impl Fabric {
    /// Makes all hosts and links; `arrivals` gives the flows of each host. As many threads let
    /// things happen, from 1 to one a host; what happens does not depend on it.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(
        config: Config,
        threads: usize,
        arrivals: impl FnMut(u32) -> Arrivals,
    ) -> Result<Self, HostError> {
        let (mut links, hosts) = (config.topology.links(), config.topology.hosts());
        if config.loss > 0.0 {
            links.iter_mut().take(hosts as usize).for_each(|link| *link = link.losing(config.loss));
        }
        let partition = Arc::new(Partition::new(&config.topology, &links, threads));
        let shard = |number| Shard::new(number, &config, &links, &partition);
        let mut fabric = Self {
            shards: (0..partition.shards()).map(shard).collect::<Result<_, _>>()?,
            crew: Crew::new(partition.shards() - 1).map_err(HostError::Thread)?,
            partition,
            arrivals: (0..hosts).map(arrivals).collect(),
            next: vec![None; hosts as usize],
            beginning: BinaryHeap::new(),
            active: Vec::new(),
            flows: Vec::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            window: window(&links),
            window_end: Ps(0),
            unfinished: 0,
            config,
        };
        (0..hosts).for_each(|host| fabric.draw_flow(host));
        Ok(fabric)
    }

    /// What the network was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The present: when the last event happened.
    #[must_use]
    pub fn now(&self) -> Ps {
        self.shards.iter().map(|shard| shard.now).max().unwrap_or_default()
    }

    /// Flows that have begun and not ended.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Events that have happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.shards.iter().map(|shard| shard.events).sum()
    }

    /// Turns that hosts have taken.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.shards.iter().map(|shard| shard.turns).sum()
    }

    /// All switches' counters together.
    #[must_use]
    pub fn switch_stats(&self) -> SwitchStats {
        let switches = 0..self.config.topology.switches();
        switches.fold(SwitchStats::default(), |sum, switch| sum + self.stats_of(switch))
    }

    /// The counters of one switch.
    #[must_use]
    pub fn stats_of(&self, switch: u32) -> SwitchStats {
        self.shard(Node::Switch(switch)).stats_of(switch)
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

    /// Packets of data of all flows whose senders know that they have arrived, each once.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let flows = self.flows.iter().zip(&self.active).enumerate();
        let mtu = self.config.host.mtu();
        let of = |(number, (record, active)): (usize, (&FlowRecord, &Option<Active>))| {
            u64::from(self.acknowledged_of(number, record, *active).div_ceil(mtu))
        };
        flows.map(of).sum()
    }

    fn acknowledged_of(&self, number: usize, record: &FlowRecord, active: Option<Active>) -> u32 {
        let host = self.shard(Node::Host(record.from)).host(record.from);
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
        let now = self.now();
        let ends = self.flows.iter().map(|record| record.done.unwrap_or(now));
        let span = ends.max().unwrap_or_default().since(begin).0;
        let hosts = 0..self.config.topology.hosts();
        let busy = hosts.map(|host| self.shard(Node::Host(host)).link(host).busy()).max().unwrap_or(0);
        if span == 0 { 0.0 } else { busy as f64 / span as f64 }
    }

    /// The links.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        let link = |number: u32| {
            let at = |shard: u32| self.shards[shard as usize].link(number);
            let mut link = *at(self.partition.begin(number));
            link.lost = at(self.partition.end(number)).lost;
            link
        };
        (0..self.partition.links()).map(link).collect()
    }

    /// Packets on links and in queues.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shards.iter().map(Shard::in_flight).sum()
    }

    /// The hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.shards.iter().flat_map(Shard::hosts)
    }

    fn shard(&self, node: Node) -> &Shard {
        &self.shards[self.partition.of(node) as usize]
    }

    fn host_mut(&mut self, host: u32) -> &mut Host {
        self.shards[self.partition.of(Node::Host(host)) as usize].host_mut(host)
    }

    /// Lets everything happen until `end`, or until nothing is left; true if something is.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn run(&mut self, end: Ps) -> Result<bool, HostError> {
        loop {
            let next = self.next_at();
            if self.window_end != Ps(0) && next.is_none_or(|next| next >= self.window_end) {
                self.close_window()?;
                continue;
            }
            let Some(next) = next else { return Ok(false) };
            if next > end {
                return Ok(true);
            }
            if self.window_end == Ps(0) {
                self.open_window(next)?;
            }
            // A window that is cut by `end` goes on when it is run again.
            self.crew.run(&mut self.shards, self.window_end.min(end + Ps(1)))?;
            self.hand_over();
            self.note_ends();
        }
    }

    /// When the next event happens, or the next flow begins.
    fn next_at(&self) -> Option<Ps> {
        let flow = self.beginning.peek().map(|Reverse((at, _))| *at);
        self.shards.iter().filter_map(Shard::next_at).chain(flow).min()
    }

    /// The window in which `next` lies begins, and with it the flows of that window: their queue
    /// pairs are connected, and posted to at the time of each.
    fn open_window(&mut self, next: Ps) -> Result<(), HostError> {
        self.window_end = Ps((next.0 / self.window.0 + 1).saturating_mul(self.window.0));
        while let Some(Reverse((at, host))) = self.beginning.peek().copied()
            && at < self.window_end
        {
            self.beginning.pop();
            if let Some(flow) = self.next[host as usize].take() {
                self.flows.push(FlowRecord { from: host, flow, done: None, failed: None });
                self.active.push(None);
                self.unfinished += 1;
                let number = self.flows.len() - 1;
                if !self.start_flow(number, at)? {
                    self.waiting.push_back(number);
                }
            }
            self.draw_flow(host);
        }
        Ok(())
    }

    /// The window ends: queue pairs of flows that have ended are free, and flows that waited for
    /// some begin. Flows are in an order that depends on when and where they ended only.
    fn close_window(&mut self) -> Result<(), HostError> {
        self.shards.iter_mut().for_each(Shard::forget_starts);
        let mut ended = core::mem::take(&mut self.ended);
        ended.sort_unstable_by_key(|ended| (ended.at, ended.host, ended.flow));
        let at = core::mem::take(&mut self.window_end);
        for Ended { flow, .. } in &ended {
            self.release(*flow)?;
        }
        for _ in 0..if ended.is_empty() { 0 } else { self.waiting.len() } {
            let Some(next) = self.waiting.pop_front() else { break };
            if !self.start_flow(next, at)? {
                self.waiting.push_back(next);
            }
        }
        Ok(())
    }

    /// Takes what each shard has for each other one to it.
    fn hand_over(&mut self) {
        for to in 0..self.shards.len() {
            for from in 0..self.shards.len() {
                if let Ok([to, from]) = self.shards.get_disjoint_mut([to, from]) {
                    to.take_mail(from);
                }
            }
        }
    }

    /// Notes which flows have ended, and when. Their queue pairs are in use until the window ends.
    fn note_ends(&mut self) {
        for ended in self.shards.iter_mut().flat_map(|shard| shard.ended.drain(..)) {
            if let Some(record) = self.flows.get_mut(ended.flow) {
                record.done = Some(ended.at);
                record.failed = (ended.status != WcStatus::Success).then_some(ended.status);
                self.unfinished -= 1;
                self.ended.push(ended);
            }
        }
    }

    /// Draws the next flow that a host begins.
    fn draw_flow(&mut self, host: u32) {
        let flow = self.arrivals[host as usize].next();
        self.next[host as usize] = flow;
        if let Some(flow) = flow {
            self.beginning.push(Reverse((flow.at, host)));
        }
    }

    /// Begins to send a flow at `at`; false if a host has no queue pair free.
    fn start_flow(&mut self, number: usize, at: Ps) -> Result<bool, HostError> {
        let FlowRecord { from, flow, .. } = self.flows[number];
        let (active, by) = match self.config.host {
            HostConfig::Model(_) => (Active::Model, None),
            HostConfig::Engine(config) => match self.connect(&config, (from, flow.to))? {
                None => return Ok(false),
                Some((ends, rkey)) => (Active::Pairs(ends), Some((ends[0], rkey))),
            },
        };
        self.active[number] = Some(active);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let start = Start { number, to: flow.to, bytes: flow.bytes, by };
        self.shards[self.partition.of(Node::Host(from)) as usize].start(at, from, start);
        Ok(true)
    }

    fn engine_mut(&mut self, host: u32) -> Option<&mut EngineHost> {
        self.host_mut(host).engine_mut()
    }

    /// Connects a queue pair of each of two hosts; `None` if one has none free. With them comes the
    /// key of the second host's memory.
    fn connect(
        &mut self,
        config: &EngineHostConfig,
        (from, to): (u32, u32),
    ) -> Result<Option<([End; 2], u32)>, HostError> {
        let Some(sender) = self.engine_mut(from).filter(|_| from != to) else { return Ok(None) };
        let Some(here) = sender.take_pair(config)? else { return Ok(None) };
        let Some(receiver) = self.engine_mut(to) else { return Ok(None) };
        let (there, rkey) = (receiver.take_pair(config)?, receiver.rkey());
        let Some(there) = there else {
            self.give_back(here)?;
            return Ok(None);
        };
        for (end, peer) in [(here, there), (there, here)] {
            if let Some(host) = self.engine_mut(end.host) {
                host.connect(config, end, peer)?;
            }
        }
        Ok(Some(([here, there], rkey)))
    }

    /// Ends the use of what a flow had of its hosts.
    fn release(&mut self, number: usize) -> Result<(), HostError> {
        match self.active.get_mut(number).and_then(Option::take) {
            None => Ok(()),
            Some(Active::Pairs(ends)) => ends.into_iter().try_for_each(|end| self.give_back(end)),
            Some(Active::Model) => {
                if let Some((host, _)) = self.host_mut(self.flows[number].flow.to).model_mut() {
                    host.forget(u32::try_from(number).unwrap_or(u32::MAX));
                }
                Ok(())
            }
        }
    }

    fn give_back(&mut self, end: End) -> Result<(), HostError> {
        self.engine_mut(end.host).map_or(Ok(()), |host| host.give_back(end))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::SwitchConfig;
    use crate::topology::{FatTree, Topology};
    use crate::workload::{Sizes, Workload, arrivals};

    fn fabric(threads: usize) -> Fabric {
        let topology = Topology::from(FatTree::of_hosts(64).expect("a size of the figure"));
        let config = Config {
            topology: topology.clone(),
            host: HostConfig::Engine(EngineHostConfig::default()),
            switch: SwitchConfig::DEFAULT,
            loss: 0.0,
            flow_max: Sizes::CACHE_FOLLOWER.largest(),
            seed: 5,
        };
        let workload = [Workload::Poisson { sizes: Sizes::CACHE_FOLLOWER, load: 0.7 }];
        let until = Ps::from_ns(50_000);
        Fabric::new(config, threads, |host| arrivals(&workload, 5, &topology, host, until)).expect("hosts")
    }

    /// A window twice as long as a message takes from one shard to another is refused as soon as a
    /// message arrives in the past. One shard alone has no such messages.
    #[test]
    fn messages_into_the_past_are_refused() {
        let run = |threads, windows| {
            let mut fabric = fabric(threads);
            fabric.window = Ps(fabric.window.0 * windows);
            fabric.run(Ps::from_ns(1_000_000_000))
        };
        assert!(matches!(run(2, 1), Ok(false)));
        assert!(matches!(run(1, 2), Ok(false)));
        assert!(matches!(run(2, 2), Err(HostError::Late { .. })));
    }
}
