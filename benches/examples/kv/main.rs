//! A key-value store whose GETs are one-sided READs: the server's program never sees them. One
//! command starts a server and three clients under load on a switch that loses packets, kills one
//! of the clients, and checks that nothing that was acknowledged is lost:
//!
//! ```text
//! cargo run --release -p srnic-benches --example kv
//! ```
//!
//! `kv serve`, `kv load` and `kv check` are its parts.

mod client;
mod load;
mod protocol;
mod server;
mod slot;

use clap::{Args, Parser, Subcommand};
use client::Client;
use load::Plan;
use srnic_benches::lan::{Children, Lan};
use srnic_tools::error::{Error, Result};
use srnic_tools::interrupt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;
use verbs_api::{Device, DeviceSpec, Driver, Role};

/// Clients of the demonstration.
const CLIENTS: u8 = 3;

/// A key-value store with one-sided READs
#[derive(Parser)]
struct Cli {
    /// Without a part: the demonstration.
    #[command(subcommand)]
    part: Option<Part>,
    /// Operations of each client of the demonstration
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Frames that each port of the demonstration's switch loses, each way
    #[arg(long, default_value = "1%")]
    loss: String,
    /// Where clients meet the server
    #[arg(long, global = true, default_value = "127.0.0.1:18700")]
    meet: SocketAddr,
}

#[derive(Subcommand)]
enum Part {
    /// Serves until Ctrl-C
    Serve {
        /// The device, as in memif:/tmp/1.sock,role=client,ip=10.77.0.1
        #[arg(short, long)]
        device: DeviceSpec,
        /// Buckets of four slots of 128 bytes
        #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
        buckets: u64,
    },
    /// Generates load, and writes down what was acknowledged
    Load(LoadArgs),
    /// Checks that everything that was acknowledged is there
    Check {
        /// The device
        #[arg(short, long)]
        device: DeviceSpec,
        /// What the load generators wrote
        #[arg(required = true)]
        logs: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct LoadArgs {
    /// The device
    #[arg(short, long)]
    device: DeviceSpec,
    /// Number of this client, from 0
    #[arg(long, default_value_t = 0)]
    client: u64,
    /// Clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Keys of each client
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(8..=1 << 32))]
    keys: u64,
    /// Operations
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Per cent of GETs
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(0..=100))]
    reads: u64,
    /// Where acknowledged PUTs are written down
    #[arg(long)]
    log: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::tool_main(|| run(&cli))
}

fn run(cli: &Cli) -> Result<()> {
    let open = |spec: &DeviceSpec| {
        Device::builder().driver(Driver::THREAD).open_spec(&spec.clone().or_role(Role::Client))
    };
    match &cli.part {
        None => demonstrate(cli),
        Some(Part::Serve { device, buckets }) => server::serve(&open(device)?, cli.meet, *buckets),
        Some(Part::Load(args)) => {
            let LoadArgs { client, clients, keys, operations, reads, ref log, .. } = *args;
            let plan = Plan { client, clients, keys, operations, reads, log: log.clone() };
            load::run(Client::connect(&open(&args.device)?, cli.meet)?, &plan)
        }
        Some(Part::Check { device, logs }) => load::check(Client::connect(&open(device)?, cli.meet)?, logs),
    }
}

/// A server, clients of which one is killed, and the check.
fn demonstrate(cli: &Cli) -> Result<()> {
    let lan = Lan::start(CLIENTS + 2, &format!("fault:loss={},seed=5:", cli.loss), None)?;
    let log = |client: u8| lan.dir().join(format!("{client}.log"));
    let start = |host: u8, part: &str, arguments: &[String]| -> Result<Child> {
        let program = std::env::current_exe().map_err(Error::file("find", "this program".as_ref()))?;
        let mut command = Command::new(&program);
        command.args([part, "--device", &lan.device(host), "--meet", &cli.meet.to_string()]).args(arguments);
        command.spawn().map_err(Error::file("start", &program))
    };
    let server = Children(vec![start(1, "serve", &[])?]);
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let options = format!("--client {client} --clients {CLIENTS} --operations {} --log", cli.operations);
        let mut options: Vec<String> = options.split(' ').map(str::to_owned).collect();
        options.push(log(client).display().to_string());
        clients.push(start(client + 2, "load", &options)?);
    }
    let mut victim = Children(clients.pop().into_iter().collect());
    let clients = Children(clients);
    wait_for_lines(&mut victim, &log(CLIENTS - 1), 100)?;
    println!("killing client {}", CLIENTS - 1);
    drop(victim);
    clients.succeed()?;
    let logs: Vec<String> = (0..CLIENTS).map(|client| log(client).display().to_string()).collect();
    Children(vec![start(CLIENTS + 2, "check", &logs)?]).succeed()?;
    drop(server);
    Ok(())
}

/// Waits until a client has written so many lines.
fn wait_for_lines(client: &mut Children, log: &Path, lines: usize) -> Result<()> {
    let written = || std::fs::read_to_string(log).map_or(0, |text| text.lines().count());
    while written() < lines {
        interrupt::check()?;
        if client.0.iter_mut().any(|client| !matches!(client.try_wait(), Ok(None))) {
            return Err(Error::Options(
                "a client ended before it could be killed; give it more --operations".to_owned(),
            ));
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}
