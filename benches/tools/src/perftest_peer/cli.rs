//! The command line.

use crate::error::{Error, Result};
use crate::perf::cli::name_of;
use clap::{Parser, ValueEnum};
use std::net::{IpAddr, Ipv4Addr};
use verbs_api::{DeviceSpec, Pmtu};

/// Plays one end of a stock perftest or pingpong over plain RoCEv2: a client of HOST, or a server
/// without it
#[derive(Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Which tool the peer runs; of ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong the one of
    /// the connection
    #[arg(value_enum)]
    pub test: Test,
    /// Server to connect to; without it this is the server
    pub host: Option<String>,
    /// TCP port of the side channel
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// Service: RC, UC or UD
    #[arg(short, long, value_enum, ignore_case = true, default_value = "rc")]
    pub connection: Connection,
    /// Address where a server's side channel listens
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), conflicts_with = "host")]
    pub bind: IpAddr,
    /// The device, such as af_packet:eth1,ip=192.168.7.3
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE")]
    pub device: DeviceSpec,
    /// Bytes of a message, as at the peer; atomics have 8
    #[arg(short, long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: u32,
    /// Messages, as at the peer
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub iters: u32,
    /// Path MTU, as at the peer
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    pub mtu: Pmtu,
    /// Messages outstanding at most
    #[arg(short = 't', long = "tx-depth", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub tx_depth: u32,
    /// A try lasts 4.096 us x 2^TIMEOUT
    #[arg(short = 'u', long = "qp-timeout", default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=31))]
    pub qp_timeout: u8,
    /// Says on standard error what passes over the side channel
    #[arg(long)]
    pub trace: bool,
}

/// A stock tool.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// ibv_rc_pingpong and its siblings
    Pingpong,
    /// ib_send_bw
    SendBw,
    /// ib_send_lat
    SendLat,
    /// ib_write_bw
    WriteBw,
    /// ib_write_lat
    WriteLat,
    /// ib_read_bw
    ReadBw,
    /// ib_read_lat
    ReadLat,
    /// ib_atomic_bw, fetch and add
    AtomicBw,
    /// ib_atomic_lat, fetch and add
    AtomicLat,
}

/// A service.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagrams
    Ud,
}

impl Args {
    /// What the service cannot do, either end is told.
    pub fn check(&self) -> Result<()> {
        let (possible, services) = match self.test {
            Test::Pingpong | Test::SendBw | Test::SendLat => (true, ""),
            Test::WriteBw | Test::WriteLat => (self.connection != Connection::Ud, "rc or -c uc"),
            _ => (self.connection == Connection::Rc, "rc"),
        };
        if possible {
            return Ok(());
        }
        let (test, service) = (name_of(self.test), name_of(self.connection));
        Err(Error::Options(format!("{test} is not possible with -c {service}: give both ends -c {services}")))
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        if matches!(self.test, Test::AtomicBw | Test::AtomicLat) { 8 } else { self.size as usize }
    }
}

fn parse_mtu(text: &str) -> std::result::Result<Pmtu, String> {
    let mtu = text.parse().ok().and_then(Pmtu::from_bytes).filter(|mtu| Pmtu::PLAIN.contains(mtu));
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".to_owned())
}
