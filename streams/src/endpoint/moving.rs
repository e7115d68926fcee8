//! Streams that go on over another carrier: over TCP when RDMA fails, and back.

use super::link::Carrier;
use super::service::Shared;
use super::state::State;
use super::tcp::{self, Outbox};
use crate::config::Config;
use crate::deadline;
use crate::error::Setup;
use crate::protocol::{Features, Header, Hello};
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use verbs_api::{Connector, Device};

/// How long a stream waits for another carrier once its turn has come.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an end that accepted waits for another carrier: its peer may wait for its turn.
const PASSIVE_PATIENCE: Duration = Duration::from_secs(60);
/// How long until the next attempt.
const AGAIN: Duration = Duration::from_millis(100);
/// How long an attempt to go over to TCP may take.
const TCP_LIMIT: Duration = Duration::from_secs(1);
/// How long an attempt to return may take.
const RETURN_LIMIT: Duration = Duration::from_millis(500);
/// Receives that a peer needs to say how it goes on.
pub const GREETINGS: usize = 1;

/// How a stream goes on over another carrier.
pub struct Move {
    pub token: [u8; 16],
    /// Whom this end connects to; `None`: the peer does that.
    pub to: Option<Targets>,
    /// Since when it has had no carrier and might have had another one.
    since: Option<Instant>,
    /// It may go over to TCP: its turn has come since it has had no carrier.
    has_turn: bool,
    /// When to try next.
    next: Option<Instant>,
    /// Somebody tries.
    busy: bool,
}

/// Where the peer can be had.
#[derive(Clone, Copy)]
pub struct Targets {
    pub rdma: Option<SocketAddr>,
    pub tcp: SocketAddr,
}

impl Move {
    pub const fn new(token: [u8; 16], to: Option<Targets>) -> Self {
        Self { token, to, since: None, has_turn: false, next: None, busy: false }
    }

    fn is_due(&mut self, now: Instant, after: Duration) -> bool {
        !self.busy && now >= *self.next.get_or_insert(deadline::from(now, after))
    }

    const fn begin(&mut self) {
        (self.busy, self.next) = (true, None);
    }
}

/// When streams have moved, in the interval that ends now.
#[derive(Default)]
struct Budget(Vec<Instant>);

impl Budget {
    fn take(&mut self, now: Instant, config: &Config, streams: usize) -> bool {
        self.0.retain(|moved| now.duration_since(*moved) < config.move_interval);
        let most = (streams * config.move_percent as usize / 100).max(1);
        let may = self.0.len() < most;
        if may {
            self.0.push(now);
        }
        may
    }
}

/// What is to be tried.
enum Job {
    Tcp(SocketAddr),
    Rdma(SocketAddr),
}

/// Sees to the streams of an endpoint that may go on over another carrier, until it stops.
pub fn keep(shared: &Arc<Shared>, device: &Device, config: &Config) {
    let mut budget = Budget::default();
    while let Some(jobs) = shared.call(|state| (!state.stopping).then(|| due(state, config, &mut budget))) {
        for (id, token, job) in jobs {
            let (shared, device, config) = (Arc::clone(shared), device.clone(), *config);
            let run = move || run(&shared, &device, &config, (id, token), &job);
            // Without a thread for it the stream waits, and is given up when its time is over.
            let _ = thread::Builder::new().name("srnic-streams-move".to_owned()).spawn(run);
        }
        shared.wait_for_moves();
    }
}

fn due(state: &mut State, config: &Config, budget: &mut Budget) -> Vec<(u64, [u8; 16], Job)> {
    let now = Instant::now();
    let (mut jobs, mut lost) = (Vec::new(), Vec::new());
    let count = state.moving().count();
    for (id, link) in state.moving() {
        let (is_suspended, is_by_tcp) = (link.is_suspended(), link.is_by_tcp());
        let is_dropped = link.is_dropped();
        let Some(moves) = &mut link.moves else { continue };
        if !is_suspended {
            (moves.since, moves.has_turn) = (None, false);
        } else {
            // Who waits for its turn has not begun to look for a carrier.
            moves.has_turn = moves.has_turn || moves.to.is_none() || budget.take(now, config, count);
            let waits_for_turns = moves.to.is_none() && !is_dropped;
            let patience = if waits_for_turns { PASSIVE_PATIENCE } else { PATIENCE };
            if moves.has_turn && now.duration_since(*moves.since.get_or_insert(now)) > patience {
                lost.push(id);
                continue;
            }
        }
        let Some(to) = moves.to else { continue };
        if is_suspended {
            if moves.has_turn && moves.is_due(now, Duration::ZERO) {
                moves.begin();
                jobs.push((id, moves.token, Job::Tcp(to.tcp)));
            }
        } else if is_by_tcp
            && let Some(rdma) = to.rdma
            && moves.is_due(now, config.return_after)
        {
            moves.begin();
            jobs.push((id, moves.token, Job::Rdma(rdma)));
        }
    }
    for id in lost {
        if let Some((link, _)) = state.link(id) {
            link.give_up();
        }
        state.settle(id);
        state.reap_one(id);
    }
    jobs
}

