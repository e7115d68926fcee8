//! Sizes of both sides: windows that no path here is too long for, and packets as long as the path
//! takes.

use crate::{Common, Congestion, Outcome};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::{EndpointConfig, MtuDiscoveryConfig, TransportConfig, VarInt};
use std::sync::Arc;

/// Bytes that may be under way, and that either side keeps.
const WINDOW: u32 = 32 << 20;
/// Headers of IPv4 and UDP.
const HEADERS: u16 = 28;

pub fn endpoint(common: &Common) -> Outcome<EndpointConfig> {
    let mut endpoint = EndpointConfig::default();
    endpoint.max_udp_payload_size(common.mtu - HEADERS)?;
    Ok(endpoint)
}

pub fn transport(common: &Common) -> Arc<TransportConfig> {
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match common.congestion {
        Congestion::Cubic => Arc::new(CubicConfig::default()),
        Congestion::Bbr => Arc::new(BbrConfig::default()),
    };
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(common.mtu - HEADERS);
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(congestion)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into())
        .mtu_discovery_config(Some(discovery));
    Arc::new(transport)
}

/// Binds this process to a processor.
pub fn pin(cpu: usize) -> Outcome<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cpu >= CpuSet::MAX_CPU {
        return Err(format!("there is no processor {cpu}").into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
