//! A replicated log: a leader WRITEs records into the rings of two followers, each in their
//! registered memory, and a word behind them that tells how far it is. One command starts all three
//! on a switch, without loss and with it, kills a follower meanwhile and starts it again, and
//! compares the logs byte for byte:
//!
//! ```text
//! cargo run --release -p srnic-benches --example replog
//! ```

mod follower;
mod journal;
mod layout;
mod leader;
mod peer;
mod placement;
mod record;
mod report;
mod trial;

use clap::{Args, Parser, Subcommand, ValueEnum};
use srnic_tools::affinity::stay_on;
use srnic_tools::error::{Error, Result};
use srnic_tools::{interrupt, output};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use verbs_api::{Completion, Device, DeviceSpec, Role, WcStatus};

/// Followers; the leader and one of them are a majority.
const FOLLOWERS: u8 = 2;
/// Where the leader listens.
const PORT: u16 = 7475;
/// Between two signs of life of who has nothing else to say.
const BEAT: Duration = Duration::from_millis(20);
/// After so long without one, a peer is given up. Long, as a busy machine may stop any process for
/// a while: it costs no more than a new connection.
const SILENCE: Duration = Duration::from_secs(3);

/// Replicates a log by one-sided WRITEs
#[derive(Parser)]
struct Cli {
    /// Without a part: the demonstration.
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    shape: Shape,
    /// Runs without loss, and as many with it, in turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Frames that each port of the switch loses on their way out
    #[arg(long, default_value = "1%")]
    loss: String,
    /// Writes the results
    #[arg(long)]
    json: Option<PathBuf>,
    /// Does something wrong, which must be found
    #[arg(long, global = true, hide = true)]
    sabotage: Option<Sabotage>,
}

/// What is replicated.
#[derive(Args, Clone, Copy)]
struct Shape {
    /// Records of a run
    #[arg(long, global = true, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(100..=1 << 24))]
    records: u64,
    /// Bytes of a record
    #[arg(long, global = true, default_value = "4096", value_parser = size)]
    size: usize,
    /// Records that are appended and not committed, at most. While a lost packet is sent again, no
    /// record behind it is committed: too few, and the leader waits for the repair
    #[arg(long, global = true, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    outstanding: u64,
}

impl Shape {
    /// Tenths of the records that are there with `sequence`.
    const fn tenth(&self, sequence: u64) -> u64 {
        sequence * 10 / self.records
    }
}

/// Returns `true` if a completion says that the connection is over: the peer has left, or does not
/// answer. What else fails is a mistake.
fn is_end(completion: &Completion) -> Result<bool> {
    match completion.status {
        WcStatus::Success => Ok(false),
        WcStatus::WrFlushErr | WcStatus::RetryExcErr => Ok(true),
        status => Err(Error::Completion { what: "a WRITE", status }),
    }
}

fn size(text: &str) -> std::result::Result<usize, String> {
    let size = text.parse().map_err(|error| format!("{error}"))?;
    // Larger than what is placed in order anyway, so that the tail word has something to wait for.
    if (65..=65_536).contains(&size) { Ok(size) } else { Err("it must be 65 to 65536".to_owned()) }
}

/// What goes wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sabotage {
    /// A record is damaged behind its checksum.
    Checksum,
    /// The tail word is written by a WRITE that is too long to be in order.
    Order,
    /// Follower 0 damages what it has verified.
    Log,
}

#[derive(Subcommand)]
enum Part {
    /// Leads, from the beginning of a log to its end
    #[command(hide = true)]
    Lead(Place),
    /// Follows a leader
    #[command(hide = true)]
    Follow {
        /// Number of this follower, from 0
        #[arg(long)]
        number: u8,
        /// The leader's address
        #[arg(long)]
        leader: IpAddr,
        #[command(flatten)]
        place: Place,
    },
}

/// Where a part runs.
#[derive(Args)]
struct Place {
    /// The device
    #[arg(short, long)]
    device: DeviceSpec,
    /// The file of the log
    #[arg(long)]
    log: PathBuf,
    /// The processor that it stays on
    #[arg(long)]
    cpu: Option<usize>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::tool_main(|| run(&cli))
}

fn run(cli: &Cli) -> Result<()> {
    // Each part drives its device itself: whoever polls a word polls the engine as well.
    let open = |place: &Place| -> Result<Device> {
        place.cpu.map_or(Ok(()), stay_on)?;
        Ok(Device::open_spec(&place.device.clone().or_role(Role::Client))?)
    };
    match &cli.part {
        None => demonstrate(cli),
        Some(Part::Lead(place)) => leader::lead(&open(place)?, &place.log, cli.shape, cli.sabotage),
        Some(Part::Follow { number, leader, place }) => {
            let sabotage = cli.sabotage.filter(|_| *number == 0);
            follower::follow(&open(place)?, *number, *leader, &place.log, cli.shape, sabotage)
        }
    }
}

/// All runs, and what they amount to.
fn demonstrate(cli: &Cli) -> Result<()> {
    output::check_file(cli.json.as_deref())?;
    let mut report = report::Report::new(cli)?;
    for round in 1..=cli.rounds {
        // Both through the injector: its own price is in both.
        report.add([trial::run(cli, "0%", round)?, trial::run(cli, &cli.loss, round)?])?;
    }
    report.end(cli.json.as_deref())
}
