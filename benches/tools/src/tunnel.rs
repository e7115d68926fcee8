//! TCP connections through a path that RDMA crosses better, for programs that nobody changes.

mod counters;
mod open;
mod relay;
mod watch;

use crate::between;
use crate::descriptors::{self, Of};
use crate::error::{Error, Result};
use crate::host::HostPort;
use crate::{interrupt, program};
use clap::{ArgGroup, ArgMatches, Parser};
use counters::Counters;
use open::{Open, Place};
use relay::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use srnic_streams::{Config, Endpoint, Listener, Stream, Transport};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Driver, Role};
use watch::Watch;

/// How long either side of a connection may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);
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
    #[arg(long, value_name = "HOST:PORT", requires = "accept", conflicts_with = "listen")]
    to: Option<HostPort>,
    /// Takes TCP connections at this address
    #[arg(long, value_name = "HOST:PORT", requires = "peer")]
    listen: Option<HostPort>,
    /// The other end's device and the port that it accepts at
    #[arg(long, value_name = "HOST:PORT", requires = "listen", conflicts_with = "accept")]
    peer: Option<HostPort>,
    /// Goes on over TCP at this address while RDMA fails: the end with --accept listens to it, the
    /// other one connects to it
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<HostPort>,
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
    let counters: Arc<Counters> = Arc::default();
    let source: Weak<Counters> = Arc::downgrade(&counters);
    endpoint.device().add_metrics(source);
    // From here on it says that it is there.
    let end = end(cli, &endpoint)?;
    let open = Arc::new(Open::default());
    let mut watch = Watch::new(cli.tcp.is_some());
    let ended = take(cli, (&endpoint, &mut watch), &end, &counters, &open);
    // Nobody is accepted any more.
    drop(end);
    let ended = ended.and_then(|()| drain(cli, (&endpoint, &mut watch), &open));
    open.reset();
    ended
}

/// Waits until all connections have ended, as long as that may take.
fn drain(cli: &Cli, (endpoint, watch): (&Endpoint, &mut Watch), open: &Open) -> Result<()> {
    let count = open.count();
    if count > 0 {
        program::say(format_args!("waits for {count} connections, {} s at most", cli.drain));
    }
    let (begun, most) = (Instant::now(), Duration::from_secs(cli.drain));
    while open.count() > 0 && begun.elapsed() < most {
        watch.look(endpoint)?;
        open.wait(LOOK.min(most.saturating_sub(begun.elapsed())));
    }
    Ok(())
}

/// Takes connections until it is interrupted.
fn take(
    cli: &Cli,
    (endpoint, watch): (&Endpoint, &mut Watch),
    end: &End,
    counters: &Arc<Counters>,
    open: &Arc<Open>,
) -> Result<()> {
    while interrupt::check().is_ok() {
        watch.look(endpoint)?;
        if open.count() >= cli.connections.into() {
            sleep(LOOK);
            continue;
        }
        if let Some(coming) = next(end)? {
            let (counters, place) = (Arc::clone(counters), Open::place(open));
            thread::spawn(move || coming.carry(&counters, &place));
        }
    }
    Ok(())
}

/// Looks up the addresses of this end, and listens there.
fn end(cli: &Cli, endpoint: &Endpoint) -> Result<End> {
    let tcp = cli.tcp.as_ref().map(HostPort::resolve).transpose()?;
    match (cli.listen.as_ref().zip(cli.peer.as_ref()), cli.accept.zip(cli.to.as_ref())) {
        (Some((listen, peer)), _) => {
            let rdma = peer.resolve_for(endpoint.device().ip())?;
            let peer = tcp.map_or(Transport::Rdma(rdma), |tcp| Transport::Auto { rdma, tcp });
            let listen = listen.resolve()?;
            let tcp = listen_by_tcp(listen).map_err(cannot_listen(listen))?;
            Ok(End::Listens { tcp, endpoint: endpoint.clone(), peer })
        }
        (None, Some((port, to))) => {
            let to = to.resolve()?;
            Ok(End::Accepts { streams: take_streams(endpoint, port, tcp)?, to })
        }
        // The command line does not allow it.
        (None, None) => Err(Error::Options("give --accept and --to, or --listen and --peer".into())),
    }
}

