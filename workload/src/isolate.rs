//! Attackers by victims, after Husky (NSDI '23): what a victim keeps of what is guaranteed to it,
//! without tenants and with them.
//!
//! A [`Matrix`] has entries of the language for both sides. Each pair is played twice: in turns of
//! queue pairs, and with a tenant for each side. A victim always has something to send, so that
//! what it has alone is what there is, and its share by weight is guaranteed to it.

mod reason;
mod run;

pub use run::{Played, run};

use crate::scenario::{Costs, Entry, Host, Link, Scenario, ScenarioError, TenantEntry};
use datapath::sched::TenantAttr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The name of the tenant of attackers, and of that of victims.
const TENANTS: [&str; 2] = ["attacker", "victim"];
/// What a victim must keep of the lesser of what it has alone and what is guaranteed, if nothing
/// else is said.
pub const NEEDS: f64 = 0.75;
/// What it should keep.
pub const AIM: f64 = 0.8;

/// Attackers, victims, and where they meet.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matrix {
    /// Everything random comes from it.
    pub seed: u32,
    /// Microseconds for which victims are measured.
    pub time_us: u32,
    /// Microseconds for which attackers are there before.
    pub lead_us: u32,
    /// The links of all hosts.
    pub link: Link,
    /// The hosts.
    pub host: Host,
    /// How the two sides share hosts.
    pub policy: Policy,
    /// Who attacks.
    pub attacker: Vec<Side>,
    /// Who suffers.
    pub victim: Vec<Side>,
}

impl Default for Matrix {
    fn default() -> Self {
        Self {
            seed: 1,
            time_us: 1_000,
            lead_us: 200,
            link: Link::default(),
            host: Host::default(),
            policy: Policy::default(),
            attacker: Vec::new(),
            victim: Vec::new(),
        }
    }
}

/// Two tenants, `attacker` and `victim`, and what operations cost of their caps.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Costs of operations.
    pub costs: Costs,
    /// The tenants; one that is not given has the defaults.
    pub tenant: Vec<TenantEntry>,
}

impl Policy {
    /// Of a text in TOML, as [`Policy::text`] writes it.
    ///
    /// # Errors
    /// [`MatrixError::Toml`].
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        Ok(toml::from_str(text)?)
    }

    /// As a text in TOML.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The attacker's tenant and the victim's, as an engine takes them.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn tenants(&self) -> Result<[TenantAttr; 2], ScenarioError> {
        let [attacker, victim] = TENANTS.map(|name| self.tenant(name).attr());
        Ok([attacker?, victim?])
    }

    fn tenant(&self, name: &str) -> TenantEntry {
        let given = self.tenant.iter().find(|tenant| tenant.name == name);
        given.cloned().unwrap_or_else(|| TenantEntry { name: name.to_owned(), ..TenantEntry::default() })
    }

    /// The part of a host that is guaranteed to a victim.
    fn share(&self) -> f64 {
        let [attacker, victim] = TENANTS.map(|name| f64::from(self.tenant(name).weight));
        victim / (attacker + victim)
    }
}

/// An attacker or a victim.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// What results call it.
    pub name: String,
    /// What victims of this attacker must keep.
    #[serde(default = "needs")]
    pub needs: f64,
    /// What it does.
    pub workload: Vec<Entry>,
}

const fn needs() -> f64 {
    NEEDS
}

/// A cap on something that took `before` nanoseconds and takes `now`. It stays a cap, and it stays
/// what it is where one of them is nothing.
fn scaled(cap: u64, before: u32, now: u32) -> u64 {
    if cap == 0 || before == 0 || now == 0 {
        return cap;
    }
    let scaled = u128::from(cap) * u128::from(before) / u128::from(now);
    u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
}

/// Why a text is no matrix.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MatrixError {
    /// It is no TOML, or has keys that are not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// An attacker with a victim is no scenario.
    #[error("{pair}: {error}")]
    Scenario {
        /// Which.
        pair: String,
        /// Why.
        error: ScenarioError,
    },
    /// Attackers, or victims, are missing.
    #[error("there must be at least one [[{0}]]")]
    Empty(&'static str),
    /// Two of one name.
    #[error("there are two [[{side}]] of the name {name:?}")]
    Twice {
        /// On which side.
        side: &'static str,
        /// The name.
        name: String,
    },
    /// A name that nobody has.
    #[error("there is no {side} {name:?}; there are {names}")]
    NoSuch {
        /// On which side.
        side: &'static str,
        /// The name.
        name: String,
        /// Those that there are.
        names: String,
    },
    /// A tenant of another name.
    #[error("a [[policy.tenant]] must be \"attacker\" or \"victim\", not {0:?}")]
    Tenant(String),
    /// A part that is none.
    #[error("needs of {0:?} must be above 0 and at most 1")]
    Needs(String),
}

