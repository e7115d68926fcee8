//! `srnic hostping`: what of this host, or of the way to a peer, is slower than it should be.

pub mod answer;
pub mod baseline;
pub mod finding;
pub mod judge;
pub mod map;
pub mod measure;
pub mod past;
pub mod path;
pub mod preflight;
pub mod rehearse;
pub mod tomography;
pub mod watch;
pub mod ways;
pub mod window;

use crate::error::{Error, Result};
use crate::link::wait_for_link;
use crate::{interrupt, output, program};
use baseline::Baseline;
use clap::{ArgMatches, Parser};
use finding::{Finding, Findings, Level};
use judge::Row;
use measure::Measured;
use past::Past;
use path::Outcome;
use preflight::Host;
use rehearse::Delay;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use tomography::History;
use verbs_api::{Device, DeviceSpec, Driver, Role, StatAddress};
use watch::{Reason, Watch, cpu_time};
use ways::Ways;

/// After such times probes are made again while one seems slow.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
/// Looks that a baseline is made of, and the time between two.
const USUAL_LOOKS: u32 = 10;
const USUAL_REST: Duration = Duration::from_millis(300);

/// Says what of this host, or of the way to a peer, is slow; and what to do about it
///
/// It looks at the settings of the machine, and then sends WRITEs from each CPU and each kind of
/// pages back to the device, and to HOST, where `srnic hostping --answer` must run. Probes that are
/// a fifth slower than those of the baseline, or without one than the best, are bad; the part that
/// they share is to blame. Exit status: 0 if nothing is bad, 1 if something is, 2 if it could not
/// be tried.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// A device; docs/ports.md has the grammar
    #[arg(short, long, required_unless_present = "preflight")]
    device: Option<DeviceSpec>,
    /// A peer to probe as well
    #[arg(conflicts_with_all = ["answer", "preflight"])]
    host: Option<IpAddr>,
    /// Looks at the settings of the machine only, and sends nothing
    #[arg(long)]
    preflight: bool,
    /// Looks at the machine whose /proc and /sys, or copies of them, are below this directory
    #[arg(long, value_name = "DIRECTORY", default_value = "/", requires = "preflight")]
    root: PathBuf,
    /// Answers the probes of others, until Ctrl-C
    #[arg(long, conflicts_with = "preflight")]
    answer: bool,
    /// Port of the connection manager where probes are answered
    #[arg(short, long, default_value_t = 7175, conflicts_with = "preflight")]
    port: u16,
    /// CPUs to probe from, or that are to poll, as in 0,1; without it probes use all that they may
    #[arg(long, value_delimiter = ',', conflicts_with = "answer")]
    cpu: Vec<usize>,
    /// Probes of each way, of which the best counts; as many again, twice at most, while one seems
    /// slow
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(conflicts_with_all = ["preflight", "answer"])]
    rounds: u32,
    /// What is usual, from a file of --save
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preflight", "answer"])]
    baseline: Option<PathBuf>,
    /// Writes to a file what is usual: the worst of ten more looks, in some seconds; not with
    /// --watch, which would make what is sick usual
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preflight", "answer", "watch"])]
    save: Option<PathBuf>,
    /// Gb/s that the way to HOST should carry: tells whether the window is large enough for it
    #[arg(long, value_name = "GBPS", requires = "host", value_parser = rate)]
    rate: Option<f64>,
    /// Draws the probes as a heat map into a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preflight", "answer"])]
    svg: Option<PathBuf>,
    /// Looks again after so many seconds, and at once when frames are dropped, until Ctrl-C; more
    /// seldom if that took more than a hundredth of the time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    #[arg(conflicts_with_all = ["preflight", "answer"])]
    watch: Option<u64>,
    /// A program's device whose drops are watched as well, by its stat=; may be given again
    #[arg(long, value_name = "ADDRESS", requires = "watch")]
    drops_of: Vec<StatAddress>,
    /// Ends after so many looks
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    looks: Option<u64>,
    /// Delays each probe over a part, as in 'CPU 1=20us', to see what is told then; may be given
    /// again
    #[arg(long, value_name = "PART=TIME", conflicts_with_all = ["preflight", "answer", "save"])]
    rehearse: Vec<Delay>,
    /// Writes a JSON document, one a line for each look
    #[arg(long, conflicts_with = "answer")]
    json: bool,
}

