//! The parts of the NIC that all queue pairs share.

use super::control_queue::{ControlKind, ControlPacket, ControlQueue};
use super::shares::Shares;
use crate::address::AddressTable;
use crate::config::EngineConfig;
use crate::counters::Counters;
use crate::event::{AsyncEvent, EventLog};
use crate::groups::Groups;
use crate::memory::MemoryTable;
use crate::qp::{LastWords, Qpc, RxRecovery, Srqs};
use crate::queue::{Completion, CompletionWriter, Freed, Numbered};
use crate::sched::{EventMux, Hosts, SchedAttributes, SchedFlags, TenantId, Tenants, TimerWheel};
use crate::slow_path::CtrlQ;
use crate::stream::RxStream;
use crate::time::Time;
use crate::tuning;
use icrc::Kernel;
use sr_recovery::{Record, StreamId};

bitflags::bitflags! {
    /// Why the frames of a burst are looked at before the first is handled.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Ahead: u8 {
        /// There are many queue pairs: what each needs is fetched.
        const CROWD = 1;
        /// This host falls behind: what comes is marked.
        const MARKS = 2;
        /// A tenant has a cap for what its peers send.
        const CAPS = 4;
    }
}

/// What a queue pair's requester and responder work with.
pub(crate) struct Units {
    /// Time of this turn.
    pub now: Time,
    /// When the port was last found empty: what a turn takes came later. Zero: no turn was.
    pub drained_at: Time,
    /// Number of this turn, modulo 2^16.
    pub turn: u16,
    pub memory: MemoryTable,
    pub addresses: AddressTable,
    pub groups: Groups,
    pub cqs: Numbered<CompletionWriter>,
    pub srqs: Srqs,
    /// Queues with completions that somebody may want to be told of, each at most once.
    pub cqs_to_tell: Vec<u32>,
    pub mux: EventMux,
    /// Hosts that are sent to at a rate, if hosts may have one.
    pub hosts: Option<Box<Hosts>>,
    pub timers: TimerWheel,
    /// Timers of keepalives, which are far off; one of `timers` stands for all of them. `None`
    /// before the first.
    keepalives: Option<Box<TimerWheel<{ tuning::KEEPALIVE_NS_LOG2 }>>>,
    /// There are tenants, or rates of hosts.
    pub has_governors: bool,
    /// There are more queue pairs than [`EngineConfig::crowd`].
    pub crowded: bool,
    /// Why frames are looked at before they are handled.
    pub ahead: Ahead,
    /// [`EngineConfig::host_marks_ns`].
    pub host_marks_ns: u32,
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
    /// What tenants have of both, and of the slow path's records, if there are tenants.
    shares: Option<Box<Shares>>,
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
            groups: Groups::new(config.engine.count() > 1),
            cqs: Numbered::default(),
            srqs: Srqs::default(),
            cqs_to_tell: Vec::new(),
            mux: EventMux::new(&config.scheduler, 2 * queue_pairs),
            hosts: config.host_rates.map(|rates| Box::new(Hosts::new(rates, 2 * queue_pairs))),
            timers: TimerWheel::new(2 * queue_pairs + 1),
            keepalives: None,
            has_governors: config.host_rates.is_some(),
            crowded: false,
            ahead: Ahead::empty(),
            host_marks_ns: config.host_marks_ns,
            max_qps: config.max_qps,
            ack_list: Vec::with_capacity(2 * queue_pairs),
            control: ControlQueue::new(),
            last_words: LastWords::new(),
            ctrl_q,
            contexts: (0..config.recovery_contexts).map(|_| RxRecovery::new(config.sequence_max())).collect(),
            response_contexts: config.recovery_contexts,
            shares: None,
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

