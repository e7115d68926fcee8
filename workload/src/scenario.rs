//! The language: who sends what to whom.

mod entry;
mod tenant;

pub use entry::{Entry, Op, Service};
pub use tenant::{Costs, TenantEntry};

use entry::QPS_MAX;
use serde::{Deserialize, Serialize};
use srnic_fabric::file::FileError;
use std::fmt;
use tenant::TENANT_ENTRIES_MAX;

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
    /// A path MTU that its service does not have.
    #[error("service \"uc\" has no path MTU of {0}, which only the SRNIC dialect has: use \"rc\", or 1024")]
    PathMtu(u32),
    /// An operation that the service lacks.
    #[error("service \"uc\" has no {0}: use \"rc\"")]
    Service(Op),
    /// A tenant that no workload can name.
    #[error("each [[tenant]] needs a name")]
    Nameless,
    /// Two tenants of one name.
    #[error("there are two tenants of the name {0:?}")]
    Twice(String),
    /// A workload of a tenant that is not there.
    #[error("there is no [[tenant]] of the name {0:?}")]
    NoTenant(String),
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
    /// What operations cost of the caps of tenants.
    pub costs: Costs,
    /// Tenants, which every host has; without any, queue pairs take turns.
    pub tenant: Vec<TenantEntry>,
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
            costs: Costs::default(),
            tenant: Vec::new(),
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

impl Faults {
    fn check(&self) -> Result<(), ScenarioError> {
        let Self { loss, reorder, duplicate, corrupt, late_ns } = *self;
        let parts = [("loss", loss), ("reorder", reorder), ("duplicate", duplicate), ("corrupt", corrupt)];
        parts.into_iter().try_for_each(|(key, part)| within(key, part, (0.0, 0.9)))?;
        within("late_ns", late_ns, (0.0, 1e9))
    }
}

/// What hosts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Nanoseconds that a turn of the engine takes.
    pub turn_ns: u32,
    /// Frames of the transmit ring.
    pub tx_ring: u32,
    /// Frames of the receive ring, which loses what finds it full; 0: any number.
    pub rx_ring: u32,
    /// Nanoseconds that each frame takes beside, sent or received.
    pub frame_ns: u32,
    /// Picoseconds for each byte of them.
    pub byte_ps: u32,
    /// Nanoseconds for each atomic of a peer's.
    pub atomic_ns: u32,
    /// Nanoseconds for each call that creates, destroys or connects something.
    pub control_ns: u32,
    /// What waited longer for a host, in nanoseconds, counts as marked; 0: nothing does.
    pub marks_ns: u32,
    /// Delay of a host, in nanoseconds, above which its peers send to it at a rate; 0: they do not.
    pub target_ns: u32,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            turn_ns: 200,
            tx_ring: 256,
            rx_ring: 0,
            frame_ns: 0,
            byte_ps: 0,
            atomic_ns: 0,
            control_ns: 0,
            marks_ns: 0,
            target_ns: 0,
        }
    }
}

impl Host {
    /// Whether anything but turns takes time.
    #[must_use]
    pub const fn takes_time(&self) -> bool {
        self.frame_ns != 0 || self.byte_ps != 0 || self.atomic_ns != 0 || self.control_ns != 0
    }

