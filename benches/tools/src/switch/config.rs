//! A port of the switch as people write it: `queue:frames=256,mark=65,rate=10G:memif:/run/a.sock`.

use core::str::FromStr;
use verbs_api::{DeviceSpec, Keys, OptionError, Role, SpecError, Transport};

/// Longest queue.
const FRAMES_MAX: usize = 65_536;
/// Length of a queue, unless told otherwise.
const FRAMES_DEFAULT: usize = 256;

const KEYS: Keys = Keys { of: "queue", names: &["frames", "mark", "rate"], example: "frames=256" };

/// The queue in front of a port. The default is none: what the port's own ring does not take is
/// lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueConfig {
    /// Frames that wait at most; one more is dropped.
    pub frames: usize,
    /// ECN-capable packets are marked CE that find so many waiting.
    pub mark: Option<usize>,
    /// Megabits a second that leave, wire overhead included; as fast as the port goes if `None`.
    pub rate_mbps: Option<u32>,
}

impl FromStr for QueueConfig {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut queue = Self { frames: FRAMES_DEFAULT, ..Self::default() };
        let frames = |value: &str| value.parse().ok().filter(|count| (0..=FRAMES_MAX).contains(count));
        KEYS.read(text.split(',').filter(|item| !item.is_empty()), |key, value| {
            match key {
                "frames" => queue.frames = frames(value).ok_or("a number of frames from 0 to 65536")?,
                "mark" => queue.mark = Some(frames(value).ok_or("a number of frames from 0 to 65536")?),
                _ => queue.rate_mbps = Some(rate(value).ok_or("a rate from 1M to 1000G, as in 10G")?),
            }
            Ok(())
        })?;
        Ok(queue)
    }
}

/// Megabits a second of `250M` or `10G`.
fn rate(value: &str) -> Option<u32> {
    let (number, factor) = value
        .strip_suffix('G')
        .map(|number| (number, 1000))
        .or_else(|| value.strip_suffix('M').map(|number| (number, 1)))?;
    let mbps = number.parse::<u32>().ok()?.checked_mul(factor)?;
    (1..=1_000_000).contains(&mbps).then_some(mbps)
}

/// A port: what moves its frames, faults around it, and the queue in front of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// The text that it was read from.
    pub text: String,
    /// The device; of a memif the end that makes the socket.
    pub device: DeviceSpec,
    /// Its queue.
    pub queue: QueueConfig,
}

/// Why a port makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortSpecError {
    /// The device.
    #[error(transparent)]
    Device(#[from] SpecError),
    /// Nothing behind the queue.
    #[error(
        "`queue:` must be followed by its options, a colon and a device: queue:frames=256,mark=65:memif:.."
    )]
    QueueForm,
    /// A queue behind faults.
    #[error("`queue:` goes before `fault:`: queue:frames=256,mark=65:fault:loss=1%:memif:..")]
    QueueOrder,
    /// The queue's options.
    #[error("in `queue:`: {0}")]
    Queue(#[from] OptionError),
    /// A device that nobody outside of the process can reach.
    #[error("a sim: device reaches nobody outside of the switch; give it memif:, vhost: or af_packet: ports")]
    Sim,
    /// A port of another switch, which no switch joins.
    #[error("a pool has ports for hosts and none for switches; join two switches by a memif: port of each")]
    Pool,
    /// What takes an engine.
    #[error(
        "a port of the switch is neither recorded nor looked into: leave pcap= and stat= out, and give them to its host's device"
    )]
    Engine,
}

impl FromStr for PortSpec {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<Self, PortSpecError> {
        let (queue, device) = match text.strip_prefix("queue:") {
            Some(rest) => {
                let (queue, device) = rest.split_once(':').ok_or(PortSpecError::QueueForm)?;
                (queue.parse()?, device)
            }
            None => (QueueConfig::default(), text),
        };
        let device = device.parse::<DeviceSpec>().map_err(|error| match error {
            SpecError::UnknownScheme { scheme } if scheme == "queue" => PortSpecError::QueueOrder,
            other => other.into(),
        })?;
        let device = device.or_role(Role::Server);
        if matches!(device.transport, Transport::Sim { .. }) {
            return Err(PortSpecError::Sim);
        }
        if matches!(device.transport, Transport::Pool { .. }) {
            return Err(PortSpecError::Pool);
        }
        if device.pcap.is_some() || device.stat.is_some() {
            return Err(PortSpecError::Engine);
        }
        Ok(Self { text: text.to_owned(), device, queue })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> String {
        text.parse::<PortSpec>().expect_err("it makes no sense").to_string()
    }

    #[test]
    fn a_port_has_a_queue_faults_and_a_device() {
        let port: PortSpec =
            "queue:frames=100,mark=20,rate=10G:fault:loss=1%:memif:/a".parse().expect("a port");
        assert_eq!(port.queue, QueueConfig { frames: 100, mark: Some(20), rate_mbps: Some(10_000) });
        assert!(port.device.faults.is_some());
        assert_eq!(port.device.role(), Ok(Some(Role::Server)));
        let plain: PortSpec = "af_packet:eth1".parse().expect("it needs no address");
        assert_eq!(plain.queue, QueueConfig::default());
        let short: PortSpec = "queue:rate=250M:memif:/a".parse().expect("a port");
        assert_eq!((short.queue.frames, short.queue.rate_mbps), (256, Some(250)));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(fails("queue:frames=1").contains("must be followed by"));
        assert!(fails("queue:frames=70000:memif:/a").contains("from 0 to 65536"));
        assert!(fails("queue:rate=10:memif:/a").contains("from 1M to 1000G"));
        assert!(fails("queue:rate=2000G:memif:/a").contains("from 1M to 1000G"));
        assert!(fails("queue:depth=1:memif:/a").contains("keys are frames, mark, rate"));
        assert!(fails("fault:loss=1%:queue:frames=3:memif:/a").starts_with("`queue:` goes before `fault:`"));
        assert!(fails("memif:").contains("memif:/run/srnic.sock"));
        assert!(fails("sim:a").contains("memif:, vhost: or af_packet:"));
    }
}
