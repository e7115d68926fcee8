//! The language: who sends what to whom.

use datapath::engine::WINDOW_LIMIT;
use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use serde::{Deserialize, Serialize};
use srnic_fabric::file::{FileError, SizesFile};
use std::fmt;
use wire::Pmtu;

/// Queue pairs of a scenario at most.
const QPS_MAX: u32 = 4096;
/// Bytes of a message at most.
const MESSAGE_MAX: u32 = 16 << 20;
/// Memory regions of an entry at most.
const REGIONS_MAX: u32 = 256;
/// Hosts at most.
const HOSTS_MAX: usize = 64;
/// Requests that a queue pair may have outstanding at most.
const DEPTH_MAX: u32 = 4096;

/// Why a text is no scenario.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It is no TOML, or has keys or words that are not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// The sizes are no distribution.
    #[error("{0}")]
    Sizes(#[from] FileError),
    /// A number that is out of its range.
    #[error("{key} must be from {least} to {most}, not {found}")]
    Range {
        /// Of which key.
        key: &'static str,
        /// The least that it may be.
        least: f64,
        /// The most.
        most: f64,
        /// What it is.
        found: f64,
    },
    /// A word that is none of those that are known.
    #[error("{key} must be one of {choices}")]
    Word {
        /// Of which key.
        key: &'static str,
        /// What it may be.
        choices: &'static str,
    },
    /// Nobody sends.
    #[error("there must be at least one [[workload]]")]
    Empty,
    /// An operation that its service does not have.
    #[error("service \"uc\" has no {0}: use \"rc\"")]
    Service(Op),
}

/// Who sends what to whom, and over what.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Everything random comes from it.
    pub seed: u32,
    /// Microseconds of virtual time in which requests are posted. What was posted may then end.
    pub time_us: u32,
    /// The links from each host to the switch, and back.
    pub link: Link,
    /// What goes wrong on every link.
    pub faults: Faults,
    /// What hosts are.
    pub host: Host,
    /// Who sends, all at once.
    pub workload: Vec<Entry>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            time_us: 100,
            link: Link::default(),
            faults: Faults::default(),
            host: Host::default(),
            workload: Vec::new(),
        }
    }
}

/// A link between a host and the switch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// 10^9 bits a second.
    pub gbps: f64,
    /// Nanoseconds that it takes.
    pub delay_ns: u32,
    /// Frames that may wait before it.
    pub queue: u32,
    /// Frames that wait before it from which on others are marked; none is if this is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
}

impl Default for Link {
    fn default() -> Self {
        Self { gbps: 25.0, delay_ns: 500, queue: 4096, mark: None }
    }
}

/// What goes wrong on links, as parts of all frames, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Lost one by one.
    pub loss: f64,
    /// So late that others overtake them.
    pub reorder: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Damaged.
    pub corrupt: f64,
    /// The longest that frames are late, in nanoseconds; 5,000 if it is 0.
    pub late_ns: u32,
}

/// What hosts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Nanoseconds that a turn of the engine takes.
    pub turn_ns: u32,
    /// Frames of the transmit ring.
    pub tx_ring: u32,
}

impl Default for Host {
    fn default() -> Self {
        Self { turn_ns: 200, tx_ring: 256 }
    }
}

/// One kind of traffic from a host to another, or to itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Entry {
    /// What results call it.
    pub name: String,
    /// The host that posts.
    pub from: usize,
    /// The host that it works on.
    pub to: usize,
    /// What it posts.
    pub op: Op,
    /// Bytes of each message: a number, `cache-follower`, or knots as in docs/fabric.md. Atomics
    /// have 8.
    pub sizes: SizesFile,
    /// Queue pairs.
    pub qps: u32,
    /// Requests that each has outstanding.
    pub depth: u32,
    /// Requests that are posted at once.
    pub batch: u32,
    /// Nanoseconds from one post of a queue pair to the next at least.
    pub pace_ns: u32,
    /// When it begins, in microseconds.
    pub start_us: u32,
    /// Packets that each may have under way.
    pub window: u16,
    /// Path MTU.
    pub mtu: u32,
    /// The transport service.
    pub service: Service,
    /// One in so many requests has a completion.
    pub signaled: u32,
    /// Elements of a request, or of a receive.
    pub elements: u32,
    /// Memory regions that requests take in turn.
    pub regions: u32,
    /// Receives that are posted; as many as requests may be outstanding if this is 0.
    pub receives: u32,
    /// Nanoseconds from one receive that is posted to the next at least.
    pub receive_ns: u32,
    /// Congestion control: `fixed`, `dctcp`, `swift`, `dcqcn`.
    pub congestion: String,
    /// `selective-repeat` or `go-back-n`.
    pub recovery: String,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            name: String::new(),
            from: 0,
            to: 1,
            op: Op::Write,
            sizes: SizesFile::Bytes(4096),
            qps: 1,
            depth: 16,
            batch: 1,
            pace_ns: 0,
            start_us: 0,
            window: 128,
            mtu: 1024,
            service: Service::Rc,
            signaled: 1,
            elements: 1,
            regions: 1,
            receives: 0,
            receive_ns: 0,
            congestion: "fixed".to_owned(),
            recovery: "selective-repeat".to_owned(),
        }
    }
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// SEND.
    Send,
    /// RDMA READ.
    Read,
    /// Fetch-and-add.
    Atomic,
}

