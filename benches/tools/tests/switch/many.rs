//! A switch with two hundred ports.

use crate::Network;
use crate::support::{LIMIT, Place, Running, program};
use datapath::port::Port;
use datapath::port::memif::{Config, MemifPort, Role};
use std::fs;
use std::process::Command;
use std::time::Instant;

const PORTS: u8 = 200;
/// Frames that each host sends to the next.
const ROUNDS: u8 = 10;
/// Turns of the hosts after which what did not arrive is sent again.
const PATIENCE: u32 = 200;
const FRAME: usize = 1000;

/// A host without an engine, whose frames a test sees.
struct Host {
    port: MemifPort,
    number: u8,
    /// Frames of the one before that arrived, and were right to the byte.
    received: u8,
}

const fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

/// The host before it in the ring of all.
const fn before(host: u8) -> u8 {
    if host == 1 { PORTS } else { host - 1 }
}

const fn behind(host: u8) -> u8 {
    if host == PORTS { 1 } else { host + 1 }
}

/// What `from` sends in a round, to the host behind it.
fn frame(from: u8, round: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..FRAME).map(|at| ((at * 31) >> 3).to_le_bytes()[0] ^ from ^ round).collect();
    frame[..6].copy_from_slice(&mac(behind(from)));
    frame[6..12].copy_from_slice(&mac(from));
    frame
}

impl Host {
    fn join(network: &Network, number: u8) -> Self {
        let config = Config {
            path: network.socket(number).into(),
            role: Role::Client,
            max_frame: 4608,
            ring_size_log2: 4,
            secret: None,
        };
        let port = MemifPort::open(&config, mac(number)).expect("a client");
        Self { port, number, received: 0 }
    }

    fn send(&mut self, round: u8) {
        let frame = frame(self.number, round);
        if let Some(slot) = self.port.tx_slot() {
            slot[..FRAME].copy_from_slice(&frame);
            self.port.tx_commit(FRAME);
        }
        self.port.tx_flush();
    }

    fn receive(&mut self) {
        for index in 0..self.port.rx_burst() {
            let next = frame(before(self.number), self.received);
            // Frames for others are flooded until the switch knows them, and some come again.
            self.received += u8::from(self.port.rx_frame(index).bytes() == next);
        }
        self.port.rx_release();
    }
}

/// All hosts send to the next one, again and again, until those who hear have heard everything.
fn send_around(hosts: &mut [Host], hears: impl Fn(u8) -> bool) {
    let start = Instant::now();
    let mut turn = 0_u32;
    while !hosts.iter().all(|host| host.received == ROUNDS || !hears(host.number)) {
        assert!(start.elapsed() < LIMIT, "{:?}", received(hosts));
        if turn.is_multiple_of(PATIENCE) {
            for at in 0..hosts.len() {
                let round = hosts[usize::from(behind(hosts[at].number) - 1)].received;
                hosts[at].send(round.min(ROUNDS - 1));
            }
        }
        hosts.iter_mut().for_each(Host::receive);
        turn += 1;
    }
}

fn received(hosts: &[Host]) -> Vec<(u8, u8)> {
    hosts.iter().map(|host| (host.number, host.received)).collect()
}

/// A line of the kernel's account of a process, in kilobytes.
fn kilobytes(process: &Running, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line of the kernel's");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

fn descriptors(process: &Running) -> usize {
    fs::read_dir(format!("/proc/{}/fd", process.id())).expect("it runs").count()
}

fn runs_dpdk(process: &Running) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs");
    let mut names =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    // By DPDK 22.11, and from 23.03 on.
    names.any(|name| name.starts_with("eal-") || name.starts_with("dpdk-"))
}

#[test]
fn two_hundred_hosts_reach_each_other_with_bounded_means() {
    let network = Network(Place::new("switch-200"));
    // One port lets nothing out: that host shows that what the others receive comes through theirs.
    let port = |host: u8| {
        let wrapper = if host == 77 { "fault:loss=100%,dir=tx:" } else { "" };
        format!("{wrapper}memif:{}", network.socket(host))
    };
    let switch = network.switch_of((1..=PORTS).map(port));
    let mut hosts: Vec<Host> = (1..=PORTS).map(|number| Host::join(&network, number)).collect();
    send_around(&mut hosts, |host| host != 77);
    assert_eq!(hosts[76].received, 0);
    assert!(hosts.iter().all(|host| host.port.link_up()));
    let (open, memory) = (descriptors(&switch), kilobytes(&switch, "RssAnon"));
    assert!(open <= 4 * usize::from(PORTS) + 32, "{open} descriptors");
    assert!(memory < 32 << 10, "{memory} kB of its own");
    assert!(!runs_dpdk(&switch));
    switch.signal("-INT");
    switch.end().assert_success();
    let json = network.0.json("switch.json");
    assert_eq!(json["ports"].as_array().map(Vec::len), Some(PORTS.into()));
}

#[test]
fn hosts_of_both_kinds_meet_on_ports_of_both_kinds() {
    let network = Network(Place::new("switch-kinds"));
    let others = [Place::new("switch-kinds-b"), Place::new("switch-kinds-c")];
    let port = |host: u8| {
        let kind = if host.is_multiple_of(2) { "" } else { ",driver=dpdk" };
        format!("memif:{}{kind}", network.socket(host))
    };
    let switch = network.switch_of((1..=PORTS).map(port));
    let (copies, lends) = (",driver=dpdk", "");
    let pairs = [
        (network.0.port, [(7, lends), (150, copies)]),
        (others[0].port, [(50, copies), (51, copies)]),
        (others[1].port, [(199, lends), (200, lends)]),
    ];
    let tools: Vec<Running> = pairs
        .iter()
        .flat_map(|(port, ends)| {
            [true, false]
                .into_iter()
                .zip(ends)
                .map(|(server, (host, keys))| network.tool_with(keys, *host, *port, server, "-n 200"))
        })
        .collect();
    tools.into_iter().for_each(|tool| tool.end().assert_success());
    switch.signal("-INT");
    switch.end().assert_success();
    let json = network.0.json("switch.json");
    let sent = crate::counted(&json, "rx_packets");
    for host in 1..=PORTS {
        let took_part = pairs.iter().any(|(_, ends)| ends.iter().any(|(end, _)| *end == host));
        assert_eq!(sent[usize::from(host) - 1] > 0, took_part, "host {host}: {json}");
    }
}

#[test]
fn dpdk_runs_only_where_a_port_needs_it() {
    let network = Network(Place::new("switch-dpdk"));
    let memif = |host| format!("memif:{}", network.socket(host));
    let without = network.switch_of([1, 2].map(memif));
    assert!(!runs_dpdk(&without));
    drop(without);
    let vhost = format!("vhost:{}", network.socket(3));
    assert!(runs_dpdk(&network.switch_of([memif(1), vhost])));
}

#[test]
fn too_few_descriptors_for_the_ports_are_said_at_once() {
    let network = Network(Place::new("switch-descriptors"));
    let switch = |limit: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit} 100 && exec \"$@\""), "sh", program(), "switch"]);
        command.args((1..=50).map(|host| format!("memif:{}", network.socket(host))));
        Running::start(command)
    };
    switch("-n").end().assert_failed(1, "file descriptors, and this process may have 100");
    // What a process may raise by itself, it does.
    let mut raised = switch("-Sn");
    raised.wait_for("switching 50 ports");
}
