//! What is claimed of results, and whether they keep it.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Something that is claimed.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    pub what: String,
    pub limit: Limit,
    pub seen: f64,
}

/// Between which numbers it must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// From 1 it may differ by so much.
    Near(f64),
    /// It is shown, and nothing is claimed.
    Shown,
}

impl Claim {
    pub fn new(what: impl Into<String>, limit: Limit, seen: f64) -> Self {
        Self { what: what.into(), limit, seen }
    }

    /// Whether it is kept; what is only shown is.
    pub fn is_kept(&self) -> bool {
        match self.limit {
            Limit::AtLeast(least) => self.seen >= least,
            Limit::AtMost(most) => self.seen <= most,
            Limit::Near(by) => (self.seen - 1.0).abs() <= by,
            Limit::Shown => true,
        }
    }

    pub fn to_json(&self) -> Value {
        json!({ "what": self.what, "limit": self.limit(), "seen": self.seen, "kept": self.is_kept() })
    }

    fn limit(&self) -> String {
        match self.limit {
            Limit::AtLeast(least) => format!("at least {least}"),
            Limit::AtMost(most) => format!("at most {most}"),
            Limit::Near(by) => format!("1 within {by}"),
            Limit::Shown => String::from("-"),
        }
    }

    const fn verdict(&self) -> &'static str {
        match self.limit {
            Limit::Shown => "",
            _ => "kept",
        }
    }
}

/// A line for each.
pub fn table(claims: &[Claim]) -> String {
    let mut table = format!("{:70} {:>14} {:>10}", "claim", "limit", "seen");
    for claim in claims {
        let verdict = if claim.is_kept() { claim.verdict() } else { "MISSED" };
        let _ = write!(table, "\n{:70} {:>14} {:>10.3}  {verdict}", claim.what, claim.limit(), claim.seen);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_said() {
        let claim = |limit, seen| Claim::new("a ratio", limit, seen);
        assert!(claim(Limit::AtLeast(1.1), 1.1).is_kept() && !claim(Limit::AtLeast(1.1), 1.0).is_kept());
        assert!(claim(Limit::AtMost(1.5), 1.5).is_kept() && !claim(Limit::AtMost(1.5), 1.6).is_kept());
        assert!(claim(Limit::Near(0.15), 0.9).is_kept() && !claim(Limit::Near(0.15), 1.2).is_kept());
        assert!(
            !claim(Limit::AtMost(1.0), f64::NAN).is_kept() && !claim(Limit::Near(1.0), f64::NAN).is_kept()
        );
        let table = table(&[claim(Limit::AtLeast(3.0), 1.4), claim(Limit::Shown, 1.4)]);
        assert_eq!(table.matches("MISSED").count(), 1, "{table}");
        assert!(table.contains("at least 3"), "{table}");
    }
}
