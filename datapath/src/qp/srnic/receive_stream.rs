//! The receiving end of a reliable stream, of requests or of responses: what is owed to its sender,
//! and what is said and kept while something is missing (protocol.md 2.4, receiving).

use super::responder::RxRecovery;
use crate::counters::{QpCounters, count};
use crate::qp::attr::RecoveryPolicy;
use crate::qp::owed::Owed;
use crate::qp::{ControlKind, Qp, Units};
use crate::sched::SchedFlags;
use crate::stream::{Advanced, Arrival, RxStream};
use sr_recovery::{Generation, Record, StreamId};
use wire::{Meta, Psn};

/// What a receiving stream remembers of what is missing. The bitmap is not here: it is the slow
/// path's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap {
    /// ePSN for which a NACK without SACK was sent.
    nacked_at: Option<Psn>,
    /// The ePSN of the newest Advance, and what arrived above it.
    pub(super) advance: (Psn, u64),
}

/// Who enters Recovery needs a context of the engine's, of which there are as many as it was made
/// with for requests, and as many for responses.
enum Context<'a> {
    /// Requests have completion slots there.
    Slots(&'a mut Option<RxRecovery>),
    /// Responses complete as their requests do: one more is under way, if this is true.
    Counted(&'a mut bool),
}

impl Context<'_> {
    /// Takes one, unless one is held. False if the stream may have none.
    fn take(&mut self, units: &mut Units, id: StreamId) -> bool {
        let is_held = match self {
            Self::Slots(held) => held.is_some(),
            Self::Counted(held) => **held,
        };
        if is_held {
            return true;
        }
        let Some(context) = units.take_context(id) else { return false };
        match self {
            Self::Slots(held) => **held = context,
            Self::Counted(held) => **held = true,
        }
        true
    }

    fn give_back(&mut self, units: &mut Units, id: StreamId) {
        match self {
            Self::Slots(held) => {
                if let Some(context) = held.take() {
                    units.give_back_context(id, Some(context));
                }
            }
            Self::Counted(held) => {
                if core::mem::take(*held) {
                    units.give_back_context(id, None);
                }
            }
        }
    }
}

/// All that one receiving stream has. Of requests it lies in both parts of the queue pair, by how
/// often it is needed; of responses it lies together, for queue pairs that have READs.
pub(in crate::qp) struct ReceiveStream<'a> {
    id: StreamId,
    /// Of the queue pair.
    qpn: u32,
    pub rx: &'a mut RxStream,
    pub owed: &'a mut Owed,
    pub gap: &'a mut Gap,
    context: Context<'a>,
    sched: &'a mut SchedFlags,
    /// Of the queue pair.
    counters: &'a mut QpCounters,
    policy: RecoveryPolicy,
}

impl<'a> ReceiveStream<'a> {
    /// That of the peer's requests.
    #[inline(always)]
    pub fn of_requests(qp: &'a mut Qp<'_>) -> Self {
        Self {
            id: qp.cold.requests(),
            qpn: qp.hot.id.qpn,
            rx: &mut qp.hot.rx,
            owed: &mut qp.hot.rsp.owed,
            gap: &mut qp.cold.gap,
            context: Context::Slots(&mut qp.cold.rx_recovery),
            sched: &mut qp.hot.sched,
            counters: &mut qp.cold.counters,
            policy: qp.cold.attributes.recovery(),
        }
    }

    /// That of responses to the queue pair's READs and atomics; `None` if it has none.
    #[inline(always)]
    pub fn of_responses(qp: &'a mut Qp<'_>) -> Option<Self> {
        let (id, policy) = (qp.cold.of_responses(), qp.cold.attributes.recovery());
        let reads = qp.cold.reads.as_deref_mut()?;
        Some(Self {
            id,
            qpn: qp.hot.id.qpn,
            rx: &mut reads.rx,
            owed: &mut reads.owed,
            gap: &mut reads.gap,
            context: Context::Counted(&mut reads.holds_context),
            sched: &mut qp.hot.responses_sched,
            counters: &mut qp.cold.counters,
            policy,
        })
    }

    /// One of a queue pair's; `None` if it has no such stream.
    #[inline(always)]
    pub fn of(qp: &'a mut Qp<'_>, id: StreamId) -> Option<Self> {
        if id.response { Self::of_responses(qp) } else { Some(Self::of_requests(qp)) }
    }

    /// Packets in order were taken: their acknowledgement is owed (protocol.md 2.5). Their arrival
    /// was noted before.
    #[inline(always)]
    pub fn settle(mut self, units: &mut Units, packets: u8) {
        self.owed.note_in_order(units.turn, packets);
        units.owe_ack(self.id, self.sched);
        if self.rx.take_dropped() {
            self.nack_all(units);
        }
    }

