//! gRPC over streams: `grpc serve DEVICE` and `grpc call DEVICE SERVER:PORT`.

use clap::{Parser, Subcommand};
use srnic_streams::{Config, Endpoint};
use srnic_streams_examples::{Error, grpc};
use std::net::SocketAddr;

/// gRPC over streams, by tonic
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Serves hellos and chats
    Serve {
        /// As in memif:/tmp/a.sock,role=server
        device: String,
        /// The port of the device
        #[arg(long, default_value_t = 50051)]
        port: u16,
    },
    /// Says hello, and sends notes that come back
    Call {
        /// As in memif:/tmp/a.sock,role=client
        device: String,
        /// The server's address: 10.77.0.1:50051 for a server on a memif
        server: SocketAddr,
        /// Who says hello
        #[arg(long, default_value = "world")]
        name: String,
        /// Notes of the chat
        #[arg(long, default_value_t = 20_000)]
        notes: u64,
        /// Bytes of a note
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
            grpc::serve(listener.into()).await?;
        }
        End::Call { device, server, name, notes, size } => {
            let endpoint = Endpoint::open(&device, Config::default())?;
            let mut client = grpc::Client::connect(&endpoint, server).await?;
            println!("{}", client.hello(&name).await?);
            println!("{}", client.chat(notes, size).await?);
        }
    }
    Ok(())
}
