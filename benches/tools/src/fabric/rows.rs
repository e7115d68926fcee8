//! The results of runs, as a table and as JSON.

use super::cost::Cost;
use serde_json::{Map, Value, json};
use srnic_fabric::plan::Plan;
use srnic_fabric::summary::{Row, Summary};

/// The rows of a command's runs.
#[derive(Debug, Default)]
pub struct Rows(Vec<(Plan, Row, Cost)>);

const TITLES: &str = "scheme       hosts   buffer    mark   flows  avg FCT us  p99 FCT us  avg slowdown  p99 slowdown  \
                      goodput  dropped   marked  pauses  unfinished  failed  core s  M packets/s    GiB              hash";

impl Rows {
    /// A run has ended.
    pub fn push(&mut self, plan: &Plan, row: Row, cost: Cost) {
        self.0.push((plan.clone(), row, cost));
    }

    /// A line for each.
    #[must_use]
    pub fn table(&self) -> String {
        let lines = self.0.iter().map(|(plan, row, cost)| line(plan, row, cost));
        core::iter::once(TITLES.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// An object with `rows`; if there is one, with what it has, too.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows: Vec<_> = self.0.iter().map(|(plan, row, cost)| object(plan, row, cost)).collect();
        let mut all = match &rows[..] {
            [Value::Object(one)] => one.clone(),
            _ => Map::new(),
        };
        all.insert("rows".to_owned(), rows.into());
        all.into()
    }
}

/// Bytes of the pool that decides, and of the marking threshold.
fn memory(plan: &Plan) -> (u64, u64) {
    let switch = plan.config().switch;
    (switch.pfc.map_or(switch.pool, |pfc| pfc.pool), switch.marks.from)
}

/// What became of the flows of one workload.
fn workload(summary: &Summary, gbps: f64) -> Value {
    json!({
        "flows": summary.flows,
        "unfinished": summary.unfinished,
        "failed": summary.failed,
        "avg_fct_us": summary.avg_fct_us,
        "p99_fct_us": summary.p99_fct_us,
        "avg_slowdown": summary.avg_slowdown,
        "p99_slowdown": summary.p99_slowdown,
        "gbps": gbps,
    })
}

/// `M packets/s` is packets of data a second of one core.
fn line(plan: &Plan, row: &Row, cost: &Cost) -> String {
    let Row { scheme, hosts, summary, switches, hash, .. } = row;
    let (buffer, mark) = memory(plan);
    let gib = cost.peak_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2}", gib(bytes)));
    format!(
        "{:11} {hosts:6} {buffer:8} {mark:7} {:7} {:11.1} {:11.1} {:13.2} {:13.2} {:8.3} {:8} {:8} {:7} {:11} {:7} \
         {:7.1} {:12.2} {gib:>6}  {hash:016x}",
        scheme.name(),
        summary.flows,
        summary.avg_fct_us,
        summary.p99_fct_us,
        summary.avg_slowdown,
        summary.p99_slowdown,
        summary.goodput,
        switches.dropped,
        switches.marked,
        switches.pauses,
        summary.unfinished,
        summary.failed,
        cost.core_seconds,
        cost.rate(row.packets) / 1e6,
    )
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn object(plan: &Plan, row: &Row, cost: &Cost) -> Value {
    let Row { scheme, hosts, summary, switches, hash, .. } = row;
    let (buffer, mark) = memory(plan);
    let workloads: Vec<_> = row.workloads.iter().map(|(summary, gbps)| workload(summary, *gbps)).collect();
    json!({
        "scheme": scheme.name(),
        "hosts": hosts,
        "time_us": plan.time.0 / 1_000_000,
        "seed": plan.seed,
        "buffer_bytes": buffer,
        "mark_bytes": mark,
        "flows": summary.flows,
        "unfinished": summary.unfinished,
        "failed": summary.failed,
        "avg_fct_us": summary.avg_fct_us,
        "p99_fct_us": summary.p99_fct_us,
        "avg_slowdown": summary.avg_slowdown,
        "p99_slowdown": summary.p99_slowdown,
        "goodput": summary.goodput,
        "flow_gbps": summary.flow_gbps,
        "busiest": row.busiest,
        "workloads": workloads,
        "packets": row.packets,
        "seconds": cost.seconds,
        "core_seconds": cost.core_seconds,
        "packets_per_core_second": cost.rate(row.packets),
        "peak_bytes": cost.peak_bytes,
        "lost": row.lost,
        "dropped": switches.dropped,
        "marked": switches.marked,
        "passed": switches.passed,
        "pauses": switches.pauses,
        "hash": format!("{hash:016x}"),
    })
}
