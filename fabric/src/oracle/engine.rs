//! Flows alone in a network, and the engine beside the model of it.

use super::{Check, Effort};
use crate::clock::Ps;
use crate::host::HostError;
use crate::ideal;
use crate::plan::Plan;
use crate::scheme::Scheme;
use crate::topology::{FatTree, Topology};
use crate::workload::{Flow, Workload};

/// In an empty network a flow takes what its links take, to the picosecond, if its hosts look at
/// every packet at once: over 2, 4 and 6 links, of one packet and of many, with every scheme.
pub(super) fn empty_network(_: Effort) -> Result<Vec<Check>, HostError> {
    let mut checks = Vec::new();
    let Some(tree) = FatTree::of_hosts(4096) else { return Ok(checks) };
    let tree = FatTree { pods: 2, racks: 2, hosts_per_rack: 2, aggregations: 2, cores_per_group: 2, ..tree };
    for scheme in Scheme::ALL {
        let (mut flows, mut exact) = (0_u32, 0_u32);
        for to in [1, 2, 7] {
            for bytes in [1, 1000, 1024, 1025, 2048, 3000, 50_000, 1_000_000] {
                let flow = Flow { at: Ps(0), to, bytes, workload: 0 };
                flows += 1;
                exact += u32::from(is_exact(scheme, tree.into(), flow)?);
            }
        }
        let what = format!("flows of {} exact to the picosecond in an empty network", scheme.name());
        checks.push(Check { what, expected: flows.into(), seen: exact.into(), limit: 0.0 });
    }
    Ok(checks)
}

/// Whether a flow from host 0 takes as long as is computed, if there is no other.
fn is_exact(scheme: Scheme, topology: Topology, flow: Flow) -> Result<bool, HostError> {
    let plan = Plan { workloads: vec![Workload::Flows(vec![(0, flow)])], ..Plan::new(scheme, topology) };
    let mut config = plan.config();
    config.host.set_turn(Ps(1));
    let path = plan.topology.path(0, flow.to);
    let expected = ideal::completion(&path, &config.host.frames(), config.host.mtu(), flow.bytes);
    let mut fabric = plan.fabric(config, 1)?;
    plan.play(&mut fabric, |_| true)?;
    Ok(fabric.flows.first().and_then(|record| record.done) == Some(expected))
}

/// The engine and a model of it, which have nothing in common but the wire, take as long on
/// average.
pub(super) fn model(effort: Effort) -> Result<Vec<Check>, HostError> {
    let Some(tree) = FatTree::of_hosts(effort.hosts) else { return Ok(Vec::new()) };
    let of = |scheme| Ok::<_, HostError>(Plan::new(scheme, tree).row()?.summary.avg_fct_us);
    let what = format!("us of an average flow of {} hosts, beside a model of the engine", effort.hosts);
    Ok(vec![Check { what, expected: of(Scheme::SrnicModel)?, seen: of(Scheme::Srnic)?, limit: 0.1 }])
}
