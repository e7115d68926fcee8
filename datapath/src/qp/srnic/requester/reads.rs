//! The READs and atomics of a send queue: which responses they wait for, and the stream that brings
//! them.

use crate::config::WINDOW_LIMIT;
use crate::qp::attr::QpAttr;
use crate::qp::owed::Owed;
use crate::qp::requester::response_packets;
use crate::qp::srnic::Gap;
use crate::qp::srnic::responder::RESPONSE_SPAN_MAX;
use crate::qp::{Qp, QpCold, QpFlags, SqEntry};
use crate::queue::SendFlags;
use crate::stream::{RxStream, Watchdog, WatchdogConfig};
use crate::time::Time;
use sr_recovery::Generation;
use wire::{Psn, Ssn};

/// The response that a request waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    /// Position of the request in the send queue.
    pub position: u32,
    /// First PSN of the response.
    pub start: Psn,
    /// Its packets; 0: no request waits.
    pub packets: u32,
}

/// READs and atomics under way, and the stream of their responses. There is one if `max_rd_atomic`
/// is not 0.
pub(crate) struct Reads {
    pub rx: RxStream,
    /// READ-ACKs.
    pub owed: Owed,
    /// Of responses that do not come although all requests are acknowledged.
    pub watchdog: Watchdog,
    /// When a response came last.
    pub progress_at: Time,
    /// The oldest request is to be sent again, so that its response comes.
    pub ask_again: bool,
    pub gap: Gap,
    /// Counted among the response streams in Recovery.
    pub holds_context: bool,
    /// By RSLOT.
    expected: Box<[Expected]>,
    /// As many as can never be counted: slots are numbers modulo how many there are, which need not
    /// be a power of two.
    begun: u64,
    completed: u64,
    /// First PSN of the next response.
    next_psn: Psn,
}

impl Reads {
    /// Nothing asked for. The first response has our own first PSN.
    pub fn new(attr: &QpAttr, window: u16, watchdog: WatchdogConfig, generation: Generation) -> Self {
        let psn = Psn::new(attr.sq_psn);
        Self {
            rx: RxStream::new(psn, window, generation),
            owed: Owed::new(),
            watchdog: Watchdog::new(watchdog),
            progress_at: Time::ZERO,
            ask_again: false,
            gap: Gap::default(),
            holds_context: false,
            expected: vec![Expected::default(); usize::from(attr.max_rd_atomic)].into(),
            begun: 0,
            completed: 0,
            next_psn: psn,
        }
    }

    /// Requests under way.
    #[expect(clippy::cast_possible_truncation, reason = "255 at most")]
    pub const fn under_way(&self) -> u32 {
        (self.begun - self.completed) as u32
    }

    /// Whether another request may begin whose response has that many packets. The peer may not
    /// know yet of a window's worth that has arrived.
    fn has_room(&self, packets: u32) -> bool {
        let span = self.next_psn.steps_from(self.rx.epsn()) + packets;
        (self.under_way() as usize) < self.expected.len()
            && (span <= RESPONSE_SPAN_MAX - u32::from(WINDOW_LIMIT) || self.under_way() == 0)
    }

    /// So many may be under way from now on; none is.
    pub fn resize(&mut self, slots: u8) {
        if usize::from(slots) != self.expected.len() {
            self.expected = vec![Expected::default(); slots.into()].into();
        }
    }

    /// RSLOTs are used in turn: requests complete in order, so the oldest slot is free first.
    #[expect(clippy::cast_possible_truncation, reason = "below 255")]
    fn slot_of(&self, number: u64) -> usize {
        (number % self.expected.len() as u64) as usize
    }

    /// Gives a request its slot and its first rPSN.
    fn begin(&mut self, position: u32, packets: u32) {
        let (slot, start) = (self.slot_of(self.begun), self.next_psn);
        self.expected[slot] = Expected { position, start, packets };
        self.begun += 1;
        self.next_psn = start.add(packets);
    }

    /// Slot of the request at `position`, if it is the newest that has one. One that found no
    /// transmit slot has it already when its turn comes again.
    fn newest(&self, position: u32) -> Option<Ssn> {
        if self.under_way() == 0 {
            return None;
        }
        let slot = self.slot_of(self.begun - 1);
        let expected = &self.expected[slot];
        (expected.position == position).then_some(Ssn::new(u32::try_from(slot).ok()?))
    }

