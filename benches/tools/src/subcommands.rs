//! What `srnic` does: a line for each of its tools.

use crate::perf::cli::{
    AtomicBandwidthArgs, AtomicLatencyArgs, BandwidthArgs, LatencyArgs, RawBandwidthArgs, RawLatencyArgs,
    ReadBandwidthArgs, RpcArgs, SendBandwidthArgs, StreamBandwidthArgs, StreamLatencyArgs, TcpBandwidthArgs,
    TcpLatencyArgs,
};
use crate::perf::{bandwidth, fetch, latency, raw, rpc, streams, tcp};
use crate::{
    calibrate, devinfo, fabric, file, hostping, isolate, lab, latency as parts, pcap, perftest_peer, ping,
    rping, run, search, stat, switch, tunnel,
};
use clap::{ArgMatches, Command, CommandFactory as _};
use std::process::ExitCode;

/// A subcommand of `srnic`.
#[derive(Clone, Copy, Debug)]
pub struct Subcommand {
    /// Its name, as in `srnic write-bw`.
    pub name: &'static str,
    /// Where it stands in the list.
    pub group: Group,
    /// Its command line.
    pub command: fn() -> Command,
    /// Runs it to its end.
    pub run: fn(&ArgMatches) -> ExitCode,
}

/// What a subcommand is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Figures between two processes.
    Measure,
    /// Whether something works, and what goes on in it.
    Diagnose,
    /// What does something else with a device than to look at it.
    Run,
}

impl Group {
    /// All of them, in the order of the list.
    pub const ALL: [Self; 3] = [Self::Measure, Self::Diagnose, Self::Run];

    /// Its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Measure => "Measure",
            Self::Diagnose => "Diagnose",
            Self::Run => "Run",
        }
    }
}

impl Subcommand {
    const fn new(
        name: &'static str,
        group: Group,
        command: fn() -> Command,
        run: fn(&ArgMatches) -> ExitCode,
    ) -> Self {
        Self { name, group, command, run }
    }

    /// The name of a program that is this subcommand alone: `srnic_write_bw` of `write-bw`.
    #[must_use]
    pub fn link(&self) -> String {
        format!("srnic_{}", self.name.replace('-', "_"))
    }

    /// Its command line, with the two commands that a measurement takes; `called` is how it was
    /// called.
    #[must_use]
    pub fn with_example(&self, called: &str) -> Command {
        let command = (self.command)();
        if self.group != Group::Measure {
            return command;
        }
        let has_device = command.get_arguments().any(|argument| argument.get_id() == "device");
        let device = if has_device { " -d memif:/tmp/a.sock" } else { "" };
        command.after_help(format!(
            "Two processes of this machine, the server and then the client:\n  \
             {called}{device}\n  {called}{device} 127.0.0.1"
        ))
    }

    /// The one that is called so.
    #[must_use]
    pub fn of_name(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|subcommand| subcommand.name == name)
    }

    /// The one whose [`link`](Self::link) is called so.
    #[must_use]
    pub fn of_link(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|subcommand| subcommand.link() == name)
    }
}

use Group::{Diagnose, Measure, Run};

/// All of them, in the order of the list.
#[rustfmt::skip]
pub const ALL: &[Subcommand] = &[
    Subcommand::new("write-bw", Measure, || bandwidth::WRITE.command::<BandwidthArgs>(), bandwidth::write),
    Subcommand::new("write-lat", Measure, || latency::WRITE.command::<LatencyArgs>(), latency::write),
    Subcommand::new("read-bw", Measure, || bandwidth::READ.command::<ReadBandwidthArgs>(), bandwidth::read),
    Subcommand::new("read-lat", Measure, || fetch::READ.command::<LatencyArgs>(), fetch::read),
    Subcommand::new("send-bw", Measure, || bandwidth::SEND.command::<SendBandwidthArgs>(), bandwidth::send),
    Subcommand::new("send-lat", Measure, || latency::SEND.command::<LatencyArgs>(), latency::send),
    Subcommand::new("atomic-bw", Measure, || bandwidth::ATOMIC.command::<AtomicBandwidthArgs>(), bandwidth::atomic),
    Subcommand::new("atomic-lat", Measure, || fetch::ATOMIC.command::<AtomicLatencyArgs>(), fetch::atomic),
    Subcommand::new("rpc", Measure, || rpc::RPC.command::<RpcArgs>(), rpc::main),
    Subcommand::new("raw-bw", Measure, || raw::bandwidth::RAW.command::<RawBandwidthArgs>(), raw::bandwidth::main),
    Subcommand::new("raw-lat", Measure, || raw::latency::RAW.command::<RawLatencyArgs>(), raw::latency::main),
    Subcommand::new("tcp-bw", Measure, || tcp::BANDWIDTH.command::<TcpBandwidthArgs>(), tcp::bandwidth_main),
    Subcommand::new("tcp-lat", Measure, || tcp::LATENCY.command::<TcpLatencyArgs>(), tcp::latency_main),
    Subcommand::new("stream-bw", Measure, || streams::BANDWIDTH.command::<StreamBandwidthArgs>(), streams::bandwidth_main),
    Subcommand::new("stream-lat", Measure, || streams::LATENCY.command::<StreamLatencyArgs>(), streams::latency_main),
    Subcommand::new("ping", Diagnose, ping::tool::Cli::command, ping::tool::main),
    Subcommand::new("rping", Diagnose, rping::Args::command, rping::main),
    Subcommand::new("perftest", Diagnose, perftest_peer::Args::command, perftest_peer::main),
    Subcommand::new("devinfo", Diagnose, devinfo::Cli::command, devinfo::main),
    Subcommand::new("hostping", Diagnose, hostping::Cli::command, hostping::main),
    Subcommand::new("search", Diagnose, search::Cli::command, search::main),
    Subcommand::new("isolate", Diagnose, isolate::Cli::command, isolate::main),
    Subcommand::new("calibrate", Diagnose, calibrate::Cli::command, calibrate::main),
    Subcommand::new("stat", Diagnose, stat::tool::Cli::command, stat::tool::main),
    Subcommand::new("latency", Diagnose, parts::tool::Cli::command, parts::tool::main),
    Subcommand::new("pcap", Diagnose, pcap::Cli::command, pcap::main),
    Subcommand::new("run", Run, run::Cli::command, run::main),
    Subcommand::new("fabric", Run, fabric::Cli::command, fabric::main),
    Subcommand::new("lab", Run, lab::Cli::command, lab::main),
    Subcommand::new("switch", Run, switch::tool::Cli::command, switch::tool::main),
    Subcommand::new("file", Run, file::Cli::command, file::main),
    Subcommand::new("tunnel", Run, tunnel::Cli::command, tunnel::main),
];
