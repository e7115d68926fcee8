//! Settings of the machine that make any polling program slow, found without sending a packet.

mod host;
#[cfg(test)]
mod tests;

pub use host::Host;

use super::finding::Finding;
use verbs_api::{DeviceSpec, Driver, Hugepages, Pmtu, Transport};

const CORES: &str = "cores";

/// All checks, for `device` if one is named, and for programs that poll on `cpus`.
///
/// What the machine does not tell is [`Unknown`](super::finding::Level::Unknown).
#[must_use]
pub fn check(host: &Host, device: Option<&DeviceSpec>, cpus: &[usize]) -> Vec<Finding> {
    let mut polling = cpus.to_vec();
    if let Some(Driver::Thread { cpu: Some(cpu) }) = device.and_then(|device| device.driver) {
        polling.push(cpu);
    }
    let mut found = vec![
        governor(host),
        nodes(host, device),
        hugepages(host, device),
        cores(host, &polling),
        quota(host),
    ];
    found.extend(device.map(|device| mtu(host, device)));
    found
}

/// A governor that saves power lets the clock follow the load, which for a program that waits for
/// messages comes and goes.
fn governor(host: &Host) -> Finding {
    let governors: Vec<(usize, String)> =
        host.allowed_cpus().into_iter().filter_map(|cpu| Some((cpu, host.governor(cpu)?))).collect();
    let slow: Vec<&(usize, String)> =
        governors.iter().filter(|(_, governor)| governor != "performance").collect();
    match (governors.first(), slow.first()) {
        (None, _) => Finding::unknown("governor", "no governor can be seen, as in most virtual machines"),
        (_, None) => Finding::good("governor", "performance on all CPUs that this process may use"),
        (_, Some((cpu, governor))) => Finding::warning(
            "governor",
            format!(
                "{governor} on {} of {} CPUs, of which CPU {cpu} is the first",
                slow.len(),
                governors.len()
            ),
            "cpupower frequency-set -g performance",
        ),
    }
}

/// A core, its memory and its NIC that are on different nodes meet by the link between these.
fn nodes(host: &Host, device: Option<&DeviceSpec>) -> Finding {
    const NAME: &str = "NUMA";
    let nodes = host.nodes();
    let [_, _, ..] = nodes.as_slice() else {
        return match nodes.first() {
            Some(_) => Finding::good(NAME, "the machine has one node"),
            None => Finding::unknown(NAME, "the machine does not tell its nodes"),
        };
    };
    let allowed = host.allowed_cpus();
    let used: Vec<usize> = nodes
        .into_iter()
        .filter(|node| host.cpus_of_node(*node).iter().any(|cpu| allowed.contains(cpu)))
        .collect();
    let near = device.and_then(|device| host.node_of(device));
    let remedy = |node: usize| format!("start the program by numactl --cpunodebind={node} --membind={node}");
    match (used.as_slice(), near) {
        ([node], Some(near)) if *node != near => Finding::bad(
            NAME,
            format!("the NIC is on node {near}, and this process may use CPUs of node {node} only"),
            remedy(near),
        ),
        ([node], _) => Finding::good(NAME, format!("this process may use CPUs of node {node} only")),
        (_, near) => Finding::warning(
            NAME,
            format!("this process may use CPUs of {} nodes, and its memory may be on another", used.len()),
            remedy(near.unwrap_or_default()),
        ),
    }
}

fn hugepages(host: &Host, device: Option<&DeviceSpec>) -> Finding {
    const NAME: &str = "huge pages";
    const REMEDY: &str = "sysctl vm.nr_hugepages=512 reserves a gigabyte of them";
    let required = device.is_some_and(|device| device.hugepages == Hugepages::On);
    match host.free_hugepages() {
        None => Finding::unknown(NAME, "/proc/meminfo does not tell"),
        Some(0) if required => Finding::bad(NAME, "none are free, and the device has hugepages=on", REMEDY),
        Some(0) => {
            Finding::warning(NAME, "none are free: large buffers move about a tenth slower without", REMEDY)
        }
        Some(free) => Finding::good(NAME, format!("{free} are free")),
    }
}

/// A thread that polls needs a core for itself, and so does its peer on this machine.
fn cores(host: &Host, polling: &[usize]) -> Finding {
    let allowed = host.allowed_cpus();
    if let Some(found) = polling.iter().find_map(|cpu| core(host, &allowed, *cpu, polling)) {
        return found;
    }
    match (allowed.len(), host.load()) {
        (0, _) => Finding::unknown(CORES, "the machine does not tell which CPUs this process may use"),
        (1, _) => Finding::warning(
            CORES,
            "this process may use one CPU: if a peer or a thread polls there too, they take turns of milliseconds",
            "give it another CPU by taskset, or let the programs sleep: poll=hybrid",
        ),
        (count, Some(load)) if load > count_of(count) => Finding::warning(
            CORES,
            format!("in the last minute {load} threads wanted to run at once, and there are {count} CPUs"),
            "find them with top -H; programs that poll should have cores of their own",
        ),
        (count, _) => Finding::good(CORES, format!("this process may use {count} CPUs")),
    }
}

