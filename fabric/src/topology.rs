//! Which links there are, and which of them a packet takes.

mod fat_tree;
mod graph;

pub use fat_tree::FatTree;
pub use graph::{Graph, GraphError, Wire};

use crate::clock::Ps;
use crate::link::Link;
use crate::packet::mix;
use std::sync::Arc;

/// A network. Host `h` sends into link `h`, and receives from link `hosts + h`.
#[derive(Clone, Debug)]
pub enum Topology {
    /// A fat tree, in which routes are computed.
    FatTree(FatTree),
    /// Any other, with tables of routes.
    Graph(Arc<Graph>),
}

/// One link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Picoseconds a byte.
    pub ps_per_byte: u32,
    /// Time from the last bit sent to its arrival.
    pub delay: Ps,
}

impl From<FatTree> for Topology {
    fn from(tree: FatTree) -> Self {
        Self::FatTree(tree)
    }
}

impl From<Graph> for Topology {
    fn from(graph: Graph) -> Self {
        Self::Graph(Arc::new(graph))
    }
}

impl Topology {
    /// Hosts in all.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        match self {
            Self::FatTree(tree) => tree.hosts(),
            Self::Graph(graph) => graph.hosts(),
        }
    }

    /// Switches in all.
    #[must_use]
    pub fn switches(&self) -> u32 {
        match self {
            Self::FatTree(tree) => tree.switches(),
            Self::Graph(graph) => graph.switches(),
        }
    }

    /// All links.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        match self {
            Self::FatTree(tree) => tree.links(),
            Self::Graph(graph) => graph.links().to_vec(),
        }
    }

    /// The link into which `switch` sends a packet of `flow` to host `to`.
    #[must_use]
    pub fn route(&self, switch: u32, to: u32, flow: u32) -> u32 {
        match self {
            Self::FatTree(tree) => tree.route(switch, to, flow),
            Self::Graph(graph) => graph.route(switch, to, flow),
        }
    }

    /// The links from one host to another, by a shortest way.
    #[must_use]
    pub fn path(&self, from: u32, to: u32) -> Vec<Hop> {
        match self {
            Self::FatTree(tree) => tree.path(from, to),
            Self::Graph(graph) => graph.path(from, to),
        }
    }

    /// Picoseconds a byte of the link into which a host sends.
    #[must_use]
    pub fn host_ps_per_byte(&self, host: u32) -> u32 {
        match self {
            Self::FatTree(tree) => tree.host_ps_per_byte,
            Self::Graph(graph) => graph.links()[host as usize].ps_per_byte,
        }
    }
}

/// One of `count` ways, by a hash of the flow that differs from tier to tier.
const fn choose(flow: u32, tier: u32, count: u32) -> u32 {
    ((mix(flow ^ tier.wrapping_mul(0x9E37_79B9)) as u64 * count as u64) >> 32) as u32
}
