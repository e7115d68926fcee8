//! A connection's state.

use crate::event::{Failure, Host, Request};
use crate::terms::Terms;
use core::time::Duration;
use wire::cm::MAD_LEN;

/// A message that is sent again until it is answered.
pub struct Retry {
    pub mad: Box<[u8; MAD_LEN]>,
    /// How often it was sent again.
    pub resent: u8,
    /// How often the peer said that its answer takes longer.
    pub delayed: u8,
    /// The time until the next copy.
    pub interval: Duration,
}

/// What a REQ was rejected with that is sent again, for as long as its program has patience.
#[derive(Default)]
pub struct Refusal {
    /// It fails at once if nobody listens to the port.
    pub needs_listener: bool,
    /// The last rejection behind which it is sent again: nobody listened, or the peer had an old
    /// connection with the queue pair.
    pub heard: Option<Failure>,
}

/// How long a REQ is sent again.
#[derive(Clone, Copy)]
pub enum Patience {
    /// Until this time, and later for as long as it was not sent again `Config::retries` times.
    AtLeast(Duration),
    /// Until this time.
    Until(Duration),
}

impl Patience {
    /// Returns `true` if it is sent again at `now` however often it was.
    pub const fn lasts(self, now: Duration) -> bool {
        let (Self::AtLeast(until) | Self::Until(until)) = self;
        now.as_nanos() < until.as_nanos()
    }

    /// Until this time at least.
    pub fn extended(self, to: Duration) -> Self {
        match self {
            Self::AtLeast(until) => Self::AtLeast(until.max(to)),
            Self::Until(until) => Self::Until(until.max(to)),
        }
    }
}

/// The state of a connection. Names are those of InfiniBand's connection manager.
pub enum State {
    /// Active: a REQ was sent.
    ReqSent { retry: Retry, terms: Terms, patience: Patience, refusal: Refusal },
    /// Active: the REP is here, and the program has not said yet that its queue pair is ready.
    RepRcvd,
    /// Passive: the program has not accepted yet.
    ReqRcvd { request: Box<Request> },
    /// Passive: a REP was sent.
    RepSent { retry: Retry },
    /// Both ends are ready. `active`: a REP that comes again is answered.
    Established { active: bool },
    /// A DREQ was sent.
    DreqSent { retry: Retry },
    /// The peer's REQ or REP was rejected by this: it is answered so again.
    Rejected { rej: Box<[u8; MAD_LEN]> },
    /// It is over: what comes late is answered.
    TimeWait,
}

/// A connection.
pub struct Connection {
    /// The other host.
    pub peer: Host,
    /// The peer's number of the connection; 0: not known yet.
    pub remote_id: u32,
    /// The peer's queue pair; 0: not known yet.
    pub remote_qpn: u32,
    /// Its first PSN, of a request.
    pub remote_psn: u32,
    /// Our queue pair; 0: not known yet.
    pub qpn: u32,
    /// The transaction of the REQ.
    pub tid: u64,
    /// The number of the listener in whose backlog it began, if it came from the peer.
    pub listener: Option<u64>,
    /// Active: how often the peer was told to wait until the program is ready.
    pub put_off: u8,
    pub state: State,
    /// When something happens by itself.
    pub deadline: Option<Duration>,
    /// Until when the peer may ask again for an answer that it has had, of which it has not shown
    /// that it came.
    pub owed_until: Option<Duration>,
}

impl State {
    /// When a connection in this state fails if nothing comes.
    pub const fn fails_at(&self) -> Option<Duration> {
        match self {
            Self::ReqSent { patience: Patience::Until(until), .. }
            | Self::ReqSent {
                patience: Patience::AtLeast(until),
                refusal: Refusal { heard: Some(_), .. },
                ..
            } => Some(*until),
            _ => None,
        }
    }

    /// Nothing is left to happen but to answer what comes late.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::TimeWait)
    }
}
