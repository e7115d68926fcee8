//! What a receiving stream owes its sender: the same for requests that come in and for responses.

use crate::counters::Counters;
use crate::time::Time;
use crate::tuning::ACK_SPACING;
use wire::{AckFlags, Meta, Msn};

/// In-order packets that one acknowledgement covers at most (protocol.md 2.5).
const ACK_EVERY: u8 = 16;

/// What the time of an acknowledgement is kept in.
const TICK_NS: u64 = 64;

#[expect(clippy::cast_possible_truncation, reason = "modulo 2^16")]
const fn ticks(time: Time) -> u16 {
    (time.0 / TICK_NS) as u16
}

/// Packets that arrived, as acknowledgements see them.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub packets: u8,
    /// Of the last.
    pub meta: Meta,
    /// One asked for an acknowledgement.
    pub ack_req: bool,
    /// All are marked, or none.
    pub ce: bool,
}

/// Whether an acknowledgement goes out in this turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    /// It may wait for more packets.
    No,
    /// The sender asked for it: it may be held back, once.
    Asked,
    /// Whatever comes in.
    Now,
}

/// The acknowledgements that a stream owes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    /// Since when the last packet may have waited to be taken, for ACK_DELAY; zero: none came.
    pub waits_since: Time,
    /// META of the packet that the next acknowledgement echoes.
    echo_msn: Msn,
    echo_offset: u16,
    /// CE-marked packets received.
    pub ce_count: u16,
    /// Turn in which the last packet in order arrived, modulo 2^16.
    turn: u16,
    /// When the last acknowledgement went out, in ticks modulo 2^16: one that is long ago may seem
    /// recent, and the next waits a little in vain.
    acked_at: u16,
    /// In-order packets not yet acknowledged.
    unacked: u8,
    /// Whether an acknowledgement is owed at the end of this turn.
    due: Due,
    /// [`AckFlags::HOST`], if this host marked a packet since the last acknowledgement.
    pub flags: AckFlags,
    /// The last packet was marked CE.
    ce_last: bool,
}

impl Owed {
    /// Nothing received, nothing owed.
    pub const fn new() -> Self {
        Self {
            waits_since: Time::ZERO,
            echo_msn: Msn::new(0),
            echo_offset: 0,
            ce_count: 0,
            turn: 0,
            acked_at: 0,
            unacked: 0,
            due: Due::No,
            flags: AckFlags::empty(),
            ce_last: false,
        }
    }

    /// A packet that comes next counts as marked: this host falls behind.
    pub fn note_host_mark(&mut self) {
        self.ce_count = self.ce_count.wrapping_add(1);
        if self.flags != AckFlags::HOST {
            self.flags = AckFlags::HOST;
            self.due = Due::Now;
        }
    }

    /// Counts CE marks and keeps what the next acknowledgement echoes. The packet came later than
    /// `since`.
    #[inline(always)]
    pub(super) fn note_arrival(&mut self, since: Time, counters: &mut Counters, arrived: &Arrived) {
        if arrived.ce {
            self.ce_count = self.ce_count.wrapping_add(arrived.packets.into());
            counters.rx_ce_marked += u64::from(arrived.packets);
        }
        if arrived.ce != self.ce_last {
            self.ce_last = arrived.ce;
            self.due = Due::Now;
        } else if arrived.ack_req {
            self.due = self.due.max(Due::Asked);
        }
        self.echo_msn = arrived.meta.msn;
        self.echo_offset = arrived.meta.offset;
        self.waits_since = since;
    }

    /// So many packets in order were taken in this turn.
    #[inline]
    pub const fn note_in_order(&mut self, turn: u16, packets: u8) {
        self.turn = turn;
        self.unacked = self.unacked.saturating_add(packets);
        if self.unacked >= ACK_EVERY {
            self.due = Due::Now;
        }
    }

    /// An acknowledgement goes out in this turn, whatever comes in.
    pub const fn insist(&mut self) {
        self.due = Due::Now;
    }

    /// Holds it back, once. False if it must not wait, or has waited.
    pub const fn hold(&mut self) -> bool {
        let may = matches!(self.due, Due::Asked);
        if may {
            self.due = Due::Now;
        }
        may
    }

    /// Everything that arrived is acknowledged, or will never be.
    pub const fn settle(&mut self, now: Time) {
        self.acked_at = ticks(now);
        self.unacked = 0;
        self.due = Due::No;
        self.flags = AckFlags::empty();
    }

    /// Whether the sender waits for an acknowledgement.
    #[inline]
    pub const fn is_owed(&self) -> bool {
        !matches!(self.due, Due::No) || self.unacked > 0
    }

    /// Whether the acknowledgement can wait for more packets: nobody asked, and the stream has not
    /// fallen silent or, where acknowledgements are `spaced`, the last was just now.
    #[inline]
    pub const fn may_wait(&self, turn: u16, now: Time, spaced: bool) -> bool {
        matches!(self.due, Due::No) && (self.turn == turn || (spaced && self.was_acked_just_now(now)))
    }

    const fn was_acked_just_now(&self, now: Time) -> bool {
        (ticks(now).wrapping_sub(self.acked_at) as u64) < ACK_SPACING / TICK_NS
    }

    /// META of the packet that the next acknowledgement echoes.
    pub const fn echo(&self) -> Meta {
        Meta { msn: self.echo_msn, offset: self.echo_offset }
    }
}
