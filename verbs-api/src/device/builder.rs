//! Opening a device.

use super::{Device, Inner, capture, costs, thread_devices};
use crate::driver::{Driver, EngineThread, SlowPath, drive, stand_by};
use crate::error::Error;
use crate::nic::Driven;
use crate::pool;
use crate::shared::Shared;
use crate::spec::{DeviceSpec, PortDriver, Transport};
use crate::stat::{Facts, StatServer};
use crate::trace;
use core::net::{IpAddr, Ipv4Addr};
use datapath::engine::{AckTiming, Engine, EngineConfig};
use datapath::latency::LatencyConfig;
use datapath::port::Port;
use datapath::port::fault::{Fault, FaultConfig, FaultStats};
use datapath::queue::HandOver;
use datapath::sched::{CostTable, HostRateConfig, SchedulerConfig};
use datapath::seed::{Purpose, Seed};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// The options of a device beside its string; made by [`Device::builder`].
///
/// ```
/// use verbs_api::{Device, Driver};
///
/// # fn main() -> Result<(), verbs_api::Error> {
/// let device = Device::builder().driver(Driver::Thread { cpu: Some(0) }).max_qps(10_000).open("sim:builder")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a builder opens nothing until `open`"]
pub struct DeviceBuilder {
    pub(super) driver: Driver,
    slow_path: SlowPath,
    pub(super) sizes: EngineConfig,
}

/// Setters of one field each.
macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty => $($field:ident).+;)+) => {
        $($(#[doc = $doc])+
        pub const fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = $name;
            self
        })+
    };
}

impl DeviceBuilder {
    setters! {
        /// Sets who runs the engine, unless the device string says so. Default [`Driver::Inline`].
        driver: Driver => driver;
        /// Sets who runs the slow path. Default [`SlowPath::Stepped`].
        slow_path: SlowPath => slow_path;
        /// Queue pairs at most, 1 to 2^20; of each of several engines 2^19, of three or four 2^18,
        /// of more 2^17. Default 1024.
        max_qps: u32 => sizes.max_qps;
        /// Completion queues at most, 1 to 2^24. Default 1024.
        max_cqs: usize => sizes.max_cqs;
        /// Memory regions at most, 1 to 2^24. Default 4096.
        max_mrs: usize => sizes.max_mrs;
        /// Shared receive queues at most, 0 to 2^24. Default 1024.
        max_srqs: usize => sizes.max_srqs;
        /// Address handles at most, 0 to 2^24. Default 4096.
        max_ahs: u32 => sizes.max_ahs;
        /// Largest window of a queue pair, in packets, 1 to 2^14. Default 512.
        window_max: u16 => sizes.window_max;
        /// Connections that can have losses to repair at the same time, 1 to 2^20; further ones
        /// drop what comes out of order. Default 64.
        recovery_contexts: u32 => sizes.recovery_contexts;
        /// Sets how queue pairs share the engine's turns. Default [`SchedulerConfig::RoundRobin`].
        scheduler: SchedulerConfig => sizes.scheduler;
        /// Sets what operations cost of a tenant's caps in operations, unless the device string
        /// names a file. Default: an atomic as much as three WRITEs, a READ as 1.1.
        costs: CostTable => sizes.costs;
        /// What comes counts as marked by a switch if it waited longer in the port than so many
        /// nanoseconds, or if the slow path falls behind, unless the device string says so with
        /// `host_marks=`: peers whose controllers listen to marks slow down before frames are lost
        /// (docs/tenants.md). 0, the default: never.
        host_marks_ns: u32 => sizes.host_marks_ns;
        /// Peer hosts that do not keep up are sent to no faster than they take it, whatever the
        /// controllers of the queue pairs, unless the device string says so with `host_target=`
        /// (docs/tenants.md, [`Device::hosts`]). Default: windows alone decide.
        host_rates: Option<HostRateConfig> => sizes.host_rates;
        /// Which send requests are sampled for where their time goes, unless the device string says
        /// so ([`Device::latency`]). Default: none.
        latency: Option<LatencyConfig> => sizes.latency;
        /// When acknowledgements go out; the default is [`AckTiming::AtOnce`].
        /// [`AckTiming::BehindPosts`] takes the making of an acknowledgement out of the time to an
        /// answer: it goes out behind what is posted next, or in the next call of the device's or
        /// one of its objects'. That is for programs that keep calling. Where one computes for
        /// longer than its peer waits for a sign of life, after a message that it took and before
        /// its next call, the peer gives up. A device with a thread has [`AckTiming::Spaced`] in
        /// any case.
        acks: AckTiming => sizes.acks;
    }

