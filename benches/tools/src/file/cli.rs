//! The command line.

use crate::between;
use crate::congestion::Congestion;
use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use verbs_api::DeviceSpec;

/// Sends a file from one process to another by RDMA WRITEs
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Which side this is.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The two sides.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Receives one file, then ends; start it first or within a minute of the sender
    Recv(RecvArgs),
    /// Sends one file, then ends
    Send(SendArgs),
}

/// What both sides take.
#[derive(Args, Debug)]
pub struct Common {
    /// The device, as in memif:/tmp/a.sock or fault:loss=1%,seed=7:memif:/tmp/a.sock,mtu=1500
    #[arg(short, long, value_parser = between::processes)]
    pub device: DeviceSpec,
    /// TCP port of the receiver, where the two sides find each other
    #[arg(long, default_value_t = 18515)]
    pub port: u16,
    /// Writes what was counted to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Congestion control
    #[arg(long, value_enum, default_value = "dctcp")]
    pub cc: Congestion,
    /// Packets outstanding at most
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub window: u16,
}

/// Arguments of `recv`.
#[derive(Args, Debug)]
pub struct RecvArgs {
    /// What both sides take.
    #[command(flatten)]
    pub common: Common,
    /// Address where the receiver listens for the sender
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// Where the file goes; complete or not at all
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Longest file that is taken; without it, what the disk has room for
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
}

/// Arguments of `send`.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// What both sides take.
    #[command(flatten)]
    pub common: Common,
    /// Address of the receiver
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// The file to send
    #[arg(long = "in", value_name = "FILE")]
    pub input: PathBuf,
    /// Bytes of one WRITE
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10,
          value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub message: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_demo_is_understood() {
        let line =
            "srnic_file send -d fault:loss=1%,seed=7:memif:/tmp/a,role=client --port 9 --in b --json c";
        let cli = Cli::try_parse_from(line.split(' ')).expect("as xtask demo calls it");
        let Verb::Send(args) = cli.verb else { panic!("it sends") };
        assert_eq!((args.common.port, args.common.cc, args.message), (9, Congestion::Dctcp, 262_144));
        assert!(args.common.device.faults.is_some());
    }

    #[test]
    fn a_wrong_device_says_what_is_allowed() {
        let line = "srnic_file recv -d memif:/tmp/a,rolle=server --out b";
        let error = Cli::try_parse_from(line.split(' ')).expect_err("no such key").to_string();
        assert!(
            error.contains("unknown device key `rolle`; keys are role, driver, ip, mac, mtu, vlan"),
            "{error}"
        );
    }
}