    /// A queue to write several completions to.
    #[inline]
    pub fn completions(&mut self, cq: u32) -> Completions<'_> {
        self.for_receiving(cq).1
    }

    /// The ICRC. Nothing of a packet has had an effect before it holds, but for bytes that were
    /// placed on the way to it (docs/adr/0024).
    #[inline(always)]
    pub fn is_whole(&mut self, frame_from_l3: &[u8]) -> bool {
        let is_whole = Kernel::detected().verify(frame_from_l3);
        self.counters.drop_icrc += u64::from(!is_whole);
        is_whole
    }

    /// Memory to place what is received, a queue to write its completions to, and the shared
    /// receive queues.
    #[inline]
    pub fn for_receiving(&mut self, cq: u32) -> (&MemoryTable, Completions<'_>, &mut Srqs) {
        let Self { cqs, cqs_to_tell: to_tell, counters, events, memory, srqs, .. } = self;
        (memory, Completions { cq, writer: cqs.get_mut(cq), to_tell, counters, events }, srqs)
    }

    /// Writes a record for the slow path, if there is one. One that finds no room is counted;
    /// timers make up for it.
    #[inline]
    pub fn tell_slow_path(&mut self, record: impl Into<Option<Record>>) {
        if let Some(record) = record.into() {
            let fits = self.ctrl_q.push(record);
            self.counters.records_lost += u64::from(!fits);
            if let Some(shares) = self.shares.as_mut().filter(|_| fits) {
                shares.note_record(owner_of(&self.mux, record.stream()));
            }
        }
    }

    /// Whether the metadata of a packet out of order of that stream can be written; the reserved
    /// part of the ring is for the packet at ePSN. A packet that finds no room is counted as
    /// dropped.
    pub fn has_metadata_room(&mut self, stream: StreamId, at_epsn: bool) -> bool {
        if !at_epsn && !self.has_record_share(stream) {
            return false;
        }
        let room = if at_epsn {
            self.ctrl_q.has_reserved_room(RxStream::RECORDS_MAX)
        } else {
            self.ctrl_q.has_room(RxStream::RECORDS_MAX)
        };
        self.counters.drop_metadata_full += u64::from(!room);
        if self.host_marks_ns > 0 && self.ctrl_q.is_behind() {
            self.ahead.insert(Ahead::MARKS);
        }
        room
    }

    /// Number of a stream in the schedule queue, the timer wheel and the lists of acknowledgements.
    /// That of a queue pair's requests is its slot.
    #[inline]
    pub const fn number_of(&self, stream: StreamId) -> u32 {
        if stream.response { self.max_qps + stream.qp } else { stream.qp }
    }

    /// The stream that has that number.
    #[inline]
    pub const fn stream_of(&self, number: u32) -> StreamId {
        match number.checked_sub(self.max_qps) {
            Some(qp) => StreamId { qp, response: true },
            None => StreamId { qp: number, response: false },
        }
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
        for response in [false, true] {
            self.mux.set_attributes(self.number_of(StreamId { qp: slot, response }), attributes);
        }
    }

    /// Gives both streams of a queue pair to a tenant.
    pub fn assign(&mut self, slot: u32, tenant: TenantId) {
        let responses = self.number_of(StreamId { qp: slot, response: true });
        if let Some(tenants) = self.mux.tenants_mut() {
            tenants.assign(slot, tenant);
            tenants.assign(responses, tenant);
        }
    }

    /// What peers send is counted by tenant while one of them has a cap for it.
    pub fn note_inbound_caps(&mut self) {
        let caps = self.mux.tenants().is_some_and(Tenants::caps_arrivals);
        self.ahead.set(Ahead::CAPS, caps);
    }

    /// The tenant of a queue pair.
    pub fn tenant_of(&self, slot: u32) -> TenantId {
        owner_of(&self.mux, StreamId { qp: slot, response: false })
    }

    /// From now on recovery is shared among tenants; `contexts` is how many there are, of requests
    /// and of responses each.
    pub fn begin_shares(&mut self, contexts: u32) {
        if self.shares.is_none() {
            let free = u32::try_from(self.contexts.len()).unwrap_or(contexts);
            let held = [free, self.response_contexts].map(|free| contexts.saturating_sub(free));
            self.shares = Some(Box::new(Shares::new(held, self.ctrl_q.capacity())));
        }
    }

    /// Takes a recovery context for a stream, which has none; `None`: none is free, or those that
    /// are left are for other tenants. Of responses they are only counted, and what is returned is
    /// none.
    pub fn take_context(&mut self, stream: StreamId) -> Option<Option<RxRecovery>> {
        let free = match stream.response {
            false => u32::try_from(self.contexts.len()).unwrap_or(u32::MAX),
            true => self.response_contexts,
        };
        if free == 0 {
            self.counters.drop_no_context += 1;
            return None;
        }
        if let Some(shares) = &mut self.shares {
            let tenant = owner_of(&self.mux, stream);
            if !shares.may_take_context(tenant, stream.response, free) {
                self.note_share_drop(stream);
                return None;
            }
            shares.take_context(tenant, stream.response);
        }
        if stream.response {
            self.response_contexts -= 1;
            return Some(None);
        }
        self.contexts.pop().map(Some)
    }

    /// Gives a context back that [`Units::take_context`] gave.
    pub fn give_back_context(&mut self, stream: StreamId, context: Option<RxRecovery>) {
        match context {
            Some(context) => self.contexts.push(context.emptied()),
            None => self.response_contexts += 1,
        }
        if let Some(shares) = &mut self.shares {
            shares.give_back_context(owner_of(&self.mux, stream), stream.response);
        }
    }

    /// Whether a stream's tenant may write the records of one more packet out of order.
    fn has_record_share(&mut self, stream: StreamId) -> bool {
        let Some(shares) = &mut self.shares else { return true };
        let waiting = self.ctrl_q.waiting();
        let free = u32::try_from(self.ctrl_q.capacity() - waiting).unwrap_or(u32::MAX);
        let count = u32::try_from(RxStream::RECORDS_MAX).unwrap_or(u32::MAX);
        let may = shares.may_write(owner_of(&self.mux, stream), count, waiting, free);
        if !may {
            self.note_share_drop(stream);
        }
        may
    }

    /// A peer refused what a queue pair had sent, which its tenant pays for.
    pub fn charge_refusal(&mut self, slot: u32) {
        let now = self.now;
        if let Some(tenants) = self.mux.tenants_mut() {
            tenants.charge_refusal(slot, now);
        }
    }

    fn note_share_drop(&mut self, stream: StreamId) {
        self.counters.drop_tenant_share += 1;
        if let Some(tenants) = self.mux.tenants_mut() {
            tenants.note_share_drop(stream.qp);
        }
    }

    /// A stream of a queue pair may have become ready.
    #[inline]
    pub fn wake(&mut self, stream: StreamId, qpc: &mut Qpc, ready: bool) {
        let number = self.number_of(stream);
        self.mux.wake(number, qpc.sched_of(stream), ready);
    }

    /// Puts a stream on the list of those that owe an acknowledgement.
    #[inline(always)]
    pub fn owe_ack(&mut self, stream: StreamId, sched: &mut SchedFlags) {
        if !sched.contains(SchedFlags::ACK_LISTED) {
            sched.insert(SchedFlags::ACK_LISTED);
            self.ack_list.push(self.number_of(stream));
        }
    }

    /// Queues an acknowledgement of a stream's that goes out by itself. One that finds no room is
    /// counted, as a lossy network might have taken it.
    #[inline(never)]
    pub fn queue_control(&mut self, stream: StreamId, qpn: u32, kind: ControlKind) {
        let fits = self.control.push(ControlPacket { stream, qpn, kind });
        self.counters.tx_acks_dropped += u64::from(!fits);
    }
}

/// The tenant of a stream's queue pair.
fn owner_of(mux: &EventMux, stream: StreamId) -> TenantId {
    mux.tenants().map(|tenants| tenants.owner_of(stream.qp)).unwrap_or_default()
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
    /// Writes a completion, without showing it yet; false if the queue had no room, which must end
    /// the queue pair.
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
