//! Which part of a network each thread has, and how far threads can be apart.

use crate::clock::Ps;
use crate::link::{Link, Node, PAUSE_WIRE_BYTES};
use crate::topology::Topology;
use core::ops::Range;

/// Longest window: flows that wait for a queue pair begin when one ends.
const WINDOW_MAX: Ps = Ps::from_ns(1_000);

/// The length of the windows in which parts of a network run by themselves: what a node does in one
/// reaches no other before the next. It depends on the links alone, not on the number of threads.
///
/// PAUSE frames are the shortest there are, so a link takes at least its delay and the time of one.
#[must_use]
pub fn window(links: &[Link]) -> Ps {
    let least = |link: &Link| link.delay + Ps(PAUSE_WIRE_BYTES * u64::from(link.ps_per_byte));
    links.iter().map(least).min().unwrap_or(WINDOW_MAX).min(WINDOW_MAX)
}

/// The shards of a network, and what belongs to each.
#[derive(Debug)]
pub struct Partition {
    hosts: u32,
    shards: u32,
    /// The shard of each switch.
    switches: Vec<u32>,
    /// The shards in which each link begins and ends.
    links: Vec<[u32; 2]>,
    /// Links that leave each switch.
    ports: Vec<Vec<u32>>,
}

impl Partition {
    /// Divides a network among `shards`; there are at least one, and at most one a host.
    ///
    /// Hosts next to each other are together. A switch is where all its neighbors are, or anywhere
    /// if they are in several shards.
    #[must_use]
    pub fn new(topology: &Topology, links: &[Link], shards: usize) -> Self {
        let hosts = topology.hosts();
        let shards = u32::try_from(shards).unwrap_or(u32::MAX).clamp(1, hosts.max(1));
        let mut ports = vec![Vec::new(); topology.switches() as usize];
        for (number, link) in (0..).zip(links) {
            if let Node::Switch(switch) = link.from {
                ports[switch as usize].push(number);
            }
        }
        let mut all = Self { hosts, shards, switches: Vec::new(), links: Vec::new(), ports };
        for switch in 0..topology.switches() {
            let shard = all.place(switch, links);
            all.switches.push(shard);
        }
        all.links = links.iter().map(|link| [all.of(link.from), all.of(link.to)]).collect();
        all
    }

    /// The shard for a switch, after those of all lower numbers have theirs.
    fn place(&self, switch: u32, links: &[Link]) -> u32 {
        let known = |node: Node| match node {
            Node::Switch(other) => self.switches.get(other as usize).copied(),
            Node::Host(_) => Some(self.of(node)),
        };
        let ports = &self.ports[switch as usize];
        let mut neighbors = ports.iter().filter_map(|port| known(links[*port as usize].to));
        let first = neighbors.next();
        first.filter(|first| neighbors.all(|other| other == *first)).unwrap_or(switch % self.shards)
    }

    /// How many shards.
    #[must_use]
    pub const fn shards(&self) -> u32 {
        self.shards
    }

    /// The shard of a node.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it is below the number of shards")]
    pub fn of(&self, node: Node) -> u32 {
        match node {
            Node::Host(host) => (u64::from(host) * u64::from(self.shards) / u64::from(self.hosts)) as u32,
            Node::Switch(switch) => self.switches[switch as usize],
        }
    }

    /// The hosts of a shard.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it is at most the number of hosts")]
    pub fn hosts(&self, shard: u32) -> Range<u32> {
        let first =
            |shard: u32| (u64::from(shard) * u64::from(self.hosts)).div_ceil(u64::from(self.shards)) as u32;
        first(shard)..first(shard + 1)
    }

    /// How many links there are.
    #[must_use]
    pub fn links(&self) -> u32 {
        u32::try_from(self.links.len()).unwrap_or(u32::MAX)
    }

    /// The shard in which a link begins.
    #[must_use]
    pub fn begin(&self, link: u32) -> u32 {
        self.links[link as usize][0]
    }

    /// The shard in which a link ends.
    #[must_use]
    pub fn end(&self, link: u32) -> u32 {
        self.links[link as usize][1]
    }

    /// Links that leave a switch.
    #[must_use]
    pub fn ports(&self, switch: u32) -> &[u32] {
        &self.ports[switch as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::FatTree;

    /// Every node is in one shard, no shard has much more than its part, and only links between
    /// aggregation and core switches join the shards of a tree of many pods.
    #[test]
    fn pods_are_divided() {
        let topology = Topology::from(FatTree::of_hosts(1024).expect("a size of the figure"));
        let links = topology.links();
        for shards in [1, 2, 3, 4, 16] {
            let partition = Partition::new(&topology, &links, shards);
            assert_eq!(partition.shards() as usize, shards);
            for shard in 0..partition.shards() {
                let hosts = partition.hosts(shard);
                assert!(hosts.len().abs_diff(1024 / shards) <= 1);
                assert!(hosts.clone().all(|host| partition.of(Node::Host(host)) == shard));
            }
            let cut = (0..).zip(&links).filter(|(link, _)| partition.begin(*link) != partition.end(*link));
            let (racks, pods) = (16 * 4, 16 * 8);
            let between = |link: &Link| match (link.from, link.to) {
                (Node::Switch(from), Node::Switch(to)) => from.min(to) >= racks && from.max(to) >= pods,
                _ => false,
            };
            if shards != 3 {
                assert!(cut.into_iter().all(|(_, link)| between(link)), "{shards} shards");
            }
        }
    }

    #[test]
    fn there_are_at_most_as_many_shards_as_hosts() {
        let topology = Topology::from(FatTree::of_hosts(16).expect("a size of the figure"));
        let shards = |shards| Partition::new(&topology, &topology.links(), shards).shards();
        assert_eq!((shards(0), shards(1), shards(16), shards(99)), (1, 1, 16, 16));
    }

    /// A window is no longer than the fastest way over any link, nor than a microsecond.
    #[test]
    fn windows_are_as_long_as_the_shortest_link() {
        let link = |ps_per_byte, ns| Link::new(Node::Host(0), Node::Switch(0), ps_per_byte, Ps::from_ns(ns));
        assert_eq!(window(&[link(80, 300), link(80, 900)]), Ps(300_000 + 84 * 80));
        assert_eq!(window(&[link(20, 5000)]), Ps(1_000_000));
        assert_eq!(window(&[link(20, 0)]), Ps(84 * 20));
    }
}
