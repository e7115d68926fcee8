//! What a search found, and what came of one workload, for people and for programs.

use core::fmt;
use serde_json::{Map, Value, json};
use srnic_workload::judge::Finding;
use srnic_workload::play::{EntryOutcome, Outcome};
use srnic_workload::scenario::{Entry, Scenario};
use srnic_workload::search::{Anomaly, DIMENSIONS};
use std::fmt::Write as _;

/// What a search found. It shows as Markdown.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed of the search.
    pub seed: u64,
    /// It played on two engines, not in virtual time.
    pub is_real: bool,
    /// Workloads that were looked at.
    pub points: u64,
    /// Those beside, for the features of anomalies.
    pub minimising: u64,
    /// Workloads that should be looked at.
    pub wanted: u64,
    /// What was found.
    pub anomalies: Vec<Anomaly>,
}

impl Report {
    /// As one document.
    pub fn json(&self) -> Value {
        json!({
            "seed": self.seed,
            "real": self.is_real,
            "points": self.points,
            "minimising_points": self.minimising,
            "complete": self.points >= self.wanted,
            "anomalies": self.anomalies.iter().map(|anomaly| self.anomaly_json(anomaly)).collect::<Vec<_>>(),
        })
    }

    /// The command that shows it again.
    fn again(&self, anomaly: &Anomaly) -> String {
        let real = if self.is_real { " --real" } else { "" };
        format!("srnic search{real} --replay '{}'", self.workload(anomaly))
    }

    fn workload(&self, anomaly: &Anomaly) -> Scenario {
        if self.is_real { super::real::scenario(&anomaly.point) } else { anomaly.point.scenario() }
    }

