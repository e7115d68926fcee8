//! What can be known of a host before anything is sent, and what to do about it.

use super::host::Host;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A packet of path MTU 4096 with every header.
const LINK_MTU: i64 = 4096 + 94;

/// What a check has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is as it should be.
    Good(String),
    /// It costs speed: what is wrong, and the remedy.
    Slow { what: String, remedy: String },
    /// The kernel does not tell.
    Unknown(String),
}

/// A check by its name, and what it has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
}

/// What is to be run: the processors that poll, and the interface that frames go through.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub processors: BTreeSet<u32>,
    pub interface: Option<String>,
}

/// All checks.
pub fn checks(host: &Host, wanted: &Wanted) -> Vec<Check> {
    let all = host.processors();
    let polling = if wanted.processors.is_empty() { &all } else { &wanted.processors };
    let mut checks = vec![
        Check { name: "processors", verdict: processors(host, &all) },
        Check { name: "governor", verdict: governor(host, polling) },
        Check { name: "shared cores", verdict: shared_cores(host, wanted) },
        Check { name: "huge pages", verdict: huge_pages(host) },
    ];
    if let Some(interface) = &wanted.interface {
        checks.push(Check { name: "numa", verdict: numa(host, interface, polling) });
        checks.push(Check { name: "link mtu", verdict: link_mtu(host, interface) });
    }
    checks
}

/// Each end of a connection on one host polls.
fn processors(host: &Host, all: &BTreeSet<u32>) -> Verdict {
    let load = host.text("proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let Some(load) = load.filter(|_| !all.is_empty()) else {
        return Verdict::Unknown("the kernel does not say how many there are, and how busy".to_owned());
    };
    let count = all.len();
    if load > f64::from(u32::try_from(count).unwrap_or(u32::MAX)) {
        return Verdict::Slow {
            what: format!("{load} programs want to run on {count} processors"),
            remedy: "end what else runs, or keep processors for the program that polls (taskset, isolcpus)"
                .to_owned(),
        };
    }
    Verdict::Good(format!("{count}, of which {load} are busy"))
}

fn governor(host: &Host, polling: &BTreeSet<u32>) -> Verdict {
    let of = |cpu: &u32| host.text(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let told: Vec<(u32, String)> = polling.iter().filter_map(|cpu| Some((*cpu, of(cpu)?))).collect();
    if told.is_empty() {
        return Verdict::Unknown(
            "the kernel has no governor: the frequency is the hardware's, or the host's".to_owned(),
        );
    }
    match told.iter().find(|(_, governor)| governor != "performance") {
        Some((cpu, governor)) => Verdict::Slow {
            what: format!("processor {cpu} has the governor {governor}, which begins slowly"),
            remedy: "cpupower frequency-set -g performance".to_owned(),
        },
        None => Verdict::Good("performance".to_owned()),
    }
}

/// Of two threads of a core each has half of it.
fn shared_cores(host: &Host, wanted: &Wanted) -> Verdict {
    let siblings =
        |cpu: u32| host.set(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    if wanted.processors.is_empty() {
        return Verdict::Unknown("say which processors poll, with --cpus".to_owned());
    }
    for cpu in &wanted.processors {
        let Some(siblings) = siblings(*cpu) else {
            return Verdict::Unknown(format!("the kernel does not say which core processor {cpu} is of"));
        };
        if let Some(other) = siblings.iter().find(|other| *other != cpu && wanted.processors.contains(*other))
        {
            return Verdict::Slow {
                what: format!("processors {cpu} and {other} are threads of one core"),
                remedy:
                    "let programs that poll have a core each: choose processors of different cores (lscpu -e)"
                        .to_owned(),
            };
        }
    }
    Verdict::Good("each processor is of a core of its own".to_owned())
}

fn huge_pages(host: &Host) -> Verdict {
    match (host.memory("HugePages_Total"), host.memory("HugePages_Free")) {
        (Some(total), Some(free)) if total > 0 && free > 0 => {
            Verdict::Good(format!("{free} of {total} are free"))
        }
        (Some(total), _) => Verdict::Slow {
            what: match total {
                0 => "there are none: devices over DPDK have their packets in ordinary pages".to_owned(),
                _ => {
                    format!("none of {total} is free: devices over DPDK have their packets in ordinary pages")
                }
            },
            remedy: "sysctl -w vm.nr_hugepages=512 (memif: and sim: devices without DPDK do not need them)"
                .to_owned(),
        },
        (None, _) => Verdict::Unknown("the kernel does not tell".to_owned()),
    }
}

fn numa(host: &Host, interface: &str, polling: &BTreeSet<u32>) -> Verdict {
    let Some(node) = host.number(&format!("sys/class/net/{interface}/device/numa_node")) else {
        return Verdict::Unknown(format!("{interface} is no device of a node"));
    };
    if node < 0 {
        return Verdict::Good("the host has one node".to_owned());
    }
    let Some(near) = host.set(&format!("sys/devices/system/node/node{node}/cpulist")) else {
        return Verdict::Unknown(format!("the kernel does not say which processors node {node} has"));
    };
    match polling.iter().find(|cpu| !near.contains(*cpu)) {
        Some(cpu) => Verdict::Slow {
            what: format!("{interface} is at node {node}, and processor {cpu} is not"),
            remedy: format!(
                "poll on processors of node {node}: numactl --cpunodebind={node} --membind={node}"
            ),
        },
        None => Verdict::Good(format!("{interface} and its processors are at node {node}")),
    }
}

fn link_mtu(host: &Host, interface: &str) -> Verdict {
    match host.number(&format!("sys/class/net/{interface}/mtu")) {
        None => Verdict::Slow {
            what: format!("there is no interface {interface}"),
            remedy: "ip link lists those that there are".to_owned(),
        },
        Some(mtu) if mtu < LINK_MTU => Verdict::Slow {
            what: format!("{interface} has an MTU of {mtu} bytes: packets of path MTU 4096 do not fit"),
            remedy: format!("ip link set {interface} mtu 9000, at both ends and on the switch"),
        },
        Some(mtu) => Verdict::Good(format!("{mtu} bytes")),
    }
}

/// The checks as people read them.
pub fn text(checks: &[Check]) -> String {
    checks.iter().fold(String::new(), |mut text, Check { name, verdict }| {
        let _ = match verdict {
            Verdict::Good(what) => writeln!(text, "good     {name}: {what}"),
            Verdict::Unknown(what) => writeln!(text, "unknown  {name}: {what}"),
            Verdict::Slow { what, remedy } => {
                writeln!(text, "slow     {name}: {what}\n         do: {remedy}")
            }
        };
        text
    })
}

/// The checks as a document: `links`, each with `name` and `verdict`, and the `verdict` of the
/// whole.
pub fn document(checks: &[Check]) -> Value {
    let links: Vec<Value> = checks
        .iter()
        .map(|Check { name, verdict }| match verdict {
            Verdict::Good(what) => json!({ "name": name, "verdict": "good", "what": what }),
            Verdict::Unknown(what) => json!({ "name": name, "verdict": "unknown", "what": what }),
            Verdict::Slow { what, remedy } => {
                json!({ "name": name, "verdict": "slow", "what": what, "remedy": remedy })
            }
        })
        .collect();
    json!({ "links": links, "verdict": if is_fit(checks) { "good" } else { "slow" } })
}

/// Whether nothing was found that costs speed.
pub fn is_fit(checks: &[Check]) -> bool {
    !checks.iter().any(|check| matches!(check.verdict, Verdict::Slow { .. }))
}
