//! TCP connections through a path that RDMA crosses better, for programs that nobody changes.

mod counters;
mod relay;

use crate::between;
use crate::descriptors::{self, Of};
use crate::error::{Error, Result};
use crate::{interrupt, program};
use clap::{ArgGroup, ArgMatches, Parser};
use counters::Counters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use srnic_streams::{Config, Endpoint, Listener, Stats, Stream, Transport};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Driver, Role};

/// How long either side of a connection may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);
/// Blocks that a connection grants its peer once it moves much: so many that a path of some
/// milliseconds and gigabits a second is full, and none while it does not.
const GRANTS: u32 = 16;
/// How long a wait lasts until somebody looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// Carries TCP connections over a device: TCP in at one end, TCP out at the other
///
/// One end has --accept and --to: it takes streams at a port of its device, and connects each to a
/// TCP server. The other end has --listen and --peer: it takes TCP connections, and makes a stream
/// for each to the first end's device. Ctrl-C takes no new connections and waits for those there
/// are.
#[derive(Parser, Debug)]
#[command(version, group = ArgGroup::new("end").required(true).args(["accept", "listen"]))]
pub struct Cli {
    /// The device, as in memif:/tmp/a.sock
    #[arg(short, long, value_parser = between::processes)]
    device: DeviceSpec,
    /// Takes streams at this port of the device
    #[arg(long, value_name = "PORT", requires = "to")]
    accept: Option<u16>,
    /// The TCP server that each stream is connected to
    #[arg(long, value_name = "ADDR:PORT", requires = "accept")]
    to: Option<SocketAddr>,
    /// Takes TCP connections at this address
    #[arg(long, value_name = "ADDR:PORT", requires = "peer")]
    listen: Option<SocketAddr>,
    /// The other end's device and the port that it accepts at
    #[arg(long, value_name = "ADDR:PORT", requires = "listen")]
    peer: Option<SocketAddr>,
    /// Goes on over TCP at this address while RDMA fails: the end with --accept listens to it, the
    /// other one connects to it
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<SocketAddr>,
    /// Connections at once; others wait
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Adds a checksum to the bytes, from end to end
    #[arg(long)]
    checked: bool,
    /// How long Ctrl-C waits for open connections; then they are reset
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

/// Where connections come from and go to.
enum End {
    /// TCP to a stream to `peer`.
    Listens { tcp: TcpListener, endpoint: Endpoint, peer: Transport },
    /// A stream to TCP to `to`.
    Accepts { streams: Listener, to: SocketAddr },
}

fn run(cli: &Cli) -> Result<()> {
    descriptors::allow(cli.connections.into(), Of::Connections)?;
    let endpoint = open(cli)?;
    let end = match (cli.listen.zip(cli.peer), cli.accept.zip(cli.to)) {
        (Some((listen, peer)), _) => {
            let tcp = TcpListener::bind(listen).map_err(failed("listen"))?;
            tcp.set_nonblocking(true).map_err(failed("listen"))?;
            program::say(format_args!("listens at {}", tcp.local_addr().map_err(failed("listen"))?));
            let peer = match cli.tcp {
                None => Transport::Rdma(peer),
                Some(tcp) => Transport::Auto { rdma: peer, tcp },
            };
            End::Listens { tcp, endpoint: endpoint.clone(), peer }
        }
        (None, Some((accept, to))) => End::Accepts {
            streams: listen(&endpoint, accept, cli.tcp).map_err(failed("accept streams"))?,
            to,
        },
        // The command line does not allow it.
        (None, None) => return Err(Error::Options("give --accept and --to, or --listen and --peer".into())),
    };
    let counters: Arc<Counters> = Arc::default();
    let source: Weak<Counters> = Arc::downgrade(&counters);
    endpoint.device().add_metrics(source);
    let open: Arc<()> = Arc::default();
    let mut watch = Watch::default();
    while interrupt::check().is_ok() {
        watch.look(&endpoint);
        if Arc::strong_count(&open) > cli.connections.into() {
            sleep(LOOK);
            continue;
        }
        let (coming, counted, counters) = (next(&end)?, Arc::clone(&open), Arc::clone(&counters));
        if let Some(coming) = coming {
            thread::spawn(move || {
                coming.carry(&counters);
                drop(counted);
            });
        }
    }
    // Nobody is accepted any more.
    drop(end);
    drain(&open, Duration::from_secs(cli.drain));
    Ok(())
}

fn open(cli: &Cli) -> Result<Endpoint> {
    let role = if cli.accept.is_some() { Role::Server } else { Role::Client };
    // Those that end have theirs for a while.
    let device = Device::builder().driver(Driver::THREAD).max_qps(2 * u32::from(cli.connections));
    let device = device.open_spec(&cli.device.clone().or_role(role)).map_err(Error::Verbs)?;
    let sizes = Config { checked: cli.checked, grants: GRANTS, ..Config::default() };
    let one = (sizes.receives + sizes.sends + 8) as usize * sizes.chunk_bytes as usize;
    // Blocks may have half of it, and one connection as many as it grants.
    let most =
        (2 * one * usize::from(cli.connections)).max(2 * 4 * GRANTS as usize * sizes.block_bytes as usize);
    let config = Config { memory_max: most, ..sizes };
    Endpoint::new(&device, config).map_err(failed("begin streams"))
}

/// Listens to a port of the device and, if asked to, to an address of TCP.
fn listen(endpoint: &Endpoint, port: u16, tcp: Option<SocketAddr>) -> io::Result<Listener> {
    let streams = match tcp {
        None => endpoint.listen(port)?,
        Some(tcp) => endpoint.listen_with_tcp(port, tcp)?,
    };
    match streams.tcp_addr() {
        None => program::say(format_args!("accepts at {}", streams.local_addr())),
        Some(tcp) => program::say(format_args!("accepts at {}, and at {tcp} by TCP", streams.local_addr())),
    }
    Ok(streams)
}

/// Says when connections change what carries them.
#[derive(Default)]
struct Watch {
    to_tcp: u64,
    to_rdma: u64,
}

impl Watch {
    fn look(&mut self, endpoint: &Endpoint) {
        let Stats { moved_to_tcp, returned_to_rdma, over_tcp, .. } = endpoint.stats();
        let (gone, back) = (moved_to_tcp - self.to_tcp, returned_to_rdma - self.to_rdma);
        if gone + back > 0 {
            program::say(format_args!(
                "{gone} connections went over to TCP, {back} came back to RDMA, {over_tcp} are over TCP"
            ));
        }
        (self.to_tcp, self.to_rdma) = (moved_to_tcp, returned_to_rdma);
    }
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Tcp { doing, source }
}

/// Waits until nobody has a connection any more. What is left then ends with the process.
fn drain(open: &Arc<()>, limit: Duration) {
    let end = Instant::now() + limit;
    while Arc::strong_count(open) > 1 && Instant::now() < end {
        sleep(Duration::from_millis(10));
    }
    if Arc::strong_count(open) > 1 {
        program::say(format_args!("{} connections are reset", Arc::strong_count(open) - 1));
    }
}

/// A connection of which one side is there.
enum Coming {
    Tcp(TcpStream, SocketAddr, Endpoint, Transport),
    Stream(Stream, SocketAddr),
}

/// The next connection, if one comes soon.
fn next(end: &End) -> Result<Option<Coming>> {
    match end {
        End::Listens { tcp: listener, endpoint, peer } => {
            let limit = Timespec::try_from(LOOK).ok();
            // A signal ends the wait, too.
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], limit.as_ref());
            match listener.accept() {
                Ok((stream, from)) => Ok(Some(Coming::Tcp(stream, from, endpoint.clone(), *peer))),
                Err(error) if is_passing(&error) => Ok(None),
                Err(error) => Err(failed("accept")(error)),
            }
        }
        End::Accepts { streams, to } => match streams.accept_within(LOOK) {
            Ok(stream) => Ok(stream.map(|stream| Coming::Stream(stream, *to))),
            // The peer was told that there is no room.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                program::say(&error);
                Ok(None)
            }
            Err(error) => Err(failed("accept streams")(error)),
        },
    }
}

