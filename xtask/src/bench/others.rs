//! Programs of others beside which we are measured: iperf3, and UCX's own benchmark over TCP.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port, watch};
use crate::scratch::Scratch;
use crate::tools::number;

/// Has UCX take kernel TCP over the loopback interface.
pub const UCX_OVER_TCP: [(&str, &str); 2] = [("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")];

/// Longest wait for a server to listen, and longest run of a pair.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a message, where bandwidth is measured.
const MESSAGE: u64 = 65_536;

/// A program, and which of its figures counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// One TCP stream, in Gb/s.
    Iperf3,
    /// Puts over TCP, in Gb/s.
    UcxBandwidth,
    /// Puts over TCP, half a round trip in microseconds.
    UcxLatency,
}

impl Program {
    /// How it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::UcxBandwidth | Self::UcxLatency => "ucx_perftest",
        }
    }

    /// Returns `true` if this machine has it.
    pub fn is_here(self) -> bool {
        let version = if self == Self::Iperf3 { "--version" } else { "-h" };
        let run = Command::new(self.name()).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok()
    }

    /// Runs a server and a client on 127.0.0.1, on a CPU each where there are two; what the client
    /// measured.
    pub fn run(self, scratch: &Scratch, cpus: Option<[usize; 2]>, options: &str, iters: u64) -> Result<f64> {
        let dir = scratch.subdirectory()?;
        let result = self.run_in(&dir, cpus, options, iters);
        fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
        result.map_err(|error| Error(format!("{} {options}: {error}", self.name())))
    }

    fn run_in(self, dir: &Path, cpus: Option<[usize; 2]>, options: &str, iters: u64) -> Result<f64> {
        let port = free_port()?;
        let mut server = Process::start("server", self.server(port, cpus.map(|cpus| cpus[0])), dir)?;
        // Not tried by a connection: these servers take the first for their client.
        listening::wait(&mut server, port, LIMIT)?;
        let mut command = self.client(port, cpus.map(|cpus| cpus[1]), iters);
        command.args(options.split_whitespace());
        let mut client = Process::start("client", command, dir)?;
        watch(&mut server, &mut client, LIMIT)?;
        let output = dir.join("client.out");
        let text = fs::read_to_string(&output).map_err(|e| Error::io("read", &output, &e))?;
        self.figure(&text)
    }

    fn server(self, port: u16, cpu: Option<usize>) -> Command {
        let mut command = self.command(port, cpu);
        if self == Self::Iperf3 {
            command.args(["-s", "-1", "-B", "127.0.0.1"]);
        }
        command
    }

    fn client(self, port: u16, cpu: Option<usize>, iters: u64) -> Command {
        let mut command = self.command(port, cpu);
        match self {
            Self::Iperf3 => command.args(["-J", "-c", "127.0.0.1", "-n"]).arg((iters * MESSAGE).to_string()),
            Self::UcxBandwidth | Self::UcxLatency => {
                command.args(["127.0.0.1", "-v", "-f", "-w", "1000", "-n"]).arg(iters.to_string())
            }
        };
        command
    }

    fn command(self, port: u16, cpu: Option<usize>) -> Command {
        let mut command = Command::new(self.name());
        command.arg("-p").arg(port.to_string());
        let pin = if self == Self::Iperf3 {
            "-A"
        } else {
            command.envs(UCX_OVER_TCP);
            "-c"
        };
        if let Some(cpu) = cpu {
            command.arg(pin).arg(cpu.to_string());
        }
        command
    }

    /// The figure that counts in what the client printed.
    fn figure(self, output: &str) -> Result<f64> {
        match self {
            Self::Iperf3 => {
                let result: Value = serde_json::from_str(output).map_err(|e| Error(e.to_string()))?;
                Ok(number(&result, "end/sum_received/bits_per_second")? / 1e9)
            }
            Self::UcxBandwidth => Ok(column(output, "overall_mr")? * 8e-9 * MESSAGE as f64),
            Self::UcxLatency => column(output, "50.0_percentile_lat"),
        }
    }
}

/// A number of the last line, below its title in the line before.
pub fn column(output: &str, title: &str) -> Result<f64> {
    let mut lines = output.lines().rev().filter(|line| line.contains(','));
    let (values, titles) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let value = titles.split(',').zip(values.split(',')).find(|(name, _)| *name == title);
    let value = value.and_then(|(_, value)| value.parse().ok());
    value.ok_or_else(|| Error(format!("`{title}` is missing or no number in {output}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_found_in_what_the_programs_print() {
        let csv = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                   20000,9.618,77.571,43.450,0.79,1.40,12891,25000\n";
        assert_eq!(Program::UcxLatency.figure(csv), Ok(9.618));
        let gbps = Program::UcxBandwidth.figure(csv).expect("a rate of messages");
        assert!((gbps - 25_000.0 * 65_536.0 * 8.0 / 1e9).abs() < 1e-9, "{gbps}");
        let json = r#"{ "end": { "sum_received": { "bits_per_second": 28455862526.0 } } }"#;
        assert_eq!(Program::Iperf3.figure(json), Ok(28.455_862_526));
        for program in [Program::Iperf3, Program::UcxBandwidth, Program::UcxLatency] {
            assert!(program.figure("error: no route").is_err(), "{program:?}");
        }
    }
}