    /// Whether it loses or marks what it cannot take, or is sent to at a rate.
    #[must_use]
    pub const fn holds_back(&self) -> bool {
        self.rx_ring != 0 || self.marks_ns != 0 || self.target_ns != 0
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let Self { frame_ns, byte_ps, atomic_ns, control_ns, rx_ring, marks_ns, target_ns, .. } = *self;
        within("rx_ring", rx_ring, (0.0, 65_536.0))?;
        within("marks_ns", marks_ns, (0.0, 1e9))?;
        within("target_ns", target_ns, (0.0, 4e6))?;
        let costs = [
            ("frame_ns", frame_ns),
            ("byte_ps", byte_ps),
            ("atomic_ns", atomic_ns),
            ("control_ns", control_ns),
        ];
        costs.into_iter().try_for_each(|(key, ns)| within(key, ns, (0.0, 1e7)))
    }
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
        self.faults.check()?;
        within("time_us", self.time_us, (1.0, 10e6))?;
        within("gbps", self.link.gbps, (0.001, 8000.0))?;
        within("delay_ns", self.link.delay_ns, (0.0, 1e9))?;
        within("queue", self.link.queue, (1.0, 1e6))?;
        within("turn_ns", self.host.turn_ns, (1.0, 1e7))?;
        within("tx_ring", self.host.tx_ring, (1.0, 65_536.0))?;
        self.host.check()?;
        self.check_tenants()?;
        if self.workload.is_empty() {
            return Err(ScenarioError::Empty);
        }
        self.workload.iter().try_for_each(Entry::check)?;
        within("qps, all together,", self.qps(), (1.0, f64::from(QPS_MAX)))
    }

    fn check_tenants(&self) -> Result<(), ScenarioError> {
        let count = u32::try_from(self.tenant.len()).unwrap_or(u32::MAX);
        within("the number of tenants", count, (0.0, TENANT_ENTRIES_MAX as f64))?;
        for (number, tenant) in self.tenant.iter().enumerate() {
            tenant.check()?;
            if self.tenant[..number].iter().any(|other| other.name == tenant.name) {
                return Err(ScenarioError::Twice(tenant.name.clone()));
            }
        }
        let named = self.workload.iter().map(|entry| &entry.tenant).filter(|name| !name.is_empty());
        let is_there = |name: &&String| self.tenant.iter().any(|tenant| tenant.name == **name);
        match named.into_iter().find(|name| !is_there(name)) {
            Some(name) => Err(ScenarioError::NoTenant(name.clone())),
            None => Ok(()),
        }
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
    let (toml::Value::Table(table), toml::Value::Table(defaults)) = (value, default) else {
        return value.clone();
    };
    let part = |(key, value): (&String, &toml::Value)| {
        let part = match (value, defaults.get(key)) {
            (toml::Value::Array(entries), _) if key == "workload" => each(entries, &Entry::default()),
            (toml::Value::Array(entries), _) if key == "tenant" => each(entries, &TenantEntry::default()),
            (_, Some(default)) => differing(value, default),
            (_, None) => value.clone(),
        };
        (key.clone(), part)
    };
    let differs = |(key, value): &(&String, &toml::Value)| defaults.get(*key) != Some(*value);
    table.iter().filter(differs).map(part).collect::<toml::Table>().into()
}

/// What of each of several tables differs from the default.
fn each(tables: &[toml::Value], default: &impl Serialize) -> toml::Value {
    let default = toml::Value::try_from(default).unwrap_or(toml::Value::Boolean(false));
    tables.iter().map(|table| differing(table, &default)).collect::<Vec<_>>().into()
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
            [[tenant]]
            name = 'a'
            class = 'bulk'
            [[workload]]
            op = 'read'
            tenant = 'a'
            faults = {reorder = 0.5}
            qps = 4
            sizes = [[1.0, 0.0], [100.0, 1.0]]
            [[workload]]
            from = 1
            to = 0
            service = 'uc'";
        let scenario = Scenario::parse(text).expect("a scenario");
        let line = scenario.to_string();
        assert!(!line.contains('\n') && line.len() < 300, "{line}");
        assert_eq!(Scenario::parse(&line), Ok(scenario));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| Scenario::parse(text).expect_err("refused").to_string();
        assert!(refused("").contains("at least one [[workload]]"));
        assert!(refused("{workload = [{opp = 'write'}]}").contains("opp"));
        assert!(refused("{workload = [{op = 'fly'}]}").contains("fly"));
        assert!(refused("{workload = [{qps = 0}]}").contains("qps must be from 1 to 16384, not 0"));
        assert!(refused("{workload = [{qps = 9000}, {qps = 9000}]}").contains("all together"));
        assert!(refused("{workload = [{mtu = 1000}]}").contains("256, 512"));
        assert!(refused("{workload = [{sizes = 'large'}]}").contains("cache-follower"));
        assert!(refused("{faults = {loss = 1.5}, workload = [{}]}").contains("loss must be from 0"));
        assert!(refused("{workload = [{op = 'atomic', service = 'uc'}]}").contains("has no atomic"));
        assert!(refused("{workload = [{mtu = 1408, service = 'uc'}]}").contains("or 1024"));
        assert!(refused("{workload = [{signaled = 17}]}").contains("signaled must be from 1 to 16"));
        assert!(refused("{workload = [{recovery = 'none'}]}").contains("go-back-n"));
        assert!(refused("{workload = [{tenant = 'a'}]}").contains("no [[tenant]] of the name \"a\""));
        let tenants = |text: &str| refused(&format!("{{tenant = [{text}], workload = [{{}}]}}"));
        assert!(tenants("{}").contains("needs a name"));
        assert!(tenants("{name = 'a'}, {name = 'a'}").contains("two tenants"));
        assert!(tenants("{name = 'a', weight = 257}").contains("weight must be from 1 to 256"));
        assert!(tenants("{name = 'a', class = 'best'}").contains("latency, normal"));
        assert!(tenants("{name = 'a', bytes_per_s = 5}").contains("bytes_per_s must be from 1000000"));
        assert!(refused("{workload = [{op = 'create'}]}").contains("pace_ns"));
        assert!(refused("{workload = [{faults = {corrupt = 0.1}}]}").contains("[faults] is for all"));
        assert!(refused("{workload = [{op = 'bad-key', service = 'uc'}]}").contains("has no bad-key"));
    }
}
