//! What an engine is made with.

use crate::latency::LatencyConfig;
use crate::qpn::EngineId;
use crate::sched::{CostTable, HostRateConfig, SchedulerConfig};
use crate::seed::Seed;
use crate::stream::{RtoConfig, SEQUENCE_LIMIT, sequence_window};
use core::net::{IpAddr, Ipv4Addr};
use sr_recovery::SlowPathConfig;

/// Largest window, in packets: META must stay unambiguous (protocol.md 2.2).
pub const WINDOW_LIMIT: u16 = SEQUENCE_LIMIT;

/// When acknowledgements of packets in order go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AckTiming {
    /// In the turn that took the packet in, if the sender asks; else in the first turn in which its
    /// stream is silent.
    #[default]
    AtOnce,
    /// As `AtOnce`, but the acknowledgements that a stream's sender did not ask for are 4 us apart
    /// or cover 16 packets. It suits a driver that runs turn after turn.
    Spaced,
    /// As `Spaced`; one that is asked for goes out behind what is posted next
    /// ([`Engine::push`](crate::engine::Engine::push)), in the next turn if nothing is.
    BehindPosts,
}

/// Addresses and sizes of an engine. Everything is allocated when it is made.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// IP address of the device.
    pub ip: IpAddr,
    /// VLAN tag of its frames.
    pub vlan: Option<u16>,
    /// UDP port of RoCEv2; a RoCE-capable NIC may take 4791 for itself.
    pub udp_port: u16,
    /// Queue pairs at most.
    pub max_qps: u32,
    /// Completion queues at most.
    pub max_cqs: usize,
    /// Shared receive queues at most.
    pub max_srqs: usize,
    /// Memory regions at most.
    pub max_mrs: usize,
    /// Address handles at most.
    pub max_ahs: u32,
    /// Largest window of a queue pair, in packets; at most 2^14.
    pub window_max: u16,
    /// Streams that can be in Recovery at the same time; more drop what is out of order.
    pub recovery_contexts: u32,
    /// Queue pairs beyond which what each needs is fetched ahead, and its timer disarmed when
    /// nothing is awaited: about as many as stay in the first caches.
    pub crowd: u32,
    /// Floors of the timers.
    pub rto: RtoConfig,
    /// How queue pairs share the transmit batches.
    pub scheduler: SchedulerConfig,
    /// What operations cost of a tenant's cap in operations.
    pub costs: CostTable,
    /// When acknowledgements go out.
    pub acks: AckTiming,
    /// What came counts as marked by a switch if it waited longer in the port than so many
    /// nanoseconds, or if the slow path's queue is half full; the acknowledgement says that the
    /// host marked it (protocol.md 2.2). 0: never.
    pub host_marks_ns: u32,
    /// Hosts that do not keep up are sent to no faster than they take it, as their acknowledgements
    /// say (docs/adr/0074); `None`: windows alone decide.
    pub host_rates: Option<HostRateConfig>,
    /// Which operations are sampled for where their time goes; `None`: none.
    pub latency: Option<LatencyConfig>,
    /// Which of the engines of its device it is: part of its QPNs.
    pub engine: EngineId,
    /// Makes the rest of the QPNs, and the first PSNs of connections.
    pub seed: Seed,
    /// Makes the keys of memory. It is another one than `seed`: peers see QPNs and PSNs, and keys
    /// are granted.
    pub key_seed: Seed,
    /// When the device was opened, the smaller the older it is; its engines have the same. It says
    /// which of two hosts with one address keeps it (docs/protocol.md 1.13). The first bit does not
    /// count. Zeros: there is none.
    pub host_nonce: [u8; 6],
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            vlan: None,
            udp_port: 4791,
            max_qps: 1024,
            max_cqs: 1024,
            max_srqs: 1024,
            max_mrs: 4096,
            max_ahs: 4096,
            window_max: 512,
            recovery_contexts: 64,
            crowd: 256,
            rto: RtoConfig::default(),
            scheduler: SchedulerConfig::default(),
            costs: CostTable::default(),
            acks: AckTiming::default(),
            host_marks_ns: 0,
            host_rates: None,
            latency: None,
            engine: EngineId::default(),
            seed: Seed::from(0),
            key_seed: Seed::from(0),
            host_nonce: [0; 6],
        }
    }
}

