//! The fat trees of SRNIC's Figure 12.

use crate::clock::Ps;
use crate::link::{Link, Node};
use crate::topology::{Hop, choose};

/// A fat tree: pods of top-of-rack and aggregation switches, each joined to each, and core switches
/// in as many groups as a pod has aggregation switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Pods.
    pub pods: u32,
    /// Top-of-rack switches of a pod.
    pub racks: u32,
    /// Hosts of a rack.
    pub hosts_per_rack: u32,
    /// Aggregation switches of a pod; 0: a single rack.
    pub aggregations: u32,
    /// Core switches that each aggregation switch is joined to; 0: a single pod.
    pub cores_per_group: u32,
    /// Picoseconds a byte between host and switch.
    pub host_ps_per_byte: u32,
    /// Picoseconds a byte between switches.
    pub fabric_ps_per_byte: u32,
    /// Propagation of every link.
    pub delay: Ps,
}

impl FatTree {
    /// The sizes of SRNIC's Figure 12 (section 6.3): 100 Gb/s hosts, a 400 Gb/s fabric, 1 us a
    /// link.
    #[must_use]
    pub const fn of_hosts(hosts: u32) -> Option<Self> {
        let (pods, racks, hosts_per_rack, aggregations, cores_per_group) = match hosts {
            16 => (1, 1, 16, 0, 0),
            64 => (1, 4, 16, 4, 0),
            256 => (1, 8, 32, 8, 0),
            1024 => (16, 4, 16, 4, 4),
            4096 => (16, 8, 32, 8, 8),
            _ => return None,
        };
        Some(Self {
            pods,
            racks,
            hosts_per_rack,
            aggregations,
            cores_per_group,
            host_ps_per_byte: 80,
            fabric_ps_per_byte: 20,
            delay: Ps::from_ns(1000),
        })
    }

    /// Hosts in all.
    #[must_use]
    pub const fn hosts(&self) -> u32 {
        self.pods * self.racks * self.hosts_per_rack
    }

    const fn rack_switches(&self) -> u32 {
        self.pods * self.racks
    }

    const fn aggregation_switches(&self) -> u32 {
        self.pods * self.aggregations
    }

    /// Switches in all: those of racks first, then aggregation, then core.
    #[must_use]
    pub const fn switches(&self) -> u32 {
        self.rack_switches() + self.aggregation_switches() + self.aggregations * self.cores_per_group
    }

