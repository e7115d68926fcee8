//! Networks of any shape: packets take all shortest ways, each flow one of them.

use crate::clock::Ps;
use crate::link::{Link, Node};
use crate::topology::{Hop, choose};
use std::collections::{HashSet, VecDeque};

/// A link in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wire {
    /// What it joins.
    pub between: (Node, Node),
    /// Picoseconds a byte.
    pub ps_per_byte: u32,
    /// Time from the last bit sent to its arrival.
    pub delay: Ps,
    /// Part of the frames that are lost, from the first to the second, and the other way.
    pub loss: (f64, f64),
}

/// Why a network cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    /// There is no such host or switch.
    #[error("{name} does not exist: there are {count}, numbered from 0")]
    Absent {
        /// Its name.
        name: Name,
        /// Hosts or switches that there are.
        count: u32,
    },
    /// A host must have one link.
    #[error("host {host} has {links} links; a host needs one, to a switch")]
    HostLinks {
        /// The host.
        host: u32,
        /// Its links.
        links: usize,
    },
    /// Two links join the same nodes.
    #[error("two links join {0} and {1}; give one link their rates together")]
    Twice(Name, Name),
    /// A link joins a node to itself.
    #[error("a link joins {0} to itself")]
    Itself(Name),
    /// A link joins two hosts.
    #[error("a link joins {0} and {1}; between hosts there must be a switch")]
    NoSwitch(Name, Name),
    /// A host cannot be reached.
    #[error("{1} cannot be reached from {0}")]
    Apart(Name, Name),
}

/// A node as messages name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name(pub Node);

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Node::Host(number) => write!(f, "host {number}"),
            Node::Switch(number) => write!(f, "switch {number}"),
        }
    }
}

/// A network by its links.
#[derive(Clone, Debug)]
pub struct Graph {
    hosts: u32,
    switches: u32,
    links: Vec<Link>,
    /// Where the ways of a switch to a host begin in `ways`: by switch, then host; and their end.
    begins: Vec<u32>,
    /// Links.
    ways: Vec<u32>,
}

impl Graph {
    /// A network of these hosts, switches and links.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn new(hosts: u32, switches: u32, wires: &[Wire]) -> Result<Self, GraphError> {
        let links = directed(hosts, switches, wires)?;
        let mut graph = Self { hosts, switches, links, begins: vec![0], ways: Vec::new() };
        let distances: Vec<_> = (0..hosts).map(|host| graph.distances(host)).collect();
        let leaving = graph.leaving();
        for switch in 0..switches {
            for (host, distances) in (0..).zip(&distances) {
                graph.add_ways(&leaving[switch as usize], host, distances);
                if graph.begins.last() == Some(&len(&graph.ways)) {
                    return Err(GraphError::Apart(Name(Node::Switch(switch)), Name(Node::Host(host))));
                }
                graph.begins.push(len(&graph.ways));
            }
        }
        Ok(graph)
    }

    /// Hosts in all.
    #[must_use]
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Switches in all.
    #[must_use]
    pub const fn switches(&self) -> u32 {
        self.switches
    }

    /// All links: those that leave hosts, those that end at hosts, and those between switches.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Links that leave each switch.
    fn leaving(&self) -> Vec<Vec<u32>> {
        let mut leaving = vec![Vec::new(); self.switches as usize];
        for (number, link) in (0..).zip(&self.links) {
            if let Node::Switch(switch) = link.from {
                leaving[switch as usize].push(number);
            }
        }
        leaving
    }

    /// Links from each switch to a host; `u32::MAX`: there is no way.
    fn distances(&self, host: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.switches as usize];
        let mut arriving = vec![Vec::new(); self.switches as usize];
        for link in &self.links {
            if let (Node::Switch(from), Node::Switch(to)) = (link.from, link.to) {
                arriving[to as usize].push(from);
            }
        }
        let mut queue = VecDeque::new();
        if let Node::Switch(first) = self.links[host as usize].to {
            distances[first as usize] = 1;
            queue.push_back(first);
        }
        while let Some(switch) = queue.pop_front() {
            for from in &arriving[switch as usize] {
                if distances[*from as usize] == u32::MAX {
                    distances[*from as usize] = distances[switch as usize] + 1;
                    queue.push_back(*from);
                }
            }
        }
        distances
    }

    /// Of the links that leave a switch, those that lead a link nearer to a host.
    fn add_ways(&mut self, leaving: &[u32], host: u32, distances: &[u32]) {
        for number in leaving {
            let link = &self.links[*number as usize];
            let Node::Switch(from) = link.from else { continue };
            let nearer = match link.to {
                Node::Host(to) => to == host,
                Node::Switch(to) => distances[to as usize] < distances[from as usize],
            };
            if nearer {
                self.ways.push(*number);
            }
        }
    }

    fn ways(&self, switch: u32, to: u32) -> &[u32] {
        let place = (switch * self.hosts + to) as usize;
        &self.ways[self.begins[place] as usize..self.begins[place + 1] as usize]
    }

    /// The link into which `switch` sends a packet of `flow` to host `to`.
    #[must_use]
    pub fn route(&self, switch: u32, to: u32, flow: u32) -> u32 {
        let ways = self.ways(switch, to);
        ways[choose(flow, switch.wrapping_add(1), len(ways)) as usize]
    }

    /// The links from one host to another, by a shortest way.
    #[must_use]
    pub fn path(&self, from: u32, to: u32) -> Vec<Hop> {
        let (mut path, mut link) = (Vec::new(), &self.links[from as usize]);
        loop {
            path.push(Hop { ps_per_byte: link.ps_per_byte, delay: link.delay });
            let Node::Switch(switch) = link.to else { return path };
            link = &self.links[self.ways(switch, to)[0] as usize];
        }
    }
}

