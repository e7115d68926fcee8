//! A packet's way in, up to its queue pair: encapsulation, lengths, QPN, the checks of protocol.md 1.2, ICRC.

use super::{Engine, Units};
use crate::icrc::Kernel;
use crate::neighbor::{Handled, Neighbor};
use crate::port::Port;
use crate::qp::{self, QpCold, QpTable, Qpc, RequestPacket};
use wire::{Datagram, Ecn, EncapError, Kind, Packet, ParseError};

impl<P: Port> Engine<P> {
    /// Takes one burst from the port and what waits in the loopback ring. Returns the number of frames.
    pub(super) fn receive(&mut self) -> usize {
        let looped = self.wire.loopback_waiting();
        for _ in 0..looped {
            let frame = self.wire.loopback_frame();
            receive_frame(&mut self.qps, &mut self.units, &mut self.neighbor, self.config.udp_port, frame);
            self.wire.loopback_release();
        }
        let burst = self.wire.port.rx_burst();
        for index in 0..burst {
            let frame = self.wire.port.rx_frame(index);
            receive_frame(&mut self.qps, &mut self.units, &mut self.neighbor, self.config.udp_port, frame);
        }
        if burst > 0 {
            self.wire.port.rx_release();
        }
        looped + burst
    }
}

/// One frame.
#[inline]
fn receive_frame(qps: &mut QpTable, units: &mut Units, neighbor: &mut Neighbor, udp_port: u16, frame: &[u8]) {
    let datagram = match Datagram::parse(frame, udp_port) {
        Ok(datagram) => datagram,
        Err(EncapError::NotRoce) => {
            let ignored = neighbor.handle_frame(units.now, frame) == Handled::Ignored;
            units.counters.drop_not_ours += u64::from(ignored);
            return;
        }
        Err(_) => {
            units.counters.drop_encapsulation += 1;
            return;
        }
    };
    units.counters.rx_packets += 1;
    let packet = match Packet::parse(&frame[datagram.transport.clone()]) {
        Ok(packet) => packet,
        Err(ParseError::Version(_)) => {
            units.counters.drop_wire_mode += 1;
            return;
        }
        Err(_) => {
            units.counters.drop_malformed += 1;
            return;
        }
    };
    let Some((qpc, cold)) = qps.find(packet.dest_qp()).and_then(|slot| qps.get(slot)) else {
        units.counters.drop_unknown_qp += 1;
        return;
    };
    if accept(qpc, units, &packet, &datagram, frame) {
        dispatch(qpc, cold, units, &packet, datagram.ecn == Ecn::Ce);
    }
}

/// The silent checks of protocol.md 1.2, the ICRC last: nothing of the packet has had an effect before it holds.
#[inline]
fn accept(qpc: &Qpc, units: &mut Units, packet: &Packet<'_>, datagram: &Datagram, frame: &[u8]) -> bool {
    let counters = &mut units.counters;
    if packet.mode() != qpc.id.mode {
        counters.drop_wire_mode += 1;
    } else if !qpc.template.is_answered_by(datagram) {
        counters.drop_address += 1;
    } else if packet.pkey() != qpc.id.pkey {
        counters.drop_pkey += 1;
    } else if !Kernel::detected().verify(&frame[datagram.l3_offset..datagram.transport.end]) {
        counters.drop_icrc += 1;
    } else {
        return true;
    }
    false
}

/// To the requester or the responder.
#[inline]
fn dispatch(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, packet: &Packet<'_>, ce: bool) {
    cold.heard_at = units.now;
    if packet.opcode().kind() == Kind::Ack {
        qp::on_acknowledge(qpc, cold, units, packet);
    } else if let Some(request) = RequestPacket::new(packet, ce) {
        qp::on_request(qpc, cold, units, &request);
    } else if matches!(packet.opcode().kind(), Kind::ReadResponse | Kind::AtomicAck) {
        qp::on_response(qpc, cold, units, *packet, ce);
    } else {
        units.counters.drop_opcode_class += 1;
    }
}
