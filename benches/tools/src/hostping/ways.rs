//! The probes of a round: from each CPU and each kind of pages, back to this device and to a peer.

use super::measure::{LARGE, Measured, TARGET, Way};
use super::path::{Memory, Outcome, Path};
use super::rehearse::{self, Delay};
use crate::affinity;
use crate::dial::dial;
use crate::error::{Error, Result};
use crate::program;
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
/// How long a peer is waited for at each look after it did not answer.
const PATIENCE_AGAIN: Duration = Duration::from_secs(1);

/// Memory of a kind that a CPU was the first to touch.
struct Source {
    cpu: usize,
    memory: Memory,
    region: MemoryRegion,
}

/// A peer that is probed.
struct Peer {
    address: SocketAddr,
    /// `None` once it did not answer.
    way: Option<Way>,
}

impl Peer {
    fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// A probe; `None` without an answer: then the connection is given up, and so is every probe
    /// until it is dialled again.
    fn probe(&mut self, source: &MemoryRegion, later: Duration) -> Result<Option<Measured>> {
        let Some(way) = &mut self.way else { return Ok(None) };
        match way.probe(source, later) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                program::say(format_args!("no answer from {}: {error}; it is dialled again", self.ip()));
                self.way = None;
                Ok(None)
            }
            measured => measured.map(Some),
        }
    }
}

/// All ways from this device.
pub struct Ways<'a> {
    device: &'a Device,
    pd: ProtectionDomain,
    sources: Vec<Source>,
    loopback: Way,
    /// What the loopback writes to, and its passive end: they must stay.
    _sink: (MemoryRegion, QueuePair),
    peer: Option<Peer>,
}

impl<'a> Ways<'a> {
    /// Memory on each of `cpus`, a loopback, and a connection to `peer`, if there is one.
    ///
    /// # Errors
    /// [`Error::Options`] for a CPU that this process may not use; those of connecting.
    pub fn open(device: &'a Device, cpus: &[usize], peer: Option<SocketAddr>) -> Result<Self> {
        let pd = device.alloc_pd();
        let mut sources = Vec::new();
        for &cpu in cpus {
            affinity::stay_on(cpu)?;
            sources.extend(of_cpu(&pd, cpu)?);
        }
        let (loopback, sink, end) = loopback(device, &pd)?;
        let dialed =
            |address| Ok::<_, Error>(Peer { address, way: Some(dialed(device, &pd, address, PATIENCE)?) });
        let peer = peer.map(dialed).transpose()?;
        Ok(Self { device, pd, sources, loopback, _sink: (sink, end), peer })
    }

