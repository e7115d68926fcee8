//! What is played: every stock tool, in both roles, at both path MTUs, over a good network and a
//! bad one.

use std::process::Command;

use super::namespace::{ENGINE_IP, ENGINE_IP6, GUEST_IP, GUEST_IP6, HOST_IP, TAP};

/// What is injected on our side, in both directions.
const FAULTS: &str = "fault:loss=1%,dup=1%,reorder=1%,seed=";

/// A stock tool.
#[derive(Clone, Copy, Debug)]
struct Tool {
    stock: &'static str,
    /// What our program calls it.
    ours: &'static str,
    /// The service: RC, UC or UD.
    service: &'static str,
    /// Messages that it sends.
    iters: u32,
    /// Bytes of a message; of a datagram at most the path MTU, less some.
    size: u32,
    ip: Ip,
}

/// What carries the packets of RoCE; the tools' side channel is always TCP over IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    V4,
    V6,
}

impl Ip {
    /// Our device, as our programs take it.
    pub fn device(self) -> String {
        // Whoever else runs on this machine may have the huge pages.
        format!("af_packet:{TAP},ip={},hugepages=off", self.engine())
    }

    /// Our engine's address.
    const fn engine(self) -> &'static str {
        match self {
            Self::V4 => ENGINE_IP,
            Self::V6 => ENGINE_IP6,
        }
    }

    /// The guest's.
    const fn guest(self) -> &'static str {
        match self {
            Self::V4 => GUEST_IP,
            Self::V6 => GUEST_IP6,
        }
    }

    /// The index of the guest's GID; that of its link-local address is 0.
    const fn gid_index(self) -> u8 {
        match self {
            Self::V4 => 1,
            Self::V6 => 2,
        }
    }
}

const fn tool(stock: &'static str, ours: &'static str, service: &'static str, iters: u32, size: u32) -> Tool {
    Tool { stock, ours, service, iters, size, ip: Ip::V4 }
}

const fn over_v6(tool: Tool) -> Tool {
    Tool { ip: Ip::V6, ..tool }
}

const TOOLS: [Tool; 24] = [
    tool("ibv_rc_pingpong", "pingpong", "RC", 200, 9000),
    tool("ib_send_bw", "send-bw", "RC", 200, 9000),
    tool("ib_send_lat", "send-lat", "RC", 100, 2000),
    tool("ib_write_bw", "write-bw", "RC", 200, 9000),
    tool("ib_write_lat", "write-lat", "RC", 100, 2000),
    tool("ib_read_bw", "read-bw", "RC", 200, 9000),
    tool("ib_read_lat", "read-lat", "RC", 100, 9000),
    tool("ib_atomic_bw", "atomic-bw", "RC", 200, 8),
    tool("ib_atomic_lat", "atomic-lat", "RC", 100, 8),
    // A short ping, and one of many packets, which rping tells of by their size alone.
    tool(RPING, "rping", "RC", 50, 64),
    tool(RPING, "rping", "RC", 20, 60_000),
    over_v6(tool(RPING, "rping", "RC", 20, 6000)),
    over_v6(tool("ibv_rc_pingpong", "pingpong", "RC", 200, 9000)),
    over_v6(tool("ib_write_bw", "write-bw", "RC", 200, 9000)),
    over_v6(tool("ib_read_bw", "read-bw", "RC", 200, 9000)),
    // Nobody repairs a loss of these: few are under way at once, and the network is always good.
    tool("ibv_uc_pingpong", "pingpong", "UC", 200, 9000),
    tool("ib_send_bw", "send-bw", "UC", 50, 9000),
    tool("ib_send_lat", "send-lat", "UC", 100, 2000),
    tool("ib_write_lat", "write-lat", "UC", 100, 2000),
    tool("ibv_ud_pingpong", "pingpong", "UD", 200, DATAGRAM),
    tool("ib_send_bw", "send-bw", "UD", 100, DATAGRAM),
    tool("ib_send_lat", "send-lat", "UD", 100, DATAGRAM),
    over_v6(tool("ibv_uc_pingpong", "pingpong", "UC", 200, 9000)),
    over_v6(tool("ibv_ud_pingpong", "pingpong", "UD", 200, DATAGRAM)),
];

