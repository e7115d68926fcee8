//! What is measured of any connection whose bytes come in order: messages one way, and there and
//! back.

mod stream;

pub use stream::{BLOCKED, Bytes, Stream, fails};

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::perf::cli::{Agreed, Basics, Goal};
use crate::perf::meter::{Meter, Rates};
use crate::perf::options;
use crate::perf::progress::Progress;
use crate::perf::report::{Lost, Report};
use crate::perf::statistics::{Latencies, Summary};
use crate::perf::tool;
use crate::pump::{Drive, Nothing};
use serde_json::Value;
use std::time::Instant;

/// Bytes between two looks at the clock.
const METER_BYTES: usize = 1 << 20;

/// Measures each size with `measure`, once both sides are ready, and shows what comes of it.
/// `agreed` is what both must have been told alike, `described` what the JSON file says of the run.
pub fn each_size(
    basics: &Basics,
    engine: &impl Drive,
    channel: &mut Channel,
    (agreed, described): (&Agreed, Value),
    heading: &str,
    mut measure: impl FnMut(&mut Channel, &mut Report, usize) -> Result<()>,
) -> Result<()> {
    options::agree(engine, channel, agreed)?;
    Report::of_each(&basics.sizes(), heading, basics.json.as_deref(), described, |report, size| {
        tool::meet(engine, channel, "ready", size)?;
        measure(channel, report, size).map_err(|error| reason(channel, error))?;
        tool::meet(engine, channel, "checked", size)
    })
}

/// Why the peer closed the connection, if it says so.
fn reason(channel: &mut Channel, error: Error) -> Error {
    if !matches!(error, Error::PeerLeft) {
        return error;
    }
    channel.hear::<String>(&Nothing, "a reason").err().unwrap_or(error)
}

/// The client sends, the server measures. Ctrl-C comes back beside what was measured until then.
pub fn bandwidth<B: Bytes>(
    basics: &Basics,
    channel: &mut Channel,
    mut stream: Stream<B>,
    size: usize,
) -> Result<(Rates, Result<()>)> {
    let mut message = vec![0x5A; size];
    if basics.is_client() {
        return send(basics, channel, stream, &message);
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
fn send<B: Bytes>(
    basics: &Basics,
    channel: &mut Channel,
    mut stream: Stream<B>,
    message: &[u8],
) -> Result<(Rates, Result<()>)> {
    let mut progress = Progress::of(basics);
    let (goal, start, mut sent) = (basics.goal(), Instant::now(), 0);
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
pub fn latency<B: Bytes>(
    basics: &Basics,
    channel: &mut Channel,
    report: &mut Report,
    mut stream: Stream<B>,
    size: usize,
) -> Result<Summary> {
    let mut message = vec![0x5A; size];
    if !basics.is_client() {
        while stream.read_all(&mut message)? {
            stream.write_all(&message)?;
        }
        return channel.hear_at_last(&Nothing, "done");
    }
    let goal: Goal = basics.goal();
    let mut latencies = Latencies::showing(Progress::of(basics));
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