    /// Dials a peer again that did not answer; it may still not.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn dial_again(&mut self) -> Result<()> {
        let Some(peer) = self.peer.as_mut().filter(|peer| peer.way.is_none()) else { return Ok(()) };
        match dialed(self.device, &self.pd, peer.address, PATIENCE_AGAIN) {
            Ok(way) => {
                program::say(format_args!("{} answers again", peer.ip()));
                peer.way = Some(way);
                Ok(())
            }
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Nobody is there yet.
            Err(_) => Ok(()),
        }
    }

    /// Bytes that may be under way to the peer, if there is one that answers.
    #[must_use]
    pub fn peer_window(&self) -> Option<f64> {
        let pair = &self.peer.as_ref()?.way.as_ref()?.pair;
        Some(f64::from(pair.window()) * f64::from(pair.path_mtu().bytes()))
    }

    /// All ways that are probed.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let peer = self.peer.as_ref().map(Peer::ip);
        let of = |source: &Source| {
            let path = Path { cpu: source.cpu, memory: source.memory, peer: None };
            std::iter::once(path)
                .chain(peer.map(|peer| Path { peer: Some(peer), ..path }))
                .collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(of).collect()
    }

    /// Probes each way once, with `delays`, and keeps the best of each and what `before` has of it.
    /// A way to the peer of which one probe had no answer has none.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Options`]; of the loopback those of [`Way::probe`].
    pub fn probe(&mut self, before: Vec<Outcome>, delays: &[Delay]) -> Result<Vec<Outcome>> {
        let mut probes = Vec::new();
        for Source { cpu, memory, region } in &self.sources {
            affinity::stay_on(*cpu)?;
            let path = Path { cpu: *cpu, memory: *memory, peer: None };
            probes.push((path, Some(self.loopback.probe(region, rehearse::of(delays, &path))?)));
            if let Some(peer) = &mut self.peer {
                let path = Path { peer: Some(peer.ip()), ..path };
                probes.push((path, peer.probe(region, rehearse::of(delays, &path))?));
            }
        }
        if before.is_empty() {
            return Ok(probes);
        }
        let best = |((path, now), (_, then)): (Outcome, Outcome)| {
            (path, now.zip(then).map(|(now, then)| now.best_of(then)))
        };
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
fn dialed(device: &Device, pd: &ProtectionDomain, peer: SocketAddr, patience: Duration) -> Result<Way> {
    let prepare = || -> Result<(PreparedQueuePair, CompletionQueue)> {
        let cq = device.create_cq(CQ_ENTRIES)?;
        Ok((pd.queue_pair(&cq, &cq).build()?, cq))
    };
    let (pair, cq) = dial(device, Connector::new(), peer, patience, prepare)?;
    let told = RemoteRegion::from_bytes(pair.private_data().get(..RemoteRegion::BYTES).unwrap_or_default());
    let remote = told.ok().filter(|remote| remote.len >= LARGE as u64).ok_or(Error::Unexpected {
        said: format!("{} bytes", pair.private_data().len()),
        expected: "where probes go",
    })?;
    Ok(Way { pair, cq, remote })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostping::preflight::Host;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, JoinHandle};
    use verbs_api::{Connecting, DeviceSpec, Driver, Listener};

    fn device(host: u8) -> Device {
        let spec: DeviceSpec = format!("sim:hostping-ways,ip=10.77.0.{host}").parse().expect("a device");
        Device::open_spec(&DeviceSpec { driver: Some(Driver::Inline), ..spec }).expect("it opens")
    }

    /// Answers one client until `stop`, and then is gone.
    fn answer(stop: &'static AtomicBool) -> JoinHandle<()> {
        stop.store(false, Ordering::Relaxed);
        thread::spawn(|| {
            let device = device(1);
            let pd = device.alloc_pd();
            let cq = device.create_cq(CQ_ENTRIES).expect("a queue");
            let target = pd.register(LARGE, TARGET).expect("memory");
            let listener = Listener::bind(&device, 7175).expect("a port");
            let (mut coming, mut there) = (Vec::<Connecting>::new(), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                device.progress();
                if let Some(request) = listener.poll() {
                    let pair = pd.queue_pair(&cq, &cq).access(TARGET).build().expect("a queue pair");
                    coming.extend(request.with_private_data(&target.remote().to_bytes()).accept(pair));
                }
                there.extend(coming.iter_mut().filter_map(|one| one.poll().ok().flatten()));
            }
        })
    }

    fn answered(ways: &mut Ways<'_>) -> Vec<bool> {
        let probes = ways.probe(Vec::new(), &[]).expect("probes");
        let of_peer = probes.into_iter().filter(|(path, _)| path.peer.is_some());
        of_peer.map(|(_, measured)| measured.is_some()).collect()
    }

    /// What does not answer is a result, and is asked again.
    #[test]
    fn a_peer_may_leave_and_come_back() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let cpu = Host::at("/".as_ref()).allowed_cpus()[0];
        let first = answer(&STOP);
        let device = device(2);
        let peer = SocketAddr::from(([10, 77, 0, 1], 7175));
        let mut ways = Ways::open(&device, &[cpu], Some(peer)).expect("a peer");
        assert!(answered(&mut ways).into_iter().all(|answered| answered) && ways.peer_window().is_some());
        STOP.store(true, Ordering::Relaxed);
        first.join().expect("it ended");
        assert!(answered(&mut ways).into_iter().all(|answered| !answered), "it is gone");
        ways.dial_again().expect("nobody is there, and that is no error");
        assert!(answered(&mut ways).into_iter().all(|answered| !answered) && ways.peer_window().is_none());
        let second = answer(&STOP);
        ways.dial_again().expect("it is back");
        assert!(answered(&mut ways).into_iter().all(|answered| answered));
        STOP.store(true, Ordering::Relaxed);
        second.join().expect("it ended");
    }
}
