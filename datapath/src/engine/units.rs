//! The parts of the NIC that all queue pairs share.

use super::config::EngineConfig;
use super::control_queue::ControlQueue;
use super::event::{AsyncEvent, EventLog};
use crate::address::AddressTable;
use crate::counters::Counters;
use crate::icrc::Kernel;
use crate::memory::MemoryTable;
use crate::qp::{LastWords, Qpc, RxRecovery, Srqs};
use crate::queue::{Completion, CompletionWriter, Freed};
use crate::sched::{EventMux, SchedAttributes, SchedFlags, TimerWheel};
use crate::slow_path::CtrlQ;
use crate::stream::RxStream;
use crate::time::Time;
use crate::tuning;
use sr_recovery::Record;

/// What a queue pair's requester and responder work with.
pub(crate) struct Units {
    /// Time of this turn.
    pub now: Time,
    /// When the port was last known to have nothing: what is taken in this turn came later.
    pub drained_at: Time,
    /// Number of this turn, modulo 2^16.
    pub turn: u16,
    pub memory: MemoryTable,
    pub addresses: AddressTable,
    pub cqs: Vec<Option<CompletionWriter>>,
    pub srqs: Srqs,
    /// Queues with completions that somebody may want to be told of, each at most once.
    pub cqs_to_tell: Vec<u32>,
    pub mux: EventMux,
    pub timers: TimerWheel,
    /// Timers of keepalives, which are far off; one of `timers` stands for all of them. `None` before the first.
    keepalives: Option<Box<TimerWheel<{ tuning::KEEPALIVE_NS_LOG2 }>>>,
    /// There are more queue pairs than [`EngineConfig::crowd`].
    pub crowded: bool,
    max_qps: u32,
    /// Streams that owe an acknowledgement.
    pub ack_list: Vec<u32>,
    pub control: ControlQueue,
    /// Of queue pairs that have ended.
    pub last_words: LastWords,
    pub ctrl_q: CtrlQ,
    /// Recovery contexts that are free.
    pub contexts: Vec<RxRecovery>,
    /// Streams of responses that may still enter Recovery.
    pub response_contexts: u32,
    pub counters: Counters,
    pub events: EventLog,
}

impl Units {
    pub fn new(config: &EngineConfig, ctrl_q: CtrlQ) -> Self {
        let queue_pairs = config.max_qps as usize;
        Self {
            now: Time::ZERO,
            drained_at: Time::ZERO,
            turn: 0,
            memory: MemoryTable::new(config.max_mrs, config.key_seed),
            addresses: AddressTable::new(config.max_ahs),
            cqs: Vec::new(),
            srqs: Srqs::default(),
            cqs_to_tell: Vec::new(),
            mux: EventMux::new(&config.scheduler, 2 * queue_pairs),
            timers: TimerWheel::new(2 * queue_pairs + 1),
            keepalives: None,
            crowded: false,
            max_qps: config.max_qps,
            ack_list: Vec::with_capacity(2 * queue_pairs),
            control: ControlQueue::new(),
            last_words: LastWords::new(),
            ctrl_q,
            contexts: (0..config.recovery_contexts).map(|_| RxRecovery::new(config.sequence_max())).collect(),
            response_contexts: config.recovery_contexts,
            counters: Counters::default(),
            events: EventLog::default(),
        }
    }

    /// Nanoseconds that what was taken in this turn may have waited for it.
    #[inline]
    pub const fn waited_ns(&self) -> u64 {
        self.now.since(self.drained_at)
    }

    /// Writes a completion; false if its queue had no room, which must end the queue pair.
    #[inline]
    pub fn complete(&mut self, cq: u32, completion: &Completion) -> bool {
        let mut completions = self.completions(cq);
        let fits = completions.write(completion);
        completions.publish();
        fits
    }

    /// Shows the application the completions of a queue that [`Units::complete_later`] wrote.
    #[inline]
    pub fn show_completions(&self, cq: u32, _places: Freed) {
        if let Some(Some(writer)) = self.cqs.get(cq as usize) {
            writer.publish();
        }
    }

    /// The same as [`Units::complete`] without showing it yet.
    #[inline]
    pub fn complete_later(&mut self, cq: u32, completion: &Completion) -> bool {
        self.completions(cq).write(completion)
    }

