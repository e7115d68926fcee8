//! The command lines: perftest's options, as far as they mean something here.

mod fetching;
#[cfg(test)]
mod tests;

pub use self::fetching::{AtomicBandwidthArgs, AtomicLatencyArgs, ReadBandwidthArgs};
use crate::between;
use crate::congestion::Congestion;
use crate::error::Error;
use crate::perf::streams::Way;
#[cfg(test)]
use clap::FromArgMatches as _;
use clap::{Args, Command, CommandFactory, Parser, ValueEnum};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Pmtu, RecoveryPolicy, WireMode};

/// Largest message, in bytes.
const SIZE_MAX: i64 = 1 << 30;
/// Most queue pairs.
const QPS_MAX: i64 = 16_000;

/// What every tool takes.
#[derive(Args, Debug)]
pub struct Basics {
    /// Server to connect to; without it this is the server
    pub host: Option<String>,
    /// TCP port of the server's side channel
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// Address where the server's side channel listens, such as 0.0.0.0 for all of this machine's.
    /// Whoever can connect to it can use up the server's one run
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), conflicts_with = "host")]
    pub bind: IpAddr,
    /// Bytes of a message
    #[arg(short, long, required = false, value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX))]
    pub size: u32,
    /// Every power of two from 2 to 2^23 bytes that is possible, one after the other
    #[arg(short, long, conflicts_with = "size")]
    pub all: bool,
    /// Messages of each size, and queue pair
    #[arg(short = 'n', long, required = false, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub iters: u64,
    /// Seconds for each size, instead of a number of messages
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with = "iters",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Stays on this CPU
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<usize>,
    /// Shows what is done so far once a second, on standard error; there a terminal is shown it
    /// anyway
    #[arg(long)]
    pub progress: bool,
    /// Accepted and without effect, as CPU frequencies are not looked at
    #[arg(short = 'F', long = "CPU-freq")]
    pub cpu_freq: bool,
    /// Writes the results to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What the tools take that move frames.
#[derive(Args, Debug)]
pub struct DeviceArg {
    /// The device, such as memif:/tmp/a.sock,mtu=9000 or fault:loss=1%,seed=7:memif:/tmp/a.sock;
    /// the server makes the socket
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE", value_parser = between::processes)]
    pub device: DeviceSpec,
}

/// The device of a tool that sends raw frames.
#[derive(Args, Debug)]
pub struct RawDeviceArg {
    /// The device, such as memif:/tmp/a.sock,mtu=9000, without `fault:`; the server makes the
    /// socket
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE", value_parser = between::processes)]
    pub device: DeviceSpec,
}

/// What all RDMA tools take.
#[derive(Args, Debug)]
pub struct Common {
    /// What every tool takes.
    #[command(flatten)]
    pub basics: Basics,
    /// The device.
    #[command(flatten)]
    pub device: DeviceArg,
    /// Queue pairs are connected by the connection manager, and the side channel is a connection of
    /// the device's as well: no TCP. HOST is the address of the server's device then, and --port a
    /// port of its connection manager's
    #[arg(short = 'R', long = "rdma_cm", visible_alias = "rdma-cm", conflicts_with = "bind")]
    pub rdma_cm: bool,
    /// Path MTU: 256, 512, 1024, 1408 (not with --plain), 2048 or 4096 [default: the largest that
    /// fits the device]
    #[arg(short, long, value_parser = parse_mtu)]
    pub mtu: Option<Pmtu>,
    /// Messages outstanding at most, of each queue pair
    #[arg(short = 't', long = "tx-depth", value_name = "DEPTH", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub tx_depth: u32,
    /// Longest message that is copied into the queue
    #[arg(short = 'I', long = "inline_size", value_name = "BYTES", required = false,
          value_parser = clap::value_parser!(u32).range(0..=240))]
    pub inline_size: u32,
    /// A try lasts 4.096 us x 2^TIMEOUT
    #[arg(short = 'u', long = "qp-timeout", value_name = "TIMEOUT", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(1..=31))]
    pub qp_timeout: u8,
    /// Tries without a sign of life before the peer is given up, less one
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub retry_cnt: u8,
    /// Packets in the network at most, of each queue pair [default: 512]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub window: Option<u16>,
    /// How losses are repaired
    #[arg(long, value_enum, default_value = "selective-repeat")]
    pub recovery: Recovery,
    /// Standard RoCEv2 instead of the SRNIC dialect, on both sides; losses are repaired by
    /// go-back-N
    #[arg(long)]
    pub plain: bool,
    /// Congestion control
    #[arg(long, value_enum, default_value = "dctcp")]
    pub cc: Congestion,
    /// Checks every byte that arrives; this takes time, too
    #[arg(long)]
    pub verify: bool,
}

