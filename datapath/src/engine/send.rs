//! A packet's way out: the schedule queue's round, then the acknowledgements, in one transmit
//! batch.

use super::{AckTiming, Engine};
use crate::port::Port;
use crate::qp::{self, ControlKind, ControlPacket, Grant, NotSent, Qp, TransmitEnd, TxSlots, Units};
use crate::qp_state::QpType;
use crate::sched::{SchedFlags, Scheduled, Tenants, Usage};
use crate::tuning;
use sr_recovery::StreamId;

/// Which acknowledgements may wait.
#[derive(Clone, Copy)]
struct Waits {
    /// Those that were asked for, for a post.
    asked: bool,
    /// Those that were not, for the time since the last.
    spaced: bool,
}

impl<P: Port> Engine<P> {
    /// Fills the transmit batch: data first, acknowledgements in the same batch behind them. Where
    /// the port had no slot last time, acknowledgements go first, or both directions could starve
    /// behind each other's data. What was asked for in this turn may wait for the next, if few
    /// frames came. Returns the number of frames.
    pub(super) fn send(&mut self, few: bool) -> usize {
        self.make_up_for_a_full_port();
        self.schedule(None);
        let asked = few && self.core.config.acks == AckTiming::BehindPosts;
        self.send_acks(Waits { asked, ..self.waits() });
        self.send_neighbor();
        self.wire.take_sent()
    }

    /// Sends what is scheduled, and only then builds the acknowledgements. Whoever posts to the
    /// queue pair `handed` waits meanwhile.
    pub(super) fn send_before_acks(&mut self, handed: Option<u32>) -> usize {
        self.make_up_for_a_full_port();
        self.schedule(handed);
        self.wire.port.tx_flush();
        self.send_acks(self.waits());
        self.wire.take_sent()
    }

    fn make_up_for_a_full_port(&mut self) {
        if core::mem::take(&mut self.port_was_full) {
            self.send_acks(self.waits());
        }
    }

    /// The acknowledgements of streams that are silent; `all`: also those that wait for the time
    /// since the last.
    pub(super) fn send_held_acks(&mut self, all: bool) -> usize {
        self.send_acks(Waits { spaced: !all && self.core.spaces_acks(), asked: false });
        self.wire.take_sent()
    }

    /// What may wait in any turn: nothing for a post, and what nobody asked for if acknowledgements
    /// are spaced.
    fn waits(&self) -> Waits {
        Waits { asked: false, spaced: self.core.spaces_acks() }
    }

    #[inline]
    fn send_acks(&mut self, waits: Waits) {
        if !self.core.units.control.is_empty() {
            self.send_control();
        }
        if !self.core.units.ack_list.is_empty() {
            self.send_owed_acks(waits);
        }
    }

    /// Turns of ready queue pairs until the batch is full, nobody is ready, or the port has no
    /// slot.
    fn schedule(&mut self, handed: Option<u32>) {
        if self.core.units.has_governors && self.is_held_short(handed) {
            return;
        }
        let mut batch = tuning::TX_BATCH;
        // As many grants as packets at most: one that finds nothing to send after all uses none.
        for _ in 0..tuning::TX_BATCH {
            let Some(turn) = self.next_turn(batch) else { break };
            if !self.serve_stream(turn, handed, &mut batch) {
                break;
            }
        }
    }

    /// Whose turn it is, if there is room left for it in the batch.
    #[inline(always)]
    fn next_turn(&mut self, batch: usize) -> Option<Scheduled> {
        if batch == 0 {
            return None;
        }
        let turn = self.core.units.mux.next_ready(self.core.units.now)?;
        if self.core.units.crowded {
            self.core.prefetch_turns();
        }
        Some(turn)
    }

    /// Of an engine with rates of hosts, or with tenants: those keep the ring of a port short that
    /// knows what is in it. True if it has less room than a batch, and the turns are over.
    #[inline(never)]
    fn is_held_short(&mut self, handed: Option<u32>) -> bool {
        if self.core.units.hosts.is_some() {
            self.core.open_hosts();
        }
        let units = &mut self.core.units;
        let (Some(tenants), Some(ahead)) = (units.mux.tenants_mut(), self.wire.port.tx_ahead()) else {
            return false;
        };
        let room = tenants.ring_room(ahead, units.now);
        if room == tuning::TX_BATCH {
            return false;
        }
        self.schedule_short(handed, room);
        true
    }