/// One run: a victim alone, or beside an attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// The number of the attacker, if there is one.
    pub attacker: Option<usize>,
    /// The number of the victim.
    pub victim: usize,
    /// Whether each side is a tenant.
    pub policy: bool,
}

/// What came of an attacker and a victim. Rates are 10^9 bits of the victim's payload a second.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// The attacker's name.
    pub attacker: String,
    /// The victim's name.
    pub victim: String,
    /// What the victim has to keep, 0 to 1.
    pub needs: f64,
    /// What the victim has alone.
    pub alone: f64,
    /// Its share by weight.
    pub guaranteed: f64,
    /// What it has beside the attacker in turns of queue pairs.
    pub off: f64,
    /// What it has where both are tenants.
    pub on: f64,
    /// Where it keeps too little: what was scarce.
    pub reason: Option<String>,
    /// The scenario with tenants.
    pub scenario: Scenario,
}

impl Pair {
    /// What the victim keeps of the lesser of both, without tenants and with them.
    #[must_use]
    pub fn kept(&self) -> [f64; 2] {
        [self.off, self.on].map(|rate| rate / self.alone.min(self.guaranteed).max(f64::MIN_POSITIVE))
    }

    /// Whether it keeps enough, without tenants and with them.
    #[must_use]
    pub fn holds(&self) -> [bool; 2] {
        self.kept().map(|kept| kept >= self.needs)
    }
}

impl Matrix {
    /// The matrix of this crate: `workload/src/isolate/matrix.toml`.
    ///
    /// # Panics
    /// If that file is wrong, which tests see.
    #[must_use]
    pub fn standard() -> Self {
        Self::parse(Self::STANDARD).expect("tests have read it")
    }

    /// The text of it.
    pub const STANDARD: &'static str = include_str!("isolate/matrix.toml");