/// How losses are repaired.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// What is lost is sent again
    SelectiveRepeat,
    /// What is lost is sent again, and all behind it
    GoBackN,
}

impl From<Recovery> for RecoveryPolicy {
    fn from(recovery: Recovery) -> Self {
        match recovery {
            Recovery::SelectiveRepeat => Self::SelectiveRepeat,
            Recovery::GoBackN => Self::GoBackN,
        }
    }
}

/// How rates are measured and shown.
#[derive(Args, Debug)]
pub struct RateArgs {
    /// Both sides send; the rates are sums
    #[arg(short, long)]
    pub bidirectional: bool,
    /// Rates in 10^9 bits a second instead of 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
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
          value_parser = clap::value_parser!(u32).range(1..=QPS_MAX))]
    pub qps: u32,
    /// Messages for which there is one completion [default: a quarter of the depth, 100 at most]
    #[arg(short = 'Q', long = "cq-mod", value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pub cq_mod: Option<u32>,
    /// Messages posted at a time
    #[arg(short = 'l', long = "post_list", value_name = "MESSAGES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub post_list: u32,
    /// Directions and units.
    #[command(flatten)]
    pub rates: RateArgs,
}

/// Arguments of `srnic send-bw`.
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
    /// One shared receive queue for all queue pairs; --rx-depth is its size
    #[arg(long = "use-srq")]
    pub use_srq: bool,
}

/// Arguments of the latency tools.
#[derive(Parser, Debug)]
#[command(version)]
pub struct LatencyArgs {
    /// What all tools take.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `srnic raw-bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct RawBandwidthArgs {
    /// What every tool takes.
    #[command(flatten)]
    pub basics: Basics,
    /// The device.
    #[command(flatten)]
    pub device: RawDeviceArg,
    /// Directions and units.
    #[command(flatten)]
    pub rates: RateArgs,
    /// Copies each payload from and to a user's buffer, as every transport must
    #[arg(long)]
    pub copy: bool,
    /// Ends each frame with a CRC, and checks it
    #[arg(long)]
    pub crc: bool,
}

/// Arguments of `srnic raw-lat`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct RawLatencyArgs {
    /// What every tool takes.
    #[command(flatten)]
    pub basics: Basics,
    /// The device.
    #[command(flatten)]
    pub device: RawDeviceArg,
}

/// Arguments of `srnic tcp-bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct TcpBandwidthArgs {
    /// What the TCP tools take.
    #[command(flatten)]
    pub tcp: TcpArgs,
    /// Rates in 10^9 bits a second instead of 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
}

/// Arguments of `srnic tcp-lat`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct TcpLatencyArgs {
    /// What the TCP tools take.
    #[command(flatten)]
    pub tcp: TcpArgs,
}

/// What the TCP tools take.
#[derive(Args, Debug)]
pub struct TcpArgs {
    /// What every tool takes.
    #[command(flatten)]
    pub basics: Basics,
    /// Asks the socket again and again instead of sleeping until something comes
    #[arg(long)]
    pub spin: bool,
}

/// Arguments of `srnic stream-bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct StreamBandwidthArgs {
    /// What the tools of streams take.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Rates in 10^9 bits a second instead of 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
}

/// Arguments of `srnic stream-lat`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct StreamLatencyArgs {
    /// What the tools of streams take.
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// What the tools of streams take.
#[derive(Args, Debug)]
pub struct StreamArgs {
    /// What every tool takes.
    #[command(flatten)]
    pub basics: Basics,
    /// The device.
    #[command(flatten)]
    pub device: DeviceArg,
    /// How the bytes of each write go
    #[arg(long, value_enum, default_value = "chosen")]
    pub way: Way,
    /// A checksum of the bytes, from end to end
    #[arg(long)]
    pub checked: bool,
    /// Writes from registered memory and reads where the bytes came to: they are not copied
    #[arg(long)]
    pub in_place: bool,
}

/// Arguments of `srnic rpc`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct RpcArgs {
    /// What all RDMA tools take.
    #[command(flatten)]
    pub common: Common,
    /// Queue pairs
    #[arg(short = 'q', long = "qp", value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=QPS_MAX))]
    pub qps: u32,
    /// Requests outstanding, of each queue pair
    #[arg(short = 'w', long, value_name = "NUMBER", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub requests: u32,
    /// Rates in 10^9 bits a second instead of 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub report_gbits: bool,
}