/// Both directions of all wires, in the order that [`Graph::links`] promises.
fn directed(hosts: u32, switches: u32, wires: &[Wire]) -> Result<Vec<Link>, GraphError> {
    check(hosts, switches, wires)?;
    let both = wires.iter().flat_map(|wire| {
        let (one, two) = wire.between;
        [(one, two, wire.loss.0), (two, one, wire.loss.1)]
            .map(|(from, to, loss)| Link::new(from, to, wire.ps_per_byte, wire.delay).losing(loss))
    });
    let mut links: Vec<_> = both.collect();
    links.sort_by_key(|link| match (link.from, link.to) {
        (Node::Host(host), _) => (0, host),
        (_, Node::Host(host)) => (1, host),
        _ => (2, 0),
    });
    Ok(links)
}

fn check(hosts: u32, switches: u32, wires: &[Wire]) -> Result<(), GraphError> {
    let (mut of_host, mut seen) = (vec![0; hosts as usize], HashSet::new());
    for Wire { between: (one, two), .. } in wires {
        for node in [*one, *two] {
            let absent = |count| GraphError::Absent { name: Name(node), count };
            match node {
                Node::Host(host) => *of_host.get_mut(host as usize).ok_or_else(|| absent(hosts))? += 1,
                Node::Switch(switch) if switch < switches => {}
                Node::Switch(_) => return Err(absent(switches)),
            }
        }
        if one == two {
            return Err(GraphError::Itself(Name(*one)));
        }
        if matches!((one, two), (Node::Host(_), Node::Host(_))) {
            return Err(GraphError::NoSwitch(Name(*one), Name(*two)));
        }
        if !seen.insert((*one, *two)) || seen.contains(&(*two, *one)) {
            return Err(GraphError::Twice(Name(*one), Name(*two)));
        }
    }
    match of_host.iter().position(|links| *links != 1) {
        Some(host) => {
            let number = u32::try_from(host).unwrap_or(u32::MAX);
            Err(GraphError::HostLinks { host: number, links: of_host[host] })
        }
        None => Ok(()),
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::FatTree;

    fn wire(one: Node, two: Node) -> Wire {
        Wire { between: (one, two), ps_per_byte: 80, delay: Ps::from_ns(1000), loss: (0.0, 0.0) }
    }

    /// A fat tree by its links has the ways that are computed for it.
    #[test]
    fn a_fat_tree_as_a_graph_has_its_ways() {
        let tree =
            FatTree { pods: 3, racks: 2, hosts_per_rack: 2, aggregations: 2, cores_per_group: 2, ..TREE };
        let links = tree.links();
        let once = |link: &&Link| matches!(link.from, Node::Host(_)) || number(link.from) < number(link.to);
        let wires: Vec<_> = links
            .iter()
            .filter(|link| matches!((link.from, link.to), (_, Node::Switch(_))))
            .filter(once)
            .map(|link| Wire { ps_per_byte: link.ps_per_byte, ..wire(link.from, link.to) })
            .collect();
        let graph = Graph::new(tree.hosts(), tree.switches(), &wires).expect("a network");
        assert_eq!(graph.links().len(), links.len());
        for from in 0..tree.hosts() {
            for to in (0..tree.hosts()).filter(|to| *to != from) {
                assert_eq!(graph.path(from, to), tree.path(from, to), "{from} to {to}");
            }
        }
        // Over the other pod's hosts the first switch has two ways, and the next has two.
        let aggregation = tree.pods * tree.racks;
        assert_eq!((graph.ways(0, 11).len(), graph.ways(aggregation, 11).len()), (2, 2));
        assert_eq!((graph.ways(0, 0).len(), graph.ways(aggregation, 0).len()), (1, 1));
    }

    const TREE: FatTree = FatTree::of_hosts(16).expect("a size of the figure");

    fn number(node: Node) -> u32 {
        match node {
            Node::Host(number) | Node::Switch(number) => number,
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        let (host, switch) = (Node::Host, Node::Switch);
        let refused = |hosts, switches, wires: &[(Node, Node)]| {
            let wires: Vec<_> = wires.iter().map(|(one, two)| wire(*one, *two)).collect();
            Graph::new(hosts, switches, &wires).expect_err("refused").to_string()
        };
        assert!(refused(1, 1, &[(host(0), switch(1))]).contains("switch 1 does not exist: there are 1"));
        assert!(refused(1, 1, &[(host(7), switch(0))]).contains("host 7 does not exist: there are 1"));
        assert!(refused(1, 1, &[(switch(0), switch(0))]).contains("switch 0 to itself"));
        assert!(refused(2, 1, &[(host(0), switch(0))]).contains("host 1 has 0 links"));
        assert!(refused(2, 0, &[(host(0), host(1))]).contains("there must be a switch"));
        assert!(refused(1, 1, &[(host(0), switch(0)), (switch(0), host(0))]).contains("two links join"));
        let apart = [(host(0), switch(0)), (host(1), switch(1))];
        assert!(refused(2, 2, &apart).contains("host 1 cannot be reached from switch 0"));
    }
}
