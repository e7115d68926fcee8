//! `srnic fabric`: networks of thousands of hosts in virtual time, each with the engine that runs
//! on the wire, or with a model of a transport beside which it stands.

mod cost;
mod oracle;
mod rows;

use crate::congestion::Congestion;
use crate::error::{Error, Result};
use crate::output;
use crate::perf::cli::Recovery;
use crate::{interrupt, program};
use clap::{ArgMatches, Args, Parser, Subcommand};
use cost::Meter;
use datapath::engine::WINDOW_LIMIT;
use datapath::qp::attr::CongestionTuning;
use indicatif::{ProgressBar, ProgressStyle};
use rows::{Played, Rows};
use srnic_fabric::clock::Ps;
use srnic_fabric::file;
use srnic_fabric::host::HostError;
use srnic_fabric::limits;
use srnic_fabric::plan::{Changes, Plan};
use srnic_fabric::scheme::Scheme;
use srnic_fabric::topology::FatTree;
use srnic_fabric::workload::{Sizes, Workload};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

/// Hosts from which on another thread is worth it, if nobody says how many there are to be.
const HOSTS_PER_THREAD: usize = 128;

/// Simulates networks of thousands of hosts, each with the engine that runs on the wire
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Runs one network, and says how long its flows took
    ///
    /// Hosts are in a fat tree, as in SRNIC's Figure 12: 100 Gb/s to each, 400 Gb/s between
    /// switches, 1 us a link. Each sends flows of Cache_Follower's sizes to hosts at random.
    /// docs/fabric.md has every assumption. Ctrl-C shows what there is.
    Run(Run),
    /// Runs several schemes on networks of several sizes, and shows them beside each other
    ///
    /// All schemes have the same flows. Ctrl-C shows what there is.
    Compare(Compare),
    /// Runs schemes over several buffers and marking thresholds
    ///
    /// All runs have the same flows. Ctrl-C shows what there is.
    Sweep(Sweep),
    /// Holds the simulator to what theory says, and the engine to a model of it
    ///
    /// Waiting times, shares of a switch's memory, times in an empty network, max-min shares of
    /// long flows. The exit code is 1 if something differs by more than it may. Ctrl-C ends it.
    Oracle,
}

