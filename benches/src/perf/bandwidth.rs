//! `srnic_write_bw`: as many WRITEs as the connection takes.

mod layout;
mod sender;

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::perf::cli::{self, BandwidthArgs};
use crate::perf::meter::{Meter, Rates};
use crate::perf::report::Report;
use crate::perf::session::{self, Session, Setup, Tool};
use crate::perf::{memory, pattern::Pattern, table};
use layout::Layout;
use sender::{Goal, Sender};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verbs_api::{Device, QueueCaps};

const SIZE_DEFAULT: u32 = 65_536;
const ITERS_DEFAULT: u64 = 5000;

/// `srnic_write_bw` from its command line to its end.
#[must_use]
pub fn write_main() -> ExitCode {
    let tool = Tool {
        name: "srnic_write_bw",
        about: "Bandwidth of RDMA WRITEs: start a server without a host, then a client with one",
        version: "srnic_write_bw 1",
    };
    let args: BandwidthArgs = cli::parse(tool.name, tool.about);
    session::main(tool, &args.common, |device, channel| run(tool, &args, device, channel))
}

fn run(tool: Tool, args: &BandwidthArgs, device: &Device, channel: &mut Channel) -> Result<()> {
    check(args)?;
    let common = &args.common;
    let mtu = common.mtu.unwrap_or_else(|| device.path_mtu_max());
    let mut agreed = common.agreed(SIZE_DEFAULT, ITERS_DEFAULT, mtu);
    agreed.push(("qp", args.qps.to_string()));
    agreed.push(("bidirectional", args.bidirectional.to_string()));
    let sizes = common.sizes(SIZE_DEFAULT);
    let layouts = sizes.iter().map(|&size| Layout::new(size, args));
    let setup = Setup {
        common,
        agreed: &agreed,
        mtu,
        qps: args.qps,
        caps: QueueCaps {
            max_send_wr: common.tx_depth,
            max_inline: common.inline_size.unwrap_or(0),
            ..QueueCaps::default()
        },
        memory: layouts.map(|layout| layout.len()).max().unwrap_or_default(),
    };
    let mut session = Session::connect(device, channel, &setup)?;
    let mut report = Report::new(device, &table::bandwidth_heading(args.report_gbits));
    let result = sizes.iter().try_for_each(|&size| measure(args, &mut session, &mut report, size));
    if matches!(result, Ok(()) | Err(Error::Interrupted)) {
        let run = json!({
            "tool": tool.name, "mtu": mtu.bytes(), "qps": args.qps, "tx_depth": common.tx_depth,
            "bidirectional": args.bidirectional, "cc": common.cc_name(),
        });
        report.write(common.json.as_deref(), run)?;
    }
    result
}

/// Options that clap cannot compare.
fn check(args: &BandwidthArgs) -> Result<()> {
    let depth = args.common.tx_depth;
    for (option, value) in [("--cq-mod", args.cq_mod.unwrap_or(1)), ("--post_list", args.post_list)] {
        if value > depth {
            let text = format!("{option} is {value}; it cannot be more than --tx-depth, which is {depth}");
            return Err(Error::Options(text));
        }
    }
    Ok(())
}

/// One size: both sides get ready, one or both send, both learn what the other measured, and check what arrived.
fn measure(args: &BandwidthArgs, session: &mut Session<'_>, report: &mut Report, size: usize) -> Result<()> {
    let layout = Layout::new(size, args);
    let is_client = args.common.host.is_some();
    if args.common.verify {
        memory::fill(&session.source, 0..layout.len(), pattern(size, is_client))?;
        memory::clear(&session.target, 0..layout.len())?;
    }
    session.meet("ready", size)?;
    let mut ours = Rates::default();
    if is_client || args.bidirectional {
        let mut meter = Meter::new(Instant::now());
        let result = Sender::new(args, session, layout, goal(args)).run(&mut meter);
        ours = meter.rates();
        if matches!(result, Err(Error::Interrupted)) && ours.iterations > 0 {
            add(args, report, size, ours);
        }
        result?;
        session.channel.say("done", ours)?;
    }
    let mut theirs = Rates::default();
    if !is_client || args.bidirectional {
        theirs = session.channel.hear_at_last(session.device, "done")?;
        if args.common.verify {
            let messages = theirs.iterations / u64::from(args.qps);
            // Until a time limit each queue pair sends what it can, but each slot once at least.
            let messages = args.common.duration.map_or(messages, |_| u64::MAX);
            verify(session, &layout, messages, pattern(size, !is_client))?;
        }
    }
    // All that was sent is acknowledged by now: from here on nobody needs the other's engine.
    session.meet("checked", size)?;
    let rates = if args.bidirectional {
        ours.sum(theirs)
    } else if is_client {
        ours
    } else {
        theirs
    };
    add(args, report, size, rates);
    Ok(())
}

fn goal(args: &BandwidthArgs) -> Goal {
    let common = &args.common;
    common.duration.map_or(Goal::Messages(common.iters.unwrap_or(ITERS_DEFAULT)), |seconds| {
        Goal::Until(Instant::now() + Duration::from_secs(seconds.into()))
    })
}

/// Other bytes for each size and direction, so that none that were left behind pass.
fn pattern(size: usize, from_client: bool) -> Pattern {
    Pattern::new((size as u64) << 1 | u64::from(from_client))
}

/// That many messages of each queue pair are there, and nothing around them.
fn verify(session: &Session<'_>, layout: &Layout, messages: u64, pattern: Pattern) -> Result<()> {
    let target = &session.target;
    let mut checked = 0;
    for lane in 0..layout.lanes() {
        let messages = layout.written(lane, messages);
        memory::check(target, checked..messages.start, None, "bytes around the messages")?;
        memory::check(target, messages.clone(), Some(pattern), "messages received")?;
        checked = messages.end;
    }
    memory::check(target, checked..layout.len(), None, "bytes around the messages")
}

fn add(args: &BandwidthArgs, report: &mut Report, size: usize, rates: Rates) {
    let result: Value = json!({
        "size": size, "iterations": rates.iterations, "bw_peak_gbps": table::gbps(size, rates.peak),
        "bw_avg_gbps": table::gbps(size, rates.average), "msg_rate_mpps": rates.average / 1e6,
    });
    report.add(&table::bandwidth_row(size, rates, args.report_gbits), result);
}
