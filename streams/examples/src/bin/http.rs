//! HTTP over streams: `http serve DEVICE` and `http load DEVICE SERVER:PORT`.

use clap::{Parser, Subcommand};
use srnic_streams::{Config, Endpoint};
use srnic_streams_examples::{Error, http};
use std::net::SocketAddr;

/// HTTP over streams, by axum and hyper
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Serves GET /, GET /bytes/N and POST /echo
    Serve {
        /// As in memif:/tmp/a.sock,role=server
        device: String,
        /// The port of the device
        #[arg(long, default_value_t = 80)]
        port: u16,
    },
    /// Asks for bodies, and says how fast they came
    Load {
        /// As in memif:/tmp/a.sock,role=client
        device: String,
        /// The server's address: 10.77.0.1:80 for a server on a memif
        server: SocketAddr,
        /// Connections at once
        #[arg(long, default_value_t = 16)]
        connections: usize,
        /// Requests of each connection
        #[arg(long, default_value_t = 2000)]
        requests: usize,
        /// Bytes of a body
        #[arg(long, default_value_t = 1024)]
        size: usize,
    },
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match Cli::parse().end {
        End::Serve { device, port } => {
            let endpoint = Endpoint::open(&device, Config::default())?;
            let listener = endpoint.listen(port)?;
            println!("serves at {}", listener.local_addr());
            http::serve(listener.into()).await?;
        }
        End::Load { device, server, connections, requests, size } => {
            let endpoint = Endpoint::open(&device, Config::default())?;
            println!("{}", http::load(&endpoint, server, (connections, requests), size).await?);
        }
    }
    Ok(())
}
