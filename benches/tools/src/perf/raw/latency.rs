//! `srnic raw-lat`: one frame there, one as long back.

use super::frame;
use super::link::{AnyLink, Link, Work};
use super::payload::Payload;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::cli::{Defaults, RawLatencyArgs};
use crate::perf::progress::Progress;
use crate::perf::report::{Lost, Report};
use crate::perf::statistics::Latencies;
use crate::perf::tool::{self, Tool};
use crate::perf::{options, table};
use crate::program;
use crate::pump::{Nothing, PEER_WAIT};
use clap::ArgMatches;
use datapath::port::Port;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

const DEFAULTS: Defaults = Defaults { size: "64", iters: "100000", inline: None };
/// Empty bursts between two looks at the side channel and for Ctrl-C, however many rounds they are
/// in.
const INTERVAL: u32 = 1 << 16;

/// What `srnic raw-lat` is.
pub const RAW: Tool = Tool {
    name: "srnic_raw_lat",
    about: "Latency of raw Ethernet frames, half a round trip: start a server without a host, then a client with one",
    version: "srnic_raw_lat 1",
    defaults: DEFAULTS,
};

/// `srnic raw-lat` from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let args: RawLatencyArgs = program::args(matches);
    let open = |role| AnyLink::open(&args.device, role);
    tool::main(RAW, &args.basics, open, |link, channel| link.run(Latency(&args), channel))
}

/// All sizes, one after the other.
struct Latency<'a>(&'a RawLatencyArgs);

impl Work for Latency<'_> {
    fn run<P: Port>(self, link: &mut Link<P>, channel: &mut Channel) -> Result<()> {
        run(RAW, self.0, link, channel)
    }
}

fn run<P: Port>(tool: Tool, args: &RawLatencyArgs, link: &mut Link<P>, channel: &mut Channel) -> Result<()> {
    let basics = &args.basics;
    options::agree(&Nothing, channel, &basics.agreed())?;
    let sizes = link.sizes(basics)?;
    link.connect(channel)?;
    let (heading, described) = (table::latency_heading(), json!({ "tool": tool.name }));
    Report::of_each(&sizes, &heading, basics.json.as_deref(), described, |report, size| {
        tool::meet(&Nothing, channel, "ready", size)?;
        let mut player = Player { link, channel, size, payload: Payload::new(0, false, false), idle: 0 };
        let summary = if basics.is_client() {
            let mut latencies = Latencies::showing(Progress::of(basics));
            let result = player.lead(args, &mut latencies);
            let summary = latencies.summary();
            if matches!(result, Err(Error::Interrupted)) && summary.iterations > 0 {
                report.add_latencies(size, &summary, Lost::default());
            }
            result?;
            channel.say("done", summary)?;
            summary
        } else {
            player.follow()?;
            channel.hear(&Nothing, "done")?
        };
        report.add_latencies(size, &summary, Lost::default());
        Ok(())
    })
}

/// One side of the game.
struct Player<'a, P> {
    link: &'a mut Link<P>,
    channel: &'a mut Channel,
    /// Bytes of each frame.
    size: usize,
    payload: Payload,
    /// Empty bursts so far, modulo 2^32.
    idle: u32,
}

impl<P: Port> Player<'_, P> {
    /// Sends the first frame, and measures each round.
    fn lead(&mut self, args: &RawLatencyArgs, latencies: &mut Latencies) -> Result<()> {
        let goal = args.basics.goal();
        latencies.of_rounds(goal, || {
            if self.throw()? && self.catch()? {
                return Ok(());
            }
            // Here the peer says nothing but that it failed.
            self.channel.hear::<String>(&Nothing, "a frame").map(drop)
        })
    }

    /// Sends each frame back, until the peer says that it is over.
    fn follow(&mut self) -> Result<()> {
        while self.catch()? && self.throw()? {}
        Ok(())
    }

    /// Hands a frame over; false if the peer says something first.
    #[inline]
    fn throw(&mut self) -> Result<bool> {
        let queued = self.until(|player| player.link.queue(player.size, &player.payload))?;
        self.link.port.tx_flush();
        Ok(queued)
    }

    /// Waits for the peer's frame; false if the peer says something first.
    #[inline]
    fn catch(&mut self) -> Result<bool> {
        self.until(|player| {
            let burst = player.link.port.rx_burst();
            if burst == 0 {
                return false;
            }
            // The operating system has something to say, too.
            let is_here = (0..burst).any(|index| frame::is_ours(player.link.port.rx_frame(index).head()));
            player.link.port.rx_release();
            is_here
        })
    }

    /// Tries until it is done; false if the peer says something first.
    #[inline]
    fn until(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) -> Result<bool> {
        let mut waiting = None;
        while !is_done(self) {
            self.idle = self.idle.wrapping_add(1);
            if self.idle.is_multiple_of(INTERVAL) {
                interrupt::check()?;
                self.channel.check()?;
                self.link.tend();
                // What the port could not hand over at once.
                self.link.port.tx_flush();
                if self.channel.has_line() {
                    return Ok(false);
                }
                if waiting.get_or_insert_with(Instant::now).elapsed() > PEER_WAIT {
                    return Err(Error::Late("no frame passed", PEER_WAIT.as_secs()));
                }
            }
        }
        Ok(true)
    }
}