impl Op {
    /// Whether the peer needs a receive for it.
    #[must_use]
    pub const fn takes_receive(self) -> bool {
        matches!(self, Self::WriteImm | Self::Send)
    }

    /// Whether data, or a word, come back.
    #[must_use]
    pub const fn has_response(self) -> bool {
        matches!(self, Self::Read | Self::Atomic)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Write => "write",
            Self::WriteImm => "write-imm",
            Self::Send => "send",
            Self::Read => "read",
            Self::Atomic => "atomic",
        })
    }
}

/// A transport service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
}

impl Scenario {
    /// Of a text: a file in TOML, or one inline table, as [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = if text.trim_start().starts_with('{') {
            #[derive(Deserialize)]
            struct Line {
                scenario: Scenario,
            }
            toml::from_str::<Line>(&format!("scenario = {}", text.trim()))?.scenario
        } else {
            toml::from_str(text)?
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.workload.iter().map(|entry| entry.from.max(entry.to) + 1).max().unwrap_or(0)
    }

    /// Whether it can be played.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn check(&self) -> Result<(), ScenarioError> {
        let Faults { loss, reorder, duplicate, corrupt, late_ns } = self.faults;
        let parts = [("loss", loss), ("reorder", reorder), ("duplicate", duplicate), ("corrupt", corrupt)];
        parts.into_iter().try_for_each(|(key, part)| within(key, part, (0.0, 0.9)))?;
        within("late_ns", late_ns, (0.0, 1e9))?;
        within("time_us", self.time_us, (1.0, 10e6))?;
        within("gbps", self.link.gbps, (0.001, 8000.0))?;
        within("delay_ns", self.link.delay_ns, (0.0, 1e9))?;
        within("queue", self.link.queue, (1.0, 1e6))?;
        within("turn_ns", self.host.turn_ns, (1.0, 1e7))?;
        within("tx_ring", self.host.tx_ring, (1.0, 65_536.0))?;
        if self.workload.is_empty() {
            return Err(ScenarioError::Empty);
        }
        self.workload.iter().try_for_each(Entry::check)?;
        within("qps, all together,", self.qps(), (1.0, f64::from(QPS_MAX)))
    }

    /// Queue pairs of all entries.
    #[must_use]
    pub fn qps(&self) -> u32 {
        self.workload.iter().fold(0, |sum, entry| entry.qps.saturating_add(sum))
    }
}

/// In one line.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = toml::Value::try_from(self).map_err(|_| fmt::Error)?;
        write!(f, "{}", differing(&value, &toml::Value::try_from(Self::default()).map_err(|_| fmt::Error)?))
    }
}

/// What of a value differs from the default: the rest need not be said.
fn differing(value: &toml::Value, default: &toml::Value) -> toml::Value {
    let entry = || toml::Value::try_from(Entry::default()).unwrap_or(toml::Value::Boolean(false));
    match (value, default) {
        (toml::Value::Table(table), toml::Value::Table(defaults)) => table
            .iter()
            .filter(|(key, value)| defaults.get(*key) != Some(value))
            .map(|(key, value)| {
                (key.clone(), defaults.get(key).map_or_else(|| value.clone(), |d| differing(value, d)))
            })
            .collect::<toml::Table>()
            .into(),
        (toml::Value::Array(entries), toml::Value::Array(none)) if none.is_empty() => {
            entries.iter().map(|value| differing(value, &entry())).collect::<Vec<_>>().into()
        }
        _ => value.clone(),
    }
}

