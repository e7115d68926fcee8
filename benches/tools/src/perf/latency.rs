//! `srnic write-lat`: two processes write to each other in turn, and each polls its own memory for
//! the other's WRITE. `srnic send-lat`: they send to each other in turn, and each waits for the
//! completion of its receive.

mod pingpong;

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::perf::cli::{Defaults, LatencyArgs};
use crate::perf::progress::Progress;
use crate::perf::report::Report;
use crate::perf::session::{self, Session, Setup};
use crate::perf::statistics::Latencies;
use crate::perf::table;
use crate::perf::tool::Tool;
use crate::program;
use clap::ArgMatches;
use pingpong::{Place, Player, post_receive, prepare};
use std::process::ExitCode;
use verbs_api::{Device, QueueCaps};

const DEFAULTS: Defaults = Defaults { size: "2", iters: "1000", inline: Some("220") };
/// The word that tells of a message of several packets is always sent inline.
const INLINE_MIN: u32 = 8;

/// What `srnic write-lat` is.
pub const WRITE: Tool = Tool {
    name: "srnic_write_lat",
    about: "Latency of RDMA WRITEs, half a round trip: start a server without a host, then a client with one",
    version: "srnic_write_lat 1",
    defaults: DEFAULTS,
};

/// `srnic write-lat` from its parsed command line to its end.
#[must_use]
pub fn write(matches: &ArgMatches) -> ExitCode {
    let args: LatencyArgs = program::args(matches);
    start(WRITE, Verb::Write, &args)
}

/// What `srnic send-lat` is.
pub const SEND: Tool = Tool {
    name: "srnic_send_lat",
    about: "Latency of SENDs, half a round trip: start a server without a host, then a client with one",
    version: "srnic_send_lat 1",
    defaults: DEFAULTS,
};

/// `srnic send-lat` from its parsed command line to its end.
#[must_use]
pub fn send(matches: &ArgMatches) -> ExitCode {
    let args: LatencyArgs = program::args(matches);
    start(SEND, Verb::Send, &args)
}

fn start(tool: Tool, verb: Verb, args: &LatencyArgs) -> ExitCode {
    let common = &args.common;
    session::main(tool, common, 1, |device, channel| run(tool, verb, args, device, channel))
}

/// What the messages are.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Write,
    Send,
}

fn run(tool: Tool, verb: Verb, args: &LatencyArgs, device: &Device, channel: &mut Channel) -> Result<()> {
    let common = &args.common;
    let mtu = common.path_mtu(device)?;
    let sizes = common.basics.sizes();
    let setup = Setup {
        common,
        agreed: &common.agreed(mtu),
        mtu,
        qps: 1,
        caps: QueueCaps {
            max_send_wr: depth(args),
            max_recv_wr: 1,
            max_inline: common.inline_size.max(INLINE_MIN),
            ..QueueCaps::default()
        },
        rd_atomic: None,
        use_srq: false,
        memory: sizes.iter().map(|&size| Place::new(verb, size, mtu).len()).max().unwrap_or_default(),
    };
    let mut session = Session::connect(device, channel, &setup)?;
    if matches!(verb, Verb::Send) {
        post_receive(&mut session.queue_pairs[0], &session.target)?;
    }
    let (heading, described) = (table::latency_heading(), common.described(tool.name, mtu));
    Report::of_each(&sizes, &heading, common.basics.json.as_deref(), described, |report, size| {
        measure(args, &mut session, report, Place::new(verb, size, mtu))
    })
}

/// One size. The client measures, and says when it is enough.
fn measure(args: &LatencyArgs, session: &mut Session<'_>, report: &mut Report, place: Place) -> Result<()> {
    let is_client = args.common.basics.is_client();
    prepare(session, place)?;
    session.meet("ready", place.size())?;
    let mut player = Player::new(&args.common, session, place, depth(args));
    let summary = if is_client {
        let mut latencies = Latencies::showing(Progress::of(&args.common.basics));
        let result = player.lead(args.common.basics.goal(), &mut latencies);
        let summary = latencies.summary();
        if matches!(result, Err(Error::Interrupted)) && summary.iterations > 0 {
            report.add_latencies(place.size(), &summary, session.losses.take());
        }
        result?;
        session.channel.say("done", summary)?;
        summary
    } else {
        player.follow()?;
        session.channel.hear(session.device, "done")?
    };
    session.meet("checked", place.size())?;
    report.add_latencies(place.size(), &summary, session.losses.take());
    Ok(())
}

/// Places in the send queue: a message of several packets takes two.
fn depth(args: &LatencyArgs) -> u32 {
    args.common.tx_depth.max(2)
}
