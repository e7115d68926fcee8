//! `srnic write-bw`, `srnic read-bw`, `srnic atomic-bw`, `srnic send-bw`: as many messages as the
//! connection takes.

mod check;
mod layout;
mod receiver;
mod sender;

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::perf::atomic::{self, AtomicOp};
use crate::perf::cli::{
    self, AtomicBandwidthArgs, BandwidthArgs, Defaults, ReadBandwidthArgs, SendBandwidthArgs,
};
use crate::perf::meter::{Meter, Rates};
use crate::perf::progress::Progress;
use crate::perf::report::Report;
use crate::perf::session::{self, Session, Setup};
use crate::perf::table;
use crate::perf::tool::Tool;
use crate::program;
use check::Check;
use clap::ArgMatches;
use layout::Layout;
use receiver::Receiver;
use sender::Sender;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use verbs_api::{Device, QueueCaps};

const DEFAULTS: Defaults = Defaults { size: "65536", iters: "5000", inline: Some("0") };

/// What `srnic write-bw` is.
pub const WRITE: Tool = Tool {
    name: "srnic_write_bw",
    about: "Bandwidth of RDMA WRITEs: start a server without a host, then a client with one",
    version: "srnic_write_bw 1",
    defaults: DEFAULTS,
};

/// `srnic write-bw` from its parsed command line to its end.
#[must_use]
pub fn write(matches: &ArgMatches) -> ExitCode {
    let args: BandwidthArgs = program::args(matches);
    start(WRITE, Verb::Write, &args)
}

/// What `srnic read-bw` is.
pub const READ: Tool = Tool {
    name: "srnic_read_bw",
    about: "Bandwidth of RDMA READs: start a server without a host, then a client with one",
    version: "srnic_read_bw 1",
    defaults: Defaults { inline: None, ..DEFAULTS },
};

/// `srnic read-bw` from its parsed command line to its end.
#[must_use]
pub fn read(matches: &ArgMatches) -> ExitCode {
    let args: ReadBandwidthArgs = program::args(matches);
    start(READ, Verb::Read { outs: args.outstanding.outs }, &args.bandwidth)
}

/// What `srnic atomic-bw` is.
pub const ATOMIC: Tool = Tool {
    name: "srnic_atomic_bw",
    about: "Rate of RDMA atomics of 8 bytes: start a server without a host, then a client with one",
    version: "srnic_atomic_bw 1",
    defaults: Defaults { size: "8", inline: None, ..DEFAULTS },
};

/// `srnic atomic-bw` from its parsed command line to its end.
#[must_use]
pub fn atomic(matches: &ArgMatches) -> ExitCode {
    let args: AtomicBandwidthArgs = program::args(matches);
    let verb = Verb::Atomic { op: args.atomic.atomic_type, outs: args.outstanding.outs };
    start(ATOMIC, verb, &args.bandwidth)
}

/// What `srnic send-bw` is.
pub const SEND: Tool = Tool {
    name: "srnic_send_bw",
    about: "Bandwidth of SENDs: start a server without a host, then a client with one",
    version: "srnic_send_bw 1",
    defaults: DEFAULTS,
};

/// `srnic send-bw` from its parsed command line to its end.
#[must_use]
pub fn send(matches: &ArgMatches) -> ExitCode {
    let args: SendBandwidthArgs = program::args(matches);
    let (verb, args) = (Verb::Send { rx_depth: args.rx_depth, use_srq: args.use_srq }, args.bandwidth);
    start(SEND, verb, &args)
}

fn start(tool: Tool, verb: Verb, args: &BandwidthArgs) -> ExitCode {
    let common = &args.common;
    if let Err(error) = check(verb, args) {
        error.show();
        return error.exit_code();
    }
    session::main(tool, common, args.qps, |device, channel| run(tool, verb, args, device, channel))
}

/// What the messages are.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Write,
    /// With so many under way at once.
    Read {
        outs: u8,
    },
    /// With `outs` under way at once.
    Atomic {
        op: AtomicOp,
        outs: u8,
    },
    /// With so many receives outstanding at the other side, for each queue pair or for all.
    Send {
        rx_depth: u32,
        use_srq: bool,
    },
}

impl Verb {
    const fn what(self) -> &'static str {
        match self {
            Self::Write => "a WRITE",
            Self::Read { .. } => "a READ",
            Self::Atomic { .. } => "an atomic",
            Self::Send { .. } => "a SEND or a receive",
        }
    }

    const fn rx_depth(self) -> u32 {
        match self {
            Self::Send { rx_depth, .. } => rx_depth,
            _ => 1,
        }
    }

    const fn rd_atomic(self) -> Option<u8> {
        match self {
            Self::Read { outs } | Self::Atomic { outs, .. } => Some(outs),
            _ => None,
        }
    }

    const fn uses_srq(self) -> bool {
        matches!(self, Self::Send { use_srq: true, .. })
    }
}