/// What all runs of a command have.
// A number below 0 is out of range, not an option that does not exist.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
struct Common {
    /// A network, workload and, for run, scheme of your own (docs/fabric.md)
    ///
    /// It says how many hosts there are, and their load. Other options are what differs.
    #[arg(value_name = "FILE", conflicts_with_all = ["hosts", "load"])]
    file: Option<PathBuf>,
    /// Part of a host's link that its flows take
    #[arg(long, default_value_t = 0.7, value_parser = load)]
    load: f64,
    /// Microseconds of virtual time in which flows begin
    ///
    /// 1,000 if neither this nor a file says.
    #[arg(long, value_parser = within::<u64>(limits::TIME_US))]
    time: Option<u64>,
    /// Microseconds at the beginning whose flows are not counted
    ///
    /// If neither this nor a file says: 100, or 0 where all flows begin with the run.
    #[arg(long, value_parser = within::<u64>(limits::PART_US))]
    warm_up: Option<u64>,
    /// Microseconds after the last flow began in which flows may still end
    ///
    /// 100,000 if neither this nor a file says.
    #[arg(long, value_parser = within::<u64>(limits::PART_US))]
    drain: Option<u64>,
    /// Everything random comes from it
    ///
    /// 1 if neither this nor a file says.
    #[arg(long)]
    seed: Option<u64>,
    /// Packets in the network at most, a flow; CX-6 has no such limit
    ///
    /// 160 if neither this nor a file says. Models with selective repeat have at most 256.
    #[arg(long, value_parser = within::<u16>(1..=u64::from(WINDOW_LIMIT)))]
    window: Option<u16>,
    /// Threads that play a run; results do not depend on their number
    ///
    /// If it is not given: as many as there are CPUs, but each with at least 128 hosts.
    #[arg(long, value_parser = within::<u16>(1..=256))]
    threads: Option<u16>,
    /// Writes the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct Run {
    /// Hosts: 16, 64, 256, 1024 or 4096
    #[arg(long, default_value_t = 64, value_parser = hosts)]
    hosts: u32,
    /// srnic, srnic-paper, srnic-pfc, srnic-model, irn, irn-dctcp, cx6 or cx6-lossy
    ///
    /// srnic if neither this nor a file says.
    #[arg(long, value_parser = scheme)]
    scheme: Option<Scheme>,
    /// Congestion control of the engine, if not DCTCP
    #[arg(long)]
    cc: Option<Congestion>,
    /// How the engine repairs losses, if not by selective repeat
    #[arg(long)]
    recovery: Option<Recovery>,
    /// Nanoseconds of a round trip whose window grows as DCTCP's does; the windows of others grow
    /// so that long and short paths share alike
    #[arg(long, value_name = "NS", value_parser = within::<u32>(limits::RTT_REFERENCE_NS))]
    rtt_reference: Option<u32>,
    /// Bytes that the queues of a switch share, if not the scheme's
    #[arg(long, value_parser = within::<u64>(limits::BUFFER_BYTES))]
    buffer: Option<u64>,
    /// Bytes that wait before a 100 Gb/s link from which on packets are marked, if not the
    /// scheme's; four times as many before a 400 Gb/s link
    #[arg(long, value_parser = within::<u64>(limits::MARK_BYTES))]
    mark: Option<u64>,
    /// Each packet takes a way of its own, instead of each flow
    #[arg(long)]
    spray: bool,
    /// Part of the frames that are lost on the way from each host
    #[arg(long, default_value_t = 0.0, value_parser = loss)]
    loss: f64,
    /// DCQCN of models: least microseconds between two notifications of a flow by its receiver; 0:
    /// one for each marked packet
    ///
    /// 50 if neither this nor a file says.
    #[arg(long, value_name = "US", value_parser = within::<u64>(limits::GAP_US))]
    notify_gap: Option<u64>,
    /// DCQCN of models: least microseconds between two cuts of a flow's rate by its sender; 0: each
    /// notification cuts
    ///
    /// 0 if neither this nor a file says.
    #[arg(long, value_name = "US", value_parser = within::<u64>(limits::GAP_US))]
    cut_gap: Option<u64>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Compare {
    /// Numbers of hosts: of 16, 64, 256, 1024 and 4096
    #[arg(long, default_value = "64,256", value_parser = hosts, value_delimiter = ',')]
    hosts: Vec<u32>,
    #[command(flatten)]
    schemes: Schemes,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Sweep {
    /// Hosts: 16, 64, 256, 1024 or 4096
    #[arg(long, default_value_t = 64, value_parser = hosts)]
    hosts: u32,
    /// Bytes that the queues of a switch share
    #[arg(long, default_value = "16777216,33554432,67108864", value_delimiter = ',', value_parser = within::<u64>(limits::BUFFER_BYTES))]
    buffers: Vec<u64>,
    /// Bytes that wait before a 100 Gb/s link from which on packets are marked
    #[arg(long, default_value = "49152,98304,196608", value_delimiter = ',', value_parser = within::<u64>(limits::MARK_BYTES))]
    marks: Vec<u64>,
    #[command(flatten)]
    schemes: Schemes,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Schemes {
    /// Of srnic, srnic-paper, srnic-pfc, srnic-model, irn, irn-dctcp, cx6 and cx6-lossy
    #[arg(long, default_value = "srnic,irn,cx6", value_parser = scheme, value_delimiter = ',')]
    schemes: Vec<Scheme>,
}

/// Parses whole numbers of a range. What is none, such as -5, is told the range, too.
fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> std::result::Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let outside = || format!("it must be a whole number from {} to {}", range.start(), range.end());
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(outside)
    }
}

/// What files and the command line call things that not every scheme has.
const OPTIONS: [(&str, &str); 5] = [
    ("congestion", "--cc"),
    ("recovery", "--recovery"),
    ("rtt_reference_ns", "--rtt-reference"),
    ("notify_gap_us", "--notify-gap"),
    ("cut_gap_us", "--cut-gap"),
];

fn hosts(text: &str) -> std::result::Result<u32, &'static str> {
    let hosts = text.parse().ok().filter(|hosts| FatTree::of_hosts(*hosts).is_some());
    hosts.ok_or("it must be 16, 64, 256, 1024 or 4096")
}