    /// Opens the device that a string names; [`DeviceSpec`] has the grammar.
    ///
    /// # Errors
    /// As [`Device::open`]; [`Error::Config`] names a size out of range, [`Error::Thread`] says why
    /// the driver's thread does not run.
    pub fn open(&self, text: &str) -> Result<Device, Error> {
        self.open_spec(&text.parse()?)
    }

    /// Opens the device that a parsed string names.
    ///
    /// # Errors
    /// As [`DeviceBuilder::open`].
    pub fn open_spec(&self, spec: &DeviceSpec) -> Result<Device, Error> {
        if spec.engines != 1 {
            return Err(Error::Engines { engines: spec.engines });
        }
        trace::open(spec, || self.open_untold(spec), core::slice::from_ref)
    }

    fn open_untold(&self, spec: &DeviceSpec) -> Result<Device, Error> {
        if let Transport::Pool { socket } = &spec.transport {
            let (spec, lease) = pool::take(spec, socket)?;
            let device = self.open_untold(&spec)?;
            // It has no other.
            let _ = device.inner.lease.set(lease);
            return Ok(device);
        }
        let builder = Self { driver: spec.driver.unwrap_or(self.driver), ..*self };
        let config = drawn(configured(self.sizes, spec)?)?;
        if let Transport::Sim { segment } = &spec.transport {
            let port = crate::sim::attach(segment, spec)?;
            let ip = spec.ip.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 77, 0, port.host())));
            return builder.with_faults(port, EngineConfig { ip, ..config }, spec);
        }
        if let Transport::Memif { path, driver: PortDriver::Native, .. } = &spec.transport {
            let port = crate::native_memif::open(spec, path)?;
            return builder.with_faults(port, EngineConfig { ip: spec.ip_or_default()?, ..config }, spec);
        }
        if let Transport::AfPacket { interface, driver: PortDriver::Native, stack_sees } = &spec.transport {
            let port = crate::native_packet::engine_port(spec, interface, *stack_sees)?;
            return builder.with_faults(port, EngineConfig { ip: spec.ip_or_default()?, ..config }, spec);
        }
        builder.open_dpdk(spec, config)
    }

    #[cfg(feature = "dpdk")]
    fn open_dpdk(&self, spec: &DeviceSpec, config: EngineConfig) -> Result<Device, Error> {
        let ip = spec.ip_or_default()?;
        self.with_faults(crate::open::engine_port(spec)?, EngineConfig { ip, ..config }, spec)
    }

    #[cfg(not(feature = "dpdk"))]
    fn open_dpdk(&self, spec: &DeviceSpec, _config: EngineConfig) -> Result<Device, Error> {
        spec.ip_or_default()?;
        Err(Error::Unsupported(
            "this build has no DPDK, so it has sim: and pool: devices, and memif: and af_packet: without driver=dpdk only; switch on the \
             feature `dpdk` of verbs-api",
        ))
    }

    fn with_faults<P: Port + Send + 'static>(
        &self,
        port: P,
        config: EngineConfig,
        spec: &DeviceSpec,
    ) -> Result<Device, Error> {
        let mut device = match (&spec.pcap, &spec.faults) {
            (Some(path), faults) => self.tapped(port, config, faults.as_ref(), path),
            (None, Some(faults)) => self.over(Fault::new(port, faults), config, Fault::fault_stats),
            (None, None) => self.over(port, config, |_| FaultStats::default()),
        }?;
        device.finish(spec)?;
        Ok(device)
    }

    /// Behind the tap every port is of one type: an engine of its own for each would double what is
    /// compiled.
    fn tapped<P: Port + Send + 'static>(
        &self,
        port: P,
        config: EngineConfig,
        faults: Option<&FaultConfig>,
        path: &Path,
    ) -> Result<Device, Error> {
        let nothing = FaultConfig::default();
        let port: Box<dyn Port + Send> = Box::new(port);
        let port = capture::tap(Fault::new(port, faults.unwrap_or(&nothing)), path)?;
        self.over(port, config, |tap| tap.inner().fault_stats())
    }

    /// A device over a port of the caller's. The sizes are those of `config`, not the builder's,
    /// and so are the [`Seed`]s: equal ones give equal queue-pair numbers, first PSNs and keys.
    /// Take them from the operating system where peers are not trusted.
    ///
    /// # Errors
    /// [`Error::Config`], [`Error::Thread`].
    pub fn from_port<P: Port + Send + 'static>(
        &self,
        port: P,
        config: EngineConfig,
    ) -> Result<Device, Error> {
        self.over(port, config, |_| FaultStats::default())
    }

    pub(super) fn over<P: Port + Send + 'static>(
        &self,
        port: P,
        config: EngineConfig,
        fault_stats: fn(&P) -> FaultStats,
    ) -> Result<Device, Error> {
        let caps = port.caps();
        // A thread of the device's own does not know when the application posts.
        let acks = if self.driver.is_polled() { config.acks } else { AckTiming::Spaced };
        let config = EngineConfig { acks, ..config };
        let engine = match self.slow_path {
            SlowPath::Stepped => Engine::new(port, config)?,
            SlowPath::Thread => {
                let (remote, worker) = sr_recovery::thread::pair(config.slow_path());
                let engine = Engine::with_slow_path(port, config, remote)?;
                // It ends with the engine, which owns the other end.
                let thread = thread::Builder::new().name("srnic-recovery".to_owned());
                let started = thread.spawn(|| worker.run());
                started.map_err(|source| Error::Thread { doing: "be started", source })?;
                engine
            }
        };
        let nic = Box::new(Driven::new(engine, fault_stats));
        let hand_over = (self.driver == Driver::Hybrid).then(HandOver::new);
        let shared = Arc::new(Shared::new(nic, config.acks, hand_over));
        let thread = match self.driver {
            Driver::Inline => {
                thread_devices::register(&shared);
                None
            }
            Driver::Hybrid => Some(EngineThread::start(&shared, None, stand_by)?),
            Driver::Thread { cpu } => Some(EngineThread::start(&shared, cpu, drive)?),
        };
        let inner = Inner {
            shared,
            driver: self.driver,
            thread,
            ip: config.ip,
            caps,
            window_max: config.window_max,
            link_mtu: None,
            psns: Mutex::new(config.seed.numbers(Purpose::Psns)),
            stat: None,
            sources: Arc::default(),
            bell: OnceLock::new(),
            connections: Mutex::new(None),
            lease: OnceLock::new(),
        };
        Ok(Device { inner: Arc::new(inner) })
    }
}