    /// As [`Engine::schedule`], with so much room in the port's ring. Who sends to this device
    /// itself needs none; who finds none is the next of its tenant, and the others are looked at.
    fn schedule_short(&mut self, handed: Option<u32>, mut room: usize) {
        let (mut batch, mut blocked) = (tuning::TX_BATCH, 0);
        let tenants = self.core.units.mux.tenants().map_or(0, Tenants::listed);
        for _ in 0..tuning::TX_BATCH {
            let Some(turn) = self.next_turn(batch) else { break };
            let stream = self.core.units.stream_of(turn.slot);
            let loopback = self.core.qps.hot(stream.qp).id.loopback;
            if !loopback && room == 0 {
                let flags = self.core.qps.hot(stream.qp).sched_of(stream);
                flags.remove(SchedFlags::QUEUED);
                self.core.units.mux.resume(turn.slot, flags, Usage::default());
                blocked += 1;
                if blocked >= tenants {
                    break;
                }
                continue;
            }
            let given = if loopback { batch } else { room.min(batch) };
            let mut left = given;
            if !self.serve_stream(turn, handed, &mut left) {
                break;
            }
            batch -= given - left;
            if !loopback {
                room -= given - left;
            }
        }
        if blocked > 0 {
            self.hold_back();
        }
    }

    /// A turn had more to send than the ring's bound left.
    fn hold_back(&mut self) {
        self.core.units.counters.tx_ring_bounded += 1;
        if let Some(tenants) = self.core.units.mux.tenants_mut() {
            tenants.hold_back();
        }
        self.port_was_full = true;
    }

    /// The turn of one stream. False if the port has no slot.
    #[inline(always)]
    fn serve_stream(&mut self, turn: Scheduled, handed: Option<u32>, batch: &mut usize) -> bool {
        let stream = self.core.units.stream_of(turn.slot);
        let flags = self.core.qps.hot(stream.qp).sched_of(stream);
        if flags.intersects(SchedFlags::GOVERNED) {
            return self.serve_governed(turn, handed, batch);
        }
        flags.remove(SchedFlags::QUEUED);
        self.serve(turn, handed, batch).0
    }

    /// As [`Engine::serve_stream`], of one that may be paused, or whose peer's host may have a
    /// rate.
    #[cold]
    #[inline(never)]
    fn serve_governed(&mut self, mut turn: Scheduled, handed: Option<u32>, batch: &mut usize) -> bool {
        let stream = self.core.units.stream_of(turn.slot);
        if !self.core.takes_turn(stream, &mut turn) {
            return true;
        }
        self.core.qps.hot(stream.qp).sched_of(stream).remove(SchedFlags::QUEUED);
        let (has_room, usage) = self.serve(turn, handed, batch);
        self.core.charge_turn(stream, &usage);
        has_room
    }

    /// The turn of a stream that takes it. False if the port has no slot; and what it sent.
    #[inline(always)]
    fn serve(&mut self, turn: Scheduled, handed: Option<u32>, batch: &mut usize) -> (bool, Usage) {
        let stream = self.core.units.stream_of(turn.slot);
        let slot = stream.qp;
        let Some(mut qp) = self.core.qps.get(slot) else { return (true, Usage::default()) };
        self.core.units.counters.sched_grants += 1;
        let packets = tuning::PACKETS_PER_TURN.min(*batch);
        let wqes = tuning::WQES_PER_TURN;
        let mut grant = Grant { wqes, bytes: turn.bytes, packets, reads: 0, atomics: 0 };
        let (units, wire) = (&mut self.core.units, &mut self.wire);
        let end = match (stream.response, qp.hot.service) {
            (true, _) => qp::transmit_responses(qp.reborrow(), units, wire, &mut grant),
            (false, QpType::Rc) => qp::transmit(qp.reborrow(), units, wire, &mut grant),
            (false, _) => qp::transmit_unreliable(&mut qp, units, wire, &mut grant),
        };
        let usage = Usage {
            bytes: turn.bytes - grant.bytes,
            packets: packets - grant.packets,
            operations: wqes.saturating_sub(grant.wqes),
            reads: grant.reads,
            atomics: grant.atomics,
        };
        *batch -= usage.packets;
        let TransmitEnd::Done { ready } = end else {
            self.core.units.counters.tx_ring_full += 1;
            self.port_was_full = true;
            self.core.units.mux.resume(turn.slot, qp.hot.sched_of(stream), usage);
            return (false, usage);
        };
        self.core.units.mux.settle(turn.slot, qp.hot.sched_of(stream), usage, ready);
        if !ready && !stream.response {
            if handed == Some(slot) {
                qp::become_idle(&mut qp);
            } else {
                self.core.note_idle(slot);
            }
        }
        (true, usage)
    }

    /// Acknowledgements that go out one by one.
    fn send_control(&mut self) {
        for _ in 0..tuning::ACK_BATCH {
            let Some(packet) = self.core.units.control.pop() else { break };
            if !self.send_ack(&packet) {
                self.core.units.control.push_front(packet);
                break;
            }
        }
    }

