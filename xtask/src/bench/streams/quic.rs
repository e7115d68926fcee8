//! QUIC, by the program of `benches/quic`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::Bench;
use crate::error::{Error, Result};
use crate::process::{Process, free_port, watch};
use crate::repo::{self, RELEASE, cargo};
use crate::tools::number;

/// Longest run of a pair.
const LIMIT: Duration = Duration::from_secs(100);
const PACKAGE: &str = "srnic-bench-quic";
const PROGRAM: &str = "quic-peer";

/// Where the program is.
pub struct Quic {
    program: PathBuf,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Messages one way, in Gb/s.
    Bandwidth,
    /// Half a round trip, in microseconds.
    Latency,
}

impl What {
    /// Where the result has it.
    pub const fn figure(self) -> &'static str {
        match self {
            Self::Bandwidth => "bw_avg_gbps",
            Self::Latency => "lat_us/p50",
        }
    }
}

/// Where the two ends run.
pub struct Ends<'a> {
    /// Starts the program at the server.
    pub server: &'a dyn Fn(&Path) -> Command,
    /// Starts the program at the client.
    pub client: &'a dyn Fn(&Path) -> Command,
    /// The server's address.
    pub ip: &'a str,
}

impl Quic {
    /// Takes it from a directory, or builds it.
    pub fn new(directory: Option<&Path>) -> Result<Self> {
        if let Some(directory) = directory {
            return Ok(Self { program: directory.join(PROGRAM) });
        }
        println!("building quic-peer, which is QUIC by quinn");
        repo::run(cargo(&["build", "--profile", RELEASE, "-p", PACKAGE]))?;
        Ok(Self { program: repo::target_directory()?.join(RELEASE).join(PROGRAM) })
    }

    /// A pair on the loopback interface, each on a CPU of its own where there are two.
    pub fn here(&self, bench: &Bench<'_>, what: What, size: u64, count: u64) -> Result<f64> {
        let ends = Ends {
            server: &|program| Command::new(program),
            client: &|program| Command::new(program),
            ip: "127.0.0.1",
        };
        let cpus = bench.machine.two_cpus().unwrap_or_default();
        let options = |side: usize| match bench.machine.two_cpus() {
            Some(_) => format!("--cpu {}", cpus[side]),
            None => String::new(),
        };
        let amount = format!("-s {size} -n {count}");
        let dir = bench.scratch.subdirectory()?;
        let measured = self.run(&dir, &ends, what, &amount, [&options(0), &options(1)]);
        fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
        number(&measured?, what.figure())
    }

    /// A pair, with these options of each side; what the client measured
    /// ([`What::figure`] and others).
    pub fn run(
        &self,
        dir: &Path,
        ends: &Ends<'_>,
        what: What,
        amount: &str,
        options: [&str; 2],
    ) -> Result<Value> {
        let (cert, json) = (dir.join("quic.cert"), dir.join("quic.json"));
        let addr = format!("{}:{}", ends.ip, free_port()?);
        let mut command = (ends.server)(&self.program);
        command.args(["server", "--listen", &addr]).arg("--cert").arg(&cert);
        command.args(options[0].split_whitespace());
        let mut server = Process::start("quic-server", command, dir)?;
        server.wait_for("listens at")?;
        let mut command = (ends.client)(&self.program);
        command.args(["client", "--connect", &addr]).arg("--cert").arg(&cert).arg("--json").arg(&json);
        command.args(amount.split_whitespace()).args(options[1].split_whitespace());
        command.args((what == What::Latency).then_some("--latency"));
        let mut client = Process::start("quic-client", command, dir)?;
        watch(&mut server, &mut client, LIMIT)?;
        let text = fs::read_to_string(&json).map_err(|e| Error::io("read", &json, &e))?;
        serde_json::from_str(&text).map_err(|e| Error(e.to_string()))
    }
}
