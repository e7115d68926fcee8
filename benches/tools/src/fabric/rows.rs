//! The results of runs, as a table and as JSON.

use super::cost::Cost;
use serde_json::{Map, Value, json};
use srnic_fabric::clock::Ps;
use srnic_fabric::plan::Plan;
use srnic_fabric::summary::{Row, Summary};

/// What came of a run.
#[derive(Debug)]
pub struct Played {
    /// What it amounts to.
    pub row: Row,
    /// What it cost.
    pub cost: Cost,
    /// The virtual time at which Ctrl-C ended it; `None`: it came to its end.
    pub cut_off: Option<Ps>,
}

/// The rows of a command's runs.
#[derive(Debug)]
pub struct Rows {
    rows: Vec<(Plan, Played)>,
    wanted: usize,
}

const TITLES: &str = "scheme       hosts   buffer    mark   flows  avg FCT us  p99 FCT us  avg slowdown  p99 slowdown  \
                      goodput  dropped   marked  pauses  unfinished  failed  core s  M packets/s    GiB              hash";

impl Rows {
    /// Of a command that is to run so many networks.
    #[must_use]
    pub const fn new(wanted: usize) -> Self {
        Self { rows: Vec::new(), wanted }
    }

    /// A run has ended.
    pub fn push(&mut self, plan: &Plan, played: Played) {
        self.rows.push((plan.clone(), played));
    }

    /// What a reader of the table must know beside it.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let (begun, wanted) = (self.rows.len(), self.wanted);
        let fewer = (begun < wanted).then(|| format!("ended by Ctrl-C: {begun} of {wanted} runs had begun"));
        self.rows.iter().flat_map(|(plan, played)| notes(plan, played)).chain(fewer)
    }

    /// Whether Ctrl-C ended a run, or all before the last had begun.
    fn is_interrupted(&self) -> bool {
        self.rows.len() < self.wanted || self.rows.iter().any(|(_, played)| played.cut_off.is_some())
    }

    /// A line for each.
    #[must_use]
    pub fn table(&self) -> String {
        let lines = self.rows.iter().map(|(plan, played)| line(plan, played));
        core::iter::once(TITLES.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// An object with `rows`, and whether Ctrl-C ended them. If there is one, it has what that has,
    /// too.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows: Vec<_> = self.rows.iter().map(|(plan, played)| object(plan, played)).collect();
        let mut all = match &rows[..] {
            [Value::Object(one)] => one.clone(),
            _ => Map::new(),
        };
        all.insert("interrupted".to_owned(), self.is_interrupted().into());
        all.insert("rows".to_owned(), rows.into());
        all.into()
    }
}

/// Bytes of the pool that decides, and of the marking threshold.
fn memory(plan: &Plan) -> (u64, u64) {
    let switch = plan.config().switch;
    (switch.pfc.map_or(switch.pool, |pfc| pfc.pool), switch.marks.from)
}

fn notes(plan: &Plan, Played { row, cut_off, .. }: &Played) -> Vec<String> {
    let Row { hosts, summary, .. } = row;
    let (name, micros) = (plan.scheme.name(), |time: Ps| time.0 / 1_000_000);
    let cut = cut_off.map(|at| {
        let (at, time) = (micros(at), micros(plan.time));
        format!(
            "{name}, {hosts} hosts: Ctrl-C ended it at {at} us of virtual time. Flows would have begun until \
             {time} us. The row is of a part of the run."
        )
    });
    let advice = if plan.warm_up == Ps(0) { "" } else { "; --warm-up 0 counts all flows" };
    let none =
        |what: String| format!("{name}, {hosts} hosts: {what} that counts, so there are no times{advice}");
    let is_whole = cut_off.is_none();
    let all = (is_whole && summary.flows == 0).then(|| none("no flow".to_owned()));
    let each =
        (1..).zip(&row.workloads).filter(|(_, (of, _))| is_whole && summary.flows > 0 && of.flows == 0);
    let each = each.map(|(number, _)| none(format!("workload {number} has no flow")));
    cut.into_iter().chain(all).chain(each).collect()
}

/// The times of flows that ended, in the order of the table and with the names of JSON; none
/// without such a flow.
fn times(summary: &Summary) -> [(&'static str, Option<f64>); 4] {
    let has_ended = summary.flows > summary.unfinished + summary.failed;
    [
        ("avg_fct_us", summary.avg_fct_us),
        ("p99_fct_us", summary.p99_fct_us),
        ("avg_slowdown", summary.avg_slowdown),
        ("p99_slowdown", summary.p99_slowdown),
    ]
    .map(|(name, value)| (name, has_ended.then_some(value)))
}

/// What became of the flows of one workload.
fn workload(summary: &Summary, gbps: f64) -> Value {
    let mut all = json!({
        "flows": summary.flows,
        "unfinished": summary.unfinished,
        "failed": summary.failed,
        "gbps": gbps,
    });
    times(summary).into_iter().for_each(|(name, value)| all[name] = value.into());
    all
}

/// `M packets/s` is packets of data a second of one core.
fn line(plan: &Plan, Played { row, cost, cut_off }: &Played) -> String {
    let Row { scheme, hosts, summary, switches, hash, .. } = row;
    let (buffer, mark) = memory(plan);
    let gib = cost.peak_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2}", gib(bytes)));
    let [avg, p99, slowdown, p99_slowdown] = times(summary).map(|(_, value)| value);
    let text = |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let cut = if cut_off.is_some() { "  cut off" } else { "" };
    format!(
        "{:11} {hosts:6} {buffer:8} {mark:7} {:7} {:>11} {:>11} {:>13} {:>13} {:8.3} {:8} {:8} {:7} {:11} {:7} \
         {:7.1} {:12.2} {gib:>6}  {hash:016x}{cut}",
        scheme.name(),
        summary.flows,
        text(avg, 1),
        text(p99, 1),
        text(slowdown, 2),
        text(p99_slowdown, 2),
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

fn object(plan: &Plan, Played { row, cost, cut_off }: &Played) -> Value {
    let Row { scheme, hosts, summary, switches, hash, .. } = row;
    let (buffer, mark) = memory(plan);
    let workloads: Vec<_> = row.workloads.iter().map(|(summary, gbps)| workload(summary, *gbps)).collect();
    let mut all = json!({
        "scheme": scheme.name(),
        "hosts": hosts,
        "time_us": plan.time.0 / 1_000_000,
        "seed": plan.seed,
        "buffer_bytes": buffer,
        "mark_bytes": mark,
        "flows": summary.flows,
        "unfinished": summary.unfinished,
        "failed": summary.failed,
        "interrupted_at_us": cut_off.map(|at| at.0 / 1_000_000),
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
    });
    times(summary).into_iter().for_each(|(name, value)| all[name] = value.into());
    all
}
