//! What victims keep, for people and for programs.

use crate::heat::{Cell, HeatMap};
use core::fmt;
use serde_json::{Value, json};
use srnic_workload::isolate::{AIM, Matrix, NEEDS, Pair};

/// Below which part of its share a victim has each level: the second is the aim, the third what
/// most attackers must leave.
const LEVELS: [f64; 4] = [0.9, AIM, NEEDS, 0.5];

/// What came of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What was played.
    pub matrix: &'a Matrix,
    /// What came of it.
    pub pairs: &'a [Pair],
    /// Pairs that there should be.
    pub wanted: usize,
}

impl Report<'_> {
    /// Without tenants, and with them.
    #[must_use]
    pub fn maps(&self) -> [HeatMap; 2] {
        [("without tenants", 0), ("with tenants", 1)].map(|(how, index)| HeatMap {
            title: format!("{how}: what each victim has, as a part of its share"),
            columns: self.matrix.victim.iter().map(|victim| victim.name.clone()).collect(),
            rows: self.matrix.attacker.iter().map(|attacker| self.row(&attacker.name, index)).collect(),
        })
    }

    fn row(&self, attacker: &str, index: usize) -> (String, Vec<Option<Cell>>) {
        let of = |victim: &str| self.pairs.iter().find(|p| p.attacker == attacker && p.victim == victim);
        let cells = self.matrix.victim.iter().map(|victim| Some(cell(of(&victim.name)?.kept()[index])));
        (attacker.to_owned(), cells.collect())
    }

    fn failed(&self, index: usize) -> usize {
        self.pairs.iter().filter(|pair| !pair.holds()[index]).count()
    }

    /// As one document.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "seed": self.matrix.seed,
            "time_us": self.matrix.time_us,
            "complete": self.pairs.len() == self.wanted,
            "failed_off": self.failed(0),
            "failed_on": self.failed(1),
            "pairs": self.pairs.iter().map(pair_json).collect::<Vec<_>>(),
        })
    }
}

/// What was measured on two processes, and the same pairs in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// On two processes.
    pub measured: &'a [Pair],
    /// In virtual time, as many as were played.
    pub simulated: &'a [Pair],
    /// Pairs that there should be.
    pub wanted: usize,
}

impl Beside<'_> {
    /// What was measured, and what was simulated of it.
    fn pairs(&self) -> impl Iterator<Item = (&Pair, Option<&Pair>)> {
        self.measured.iter().map(|pair| {
            let is_it = |other: &&Pair| (&other.attacker, &other.victim) == (&pair.attacker, &pair.victim);
            (pair, self.simulated.iter().find(is_it))
        })
    }

    fn is_complete(&self) -> bool {
        self.measured.len() == self.wanted && self.simulated.len() == self.wanted
    }

    /// As one document.
    #[must_use]
    pub fn json(&self) -> Value {
        let pair = |(measured, simulated): (&Pair, Option<&Pair>)| {
            let mut document = pair_json(measured);
            for key in ["scarce", "replay"] {
                document.as_object_mut().map(|object| object.remove(key));
            }
            document["simulated"] = simulated.map_or(Value::Null, pair_json);
            document
        };
        json!({ "complete": self.is_complete(), "pairs": self.pairs().map(pair).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "parts of its share that each victim has, on two processes and in virtual time\n")?;
        writeln!(
            f,
            "{:<12} {:<10} {:>10} {:>8} {:>8} {:>9} {:>9}",
            "attacker", "victim", "alone Gb/s", "without", "with", "sim w/o", "sim with"
        )?;
        for (pair, simulated) in self.pairs() {
            let [off, on] = pair.kept();
            let simulated = simulated.map(|pair| pair.kept().map(|kept| format!("{kept:.2}")));
            let [sim_off, sim_on] = simulated.unwrap_or_else(|| ["-", "-"].map(str::to_owned));
            writeln!(
                f,
                "{:<12} {:<10} {:>10.2} {off:>8.2} {on:>8.2} {sim_off:>9} {sim_on:>9}{}",
                pair.attacker,
                pair.victim,
                pair.alone,
                if pair.holds()[1] { "" } else { "  too little" }
            )?;
        }
        if !self.is_complete() {
            let (measured, simulated) = (self.measured.len(), self.simulated.len());
            writeln!(f, "ended after {measured} of {} pairs, with {simulated} simulated", self.wanted)?;
        }
        Ok(())
    }
}

fn cell(kept: f64) -> Cell {
    Cell { text: format!("{kept:.2}"), level: LEVELS.iter().filter(|from| kept < **from).count() }
}

