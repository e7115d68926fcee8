//! A packet's way in, up to its queue pair: encapsulation, lengths, QPN, the checks of protocol.md
//! 1.2, ICRC.

use super::{AsyncEvent, Core, Engine, EngineConfig};
use crate::neighbor::{AddressConflict, Handled, Neighbor};
use crate::port::{Bursts, Port};
use crate::qp::{self, Acknowledgement, QPN_GSI, Qp, QpTable, Qpc, RequestPacket, Units};
use crate::qp_state::QpType;
use crate::qpn::MULTICAST_QPN;
use core::net::IpAddr;
use wire::cm::Mad;
use wire::{
    Body, CommonFrame, Datagram, Ecn, EncapError, Opcode, Packet, ParseError, RxFrame, Transport, WireMode,
};

/// Bytes of the longest frame: an IP packet of 9216 bytes, Ethernet header and VLAN tag.
const FRAME_LEN_MAX: usize = 9216 + 18;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// The identifier in a VLAN tag's TCI.
const VID: u16 = 0x0FFF;

impl<P: Port> Engine<P> {
    /// Takes what one turn takes from the port, and what waits in the loopback ring. Returns the
    /// number of frames.
    #[inline]
    pub(super) fn receive(&mut self) -> usize {
        let looped = self.wire.loopback_waiting();
        if looped > 0 {
            self.receive_looped(looped);
        }
        let mut bursts = Bursts::new();
        while let Some(burst) = bursts.next(&mut self.wire.port) {
            self.receive_burst(burst);
        }
        if bursts.found_empty() {
            self.core.units.drained_at = self.core.units.now;
        } else {
            self.core.note_backlog(bursts.taken(), self.wire.port.rx_waiting());
        }
        looped + bursts.taken()
    }

    #[inline(never)]
    fn receive_burst(&mut self, burst: usize) {
        let looks_ahead = !self.core.units.ahead.is_empty();
        let mut arrivals = if looks_ahead { self.look_ahead(burst) } else { None };
        let mut index = 0;
        while index < burst {
            if let Some(arrivals) = &mut arrivals {
                self.core.prefetch_frames(arrivals, index);
            }
            let port = &self.wire.port;
            let followers = |number: usize| {
                let index = index + 1 + number;
                (index < burst).then(|| port.rx_frame(index))
            };
            index += self.core.receive_frame(port.rx_frame(index), followers);
        }
        self.wire.port.rx_release();
    }

    #[inline(never)]
    fn receive_looped(&mut self, frames: usize) {
        for _ in 0..frames {
            if let Some(frame) = self.wire.loopback_frame() {
                self.core.receive_frame(RxFrame::new(frame), |_| None);
            }
            self.wire.loopback_release();
        }
    }
}

