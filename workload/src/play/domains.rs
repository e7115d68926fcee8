//! Tenants of every host, and the protection domains in which they have what is theirs.

use crate::scenario::{Entry, Scenario, ScenarioError};
use datapath::memory::{Access, ProtectionDomainId};
use datapath::sched::TenantId;
use simnet::{NodeId, Region, Rig};

/// What a peer may do with the memory of an entry.
const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// The protection domain of each tenant on each host; the first is that of all others.
pub struct Domains<'a> {
    scenario: &'a Scenario,
    of_hosts: Vec<Vec<ProtectionDomainId>>,
}

impl<'a> Domains<'a> {
    /// Makes the tenants.
    pub fn new(rig: &mut Rig, scenario: &'a Scenario) -> Result<Self, ScenarioError> {
        let mut of_hosts = Vec::new();
        for host in (0..rig.nodes()).map(NodeId) {
            let mut domains = vec![rig.pd(host)];
            for tenant in &scenario.tenant {
                let attr = tenant.attr()?;
                let core = rig.engine_mut(host).core_mut();
                let id = core.create_tenant(attr).expect("a scenario has no more than an engine takes");
                domains.push(core.allocate_pd_of(id).expect("it was made just now"));
            }
            of_hosts.push(domains);
        }
        Ok(Self { scenario, of_hosts })
    }

    /// The domain of an entry on a host.
    pub fn of(&self, entry: &Entry, host: usize) -> ProtectionDomainId {
        let named = self.scenario.tenant.iter().position(|tenant| tenant.name == entry.tenant);
        self.of_hosts[host][named.map_or(0, |number| number + 1)]
    }

    /// The tenant of an entry on a host.
    pub fn tenant_of(&self, rig: &Rig, entry: &Entry, host: usize) -> TenantId {
        rig.engine(NodeId(host)).core().tenant_of(self.of(entry, host))
    }

    /// Memory of an entry on a host.
    pub fn region(&self, rig: &mut Rig, entry: &Entry, host: usize, len: usize) -> Region {
        rig.region_with(NodeId(host), len, self.of(entry, host), ALL)
    }
}