fn run(shared: &Arc<Shared>, device: &Device, config: &Config, (id, token): (u64, [u8; 16]), job: &Job) {
    let own = hello(config, token, true);
    let moved = match job {
        Job::Tcp(to) => {
            tcp::connect(*to, &own, TCP_LIMIT).and_then(|(socket, _)| attach(shared, id, socket, *to, config))
        }
        Job::Rdma(to) => go_back(shared, device, id, &own, *to),
    };
    let is_unknown = matches!(&moved, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof);
    shared.call(|state| {
        if let Some((link, _)) = state.link(id) {
            let is_suspended = link.is_suspended();
            if let Some(moves) = &mut link.moves {
                moves.busy = false;
                moves.next = (moved.is_err() && is_suspended).then(|| Instant::now() + AGAIN);
            }
            if is_unknown && is_suspended {
                // The peer has no such stream any more.
                link.give_up();
            }
        }
        state.settle(id);
        state.reap_one(id);
    });
}

/// What an end says of itself on a carrier of a stream that may move.
pub fn hello(config: &Config, token: [u8; 16], resumes: bool) -> Hello {
    let features = Features { moves: true, resumes, ..config.features() };
    Hello { receives: config.receives, receive_bytes: config.chunk_bytes, features, token }
}

/// TCP carries this stream from now on.
pub fn attach(
    shared: &Arc<Shared>,
    id: u64,
    socket: TcpStream,
    addr: SocketAddr,
    config: &Config,
) -> io::Result<()> {
    let carrier = Carrier::Tcp(Outbox::start(&socket)?, addr);
    let generation = shared.call(|state| {
        state.resume(id, carrier);
        state.generation(id)
    });
    listen(shared, (id, generation), socket, config)
}

/// Takes the messages that come by TCP, on a thread of its own.
pub fn listen(
    shared: &Arc<Shared>,
    (id, generation): (u64, u64),
    mut socket: TcpStream,
    config: &Config,
) -> io::Result<()> {
    let (shared, max) = (Arc::clone(shared), config.chunk_bytes as usize - Header::BYTES);
    let reads = move || {
        while let Ok((header, payload)) = tcp::read_message(&mut socket, max) {
            if !shared.call(|state| state.deliver(id, generation, &header, &payload)) {
                return;
            }
        }
        shared.call(|state| state.lose(id, generation));
    };
    thread::Builder::new().name("srnic-tcp-in".to_owned()).spawn(reads).map(drop)
}

/// RDMA carries this stream again, if the peer can be had.
fn go_back(shared: &Shared, device: &Device, id: u64, own: &Hello, to: SocketAddr) -> io::Result<()> {
    if !device.link_up() {
        return Err(io::ErrorKind::NetworkDown.into());
    }
    let pair = shared.call(|state| state.prepare(id, GREETINGS))?;
    let qpn = pair.qpn();
    let hello = own.to_bytes();
    let connecting = Connector::new().private_data(&hello).connect(pair, to);
    match connecting.and_then(|connecting| connecting.wait(RETURN_LIMIT)) {
        Ok(pair) => shared.call(|state| state.resume(id, Carrier::Pair(Box::new(pair)))),
        Err(error) => {
            shared.call(|state| state.unprepare(id, qpn));
            return Err(Setup::from(error).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interval_has_more_moves_than_its_part_of_the_streams() {
        let config =
            Config { move_percent: 25, move_interval: Duration::from_millis(100), ..Config::default() };
        let (mut budget, begun) = (Budget::default(), Instant::now());
        let mut moved = Vec::new();
        for at in (0..1000).map(Duration::from_millis) {
            // All come at the end of an interval, and then again and again.
            if at >= Duration::from_millis(99) && budget.take(begun + at, &config, 8) {
                moved.push(at);
            }
        }
        assert!(moved.windows(3).all(|three| three[2] - three[0] >= config.move_interval), "{moved:?}");
        assert_eq!(moved.len(), 19, "two of eight in each interval");
        assert!(Budget::default().take(begun, &config, 1), "one may always move");
    }
}