    /// Of a text in TOML.
    ///
    /// # Errors
    /// [`MatrixError`].
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let matrix: Self = toml::from_str(text)?;
        for (side, sides) in [("attacker", &matrix.attacker), ("victim", &matrix.victim)] {
            if sides.is_empty() {
                return Err(MatrixError::Empty(side));
            }
            for (number, Side { name, needs, .. }) in sides.iter().enumerate() {
                if sides[..number].iter().any(|other| other.name == *name) {
                    return Err(MatrixError::Twice { side, name: name.clone() });
                }
                if !(*needs > 0.0 && *needs <= 1.0) {
                    return Err(MatrixError::Needs(name.clone()));
                }
            }
        }
        let other = matrix.policy.tenant.iter().find(|tenant| !TENANTS.contains(&tenant.name.as_str()));
        if let Some(tenant) = other {
            return Err(MatrixError::Tenant(tenant.name.clone()));
        }
        matrix.check()?;
        Ok(matrix)
    }

    /// Hosts and costs as `srnic calibrate` writes them. Caps in operations, sent and received,
    /// change as much as the time of a frame, those of control calls as much as the time of one.
    ///
    /// # Errors
    /// [`MatrixError::Toml`], and those of [`Matrix::check`].
    pub fn calibrate(&mut self, text: &str) -> Result<(), MatrixError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Calibrated {
            costs: Costs,
            host: Host,
        }
        let Calibrated { costs, host } = toml::from_str(text)?;
        let before = self.host;
        let Host { tx_ring, rx_ring, marks_ns, target_ns, .. } = before;
        self.host = Host { tx_ring, rx_ring, marks_ns, target_ns, ..host };
        self.policy.costs = costs;
        for tenant in &mut self.policy.tenant {
            for cap in [&mut tenant.operations_per_s, &mut tenant.rx_operations_per_s] {
                *cap = scaled(*cap, before.frame_ns, host.frame_ns);
            }
            let calls = scaled(tenant.control_per_s.into(), before.control_ns, host.control_ns);
            tenant.control_per_s = u32::try_from(calls).unwrap_or(u32::MAX);
        }
        self.check()
    }

    /// Whether each of its scenarios can be played.
    ///
    /// # Errors
    /// [`MatrixError::Scenario`].
    pub fn check(&self) -> Result<(), MatrixError> {
        self.tasks().into_iter().try_for_each(|task| {
            let pair = || self.words(task);
            self.scenario(task).check().map_err(|error| MatrixError::Scenario { pair: pair(), error })
        })
    }

    /// Only these attackers and victims; all of a side if its list is empty.
    ///
    /// # Errors
    /// [`MatrixError::NoSuch`].
    pub fn only(mut self, attackers: &[String], victims: &[String]) -> Result<Self, MatrixError> {
        for (side, sides, names) in
            [("attacker", &mut self.attacker, attackers), ("victim", &mut self.victim, victims)]
        {
            if let Some(name) = names.iter().find(|name| !sides.iter().any(|side| side.name == **name)) {
                let names: Vec<_> = sides.iter().map(|side| side.name.as_str()).collect();
                return Err(MatrixError::NoSuch { side, name: name.clone(), names: names.join(", ") });
            }
            sides.retain(|side| names.is_empty() || names.contains(&side.name));
        }
        Ok(self)
    }

    /// The numbers of each attacker and each victim.
    #[must_use]
    pub fn couples(&self) -> Vec<(usize, usize)> {
        let victims = 0..self.victim.len();
        let with_each = |attacker| victims.clone().map(move |victim| (attacker, victim));
        (0..self.attacker.len()).flat_map(with_each).collect()
    }

    /// All runs of [`Matrix::couples`].
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        Self::tasks_of(&self.couples())
    }

    /// The runs of some: each victim alone, and then each pair without tenants and with them.
    #[must_use]
    pub fn tasks_of(couples: &[(usize, usize)]) -> Vec<Task> {
        let victims: BTreeSet<usize> = couples.iter().map(|(_, victim)| *victim).collect();
        let alone = victims.into_iter().map(|victim| Task { attacker: None, victim, policy: false });
        let pairs = couples.iter().flat_map(|(attacker, victim)| {
            [false, true].map(|policy| Task { attacker: Some(*attacker), victim: *victim, policy })
        });
        alone.chain(pairs).collect()
    }

    /// A run, in words.
    #[must_use]
    pub fn words(&self, task: Task) -> String {
        let victim = &self.victim[task.victim].name;
        match task.attacker {
            None => format!("{victim} alone"),
            Some(attacker) => format!("{victim} beside {}", self.attacker[attacker].name),
        }
    }

    /// What is played. The victim's entries come first.
    #[must_use]
    pub fn scenario(&self, task: Task) -> Scenario {
        let tenant = |name: &str| if task.policy { name.to_owned() } else { String::new() };
        let [attacker, victim] = TENANTS.map(tenant);
        let mut workload = self.victim[task.victim].workload.clone();
        for entry in &mut workload {
            (entry.tenant, entry.start_us) = (victim.clone(), entry.start_us.saturating_add(self.lead_us));
        }
        if let Some(number) = task.attacker {
            let entries = self.attacker[number].workload.iter();
            workload.extend(entries.map(|entry| Entry { tenant: attacker.clone(), ..entry.clone() }));
        }
        Scenario {
            seed: self.seed,
            time_us: self.lead_us.saturating_add(self.time_us),
            link: self.link.clone(),
            host: self.host,
            costs: if task.policy { self.policy.costs } else { Costs::default() },
            tenant: if task.policy {
                TENANTS.map(|name| self.policy.tenant(name)).to_vec()
            } else {
                Vec::new()
            },
            workload,
            ..Scenario::default()
        }
    }

    /// The part of a host that is guaranteed to a victim.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.policy.share()
    }

    /// The pairs of which all runs are there.
    #[must_use]
    pub fn pairs(&self, played: &[(Task, Played)]) -> Vec<Pair> {
        let of = |task: Task| played.iter().find(|(done, _)| *done == task).map(|(_, played)| played);
        let pair = |(number, victim)| {
            let task = |attacker, policy| Task { attacker, victim, policy };
            let with = task(Some(number), true);
            let alone = of(task(None, false))?.gbps;
            let (off, on) = (of(task(Some(number), false))?.gbps, of(with)?);
            let attacker = &self.attacker[number];
            let mut pair = Pair {
                attacker: attacker.name.clone(),
                victim: self.victim[victim].name.clone(),
                needs: attacker.needs,
                alone,
                guaranteed: alone * self.share(),
                off,
                on: on.gbps,
                reason: None,
                scenario: self.scenario(with),
            };
            pair.reason = (!pair.holds()[1]).then(|| on.scarce.clone());
            Some(pair)
        };
        self.couples().into_iter().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_matrix_is_one() {
        let matrix = Matrix::standard();
        assert!(matrix.attacker.len() >= 10, "attackers");
        assert_eq!(matrix.victim.len(), 9);
        assert_eq!(matrix.tasks().len(), 9 + 2 * 9 * matrix.attacker.len());
        for task in matrix.tasks() {
            let scenario = matrix.scenario(task);
            assert_eq!(Scenario::parse(&scenario.to_string()), Ok(scenario), "{}", matrix.words(task));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| Matrix::parse(text).expect_err("refused").to_string();
        let sides = "attacker = [{name = 'a', workload = [{}]}]\nvictim = [{name = 'v', workload = [{}]}]\n";
        assert!(Matrix::parse(sides).is_ok());
        assert!(refused("").contains("at least one [[attacker]]"));
        assert!(
            refused(&sides.replace("'v', workload = [{}]", "'v', workload = [{qps = 0}]"))
                .contains("v alone: qps")
        );
        assert!(refused(&format!("{sides}policy = {{tenant = [{{name = 'x'}}]}}")).contains("not \"x\""));
        assert!(refused(&sides.replace("'a',", "'a', needs = 2.0,")).contains("needs of \"a\""));
        assert!(refused("victim = [{name = 'v', workload = [{}]}, {name = 'v', workload = []}]\nattacker = [{name = 'a', workload = []}]").contains("two [[victim]]"));
        let missing = Matrix::standard().only(&["nobody".to_owned()], &[]).expect_err("not there");
        assert!(missing.to_string().contains("there are bulk, "), "{missing}");
        let few = Matrix::standard().only(&["bulk".to_owned()], &[]).expect("it is there");
        assert_eq!((few.attacker.len(), few.victim.len()), (1, 9));
    }

    #[test]
    fn a_machine_is_taken_over() {
        let mut matrix = Matrix::standard();
        let before = matrix.policy.tenant[0].operations_per_s;
        let text = "[costs]\nwrite = 20\npacket = 80\n[host]\nturn_ns = 15\nframe_ns = 25\nbyte_ps = 9\ncontrol_ns = 4000\n";
        let calls = matrix.policy.tenant[0].control_per_s;
        matrix.calibrate(text).expect("a machine");
        assert_eq!((matrix.host.frame_ns, matrix.host.tx_ring, matrix.policy.costs.write), (25, 16, 20));
        assert_eq!(matrix.policy.tenant[0].operations_per_s, 2 * before);
        assert_eq!(matrix.policy.tenant[0].control_per_s, calls / 4);
        assert_eq!(Policy::parse(&matrix.policy.text()), Ok(matrix.policy.clone()));
        for bad in ["", "[costs]\n", "[costs]\n[host]\nspeed = 7\n", "[costs]\n[host]\nturn_ns = 0\n"] {
            assert!(Matrix::standard().calibrate(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn caps_change_as_much_as_times_and_stay_caps() {
        let mut matrix = Matrix::standard();
        (matrix.host.frame_ns, matrix.host.control_ns) = (10_000_000, 1);
        let attacker = &mut matrix.policy.tenant[0];
        (attacker.operations_per_s, attacker.rx_operations_per_s) = (400_000_000_000_000, 8_000_000);
        attacker.rx_bytes_per_s = 1_000_000_000;
        matrix.policy.tenant[1].control_per_s = 0;
        let mut same = matrix.clone();
        let text = "[costs]\n[host]\nframe_ns = 5_000_000\ncontrol_ns = 4_000_000\n";
        matrix.calibrate(text).expect("a machine");
        let [attacker, victim] = &matrix.policy.tenant[..] else { panic!("two tenants") };
        let operations = (attacker.operations_per_s, attacker.rx_operations_per_s);
        assert_eq!(operations, (800_000_000_000_000, 16_000_000));
        assert_eq!(attacker.rx_bytes_per_s, 1_000_000_000);
        assert_eq!((attacker.control_per_s, victim.control_per_s), (1, 0), "0 would be no cap");
        // Where nothing took time there is nothing to compare with.
        (same.host.frame_ns, same.host.control_ns) = (0, 0);
        let before = same.policy.tenant.clone();
        same.calibrate(text).expect("a machine");
        assert_eq!(same.policy.tenant, before);
    }

    #[test]
    fn times_that_are_too_long_are_refused() {
        let refused = |times: &str, entry: &str| {
            let side = |side, entry| format!("[[{side}]]\nname = 'x'\nworkload = [{{{entry}}}]\n");
            let text = format!("{times}\n{}{}", side("attacker", ""), side("victim", entry));
            Matrix::parse(&text).expect_err("refused").to_string()
        };
        for lead in ["lead_us = 4294967295", "lead_us = 9999999\ntime_us = 4294967295"] {
            let told = refused(lead, "");
            assert!(told.contains("_us must be from "), "{told}");
        }
        let told = refused("", "start_us = 4294967295");
        assert!(told.contains("start_us must be from 0 to 10000000"), "{told}");
    }

    #[test]
    fn a_victim_is_held_to_the_lesser_of_both() {
        let pair = |alone: f64, guaranteed: f64, off: f64, on: f64| Pair {
            attacker: String::new(),
            victim: String::new(),
            needs: NEEDS,
            alone,
            guaranteed,
            off,
            on,
            reason: None,
            scenario: Scenario::default(),
        };
        assert_eq!(pair(80.0, 40.0, 4.0, 36.0).kept(), [0.1, 0.9]);
        assert_eq!(pair(20.0, 40.0, 16.0, 14.0).holds(), [true, false]);
        assert_eq!(pair(0.0, 0.0, 0.0, 0.0).holds(), [false, false]);
    }
}