/// What a device string says of an engine, and else the program.
pub(super) fn configured(sizes: EngineConfig, spec: &DeviceSpec) -> Result<EngineConfig, Error> {
    Ok(EngineConfig {
        vlan: spec.vlan,
        latency: spec.latency.or(sizes.latency),
        costs: spec.costs.as_deref().map_or(Ok(sizes.costs), costs::read)?,
        host_marks_ns: spec.host_marks_ns.unwrap_or(sizes.host_marks_ns),
        host_rates: spec.host_rates().or(sizes.host_rates),
        host_nonce: host_nonce(),
        ..sizes
    })
}

/// The configuration with seeds of its own from the operating system.
pub(super) fn drawn(config: EngineConfig) -> Result<EngineConfig, Error> {
    Ok(EngineConfig { seed: seed()?, key_seed: seed()?, ..config })
}

fn seed() -> Result<Seed, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(Seed::new(bytes))
}

/// The time, in units of 16 us since 1970: the smaller the older the device is, as far as the
/// hosts' clocks agree. Two hosts that start within one unit are not told apart if they have one
/// Ethernet address, too.
pub(super) fn host_nonce() -> [u8; 6] {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let units = since_1970.as_nanos() / 16_000;
    let [.., a, b, c, d, e, f] = units.to_be_bytes();
    [a, b, c, d, e, f]
}

impl Device {
    /// Applies what a device string says beside port and engine, to a device that has no other
    /// handle yet.
    pub(super) fn finish(&mut self, spec: &DeviceSpec) -> Result<(), Error> {
        let Some(inner) = Arc::get_mut(&mut self.inner) else { return Ok(()) };
        inner.link_mtu = spec.link_mtu();
        if let Some(address) = &spec.stat {
            let shared = Arc::clone(&inner.shared);
            let sources = Arc::clone(&inner.sources);
            let facts = Facts { shared, ip: inner.ip, driver: inner.driver, sources };
            inner.stat = Some(StatServer::start(address, facts)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_draws_seeds_of_its_own_and_another_one_for_keys() {
        let [one, two] = [(); 2].map(|()| drawn(EngineConfig::default()).expect("random numbers"));
        let seeds = [one.seed, one.key_seed, two.seed, two.key_seed];
        for (index, seed) in seeds.iter().enumerate() {
            assert!(!seeds[..index].contains(seed), "seed {index}");
        }
    }
}