impl Core {
    /// One frame: the short way, if it looks as nearly all do; else the long way, for which all
    /// frames are alike. What goes the short way takes those of `followers` along that only go on
    /// with it. Returns how many frames were taken.
    #[inline(always)]
    fn receive_frame<'a>(
        &mut self,
        frame: RxFrame<'a>,
        followers: impl Fn(usize) -> Option<RxFrame<'a>>,
    ) -> usize {
        let Self { qps, units, config, .. } = self;
        if let Some(common) = CommonFrame::recognize(frame, config.udp_port)
            && let Some(body) = common.body()
        {
            units.counters.rx_packets += 1;
            let Some(mut qp) = qps.by_qpn(common.dest_qp()) else {
                receive_late(units, config, frame);
                return 1;
            };
            let is_from_peer = qp.hot.template.is_answered_by_common(&common);
            if !is_for(qp.hot, units, WireMode::Srnic, is_from_peer, common.pkey()) {
                qp::note_refused(&mut qp, units, WireMode::Srnic, is_from_peer, common.from_l3());
                return 1;
            }
            return receive_common(&mut qp, units, &common, body, followers);
        }
        self.receive_uncommon(&frame);
        1
    }

    /// A frame that has no short way: most of these are of the SRNIC dialect over IPv4, too.
    #[inline(never)]
    fn receive_uncommon(&mut self, frame: &RxFrame<'_>) {
        let Self { qps, units, config, .. } = self;
        let Some(common) = CommonFrame::recognize_any(*frame, config.udp_port) else {
            return self.receive_any(frame);
        };
        units.counters.rx_packets += 1;
        let Ok(packet) = Packet::in_frame(*frame, common.transport()) else {
            units.counters.drop_malformed += 1;
            return;
        };
        let Some(mut qp) = qps.by_qpn(packet.dest_qp()) else {
            return receive_late(units, config, *frame);
        };
        let is_from_peer = qp.hot.template.is_answered_by_common(&common);
        if !is_for(qp.hot, units, WireMode::Srnic, is_from_peer, packet.pkey()) {
            return qp::note_refused(&mut qp, units, WireMode::Srnic, is_from_peer, common.from_l3());
        }
        let ce = common.ecn() == Ecn::Ce;
        if packet.opcode() == Opcode::RcReadResponseMiddle
            && qp::take_middle(&mut qp, units, packet, common.from_l3(), ce)
        {
            return;
        }
        if units.is_whole(common.from_l3()) {
            qp.cold.heard_at = units.now;
            qp::on_packet(&mut qp, units, &packet, ce);
        }
    }

    /// Any frame whatever.
    #[inline(never)]
    fn receive_any(&mut self, frame: &RxFrame<'_>) {
        let frame = *frame;
        let Self { qps, units, neighbor, config, .. } = self;
        let datagram = match Datagram::in_frame(frame, config.udp_port) {
            Ok(datagram) => datagram,
            Err(EncapError::NotRoce) => return receive_other(units, neighbor, frame),
            Err(_) => {
                units.counters.drop_encapsulation += 1;
                return;
            }
        };
        units.counters.rx_packets += 1;
        let packet = match Packet::in_frame(frame, datagram.transport.clone()) {
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
        let Some(mut qp) = qps.by_qpn(packet.dest_qp()) else {
            if packet.dest_qp() == MULTICAST_QPN {
                return receive_group(qps, units, config, frame);
            }
            return receive_late(units, config, frame);
        };
        let is_from_peer = qp.hot.template.is_answered_by(&datagram);
        let from_l3 = &frame.bytes()[datagram.l3_offset..datagram.transport.end];
        if !is_for(qp.hot, units, packet.mode(), is_from_peer, packet.pkey()) {
            return qp::note_refused(&mut qp, units, packet.mode(), is_from_peer, from_l3);
        }
        if !units.is_whole(from_l3) {
            return;
        }
        match (qp.hot.service, packet.opcode().transport()) {
            (QpType::Rc, _) => {
                qp.cold.heard_at = units.now;
                qp::on_packet(&mut qp, units, &packet, datagram.ecn == Ecn::Ce);
            }
            (QpType::Uc, Transport::Uc) => qp::on_unreliable(&mut qp, units, &packet),
            (QpType::Ud, Transport::Ud) if is_to_us(config, &datagram) => {
                let udp = datagram.transport.start - UDP_LEN;
                let ip = &frame.head()[datagram.l3_offset..udp];
                if qp.hot.id.qpn == QPN_GSI {
                    receive_mad(&mut qp, units, neighbor, &packet, (datagram.src, ip, frame.head()));
                } else {
                    qp::on_datagram(&mut qp, units, &packet, ip);
                }
            }
            (QpType::Ud, Transport::Ud) => units.counters.drop_address += 1,
            _ => units.counters.drop_opcode_class += 1,
        }
    }
}

/// A WRITE or SEND with nothing but data, or an ACK, for this queue pair, and those that go on with
/// it. The ICRC is not checked yet.
#[inline(always)]
fn receive_common<'a>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    frame: &CommonFrame<'a>,
    body: Body<'a>,
    followers: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> usize {
    match body {
        Body::Write { reth, meta, payload } => {
            let request = RequestPacket::of_write(frame, reth, meta, payload);
            qp::admit(qp, units, frame, &request, followers)
        }
        Body::Send { meta, ssnw, payload } => {
            let request = RequestPacket::of_send(frame, meta, ssnw, payload);
            qp::admit(qp, units, frame, &request, followers)
        }
        Body::Ack { aeth, meta, ackx } => {
            if units.is_whole(frame.from_l3()) {
                qp.cold.heard_at = units.now;
                let ack = Acknowledgement { psn: frame.psn(), aeth, meta, ackx, bitmap: 0 };
                qp::on_acknowledge(qp.reborrow(), units, &ack);
            }
            1
        }
    }
}

/// The silent checks of protocol.md 1.2, but for the ICRC, which comes last. A datagram may come
/// from anybody. A UC or UD queue pair is of the Plain mode always, so what is of the SRNIC dialect
/// and passes is for one of RC.
#[inline(always)]
fn is_for(qpc: &Qpc, units: &mut Units, mode: WireMode, is_from_peer: bool, pkey: u16) -> bool {
    let counters = &mut units.counters;
    if mode != qpc.id.mode {
        counters.drop_wire_mode += 1;
    } else if !is_from_peer && qpc.service != QpType::Ud {
        counters.drop_address += 1;
    } else if pkey != qpc.id.pkey {
        counters.drop_pkey += 1;
    } else {
        return true;
    }
    false
}

