//! What a network is made with.

use crate::host::HostConfig;
use crate::switch::SwitchConfig;
use crate::topology::Topology;

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
