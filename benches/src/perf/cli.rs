//! The command lines: perftest's options, as far as they mean something here.

#[cfg(test)]
mod tests;

use crate::congestion::Congestion;
use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum as _};
use std::path::PathBuf;
use verbs_api::{DeviceSpec, Pmtu};

/// Largest message, in bytes.
const SIZE_MAX: i64 = 1 << 30;

/// What all tools take.
#[derive(Args, Debug)]
pub struct Common {
    /// Server to connect to; without it this is the server, which listens on 127.0.0.1
    pub host: Option<String>,
    /// The device, such as memif:/tmp/a.sock,mtu=9000 or fault:loss=1%,seed=7:memif:/tmp/a.sock; the server makes the
    /// socket
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE")]
    pub device: DeviceSpec,
    /// TCP port of the server's side channel
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// Bytes of a message [default: 65536 for bandwidth, 2 for latency]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX))]
    pub size: Option<u32>,
    /// Every power of two from 2 to 2^23 bytes, one after the other
    #[arg(short, long, conflicts_with = "size")]
    pub all: bool,
    /// Messages of each size, and queue pair [default: 5000 for bandwidth, 1000 for latency]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub iters: Option<u64>,
    /// Seconds for each size, instead of a number of messages
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with = "iters",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 [default: the largest that fits the device]
    #[arg(short, long, value_parser = parse_mtu)]
    pub mtu: Option<Pmtu>,
    /// Messages outstanding at most, of each queue pair
    #[arg(short = 't', long = "tx-depth", value_name = "DEPTH", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub tx_depth: u32,
    /// Longest message that is copied into the queue [default: 0 for bandwidth, 220 for latency]
    #[arg(short = 'I', long = "inline_size", value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(0..=224))]
    pub inline_size: Option<u32>,
    /// A try lasts 4.096 us x 2^TIMEOUT, and there are eight
    #[arg(short = 'u', long = "qp-timeout", value_name = "TIMEOUT", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(1..=31))]
    pub qp_timeout: u8,
    /// Congestion control
    #[arg(long, value_enum, default_value = "fixed")]
    pub cc: Congestion,
    /// Checks every byte that arrives; this takes time, too
    #[arg(long)]
    pub verify: bool,
    /// Writes the results to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of the bandwidth tools.
#[derive(Parser, Debug)]
#[command(version)]
pub struct BandwidthArgs {
    /// What all tools take.
    #[command(flatten)]
    pub common: Common,
    /// Queue pairs
    #[arg(short = 'q', long = "qp", value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub qps: u32,
    /// Messages for which there is one completion [default: a quarter of the depth, 100 at most]
    #[arg(short = 'Q', long = "cq-mod", value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pub cq_mod: Option<u32>,
    /// Messages posted at a time
    #[arg(short = 'l', long = "post_list", value_name = "MESSAGES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub post_list: u32,
    /// Both sides send; the rates are sums
    #[arg(short, long)]
    pub bidirectional: bool,
    /// Rates in 10^9 bits a second instead of 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
}

/// Arguments of `srnic_send_bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct SendBandwidthArgs {
    /// What the bandwidth tools take.
    #[command(flatten)]
    pub bandwidth: BandwidthArgs,
    /// Receives outstanding at most, of each queue pair
    #[arg(short = 'r', long = "rx-depth", value_name = "DEPTH", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub rx_depth: u32,
}

/// Arguments of the latency tools.
#[derive(Parser, Debug)]
#[command(version)]
pub struct LatencyArgs {
    /// What all tools take.
    #[command(flatten)]
    pub common: Common,
}

impl Common {
    /// The sizes to measure, in order.
    #[must_use]
    pub fn sizes(&self, default: u32) -> Vec<usize> {
        if self.all {
            (1..=23).map(|power| 1 << power).collect()
        } else {
            vec![self.size.unwrap_or(default) as usize]
        }
    }

    /// What both sides must be told alike, by name.
    pub(super) fn agreed(&self, size: u32, iters: u64, mtu: Pmtu) -> Vec<(&'static str, String)> {
        let size = if self.all { "all".to_owned() } else { self.size.unwrap_or(size).to_string() };
        vec![
            ("size", size),
            ("mtu", mtu.bytes().to_string()),
            ("iters", self.duration.map_or(self.iters.unwrap_or(iters), |_| 0).to_string()),
            ("duration", self.duration.unwrap_or(0).to_string()),
            ("verify", self.verify.to_string()),
        ]
    }

    /// The congestion controller's name.
    pub(super) fn cc_name(&self) -> String {
        self.cc.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Parses the command line of the tool of this name; ends the process if there is nothing to run.
#[must_use]
pub fn parse<T: CommandFactory + FromArgMatches>(tool: &'static str, about: &'static str) -> T {
    let mut matches = T::command().name(tool).about(about).get_matches();
    T::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
}

fn parse_mtu(text: &str) -> Result<Pmtu, String> {
    let mtu = text.parse().ok().and_then(Pmtu::from_bytes);
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".to_owned())
}
