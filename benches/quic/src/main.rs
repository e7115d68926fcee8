//! A QUIC connection between two processes: bandwidth and latency of one stream, by quinn.
//!
//! `cargo xtask bench streams` starts it. The server makes a certificate and writes it where the
//! client finds it, serves one connection, and ends.
#![forbid(unsafe_code)]

mod client;
mod config;
mod request;
mod server;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// QUIC by quinn between two processes
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand)]
enum Side {
    /// Serves one connection
    Server(ServerArgs),
    /// Measures
    Client(ClientArgs),
}

/// What both sides are told.
#[derive(Args)]
struct Common {
    /// The file of the server's certificate
    #[arg(long)]
    cert: PathBuf,
    /// Longest IP packet
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(1280..=9216))]
    mtu: u16,
    /// What decides how much is under way
    #[arg(long, value_enum, default_value_t = Congestion::Cubic)]
    congestion: Congestion,
    /// The processor to run on
    #[arg(long)]
    cpu: Option<usize>,
}

#[derive(Args)]
struct ServerArgs {
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct ClientArgs {
    /// Where the server is
    #[arg(long)]
    connect: SocketAddr,
    /// Bytes of a message
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// Messages; with --seconds as many as fit
    #[arg(short = 'n', long, default_value_t = 1000)]
    iters: u64,
    /// Measures for so long
    #[arg(long, conflicts_with = "iters")]
    seconds: Option<u64>,
    /// Measures half a round trip instead of bandwidth
    #[arg(long)]
    latency: bool,
    /// Where to write what was measured
    #[arg(long)]
    json: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Congestion {
    /// CUBIC, as quinn has it unless told otherwise
    Cubic,
    /// quinn's BBR, which it calls experimental
    Bbr,
}

fn main() -> ExitCode {
    match run(&Cli::parse().side) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(side: &Side) -> Outcome<()> {
    let common = match side {
        Side::Server(args) => &args.common,
        Side::Client(args) => &args.common,
    };
    if let Some(cpu) = common.cpu {
        config::pin(cpu)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match side {
            Side::Server(args) => server::run(args).await,
            Side::Client(args) => client::run(args).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Both sides in one process: what the client measures is there, and is of this transfer.
    #[test]
    fn a_client_measures_what_a_server_serves() {
        for latency in [false, true] {
            let dir = std::env::temp_dir().join(format!("srnic-quic-{}-{latency}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("a directory of our own");
            let common =
                || Common { cert: dir.join("cert"), mtu: 1500, congestion: Congestion::Cubic, cpu: None };
            // Free a moment ago.
            let port = std::net::UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
            let addr = port.expect("a port");
            let server = ServerArgs { listen: addr, common: common() };
            let client = ClientArgs {
                connect: addr,
                size: 1000,
                iters: 50,
                seconds: None,
                latency,
                json: dir.join("json"),
                common: common(),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
            runtime.block_on(async {
                let endpoint = server::bind(&server).expect("bound");
                let (served, measured) = tokio::join!(server::serve(&endpoint), client::run(&client));
                served.expect("served");
                measured.expect("measured");
            });
            let text = std::fs::read_to_string(dir.join("json")).expect("written");
            let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(result["bytes"], serde_json::json!(50_000), "{text}");
            let key = if latency { "/lat_us/p50" } else { "/bw_avg_gbps" };
            assert!(result.pointer(key).and_then(serde_json::Value::as_f64) > Some(0.0), "{text}");
            std::fs::remove_dir_all(&dir).expect("ours");
        }
    }
}