    /// A queue to write several completions to.
    #[inline]
    pub fn completions(&mut self, cq: u32) -> Completions<'_> {
        self.for_receiving(cq).1
    }

    /// The ICRC. Nothing of a packet has had an effect before it holds, but for bytes that were placed on the way to it (docs/adr/0024).
    #[inline(always)]
    pub fn is_whole(&mut self, frame_from_l3: &[u8]) -> bool {
        let is_whole = Kernel::detected().verify(frame_from_l3);
        self.counters.drop_icrc += u64::from(!is_whole);
        is_whole
    }

    /// Memory to place what is received, a queue to write its completions to, and the shared receive queues.
    #[inline]
    pub fn for_receiving(&mut self, cq: u32) -> (&MemoryTable, Completions<'_>, &mut Srqs) {
        let writer = self.cqs.get_mut(cq as usize).and_then(Option::as_mut);
        let Self { cqs_to_tell: to_tell, counters, events, memory, srqs, .. } = self;
        (memory, Completions { cq, writer, to_tell, counters, events }, srqs)
    }

    /// Writes a record for the slow path. One that finds no room is counted; timers make up for it.
    #[inline]
    pub fn tell_slow_path(&mut self, record: Record) {
        let fits = self.ctrl_q.push(record);
        self.counters.records_lost += u64::from(!fits);
    }

    /// Whether the metadata of a packet out of order can be written; the reserved part of the ring is for the packet at
    /// ePSN. A packet that finds no room is counted as dropped.
    pub fn has_metadata_room(&mut self, at_epsn: bool) -> bool {
        let room = if at_epsn {
            self.ctrl_q.has_reserved_room(RxStream::RECORDS_MAX)
        } else {
            self.ctrl_q.has_room(RxStream::RECORDS_MAX)
        };
        self.counters.drop_metadata_full += u64::from(!room);
        room
    }

    /// Number of a queue pair's streams of responses, sent or received, in the schedule queue, the timer wheel and the
    /// lists of acknowledgements. That of its requests is its slot.
    pub const fn responses_of(&self, slot: u32) -> u32 {
        self.max_qps + slot
    }

    /// The slot whose responses have that number; `None` if it is that of requests.
    #[inline]
    pub const fn slot_of_responses(&self, stream: u32) -> Option<u32> {
        stream.checked_sub(self.max_qps)
    }

    /// Number in `timers` of what stands for all keepalives.
    #[inline]
    pub const fn timer_of_keepalives(&self) -> u32 {
        2 * self.max_qps
    }

    /// Arms the timer of a queue pair's keepalive, or moves it forward.
    pub fn arm_keepalive(&mut self, slot: u32, at: Time) {
        let slots = self.max_qps as usize;
        self.keepalives.get_or_insert_with(|| Box::new(TimerWheel::new(slots))).arm(slot, at);
        self.await_keepalives();
    }

    /// Disarms it.
    pub fn disarm_keepalive(&mut self, slot: u32) {
        if let Some(keepalives) = &mut self.keepalives {
            keepalives.disarm(slot);
        }
    }

    /// Takes a queue pair whose keepalive is due. Call [`Units::await_keepalives`] in the end.
    pub fn pop_keepalive(&mut self) -> Option<u32> {
        self.keepalives.as_mut()?.pop(self.now)
    }

    /// Those of keepalives are looked at when the first of them is due.
    pub fn await_keepalives(&mut self) {
        let next = self.keepalives.as_ref().and_then(|keepalives| keepalives.next_deadline());
        if let Some(next) = next {
            self.timers.arm(self.timer_of_keepalives(), next);
        }
    }

    /// Bytes that timers have on the heap.
    pub fn timer_bytes(&self) -> usize {
        self.timers.bytes() + self.keepalives.as_ref().map_or(0, |keepalives| keepalives.bytes())
    }

    /// Weight and priority of a queue pair's requests, and of its responses.
    pub fn set_scheduling(&mut self, slot: u32, attributes: SchedAttributes) {
        self.mux.set_attributes(slot, attributes);
        let responses = self.responses_of(slot);
        self.mux.set_attributes(responses, attributes);
    }

    /// The stream of a queue pair's responses may have become ready.
    pub fn wake_responses(&mut self, slot: u32, qpc: &mut Qpc, ready: bool) {
        let stream = self.responses_of(slot);
        self.mux.wake_responses(stream, &mut qpc.sched, ready);
    }

    /// Puts a stream of responses on the list of those that owe an acknowledgement.
    #[inline]
    pub fn owe_read_ack(&mut self, slot: u32, qpc: &mut Qpc) {
        if !qpc.sched.contains(SchedFlags::READ_ACK_LISTED) {
            qpc.sched.insert(SchedFlags::READ_ACK_LISTED);
            self.ack_list.push(self.responses_of(slot));
        }
    }

    /// Puts a queue pair on the list of those that owe an acknowledgement.
    #[inline]
    pub fn owe_ack(&mut self, slot: u32, qpc: &mut Qpc) {
        if !qpc.sched.contains(SchedFlags::ACK_LISTED) {
            qpc.sched.insert(SchedFlags::ACK_LISTED);
            self.ack_list.push(slot);
        }
    }
}

/// A completion queue, and what must be noted of what is written to it.
pub(crate) struct Completions<'a> {
    cq: u32,
    writer: Option<&'a mut CompletionWriter>,
    to_tell: &'a mut Vec<u32>,
    counters: &'a mut Counters,
    events: &'a mut EventLog,
}

impl Completions<'_> {
    /// Writes a completion, without showing it yet; false if the queue had no room, which must end the queue pair.
    #[inline(always)]
    pub fn write(&mut self, completion: &Completion) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let fits = writer.write(completion).is_ok();
        if writer.note(completion) {
            self.to_tell.push(self.cq);
        }
        if !fits {
            self.overflow(completion.qpn);
        }
        fits
    }

    /// Whether the queue has room for one more.
    #[inline(always)]
    pub fn has_room(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|writer| writer.has_room())
    }

    /// Shows the application what was written of requests whose places are free.
    #[inline]
    pub fn show(&self, _places: Freed) {
        self.publish();
    }

    /// Shows the application what was written.
    #[inline]
    fn publish(&self) {
        if let Some(writer) = &self.writer {
            writer.publish();
        }
    }

    #[cold]
    #[inline(never)]
    fn overflow(&mut self, qpn: u32) {
        self.counters.drop_cq_overflow += 1;
        self.events.push(AsyncEvent::CqOverrun { cq: self.cq, qpn });
    }
}
