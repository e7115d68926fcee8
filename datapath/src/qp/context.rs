//! The queue-pair context (QPC): what the fast path touches, in four cache lines, and the cold
//! rest.

#[cfg(test)]
mod tests;

use super::attr::{QpAttr, RecoveryPolicy};
use super::feedback::Feedback;
use super::flags::QpFlags;
use super::keepalive::Keepalive;
use super::owed::Owed;
use super::plain::Plain;
use super::receives::Receives;
use super::srnic::{Gap, Hull, NextWrite, Reads, Responses, RxRecovery};
use super::unreliable::Incoming;
use crate::counters::QpCounters;
use crate::memory::{Access, ProtectionDomainId};
use crate::prefetch;
use crate::qp_state::{QpState, QpType};
use crate::queue::{SendQueueReader, WcStatus};
use crate::sched::SchedFlags;
use crate::stream::{RxStream, SlotKind, TxRecovery, TxStream, Watchdog};
use crate::time::Time;
use crate::tuning::WQES_PER_TURN;
use cc_dctcp::Controller;
use core::mem::offset_of;
use sr_recovery::{Generation, StreamId};
use wire::{Msn, NakCode, Psn, Serial, Ssn, Template, WireMode};

/// Bytes of a QPC at most: the paper's 210, rounded up to whole cache lines.
pub const HOT_BYTES_MAX: usize = 256;

/// Who the queue pair is, and whom it talks to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpIdentity {
    pub qpn: u32,
    pub dest_qpn: u32,
    pub pd: ProtectionDomainId,
    pub pkey: u16,
    /// Path MTU in bytes.
    pub pmtu: u16,
    pub state: QpState,
    pub mode: WireMode,
    pub access: Access,
    /// The peer is a queue pair of this very engine.
    pub loopback: bool,
}

impl QpIdentity {
    /// Whose peer asks for an access: queue pair and protection domain.
    #[inline]
    pub const fn peer(&self) -> (u32, ProtectionDomainId) {
        (self.qpn, self.pd)
    }
}

/// How far the requester has come in its send queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequesterCursor {
    /// Position of the oldest request not completed.
    pub head: u32,
    /// Position of the request whose packets are being sent.
    pub next: u32,
    /// Packets of it that were sent.
    pub sent: u32,
    /// Position of message 0, as far as requests are concerned that have not begun: local ones have
    /// no number.
    pub msn_base: u32,
    /// SSN of the next request that consumes a receive.
    pub ssn: Ssn,
    pub feedback: Feedback,
}

impl RequesterCursor {
    /// Number of the next request.
    #[inline]
    pub const fn msn(&self) -> Msn {
        Msn::new(self.next.wrapping_sub(self.msn_base))
    }

    /// Goes behind the next `packets` packets of the request at `next`, which has `all`.
    #[inline]
    pub fn pass(&mut self, packets: u32, all: u32, consumes_receive: bool) {
        self.sent += packets;
        if self.sent == all {
            self.sent = 0;
            self.next = self.next.wrapping_add(1);
            if consumes_receive {
                self.ssn = self.ssn.next();
            }
        }
    }
}

/// How far the responder has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponderCursor {
    /// Messages emitted: the MSN of every AETH.
    pub completed: Serial<24>,
    /// The next receive to be consumed.
    pub ssn: Ssn,
    /// Its position in the queue pair's own receive queue.
    pub recv_head: u32,
    /// First PSN of the oldest message not emitted.
    pub message_psn: Psn,
    /// What the message in progress is; `None` between messages.
    pub in_progress: Option<SlotKind>,
    /// Acknowledgements of requests.
    pub owed: Owed,
}

impl ResponderCursor {
    /// Nothing received; the first packet will be `psn`, the first receive stands at `recv_head`.
    pub fn new(psn: Psn, recv_head: u32) -> Self {
        Self {
            completed: Serial::new(0),
            ssn: Ssn::new(0),
            recv_head,
            message_psn: psn,
            in_progress: None,
            owed: Owed::new(),
        }
    }

    /// MSN of the oldest message not emitted.
    #[inline]
    pub const fn msn(&self) -> Msn {
        Msn::new(self.completed.get())
    }

    /// So many messages have ended, the last one before `psn`.
    #[inline]
    pub const fn complete(&mut self, messages: u32, psn: Psn) {
        self.completed = self.completed.add(messages);
        self.message_psn = psn;
        self.in_progress = None;
    }
}

