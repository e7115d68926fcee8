//! `srnic tcp-bw`, `srnic tcp-lat`: a TCP connection of the kernel's, which is what a program uses
//! that has no RDMA.

mod stream;

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::perf::cli::{Defaults, Goal, TcpArgs, TcpBandwidthArgs, TcpLatencyArgs};
use crate::perf::meter::{Meter, Rates};
use crate::perf::progress::Progress;
use crate::perf::report::{Lost, Report};
use crate::perf::statistics::{Latencies, Summary};
use crate::perf::tool::{self, Tool};
use crate::perf::{options, table};
use crate::program;
use crate::pump::Nothing;
use clap::ArgMatches;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use stream::Stream;

/// Bytes between two looks at the clock.
const METER_BYTES: usize = 1 << 20;

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
        let (rates, result) = bandwidth(&args.tcp, channel, size)?;
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
        let summary = latency(&args.tcp, channel, report, size)?;
        report.add_latencies(size, &summary, Lost::default());
        Ok(())
    })
}

fn start(
    tool: Tool,
    args: &TcpArgs,
    heading: &str,
    mut measure: impl FnMut(&mut Channel, &mut Report, usize) -> Result<()>,
) -> ExitCode {
    let basics = &args.basics;
    tool::main(
        tool,
        basics,
        |_| Ok(Nothing),
        |_, channel| {
            options::agree(&Nothing, channel, &basics.agreed())?;
            let described = json!({ "tool": tool.name, "spin": args.spin });
            Report::of_each(&basics.sizes(), heading, basics.json.as_deref(), described, |report, size| {
                tool::meet(&Nothing, channel, "ready", size)?;
                measure(channel, report, size).map_err(|error| reason(channel, error))?;
                tool::meet(&Nothing, channel, "checked", size)
            })
        },
    )
}

/// Why the peer closed the connection, if it says so.
fn reason(channel: &mut Channel, error: Error) -> Error {
    if !matches!(error, Error::PeerLeft) {
        return error;
    }
    channel.hear::<String>(&Nothing, "a reason").err().unwrap_or(error)
}

/// The client sends, the server measures. Ctrl-C comes back beside what was measured until then.
fn bandwidth(args: &TcpArgs, channel: &mut Channel, size: usize) -> Result<(Rates, Result<()>)> {
    let mut stream = Stream::open(args, channel)?;
    let mut message = vec![0x5A; size];
    if args.basics.is_client() {
        return send(args, channel, stream, &message);
    }
    let (mut meter, mut pending) = (None::<Meter>, 0);
    while stream.read_all(&mut message)? {
        pending += 1;
        let meter =
            meter.get_or_insert_with(|| Meter::beginning_with(std::mem::take(&mut pending), Instant::now()));
        if pending * size as u64 >= METER_BYTES as u64 {
            meter.completed(std::mem::take(&mut pending), 1, Instant::now());
        }
    }
    let mut meter = meter.ok_or(Error::PeerLeft)?;
    meter.completed(pending, 0, Instant::now());
    let rates = meter.rates();
    channel.say("done", rates)?;
    Ok((rates, Ok(())))
}

/// The client's part.
fn send(
    args: &TcpArgs,
    channel: &mut Channel,
    mut stream: Stream,
    message: &[u8],
) -> Result<(Rates, Result<()>)> {
    let mut progress = Progress::of(&args.basics);
    let (goal, start, mut sent) = (args.basics.goal(), Instant::now(), 0);
    let mut now = start;
    while !goal.is_reached(sent, now) {
        match stream.write_all(message) {
            Ok(()) => sent += 1,
            Err(Error::Interrupted) => {
                return Ok((Rates::handed_over(sent, start.elapsed()), Err(Error::Interrupted)));
            }
            Err(error) => return Err(error),
        }
        // The clock is cheap beside a system call.
        now = Instant::now();
        if let Some(progress) = &mut progress {
            progress.done(sent, now);
        }
    }
    stream.end()?;
    Ok((channel.hear_at_last(&Nothing, "done")?, Ok(())))
}

/// The client measures.
fn latency(args: &TcpArgs, channel: &mut Channel, report: &mut Report, size: usize) -> Result<Summary> {
    let mut stream = Stream::open(args, channel)?;
    let mut message = vec![0x5A; size];
    if !args.basics.is_client() {
        while stream.read_all(&mut message)? {
            stream.write_all(&message)?;
        }
        return channel.hear_at_last(&Nothing, "done");
    }
    let goal: Goal = args.basics.goal();
    let mut latencies = Latencies::showing(Progress::of(&args.basics));
    let result = latencies.of_rounds(goal, || {
        stream.write_all(&message)?;
        if stream.read_all(&mut message)? { Ok(()) } else { Err(Error::PeerLeft) }
    });
    let summary = latencies.summary();
    if matches!(result, Err(Error::Interrupted)) && summary.iterations > 0 {
        report.add_latencies(size, &summary, Lost::default());
    }
    result?;
    stream.end()?;
    channel.say("done", summary)?;
    Ok(summary)
}
