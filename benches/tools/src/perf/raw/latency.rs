//! `srnic raw-lat`: one frame there, the same frame back.

use super::frame;
use super::link::{BURST, Link};
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
use dpdk_sys::Burst;
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
    let open = |role| Link::open(&args.device, role);
    tool::main(RAW, &args.basics, open, |link, channel| run(RAW, &args, link, channel))
}

fn run(tool: Tool, args: &RawLatencyArgs, link: &mut Link, channel: &mut Channel) -> Result<()> {
    let basics = &args.basics;
    options::agree(&Nothing, channel, &basics.agreed())?;
    let sizes = link.sizes(basics)?;
    link.connect(channel)?;
    let (heading, described) = (table::latency_heading(), json!({ "tool": tool.name }));
    Report::of_each(&sizes, &heading, basics.json.as_deref(), described, |report, size| {
        tool::meet(&Nothing, channel, "ready", size)?;
        let (ball, input) = (Burst::new(link.eth.pool()), Burst::new(link.eth.pool()));
        let mut player = Player { link, channel, ball, input, idle: 0 };
        let summary = if basics.is_client() {
            let mut latencies = Latencies::showing(Progress::of(basics));
            let result = player.lead(args, size, &mut latencies);
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
struct Player<'a> {
    link: &'a mut Link,
    channel: &'a mut Channel,
    /// The frame to send next.
    ball: Burst<1>,
    input: Burst<BURST>,
    /// Empty bursts so far, modulo 2^32.
    idle: u32,
}

impl Player<'_> {
    /// Sends the first frame, and measures each round.
    fn lead(&mut self, args: &RawLatencyArgs, size: usize, latencies: &mut Latencies) -> Result<()> {
        let goal = args.basics.goal();
        let payload = Payload::new(0, false, false);
        while !self.ball.fill() {
            interrupt::check()?;
        }
        for mbuf in self.ball.iter_mut() {
            self.link.stamp(mbuf, size, &payload);
        }
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

    /// Hands the frame over; false if the peer says something first.
    #[inline]
    fn throw(&mut self) -> Result<bool> {
        self.until(|player| {
            player.link.eth.tx_burst(&mut player.ball);
            player.ball.is_empty()
        })
    }

    /// Waits for the peer's frame; false if the peer says something first.
    #[inline]
    fn catch(&mut self) -> Result<bool> {
        self.until(|player| player.link.eth.rx_burst(&mut player.input) > 0 && player.keep())
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

    /// Takes the peer's frame out of the burst, if it is there.
    #[inline]
    fn keep(&mut self) -> bool {
        if !self.input.iter().all(|mbuf| frame::is_ours(mbuf.frame())) {
            // The operating system has something to say, too.
            self.input.retain(|mbuf| frame::is_ours(mbuf.frame()));
        }
        let Some(mbuf) = self.input.pop() else { return false };
        // There is room: the ball was thrown.
        let kept = self.ball.push(mbuf);
        debug_assert!(kept.is_ok());
        true
    }
}