    fn anomaly_json(&self, anomaly: &Anomaly) -> Value {
        let feature = |(dimension, values): &(usize, Vec<u8>)| {
            let dimension = &DIMENSIONS[*dimension];
            let words = values.iter().map(|value| dimension.word(dimension.values[usize::from(*value)]));
            (dimension.name.to_owned(), words.collect::<Vec<_>>().into())
        };
        json!({
            "findings": anomaly.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "features": anomaly.minimal.0.iter().map(feature).collect::<Map<_, _>>(),
            "after": anomaly.after,
            "workload": self.workload(anomaly).to_string(),
            "replay": self.again(anomaly),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.anomalies.len();
        writeln!(f, "# Search of seed {}\n", self.seed)?;
        if self.points < self.wanted {
            writeln!(f, "It was ended after {} of {} workloads.\n", self.points, self.wanted)?;
        }
        let anomalies = if count == 1 { "anomaly" } else { "anomalies" };
        writeln!(
            f,
            "{count} {anomalies} in {} workloads, and {} more for their features.",
            self.points, self.minimising
        )?;
        for (number, anomaly) in self.anomalies.iter().enumerate() {
            let kinds: Vec<String> =
                anomaly.findings.iter().map(|finding| finding.kind.to_string()).collect();
            writeln!(f, "\n## {}. {}\n", number + 1, kinds.join(", "))?;
            anomaly.findings.iter().try_for_each(|finding| writeln!(f, "- {}", finding.words))?;
            writeln!(f, "- needs: {}", anomaly.minimal)?;
            writeln!(f, "- found after {} workloads\n", anomaly.after)?;
            writeln!(f, "```\n{}\n```", self.again(anomaly))?;
        }
        Ok(())
    }
}

fn finding_json(finding: &Finding) -> Value {
    json!({ "kind": finding.kind.to_string(), "words": finding.words })
}

/// What came of one workload, as one document.
pub fn outcome_json(scenario: &Scenario, outcome: &Outcome, findings: &[Finding]) -> Value {
    let entry = |(number, (entry, told)): (usize, (&Entry, &EntryOutcome))| {
        json!({
            "name": name(number, entry),
            "requests": told.requests,
            "bytes": told.bytes,
            "gbps": told.gbps(),
            "p50_us": micros(told, 0.5),
            "p99_us": micros(told, 0.99),
            "errors": told.errors,
            "stuck": told.stuck,
        })
    };
    let entries = scenario.workload.iter().zip(&outcome.entries).enumerate();
    let counters = outcome.counters.iter().map(|(name, count)| (name.to_owned(), count.into()));
    json!({
        "entries": entries.map(entry).collect::<Vec<_>>(),
        "counters": counters.collect::<Map<_, _>>(),
        "hash": format!("{:016x}", outcome.hash),
        "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

/// What came of one workload, as a table, the counters that are not 0, and what is wrong.
pub fn outcome_text(scenario: &Scenario, outcome: &Outcome, findings: &[Finding]) -> String {
    let names: Vec<String> = scenario.workload.iter().enumerate().map(|(n, entry)| name(n, entry)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(8);
    let mut text = format!("{:<width$}  requests     Gb/s   p50 us   p99 us  errors  stuck\n", "workload");
    for (name, told) in names.iter().zip(&outcome.entries) {
        let shown = |of| micros(told, of).map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
        let (p50, p99) = (shown(0.5), shown(0.99));
        let EntryOutcome { requests, errors, stuck, .. } = told;
        let gbps = told.gbps();
        let _ = writeln!(
            text,
            "{name:<width$}  {requests:>8}  {gbps:7.2}  {p50:>7}  {p99:>7}  {errors:>6}  {stuck:>5}"
        );
    }
    text.push('\n');
    for (name, count) in outcome.counters.iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "{name:<24} {count:>8}");
    }
    text.push('\n');
    if findings.is_empty() {
        text.push_str("all is well\n");
    }
    for finding in findings {
        let _ = writeln!(text, "{}: {}", finding.kind, finding.words);
    }
    text
}

fn name(number: usize, entry: &Entry) -> String {
    if entry.name.is_empty() { format!("{} {}", entry.op, number + 1) } else { entry.name.clone() }
}

/// A quantile of what requests took, in microseconds; `None` if that was not measured.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn micros(told: &EntryOutcome, of: f64) -> Option<f64> {
    (!told.latencies.is_empty()).then(|| told.quantile(of) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use srnic_workload::judge::{Kind, judge};
    use srnic_workload::play::play;
    use srnic_workload::search::{MinimalSet, Point};

    fn anomaly() -> Anomaly {
        let point = Point([3, 6, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let finding = Finding { kind: Kind::Late, words: "the fastest took 9 us".to_owned() };
        let minimal = MinimalSet(vec![(0, vec![3]), (1, vec![5, 6])]);
        Anomaly { point, findings: vec![finding], minimal, after: 17 }
    }

    #[test]
    fn a_report_says_what_and_how_to_see_it_again() {
        let anomalies = vec![anomaly()];
        let mut report =
            Report { seed: 3, is_real: false, points: 20, minimising: 44, wanted: 50, anomalies };
        let text = report.to_string();
        for part in
            ["ended after 20 of 50", "1 anomaly in 20", "## 1. late", "op = read, qps >= 32", "after 17"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let line = text.split("--replay '").nth(1).and_then(|rest| rest.split('\'').next());
        assert_eq!(Scenario::parse(line.expect("a line")), Ok(report.anomalies[0].point.scenario()));
        let json = report.json();
        assert_eq!(json["anomalies"][0]["features"]["qps"], json!(["32", "64"]));
        assert_eq!(
            (&json["complete"], &json["anomalies"][0]["findings"][0]["kind"]),
            (&false.into(), &"late".into())
        );
        assert!(text.contains("srnic search --replay"), "{text}");
        report.is_real = true;
        assert!(report.to_string().contains("srnic search --real --replay"), "{report}");
    }

    #[test]
    fn a_workload_is_told() {
        let scenario = Scenario::parse("{workload = [{name = 'bulk'}, {op = 'read'}]}").expect("a workload");
        let outcome = play(&scenario).expect("played");
        let findings = judge(&scenario, &outcome);
        let text = outcome_text(&scenario, &outcome, &findings);
        assert!(text.contains("bulk ") && text.contains("read 2 ") && text.contains("tx_requests"), "{text}");
        assert_eq!(text.ends_with("all is well\n"), findings.is_empty(), "{text}");
        let json = outcome_json(&scenario, &outcome, &findings);
        assert!(json["entries"][1]["gbps"].as_f64().is_some_and(|gbps| gbps > 1.0), "{json}");
    }
}
