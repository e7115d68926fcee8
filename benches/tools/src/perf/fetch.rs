//! `srnic read-lat`, `srnic atomic-lat`: one READ or atomic after the other, each timed from its
//! post to its completion, a whole round trip. The server's engine answers; its program has no part
//! in it.

use crate::channel::Channel;
use crate::completions::Completions;
use crate::error::{Error, Result};
use crate::perf::atomic::{self, AtomicOp};
use crate::perf::cli::{self, AtomicLatencyArgs, Common, Defaults, LatencyArgs};
use crate::perf::pattern::Pattern;
use crate::perf::progress::Progress;
use crate::perf::report::Report;
use crate::perf::session::{self, Session, Setup};
use crate::perf::statistics::Latencies;
use crate::perf::tool::Tool;
use crate::perf::{memory, table};
use crate::program;
use clap::ArgMatches;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;
use verbs_api::{Device, QueueCaps, SendRequest};

const DEFAULTS: Defaults = Defaults { size: "2", iters: "1000", inline: None };
/// Bytes before and behind the message, which nobody may write.
const GUARD: usize = 64;

/// What is fetched.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Read,
    Atomic(AtomicOp),
}

/// What `srnic read-lat` is.
pub const READ: Tool = Tool {
    name: "srnic_read_lat",
    about: "Latency of RDMA READs, a whole round trip: start a server without a host, then a client with one",
    version: "srnic_read_lat 1",
    defaults: DEFAULTS,
};

/// `srnic read-lat` from its parsed command line to its end.
#[must_use]
pub fn read(matches: &ArgMatches) -> ExitCode {
    let args: LatencyArgs = program::args(matches);
    start(READ, Verb::Read, &args.common)
}

/// What `srnic atomic-lat` is.
pub const ATOMIC: Tool = Tool {
    name: "srnic_atomic_lat",
    about: "Latency of RDMA atomics, a whole round trip: start a server without a host, then a client with one",
    version: "srnic_atomic_lat 1",
    defaults: Defaults { size: "8", ..DEFAULTS },
};

/// `srnic atomic-lat` from its parsed command line to its end.
#[must_use]
pub fn atomic(matches: &ArgMatches) -> ExitCode {
    let args: AtomicLatencyArgs = program::args(matches);
    start(ATOMIC, Verb::Atomic(args.atomic.atomic_type), &args.common)
}

fn start(tool: Tool, verb: Verb, common: &Common) -> ExitCode {
    if let Verb::Atomic(_) = verb
        && let Err(error) = atomic::check_size(&common.basics)
    {
        error.show();
        return error.exit_code();
    }
    session::main(tool, common, 1, |device, channel| run(tool, verb, common, device, channel))
}

fn run(tool: Tool, verb: Verb, common: &Common, device: &Device, channel: &mut Channel) -> Result<()> {
    let mtu = common.path_mtu(device)?;
    let mut agreed = common.agreed(mtu);
    if let Verb::Atomic(op) = verb {
        agreed.push(("atomic_type", cli::name_of(op)));
    }
    let sizes = common.basics.sizes();
    let setup = Setup {
        common,
        agreed: &agreed,
        mtu,
        qps: 1,
        caps: QueueCaps { max_send_wr: 1, max_recv_wr: 1, ..QueueCaps::default() },
        rd_atomic: Some(1),
        use_srq: false,
        memory: sizes.iter().max().unwrap_or(&0) + 2 * GUARD,
    };
    let mut session = Session::connect(device, channel, &setup)?;
    let (heading, described) = (table::latency_heading(), common.described(tool.name, mtu));
    Report::of_each(&sizes, &heading, common.basics.json.as_deref(), described, |report, size| {
        measure(verb, common, &mut session, report, size)
    })
}

/// One size. The client measures, and says when it is enough.
fn measure(
    verb: Verb,
    common: &Common,
    session: &mut Session<'_>,
    report: &mut Report,
    size: usize,
) -> Result<()> {
    let message = GUARD..GUARD + size;
    let all = 0..size + 2 * GUARD;
    memory::clear(&session.source, all.clone())?;
    memory::clear(&session.target, all.clone())?;
    if matches!(verb, Verb::Read) {
        memory::fill(&session.target, all.clone(), pattern(size))?;
    }
    session.meet("ready", size)?;
    let summary = if common.basics.is_client() {
        let mut latencies = Latencies::showing(Progress::of(&common.basics));
        let result = fetch(verb, common, session, message.clone(), &mut latencies);
        let summary = latencies.summary();
        if matches!(result, Err(Error::Interrupted)) && summary.iterations > 0 {
            report.add_latencies(size, &summary, session.losses.take());
        }
        result?;
        if common.verify {
            check_guards(session, &message)?;
        }
        session.channel.say("done", summary)?;
        summary
    } else {
        session.channel.hear_at_last(session.device, "done")?
    };
    if common.verify && matches!(verb, Verb::Atomic(_)) && !common.basics.is_client() {
        atomic::check_counted(&session.target, std::iter::once(message), summary.iterations)?;
    }
    session.meet("checked", size)?;
    report.add_latencies(size, &summary, session.losses.take());
    Ok(())
}

/// One after the other until it is enough.
fn fetch(
    verb: Verb,
    common: &Common,
    session: &mut Session<'_>,
    message: Range<usize>,
    latencies: &mut Latencies,
) -> Result<()> {
    let goal = common.basics.goal();
    let Session { source, remote, queue_pairs, cq, channel, .. } = session;
    let (into, from) = ([source.slice(message.clone())?], remote.at(message.start as u64));
    let mut completions = Completions::new(cq, channel);
    for round in 1.. {
        if common.verify {
            memory::set(source, message.clone(), atomic::UNFETCHED)?;
        }
        let start = Instant::now();
        let request = match verb {
            Verb::Read => SendRequest::read(&into, from),
            Verb::Atomic(op) => op.request(into[0], from, round - 1),
        };
        queue_pairs[0].post_send(&request.signaled())?;
        completions.next("a READ or an atomic")?;
        let end = Instant::now();
        latencies.record_at(u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX), end);
        match verb {
            _ if !common.verify => {}
            Verb::Read => {
                memory::check(source, message.clone(), Some(pattern(message.len())), "message read")?;
            }
            Verb::Atomic(_) => atomic::check_fetched(source, std::iter::once(message.clone()), round)?,
        }
        if goal.is_reached(round, end) {
            break;
        }
    }
    Ok(())
}

fn check_guards(session: &Session<'_>, message: &Range<usize>) -> Result<()> {
    for guard in [0..message.start, message.end..message.end + GUARD] {
        memory::check(&session.source, guard, None, "bytes around the message")?;
    }
    Ok(())
}

/// Other bytes for each size.
const fn pattern(size: usize) -> Pattern {
    Pattern::new(size as u64)
}