/// Nobody is there, or who was there is gone again.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

impl Coming {
    /// Makes the other side, and carries the connection to its end.
    fn carry(self, counters: &Counters) {
        let (name, made) = match self {
            Self::Tcp(tcp, from, endpoint, peer) => {
                let made = tcp.set_nonblocking(false).and_then(|()| endpoint.connect_over(peer, PATIENCE));
                if made.is_err() {
                    relay::reset_on_close(&tcp);
                }
                (from.to_string(), made.map(|stream| (tcp, stream)))
            }
            Self::Stream(stream, to) => {
                let name = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
                let made = TcpStream::connect_timeout(&to, PATIENCE);
                if made.is_err() {
                    stream.reset();
                }
                (name, made.map(|tcp| (tcp, stream)))
            }
        };
        let begun = Instant::now();
        match made {
            Ok((tcp, stream)) => {
                counters.begin();
                let outcome = relay::relay(&tcp, &stream, counters);
                counters.end(outcome.is_broken());
                program::say(format_args!("{name}: {outcome}, {:.3} s", begun.elapsed().as_secs_f64()));
            }
            Err(error) => {
                counters.refuse();
                program::say(format_args!("{name}: not connected: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_end_is_one_of_two() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("tunnel -d memif:/tmp/a.sock --accept 5 --to 127.0.0.1:80").is_ok());
        assert!(parse("tunnel -d memif:/tmp/a.sock --listen 127.0.0.1:80 --peer 10.77.0.1:5").is_ok());
        for line in [
            "tunnel -d memif:/tmp/a.sock",
            "tunnel -d memif:/tmp/a.sock --accept 5",
            "tunnel -d memif:/tmp/a.sock --tcp 127.0.0.1:80",
            "tunnel -d memif:/tmp/a.sock --listen 127.0.0.1:80",
            "tunnel -d memif:/tmp/a.sock --accept 5 --to 127.0.0.1:80 --listen 127.0.0.1:81 --peer 10.77.0.1:5",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