/// Another host has our address.
#[cold]
fn note_dispute(units: &mut Units, conflict: Option<AddressConflict>) {
    units.counters.address_disputes += 1;
    if let Some(AddressConflict { mac, ours }) = conflict {
        units.events.push(AsyncEvent::AddressConflict { mac, ours });
    }
}

/// A datagram for queue pair 1. A host that talks to the connection manager is answered where it
/// sent from (protocol.md 1.12), if what it sent was taken; what comes from nowhere is not, as its
/// answer would make us look for its host.
#[cold]
#[inline(never)]
fn receive_mad(
    qp: &mut Qp<'_>,
    units: &mut Units,
    neighbor: &mut Neighbor,
    packet: &Packet<'_>,
    (from, ip, head): (IpAddr, &[u8], &[u8]),
) {
    let mac = match *head {
        [_, _, _, _, _, _, a, b, c, d, e, f, ..] if Mad::parse(packet.payload()).is_ok() => {
            Some([a, b, c, d, e, f])
        }
        _ => None,
    };
    if mac.is_some_and(|mac| !Neighbor::is_host(mac)) {
        units.counters.drop_address += 1;
    } else if qp::on_datagram(qp, units, packet, ip)
        && let Some(mac) = mac
    {
        neighbor.note_heard(units.now, from, mac);
    }
}

/// A frame that is not RoCEv2.
#[cold]
#[inline(never)]
fn receive_other(units: &mut Units, neighbor: &mut Neighbor, frame: RxFrame<'_>) {
    // It is parsed where nobody changes it; only of shared memory is it copied for that.
    let mut scratch = [0; FRAME_LEN_MAX];
    let handled = frame.settled(&mut scratch).map(|frame| neighbor.handle_frame(units.now, frame));
    match handled {
        None | Some(Handled::Ignored) => units.counters.drop_not_ours += 1,
        Some(Handled::Consumed) => {}
        Some(Handled::Disputed(conflict)) => note_dispute(units, conflict),
    }
}

/// A packet for a queue pair that does not exist, or not any more. It is parsed once more here:
/// lent to another function, what the caller knows of it would have to lie in memory for every
/// packet.
#[cold]
#[inline(never)]
fn receive_late(units: &mut Units, config: &EngineConfig, frame: RxFrame<'_>) {
    let answered = Datagram::in_frame(frame, config.udp_port).is_ok_and(|datagram| {
        let packet = Packet::in_frame(frame, datagram.transport.clone());
        packet.is_ok_and(|packet| qp::is_answered(units, &packet, &datagram, frame))
    });
    units.counters.drop_unknown_qp += u64::from(!answered);
}

/// A packet for all members of a multicast group (protocol.md 1.11). It is parsed once more here,
/// as in [`receive_late`].
#[cold]
#[inline(never)]
fn receive_group(qps: &mut QpTable, units: &mut Units, config: &EngineConfig, frame: RxFrame<'_>) {
    let Ok(datagram) = Datagram::in_frame(frame, config.udp_port) else { return };
    let Ok(packet) = Packet::in_frame(frame, datagram.transport.clone()) else { return };
    if packet.mode() != WireMode::Plain || packet.opcode().transport() != Transport::Ud {
        units.counters.drop_opcode_class += 1;
        return;
    }
    if !is_in_our_vlan(config, &datagram) || units.groups.member(datagram.dst, 0).is_none() {
        units.counters.drop_group += 1;
        return;
    }
    if !units.is_whole(&frame.bytes()[datagram.l3_offset..datagram.transport.end]) {
        return;
    }
    let ip = &frame.head()[datagram.l3_offset..datagram.transport.start - UDP_LEN];
    let mut index = 0;
    while let Some(slot) = units.groups.member(datagram.dst, index) {
        index += 1;
        let Some(mut qp) = qps.get(slot) else { continue };
        if packet.pkey() == qp.hot.id.pkey {
            qp::on_datagram(&mut qp, units, &packet, ip);
        } else {
            units.counters.drop_pkey += 1;
        }
    }
}

/// A datagram may come from anybody, but it must be to this host.
fn is_to_us(config: &EngineConfig, datagram: &Datagram) -> bool {
    datagram.dst == config.ip && is_in_our_vlan(config, datagram)
}

fn is_in_our_vlan(config: &EngineConfig, datagram: &Datagram) -> bool {
    datagram.vlan.unwrap_or(0) == config.vlan.map_or(0, |tci| tci & VID)
}