    /// An acknowledgement goes out in this turn, whatever comes in.
    pub fn insist(&mut self, units: &mut Units) {
        self.owed.insist();
        units.owe_ack(self.id, self.sched);
    }

    /// Answers a packet that has arrived before, with this PSN and META, once more. One behind the
    /// window is dropped.
    #[cold]
    #[inline(never)]
    pub fn answer_old(self, units: &mut Units, arrival: Arrival, psn: Psn, meta: Meta) {
        let kind = match arrival {
            Arrival::Duplicate => ControlKind::Duplicate { meta },
            Arrival::DuplicateAhead => ControlKind::sack(psn),
            Arrival::BeyondWindow => {
                units.counters.drop_beyond_window += 1;
                return;
            }
            Arrival::InOrder | Arrival::AtEpsn | Arrival::Ahead(_) => return,
        };
        count!(units, self, rx_duplicates);
        self.say(units, kind);
    }

    /// Makes sure that the metadata of a packet out of order, or at ePSN in Recovery, can be
    /// written, and what it needs kept, before anything is placed. If not it is dropped, and asked
    /// for again.
    pub fn reserve(&mut self, units: &mut Units, at_epsn: bool) -> bool {
        if self.policy == RecoveryPolicy::GoBackN {
            units.counters.drop_go_back_n += 1;
            self.nack_all(units);
            return false;
        }
        let has_room = units.has_metadata_room(self.id, at_epsn) && self.context.take(units, self.id);
        if !has_room {
            self.rx.note_dropped();
            self.nack_all(units);
        }
        has_room
    }

    /// A packet for which there was room is in place: tells the slow path, and the sender. True if
    /// it is the highest that arrived.
    pub fn note_placed(&mut self, units: &mut Units, psn: Psn) -> bool {
        if !self.rx.in_recovery() {
            units.counters.recoveries += 1;
            self.gap.advance = Default::default();
        }
        let is_highest = self.rx.on_placed_out_of_order(self.id, psn, |record| units.tell_slow_path(record));
        self.say(units, ControlKind::sack(psn));
        is_highest
    }

    /// An Advance of the slow path moved ePSN, and what it completes has been completed.
    pub fn note_advance(&mut self, units: &mut Units, advanced: Advanced, epsn: Psn, bitmap: u64) {
        let is_missing = advanced == Advanced::StillMissing;
        // What was dropped may itself be the hole that is waited for: it is asked for now, not when
        // Recovery ends.
        if self.rx.take_dropped() {
            self.nack_all(units);
        } else if is_missing {
            self.say(units, ControlKind::sack(self.rx.right()));
        }
        if is_missing {
            self.gap.advance = (epsn, bitmap);
        } else {
            self.close(units, self.rx.generation());
            self.insist(units);
        }
    }

    /// That episode has ended: gives the context back and lets the slow path forget it. A lost
    /// RxClose costs nothing: the next episode's first record replaces the bitmap.
    pub fn close(&mut self, units: &mut Units, generation: Generation) {
        self.give_back(units);
        units.tell_slow_path(Record::RxClose { stream: self.id, generation });
    }

    /// Outside Recovery a stream has no context.
    pub fn give_back(&mut self, units: &mut Units) {
        if !self.rx.in_recovery() {
            self.context.give_back(units, self.id);
        }
    }

    /// Ends the stream: nothing late is accepted.
    pub fn stop(&mut self, units: &mut Units) {
        let (was_in_recovery, generation) = (self.rx.in_recovery(), self.rx.generation());
        self.rx.abandon();
        self.give_back(units);
        if was_in_recovery {
            self.close(units, generation);
        }
    }

    /// NACK without SACK, once for each ePSN.
    #[inline(always)]
    pub fn nack_all(&mut self, units: &mut Units) {
        nack_all(units, (self.id, self.qpn), self.rx.epsn(), self.gap);
    }

    /// What it says goes out by itself.
    fn say(&self, units: &mut Units, kind: ControlKind) {
        units.queue_control(self.id, self.qpn, kind);
    }
}

/// Apart, so that nobody needs the whole view in memory for it.
#[cold]
#[inline(never)]
fn nack_all(units: &mut Units, (id, qpn): (StreamId, u32), epsn: Psn, gap: &mut Gap) {
    if gap.nacked_at.replace(epsn) != Some(epsn) {
        units.queue_control(id, qpn, ControlKind::NackAll);
    }
}
