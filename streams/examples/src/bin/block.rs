//! A disk in another host's memory: `block serve DEVICE` and `block bench DEVICE SERVER:PORT`.

use clap::{Parser, Subcommand};
use srnic_streams_examples::Error;
use srnic_streams_examples::block::{self, Client, DEPTH, Op, Workload};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use verbs_api::{Device, Driver};

/// Bytes of the disk.
const DISK: usize = 256 << 20;
/// Sizes of a request, and how many there are.
const SIZES: [(usize, usize); 2] = [(8 << 10, 40_000), (1 << 20, 2_000)];

/// A disk in another host's memory, with the request flow of sK-RDMA
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Has the disk
    Serve {
        /// As in memif:/tmp/a.sock,role=server
        device: String,
        /// The port of the device
        #[arg(long, default_value_t = 3260)]
        port: u16,
    },
    /// Reads and writes 8 KiB and 1 MiB at once, and says how fast that was
    Bench {
        /// As in memif:/tmp/a.sock,role=client
        device: String,
        /// The server's address: 10.77.0.1:3260 for a server on a memif
        server: SocketAddr,
        /// Requests under way
        #[arg(long, default_value_t = DEPTH)]
        depth: usize,
    },
}

fn main() -> Result<(), Error> {
    match Cli::parse().end {
        End::Serve { device, port } => {
            // Each client has a thread, and all of them poll.
            let device = Device::builder().driver(Driver::Hybrid).open(&device)?;
            println!("a disk of {} MiB at {}:{port}", DISK >> 20, device.ip());
            block::serve(&device, port, DISK, &AtomicBool::new(false))
        }
        End::Bench { device, server, depth } => {
            let device = Device::builder().driver(Driver::Hybrid).open(&device)?;
            let mut client = Client::connect(&device, server)?;
            for (size, count) in SIZES {
                for op in [Op::Read, Op::Write] {
                    let work = Workload { op, size, count, depth, span: DISK as u64 };
                    println!("{:>5} KiB, {op:?}: {}", size >> 10, client.run(&work)?);
                }
            }
            Ok(())
        }
    }
}