fn rate(text: &str) -> std::result::Result<f64, &'static str> {
    text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 10_000.0).ok_or("a number above 0, up to 10000")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::verdict_main(|| Ok(!matches!(run(&program::args(matches))?, Level::Bad)))
}

fn run(cli: &Cli) -> Result<Level> {
    output::check_file(cli.save.as_deref())?;
    output::check_file(cli.svg.as_deref())?;
    let usual = cli.baseline.as_deref().map(Baseline::read).transpose()?.unwrap_or_default();
    let machine = Host::at(&cli.root);
    let settings = Findings(preflight::check(&machine, cli.device.as_ref(), &cli.cpu));
    let Some(spec) = cli.device.as_ref().filter(|_| !cli.preflight) else {
        return tell(cli, &settings, settings.json("links"));
    };
    let role = if cli.answer { Role::Server } else { Role::Client };
    // Probes stay on a CPU, and so the engine must run where they do.
    let spec = DeviceSpec { driver: Some(Driver::Inline), ..spec.clone().or_role(role) };
    let device = Device::open_spec(&spec)?;
    if cli.answer {
        return answer::answer(&device, cli.port).map(|()| Level::Good);
    }
    if cli.host.is_some() {
        wait_for_link(&device, &spec, || Ok(()))?;
    }
    let cpus = if cli.cpu.is_empty() { machine.allowed_cpus() } else { cli.cpu.clone() };
    let ways = Ways::open(&device, &cpus, cli.host.map(|host| SocketAddr::new(host, cli.port)))?;
    rehearse::check(&cli.rehearse, &ways.paths())?;
    let watch = Watch::begin(&device, &cli.drops_of)?;
    let mut last = None;
    match (look(cli, &settings, &usual, (ways, watch), &mut last), last) {
        // In a probe, or between two looks.
        (Err(Error::Interrupted), Some(level)) => Ok(level),
        (ended, _) => ended,
    }
}

/// Probes, judges and tells, once or again and again. The verdict is that of the last look, and
/// `last` has it as soon as it is told.
fn look(
    cli: &Cli,
    settings: &Findings,
    usual: &Baseline,
    (mut ways, mut watch): (Ways<'_>, Watch<'_>),
    last: &mut Option<Level>,
) -> Result<Level> {
    let (mut history, mut past) = (History::default(), Past::default());
    let (mut reason, mut looks) = (Reason::Start, 0);
    loop {
        let since = cpu_time();
        ways.dial_again()?;
        let probes = probe(cli, usual, &mut ways)?;
        if let Some(path) = &cli.save {
            usual_of(cli, &mut ways)?.write(path)?;
        }
        let rows = judge::rows(&probes, usual);
        let mut links = judge::judge(&rows, &mut history);
        links.extend(window_of(cli, &ways, &probes));
        links.extend(cli.baseline.as_ref().and_then(|_| judge::missing(&rows, usual)));
        let links = Findings(links);
        past.note(&links.0);
        if let Some(path) = &cli.svg {
            std::fs::write(path, map::map(&rows).svg()).map_err(Error::file("write", path))?;
        }
        watch.look_took(cpu_time().saturating_sub(since));
        let look =
            Look { rows: &rows, links: &links, past: &past, reason: &reason, cpu_share: watch.cpu_share() };
        let level = show(cli, settings, &look)?;
        *last = Some(level);
        looks += 1;
        let Some(seconds) = cli.watch.filter(|_| cli.looks != Some(looks)) else { return Ok(level) };
        reason = watch.wait(Duration::from_secs(seconds))?;
    }
}

/// The probes of a look. While one seems slow, they are made again some time later: what disturbs
/// the CPU for a moment passes, and what is sick stays.
fn probe(cli: &Cli, usual: &Baseline, ways: &mut Ways<'_>) -> Result<Vec<Outcome>> {
    let is_slow = |row: &Row| row.measured.is_some() && !row.is_good();
    let mut probes = rounds(cli, ways, Vec::new())?;
    for pause in AGAIN_AFTER {
        if !judge::rows(&probes, usual).iter().any(is_slow) {
            break;
        }
        sleep(pause);
        probes = rounds(cli, ways, probes)?;
    }
    Ok(probes)
}

