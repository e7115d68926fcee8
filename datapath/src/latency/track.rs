//! One sampled operation, from its post to its poll: a pure function of what is seen of it.

use super::part::{Part, Parts};
use super::probe::Posted;
use crate::queue::{SendOpcode, WcStatus};
use crate::time::Time;

/// How far a request is, as its queue pair's positions say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The engine cannot see it yet.
    Unseen,
    /// Seen; packets of it are to be sent.
    Unsent,
    /// Some of its packets are sent.
    Begun,
    /// All are.
    Sent,
    /// It is complete.
    Complete,
}

/// An operation whose time is being taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Track {
    pub posted: Posted,
    parts: Parts,
    /// The last look.
    at: Time,
    /// What it has waited for since then.
    waits: Part,
    /// When its first packet went out.
    first_at: Option<Time>,
    sent_at: Option<Time>,
}

impl Track {
    pub fn new(posted: Posted) -> Self {
        let parts = Parts::default();
        Self { posted, parts, at: posted.at, waits: Part::Posting, first_at: None, sent_at: None }
    }

    /// Looks at time `now`: until now it waited for what the last look found, and from now on for
    /// `waits`.
    pub fn look(&mut self, now: Time, standing: Standing, waits: Part) {
        self.pass(now);
        self.waits = match standing {
            Standing::Unseen => Part::Posting,
            Standing::Unsent | Standing::Begun | Standing::Sent => waits,
            Standing::Complete => Part::Polling,
        };
        if !matches!(standing, Standing::Unseen | Standing::Unsent) {
            self.first_at.get_or_insert(self.at);
        }
        if matches!(standing, Standing::Sent | Standing::Complete) {
            self.sent_at.get_or_insert(self.at);
        }
    }

    /// Of the network's part so much was the peer's host.
    pub fn blame_peer(&mut self, host_delay_ns: u64) {
        let host = host_delay_ns.min(self.parts[Part::Network]);
        self.parts[Part::Network] -= host;
        self.parts[Part::Peer] += host;
    }

    /// It ended: `polled_at` is when it was polled.
    pub fn finish(mut self, polled_at: Time, qpn: u32, status: WcStatus, again: u32) -> Sample {
        self.pass(polled_at);
        Sample {
            qpn,
            opcode: self.posted.opcode,
            status,
            wr_id: self.posted.wr_id,
            posted_at: self.posted.at,
            first_at: self.first_at.unwrap_or(self.at),
            sent_at: self.sent_at.unwrap_or(self.at),
            parts: self.parts,
            again,
        }
    }

    /// Who polls, or posts, may be a little ahead of the turn's time.
    fn pass(&mut self, now: Time) {
        self.parts[self.waits] += now.since(self.at);
        self.at = self.at.max(now);
    }
}

/// A sampled operation that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Its queue pair.
    pub qpn: u32,
    /// The operation.
    pub opcode: SendOpcode,
    /// How it ended.
    pub status: WcStatus,
    /// The application's number of it.
    pub wr_id: u64,
    /// When it was posted.
    pub posted_at: Time,
    /// When its first packet went out.
    pub first_at: Time,
    /// When its last packet went out for the first time.
    pub sent_at: Time,
    /// Where its time went; the sum is exactly the time from its post to its poll.
    pub parts: Parts,
    /// Packets of it that were sent again.
    pub again: u32,
}
