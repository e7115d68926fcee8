//! A packet's way out: the schedule queue's round, then the acknowledgements, in one transmit batch.

use super::{AckTiming, ControlKind, ControlPacket, Engine, NotSent, TxSlots, Units};
use crate::port::Port;
use crate::qp::state::QpType;
use crate::qp::{self, Grant, QpCold, Qpc, TransmitEnd};
use crate::sched::{SchedFlags, Turn, Usage};
use crate::tuning;

/// Which acknowledgements may wait.
#[derive(Clone, Copy)]
struct Waits {
    /// Those that were asked for, for a post.
    asked: bool,
    /// Those that were not, for the time since the last.
    spaced: bool,
}

impl<P: Port> Engine<P> {
    /// Fills the transmit batch: data first, acknowledgements in the same batch behind them. Where the port had no slot
    /// last time, acknowledgements go first, or both directions could starve behind each other's data. What was asked for
    /// in this turn may wait for the next, if few frames came. Returns the number of frames.
    pub(super) fn send(&mut self, few: bool) -> usize {
        self.make_up_for_a_full_port();
        self.schedule(None);
        let asked = few && self.config.acks == AckTiming::BehindPosts;
        self.send_acks(Waits { asked, ..self.waits() });
        self.send_neighbor();
        self.wire.take_sent()
    }

