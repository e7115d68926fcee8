//! `srnic switch` and hosts that join it, each a process.

mod dpdk;
mod many;
mod pool;
#[path = "../support/mod.rs"]
mod support;
mod twins;

use support::{Ended, Place, Running, srnic};

struct Network(Place);

impl Network {
    fn socket(&self, host: u8) -> String {
        self.0.path(&format!("{host}.sock")).display().to_string()
    }

    /// The switch, once it is ready; `wrapper` goes before each port.
    fn switch(&self, hosts: u8, wrapper: &str) -> Running {
        self.switch_of((1..=hosts).map(|host| format!("{wrapper}memif:{}", self.socket(host))))
    }

    /// A switch with these ports, once it is ready.
    fn switch_of(&self, ports: impl IntoIterator<Item = String>) -> Running {
        let mut command = srnic("switch");
        command.arg("--json").arg(self.0.path("switch.json")).args(ports);
        let mut switch = Running::start(command);
        switch.wait_for("switching ");
        switch
    }

    /// A bandwidth tool; a client if it has a server.
    fn tool(&self, host: u8, port: u16, server: bool, amount: &str) -> Running {
        self.tool_with("", host, port, server, amount)
    }

    /// A bandwidth tool with more keys of its device, each with a comma before it.
    fn tool_with(&self, keys: &str, host: u8, port: u16, server: bool, amount: &str) -> Running {
        let mut command = srnic("write-bw");
        let device = format!("memif:{},role=client,ip=10.77.0.{host}{keys}", self.socket(host));
        command.args(["-d", &device, "-p", &port.to_string(), "-u", "18"]);
        command.args(["-s", "20000", "--verify"]).args(amount.split(' '));
        command.args((!server).then_some("127.0.0.1"));
        Running::start(command)
    }
}

fn counted(json: &serde_json::Value, key: &str) -> Vec<u64> {
    let ports = json["ports"].as_array().expect("ports");
    ports.iter().map(|port| port[key].as_u64().expect("a number")).collect()
}

#[test]
fn four_hosts_verify_every_byte_through_loss() {
    let network = Network(Place::new("switch"));
    let other = Place::new("switch-b");
    let switch = network.switch(4, "queue:frames=512,mark=64:fault:loss=1%,seed=3:");
    // More processes than processors: two pairs and the switch.
    let (first, second) = (network.0.port, other.port);
    let hosts = [(1, first, true), (2, first, false), (3, second, true), (4, second, false)];
    let running = hosts.map(|(host, port, server)| network.tool(host, port, server, "-n 200"));
    running.into_iter().for_each(|tool| tool.end().assert_success());
    switch.signal("-INT");
    let ended = switch.end();
    ended.assert_success();
    let out = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert_eq!(out.lines().count(), 5, "{out}");
    let json = network.0.json("switch.json");
    assert!(counted(&json, "tx_packets").iter().all(|packets| *packets > 50), "{json}");
    let lost =
        counted(&json, "rx_dropped").iter().sum::<u64>() + counted(&json, "tx_dropped").iter().sum::<u64>();
    assert!(lost > 10, "{json}");
}

/// Whoever runs the switch learns of a host that waits in vain, once.
#[test]
fn the_switch_says_whom_it_turned_away() {
    let network = Network(Place::new("switch-away"));
    let mut switch = network.switch(2, "");
    let mut host = srnic("rping");
    host.args(["-d", &format!("memif:{},role=client,ip=10.77.0.1,mtu=1500", network.socket(1))]);
    let mut host = Running::start(host);
    let words = format!(
        "srnic switch: the last attempt at {} was turned away: the server has mtu=4590, the client mtu=1500: both ends \
         need the same",
        network.socket(1)
    );
    switch.wait_for(&words);
    host.wait_for("both ends need the same");
    host.signal("-INT");
    host.end().assert_failed(130, "interrupted");
    switch.signal("-INT");
    let ended = switch.end();
    ended.assert_success();
    let said = String::from_utf8_lossy(&ended.0.stderr);
    assert!(!said.contains("turned away"), "again: {said}");
}

#[test]
fn a_host_may_leave_and_another_take_its_place() {
    let network = Network(Place::new("switch-again"));
    let switch = network.switch(2, "");
    let pair = |amount| {
        [true, false].map(|server| network.tool(2 - u8::from(server), network.0.port, server, amount))
    };
    let [server, mut client] = pair("-D 60 --progress");
    client.wait_for("messages in");
    server.signal("-KILL");
    client.end().assert_failed(1, "the peer closed the side channel");
    pair("-n 200").map(Running::end).iter().for_each(Ended::assert_success);
    switch.signal("-TERM");
    switch.end().assert_success();
}

#[test]
fn ports_that_make_no_sense_are_refused() {
    let refused = |ports: &[&str], reason: &str| {
        let mut command = srnic("switch");
        command.args(ports);
        Running::start(command).end().assert_failed(2, reason);
    };
    refused(&["memif:/tmp/one", "sim:a"], "a sim: device reaches nobody");
    refused(&["memif:/tmp/one", "memif:/tmp/two,pcap=/tmp/two.pcap"], "leave pcap= and stat= out");
    refused(&["memif:/tmp/one", "memif:/tmp/two,stat=/tmp/two.stat"], "leave pcap= and stat= out");
    refused(&["memif:/tmp/one", "queue:frames=x:memif:/tmp/two"], "from 0 to 65536");
}
