//! Host 0: plays entries of the workload language over a device.

use super::peer::PORT;
use super::playable::{Playable, QPS_MAX, Verb};
use crate::dial::dial;
use crate::error::{Error, Result};
use crate::interrupt;
use srnic_workload::isolate::{Policy, Side};
use srnic_workload::scenario::Entry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, CongestionAlgorithm, Connector, Device, Driver, MemoryRegion, ProtectionDomain,
    QueueCaps, QueuePair, QueuePairBuilder, RemoteRegion, Role, SendData, SendRequest, Sge, WcStatus,
};

/// Bytes of each tenant's memory, on each host.
pub const MEMORY: usize = 1 << 20;
/// What peers may do with it.
pub const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
/// Time before the victim is measured.
const LEAD: Duration = Duration::from_millis(20);
/// Completions that each side takes before the other has its turn.
const BURST: usize = 64;
/// How long a peer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// READs and atomics under way.
const READS: u8 = 8;
/// Code of the shortest wait for a receive: 10 us.
const RNR_TIMER: u8 = 1;

/// Opens the device of a host.
///
/// # Errors
/// [`Error::Verbs`].
pub fn open(socket: &Path, role: Role, policy: Option<&Policy>) -> Result<Device> {
    let spec: verbs_api::DeviceSpec =
        format!("memif:{}", socket.display()).parse().map_err(verbs_api::Error::from)?;
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

/// What a connection asks of host 1, as the private data of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The number of its domain there.
    pub tenant: usize,
    /// Receives to be posted, of so many bytes, at least so many nanoseconds apart.
    pub receives: u32,
    pub bytes: usize,
    pub receive_ns: u32,
}

impl Terms {
    const LEN: usize = 13;

    fn of(tenant: usize, entry: &Entry, bytes: usize) -> Self {
        let receives = if entry.op.takes_receive() { entry.receives_ahead() } else { 0 };
        Self { tenant, receives, bytes, receive_ns: entry.receive_ns }
    }

    fn write(self) -> Vec<u8> {
        let numbers = [self.receives, u32::try_from(self.bytes).unwrap_or(u32::MAX), self.receive_ns];

        let tenant = u8::try_from(self.tenant).unwrap_or(u8::MAX);
        let numbers = numbers.into_iter().flat_map(u32::to_le_bytes);
        std::iter::once(tenant).chain(numbers).collect()
    }

    /// Of the private data of a request; zeros at its end may be missing.
    pub fn read(data: &[u8]) -> Option<Self> {
        let mut bytes = data.to_vec();
        bytes.resize(Self::LEN.max(bytes.len()), 0);
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = usize::try_from(number(5)?).ok().filter(|len| *len <= MEMORY)?;
        let receives = number(1).filter(|receives| *receives <= 1 << 14)?;
        Some(Self { tenant: bytes[0].into(), receives, bytes: len, receive_ns: number(9)? })
    }

    /// What both ends of the connection have alike.
    pub fn attributes(self, builder: QueuePairBuilder) -> QueuePairBuilder {
        let builder = builder.access(ALL).congestion(CongestionAlgorithm::Fixed).min_rnr_timer(RNR_TIMER);
        builder.max_rd_atomic(READS).max_dest_rd_atomic(READS)
    }
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
    pub fn open(socket: &Path, policy: Option<&Policy>) -> Result<Self> {
        let device = open(socket, Role::Client, policy)?;
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
                self.device.progress();
            }
            interrupt::check()?;
            let bytes: u64 = victims.iter().map(|flows| flows.bytes).sum();
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
    fn leave(&self, flows: [Vec<Flows>; 2]) {
        drop(flows);
        self.device.drain(PATIENCE);
    }

    /// The queue pairs of an entry, connected, each with all that it has outstanding.
    fn flows(&self, entry: &Entry, tenant: usize) -> Result<Flows> {
        let refused = |error: &dyn std::fmt::Display| Error::Options(error.to_string());
        let Playable { verb, bytes } = Playable::of(entry).map_err(|keys| refused(&keys))?;
        let terms = Terms::of(tenant, entry, bytes);
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
            let prepare = || Ok((builder().path_mtu(pmtu).caps(caps).window(entry.window).build()?, ()));
            let (pair, ()) =
                dial(&self.device, Connector::new().private_data(&said), server, PATIENCE, prepare)?;
            let told = pair.private_data().get(..RemoteRegion::BYTES).unwrap_or_default();
            remote = RemoteRegion::from_bytes(told).ok();
            pairs.push(pair);
        }
        let unknown = || Error::Unexpected { said: "nothing".to_owned(), expected: "where memory is" };
        let remote = remote.ok_or_else(unknown)?;
        let elements = elements(&self.memory[tenant], bytes, entry.elements as usize)?;
        let mut flows = Flows { verb, len: bytes as u64, elements, remote, pairs, cq, bytes: 0 };
        for pair in 0..flows.pairs.len() {
            for _ in 0..entry.depth {
                flows.post(pair)?;
            }
        }
        Ok(flows)
    }
}

/// A message in so many elements, of which none is empty.
fn elements(memory: &MemoryRegion, bytes: usize, count: usize) -> Result<Vec<Sge>> {
    let step = bytes.div_ceil(count.clamp(1, bytes.max(1)));
    let starts = (0..bytes).step_by(step.max(1));
    Ok(starts.map(|at| memory.slice(at..bytes.min(at + step))).collect::<std::result::Result<_, _>>()?)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn gbps(bytes: u64, nanoseconds: u128) -> f64 {
    8.0 * bytes as f64 / nanoseconds.max(1) as f64
}

/// The queue pairs of an entry.
struct Flows {
    verb: Verb,
    len: u64,
    elements: Vec<Sge>,
    remote: RemoteRegion,
    pairs: Vec<QueuePair>,
    cq: CompletionQueue,
    /// What has completed.
    bytes: u64,
}

impl Flows {
    /// Takes some completions, and posts a request for each.
    fn step(&mut self) -> Result<()> {
        for _ in 0..BURST {
            let Some(done) = self.cq.poll() else { break };
            if done.status != WcStatus::Success {
                return Err(Error::Completion { what: "a request", status: done.status });
            }
            self.bytes += self.len;
            self.post(usize::try_from(done.wr_id).unwrap_or(0))?;
        }
        Ok(())
    }

    fn post(&mut self, pair: usize) -> Result<()> {
        let to = self.remote.at(0);
        let data = SendData::Gather(&self.elements);
        let request = match self.verb {
            Verb::Send => SendRequest::send(data),
            Verb::Read => SendRequest::read(&self.elements, to),
            Verb::Atomic => SendRequest::fetch_and_add(self.elements[0], to, 1),
            Verb::Write => SendRequest::write(data, to),
            Verb::WriteImm => SendRequest::write(data, to).with_imm(1),
        };
        Ok(self.pairs[pair].post_send(&request.signaled().id(pair as u64))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_were_written() {
        for terms in [
            Terms { tenant: 0, receives: 0, bytes: 8, receive_ns: 0 },
            Terms { tenant: 1, receives: 64, bytes: 65536, receive_ns: 100_000 },
        ] {
            let mut said = terms.write();
            assert_eq!(Terms::read(&said), Some(terms));
            // A peer does not see zeros at the end.
            while said.last() == Some(&0) {
                said.pop();
            }
            assert_eq!(Terms::read(&said), Some(terms));
        }
        assert_eq!(Terms::read(&[0xFF; 13]), None, "more than there is memory");
    }
}