/// It connects by the connection manager, with the path MTU of the port.
pub const RPING: &str = "rping";
const RPING_MTU: u32 = 4096;

/// As many bytes as a datagram may have at the path MTU, less some.
const DATAGRAM: u32 = 0;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    tool: Tool,
    mtu: u32,
    /// The stock tool is the server.
    pub guest_serves: bool,
    faulty: bool,
}

impl Case {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|faulty| {
            [1024, 4096].into_iter().flat_map(move |mtu| {
                let tools = TOOLS
                    .into_iter()
                    .filter(move |tool| !faulty || tool.service == "RC")
                    .filter(move |tool| tool.stock != RPING || mtu == RPING_MTU);
                tools.flat_map(move |tool| {
                    [true, false].map(move |guest_serves| Self { tool, mtu, guest_serves, faulty })
                })
            })
        })
    }

    fn size(&self) -> u32 {
        if self.tool.size == DATAGRAM { self.mtu - 24 } else { self.tool.size }
    }

    /// What the table calls it.
    pub fn name(&self) -> String {
        let role = if self.guest_serves { "server" } else { "client" };
        let network = if self.faulty { ", faults" } else { "" };
        let Tool { stock, service, ip, .. } = self.tool;
        let ip = if ip == Ip::V6 { " IPv6" } else { "" };
        let service = if stock.starts_with("ibv_") || service == "RC" { "" } else { service };
        let space = if service.is_empty() { "" } else { " " };
        let size = if stock == RPING { format!(" of {}", self.tool.size) } else { String::new() };
        format!("{stock}{space}{service} {role} {}{size}{ip}{network}", self.mtu)
    }

    /// The stock tool's command line.
    pub fn theirs(&self) -> String {
        let Tool { stock, service, iters, ip, .. } = self.tool;
        let (size, mtu) = (self.size(), self.mtu);
        if stock == RPING {
            let (role, host) = if self.guest_serves { ("-s", ip.guest()) } else { ("-c", ip.engine()) };
            return format!("{stock} {role} -a {host} -C {iters} -S {size} -V");
        }
        let host = if self.guest_serves { "" } else { HOST_IP };
        let gid = ip.gid_index();
        if stock.starts_with("ibv_") {
            // A datagram's path MTU is the port's.
            let path = if service == "UD" { String::new() } else { format!("-m {mtu} ") };
            return format!("{stock} -d rxe0 -g {gid} -c -n {iters} -s {size} {path}{host}");
        }
        let sizes = if stock.contains("atomic") { String::new() } else { format!("-s {size} -c {service} ") };
        format!("{stock} -d rxe0 -x {gid} -F -n {iters} {sizes}-m {mtu} {host}")
    }

    /// Returns `true` if it connects by the connection manager.
    pub fn connects(&self) -> bool {
        self.tool.stock == RPING
    }

    /// Our command line, behind the program.
    pub fn ours(&self, mut command: Command) -> Command {
        let faults = if self.faulty { format!("{FAULTS}{}:", self.mtu) } else { String::new() };
        let device = format!("{faults}{}", self.tool.ip.device());
        if self.connects() {
            command.args([
                "rping",
                "-d",
                &device,
                "-S",
                &self.size().to_string(),
                "-C",
                &self.tool.iters.to_string(),
            ]);
            command.args(self.guest_serves.then(|| self.tool.ip.guest()));
            return command;
        }
        command.args(["perftest", self.tool.ours, "-d", &device, "-c", self.tool.service]);
        for (option, value) in [("-n", self.tool.iters), ("-s", self.size()), ("-m", self.mtu)] {
            command.args([option, &value.to_string()]);
        }
        // An emulated guest on a busy machine may not be heard of for longer than it takes to give
        // up by default.
        command.args(["-u", "18"]);
        if self.guest_serves {
            command.arg(GUEST_IP);
        } else {
            command.args(["--bind", HOST_IP]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Case::all().map(|case| case.name()).collect();
        assert_eq!(names.len(), Case::all().count());
        let reliable = TOOLS.iter().filter(|tool| tool.service == "RC").count();
        let one_mtu = TOOLS.iter().filter(|tool| tool.stock == RPING).count();
        assert_eq!(names.len(), (TOOLS.len() + reliable - one_mtu) * 2 * 2);
    }
}