fn load(text: &str) -> std::result::Result<f64, &'static str> {
    let load = text.parse().ok().filter(|load| *load > 0.0 && *load <= 1.0);
    load.ok_or("it must be above 0 and at most 1")
}

fn loss(text: &str) -> std::result::Result<f64, &'static str> {
    text.parse().ok().filter(|loss| (0.0..1.0).contains(loss)).ok_or("it must be from 0 up to 1")
}

fn scheme(text: &str) -> std::result::Result<Scheme, &'static str> {
    Scheme::of_name(text)
        .ok_or("it must be srnic, srnic-paper, srnic-pfc, srnic-model, irn, irn-dctcp, cx6 or cx6-lossy")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| match program::args::<Cli>(matches).part {
        Part::Run(run) => run.run(),
        Part::Compare(compare) => compare.run(),
        Part::Sweep(sweep) => sweep.run(),
        Part::Oracle => oracle::run(),
    })
}

impl Common {
    /// What a file describes, or a fat tree; and what the command line has otherwise.
    fn plan(&self, hosts: u32) -> Result<Plan> {
        let plan = match self.file.as_deref() {
            Some(path) => read(path)?,
            None => figure(Scheme::Srnic, hosts, self.load)?,
        };
        let micros =
            |micros: Option<u64>, else_| micros.map_or(else_, |us| Ps::from_ns(us.saturating_mul(1000)));
        Ok(Plan {
            time: micros(self.time, plan.time),
            warm_up: micros(self.warm_up, plan.warm_up),
            drain: micros(self.drain, plan.drain),
            seed: self.seed.unwrap_or(plan.seed),
            window: self.window.unwrap_or(plan.window),
            ..plan
        })
    }

    /// How many threads play a plan.
    fn threads(&self, plan: &Plan) -> usize {
        let hosts = plan.topology.hosts() as usize / HOSTS_PER_THREAD;
        let cpus = || thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(|| cpus().min(hosts).max(1), usize::from)
    }

    /// Plays all plans one after the other, and tells of them; at Ctrl-C of what there is.
    fn play(&self, plans: &[Plan]) -> Result<()> {
        output::check_file(self.json.as_deref())?;
        plans.iter().try_for_each(Plan::check).map_err(|error| match &self.file {
            Some(path) => Error::Options(format!("{} with these options: {error}", path.display())),
            None => Error::Options(error.to_string()),
        })?;
        let bar = progress(plans.iter().map(work).sum());
        let (mut rows, mut before) = (Rows::new(plans.len()), 0);
        for plan in plans {
            let played = play(plan, self.threads(plan), (&bar, before))?;
            before += work(plan);
            rows.push(plan, played);
            if interrupt::check().is_err() {
                break;
            }
        }
        bar.finish_and_clear();
        output::line(rows.table())?;
        rows.notes().try_for_each(output::line)?;
        if let Some(path) = &self.json {
            std::fs::write(path, format!("{:#}\n", rows.to_json())).map_err(Error::file("write", path))?;
        }
        interrupt::check()
    }
}

/// The plan of a file.
fn read(path: &Path) -> Result<Plan> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    file::plan(&text).map_err(|error| Error::Options(format!("{}: {error}", path.display())))
}

