//! Opening a device with several engines: a [`Device`] for each, on a queue of its own of the one
//! port.

use super::builder::{configured, drawn};
use super::{Device, DeviceBuilder, capture};
use crate::error::Error;
use crate::spec::{DeviceSpec, PortDriver, Transport, driver_of_engine};
use crate::trace;
use core::net::{IpAddr, Ipv4Addr};
use datapath::engine::{ConfigError, EngineConfig};
use datapath::port::Port;
use datapath::port::fault::{Fault, FaultStats};
use datapath::port::memif::MemifPort;
use datapath::port::pcap_tap::PcapTap;
use datapath::port::sim::SimPort;
use datapath::port::steer::{SteerConfig, Steered};
use datapath::qpn::EngineId;
use std::io::Write;

/// The port of one of several engines. Whatever it is made of, the engine on it is of one type: one
/// for each would double what is compiled.
trait QueuePort: Port + Send {
    fn fault_stats(&self) -> FaultStats {
        FaultStats::default()
    }
}

impl QueuePort for SimPort {}
impl QueuePort for MemifPort {}
#[cfg(feature = "dpdk")]
impl<D: datapath::port::dpdk::Driver + Send> QueuePort for datapath::port::dpdk::DpdkPort<D> {}

impl<P: Port + Send> QueuePort for Fault<P> {
    fn fault_stats(&self) -> FaultStats {
        Self::fault_stats(self)
    }
}

impl<P: QueuePort, W: Write + Send> QueuePort for PcapTap<P, W> {
    fn fault_stats(&self) -> FaultStats {
        self.inner().fault_stats()
    }
}

impl QueuePort for Box<dyn QueuePort> {
    fn fault_stats(&self) -> FaultStats {
        (**self).fault_stats()
    }
}

impl Device {
    /// Opens a device with `engines=N` in its string: N devices, each with an engine of its own,
    /// which may each have a thread of its own. They share one port, with its addresses: each has a
    /// queue each way of it.
    ///
    /// Objects of one do not mix with those of another, and connections go from any engine here to
    /// any engine of a peer. What comes in at one engine's queue for another one's queue pair is
    /// handed over, so **all of them must be driven**. Connections by address
    /// ([`Listener`](crate::Listener), [`Connector`](crate::Connector)) are between engines of the
    /// same number.
    ///
    /// ```
    /// use verbs_api::{Device, Driver};
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let engines = Device::builder().driver(Driver::THREAD).open_engines("sim:engines,engines=2")?;
    /// assert_eq!((engines.len(), engines[0].mac()), (2, engines[1].mac()));
    /// assert_eq!(engines[1].engine().index(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Device::open`]; [`Error::Unsupported`] for a port that has one queue only.
    pub fn open_engines(text: &str) -> Result<Vec<Self>, Error> {
        Self::builder().open_engines(text)
    }

    /// The number of this device's engine among those of its port. Most ports have one only.
    #[must_use]
    pub fn engine(&self) -> EngineId {
        self.shared().config().engine
    }
}

impl DeviceBuilder {
    /// Opens all engines of a port, as [`Device::open_engines`] does. The sizes are those of each
    /// engine. The processor of the driver is the first engine's, and the other engines have the
    /// processors behind it.
    ///
    /// # Errors
    /// As [`Device::open_engines`] and [`DeviceBuilder::open`].
    pub fn open_engines(&self, text: &str) -> Result<Vec<Device>, Error> {
        self.open_engines_spec(&text.parse()?)
    }

    /// Opens the device that a parsed string names, with all its engines.
    ///
    /// # Errors
    /// As [`DeviceBuilder::open_engines`].
    pub fn open_engines_spec(&self, spec: &DeviceSpec) -> Result<Vec<Device>, Error> {
        if spec.engines == 1 {
            return Ok(vec![self.open_spec(spec)?]);
        }
        trace::open(spec, || self.open_each(spec), Vec::as_slice)
    }

    fn open_each(&self, spec: &DeviceSpec) -> Result<Vec<Device>, Error> {
        let (given, max) = (spec.engines.into(), EngineId::COUNT_MAX.into());
        if EngineId::all(spec.engines).is_none() {
            return Err(ConfigError::OutOfRange { what: "engines", given, min: 1, max }.into());
        }
        match &spec.transport {
            Transport::Sim { segment } => {
                let ports = crate::sim::attach_engines(segment, spec)?;
                let host = ports.first().map_or(0, SimPort::host);
                self.steered(
                    boxed(ports),
                    spec.ip.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 77, 0, host))),
                    spec,
                )
            }
            Transport::Memif { path, driver: PortDriver::Native, .. } => {
                let ports = crate::native_memif::open_engines(spec, path)?;
                self.steered(boxed(ports), spec.ip_or_default()?, spec)
            }
            #[cfg(feature = "dpdk")]
            Transport::Memif { path, .. } => {
                let (first, others) = crate::open::engine_queues(spec, path)?;
                let ports = boxed([first]).into_iter().chain(boxed(others)).collect();
                self.steered(ports, spec.ip_or_default()?, spec)
            }
            _ => Err(Error::Unsupported(
                "several engines share a memif or a sim: device, and no other port yet (without the feature `dpdk` of verbs-api, \
                 memif: without driver=dpdk only); take one of those, or leave engines= out",
            )),
        }
    }

    fn steered(
        &self,
        ports: Vec<Box<dyn QueuePort>>,
        ip: IpAddr,
        spec: &DeviceSpec,
    ) -> Result<Vec<Device>, Error> {
        let mut parts = Vec::with_capacity(ports.len());
        for (index, port) in (0..).zip(ports) {
            let part = spec.of_engine(index);
            parts.push((with_faults(port, &part)?, part));
        }
        let (ports, parts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let config = EngineConfig { ip, ..configured(self.sizes, spec)? };
        let steering = SteerConfig { ip, vlan: config.vlan, udp_port: config.udp_port };
        let steered = Steered::over(ports, &steering).unwrap_or_default();
        let open = |((engine, port), part): ((EngineId, Steered<Box<dyn QueuePort>>), DeviceSpec)| {
            let driver = part.driver.unwrap_or(driver_of_engine(self.driver, engine.index()));
            let config = drawn(EngineConfig { engine, ..config })?;
            let mut device = self.driver(driver).over(port, config, |port| port.inner().fault_stats())?;
            device.finish(&part)?;
            Ok(device)
        };
        steered.into_iter().zip(parts).map(open).collect()
    }
}

fn boxed<P: QueuePort + 'static>(ports: impl IntoIterator<Item = P>) -> Vec<Box<dyn QueuePort>> {
    ports.into_iter().map(|port| -> Box<dyn QueuePort> { Box::new(port) }).collect()
}

/// The port with the faults and the record of its frames that the device string asks for.
fn with_faults(port: Box<dyn QueuePort>, spec: &DeviceSpec) -> Result<Box<dyn QueuePort>, Error> {
    let port = match &spec.faults {
        Some(faults) => Box::new(Fault::new(port, faults)),
        None => port,
    };
    Ok(match &spec.pcap {
        Some(path) => Box::new(capture::tap(port, path)?),
        None => port,
    })
}
