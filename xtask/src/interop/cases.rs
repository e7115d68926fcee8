//! What is played: every stock tool, in both roles, at both path MTUs, over a good network and a bad one.

use std::process::Command;

use super::namespace::{ENGINE_IP, GUEST_IP, HOST_IP, TAP};

/// What is injected on our side, in both directions.
const FAULTS: &str = "fault:loss=1%,dup=1%,reorder=1%,seed=";
/// A stock tool, what our program calls it, how many messages it sends, and of how many bytes.
const TOOLS: [(&str, &str, u32, u32); 9] = [
    ("ibv_rc_pingpong", "pingpong", 200, 9000),
    ("ib_send_bw", "send-bw", 200, 9000),
    ("ib_send_lat", "send-lat", 100, 2000),
    ("ib_write_bw", "write-bw", 200, 9000),
    ("ib_write_lat", "write-lat", 100, 2000),
    ("ib_read_bw", "read-bw", 200, 9000),
    ("ib_read_lat", "read-lat", 100, 9000),
    ("ib_atomic_bw", "atomic-bw", 200, 8),
    ("ib_atomic_lat", "atomic-lat", 100, 8),
];

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    stock: &'static str,
    test: &'static str,
    iters: u32,
    size: u32,
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
                TOOLS.into_iter().flat_map(move |(stock, test, iters, size)| {
                    [true, false].map(move |guest_serves| Self {
                        stock,
                        test,
                        iters,
                        size,
                        mtu,
                        guest_serves,
                        faulty,
                    })
                })
            })
        })
    }

    /// What the table calls it.
    pub fn name(&self) -> String {
        let role = if self.guest_serves { "server" } else { "client" };
        let network = if self.faulty { ", faults" } else { "" };
        format!("{} {role} {}{network}", self.stock, self.mtu)
    }

    /// The stock tool's command line.
    pub fn theirs(&self) -> String {
        let Self { stock, iters, size, mtu, .. } = *self;
        let host = if self.guest_serves { "" } else { HOST_IP };
        if stock == "ibv_rc_pingpong" {
            return format!("{stock} -d rxe0 -g 1 -c -n {iters} -s {size} -m {mtu} {host}");
        }
        let sizes = if stock.contains("atomic") { String::new() } else { format!("-s {size} ") };
        format!("{stock} -d rxe0 -x 1 -F -n {iters} {sizes}-m {mtu} {host}")
    }

    /// Ours, to which `command` leads.
    pub fn ours(&self, mut command: Command) -> Command {
        let faults = if self.faulty { format!("{FAULTS}{}:", self.mtu) } else { String::new() };
        let device = format!("{faults}af_packet:{TAP},ip={ENGINE_IP}");
        command.args([self.test, "-d", &device]);
        for (option, value) in [("-n", self.iters), ("-s", self.size), ("-m", self.mtu)] {
            command.args([option, &value.to_string()]);
        }
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
        assert_eq!(names.len(), TOOLS.len() * 2 * 2 * 2);
    }
}