/// Why an engine cannot be made as asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A size is out of range.
    #[error("{what} is {given}; it must be between {min} and {max}")]
    OutOfRange {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// Least value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A rate of hosts is out of range.
    #[error("host_rates: {0}")]
    HostRates(cc_dctcp::ConfigError),
    /// The port's frames are too short for any packet.
    #[error("the port takes frames of {max_frame} bytes; the smallest path MTU needs {needed}")]
    FramesTooShort {
        /// Longest frame of the port.
        max_frame: usize,
        /// Longest frame at path MTU 256.
        needed: usize,
    },
}

impl EngineConfig {
    /// Packets ahead of ePSN that every queue pair takes: the sequence window of the largest
    /// window.
    #[must_use]
    pub const fn sequence_max(&self) -> u16 {
        sequence_window(self.window_max)
    }

    /// The slow path for an engine of this size.
    #[must_use]
    pub const fn slow_path(&self) -> SlowPathConfig {
        SlowPathConfig {
            max_streams: self.max_qps * 2,
            window_max: self.sequence_max() as u32,
            contexts: self.recovery_contexts * 2,
        }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`ConfigError`] names the size and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |what, given: u64, min: u64, max: u64| {
            if (min..=max).contains(&given) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange { what, given, min, max })
            }
        };
        let max_qps = if self.engine.count() == 1 { "max_qps" } else { "max_qps of each engine" };
        check(max_qps, self.max_qps.into(), 1, self.engine.qps_max().into())?;
        check("max_cqs", self.max_cqs as u64, 1, 1 << 24)?;
        check("max_srqs", self.max_srqs as u64, 0, 1 << 24)?;
        check("max_mrs", self.max_mrs as u64, 1, 1 << 24)?;
        check("max_ahs", self.max_ahs.into(), 0, 1 << 24)?;
        check("window_max", self.window_max.into(), 1, WINDOW_LIMIT.into())?;
        check("recovery_contexts", self.recovery_contexts.into(), 1, 1 << 20)?;
        // A timer of 0 is due again at once, and the turn in which it fires never ends.
        check("rto.low_floor_ns", self.rto.low_floor_ns, 1, u64::MAX)?;
        check("rto.tail_floor_ns", self.rto.tail_floor_ns, 1, u64::MAX)?;
        if let Some(rates) = &self.host_rates {
            rates.validate().map_err(ConfigError::HostRates)?;
        }
        if let Some(latency) = &self.latency {
            check("latency.one_in", latency.one_in.into(), 1, LatencyConfig::ONE_IN_MAX.into())?;
        }
        check("udp_port", self.udp_port.into(), 1, 65_535)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each queue pair that is made in a slot has another number than the last sixteen, or so late
    /// packets are for it.
    #[test]
    fn engines_of_a_device_share_the_numbers_of_queue_pairs() {
        for (engines, most) in [(1, 1 << 20), (2, 1 << 19), (3, 1 << 18), (8, 1 << 17)] {
            for engine in EngineId::all(engines).expect("possible") {
                let with = |max_qps| EngineConfig { max_qps, engine, ..EngineConfig::default() }.validate();
                assert_eq!(with(most), Ok(()));
                let what = if engines == 1 { "max_qps" } else { "max_qps of each engine" };
                let given = u64::from(most) + 1;
                let refused = ConfigError::OutOfRange { what, given, min: 1, max: most.into() };
                assert_eq!(with(most + 1), Err(refused));
            }
        }
    }

    /// A timer of 0 would be due again at once, and the turn that asks would not end.
    #[test]
    fn timers_have_floors() {
        let with = |rto| EngineConfig { rto, ..EngineConfig::default() }.validate();
        let default = RtoConfig::default();
        assert_eq!(with(default), Ok(()));
        for (what, rto) in [
            ("rto.low_floor_ns", RtoConfig { low_floor_ns: 0, ..default }),
            ("rto.tail_floor_ns", RtoConfig { tail_floor_ns: 0, ..default }),
        ] {
            let expected = ConfigError::OutOfRange { what, given: 0, min: 1, max: u64::MAX };
            assert_eq!(with(rto), Err(expected));
        }
    }
}