    /// The same, but what is scheduled is on its way before the acknowledgements behind it are built. Whoever posts to the
    /// queue pair `handed` waits meanwhile.
    pub(super) fn send_ahead(&mut self, handed: Option<u32>) -> usize {
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

    /// All acknowledgements that do not wait for the time since the last.
    pub(super) fn send_held_acks(&mut self) -> usize {
        self.send_acks(self.waits());
        self.wire.take_sent()
    }

    /// The acknowledgements of streams that are silent, whatever else they wait for.
    pub(super) fn send_every_ack(&mut self) -> usize {
        self.send_acks(Waits { asked: false, spaced: false });
        self.wire.take_sent()
    }

    /// What may wait in any turn: nothing for a post, and what nobody asked for if acknowledgements are spaced.
    fn waits(&self) -> Waits {
        Waits { asked: false, spaced: self.spaces_acks() }
    }

    #[inline]
    fn send_acks(&mut self, waits: Waits) {
        if !self.units.control.is_empty() {
            self.send_control();
        }
        if !self.units.ack_list.is_empty() {
            self.send_owed_acks(waits);
        }
    }

    /// Turns of ready queue pairs until the batch is full, nobody is ready, or the port has no slot.
    fn schedule(&mut self, handed: Option<u32>) {
        let mut batch = tuning::TX_BATCH;
        let ahead = self.units.crowded;
        // As many grants as packets at most: one that finds nothing to send after all uses none.
        for _ in 0..tuning::TX_BATCH {
            if batch == 0 {
                break;
            }
            let Some(turn) = self.units.mux.next_ready(self.units.now) else { break };
            let slot = turn.slot;
            if ahead {
                self.expect_turns();
            }
            if let Some(slot) = self.units.slot_of_responses(slot) {
                if !self.respond(slot, turn, &mut batch) {
                    break;
                }
                continue;
            }
            self.qps.hot(slot).sched.remove(SchedFlags::QUEUED);
            let Some((qpc, cold)) = self.qps.get(slot) else { continue };
            self.units.counters.sched_grants += 1;
            let packets = tuning::PACKETS_PER_TURN.min(batch);
            let mut grant = Grant { wqes: tuning::WQES_PER_TURN, bytes: turn.bytes, packets };
            let end = if qpc.service == QpType::Rc {
                qp::transmit(qpc, cold, &mut self.units, &mut self.wire, &mut grant)
            } else {
                qp::transmit_unreliable(qpc, cold, &mut self.units, &mut self.wire, &mut grant)
            };
            let usage = Usage { bytes: turn.bytes - grant.bytes, packets: packets - grant.packets };
            batch -= usage.packets;
            match end {
                TransmitEnd::Done { ready } => {
                    self.units.mux.settle(slot, &mut qpc.sched, usage, ready);
                    if !ready && handed == Some(slot) {
                        qp::lie_down(qpc, cold);
                    } else if !ready {
                        self.note_idle(slot);
                    }
                }
                TransmitEnd::PortFull => {
                    self.units.counters.tx_ring_full += 1;
                    self.port_was_full = true;
                    self.units.mux.resume(slot, &mut qpc.sched, usage);
                    break;
                }
            }
        }
    }

    /// The turn of a queue pair's responses. False if the port has no slot.
    fn respond(&mut self, slot: u32, turn: Turn, batch: &mut usize) -> bool {
        self.qps.hot(slot).sched.remove(SchedFlags::RESPONSES_QUEUED);
        let Some((qpc, cold)) = self.qps.get(slot) else { return true };
        self.units.counters.sched_grants += 1;
        let packets = tuning::PACKETS_PER_TURN.min(*batch);
        let mut grant = Grant { wqes: tuning::WQES_PER_TURN, bytes: turn.bytes, packets };
        let end = qp::transmit_responses(qpc, cold, &mut self.units, &mut self.wire, &mut grant);
        let usage = Usage { bytes: turn.bytes - grant.bytes, packets: packets - grant.packets };
        *batch -= usage.packets;
        match end {
            TransmitEnd::Done { ready } => {
                self.units.mux.settle_responses(turn.slot, &mut qpc.sched, usage, ready);
                true
            }
            TransmitEnd::PortFull => {
                self.units.counters.tx_ring_full += 1;
                self.port_was_full = true;
                self.units.mux.resume_responses(turn.slot, &mut qpc.sched, usage);
                false
            }
        }
    }

    /// Acknowledgements that go out one by one.
    fn send_control(&mut self) {
        for _ in 0..tuning::ACK_BATCH {
            let Some(packet) = self.units.control.pop() else { break };
            if !self.send_ack(&packet) {
                self.units.control.push_front(packet);
                break;
            }
        }
    }

    /// Acknowledgements of packets in order: those that are due, and those of streams that fell silent.
    fn send_owed_acks(&mut self, waits: Waits) {
        let mut kept = 0;
        self.holds_acks = false;
        for index in 0..self.units.ack_list.len() {
            let slot = self.units.ack_list[index];
            if !self.settle_ack(slot, waits) {
                self.units.ack_list[kept] = slot;
                kept += 1;
            }
        }
        self.units.ack_list.truncate(kept);
    }

    /// True if nothing is owed any more.
    fn settle_ack(&mut self, slot: u32, waits: Waits) -> bool {
        if let Some(of_responses) = self.units.slot_of_responses(slot) {
            return self.settle_read_ack(of_responses, waits);
        }
        let Some((qpc, cold)) = self.qps.get(slot) else {
            self.qps.hot(slot).sched.remove(SchedFlags::ACK_LISTED);
            return true;
        };
        let owed = &mut qpc.rsp.owed;
        if owed.is_owed() {
            if owed.may_wait(self.units.turn, self.units.now, waits.spaced) {
                return false;
            }
            if waits.asked && owed.hold() {
                self.holds_acks = true;
                return false;
            }
            if !acknowledge(qpc, cold, &mut self.units, &mut self.wire, false, None) {
                self.port_was_full = true;
                return false;
            }
        }
        qpc.sched.remove(SchedFlags::ACK_LISTED);
        true
    }

    /// The same for a stream of responses.
    fn settle_read_ack(&mut self, slot: u32, waits: Waits) -> bool {
        let Some((qpc, cold)) = self.qps.get(slot) else {
            self.qps.hot(slot).sched.remove(SchedFlags::READ_ACK_LISTED);
            return true;
        };
        let owed = cold.reads.as_deref().map(|reads| &reads.owed);
        if let Some(owed) = owed.filter(|owed| owed.is_owed()) {
            if owed.may_wait(self.units.turn, self.units.now, waits.spaced) {
                return false;
            }
            if !acknowledge(qpc, cold, &mut self.units, &mut self.wire, true, None) {
                self.port_was_full = true;
                return false;
            }
        }
        qpc.sched.remove(SchedFlags::READ_ACK_LISTED);
        true
    }

    /// Sends one acknowledgement. False if the port has no slot.
    fn send_ack(&mut self, packet: &ControlPacket) -> bool {
        if packet.kind == ControlKind::LastWord {
            return self.send_last_word(packet.qpn);
        }
        let responses = self.units.slot_of_responses(packet.slot);
        let Some((qpc, cold)) = self.qps.get(responses.unwrap_or(packet.slot)) else { return true };
        if packet.qpn != qpc.id.qpn {
            return true;
        }
        let kind = Some(packet.kind);
        let sent = acknowledge(qpc, cold, &mut self.units, &mut self.wire, responses.is_some(), kind);
        self.port_was_full |= !sent;
        sent
    }

    /// Acknowledges once more what a queue pair has received that has ended. False if the port has no slot.
    #[cold]
    fn send_last_word(&mut self, qpn: u32) -> bool {
        let Some(word) = self.units.last_words.get_mut(qpn) else { return true };
        let loopback = word.loopback;
        match self.wire.emit(loopback, |frame| word.write(frame).ok_or(())) {
            Ok(()) => {
                self.units.counters.tx_acks += 1;
                self.units.counters.tx_last_acks += 1;
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
        let now = self.units.now;
        while self.neighbor.has_output() || self.neighbor.next_deadline().is_some_and(|due| due <= now) {
            let neighbor = &mut self.neighbor;
            if self.wire.emit(false, |frame| neighbor.poll_transmit(now, frame).ok_or(())).is_err() {
                break;
            }
            self.units.counters.tx_neighbor += 1;
        }
    }
}

/// Sends one acknowledgement, if the queue pair gives answers. False if the port has no slot.
#[inline]
fn acknowledge(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    wire: &mut impl TxSlots,
    of_responses: bool,
    kind: Option<ControlKind>,
) -> bool {
    if !qpc.id.state.receives() && (of_responses || cold.refusal.is_none()) {
        let of_reads = cold.reads.as_deref_mut().map(|reads| &mut reads.owed);
        let owed = if of_responses { of_reads } else { Some(&mut qpc.rsp.owed) };
        owed.into_iter().for_each(|owed| owed.settle(units.now));
        return true;
    }
    let loopback = qpc.id.loopback;
    let emitted =
        wire.emit(loopback, |frame| qp::write_ack(qpc, cold, units, of_responses, kind, frame).ok_or(()));
    !matches!(emitted, Err(NotSent::PortFull))
}