    /// Acknowledgements of packets in order: those that are due, and those of streams that fell
    /// silent.
    fn send_owed_acks(&mut self, waits: Waits) {
        let mut kept = 0;
        self.core.holds_acks = false;
        for index in 0..self.core.units.ack_list.len() {
            let slot = self.core.units.ack_list[index];
            if !self.settle_ack(slot, waits) {
                self.core.units.ack_list[kept] = slot;
                kept += 1;
            }
        }
        self.core.units.ack_list.truncate(kept);
    }

    /// True if the stream of that number owes nothing any more.
    #[inline]
    fn settle_ack(&mut self, number: u32, waits: Waits) -> bool {
        match self.core.units.stream_of(number) {
            StreamId { qp, response: false } => self.settle_ack_of(StreamId { qp, response: false }, waits),
            stream => self.settle_read_ack(stream, waits),
        }
    }

    #[inline(never)]
    fn settle_read_ack(&mut self, stream: StreamId, waits: Waits) -> bool {
        self.settle_ack_of(stream, waits)
    }

    /// Compiled twice, so that acknowledgements of requests do not ask what they are of. Only those
    /// wait for a post.
    #[inline(always)]
    fn settle_ack_of(&mut self, stream: StreamId, waits: Waits) -> bool {
        let Some(mut qp) = self.core.qps.get(stream.qp) else {
            self.core.qps.hot(stream.qp).sched_of(stream).remove(SchedFlags::ACK_LISTED);
            return true;
        };
        if let Some(owed) = qp.owed_of(stream)
            && owed.is_owed()
        {
            if owed.may_wait(self.core.units.turn, self.core.units.now, waits.spaced) {
                return false;
            }
            if waits.asked && !stream.response && owed.hold() {
                self.core.holds_acks = true;
                return false;
            }
            if !acknowledge(qp.reborrow(), &mut self.core.units, &mut self.wire, stream, None) {
                self.port_was_full = true;
                return false;
            }
        }
        qp.hot.sched_of(stream).remove(SchedFlags::ACK_LISTED);
        true
    }

    /// Sends one acknowledgement. False if the port has no slot.
    fn send_ack(&mut self, packet: &ControlPacket) -> bool {
        let ControlPacket { stream, qpn, kind } = *packet;
        if kind == ControlKind::LastWord {
            return self.send_last_word(qpn);
        }
        let Some(mut qp) = self.core.qps.get(stream.qp) else { return true };
        if qpn != qp.hot.id.qpn {
            return true;
        }
        let sent = acknowledge(qp.reborrow(), &mut self.core.units, &mut self.wire, stream, Some(kind));
        self.port_was_full |= !sent;
        sent
    }

    /// Acknowledges once more what a queue pair has received that has ended. False if the port has
    /// no slot.
    #[cold]
    fn send_last_word(&mut self, qpn: u32) -> bool {
        let Some(word) = self.core.units.last_words.get_mut(qpn) else { return true };
        let loopback = word.loopback;
        match self.wire.emit(loopback, |frame| word.write(frame).ok_or(())) {
            Ok(()) => {
                self.core.units.counters.tx_acks += 1;
                self.core.units.counters.tx_last_acks += 1;
            }
            Err(NotSent::Failed(())) => {}
            Err(NotSent::PortFull) => {
                self.port_was_full = true;
                return false;
            }
        }
        true
    }

    /// ARP and ICMP.
    fn send_neighbor(&mut self) {
        let now = self.core.units.now;
        while self.core.neighbor.has_output()
            || self.core.neighbor.next_deadline().is_some_and(|due| due <= now)
        {
            let neighbor = &mut self.core.neighbor;
            if self.wire.emit(false, |frame| neighbor.poll_transmit(now, frame).ok_or(())).is_err() {
                break;
            }
            self.core.units.counters.tx_neighbor += 1;
        }
    }
}

/// Sends one acknowledgement, if the queue pair gives answers. False if the port has no slot.
#[inline(never)]
fn acknowledge(
    mut qp: Qp<'_>,
    units: &mut Units,
    wire: &mut impl TxSlots,
    stream: StreamId,
    kind: Option<ControlKind>,
) -> bool {
    if !qp.hot.id.state.receives() && (stream.response || qp.cold.refusal.is_none()) {
        if let Some(owed) = qp.owed_of(stream) {
            owed.settle(units.now);
        }
        return true;
    }
    let loopback = qp.hot.id.loopback;
    let Qp { hot, cold } = qp;
    let emitted = wire
        .emit(loopback, |frame| qp::write_ack(&mut Qp { hot, cold }, units, stream, kind, frame).ok_or(()));
    !matches!(emitted, Err(NotSent::PortFull))
}