    /// All links. Host `h` sends into link `h`, and receives from link `hosts + h`.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        let (hosts, racks) = (self.hosts(), self.rack_switches());
        let host = |from, to| Link::new(from, to, self.host_ps_per_byte, self.delay);
        let fabric =
            |from, to| Link::new(Node::Switch(from), Node::Switch(to), self.fabric_ps_per_byte, self.delay);
        let rack_of = |host| Node::Switch(host / self.hosts_per_rack);
        let mut links = Vec::new();
        links.extend((0..hosts).map(|number| host(Node::Host(number), rack_of(number))));
        links.extend((0..hosts).map(|number| host(rack_of(number), Node::Host(number))));
        let cores = racks + self.aggregation_switches();
        // From racks up, then from aggregation switches down.
        for rack in 0..racks {
            let first = racks + rack / self.racks * self.aggregations;
            links.extend((0..self.aggregations).map(|up| fabric(rack, first + up)));
        }
        for aggregation in 0..self.aggregation_switches() {
            let first = aggregation / self.aggregations * self.racks;
            links.extend((0..self.racks).map(|down| fabric(racks + aggregation, first + down)));
        }
        // From aggregation switches up, then from cores down.
        for aggregation in 0..self.aggregation_switches() {
            let first = cores + aggregation % self.aggregations * self.cores_per_group;
            links.extend((0..self.cores_per_group).map(|up| fabric(racks + aggregation, first + up)));
        }
        for core in 0..self.aggregations * self.cores_per_group {
            let first = racks + core / self.cores_per_group;
            links.extend((0..self.pods).map(|pod| fabric(cores + core, first + pod * self.aggregations)));
        }
        links
    }

    /// The links from one host to another: those to the hosts are the first and the last.
    #[must_use]
    pub fn path(&self, from: u32, to: u32) -> Vec<Hop> {
        let links = self.links_between(from, to);
        let rate = |link| {
            if link == 0 || link == links - 1 { self.host_ps_per_byte } else { self.fabric_ps_per_byte }
        };
        (0..links).map(|link| Hop { ps_per_byte: rate(link), delay: self.delay }).collect()
    }

    /// Links from one host to another: 2 in a rack, 4 in a pod, else 6.
    #[must_use]
    pub const fn links_between(&self, from: u32, to: u32) -> u32 {
        let (rack, pod) = (self.hosts_per_rack, self.hosts_per_rack * self.racks);
        if from / rack == to / rack {
            2
        } else if from / pod == to / pod {
            4
        } else {
            6
        }
    }

    /// The link into which `switch` sends a packet of `flow` to host `to`.
    #[must_use]
    pub const fn route(&self, switch: u32, to: u32, flow: u32) -> u32 {
        let (hosts, racks) = (self.hosts(), self.rack_switches());
        let (rack, aggregations) = (to / self.hosts_per_rack, self.aggregation_switches());
        let rack_up = 2 * hosts;
        let aggregation_down = rack_up + racks * self.aggregations;
        let aggregation_up = aggregation_down + aggregations * self.racks;
        let core_down = aggregation_up + aggregations * self.cores_per_group;
        if switch < racks {
            if switch == rack {
                return hosts + to;
            }
            return rack_up + switch * self.aggregations + choose(flow, 1, self.aggregations);
        }
        let pod = rack / self.racks;
        let aggregation = switch - racks;
        if aggregation < aggregations {
            if aggregation / self.aggregations == pod {
                return aggregation_down + aggregation * self.racks + rack % self.racks;
            }
            return aggregation_up
                + aggregation * self.cores_per_group
                + choose(flow, 2, self.cores_per_group);
        }
        core_down + (aggregation - aggregations) * self.pods + pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::mix;

    /// Every packet gets to its host, by two, four or six links, whatever its hash.
    #[test]
    fn routes_lead_to_every_host() {
        for hosts in [16, 64, 256, 1024, 4096] {
            let tree = FatTree::of_hosts(hosts).expect("a size of the figure");
            assert_eq!(tree.hosts(), hosts);
            let links = tree.links();
            for number in 0..20_000_u32 {
                let (from, to, flow) = (mix(number) % hosts, mix(!number) % hosts, mix(number ^ 0x5A5A));
                let (mut link, mut hops) = (from, 1);
                while let Node::Switch(switch) = links[link as usize].to {
                    link = tree.route(switch, to, flow);
                    assert_eq!(links[link as usize].from, Node::Switch(switch));
                    hops += 1;
                }
                assert_eq!(links[link as usize].to, Node::Host(to));
                assert_eq!(hops, tree.links_between(from, to), "{from} to {to} of {hosts}");
            }
        }
    }

    /// Flows spread over the ways of each tier as chance would: chi-square over 8 ways, 99.9 % of
    /// all samples are below 24.3. And the ways of two tiers do not depend on each other: 64 pairs,
    /// below 103.4.
    #[test]
    fn flows_spread_over_all_ways() {
        const FLOWS: u32 = 100_000;
        let chi_square = |counts: &[u32]| {
            let expected = f64::from(FLOWS) / counts.len() as f64;
            counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>()
        };
        let (mut first, mut second, mut both) = ([0; 8], [0; 8], [0; 64]);
        for number in 0..FLOWS {
            // Neighbors: hosts and ports that count up.
            let flow = mix(number);
            let (up, core) = (choose(flow, 1, 8) as usize, choose(flow, 2, 8) as usize);
            first[up] += 1;
            second[core] += 1;
            both[8 * up + core] += 1;
        }
        assert!(chi_square(&first) < 24.3, "{first:?}");
        assert!(chi_square(&second) < 24.3, "{second:?}");
        assert!(chi_square(&both) < 103.4, "{both:?}");
    }
}