/// What is wrong with a CPU that is to poll, if something is.
fn core(host: &Host, allowed: &[usize], cpu: usize, polling: &[usize]) -> Option<Finding> {
    if !allowed.contains(&cpu) {
        let words = format!("CPU {cpu} is to poll, and this process may not use it");
        return Some(Finding::bad(CORES, words, format!("choose of {allowed:?}, or widen its cpuset")));
    }
    let mut others = host.siblings(cpu);
    others.retain(|other| *other != cpu);
    let other = others.iter().find(|other| polling.contains(other)).or(others.first())?;
    Some(Finding::warning(
        CORES,
        format!("CPU {cpu}, which is to poll, is one half of a core; CPU {other} is the other"),
        format!(
            "keep everything else away from CPU {other}: let programs poll on different cores (lscpu -e)"
        ),
    ))
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 CPUs")]
const fn count_of(cpus: usize) -> f64 {
    cpus as f64
}

/// A control group with less than its threads ask for stops all of them for the rest of a period.
fn quota(host: &Host) -> Finding {
    const NAME: &str = "quota";
    let cpus = count_of(host.allowed_cpus().len());
    match host.quota() {
        None => Finding::unknown(NAME, "no cpu.max of its control groups can be read, as with cgroup v1"),
        Some(f64::INFINITY) => Finding::good(NAME, "no control group limits the CPU time of this process"),
        Some(quota) if quota >= cpus => Finding::good(NAME, format!("{quota} CPUs, which is all it may use")),
        Some(quota) => {
            let words = format!(
                "its control group may use {quota} CPUs: a thread that polls uses one whole, and past the quota all are stopped"
            );
            let remedy = "raise cpu.max of the group (CPUQuota= of a service, the CPU limit of a container)";
            if quota < 1.0 {
                Finding::bad(NAME, words, remedy)
            } else {
                Finding::warning(NAME, words, remedy)
            }
        }
    }
}

/// The larger the path MTU, the fewer packets, and each costs as much as a kilobyte.
fn mtu(host: &Host, device: &DeviceSpec) -> Finding {
    const NAME: &str = "link";
    let (interface, best, mtu_max) = match &device.transport {
        Transport::AfPacket { interface, .. } => (interface, Pmtu::B4096, u32::MAX),
        Transport::AfXdp { interface } => (interface, Pmtu::B2048, XDP_MTU_MAX),
        // Shared memory has the MTU that it is given, and a NIC that of its driver.
        _ => return of_mtu(device.mtu.map(u32::from), Pmtu::B4096, "give both ends mtu=4590"),
    };
    let Some(mtu) = host.mtu(interface) else {
        let words = format!("there is no interface {interface}");
        return Finding::bad(NAME, words, "ip link shows those that there are");
    };
    let full = if best == Pmtu::B4096 { 4590 } else { XDP_MTU_MAX };
    let set = |mtu: u32| format!("ip link set {interface} mtu {mtu}, at the peer and in between, too");
    if !host.is_up(interface) {
        let remedy = format!("ip link set {interface} up; is there a cable, and a peer?");
        return Finding::bad(NAME, format!("{interface} is down"), remedy);
    }
    match device.mtu.map(u32::from) {
        _ if mtu > mtu_max => {
            let words = format!("{interface} has an MTU of {mtu}, and af_xdp can take {mtu_max}");
            Finding::bad(NAME, words, format!("ip link set {interface} mtu {mtu_max}"))
        }
        Some(asked) if asked > mtu => {
            Finding::bad(NAME, format!("the device has mtu={asked}, and {interface} has {mtu}"), set(asked))
        }
        // The device's own is the smaller one.
        Some(asked) => {
            let own = format!("give the device mtu={full}, at both ends");
            of_mtu(Some(asked), best, &if mtu >= full { own } else { format!("{}; and {own}", set(full)) })
        }
        None => of_mtu(Some(mtu), best, &set(full)),
    }
}

/// A buffer of XDP's must fit a page.
const XDP_MTU_MAX: u32 = 3438;

/// Of a device with so many bytes of MTU, or with the one that shared memory has; `best` is the
/// most that its packets can carry.
fn of_mtu(mtu: Option<u32>, best: Pmtu, remedy: &str) -> Finding {
    const NAME: &str = "link";
    let all = || Finding::good(NAME, format!("packets carry up to {} bytes", best.bytes()));
    let Some(mtu) = mtu else { return all() };
    match Pmtu::largest_for(mtu) {
        None => Finding::bad(NAME, format!("an MTU of {mtu} bytes carries no packet"), remedy),
        Some(pmtu) if pmtu.bytes() >= best.bytes() => all(),
        Some(pmtu) => {
            let (bytes, best) = (pmtu.bytes(), best.bytes());
            let words = format!(
                "with an MTU of {mtu} a packet carries {bytes} bytes at most; {best} need fewer packets"
            );
            Finding::warning(NAME, words, remedy)
        }
    }
}