impl Basics {
    /// Returns `true` if this is the client.
    #[must_use]
    pub const fn is_client(&self) -> bool {
        self.host.is_some()
    }

    /// The sizes to measure, in order.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        if self.all { (1..=23).map(|power| 1 << power).collect() } else { vec![self.size as usize] }
    }

    /// When enough was measured; begins now.
    pub(super) fn goal(&self) -> Goal {
        self.duration.map_or(Goal::Messages(self.iters), |seconds| {
            Goal::Until(Instant::now() + Duration::from_secs(seconds.into()))
        })
    }

    /// What both sides must be told alike, by name.
    pub(super) fn agreed(&self) -> Agreed {
        let size = if self.all { "all".to_owned() } else { self.size.to_string() };
        vec![
            ("size", size),
            ("iters", self.duration.map_or(self.iters, |_| 0).to_string()),
            ("duration", self.duration.unwrap_or(0).to_string()),
        ]
    }
}

impl Common {
    /// The path MTU of the queue pairs.
    pub(super) fn path_mtu(&self, device: &Device) -> Result<Pmtu, Error> {
        let mode = if self.plain { WireMode::Plain } else { WireMode::Srnic };
        match self.mtu {
            None => Ok(device.path_mtu_max().in_dialect(mode)),
            Some(mtu) if mtu == mtu.in_dialect(mode) => Ok(mtu),
            Some(mtu) => {
                let (own, plain) = (mtu.bytes(), mtu.in_dialect(mode).bytes());
                let text =
                    format!("plain RoCEv2 has no path MTU of {own}: give --mtu {plain}, or no --plain");
                Err(Error::Options(text))
            }
        }
    }

    /// What both sides must be told alike, by name.
    pub(super) fn agreed(&self, mtu: Pmtu) -> Agreed {
        let mut agreed = self.basics.agreed();
        agreed.extend([
            ("mtu", mtu.bytes().to_string()),
            ("recovery", name_of(self.recovery)),
            ("plain", self.plain.to_string()),
            ("verify", self.verify.to_string()),
        ]);
        agreed
    }

    /// What the JSON file says of the run.
    pub(super) fn described(&self, tool: &str, mtu: Pmtu) -> Value {
        json!({
            "tool": tool, "mtu": mtu.bytes(), "tx_depth": self.tx_depth, "cc": name_of(self.cc),
            "recovery": name_of(self.recovery), "plain": self.plain, "rdma_cm": self.rdma_cm,
        })
    }
}

/// Options by name, with their values.
pub(super) type Agreed = Vec<(&'static str, String)>;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// After this many messages of each queue pair.
    Messages(u64),
    /// At this time.
    Until(Instant),
}

impl Goal {
    /// Returns `true` if so many messages, by now, are enough.
    pub(super) fn is_reached(self, messages: u64, now: Instant) -> bool {
        match self {
            Self::Messages(enough) => messages >= enough,
            Self::Until(end) => now >= end,
        }
    }
}

/// What the command line calls it.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What a tool does unless told otherwise, as one would write it on its command line. Its `--help`
/// says so.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// `--size`.
    pub size: &'static str,
    /// `--iters`.
    pub iters: &'static str,
    /// `--inline_size`; `None`: the tool copies nothing, or everything, and its help does not have
    /// the option.
    pub inline: Option<&'static str>,
}

impl Defaults {
    /// The command line of a tool with these defaults.
    pub(super) fn command<T: CommandFactory>(self) -> Command {
        T::command().mut_args(|arg| match arg.get_id().as_str() {
            "size" => arg.default_value(self.size),
            "iters" => arg.default_value(self.iters),
            "inline_size" => arg.default_value(self.inline.unwrap_or("0")).hide(self.inline.is_none()),
            _ => arg,
        })
    }
}

/// Options of a bandwidth tool, for tests.
#[cfg(test)]
pub(super) fn bandwidth(line: &str) -> Result<BandwidthArgs, String> {
    let defaults = Defaults { size: "65536", iters: "5000", inline: Some("0") };
    let matches = defaults.command::<BandwidthArgs>().try_get_matches_from(line.split(' '));
    matches.and_then(|matches| BandwidthArgs::from_arg_matches(&matches)).map_err(|error| error.to_string())
}

fn parse_mtu(text: &str) -> Result<Pmtu, String> {
    let mtu = text.parse().ok().and_then(Pmtu::from_bytes);
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 1408, 2048 or 4096".to_owned())
}
