//! The part of a file that says which hosts, switches and links there are.

use super::{FileError, nanoseconds, small, within};
use crate::clock::Ps;
use crate::limits;
use crate::link::Node;
use crate::topology::{FatTree, Graph, Topology, Wire};
use serde::Deserialize;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    hosts: Option<u32>,
    switches: Option<u32>,
    #[serde(default)]
    links: Vec<LinkFile>,
    pods: Option<u32>,
    racks: Option<u32>,
    hosts_per_rack: Option<u32>,
    aggregations: Option<u32>,
    cores_per_group: Option<u32>,
    host_gbps: Option<f64>,
    fabric_gbps: Option<f64>,
    delay_ns: Option<u64>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    between: [String; 2],
    gbps: f64,
    delay_ns: u64,
    /// From the first to the second.
    #[serde(default)]
    loss: f64,
    /// From the second to the first.
    #[serde(default)]
    loss_back: f64,
}

impl TopologyFile {
    pub fn topology(&self) -> Result<Topology, FileError> {
        let shape = [self.pods, self.racks, self.hosts_per_rack, self.aggregations, self.cores_per_group];
        match (self.hosts, self.switches) {
            (Some(hosts), None) if shape == [None; 5] && self.links.is_empty() => self.figure(hosts),
            (Some(hosts), Some(switches)) if shape == [None; 5] => self.graph(hosts, switches),
            (None, None) if self.links.is_empty() => self.fat_tree(),
            _ => Err(FileError::Topology),
        }
    }

    /// The rates and delays of a tree, if the file has any.
    fn paced(&self, tree: FatTree) -> Result<Topology, FileError> {
        let rate = |gbps: Option<f64>, else_| gbps.map_or(Ok(else_), ps_per_byte);
        Ok(Topology::FatTree(FatTree {
            host_ps_per_byte: rate(self.host_gbps, tree.host_ps_per_byte)?,
            fabric_ps_per_byte: rate(self.fabric_gbps, tree.fabric_ps_per_byte)?,
            delay: nanoseconds("delay_ns", self.delay_ns)?.unwrap_or(tree.delay),
            ..tree
        }))
    }

    fn figure(&self, hosts: u32) -> Result<Topology, FileError> {
        self.paced(FatTree::of_hosts(hosts).ok_or(FileError::Topology)?)
    }

    fn fat_tree(&self) -> Result<Topology, FileError> {
        let needed = |number: Option<u32>| {
            let what = "each of pods, racks, hosts_per_rack, aggregations and cores_per_group";
            small(what, number.ok_or(FileError::Topology)?, limits::NODES)
        };
        let tree = FatTree {
            pods: needed(self.pods)?,
            racks: needed(self.racks)?,
            hosts_per_rack: needed(self.hosts_per_rack)?,
            aggregations: needed(self.aggregations)?,
            cores_per_group: needed(self.cores_per_group)?,
            ..FatTree::of_hosts(16).ok_or(FileError::Topology)?
        };
        let [pods, racks, each] = [tree.pods, tree.racks, tree.hosts_per_rack].map(u64::from);
        within("hosts", pods * racks * each, limits::NODES)?;
        let joined = (tree.aggregations > 0 || tree.racks * tree.pods == 1)
            && (tree.cores_per_group > 0 || tree.pods == 1);
        if joined && tree.hosts() > 0 { self.paced(tree) } else { Err(FileError::Topology) }
    }

    fn graph(&self, hosts: u32, switches: u32) -> Result<Topology, FileError> {
        small("hosts", hosts, limits::NODES)?;
        small("switches", switches, limits::NODES)?;
        if self.host_gbps.is_some() || self.fabric_gbps.is_some() || self.delay_ns.is_some() {
            return Err(FileError::OfTrees);
        }
        let mut wires = Vec::new();
        for link in &self.links {
            link.add_wires(&mut wires)?;
        }
        Ok(Graph::new(hosts, switches, &wires)?.into())
    }
}

impl LinkFile {
    fn add_wires(&self, wires: &mut Vec<Wire>) -> Result<(), FileError> {
        let [ones, twos] = [ends(&self.between[0])?, ends(&self.between[1])?];
        for loss in [self.loss, self.loss_back] {
            if !(0.0..1.0).contains(&loss) {
                return Err(FileError::Part { what: "loss", part: loss });
            }
        }
        let delay = Ps::from_ns(within("delay_ns", self.delay_ns, limits::DELAY_NS)?);
        let ps_per_byte = ps_per_byte(self.gbps)?;
        let loss = (self.loss, self.loss_back);
        for one in &ones {
            wires.extend(twos.iter().map(|two| Wire { between: (*one, *two), ps_per_byte, delay, loss }));
        }
        Ok(())
    }
}

/// The hosts or switches that a word such as `h3`, `s0` or `h0-59` names.
fn ends(word: &str) -> Result<Vec<Node>, FileError> {
    let wrong = || FileError::End(word.to_owned());
    let (kind, numbers): (fn(u32) -> Node, _) = match (word.strip_prefix('h'), word.strip_prefix('s')) {
        (Some(numbers), _) => (Node::Host, numbers),
        (_, Some(numbers)) => (Node::Switch, numbers),
        _ => return Err(wrong()),
    };
    let number = |digits: &str| digits.parse::<u16>().map_err(|_| wrong());
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (first, last) = (number(first)?, number(last)?);
    if first > last { Err(wrong()) } else { Ok((first..=last).map(|number| kind(number.into())).collect()) }
}

/// Picoseconds that a byte takes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
fn ps_per_byte(gbps: f64) -> Result<u32, FileError> {
    let ps = 8000.0 / gbps;
    if (1.0..=8e6).contains(&ps) && (ps - ps.round()).abs() < 1e-9 {
        Ok(ps.round() as u32)
    } else {
        Err(FileError::Rate(gbps))
    }
}
