//! What is measured beside what: our tools, raw frames, kernel TCP, and programs of others.

use super::Bench;
use super::others;
use crate::error::Result;
use crate::tools::{Over, Run, Tools, number};

/// One thing to measure.
pub struct Contender {
    pub key: &'static str,
    pub label: &'static str,
    program: Program,
    options: &'static str,
    /// Messages of a short run: some tenths of a second.
    iters: u64,
    pub metric: Metric,
}

/// What runs.
#[derive(Clone, Copy)]
enum Program {
    /// A tool of ours over a memif.
    Device(&'static str),
    /// One over a memif by DPDK's driver.
    Dpdk(&'static str),
    /// A tool of ours over kernel TCP.
    Tcp(&'static str),
    /// One that somebody else wrote.
    Other(others::Program),
}

/// Which of a result's numbers counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Gbps,
    Micros,
    Mpps,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Gbps, Self::Micros, Self::Mpps];

    const fn key(self) -> &'static str {
        match self {
            Self::Gbps => "bw_avg_gbps",
            Self::Micros => "lat_us/p50",
            Self::Mpps => "msg_rate_mpps",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Gbps => "Gb/s",
            Self::Micros => "us",
            Self::Mpps => "M/s",
        }
    }
}

use Metric::{Gbps, Micros, Mpps};
use Program::{Device, Dpdk, Other, Tcp};

#[rustfmt::skip]
pub const CONTENDERS: &[Contender] = &[
    Contender { key: "bw_dpdk", label: "srnic WRITE, 64 KiB, DPDK's memif", program: Dpdk("write-bw"),
                options: "-s 65536 -m 4096", iters: 40_000, metric: Gbps },
    Contender { key: "bw", label: "srnic WRITE, 64 KiB", program: Device("write-bw"),
                options: "-s 65536 -m 4096", iters: 80_000, metric: Gbps },
    Contender { key: "raw_copy_crc_bw", label: "raw frames, 4200 B, copy and CRC", program: Device("raw-bw"),
                options: "-s 4200 --copy --crc", iters: 600_000, metric: Gbps },
    Contender { key: "raw_bw_dpdk", label: "raw frames, 4200 B, DPDK's memif", program: Dpdk("raw-bw"),
                options: "-s 4200", iters: 800_000, metric: Gbps },
    Contender { key: "raw_copy_crc_bw_dpdk", label: "raw frames, copy and CRC, DPDK's memif",
                program: Dpdk("raw-bw"), options: "-s 4200 --copy --crc", iters: 600_000, metric: Gbps },
    Contender { key: "tcp_bw", label: "kernel TCP, one stream", program: Tcp("tcp-bw"),
                options: "-s 65536", iters: 30_000, metric: Gbps },
    Contender { key: "iperf3_bw", label: "kernel TCP by iperf3", program: Other(others::Program::Iperf3),
                options: "-l 65536", iters: 30_000, metric: Gbps },
    Contender { key: "ucx_bw", label: "UCX over TCP, put, 64 KiB", program: Other(others::Program::UcxBandwidth),
                options: "-t ucp_put_bw -s 65536", iters: 10_000, metric: Gbps },
    Contender { key: "lat_dpdk", label: "srnic WRITE, 64 B, DPDK's memif", program: Dpdk("write-lat"),
                options: "-s 64", iters: 100_000, metric: Micros },
    Contender { key: "lat", label: "srnic WRITE, 64 B", program: Device("write-lat"),
                options: "-s 64", iters: 100_000, metric: Micros },
    Contender { key: "raw_lat", label: "raw frames, 64 B", program: Device("raw-lat"),
                options: "-s 64", iters: 200_000, metric: Micros },
    Contender { key: "raw_lat_dpdk", label: "raw frames, 64 B, DPDK's memif", program: Dpdk("raw-lat"),
                options: "-s 64", iters: 200_000, metric: Micros },
    Contender { key: "tcp_lat_spin", label: "kernel TCP, 64 B, spinning", program: Tcp("tcp-lat"),
                options: "-s 64 --spin", iters: 20_000, metric: Micros },
    Contender { key: "tcp_lat", label: "kernel TCP, 64 B, blocking", program: Tcp("tcp-lat"),
                options: "-s 64", iters: 20_000, metric: Micros },
    Contender { key: "ucx_lat", label: "UCX over TCP, put, 64 B", program: Other(others::Program::UcxLatency),
                options: "-t ucp_put_lat -s 64", iters: 20_000, metric: Micros },
    Contender { key: "rate_1qp_dpdk", label: "srnic WRITE, 64 B, 1 QP, DPDK's memif", program: Dpdk("write-bw"),
                options: "-s 64 -t 256 -l 32 -Q 64", iters: 1_500_000, metric: Mpps },
    Contender { key: "rate_64qp_dpdk", label: "srnic WRITE, 64 B, 64 QPs, DPDK's memif", program: Dpdk("write-bw"),
                options: "-s 64 -q 64 -t 64 -l 16 -Q 32", iters: 25_000, metric: Mpps },
    Contender { key: "rate_1qp", label: "srnic WRITE, 64 B, 1 QP",
                program: Device("write-bw"), options: "-s 64 -t 256 -l 32 -Q 64", iters: 1_500_000, metric: Mpps },
    Contender { key: "rate_64qp", label: "srnic WRITE, 64 B, 64 QPs",
                program: Device("write-bw"), options: "-s 64 -q 64 -t 64 -l 16 -Q 32", iters: 25_000, metric: Mpps },
    Contender { key: "rpc_1qp", label: "srnic SEND there and back, 32 B",
                program: Device("rpc"), options: "-s 32 -w 64", iters: 1_000_000, metric: Mpps },
    Contender { key: "rpc_1qp_dpdk", label: "srnic SEND there and back, 32 B, DPDK's memif", program: Dpdk("rpc"),
                options: "-s 32 -w 64", iters: 1_000_000, metric: Mpps },
];

impl Contender {
    /// The one that is called `key`.
    pub fn of(key: &str) -> Option<&'static Self> {
        CONTENDERS.iter().find(|contender| contender.key == key)
    }

    /// Returns `true` if a program of this checkout is measured over a device: what may differ
    /// between two commits.
    pub fn is_ours(&self) -> bool {
        matches!(self.program, Device(_) | Dpdk(_)) && !self.key.starts_with("raw")
    }

    /// A program that this machine does not have.
    pub fn missing(&self) -> Option<&'static str> {
        match self.program {
            Other(program) if !program.is_here() => Some(program.name()),
            _ => None,
        }
    }

    /// Runs it once with these tools.
    pub fn measure(&self, bench: &Bench<'_>, tools: &Tools) -> Result<f64> {
        let iters = self.iters * bench.pick(1, 3);
        let cpus = bench.machine.two_cpus();
        let (tool, over) = match self.program {
            Device(tool) => (tool, Over::Memif),
            Dpdk(tool) => (tool, Over::Dpdk),
            Tcp(tool) => (tool, Over::Tcp),
            Other(program) => return program.run(&bench.scratch, cpus, self.options, iters),
        };
        let options = format!("{} -n {iters}", self.options);
        let run = Run { tool, options: &options, wrapper: "", over };
        number(&tools.run(&bench.scratch, cpus, &run)?, self.metric.key())
    }
}
