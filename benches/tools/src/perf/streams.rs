//! `srnic stream-bw`, `srnic stream-lat`: a stream of srnic-streams, which a program uses that
//! wants bytes in order (docs/streams.md).

mod in_place;

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::bytes::{self, BLOCKED, Bytes, Stream, fails};
use crate::perf::cli::{Defaults, StreamArgs, StreamBandwidthArgs, StreamLatencyArgs};
use crate::perf::report::{Losses, Report};
use crate::perf::table;
use crate::perf::tool::{self, Tool};
use crate::program;
use crate::pump::{Drive, PEER_WAIT};
use clap::{ArgMatches, ValueEnum};
use in_place::InPlace;
use serde_json::json;
use srnic_streams::{Config, Endpoint};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;
use verbs_api::{Device, Role};

/// How the bytes of each write go.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// As the library chooses by the length
    Chosen,
    /// By SEND
    Send,
    /// By RDMA WRITE into blocks of the peer's
    Write,
    /// As an offer that the peer READs
    Read,
}

impl Way {
    fn config(self) -> Config {
        let chosen = Config::default();
        match self {
            Self::Chosen => chosen,
            Self::Send => Config { write_from: usize::MAX, read_from: usize::MAX, ..chosen },
            Self::Write => Config { write_from: 1, read_from: usize::MAX, ..chosen },
            Self::Read => Config { write_from: usize::MAX, read_from: 1, ..chosen },
        }
    }
}

/// What `srnic stream-bw` is.
pub const BANDWIDTH: Tool = Tool {
    name: "srnic_stream_bw",
    about: "Bandwidth of a byte stream over RDMA: start a server without a host, then a client with one",
    version: "srnic_stream_bw 1",
    defaults: Defaults { size: "65536", iters: "5000", inline: None },
};

/// `srnic stream-bw` from its parsed command line to its end.
#[must_use]
pub fn bandwidth_main(matches: &ArgMatches) -> ExitCode {
    let args: StreamBandwidthArgs = program::args(matches);
    let heading = table::bandwidth_heading(args.report_gbits);
    start(BANDWIDTH, &args.stream, &heading, |end, channel, report, size| {
        let mut losses = Losses::new(&end.device);
        let stream = end.stream(channel)?;
        let (rates, result) = bytes::bandwidth(&args.stream.basics, channel, stream, size)?;
        report.add_rates(size, rates, args.report_gbits, losses.take());
        result
    })
}

/// What `srnic stream-lat` is.
pub const LATENCY: Tool = Tool {
    name: "srnic_stream_lat",
    about: "Latency of a byte stream over RDMA, half a round trip: start a server without a host, then a client \
            with one",
    version: "srnic_stream_lat 1",
    defaults: Defaults { size: "2", iters: "1000", inline: None },
};

/// `srnic stream-lat` from its parsed command line to its end.
#[must_use]
pub fn latency_main(matches: &ArgMatches) -> ExitCode {
    let args: StreamLatencyArgs = program::args(matches);
    start(LATENCY, &args.stream, &table::latency_heading(), |end, channel, report, size| {
        let mut losses = Losses::new(&end.device);
        let stream = end.stream(channel)?;
        let summary = bytes::latency(&args.stream.basics, channel, report, stream, size)?;
        report.add_latencies(size, &summary, losses.take());
        Ok(())
    })
}

fn start(
    tool: Tool,
    args: &StreamArgs,
    heading: &str,
    mut measure: impl FnMut(&End, &mut Channel, &mut Report, usize) -> Result<()>,
) -> ExitCode {
    let basics = &args.basics;
    let way = args.way.to_possible_value().map(|way| way.get_name().to_owned()).unwrap_or_default();
    let mut agreed = basics.agreed();
    agreed.extend([("way", way.clone()), ("checked", args.checked.to_string())]);
    let described =
        json!({ "tool": tool.name, "way": way, "checked": args.checked, "in_place": args.in_place });
    let about = (&agreed, described);
    tool::main(
        tool,
        basics,
        |role| End::open(args, role),
        |end, channel| {
            let end = &*end;
            bytes::each_size(basics, end, channel, about, heading, |channel, report, size| {
                measure(end, channel, report, size)
            })
        },
    )
}

/// One side.
struct End {
    device: Device,
    endpoint: Endpoint,
    is_client: bool,
    in_place: bool,
}

impl Drive for End {
    fn drive(&self) -> bool {
        self.device.drive()
    }

    fn rest(&self) {
        Drive::rest(&self.device);
    }

    fn link_down(&self) -> Option<String> {
        Drive::link_down(&self.device)
    }

    fn check(&self) -> Result<()> {
        self.device.check()
    }
}

impl End {
    fn open(args: &StreamArgs, role: Role) -> Result<Self> {
        let device = Device::builder().open_spec(&args.device.device.clone().or_role(role))?;
        let config = Config { checked: args.checked, ..args.way.config() };
        let endpoint = Endpoint::new(&device, config).map_err(fails("begin streams"))?;
        Ok(Self { device, endpoint, is_client: args.basics.is_client(), in_place: args.in_place })
    }

    /// A stream: the server says where it listens, and the client connects.
    fn stream(&self, channel: &mut Channel) -> Result<Stream<Ours>> {
        let stream = if self.is_client {
            let to: SocketAddr = channel.hear(self, "data")?;
            self.endpoint.connect(to, PEER_WAIT).map_err(fails("connect"))?
        } else {
            self.accept(channel)?
        };
        stream.set_read_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
        stream.set_write_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
        let ours = if self.in_place { Ours::InPlace(InPlace::new(stream)) } else { Ours::Copied(stream) };
        Ok(Stream::new(ours, 1))
    }

    fn accept(&self, channel: &mut Channel) -> Result<srnic_streams::Stream> {
        let listener = self.endpoint.listen(0).map_err(fails("listen"))?;
        channel.say("data", listener.local_addr())?;
        let end = Instant::now() + PEER_WAIT;
        while Instant::now() < end {
            interrupt::check()?;
            channel.check()?;
            if let Some(stream) = listener.accept_within(BLOCKED).map_err(fails("accept"))? {
                return Ok(stream);
            }
        }
        Err(Error::Late("the peer did not connect", PEER_WAIT.as_secs()))
    }
}

/// A stream, and how its bytes are written and read.
enum Ours {
    Copied(srnic_streams::Stream),
    InPlace(InPlace),
}

impl Read for Ours {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Copied(stream) => stream.read(buffer),
            Self::InPlace(stream) => stream.read(buffer.len()),
        }
    }
}

impl Write for Ours {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Copied(stream) => stream.write(bytes),
            Self::InPlace(stream) => stream.write(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bytes for Ours {
    fn end(&self) -> io::Result<()> {
        match self {
            Self::Copied(stream) => stream.shutdown_write(),
            Self::InPlace(InPlace { stream, .. }) => stream.shutdown_write(),
        }
    }
}
