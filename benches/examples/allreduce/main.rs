//! All-reduce: every process ends with the sum of the vectors of all. One command starts them all,
//! on a switch that loses packets, and each checks its sums bit for bit:
//!
//! ```text
//! cargo run --release -p srnic-benches --example allreduce -- --ranks 4 --loss 1%
//! ```

mod ring;

use clap::Parser;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ring::Ring;
use srnic_benches::lan::{Children, Lan};
use srnic_tools::error::{Error, Result};
use std::process::{Child, Command, ExitCode};
use verbs_api::{Device, DeviceSpec, Driver, Role};

/// Sums vectors over N processes by a ring of RDMA WRITEs
#[derive(Parser)]
struct Cli {
    /// Processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    ranks: u8,
    /// 32-bit floats in a vector
    #[arg(long, default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    elements: u32,
    /// Sums, one after the other
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Frames that each port of the switch loses, each way
    #[arg(long, default_value = "1%")]
    loss: String,
    /// TCP port where ranks meet, each at a loopback address of its own
    #[arg(long, default_value_t = 18600)]
    port: u16,
    /// This process is one rank: its number
    #[arg(long, requires = "device", hide = true)]
    rank: Option<u8>,
    /// Its device
    #[arg(long, requires = "rank", hide = true)]
    device: Option<DeviceSpec>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match (cli.rank, &cli.device) {
        (Some(rank), Some(device)) => run(&cli, rank, device),
        _ => launch(&cli),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("allreduce: {error}");
            error.exit_code()
        }
    }
}

/// The switch here, and each rank in a process of its own.
fn launch(cli: &Cli) -> Result<()> {
    let lan = Lan::start(cli.ranks, &format!("fault:loss={},seed=11:", cli.loss), None)?;
    let program = std::env::current_exe().map_err(Error::file("find", "this program".as_ref()))?;
    let start = |rank: u8| -> Result<Child> {
        let mut command = Command::new(&program);
        command.args(["--rank", &rank.to_string(), "--device", &lan.device(rank + 1)]);
        command.args(["--ranks", &cli.ranks.to_string(), "--elements", &cli.elements.to_string()]);
        command.args(["--rounds", &cli.rounds.to_string(), "--port", &cli.port.to_string()]);
        command.spawn().map_err(Error::file("start", &program))
    };
    // The first that fails ends the others, who would wait for it.
    Children((0..cli.ranks).map(start).collect::<Result<_>>()?).succeed()
}

/// One rank.
fn run(cli: &Cli, rank: u8, device: &DeviceSpec) -> Result<()> {
    let device = Device::builder().driver(Driver::THREAD).open_spec(&device.clone().or_role(Role::Client))?;
    let elements = cli.elements as usize;
    let mut ring = Ring::join(&device, rank.into(), cli.ranks.into(), elements, cli.port)?;
    for round in 0..cli.rounds {
        let mine: Vec<f32> = (0..elements).map(|i| value(rank, round, i)).collect();
        let sums = ring.all_reduce(&mine)?;
        for (i, sum) in sums.iter().enumerate() {
            let expected =
                ring.in_order_of_the_ring(i).map(|rank| value(rank, round, i)).reduce(|a, b| a + b);
            if expected.map(f32::to_bits) != Some(sum.to_bits()) {
                return Err(Error::Options(format!(
                    "sum {i} of round {round} is {sum}, and must be {expected:?}"
                )));
            }
        }
    }
    ring.part()?;
    let resent = device.counters().tx_retransmits;
    println!(
        "rank {rank}: {} sums of {elements} floats over {} ranks, each right to the bit; {resent} packets sent again",
        cli.rounds, cli.ranks
    );
    Ok(())
}

/// Element `i` of a rank's vector: floats whose sum depends on the order of adding.
fn value(rank: u8, round: u32, i: usize) -> f32 {
    let seed = (i as u64) << 16 | u64::from(rank) << 8 | u64::from(round & 0xFF);
    let [a, b, c, ..] = SplitMix64::seed_from_u64(seed).next_u64().to_le_bytes();
    // 1.0 to 2.0 by mantissa, times a power of two up to 2^15.
    f32::from_bits(0x3F80_0000 | u32::from_le_bytes([a, b, c & 0x7F, 0])) * f32::from(1_u16 << (i % 16))
}