/// Figure 12's network and workload.
fn figure(scheme: Scheme, hosts: u32, load: f64) -> Result<Plan> {
    let tree = FatTree::of_hosts(hosts).ok_or_else(|| Error::Options("--hosts".to_owned()))?;
    let workloads = vec![Workload::Poisson { sizes: Sizes::CACHE_FOLLOWER, load }];
    Ok(Plan { workloads, ..Plan::new(scheme, tree) })
}

impl Run {
    fn plan(&self) -> Result<Plan> {
        let mut plan = self.common.plan(self.hosts)?;
        plan.scheme = self.scheme.unwrap_or(plan.scheme);
        let changes = &mut plan.changes;
        changes.loss = self.loss;
        changes.spray |= self.spray;
        changes.pool = self.buffer.or(changes.pool);
        changes.mark = self.mark.or(changes.mark);
        let micros = |us: u64| Ps::from_ns(us * 1000);
        let tuning = changes.tuning.unwrap_or_default();
        let own = Changes {
            congestion: self.cc.map(Into::into),
            recovery: self.recovery.map(Into::into),
            tuning: self
                .rtt_reference
                .map(|rtt_reference_ns| CongestionTuning { rtt_reference_ns, ..tuning }),
            notify_gap: self.notify_gap.map(micros),
            cut_gap: self.cut_gap.map(micros),
            ..Changes::default()
        };
        changes.congestion = own.congestion.or(changes.congestion);
        changes.recovery = own.recovery.or(changes.recovery);
        changes.tuning = own.tuning.or(changes.tuning);
        changes.notify_gap = own.notify_gap.or(changes.notify_gap);
        changes.cut_gap = own.cut_gap.or(changes.cut_gap);
        let unused = plan.unused(&own);
        if unused.is_empty() {
            return Ok(plan);
        }
        let options: Vec<_> = OPTIONS.iter().filter(|(key, _)| unused.contains(key)).map(|of| of.1).collect();
        let (options, name) = (options.join(", "), plan.scheme.name());
        Err(Error::Options(format!(
            "{options}: {name} has no such thing; leave it out, or take another --scheme"
        )))
    }

    fn run(&self) -> Result<()> {
        self.common.play(&[self.plan()?])
    }
}

impl Compare {
    fn plans(&self) -> Result<Vec<Plan>> {
        let sizes = if self.common.file.is_some() { &self.hosts[..1] } else { &self.hosts[..] };
        let mut plans = Vec::new();
        for hosts in sizes {
            let plan = self.common.plan(*hosts)?;
            plans.extend(self.schemes.schemes.iter().map(|scheme| Plan { scheme: *scheme, ..plan.clone() }));
        }
        Ok(plans)
    }

    fn run(&self) -> Result<()> {
        self.common.play(&self.plans()?)
    }
}

impl Sweep {
    fn plans(&self) -> Result<Vec<Plan>> {
        let mut plans = Vec::new();
        let plan = self.common.plan(self.hosts)?;
        for scheme in &self.schemes.schemes {
            for (pool, mark) in
                self.buffers.iter().flat_map(|pool| self.marks.iter().map(move |mark| (pool, mark)))
            {
                let changes = Changes { pool: Some(*pool), mark: Some(*mark), ..plan.changes };
                plans.push(Plan { scheme: *scheme, changes, ..plan.clone() });
            }
        }
        Ok(plans)
    }

    fn run(&self) -> Result<()> {
        self.common.play(&self.plans()?)
    }
}

/// Microseconds of all hosts together: what a run takes is about in proportion.
fn work(plan: &Plan) -> u64 {
    plan.time.0 / 1_000_000 * u64::from(plan.topology.hosts())
}

