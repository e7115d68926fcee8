//! Programs of others over a path: once by the kernel's TCP, and once through the tunnel, of which
//! they know nothing.

use std::fs;
use std::path::{Path as File, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::path::{KERNEL, Path};
use crate::demo::payload;
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, watch_one};
use crate::tools::number;

/// Longest run of a client.
const LIMIT: Duration = Duration::from_secs(120);
/// The port of each server.
const PORT: u16 = 7500;
/// Connections of Redis's benchmark.
const CLIENTS: &str = "50";
/// What is copied, in the directory that is served.
const DATA: &str = "data";

/// A program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// `redis-benchmark`: SETs and GETs of 1 KiB a second, the least of both.
    Redis,
    /// A copy by `rsync` from its daemon, in MB/s; compared.
    Rsync,
    /// A file by `curl` from Python's web server, in MB/s; compared.
    Web,
}

/// How a client reaches its server.
pub enum Way {
    Tcp,
    Tunnel,
}

impl Program {
    pub const ALL: [Self; 3] = [Self::Redis, Self::Rsync, Self::Web];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-benchmark, 50 clients, 1 KiB",
            Self::Rsync => "rsync",
            Self::Web => "curl, http.server",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Redis => "requests/s",
            Self::Rsync | Self::Web => "MB/s",
        }
    }

    /// Runs it once. `work` is how much: requests for Redis, the length of the file of [`prepare`]
    /// for the others.
    pub fn run(self, path: &Path<'_>, way: &Way, work: u64) -> Result<f64> {
        let mut server = Process::start("program-server", self.server(path)?, path.dir)?;
        listening::wait(&mut server, PORT, LIMIT)?;
        let tunnel = match way {
            Way::Tcp => None,
            Way::Tunnel => Some(path.tunnel(PORT)?),
        };
        let to = tunnel.as_ref().map_or((KERNEL[1], PORT), |tunnel| ("127.0.0.1", tunnel.port));
        let out = path.dir.join("copied");
        let mut client = Process::start("program", self.client(path, to, work, &out), path.dir)?;
        let begun = Instant::now();
        watch_one(&mut client, LIMIT)?;
        let seconds = begun.elapsed().as_secs_f64();
        if self == Self::Redis {
            return requests(&path.dir.join("program.out"));
        }
        if payload::digest(&out)? != payload::digest(&served(path.dir).join(DATA))? {
            return Err(Error(format!("{} has brought other bytes", self.name())));
        }
        fs::remove_file(&out).map_err(|e| Error::io("remove", &out, &e))?;
        Ok(work as f64 / 1e6 / seconds)
    }

    fn server(self, path: &Path<'_>) -> Result<Command> {
        let port = PORT.to_string();
        let mut command = match self {
            Self::Redis => path.server("redis-server"),
            Self::Rsync => path.server("rsync"),
            Self::Web => path.server("python3"),
        };
        match self {
            Self::Redis => {
                command.args(["--port", &port, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]);
            }
            Self::Rsync => {
                let config = path.dir.join("rsyncd.conf");
                let text = format!(
                    "use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {}\n",
                    served(path.dir).display()
                );
                fs::write(&config, text).map_err(|e| Error::io("write", &config, &e))?;
                command.args(["--daemon", "--no-detach", "--port", &port]);
                command.arg(format!("--config={}", config.display()));
            }
            Self::Web => {
                command.args(["-m", "http.server", &port, "--bind", "0.0.0.0", "--directory"]);
                command.arg(served(path.dir));
            }
        }
        Ok(command)
    }

    fn client(self, path: &Path<'_>, (ip, port): (&str, u16), work: u64, out: &File) -> Command {
        match self {
            Self::Redis => {
                let mut command = path.client("redis-benchmark");
                command.args(["-h", ip, "-p", &port.to_string(), "-t", "set,get", "-d", "1024"]);
                command.args(["-c", CLIENTS, "-n", &work.to_string(), "--csv"]);
                command
            }
            Self::Rsync => {
                let mut command = path.client("rsync");
                command.arg(format!("--port={port}")).arg(format!("rsync://{ip}/files/{DATA}")).arg(out);
                command
            }
            Self::Web => {
                let mut command = path.client("curl");
                command.args(["-s", "-f", "-o"]).arg(out).arg(format!("http://{ip}:{port}/{DATA}"));
                command
            }
        }
    }
}

/// The directory that is served.
fn served(dir: &File) -> PathBuf {
    dir.join("served")
}

/// Makes the file that is copied.
pub fn prepare(dir: &File, len: u64) -> Result<()> {
    let served = served(dir);
    fs::create_dir(&served).map_err(|e| Error::io("create", &served, &e))?;
    payload::pack(&served.join(DATA), &payload::roots(), len)
}

/// The smaller rate of those in what `redis-benchmark --csv` says.
fn requests(out: &File) -> Result<f64> {
    let text = fs::read_to_string(out).map_err(|e| Error::io("read", out, &e))?;
    let rate = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("\"{name}\",")))?;
        line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok()
    };
    match (rate("SET"), rate("GET")) {
        (Some(set), Some(get)) => Ok(set.min(get)),
        _ => Err(Error(format!("redis-benchmark gave no rates of SET and GET: {text}"))),
    }
}

/// One TCP stream by iperf3 for so many seconds, in Gb/s; `options` are the client's.
pub fn iperf3(path: &Path<'_>, way: &Way, seconds: u64, options: &[&str]) -> Result<f64> {
    let mut command = path.server("iperf3");
    command.args(["-s", "-1", "-p", &PORT.to_string()]);
    let mut server = Process::start("iperf3-server", command, path.dir)?;
    listening::wait(&mut server, PORT, LIMIT)?;
    let tunnel = match way {
        Way::Tcp => None,
        Way::Tunnel => Some(path.tunnel(PORT)?),
    };
    let (ip, port) = tunnel.as_ref().map_or((KERNEL[1], PORT), |tunnel| ("127.0.0.1", tunnel.port));
    let mut command = path.client("iperf3");
    command.args(["-J", "-c", ip, "-p", &port.to_string(), "-t", &seconds.to_string()]).args(options);
    let mut client = Process::start("iperf3", command, path.dir)?;
    watch_one(&mut client, LIMIT)?;
    let out = path.dir.join("iperf3.out");
    let text = fs::read_to_string(&out).map_err(|e| Error::io("read", &out, &e))?;
    let result: Value = serde_json::from_str(&text).map_err(|e| Error(e.to_string()))?;
    Ok(number(&result, "end/sum_received/bits_per_second")? / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn rates_are_found_in_what_redis_says() {
        let scratch = Scratch::new().expect("a directory");
        let out = scratch.path().join("out");
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"49751.24\",\"0.5\"\n\"GET\",\"50251.26\",\"0.4\"\n";
        fs::write(&out, csv).expect("written");
        assert_eq!(requests(&out), Ok(49_751.24));
        fs::write(&out, "Could not connect").expect("written");
        assert!(requests(&out).is_err());
    }
}
