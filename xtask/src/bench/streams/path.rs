//! A path that a kernel's TCP and our devices both can use: two hosts, each a network namespace
//! with one interface, joined by `srnic switch`.

use std::fs;
use std::path::Path as File;
use std::process::Command;

use std::time::Duration;

use serde_json::Value;

use super::super::Bench;
use super::quic::{Ends, Quic, What};
use crate::error::{Error, Result};
use crate::netns::Netns;
use crate::process::{Process, watch};

/// The kernel's addresses at the client and at the server.
pub const KERNEL: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
const NETWORK: &str = "10.8.0.0/24";
/// Those of our devices.
const ENGINE: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
/// The port of a device that a tunnel's end accepts at.
const ACCEPT: u16 = 7471;
/// Longest run of a pair of tools.
const LIMIT: Duration = Duration::from_secs(120);
/// Interfaces of the hosts; those of the switch are called after them.
const HOST: &str = "host";
const SWITCH: [&str; 2] = ["left", "right"];
/// What makes frames larger than the MTU, or leaves their checksums to a NIC.
const OFFLOADS: [&str; 6] = ["tx", "rx", "sg", "tso", "gso", "gro"];

/// What a path is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Longest IP packet.
    pub mtu: u16,
    /// Frames lost each way, of a hundred, and how late all others are.
    pub trouble: Option<Trouble>,
    /// What the link carries each way; none: as much as the host can.
    pub link_gbps: Option<u32>,
}

/// What a path does to frames, each way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trouble {
    pub loss_percent: u32,
    pub delay_us: u32,
}

impl Kind {
    /// The port of the switch at an interface. What comes from a host is lost and late there, with
    /// random numbers of `seed`.
    fn port(self, interface: &str, seed: u64) -> String {
        let port = format!("af_packet:{interface}");
        let fault = self.trouble.map_or_else(String::new, |Trouble { loss_percent, delay_us }| {
            format!("fault:loss={loss_percent}%,delay={delay_us}us,queue=65536,seed={seed},dir=rx:")
        });
        // A burst of a host's is longer than the ring of an interface; a link has the buffer of a
        // port of a switch.
        let queue = self.link_gbps.map_or("frames=4096".into(), |rate| format!("frames=512,rate={rate}G"));
        format!("queue:{queue}:{fault}{port}")
    }

    /// For a person.
    pub fn name(self) -> String {
        let link = self.link_gbps.map_or(String::new(), |rate| format!(", {rate} Gb/s"));
        match self.trouble {
            None => format!("MTU {}{link}, no loss", self.mtu),
            Some(Trouble { loss_percent, delay_us }) => {
                format!("MTU {}{link}, {loss_percent} % lost and {delay_us} us each way", self.mtu)
            }
        }
    }
}

/// The path. Its processes end before its namespaces.
pub struct Path<'a> {
    bench: &'a Bench<'a>,
    kind: Kind,
    pub dir: &'a File,
    _switch: Process,
    hosts: [Netns; 2],
    _middle: Netns,
}

/// A way through the path for TCP programs, by `srnic tunnel`.
pub struct Tunnel {
    _ends: [Process; 2],
    /// The port at the client that stands for the server's.
    pub port: u16,
}

impl<'a> Path<'a> {
    /// Makes it. Its processes write into `dir`.
    pub fn new(bench: &'a Bench<'_>, dir: &'a File, kind: Kind, seed: u64) -> Result<Self> {
        let (hosts, middle) = ([Netns::new()?, Netns::new()?], Netns::new()?);
        for ((host, interface), ip) in hosts.iter().zip(SWITCH).zip(KERNEL) {
            let name = host.name();
            middle.run(&format!("ip link add {interface} type veth peer name {HOST} netns {name}"))?;
            for (namespace, interface) in [(&middle, interface), (host, HOST)] {
                namespace.run(&format!("ip link set {interface} mtu {}", kind.mtu))?;
                for offload in OFFLOADS {
                    namespace.run(&format!("ethtool -K {interface} {offload} off"))?;
                }
                namespace.run(&format!("ip link set {interface} up"))?;
            }
            host.run(&format!("ip addr add {ip}/24 dev {HOST}"))?;
        }
        let mut command = middle.command(bench.tools.program());
        command.arg("switch").args([kind.port(SWITCH[0], 2 * seed), kind.port(SWITCH[1], 2 * seed + 1)]);
        let mut switch = Process::start("switch", command, dir)?;
        switch.wait_for("switching ")?;
        Ok(Self { bench, kind, dir, _switch: switch, hosts, _middle: middle })
    }

    /// A command that runs at the client.
    pub fn client(&self, program: impl AsRef<File>) -> Command {
        self.hosts[0].command(program.as_ref())
    }