    /// What waits in `rslot`.
    pub(super) fn expected(&self, rslot: u32) -> Option<&Expected> {
        self.expected.get(rslot as usize).filter(|expected| expected.packets > 0)
    }

    /// Whether the whole response in a slot under way is here.
    pub(super) fn is_answered(&self, rslot: Ssn) -> bool {
        self.expected(rslot.get())
            .is_some_and(|expected| !self.rx.epsn().is_before(expected.start.add(expected.packets)))
    }

    /// The oldest request under way has completed.
    fn complete_oldest(&mut self) {
        let slot = self.slot_of(self.completed);
        self.expected[slot].packets = 0;
        self.completed += 1;
    }

    /// Bytes on the heap, its own included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.expected)
    }
}

/// Whether a request that minds READs and atomics may begin.
pub(super) enum ReadStart {
    /// It may; a READ or atomic has this entry, but for its PSN.
    Begin(SqEntry),
    /// Not before one of them completes.
    Wait,
    /// Never: the queue pair has no READs.
    Never,
}

/// Decides about a READ, an atomic, or a fenced request at the front of the queue; `entry` is what
/// it would have without responses.
#[cold]
pub(super) fn start_read(qp: &mut Qp<'_>, entry: SqEntry) -> ReadStart {
    let wqe = qp.cold.send_queue.wqe(qp.hot.req.next);
    let (fenced, asks) = (wqe.flags.contains(SendFlags::FENCE), wqe.opcode.has_response());
    let (position, packets) = (qp.hot.req.next, response_packets(qp.hot, &wqe));
    let Some(reads) = qp.cold.reads.as_deref_mut().filter(|reads| !reads.expected.is_empty()) else {
        return if asks { ReadStart::Never } else { ReadStart::Begin(entry) };
    };
    if reads.newest(position).is_none() {
        if (fenced && reads.under_way() > 0) || (asks && !reads.has_room(packets)) {
            return ReadStart::Wait;
        }
        if asks {
            reads.begin(position, packets);
        }
    }
    match reads.newest(position) {
        Some(rslot) => ReadStart::Begin(SqEntry { ssn: rslot, packets: 1, ..entry }),
        None => ReadStart::Begin(entry),
    }
}

/// Whether the response of the oldest request under way is here; it is then complete, and others
/// may begin.
#[cold]
pub(in crate::qp) fn take_answer(reads: &mut Option<Box<Reads>>, rslot: Ssn, flags: &mut QpFlags) -> bool {
    let Some(reads) = reads.as_deref_mut().filter(|reads| reads.is_answered(rslot)) else { return false };
    reads.complete_oldest();
    flags.remove(QpFlags::READ_WAIT);
    true
}

/// First PSN of the response to a request that has begun, if it has one.
pub(super) fn rpsn_start(cold: &QpCold, entry: &SqEntry) -> Psn {
    let expected = cold.reads.as_deref().and_then(|reads| reads.expected(entry.ssn.get()));
    expected.map_or(Psn::new(0), |expected| expected.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::RtoConfig;

    /// READs are counted modulo 2^32, and slots modulo how many there are, which need not be a
    /// power of two: where the count comes round, two READs under way may have one slot.
    #[test]
    fn each_read_under_way_has_a_slot_of_its_own_where_their_count_comes_round() {
        for slots in 1..=255 {
            let attr = QpAttr { max_rd_atomic: slots, ..QpAttr::default() };
            let watchdog = WatchdogConfig { timeout: 14, retry_cnt: 7, rto: RtoConfig::default() };
            let mut reads = Reads::new(&attr, 512, watchdog, 0);
            for before in 0..u32::from(slots) {
                // So many are complete, all that came before.
                reads.begun = (1 << 32) - u64::from(before);
                reads.completed = reads.begun;
                let taken: std::collections::BTreeSet<_> = (0..u32::from(slots))
                    .map(|position| {
                        reads.begin(position, 1);
                        reads.newest(position).expect("it is the newest").get()
                    })
                    .collect();
                assert_eq!(taken.len(), usize::from(slots), "of {slots} slots, {before} before 2^32");
            }
        }
    }
}