fn run(tool: Tool, verb: Verb, args: &BandwidthArgs, device: &Device, channel: &mut Channel) -> Result<()> {
    let common = &args.common;
    let mtu = common.path_mtu(device)?;
    let mut agreed = common.agreed(mtu);
    if let Verb::Atomic { op, .. } = verb {
        agreed.push(("atomic_type", cli::name_of(op)));
    }
    agreed.push(("qp", args.qps.to_string()));
    agreed.push(("bidirectional", args.rates.bidirectional.to_string()));
    let sizes = common.basics.sizes();
    let layouts = sizes.iter().map(|&size| Layout::new(size, args));
    let setup = Setup {
        common,
        agreed: &agreed,
        mtu,
        qps: args.qps,
        caps: QueueCaps {
            max_send_wr: common.tx_depth,
            max_recv_wr: verb.rx_depth(),
            max_inline: common.inline_size,
            ..QueueCaps::default()
        },
        rd_atomic: verb.rd_atomic(),
        use_srq: verb.uses_srq(),
        memory: layouts.map(|layout| layout.len()).max().unwrap_or_default(),
    };
    let mut session = Session::connect(device, channel, &setup)?;
    let heading = table::bandwidth_heading(args.rates.report_gbits);
    let mut described = common.described(tool.name, mtu);
    described["qps"] = json!(args.qps);
    described["use_srq"] = json!(verb.uses_srq());
    let memory = device.engine_memory();
    described["engine_bytes"] = json!(memory.total());
    described["hot_bytes_per_qp"] = json!(memory.hot_per_qp());
    described["bidirectional"] = json!(args.rates.bidirectional);
    Report::of_each(&sizes, &heading, common.basics.json.as_deref(), described, |report, size| {
        measure(verb, args, &mut session, report, size)
    })
}

/// Options that clap cannot compare.
fn check(verb: Verb, args: &BandwidthArgs) -> Result<()> {
    if matches!(verb, Verb::Atomic { .. }) {
        atomic::check_size(&args.common.basics)?;
    }
    if matches!(verb, Verb::Send { .. }) && args.common.basics.all && args.common.basics.duration.is_some() {
        // Receives for an unknown number of messages would be left over for those of the next size.
        let text = "SENDs of all sizes need a number of messages: --all and --duration do not go together";
        return Err(Error::Options(text.to_owned()));
    }
    if verb.uses_srq() && args.common.verify && args.qps > 1 {
        let text = "with a shared receive queue it is open which queue pair fills which buffer: --use-srq and --verify go \
                    together with one queue pair only";
        return Err(Error::Options(text.to_owned()));
    }
    let depth = args.common.tx_depth;
    for (option, value) in [("--cq-mod", args.cq_mod.unwrap_or(1)), ("--post_list", args.post_list)] {
        if value > depth {
            let text = format!("{option} is {value}; it cannot be more than --tx-depth, which is {depth}");
            return Err(Error::Options(text));
        }
    }
    Ok(())
}

/// One size: both sides get ready, one or both send, both learn what the other measured, and check
/// what arrived.
fn measure(
    verb: Verb,
    args: &BandwidthArgs,
    session: &mut Session<'_>,
    report: &mut Report,
    size: usize,
) -> Result<()> {
    let layout = Layout::new(size, args);
    let is_client = args.common.basics.is_client();
    let check = Check { verb, args, layout };
    check.prepare(session)?;
    let mut receiver = receiver(verb, args, layout);
    if let Some(receiver) = &mut receiver {
        receiver.begin(session)?;
    }
    session.meet("ready", size)?;
    let mut ours = Rates::default();
    if is_client || args.rates.bidirectional {
        let mut meter = Meter::new(Instant::now()).showing(Progress::of(&args.common.basics));
        let result = Sender::new(verb, args, session, layout, receiver.as_mut())
            .run(args.common.basics.goal(), &mut meter);
        ours = meter.rates();
        if matches!(result, Err(Error::Interrupted)) && ours.iterations > 0 {
            add(args, session, report, size, ours);
        }
        result?;
        check.fetched(&session.source, ours.iterations)?;
        session.channel.say("done", ours)?;
    }
    let mut theirs = Rates::default();
    if !is_client || args.rates.bidirectional {
        if receiver.is_some() {
            Sender::new(verb, args, session, layout, receiver.as_mut()).receive()?;
        }
        theirs = session.channel.hear_at_last(session.device, "done")?;
        Sender::new(verb, args, session, layout, receiver.as_mut()).finish(theirs.iterations)?;
        check.arrived(&session.target, theirs.iterations)?;
    }
    // All that was sent is acknowledged by now: from here on nobody needs the other's engine.
    session.meet("checked", size)?;
    let rates = if args.rates.bidirectional {
        ours.sum(theirs)
    } else if is_client {
        ours
    } else {
        theirs
    };
    add(args, session, report, size, rates);
    Ok(())
}

/// What receives, if the messages need receives here.
fn receiver(verb: Verb, args: &BandwidthArgs, layout: Layout) -> Option<Receiver> {
    let Verb::Send { rx_depth, use_srq } = verb else { return None };
    let basics = &args.common.basics;
    let receives = !basics.is_client() || args.rates.bidirectional;
    let messages = basics.duration.map_or(basics.iters, |_| u64::MAX);
    receives.then(|| Receiver::new(layout, rx_depth, messages, use_srq))
}

fn add(args: &BandwidthArgs, session: &mut Session<'_>, report: &mut Report, size: usize, rates: Rates) {
    report.add_rates(size, rates, args.rates.report_gbits, session.losses.take());
}
