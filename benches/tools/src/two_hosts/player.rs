//! Host 0: plays entries of the workload language over a device.

use super::flows::Flows;
use super::playable::{Playable, QPS_MAX};
use super::server::PORT;
use super::terms::Terms;
use crate::dial::dial;
use crate::error::{Error, Result};
use crate::interrupt;
use srnic_workload::isolate::{Policy, Side};
use srnic_workload::scenario::Entry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, Connector, Device, DeviceSpec, Driver, MemoryRegion, ProtectionDomain, QueueCaps, RemoteRegion,
    Role,
};

/// Bytes of each tenant's memory, on each host.
pub const MEMORY: usize = 1 << 20;
/// What peers may do with it.
pub const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
/// Time before the victim is measured.
const LEAD: Duration = Duration::from_millis(20);
/// How long a peer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens the device of a host by its string.
///
/// # Errors
/// [`Error::Verbs`].
pub fn open(device: &str, role: Role, policy: Option<&Policy>) -> Result<Device> {
    let spec: DeviceSpec = device.parse().map_err(verbs_api::Error::from)?;
    let builder = Device::builder().driver(Driver::Inline).max_qps(2 * QPS_MAX * 4);
    let builder = policy.map_or(builder, |policy| builder.costs(policy.costs.into()));
    Ok(builder.open_spec(&spec.or_role(role))?)
}

/// The domain of all, or of attacker and victim.
///
/// # Errors
/// [`Error::Verbs`].
pub fn tenants(device: &Device, policy: Option<&Policy>) -> Result<Vec<ProtectionDomain>> {
    let Some(policy) = policy else { return Ok(vec![device.alloc_pd()]) };
    let domain = |tenant| Ok(device.create_tenant(tenant)?.alloc_pd()?);
    policy.tenants().map_err(|error| Error::Options(error.to_string()))?.into_iter().map(domain).collect()
}

/// The device of host 0.
pub struct Player {
    device: Device,
    domains: Vec<ProtectionDomain>,
    memory: Vec<MemoryRegion>,
}

impl Player {
    /// Opens it, and waits for host 1.
    ///
    /// # Errors
    /// [`Error::Verbs`].
    pub fn open(device: &str, policy: Option<&Policy>) -> Result<Self> {
        let device = open(device, Role::Client, policy)?;
        device.wait_link(PATIENCE)?;
        let domains = tenants(&device, policy)?;
        let register = |pd: &ProtectionDomain| pd.register(MEMORY, ALL);
        let memory = domains.iter().map(register).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Self { device, domains, memory })
    }

    /// What a victim has, alone or beside an attacker, in Gb/s.
    ///
    /// # Errors
    /// [`Error::Verbs`], [`Error::Completion`], [`Error::Interrupted`].
    pub fn run(&self, attacker: Option<&Side>, victim: &Side, time: Duration) -> Result<f64> {
        let last = self.domains.len() - 1;
        let flows = |side: &Side, tenant: usize| {
            side.workload.iter().map(|entry| self.flows(entry, tenant)).collect::<Result<Vec<_>>>()
        };
        let mut victims = flows(victim, last)?;
        let mut attackers = attacker.map_or(Ok(Vec::new()), |side| flows(side, 0))?;
        let since = Instant::now();
        let mut before = None;
        loop {
            for flows in victims.iter_mut().chain(&mut attackers) {
                flows.step()?;
                if let Some(status) = flows.failed() {
                    return Err(Error::Completion { what: "a request", status });
                }
                self.device.progress();
            }
            interrupt::check()?;
            let bytes: u64 = victims.iter().map(Flows::bytes).sum();
            let passed = since.elapsed();
            match before {
                None if passed >= LEAD => before = Some((passed, bytes)),
                Some((start, at_start)) if passed >= start + time => {
                    let nanoseconds = (passed - start).as_nanos();
                    self.leave([victims, attackers]);
                    return Ok(gbps(bytes - at_start, nanoseconds));
                }
                _ => {}
            }
        }
    }

    /// Ends all connections, so that host 1 has nothing left of them.
    pub fn leave<T>(&self, flows: T) {
        drop(flows);
        self.device.drain(PATIENCE);
    }

    /// The device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The queue pairs of an entry, connected, each with all that it has outstanding.
    ///
    /// # Errors
    /// [`Error::Options`] if it is none that can be played; [`Error::Verbs`].
    pub fn flows(&self, entry: &Entry, tenant: usize) -> Result<Flows> {
        let refused = |error: &dyn std::fmt::Display| Error::Options(error.to_string());
        let Playable { verb, bytes } = Playable::of(entry).map_err(|keys| refused(&keys))?;
        let terms = Terms::of(tenant, entry, bytes).map_err(|error| refused(&error))?;
        let cq = self.device.create_cq(entry.qps * entry.depth + 16)?;
        let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), PORT);
        let pmtu = entry.pmtu().map_err(|error| refused(&error))?;
        let said = terms.write();
        let caps = QueueCaps {
            max_send_wr: entry.depth,
            max_recv_wr: 1,
            max_send_sge: entry.elements,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let mut pairs = Vec::new();
        let mut remote = None;
        for _ in 0..entry.qps {
            let builder = || terms.attributes(self.domains[tenant].queue_pair(&cq, &cq));
            let prepare = || Ok((builder().path_mtu(pmtu).caps(caps).build()?, ()));
            let (pair, ()) =
                dial(&self.device, Connector::new().private_data(&said), server, PATIENCE, prepare)?;
            let told = pair.private_data().get(..RemoteRegion::BYTES).unwrap_or_default();
            remote = RemoteRegion::from_bytes(told).ok();
            pairs.push(pair);
        }
        let unknown = || Error::Unexpected { said: "nothing".to_owned(), expected: "where memory is" };
        let remote = remote.ok_or_else(unknown)?;
        let memory = match entry.regions {
            0 | 1 => vec![self.memory[tenant].clone()],
            regions => {
                let register = |_| Ok(self.domains[tenant].register(bytes.max(1), ALL)?);
                (0..regions).map(register).collect::<Result<Vec<_>>>()?
            }
        };
        Flows::start(entry, (verb, bytes), memory, remote, (pairs, cq))
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn gbps(bytes: u64, nanoseconds: u128) -> f64 {
    8.0 * bytes as f64 / nanoseconds.max(1) as f64
}