fn pair_json(pair: &Pair) -> Value {
    let ([kept_off, kept_on], [_, holds]) = (pair.kept(), pair.holds());
    json!({
        "attacker": pair.attacker,
        "victim": pair.victim,
        "alone": pair.alone,
        "guaranteed": pair.guaranteed,
        "off": pair.off,
        "on": pair.on,
        "kept_off": kept_off,
        "kept_on": kept_on,
        "needs": pair.needs,
        "holds": holds,
        "scarce": pair.reason,
        "replay": replay(pair),
    })
}

/// The command that shows what came of the pair with tenants.
fn replay(pair: &Pair) -> String {
    format!("srnic search --replay '{}'", pair.scenario)
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for map in self.maps() {
            writeln!(f, "{map}")?;
        }
        let count = self.pairs.len();
        if count < self.wanted {
            writeln!(f, "ended after {count} of {} pairs", self.wanted)?;
        }
        let (off, on) = (self.failed(0), self.failed(1));
        writeln!(f, "of {count} pairs, {off} victims keep too little without tenants, {on} with them")?;
        for pair in self.pairs.iter().filter(|pair| !pair.holds()[1]) {
            let Pair { attacker, victim, needs, guaranteed, on, .. } = pair;
            writeln!(
                f,
                "\n{victim} beside {attacker}: {on:.2} Gb/s of {guaranteed:.2}, {:.2} and not {needs}",
                pair.kept()[1]
            )?;
            writeln!(f, "  scarce: {}", pair.reason.as_deref().unwrap_or_default())?;
            writeln!(f, "  {}", replay(pair))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_or_simulated_is_said() {
        let pair = |victim: &str, on: f64| Pair {
            attacker: "bulk".to_owned(),
            victim: victim.to_owned(),
            needs: 0.75,
            alone: 20.0,
            guaranteed: 10.0,
            off: 1.0,
            on,
            reason: None,
            scenario: srnic_workload::scenario::Scenario::default(),
        };
        let (measured, simulated) = ([pair("write-8", 9.0), pair("read-8", 4.0)], [pair("read-8", 6.0)]);
        let told = |wanted, simulated| Beside { measured: &measured, simulated, wanted };
        let cut_off = told(3, &simulated[..]);
        let text = cut_off.to_string();
        for part in [
            "write-8         20.00     0.10     0.90         -         -\n",
            "read-8          20.00     0.10     0.40      0.10      0.60  too little\n",
            "ended after 2 of 3 pairs, with 1 simulated\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = cut_off.json();
        assert_eq!((&json["complete"], &json["pairs"][0]["simulated"]), (&false.into(), &Value::Null));
        assert_eq!(json["pairs"][1]["simulated"]["kept_on"], json!(0.6));
        let whole = told(2, &measured[..]);
        assert!(!whole.to_string().contains("ended after") && whole.json()["complete"] == true);
    }

    #[test]
    fn a_report_has_both_maps_and_every_miss() {
        let matrix = Matrix::standard()
            .only(&["bulk".to_owned(), "tiny".to_owned()], &["read-8".to_owned(), "send-8".to_owned()])
            .expect("they are there");
        let task = matrix.tasks()[2];
        let pair = |victim: &str, on: f64, reason: Option<&str>| Pair {
            attacker: "bulk".to_owned(),
            victim: victim.to_owned(),
            needs: 0.75,
            alone: 20.0,
            guaranteed: 10.0,
            off: 1.0,
            on,
            reason: reason.map(str::to_owned),
            scenario: matrix.scenario(task),
        };
        let pairs = [pair("read-8", 8.5, None), pair("send-8", 4.0, Some("the time of host 0"))];
        let report = Report { matrix: &matrix, pairs: &pairs, wanted: 4 };
        let text = report.to_string();
        for part in [
            "without tenants: ",
            "bulk    █ 0.10    █ 0.10\n",
            "bulk    █ 0.40    ░ 0.85\n",
            "tiny                    \n",
            "ended after 2 of 4 pairs",
            "of 2 pairs, 2 victims keep too little without tenants, 1 with them",
            "send-8 beside bulk: 4.00 Gb/s of 10.00, 0.40 and not 0.75",
            "scarce: the time of host 0",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let line = text.split("--replay '").nth(1).and_then(|rest| rest.split('\'').next());
        let scenario = srnic_workload::scenario::Scenario::parse(line.expect("a line"));
        assert_eq!(scenario, Ok(matrix.scenario(task)));
        let json = report.json();
        assert_eq!((&json["complete"], &json["failed_on"]), (&false.into(), &1.into()));
        let first = &json["pairs"][0];
        for (key, value) in [("alone", 20.0), ("guaranteed", 10.0), ("off", 1.0), ("on", 8.5)] {
            assert_eq!(first[key], json!(value), "{key}");
        }
    }
}