    /// A command that runs at the server.
    pub fn server(&self, program: impl AsRef<File>) -> Command {
        self.hosts[1].command(program.as_ref())
    }

    /// Runs a tool of ours at both ends with these options, over their devices; its results.
    pub fn over_rdma(&self, tool: &str, options: &str) -> Result<Value> {
        let device = |side: usize| format!("{options} -d af_packet:{HOST},ip={}", ENGINE[side]);
        self.tools(tool, [&device(0), &device(1)])
    }

    /// Runs a tool of ours at both ends with these options, over the kernel's TCP with this
    /// congestion control; its results.
    pub fn over_tcp(&self, tool: &str, congestion: &str, options: &str) -> Result<Value> {
        // Only the first namespace may choose for all connections.
        self.route(&format!(" congctl {congestion}"))?;
        let results = self.tools(tool, [options, options]);
        self.route("")?;
        results
    }

    /// Gives the route between the hosts these options, each behind a space.
    fn route(&self, options: &str) -> Result<()> {
        let change = |(host, ip): (&Netns, &str)| {
            host.run(&format!("ip route change {NETWORK} dev {HOST} scope link src {ip}{options}")).map(drop)
        };
        self.hosts.iter().zip(KERNEL).try_for_each(change)
    }

    /// Runs a tool with these options of the client and of the server.
    fn tools(&self, tool: &str, [client, server]: [&str; 2]) -> Result<Value> {
        let program = self.bench.tools.program();
        let mut command = self.server(&program);
        command.arg(tool).args(server.split_whitespace()).args(["--bind", KERNEL[1]]);
        let mut server = Process::start("tool-server", command, self.dir)?;
        server.wait_for("waiting for a client")?;
        let json = self.dir.join("tool.json");
        let mut command = self.client(&program);
        command.arg(tool).args(client.split_whitespace()).arg("--json").arg(&json).arg(KERNEL[1]);
        let mut client = Process::start("tool-client", command, self.dir)?;
        watch(&mut server, &mut client, LIMIT)?;
        let text = fs::read_to_string(&json).map_err(|e| Error::io("read", &json, &e))?;
        serde_json::from_str(&text).map_err(|e| Error(e.to_string()))
    }

    /// Runs QUIC's pair with this congestion control and amount of work; its results.
    pub fn over_quic(&self, quic: &Quic, what: What, congestion: &str, amount: &str) -> Result<Value> {
        let ends = Ends {
            server: &|program| self.server(program),
            client: &|program| self.client(program),
            ip: KERNEL[1],
        };
        let both = format!("--mtu {} --congestion {congestion}", self.kind.mtu);
        quic.run(self.dir, &ends, what, amount, [&both, &both])
    }

    /// A tunnel from a port of the client's to one of the server's.
    pub fn tunnel(&self, port: u16) -> Result<Tunnel> {
        let program = self.bench.tools.program();
        let device = |side: usize| format!("af_packet:{HOST},ip={}", ENGINE[side]);
        let mut command = self.server(&program);
        command.args(["tunnel", "-d", &device(1), "--accept", &ACCEPT.to_string()]);
        command.args(["--to", &format!("127.0.0.1:{port}")]);
        let mut there = Process::start("tunnel-server", command, self.dir)?;
        there.wait_for("accepts at")?;
        let entry = port + 1;
        let mut command = self.client(&program);
        command.args(["tunnel", "-d", &device(0), "--listen", &format!("127.0.0.1:{entry}")]);
        command.args(["--peer", &format!("{}:{ACCEPT}", ENGINE[1])]);
        let mut here = Process::start("tunnel-client", command, self.dir)?;
        here.wait_for("listens at")?;
        Ok(Tunnel { _ends: [here, there], port: entry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_switch_has_the_trouble_of_one_direction() {
        let trouble = Some(Trouble { loss_percent: 1, delay_us: 500 });
        let lossy = Kind { mtu: 1500, trouble, link_gbps: None };
        assert_eq!(
            lossy.port("left", 7),
            "queue:frames=4096:fault:loss=1%,delay=500us,queue=65536,seed=7,dir=rx:af_packet:left"
        );
        assert_eq!(lossy.name(), "MTU 1500, 1 % lost and 500 us each way");
        let slow = Kind { link_gbps: Some(1), ..lossy };
        assert!(slow.port("left", 7).starts_with("queue:frames=512,rate=1G:fault:loss=1%"));
        assert_eq!(slow.name(), "MTU 1500, 1 Gb/s, 1 % lost and 500 us each way");
        let clean = Kind { mtu: 4200, trouble: None, link_gbps: None };
        assert_eq!(clean.port("right", 7), "queue:frames=4096:af_packet:right");
        assert_eq!(clean.name(), "MTU 4200, no loss");
    }
}
