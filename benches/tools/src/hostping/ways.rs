//! The probes of a round: from each CPU and each kind of pages, back to this device and to a peer.

use super::measure::{LARGE, Measured, TARGET, Way};
use super::path::{Memory, Path};
use super::rehearse::{self, Delay};
use crate::affinity;
use crate::dial::dial;
use crate::error::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use verbs_api::{
    Access, CompletionQueue, Connector, Device, HugepagePolicy, MemoryRegion, PreparedQueuePair,
    ProtectionDomain, QueuePair, RemoteRegion,
};

/// Completions that a queue of a probe may have: one WRITE is under way.
const CQ_ENTRIES: u32 = 16;
/// How long a peer is waited for that does not listen yet.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory of a kind that a CPU was the first to touch.
struct Source {
    cpu: usize,
    memory: Memory,
    region: MemoryRegion,
}

/// All ways from this device.
pub struct Ways {
    sources: Vec<Source>,
    loopback: Way,
    /// What the loopback writes to, and its passive end: they must stay.
    _sink: (MemoryRegion, QueuePair),
    peer: Option<(IpAddr, Way)>,
}

impl Ways {
    /// Memory on each of `cpus`, a loopback, and a connection to `peer`, if there is one.
    ///
    /// # Errors
    /// [`Error::Options`] for a CPU that this process may not use; those of connecting.
    pub fn open(device: &Device, cpus: &[usize], peer: Option<SocketAddr>) -> Result<Self> {
        let pd = device.alloc_pd();
        let mut sources = Vec::new();
        for &cpu in cpus {
            affinity::stay_on(cpu)?;
            sources.extend(of_cpu(&pd, cpu)?);
        }
        let (loopback, sink, end) = loopback(device, &pd)?;
        let peer = peer.map(|peer| Ok::<_, Error>((peer.ip(), dialed(device, &pd, peer)?))).transpose()?;
        Ok(Self { sources, loopback, _sink: (sink, end), peer })
    }

    /// Bytes that may be under way to the peer, if there is one.
    #[must_use]
    pub fn peer_window(&self) -> Option<f64> {
        let pair = &self.peer.as_ref()?.1.pair;
        Some(f64::from(pair.window()) * f64::from(pair.path_mtu().bytes()))
    }

    /// All ways that are probed.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let peer = self.peer.as_ref().map(|(peer, _)| *peer);
        let of = |source: &Source| {
            let path = Path { cpu: source.cpu, memory: source.memory, peer: None };
            std::iter::once(path)
                .chain(peer.map(|peer| Path { peer: Some(peer), ..path }))
                .collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(of).collect()
    }

    /// Probes each way once, with `delays`, and keeps the best of each and what `before` has of it.
    ///
    /// # Errors
    /// Those of [`Way::probe`], and [`Error::Options`].
    pub fn probe(
        &mut self,
        before: Vec<(Path, Measured)>,
        delays: &[Delay],
    ) -> Result<Vec<(Path, Measured)>> {
        let mut probes = Vec::new();
        for Source { cpu, memory, region } in &self.sources {
            affinity::stay_on(*cpu)?;
            let path = Path { cpu: *cpu, memory: *memory, peer: None };
            probes.push((path, self.loopback.probe(region, rehearse::of(delays, &path))?));
            if let Some((peer, way)) = &mut self.peer {
                let path = Path { peer: Some(*peer), ..path };
                probes.push((path, way.probe(region, rehearse::of(delays, &path))?));
            }
        }
        if before.is_empty() {
            return Ok(probes);
        }
        let best = |((path, now), (_, then)): ((Path, Measured), (Path, Measured))| (path, now.best_of(then));
        Ok(probes.into_iter().zip(before).map(best).collect())
    }
}

/// Memory of each kind that the machine has.
fn of_cpu(pd: &ProtectionDomain, cpu: usize) -> Result<Vec<Source>> {
    let ordinary = pd.register(LARGE, Access::LOCAL_WRITE)?;
    // A machine without free hugepages has one kind.
    let huge = pd.register_huge(LARGE, HugepagePolicy::Require, Access::LOCAL_WRITE).ok();
    let all = [(Memory::Ordinary, Some(ordinary)), (Memory::Huge, huge)];
    let mut sources = Vec::new();
    for (memory, region) in all {
        let Some(region) = region else { continue };
        // The node of who touches a page first has it.
        region.write(0, &vec![1; LARGE])?;
        sources.push(Source { cpu, memory, region });
    }
    Ok(sources)
}

/// Two queue pairs of this device that are connected to each other.
fn loopback(device: &Device, pd: &ProtectionDomain) -> Result<(Way, MemoryRegion, QueuePair)> {
    let sink = pd.register(LARGE, TARGET)?;
    let (cq, its_cq) = (device.create_cq(CQ_ENTRIES)?, device.create_cq(CQ_ENTRIES)?);
    let one = pd.queue_pair(&cq, &cq).build()?;
    let two = pd.queue_pair(&its_cq, &its_cq).access(TARGET).build()?;
    let ends = (one.endpoint(), two.endpoint());
    let (pair, end) = (one.connect(&ends.1)?, two.connect(&ends.0)?);
    Ok((Way { pair, cq, remote: sink.remote() }, sink, end))
}

/// A connection to who answers probes there.
fn dialed(device: &Device, pd: &ProtectionDomain, peer: SocketAddr) -> Result<Way> {
    let prepare = || -> Result<(PreparedQueuePair, CompletionQueue)> {
        let cq = device.create_cq(CQ_ENTRIES)?;
        Ok((pd.queue_pair(&cq, &cq).build()?, cq))
    };
    let (pair, cq) = dial(device, Connector::new(), peer, PATIENCE, prepare)?;
    let told = RemoteRegion::from_bytes(pair.private_data().get(..RemoteRegion::BYTES).unwrap_or_default());
    let remote = told.ok().filter(|remote| remote.len >= LARGE as u64).ok_or(Error::Unexpected {
        said: format!("{} bytes", pair.private_data().len()),
        expected: "where probes go",
    })?;
    Ok(Way { pair, cq, remote })
}
