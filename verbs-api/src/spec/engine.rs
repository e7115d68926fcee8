//! The part of a device string for one of several engines.

use super::DeviceSpec;
use crate::driver::Driver;
use crate::stat::StatAddress;
use datapath::port::fault::FaultConfig;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

impl DeviceSpec {
    /// Its part for engine `index`: what there can be only one of is the first engine's, and the
    /// others have the next processor, TCP port or random numbers, and `.1`, `.2` and so on behind
    /// a path.
    #[must_use]
    pub(crate) fn of_engine(&self, index: u8) -> Self {
        let driver = self.driver.map(|driver| driver_of_engine(driver, index));
        let faults =
            self.faults.map(|faults| FaultConfig { seed: faults.seed.wrapping_add(index.into()), ..faults });
        let pcap = self.pcap.as_deref().map(|path| path_of_engine(path, index));
        let stat = self.stat.as_ref().map(|address| match address {
            StatAddress::Unix(path) => StatAddress::Unix(path_of_engine(path, index)),
            // Port 0 is any that is free.
            StatAddress::Tcp(address) if address.port() == 0 => StatAddress::Tcp(*address),
            StatAddress::Tcp(address) => {
                let port = address.port().saturating_add(index.into());
                StatAddress::Tcp(SocketAddr::new(address.ip(), port))
            }
        });
        Self { driver, faults, pcap, stat, ..self.clone() }
    }
}

/// Threads that are bound to a processor each have one of their own.
pub(crate) fn driver_of_engine(driver: Driver, index: u8) -> Driver {
    match driver {
        Driver::Thread { cpu: Some(cpu) } => Driver::Thread { cpu: Some(cpu.saturating_add(index.into())) },
        other => other,
    }
}

fn path_of_engine(path: &Path, index: u8) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    if index > 0 {
        path.push(format!(".{index}"));
    }
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_a_processor_files_ports_and_random_numbers_of_its_own() {
        let text = "fault:loss=1%,seed=7:sim:a,engines=3,poll=thread@2,pcap=/tmp/a.pcap,stat=127.0.0.1:9464";
        let spec: DeviceSpec = text.parse().expect("a device");
        assert_eq!(spec.of_engine(0), spec);
        let expected =
            "fault:loss=1%,seed=9:sim:a,engines=3,poll=thread@4,pcap=/tmp/a.pcap.2,stat=127.0.0.1:9466";
        assert_eq!(Ok(spec.of_engine(2)), expected.parse());
        let unix: DeviceSpec = "sim:a,engines=2,poll=thread,stat=/run/a".parse().expect("a device");
        assert_eq!(Ok(unix.of_engine(1)), "sim:a,engines=2,poll=thread,stat=/run/a.1".parse());
        let no_processor: DeviceSpec =
            format!("sim:a,engines=2,poll=thread@{}", usize::MAX).parse().expect("a device");
        assert_eq!(no_processor.of_engine(1), no_processor, "which no thread can have");
        let any_port: DeviceSpec = "sim:a,engines=2,stat=127.0.0.1:0".parse().expect("a device");
        assert_eq!(any_port.of_engine(1), any_port);
    }
}
