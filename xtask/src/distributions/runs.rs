//! What is run in each distribution: what a user runs, by the README's own steps.

use super::chroot::{Layer, Network};
use super::program;

/// A run, as a column of the table.
pub struct Run {
    /// The heading.
    pub name: &'static str,
    pub layer: Layer,
    pub network: Network,
    pub script: Script,
    /// The releases that have it, as their archives call them; all, if none is named.
    pub suites: &'static [&'static str],
}

impl Run {
    /// Returns `true` if it is for the release.
    pub fn is_for(&self, suite: &str) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }
}

/// What a shell does there.
pub enum Script {
    /// This.
    Lines(&'static str),
    /// `srnic write-bw` between two processes that have these devices; every byte is compared.
    Pair { server: &'static str, client: &'static str },
}

impl Script {
    pub fn text(&self) -> String {
        match *self {
            Self::Lines(lines) => lines.to_owned(),
            Self::Pair { server, client } => {
                let tool = "timeout 120 srnic write-bw -n 1000 --verify -d";
                format!("{tool} {server} &\n{tool} {client} 127.0.0.1\nwait $!")
            }
        }
    }
}

/// A file that is long enough to lose packets. The command installs DPDK.
const DEMO: &str = "cd /srnic && head -c 33554432 /dev/urandom > /tmp/file && cargo xtask demo /tmp/file";

const INSTALL: &str = "cd /srnic && cargo install --locked --path benches/tools && srnic help";

/// Some programs of each kind that were compiled for libibverbs, each by a part of its row's name.
/// The command installs them.
const UNMODIFIED: &str = "
cd /srnic
for row in symbols exports ibv_dev 'srnic run' 'pingpong -' ib_send_bw ib_write_lat ib_read_bw ib_atomic_bw \\
    rping ucmatose rdma_client cmtime rstream riostream rcopy ucx_info 'verbs -t am_' tag_ fi_info 'mpirun all' 'mpirun Net' \\
    librspreload 'two hosts, MTU 1500'
do
    cargo xtask test --unmodified \"$row\"
done
";

/// In this order: the program of the README comes before DPDK, and the tools before their use.
pub const RUNS: &[Run] = &[
    Run {
        name: "program",
        layer: Layer::Bare,
        network: Network::Own,
        script: Script::Lines(program::SCRIPT),
        suites: &[],
    },
    Run {
        name: "demo",
        layer: Layer::Kept,
        network: Network::Host,
        script: Script::Lines(DEMO),
        suites: &[],
    },
    Run {
        name: "install",
        layer: Layer::Kept,
        network: Network::Own,
        script: Script::Lines(INSTALL),
        suites: &[],
    },
    Run {
        name: "memif",
        layer: Layer::Kept,
        network: Network::Own,
        script: Script::Pair { server: "memif:/tmp/a.sock", client: "fault:loss=1%:memif:/tmp/a.sock" },
        suites: &[],
    },
    Run {
        name: "memif by DPDK",
        layer: Layer::Kept,
        network: Network::Own,
        script: Script::Pair {
            server: "memif:/tmp/a.sock,driver=dpdk",
            client: "fault:loss=1%:memif:/tmp/a.sock,driver=dpdk",
        },
        suites: &[],
    },
    Run {
        name: "af_packet",
        layer: Layer::Kept,
        network: Network::Own,
        script: Script::Pair {
            server: "af_packet:left,ip=10.9.0.1",
            client: "fault:loss=1%:af_packet:right,ip=10.9.0.2",
        },
        suites: &[],
    },
    Run {
        name: "unmodified",
        layer: Layer::Kept,
        network: Network::Host,
        script: Script::Lines(UNMODIFIED),
        // Later releases have an rdma-core whose libraries share other names.
        suites: &["bookworm", "trixie"],
    },
];

/// Says which DPDK there is.
pub const DPDK_VERSION: &str = "pkg-config --modversion libdpdk";