fn open(cli: &Cli) -> Result<Endpoint> {
    let role = if cli.accept.is_some() { Role::Server } else { Role::Client };
    // Those that end have theirs for a while, and one is the connection manager's.
    let device = Device::builder().driver(Driver::THREAD).max_qps(2 * u32::from(cli.connections) + 1);
    let device = device.open_spec(&cli.device.clone().or_role(role)).map_err(Error::Verbs)?;
    let sizes = Config { checked: cli.checked, ..Config::default() };
    let one = (sizes.receives + sizes.sends + 8) as usize * sizes.chunk_bytes as usize;
    // Blocks may have half of it, and one connection as many as it grants.
    let most = (2 * one * usize::from(cli.connections))
        .max(2 * 4 * sizes.grants_max as usize * sizes.block_bytes as usize);
    let config = Config { memory_max: most, ..sizes };
    Endpoint::new(&device, config).map_err(|source| Error::Streams { doing: "begin", source })
}

fn cannot_listen(at: impl ToString) -> impl Fn(io::Error) -> Error {
    move |source| Error::Listen { at: at.to_string(), source }
}

fn listen_by_tcp(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    program::say(format_args!("listens at {}", listener.local_addr()?));
    Ok(listener)
}

/// Listens to a port of the device and, if asked to, to an address of TCP.
fn take_streams(endpoint: &Endpoint, port: u16, tcp: Option<SocketAddr>) -> Result<Listener> {
    let streams = match tcp {
        None => endpoint.listen(port).map_err(cannot_listen(format_args!("port {port} of the device")))?,
        Some(tcp) => endpoint
            .listen_with_tcp(port, tcp)
            .map_err(cannot_listen(format_args!("port {port} of the device, or at {tcp}")))?,
    };
    match streams.tcp_addr() {
        None => program::say(format_args!("accepts at {}", streams.local_addr())),
        Some(tcp) => program::say(format_args!("accepts at {}, and at {tcp} by TCP", streams.local_addr())),
    }
    Ok(streams)
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
                Err(source) => Err(Error::Tcp { doing: "accept", source }),
            }
        }
        End::Accepts { streams, to } => match streams.accept_within(LOOK) {
            Ok(stream) => Ok(stream.map(|stream| Coming::Stream(stream, *to))),
            // The peer was told that there is no room.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                program::say(&error);
                Ok(None)
            }
            Err(source) => Err(Error::Streams { doing: "accept", source }),
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
    fn carry(self, counters: &Counters, place: &Place) {
        let (name, made) = match self {
            Self::Tcp(tcp, from, endpoint, peer) => {
                // Until the other side is there, its end is a reset.
                relay::reset_on_close(&tcp, true);
                let made = tcp.set_nonblocking(false).and_then(|()| endpoint.connect_over(peer, PATIENCE));
                if made.is_ok() {
                    relay::reset_on_close(&tcp, false);
                }
                (from.to_string(), made.map(|stream| (tcp, stream)))
            }
            Self::Stream(stream, to) => {
                let name = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
                let made = TcpStream::connect_timeout(&to, PATIENCE);
                if made.is_err() {
                    stream.reset();
                }
                (format!("{name} to {to}"), made.map(|tcp| (tcp, stream)))
            }
        };
        let begun = Instant::now();
        match made {
            Ok((tcp, stream)) => {
                counters.begin();
                let connection = Arc::new(Connection { tcp, stream });
                place.hold(&connection);
                let outcome = relay::relay(&connection, counters);
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
            "tunnel -d memif:/tmp/a.sock --accept 5 --to 127.0.0.1:80 --peer 10.77.0.1:5",
            "tunnel -d memif:/tmp/a.sock --listen 127.0.0.1:81 --peer 10.77.0.1:5 --to 127.0.0.1:80",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