impl Entry {
    fn check(&self) -> Result<(), ScenarioError> {
        within("from", u32::try_from(self.from).unwrap_or(u32::MAX), (0.0, HOSTS_MAX as f64 - 1.0))?;
        within("to", u32::try_from(self.to).unwrap_or(u32::MAX), (0.0, HOSTS_MAX as f64 - 1.0))?;
        let depth = (1.0, f64::from(DEPTH_MAX));
        within("qps", self.qps, (1.0, f64::from(QPS_MAX)))?;
        within("depth", self.depth, depth)?;
        within("batch", self.batch, depth)?;
        within("window", self.window, (1.0, f64::from(WINDOW_LIMIT)))?;
        within("signaled", self.signaled, (1.0, f64::from(self.depth)))?;
        within("elements", self.elements, (1.0, 8.0))?;
        within("regions", self.regions, (1.0, f64::from(REGIONS_MAX)))?;
        within("receives", self.receives, (0.0, f64::from(DEPTH_MAX)))?;
        within("sizes", self.sizes.clone().sizes()?.largest(), (0.0, f64::from(MESSAGE_MAX)))?;
        self.pmtu()?;
        self.congestion()?;
        self.recovery()?;
        if self.service == Service::Uc && self.op.has_response() {
            return Err(ScenarioError::Service(self.op));
        }
        Ok(())
    }

    /// The path MTU.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn pmtu(&self) -> Result<Pmtu, ScenarioError> {
        let found = Pmtu::ALL.into_iter().find(|pmtu| pmtu.bytes() == self.mtu);
        found.ok_or(ScenarioError::Word { key: "mtu", choices: "256, 512, 1024, 2048, 4096" })
    }

    /// The congestion controller.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn congestion(&self) -> Result<CongestionAlgorithm, ScenarioError> {
        Ok(match self.congestion.as_str() {
            "fixed" => CongestionAlgorithm::Fixed,
            "dctcp" => CongestionAlgorithm::Dctcp,
            "swift" => CongestionAlgorithm::Swift,
            "dcqcn" => CongestionAlgorithm::Dcqcn,
            _ => {
                let choices = "fixed, dctcp, swift, dcqcn";
                return Err(ScenarioError::Word { key: "congestion", choices });
            }
        })
    }

    /// How losses are repaired.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn recovery(&self) -> Result<RecoveryPolicy, ScenarioError> {
        match self.recovery.as_str() {
            "selective-repeat" => Ok(RecoveryPolicy::SelectiveRepeat),
            "go-back-n" => Ok(RecoveryPolicy::GoBackN),
            _ => Err(ScenarioError::Word { key: "recovery", choices: "selective-repeat, go-back-n" }),
        }
    }

    /// Receives that are posted.
    #[must_use]
    pub const fn receives_ahead(&self) -> u32 {
        if self.receives == 0 { self.depth } else { self.receives }
    }
}

fn within(key: &'static str, found: impl Into<f64>, (least, most): (f64, f64)) -> Result<(), ScenarioError> {
    let found = found.into();
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(ScenarioError::Range { key, least, most, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let text = "
            seed = 7
            [link]
            gbps = 100.0
            [faults]
            loss = 0.01
            [[workload]]
            op = 'read'
            qps = 4
            sizes = [[1.0, 0.0], [100.0, 1.0]]
            [[workload]]
            from = 1
            to = 0
            service = 'uc'";
        let scenario = Scenario::parse(text).expect("a scenario");
        let line = scenario.to_string();
        assert!(!line.contains('\n') && line.len() < 200, "{line}");
        assert_eq!(Scenario::parse(&line), Ok(scenario));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| Scenario::parse(text).expect_err("refused").to_string();
        assert!(refused("").contains("at least one [[workload]]"));
        assert!(refused("{workload = [{opp = 'write'}]}").contains("opp"));
        assert!(refused("{workload = [{op = 'fly'}]}").contains("fly"));
        assert!(refused("{workload = [{qps = 0}]}").contains("qps must be from 1 to 4096, not 0"));
        assert!(refused("{workload = [{qps = 4000}, {qps = 4000}]}").contains("all together"));
        assert!(refused("{workload = [{mtu = 1000}]}").contains("256, 512"));
        assert!(refused("{workload = [{sizes = 'large'}]}").contains("cache-follower"));
        assert!(refused("{faults = {loss = 1.5}, workload = [{}]}").contains("loss must be from 0"));
        assert!(refused("{workload = [{op = 'atomic', service = 'uc'}]}").contains("has no atomic"));
        assert!(refused("{workload = [{signaled = 17}]}").contains("signaled must be from 1 to 16"));
        assert!(refused("{workload = [{recovery = 'none'}]}").contains("go-back-n"));
    }
}
