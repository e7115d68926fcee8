//! What theory says of networks, and what the simulator makes of it.

mod engine;
mod queues;
mod shares;

use crate::host::HostError;

/// Something that theory says, beside what was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What.
    pub what: String,
    /// What theory says.
    pub expected: f64,
    /// What was seen.
    pub seen: f64,
    /// By which part of what was expected it may differ.
    pub limit: f64,
}

impl Check {
    /// By which part of what was expected it differs.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        (self.seen / self.expected - 1.0).abs()
    }

    /// Whether it differs by no more than it may.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.deviation() <= self.limit
    }
}

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Networks whose shares are looked at.
    pub seeds: u64,
    /// Hosts of the network in which the engine stands beside its model.
    pub hosts: u32,
}

impl Effort {
    /// What `srnic fabric oracle` does.
    pub const FULL: Self = Self { seeds: 50, hosts: 256 };
    /// What a test does in a few seconds.
    pub const SHORT: Self = Self { seeds: 2, hosts: 16 };
}

/// Makes all checks one after the other, and tells `each` of them, which says whether to go on.
///
/// # Errors
/// [`HostError`].
pub fn play(effort: Effort, mut each: impl FnMut(Check) -> bool) -> Result<(), HostError> {
    let parts: [Part; 5] =
        [queues::waiting, queues::shares_of_the_pool, engine::empty_network, shares::max_min, engine::model];
    for part in parts {
        for check in part(effort)? {
            if !each(check) {
                return Ok(());
            }
        }
    }
    Ok(())
}

type Part = fn(Effort) -> Result<Vec<Check>, HostError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_does_what_theory_says() {
        let mut checks = Vec::new();
        play(Effort::SHORT, |check| {
            checks.push(check);
            true
        })
        .expect("runs");
        assert!(checks.len() >= 21, "{checks:?}");
        let wrong: Vec<_> = checks.iter().filter(|check| !check.holds()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn what_differs_too_much_is_found() {
        let check = Check { what: String::new(), expected: 2.0, seen: 2.1, limit: 0.04 };
        assert!(!check.holds() && Check { limit: 0.06, ..check.clone() }.holds());
        assert!(!Check { seen: f64::NAN, ..check }.holds());
    }
}
