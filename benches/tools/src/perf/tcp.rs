//! `srnic tcp-bw`, `srnic tcp-lat`: a TCP connection of the kernel's, which is what a program uses
//! that has no RDMA.

use crate::channel::Channel;
use crate::dial;
use crate::error::Result;
use crate::perf::bytes::{self, BLOCKED, Bytes, Stream, fails};
use crate::perf::cli::{Defaults, TcpArgs, TcpBandwidthArgs, TcpLatencyArgs};
use crate::perf::report::{Lost, Report};
use crate::perf::table;
use crate::perf::tool::{self, Tool};
use crate::program;
use crate::pump::{Nothing, wait_for};
use clap::ArgMatches;
use serde_json::json;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;

/// Calls for nothing, of a spinning socket, between two looks for Ctrl-C.
const INTERVAL: u32 = 1 << 14;

/// What `srnic tcp-bw` is.
pub const BANDWIDTH: Tool = Tool {
    name: "srnic_tcp_bw",
    about: "Bandwidth of a kernel TCP connection: start a server without a host, then a client with one",
    version: "srnic_tcp_bw 1",
    defaults: Defaults { size: "65536", iters: "5000", inline: None },
};

/// `srnic tcp-bw` from its parsed command line to its end.
#[must_use]
pub fn bandwidth_main(matches: &ArgMatches) -> ExitCode {
    let args: TcpBandwidthArgs = program::args(matches);
    let heading = table::bandwidth_heading(args.report_gbits);
    start(BANDWIDTH, &args.tcp, &heading, |channel, report, size| {
        let stream = open(&args.tcp, channel)?;
        let (rates, result) = bytes::bandwidth(&args.tcp.basics, channel, stream, size)?;
        report.add_rates(size, rates, args.report_gbits, Lost::default());
        result
    })
}

/// What `srnic tcp-lat` is.
pub const LATENCY: Tool = Tool {
    name: "srnic_tcp_lat",
    about: "Latency of a kernel TCP connection, half a round trip: start a server without a host, then a client \
            with one",
    version: "srnic_tcp_lat 1",
    defaults: Defaults { size: "2", iters: "1000", inline: None },
};

/// `srnic tcp-lat` from its parsed command line to its end.
#[must_use]
pub fn latency_main(matches: &ArgMatches) -> ExitCode {
    let args: TcpLatencyArgs = program::args(matches);
    start(LATENCY, &args.tcp, &table::latency_heading(), |channel, report, size| {
        let stream = open(&args.tcp, channel)?;
        let summary = bytes::latency(&args.tcp.basics, channel, report, stream, size)?;
        report.add_latencies(size, &summary, Lost::default());
        Ok(())
    })
}

fn start(
    tool: Tool,
    args: &TcpArgs,
    heading: &str,
    measure: impl FnMut(&mut Channel, &mut Report, usize) -> Result<()>,
) -> ExitCode {
    let basics = &args.basics;
    let about = (&basics.agreed(), json!({ "tool": tool.name, "spin": args.spin }));
    tool::main(
        tool,
        basics,
        |_| Ok(Nothing),
        |_, channel| bytes::each_size(basics, &Nothing, channel, about, heading, measure),
    )
}

impl Bytes for TcpStream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A connection between the addresses of the side channel: the server says where it listens, and
/// the client connects.
fn open(args: &TcpArgs, channel: &mut Channel) -> Result<Stream<TcpStream>> {
    let [ours, theirs] = channel.ends();
    let stream = if args.basics.is_client() {
        let port: u16 = channel.hear(&Nothing, "data")?;
        dial::tcp(&Nothing, (theirs, port).into(), "the peer did not listen", "start both ends again")?
    } else {
        let listener = TcpListener::bind((ours, 0)).map_err(fails("listen"))?;
        listener.set_nonblocking(true).map_err(fails("listen"))?;
        channel.say("data", listener.local_addr().map_err(fails("listen"))?.port())?;
        wait_for(&Nothing, "the peer did not connect", || match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(fails("accept")(error)),
        })?
    };
    stream.set_nodelay(true).map_err(fails("set it up"))?;
    stream.set_nonblocking(args.spin).map_err(fails("set it up"))?;
    if !args.spin {
        stream.set_read_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
        stream.set_write_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
    }
    Ok(Stream::new(stream, if args.spin { INTERVAL } else { 1 }))
}