/// Plays one plan until it ends or Ctrl-C. `before` is the work of those before.
fn play(plan: &Plan, threads: usize, (bar, before): (&ProgressBar, u64)) -> Result<Played> {
    let refused = |error: HostError| Error::Options(error.to_string());
    let meter = Meter::start();
    let mut fabric = plan.fabric(plan.config(), threads).map_err(refused)?;
    let hosts = plan.topology.hosts();
    let mut is_whole = true;
    let rates = plan
        .play(&mut fabric, |fabric| {
            bar.set_position(before + fabric.now().min(plan.time).0 / 1_000_000 * u64::from(hosts));
            let (name, flows, left) = (plan.scheme.name(), fabric.flows.len(), fabric.unfinished());
            bar.set_message(format!("{name}, {hosts} hosts: {flows} flows, {left} under way"));
            is_whole = interrupt::check().is_ok();
            is_whole
        })
        .map_err(refused)?;
    let cut_off = (!is_whole).then(|| fabric.now());
    Ok(Played { cost: meter.cost(), row: plan.sum_up(&fabric, &rates), cut_off })
}

/// The progress of all runs, in microseconds of a host.
fn progress(work: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left; {msg}");
    ProgressBar::new(work).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> std::result::Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
    }

    fn plan(line: &str) -> Result<Plan> {
        let Ok(Cli { part: Part::Run(run) }) = parse(line) else { panic!("{line}: a command line") };
        run.plan()
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        assert!(parse("fabric run --hosts 100").expect_err("refused").contains("16, 64, 256, 1024 or 4096"));
        assert!(parse("fabric run --load 0").expect_err("refused").contains("above 0 and at most 1"));
        assert!(parse("fabric compare --schemes srnic,tcp").expect_err("refused").contains("cx6-lossy"));
        assert!(parse("fabric run --window 0").is_err());
        for wrong in ["run --time -5", "sweep --time 0", "compare --time 10000001"] {
            let refused = parse(&format!("fabric {wrong}")).expect_err("refused");
            assert!(refused.contains("from 1 to 10000000"), "{wrong}: {refused}");
        }
        assert!(parse("fabric sweep --buffers -1").expect_err("refused").contains("from 10000 to"));
        assert!(plan("fabric run --hosts 4096 --load 1 --cc swift --recovery go-back-n").is_ok());
        let refused = plan("fabric run --scheme irn --cc swift").expect_err("refused");
        assert!(refused.to_string().contains("--cc: irn has no such thing"), "{refused}");
        let refused = plan("fabric run --notify-gap 0").expect_err("refused").to_string();
        assert!(refused.contains("--notify-gap: srnic has no such thing"), "{refused}");
        let refused = plan("fabric run --scheme irn-dctcp --cut-gap 1").expect_err("refused").to_string();
        assert!(refused.contains("--cut-gap: irn-dctcp"), "{refused}");
        assert!(plan("fabric run --scheme cx6 --notify-gap 0 --cut-gap 50").is_ok());
    }

    /// Small networks are played by one thread, unless the command line says otherwise.
    #[test]
    fn threads_are_as_many_as_are_worth_it() {
        let threads = |line: &str| match parse(line).expect("a command line").part {
            Part::Run(run) => run.common.threads(&run.plan().expect("a plan")),
            _ => 0,
        };
        assert_eq!(threads("fabric run --hosts 64"), 1);
        assert_eq!(threads("fabric run --hosts 16 --threads 3"), 3);
        assert!(threads("fabric run --hosts 4096") >= 1);
        assert!(parse("fabric run --threads 0").is_err());
    }

    /// A file is a plan, and what the command line says beside it holds.
    #[test]
    fn a_file_is_played() {
        let path = std::env::temp_dir().join(format!("srnic-fabric-{}.toml", std::process::id()));
        let text = "seed = 9\n[topology]\nhosts = 16\n[[workload]]\nkind = 'permutation'\nbytes = 10_000\n";
        std::fs::write(&path, text).expect("written");
        let read = plan(&format!("fabric run {} --warm-up 0 --scheme cx6", path.display())).expect("a plan");
        std::fs::write(&path, text.replace("16", "17")).expect("written");
        let refused = plan(&format!("fabric run {}", path.display())).expect_err("refused").to_string();
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((read.seed, read.scheme, read.warm_up), (9, Scheme::Cx6, Ps(0)));
        let Played { row, .. } = play(&read, 1, (&ProgressBar::hidden(), 0)).expect("runs");
        assert_eq!((row.summary.flows, row.summary.unfinished), (16, 0));
        assert!(refused.contains(".toml: [topology] needs"), "{refused}");
        assert!(parse("fabric run x.toml --hosts 16").is_err());
    }

    /// The table and the JSON say the same, and name the columns that are promised.
    #[test]
    fn a_small_network_is_told_of() {
        let plan = plan("fabric run --hosts 16 --time 50 --warm-up 0").expect("a plan");
        let mut rows = Rows::new(1);
        rows.push(&plan, play(&plan, 2, (&ProgressBar::hidden(), 0)).expect("runs"));
        let (table, json) = (rows.table(), rows.to_json());
        let row = &json["rows"][0];
        for key in ["scheme", "hosts", "avg_fct_us", "p99_fct_us", "avg_slowdown", "unfinished", "hash"] {
            assert!(!row[key].is_null(), "{key}");
        }
        assert!(row["packets"].as_u64() > Some(1_000), "{row}");
        assert!(row["packets_per_core_second"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["unfinished"], 0);
        assert_eq!(json["hash"], row["hash"]);
        assert!(table.contains(row["hash"].as_str().expect("text")), "{table}");
        assert!(table.contains(&format!("{:.1}", row["avg_fct_us"].as_f64().expect("a number"))), "{table}");
        assert_eq!((rows.notes().count(), json["interrupted"].as_bool()), (0, Some(false)));
    }

    /// Rows that Ctrl-C cut off, and rows without a flow, are no results, and say so.
    #[test]
    fn what_is_no_result_says_so() {
        let plan = plan("fabric run --hosts 16 --time 50 --warm-up 0").expect("a plan");
        let played = |plan: &Plan| play(plan, 1, (&ProgressBar::hidden(), 0)).expect("runs");
        let mut rows = Rows::new(2);
        rows.push(&plan, Played { cut_off: Some(Ps::from_ns(20_000)), ..played(&plan) });
        let notes: Vec<_> = rows.notes().collect();
        assert!(notes[0].contains("at 20 us") && notes[1].contains("1 of 2 runs"), "{notes:?}");
        assert!(rows.table().ends_with("cut off"), "{}", rows.table());
        let json = rows.to_json();
        assert_eq!(
            (json["interrupted"].as_bool(), json["rows"][0]["interrupted_at_us"].as_u64()),
            (Some(true), Some(20))
        );
        let permutation = Workload::Permutation { bytes: 1 };
        let both = [plan.workloads.clone(), vec![permutation.clone()]].concat();
        let beside = Plan { workloads: both, warm_up: Ps(1), ..plan.clone() };
        let mut rows = Rows::new(1);
        rows.push(&beside, played(&beside));
        let notes: Vec<_> = rows.notes().collect();
        assert!(notes.len() == 1 && notes[0].contains("workload 2 has no flow that counts"), "{notes:?}");
        let at_once = Plan { workloads: vec![permutation], warm_up: Ps(1), ..plan };
        let mut rows = Rows::new(1);
        rows.push(&at_once, played(&at_once));
        let notes: Vec<_> = rows.notes().collect();
        assert!(notes[0].contains("no flow that counts"), "{notes:?}");
        let json = rows.to_json();
        assert!(
            json["avg_fct_us"].is_null() && json["rows"][0]["workloads"][0]["p99_fct_us"].is_null(),
            "{json}"
        );
    }
}
