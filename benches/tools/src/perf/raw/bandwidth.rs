//! `srnic raw-bw`: as many frames as the port takes. The receiver measures: to the sender, a frame
//! that is handed over is gone.

use super::frame::{self, HEADER};
use super::link::{AnyLink, BURST, Link, Work};
use super::payload::Payload;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::cli::{Defaults, Goal, RawBandwidthArgs};
use crate::perf::meter::{Meter, Rates};
use crate::perf::options;
use crate::perf::progress::Progress;
use crate::perf::report::{Lost, Report};
use crate::perf::table;
use crate::perf::tool::{self, Tool};
use crate::program;
use crate::pump::Nothing;
use clap::ArgMatches;
use datapath::port::{Port, PortStats};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const DEFAULTS: Defaults = Defaults { size: "4200", iters: "1000000", inline: None };
/// Turns between two looks at the side channel.
const INTERVAL: u32 = 1024;
/// Frames between two looks of the sender whether its time is over.
const CLOCK_FRAMES: u64 = 32 * BURST as u64;
/// Frames between two looks of the receiver at the clock.
const METER_FRAMES: u64 = 8 * BURST as u64;
/// How long a frame may take that the sender has handed over.
const SILENCE: Duration = Duration::from_secs(1);

/// What `srnic raw-bw` is.
pub const RAW: Tool = Tool {
    name: "srnic_raw_bw",
    about: "Bandwidth of raw Ethernet frames on a port: start a server without a host, then a client with one",
    version: "srnic_raw_bw 1",
    defaults: DEFAULTS,
};

/// `srnic raw-bw` from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let args: RawBandwidthArgs = program::args(matches);
    let open = |role| AnyLink::open(&args.device, role);
    tool::main(RAW, &args.basics, open, |link, channel| link.run(Bandwidth(&args), channel))
}

/// All sizes, one after the other.
struct Bandwidth<'a>(&'a RawBandwidthArgs);

impl Work for Bandwidth<'_> {
    fn run<P: Port>(self, link: &mut Link<P>, channel: &mut Channel) -> Result<()> {
        run(RAW, self.0, link, channel)
    }
}

fn run<P: Port>(
    tool: Tool,
    args: &RawBandwidthArgs,
    link: &mut Link<P>,
    channel: &mut Channel,
) -> Result<()> {
    let basics = &args.basics;
    let mut agreed = basics.agreed();
    agreed.push(("bidirectional", args.rates.bidirectional.to_string()));
    agreed.push(("copy", args.copy.to_string()));
    agreed.push(("crc", args.crc.to_string()));
    options::agree(&Nothing, channel, &agreed)?;
    let sizes = link.sizes(basics)?;
    link.connect(channel)?;
    let described = json!({ "tool": tool.name, "bidirectional": args.rates.bidirectional, "copy": args.copy, "crc": args.crc });
    let heading = table::bandwidth_heading(args.rates.report_gbits);
    Report::of_each(&sizes, &heading, basics.json.as_deref(), described, |report, size| {
        measure(args, link, channel, report, size)
    })
}

/// One size: one side or both send, the other or both count, and each tells the other what came of
/// it.
fn measure<P: Port>(
    args: &RawBandwidthArgs,
    link: &mut Link<P>,
    channel: &mut Channel,
    report: &mut Report,
    size: usize,
) -> Result<()> {
    tool::meet(&Nothing, channel, "ready", size)?;
    let is_client = args.basics.is_client();
    let payload = Payload::new(size, args.copy, args.crc);
    let goal = args.basics.goal();
    let mut sender = (is_client || args.rates.bidirectional)
        .then(|| Sender::new(link, size, &payload, goal).showing(Progress::of(&args.basics)));
    let mut receiver = (!is_client || args.rates.bidirectional).then(|| Receiver::new(&payload));
    let result = exchange(link, channel, sender.as_mut(), receiver.as_mut());
    let sent = sender.as_ref().map(Sender::rates).unwrap_or_default();
    let received = receiver.as_ref().map(|receiver| receiver.meter.rates()).unwrap_or_default();
    if matches!(result, Err(Error::Interrupted)) {
        // What came of what we handed over is not known here.
        let rates = if receiver.is_some() { received } else { sent };
        report.add_rates(size, rates, args.rates.report_gbits, Lost::default());
    }
    let expected = result?;
    if let Some(wrong) = receiver.map(|receiver| receiver.wrong).filter(|wrong| *wrong > 0) {
        return Err(Error::Frames { wrong, received: received.iterations });
    }
    channel.say("received", received)?;
    let theirs: Rates = channel.hear(&Nothing, "received")?;
    let rates = received.sum(theirs);
    let sent = expected.saturating_add(sent.iterations);
    let lost = Lost { drops: sent.saturating_sub(rates.iterations), ..Lost::default() };
    report.add_rates(size, rates, args.rates.report_gbits, lost);
    Ok(())
}