/// What the fast path touches of a queue pair: at most [`HOT_BYTES_MAX`] bytes. In an order by
/// which requests of our own need the first three cache lines, and those of the peer's all but the
/// second.
#[repr(C, align(64))]
pub struct Qpc {
    pub(crate) id: QpIdentity,
    /// Of the stream of requests.
    pub(crate) sched: SchedFlags,
    /// Of the streams of responses, that which is sent and that which is received.
    pub(crate) responses_sched: SchedFlags,
    pub(crate) flags: QpFlags,
    pub(crate) service: QpType,
    pub(crate) tx: TxStream,
    // Of requests of our own.
    pub(crate) req: RequesterCursor,
    pub(crate) controller: Controller,
    // Of every packet that we send.
    pub(crate) template: Template,
    /// Where requests of our own complete; here as it fits.
    pub(crate) send_cq: u32,
    // Of the peer's requests.
    pub(crate) rx: RxStream,
    pub(crate) rsp: ResponderCursor,
}

impl Qpc {
    /// Scheduling state of one of its streams.
    #[inline(always)]
    pub(crate) const fn sched_of(&mut self, stream: StreamId) -> &mut SchedFlags {
        if stream.response { &mut self.responses_sched } else { &mut self.sched }
    }

    /// Starts to fetch what requests of our own need.
    #[inline]
    pub(crate) fn prefetch_requester(&self) {
        prefetch::read_lines(core::ptr::from_ref(self).cast(), offset_of!(Self, rx));
    }

    /// Starts to fetch what requests of the peer's need.
    #[inline]
    pub(crate) fn prefetch_responder(&self) {
        prefetch::read(&self.id);
        prefetch::read_lines(
            (&raw const self.template).cast(),
            size_of::<Self>() - offset_of!(Self, template),
        );
    }
}

const _: () = assert!(size_of::<Qpc>() <= HOT_BYTES_MAX, "the hot state of a queue pair is four cache lines");
const _: () = assert!(
    offset_of!(Qpc, req) == 64 && offset_of!(Qpc, template) == 128 && offset_of!(Qpc, rx) <= 192,
    "either direction needs three of them"
);

/// What the requester must know of a message to send any packet of it again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SqEntry {
    /// PSN of its first packet.
    pub first_psn: Psn,
    /// SSN, if it consumes a receive; RSLOT, if it has a response.
    pub ssn: Ssn,
    /// Packets; none, if it is local.
    pub packets: u32,
    /// Its number.
    pub msn: Msn,
}

/// A request that will fail once all before it have completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingFailure {
    /// Position in the send queue.
    pub position: u32,
    /// Its status.
    pub status: WcStatus,
}

/// The wait that an RNR NAK asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RnrWait {
    /// When the wait ends.
    pub until: Time,
    /// `nxt` when the NAK came: everything sent before is lost.
    pub sent_until: Psn,
    /// The wait is over, `una` alone is out.
    pub probing: bool,
}

/// Attributes as [`QpAttr`] set them, for the cold paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub qp_type: QpType,
    pub attr: QpAttr,
    pub window: u16,
}

impl Attributes {
    pub const fn recovery(&self) -> RecoveryPolicy {
        self.attr.recovery
    }
}

/// What is noted of the send request that is sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// Its position in the send queue.
    pub position: u32,
    /// Packets of it that were sent again.
    pub again: u32,
    /// What the last acknowledgement that brought progress says that the peer's host took.
    pub host_delay_ns: u32,
}

/// The values that this has to spare are where `Option<QpCold>` keeps that there is none, as no
/// other field has so many: so that stands in the first cache line, which everyone has fetched.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Present {
    Yes = 1,
}

/// The rest of a queue pair. What the fast path asks of it comes first, in the order of
/// [`QpCold::RECEIVING`] and [`QpCold::SENDING`].
#[repr(C, align(64))]
pub(crate) struct QpCold {
    // Of both directions, and of requests that come in.
    pub slot: u32,
    pub recv_cq: u32,
    pub present: Present,
    /// When the peer was heard last.
    pub heard_at: Time,
    /// The error NAK that answers every request until RESET.
    pub refusal: Option<(Psn, NakCode)>,
    pub receives: Receives,
    // Of requests that go out.
    pub send_queue: SendQueueReader,
    /// By send-queue position, as many as the ring has entries.
    pub sq_entries: Box<[SqEntry]>,
    pub failure: Option<PendingFailure>,
    pub rnr: Option<RnrWait>,
    /// Our READs and atomics under way; `None` if `max_rd_atomic` is 0.
    pub reads: Option<Box<Reads>>,
    pub watchdog: Watchdog,
    // What is needed in wire mode Plain, or when something is not as it mostly is.
    /// A packet came while the state was RTR, and the program was told.
    pub was_established: bool,
    /// Packets of the other dialect that were answered in this life.
    pub other_dialect: u8,
    pub rnr_retries: u8,
    /// Number of the peer's host, if it may have a rate.
    pub host: Option<u16>,
    /// When the first of those waits began.
    pub rnr_since: Time,
    pub attributes: Attributes,
    /// Where unacknowledged WRITEs go, if the order of those that overlap counts.
    pub writes: Hull,
    pub tx_recovery: TxRecovery,
    /// What happened since it was created.
    pub counters: QpCounters,
    /// Probes that are due.
    pub probes: [Option<Psn>; 2],
    /// Bitmap-free recovery state; taken from the engine's pool while something is missing.
    pub rx_recovery: Option<RxRecovery>,
    /// What comes next of the peer's WRITE in progress.
    pub next_write: Option<NextWrite>,
    /// What is missing of the peer's requests.
    pub gap: Gap,
    /// Responses to the peer's; `None` if `max_dest_rd_atomic` is 0.
    pub responses: Option<Box<Responses>>,
    /// What a UC queue pair is receiving.
    pub incoming: Option<Box<Incoming>>,
    /// What wire mode Plain needs; `None` in the SRNIC dialect.
    pub plain: Option<Box<Plain>>,
    /// Asks an idle peer whether it is there; `None` if it need not.
    pub keepalive: Option<Box<Keepalive>>,
    /// Newest generations of both streams of responses: they survive RESET and the queue pair.
    pub response_lives: ResponseLives,
    pub watched: Watched,
}

