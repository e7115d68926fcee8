//! `srnic rpc`: requests and responses, each a SEND, with a number of requests outstanding: what
//! eRPC's small-RPC-rate benchmark measures.

mod lane;
mod lanes;

use crate::channel::Channel;
use crate::completions::Completions;
use crate::error::{Error, Result};
use crate::perf::cli::{Defaults, Goal, RpcArgs};
use crate::perf::meter::{Meter, Rates};
use crate::perf::progress::Progress;
use crate::perf::report::Report;
use crate::perf::session::{self, Session, Setup};
use crate::perf::table;
use crate::perf::tool::{self, Tool};
use crate::program;
use clap::ArgMatches;
use lane::{Ends, Lane, Slots};
use lanes::Lanes;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use verbs_api::{Device, QueueCaps, WcOpcode};

/// Whatever fits is copied.
const DEFAULTS: Defaults = Defaults { size: "32", iters: "1000000", inline: None };
/// Completions taken at a time.
const BATCH: usize = 32;
const WHAT: &str = "a request or a response";

/// What `srnic rpc` is.
pub const RPC: Tool = Tool {
    name: "srnic_rpc",
    about: "Rate of requests and responses: start a server without a host, then a client with one",
    version: "srnic_rpc 1",
    defaults: DEFAULTS,
};

/// `srnic rpc` from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let args: RpcArgs = program::args(matches);
    session::main(RPC, &args.common, args.qps, |device, channel| run(RPC, &args, device, channel))
}

fn run(tool: Tool, args: &RpcArgs, device: &Device, channel: &mut Channel) -> Result<()> {
    let common = &args.common;
    let mtu = common.path_mtu(device)?;
    let mut agreed = common.agreed(mtu);
    agreed.push(("qp", args.qps.to_string()));
    agreed.push(("requests", args.requests.to_string()));
    let sizes = common.basics.sizes();
    let slots = |size| Slots::new(size, args.requests, args.qps);
    let setup = Setup {
        common,
        agreed: &agreed,
        mtu,
        qps: args.qps,
        caps: QueueCaps {
            max_send_wr: Lane::send_queue(args.requests),
            max_recv_wr: args.requests,
            max_inline: QueueCaps::INLINE_LIMIT,
            ..QueueCaps::default()
        },
        rd_atomic: None,
        use_srq: false,
        memory: sizes.iter().map(|&size| slots(size).len()).max().unwrap_or_default(),
    };
    let mut session = Session::connect(device, channel, &setup)?;
    let mut described = common.described(tool.name, mtu);
    described["qps"] = json!(args.qps);
    described["requests"] = json!(args.requests);
    let heading = table::bandwidth_heading(args.report_gbits);
    Report::of_each(&sizes, &heading, common.basics.json.as_deref(), described, |report, size| {
        measure(args, &mut session, report, slots(size))
    })
}

/// One size. The client measures.
fn measure(args: &RpcArgs, session: &mut Session<'_>, report: &mut Report, slots: Slots) -> Result<()> {
    let size = slots.size();
    let Session { device, channel, cq, queue_pairs, source, target, losses, .. } = session;
    let device: &Device = device;
    let mut lanes = Lanes::new(queue_pairs, slots, Ends { source, target, verify: args.common.verify })?;
    tool::meet(device, channel, "ready", size)?;
    let rates = if args.common.basics.is_client() {
        let mut meter = Meter::new(Instant::now()).showing(Progress::of(&args.common.basics));
        let goal = args.common.basics.goal();
        let outstanding = u64::from(args.requests) * u64::from(args.qps);
        let result = call(goal, &mut lanes, Completions::new(cq, channel), &mut meter, outstanding);
        let rates = meter.rates();
        if matches!(result, Err(Error::Interrupted)) && rates.iterations > 0 {
            report.add_rates(size, rates, args.report_gbits, losses.take());
        }
        result?;
        channel.say("done", rates)?;
        rates
    } else {
        serve(&mut lanes, Completions::new(cq, channel))?;
        channel.hear::<Rates>(device, "done")?
    };
    session.meet("checked", size)?;
    report.add_rates(size, rates, args.report_gbits, session.losses.take());
    Ok(())
}

/// Keeps requests outstanding on every queue pair, `outstanding` in all, until the goal is reached
/// and all are answered.
fn call(
    goal: Goal,
    lanes: &mut Lanes<'_>,
    mut completions: Completions<'_>,
    meter: &mut Meter,
    outstanding: u64,
) -> Result<()> {
    let mut done = [None; BATCH];
    let mut now = Instant::now();
    loop {
        let count = completions.poll_into(WHAT, &mut done)?;
        let mut answered = 0;
        for done in done[..count].iter().flatten().filter(|done| done.opcode == WcOpcode::Recv) {
            lanes.take(done, Lane::take_response)?;
            answered += 1;
        }
        if answered > 0 {
            // A look at the clock takes a tenth of a message's time. What waits for room goes by
            // the last one.
            now = Instant::now();
        }
        lanes.send(answered == 0, |lane, ends| lane.request(ends, goal, now))?;
        if answered > 0 {
            meter.completed(answered, outstanding, now);
        } else if lanes.are_idle() {
            return Ok(());
        }
    }
}

/// Answers each request with its own bytes, until the peer says that it is done.
fn serve(lanes: &mut Lanes<'_>, mut completions: Completions<'_>) -> Result<()> {
    let mut done = [None; BATCH];
    while !completions.peer_spoke() {
        let count = completions.poll_into(WHAT, &mut done)?;
        for done in done[..count].iter().flatten().filter(|done| done.opcode == WcOpcode::Recv) {
            lanes.take(done, Lane::take_request)?;
        }
        lanes.send(count == 0, Lane::answer)?;
    }
    Ok(())
}