/// Sends until the goal is reached, and receives until all that the peer sent is here or late; how
/// many frames the peer says that it sent.
fn exchange<P: Port>(
    link: &mut Link<P>,
    channel: &mut Channel,
    mut sender: Option<&mut Sender<'_>>,
    mut receiver: Option<&mut Receiver>,
) -> Result<u64> {
    let mut expected = 0;
    for turn in 1_u32.. {
        if let Some(busy) = &mut sender
            && !busy.turn(link)
        {
            channel.say("sent", busy.handed_over(link))?;
            sender = None;
        }
        if let Some(busy) = &mut receiver {
            busy.turn(link);
        }
        if turn.is_multiple_of(INTERVAL) {
            interrupt::check()?;
            channel.check()?;
            link.tend();
            if let Some(busy) = &mut sender {
                busy.show();
            }
            if let Some(busy) = &mut receiver {
                if expected == 0 && channel.has_line() {
                    expected = channel.hear(&Nothing, "sent")?;
                }
                if busy.has_all(expected) {
                    receiver = None;
                }
            }
        }
        if sender.is_none() && receiver.is_none() {
            break;
        }
    }
    Ok(expected)
}

/// Frames that may be sent before the next look at the goal, of which so many were sent; 0: it is
/// reached.
fn left(goal: Goal, sent: u64) -> u64 {
    match goal {
        Goal::Messages(messages) => messages - sent,
        Goal::Until(end) if sent.is_multiple_of(CLOCK_FRAMES) && Instant::now() >= end => 0,
        // Up to the next look at most: a port that takes a part of a burst would step over it.
        Goal::Until(_) => CLOCK_FRAMES - sent % CLOCK_FRAMES,
    }
}

/// Hands frames to the driver.
struct Sender<'a> {
    size: usize,
    payload: &'a Payload,
    goal: Goal,
    /// Frames that the port has queued.
    sent: u64,
    /// What the port counted before.
    before: PortStats,
    start: Instant,
    progress: Option<Progress>,
}

impl<'a> Sender<'a> {
    fn new<P: Port>(link: &Link<P>, size: usize, payload: &'a Payload, goal: Goal) -> Self {
        let start = Instant::now();
        Self { size, payload, goal, sent: 0, before: link.port.stats(), start, progress: None }
    }

    fn showing(self, progress: Option<Progress>) -> Self {
        Self { progress, ..self }
    }

    /// Shows a person what was handed over so far.
    fn show(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.done(self.sent, Instant::now());
        }
    }

    /// Hands over what the port takes of a burst; false once the goal is reached, and all has left.
    #[inline]
    fn turn<P: Port>(&mut self, link: &mut Link<P>) -> bool {
        let left = left(self.goal, self.sent);
        let mut room = left.min(BURST as u64);
        while room > 0 && link.queue(self.size, self.payload) {
            self.sent += 1;
            room -= 1;
        }
        link.port.tx_flush();
        left > 0 || self.handed_over(link) < self.sent
    }

    /// Frames that the wire took, or lost.
    fn handed_over<P: Port>(&self, link: &Link<P>) -> u64 {
        let gone = |stats: PortStats| stats.tx_frames + stats.tx_dropped;
        gone(link.port.stats()) - gone(self.before)
    }

    fn rates(&self) -> Rates {
        Rates::handed_over(self.sent, self.start.elapsed())
    }
}

/// Takes frames from the driver, and measures.
struct Receiver {
    payload: Payload,
    /// Frames that the meter has not heard of.
    pending: u64,
    received: u64,
    /// Frames whose CRC was wrong.
    wrong: u64,
    meter: Meter,
    last: Instant,
}

impl Receiver {
    fn new(payload: &Payload) -> Self {
        let now = Instant::now();
        Self {
            payload: payload.clone(),
            pending: 0,
            received: 0,
            wrong: 0,
            meter: Meter::new(now),
            last: now,
        }
    }

    /// Takes a burst.
    #[inline]
    fn turn<P: Port>(&mut self, link: &mut Link<P>) {
        let burst = link.port.rx_burst();
        let mut count = 0;
        for index in 0..burst {
            let frame = link.port.rx_frame(index);
            if link.others && !frame::is_ours(frame.head()) {
                continue;
            }
            count += 1;
            if self.payload.is_used() {
                let payload = frame.bytes().get(HEADER..).unwrap_or_default();
                self.wrong += u64::from(!self.payload.receive(payload));
            }
        }
        if burst > 0 {
            link.port.rx_release();
        }
        self.pending += count;
        if self.pending >= METER_FRAMES || count == 0 && self.pending > 0 {
            self.tell(Instant::now());
        }
    }

    fn tell(&mut self, now: Instant) {
        if self.received == 0 {
            // The rate is that of the frames behind the first.
            self.meter = Meter::beginning_with(self.pending, now);
        } else {
            self.meter.completed(self.pending, 0, now);
        }
        self.received += self.pending;
        self.pending = 0;
        self.last = now;
    }

    /// Returns `true` if `expected` frames are here, or no more come. 0 means that the peer is
    /// still sending.
    fn has_all(&self, expected: u64) -> bool {
        expected > 0 && (self.received >= expected || self.last.elapsed() > SILENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a port takes of each burst.
    #[test]
    fn a_sender_whose_time_is_over_stops_at_the_next_look() {
        let over = Goal::Until(Instant::now());
        for taken in 1..=BURST as u64 {
            let (mut sent, mut turns) = (1, 0);
            while let left @ 1.. = left(over, sent) {
                (sent, turns) = (sent + left.min(taken), turns + 1);
                assert!(turns <= 2 * CLOCK_FRAMES, "{taken} of each burst");
            }
            assert_eq!(sent, CLOCK_FRAMES);
        }
    }
}