const _: () = assert!(QpCold::RECEIVING <= 64 && QpCold::SENDING <= 192, "a cache line and three");

/// Generations of the streams of responses of a queue pair's slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResponseLives {
    /// Of the stream that is received.
    pub received: Generation,
    /// Of the stream that is sent.
    pub sent: Generation,
}

/// The entry of the request at a send-queue position, among as many as the ring has.
#[inline]
pub(crate) fn entry_of(entries: &mut [SqEntry], position: u32) -> &mut SqEntry {
    let index = position as usize & (entries.len() - 1);
    &mut entries[index]
}

impl QpCold {
    /// The stream of its requests.
    #[inline]
    pub const fn requests(&self) -> StreamId {
        StreamId { qp: self.slot, response: false }
    }

    /// The streams of responses, that which is sent and that which is received.
    #[inline]
    pub const fn of_responses(&self) -> StreamId {
        StreamId { qp: self.slot, response: true }
    }

    /// Bytes from its start that requests of the peer's need.
    pub const RECEIVING: usize = offset_of!(Self, send_queue);
    /// Bytes from its start that requests of our own need as well.
    pub const SENDING: usize = offset_of!(Self, watchdog) + Watchdog::FIRST;

    /// The entry of the request at a send-queue position.
    #[inline]
    pub fn entry(&self, position: u32) -> &SqEntry {
        &self.sq_entries[position as usize & (self.sq_entries.len() - 1)]
    }

    /// The entry of the request at a send-queue position, to write it.
    #[inline]
    pub fn entry_mut(&mut self, position: u32) -> &mut SqEntry {
        entry_of(&mut self.sq_entries, position)
    }

    /// Position of the message that `psn` belongs to, among the `count` messages from position
    /// `head` on: they are in PSN order in the send queue.
    pub fn find_message(&self, head: u32, count: u32, psn: Psn) -> Option<u32> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(head.wrapping_add(middle));
            if psn.is_before(entry.first_psn) {
                high = middle;
            } else if psn.steps_from(entry.first_psn) < entry.packets {
                return Some(head.wrapping_add(middle));
            } else {
                low = middle + 1;
            }
        }
        None
    }

    /// Starts to fetch the requests of a turn from a send-queue position on, and their entries.
    #[inline]
    pub fn prefetch_requests(&self, position: u32) {
        const {
            assert!(
                WQES_PER_TURN as usize * size_of::<SqEntry>() <= 128,
                "in three lines, if not in two, but for the ring's end"
            )
        };
        let count = self.send_queue.prefetch_wqes(position);
        let Some(last) = count.checked_sub(1) else { return };
        for ahead in [0, last / 2, last] {
            prefetch::read(self.entry(position.wrapping_add(ahead)));
        }
    }

    /// Bytes on the heap, without the shared rings.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.sq_entries)
            + self.tx_recovery.bytes()
            + self.reads.as_ref().map_or(0, |reads| reads.bytes())
            + self.responses.as_ref().map_or(0, |responses| responses.bytes())
            + self.plain.as_ref().map_or(0, |plain| plain.bytes())
            + self.keepalive.as_ref().map_or(0, |_| size_of::<Keepalive>())
    }

    /// Notes the generations that must not come back, and frees what READs and atomics, or wire
    /// mode Plain, need.
    pub fn drop_responses(&mut self) {
        self.plain = None;
        if let Some(reads) = self.reads.take() {
            self.response_lives.received = reads.rx.generation();
        }
        if let Some(responses) = self.responses.take() {
            self.response_lives.sent = responses.tx_recovery.generation();
        }
    }
}