/// Each way is probed so often, and the best of it is told, also of `probes` before.
fn rounds(cli: &Cli, ways: &mut Ways<'_>, probes: Vec<Outcome>) -> Result<Vec<Outcome>> {
    (0..cli.rounds).try_fold(probes, |probes, _| ways.probe(probes, &cli.rehearse))
}

/// What is usual while all is well: what several looks see, some seconds in all.
fn usual_of(cli: &Cli, ways: &mut Ways<'_>) -> Result<Baseline> {
    let look = |number: u32| {
        sleep(if number == 0 { Duration::ZERO } else { USUAL_REST });
        rounds(cli, ways, Vec::new())
    };
    Ok(Baseline::of_probes(&(0..USUAL_LOOKS).map(look).collect::<Result<Vec<_>>>()?))
}

/// Whether the window to the peer is large enough, if the command line says for what.
fn window_of(cli: &Cli, ways: &Ways<'_>, probes: &[Outcome]) -> Option<Finding> {
    let best = probes.iter().filter(|(path, _)| path.peer.is_some()).filter_map(|(_, measured)| *measured);
    Some(window::judge(ways.peer_window()?, best.reduce(Measured::best_of)?, cli.rate?))
}

/// What a look has found, and why it came.
struct Look<'a> {
    rows: &'a [Row],
    links: &'a Findings,
    past: &'a Past,
    reason: &'a Reason,
    /// Of a CPU, since it watches.
    cpu_share: f64,
}

fn show(cli: &Cli, settings: &Findings, look: &Look<'_>) -> Result<Level> {
    let Look { rows, links, past, reason, cpu_share } = *look;
    let all = Findings(settings.0.iter().chain(&links.0).cloned().collect());
    let mut document = links.json("links");
    document["settings"] = settings.json("settings")["settings"].take();
    document["probes"] = rows.iter().map(probe_json).collect();
    document["verdict"] = all.verdict().to_string().into();
    document["reason"] = reason.word().into();
    document["cpu_share"] = cpu_share.into();
    if let Reason::Drops(count, device) = reason {
        document["dropped"] = (*count).into();
        document["dropped_by"] = device.as_str().into();
    }
    if let Some(links) = document["links"].as_array_mut() {
        for link in links {
            let looks = past.of(link["name"].as_str().unwrap_or_default());
            link["looks"] = looks.map(|level| level.to_string()).collect();
        }
    }
    if !cli.json {
        if let Reason::Drops(count, device) = reason {
            output::lines(format_args!("{count} frames were dropped by {device}\n\n"))?;
        }
        output::lines(format_args!("{}\n{}\n", table(rows), map::map(rows)))?;
        if past.is_long() {
            output::lines(format_args!("{past}\n"))?;
        }
        if cli.watch.is_some() {
            output::lines(format_args!("{:.2} % of a CPU since it watches\n\n", 100.0 * cpu_share))?;
        }
    }
    tell(cli, &all, document)
}

/// Tells it in the form that was asked for.
fn tell(cli: &Cli, all: &Findings, document: Value) -> Result<Level> {
    if cli.json {
        output::line(document)?;
    } else {
        output::lines(all)?;
    }
    Ok(all.verdict())
}

fn probe_json(row: &Row) -> Value {
    let micros = |of: Measured| of.latency_ns / 1000.0;
    json!({
        "name": row.path.to_string(),
        "latency_us": row.measured.map(micros),
        "gbps": row.measured.map(|of| of.gbps),
        "usual_latency_us": row.usual.map(micros),
        "usual_gbps": row.usual.map(|of| of.gbps),
        "good": row.is_good(),
    })
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.path.to_string().len()).max().unwrap_or_default();
    let line = |row: &Row| {
        let path = row.path.to_string();
        let Some(Measured { latency_ns, gbps }) = row.measured else {
            return format!("{path:<width$}  {:>10}\n", "no answer");
        };
        let mark = if row.is_good() { "" } else { "  slow" };
        format!("{path:<width$}  {:10.2}  {gbps:8.1}{mark}\n", latency_ns / 1000.0)
    };
    let heading = format!("{:<width$}  latency us      Gb/s\n", "probe");
    heading + &rows.iter().map(line).collect::<String>()
}
