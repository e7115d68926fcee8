//! What is done about a burst before its first frame is handled: what nearly no engine needs, so
//! that the others ask once a burst.

use super::prefetch::Arrivals;
use super::{Core, Engine};
use crate::port::{Port, RxFrame};
use crate::qp::{self, Ahead};
use crate::qp_state::QpType;
use crate::sched::Usage;
use sr_recovery::StreamId;
use wire::{CommonFrame, Datagram, Kind, Packet, Position};

impl<P: Port> Engine<P> {
    /// Looks at the frames of a burst. Says whose they are, if there are many queue pairs.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, burst: usize) -> Option<Arrivals> {
        let marks = self.core.falls_behind();
        if marks || self.core.units.ahead.contains(Ahead::CAPS) {
            for index in 0..burst {
                self.core.judge(self.wire.port.rx_frame(index), marks);
            }
        }
        self.core.units.crowded.then(|| self.read_arrivals(burst))
    }
}

impl Core {
    /// Whether what this turn takes is marked, as the host falls behind.
    fn falls_behind(&mut self) -> bool {
        let units = &mut self.units;
        if !units.ahead.contains(Ahead::MARKS) {
            return false;
        }
        let marks = units.waited_ns() > units.host_marks_ns.into() || units.ctrl_q.is_behind();
        units.ahead.set(Ahead::MARKS, marks);
        marks
    }

    /// What `frame` brings is charged to its tenant, and counts as marked if that is above its cap,
    /// or if the host `marks` everything. Only data for a reliable queue pair count, of its peer's.
    fn judge(&mut self, frame: RxFrame<'_>, marks: bool) {
        let Some((stream, usage)) = self.data_in(frame) else { return };
        let number = self.units.number_of(stream);
        let units = &mut self.units;
        let now = units.now;
        let is_capped = units.ahead.contains(Ahead::CAPS);
        let tenants = units.mux.tenants_mut().filter(|_| is_capped);
        let is_above = tenants.is_some_and(|tenants| tenants.receive(number, &usage, now));
        if let Some(mut qp) = self.qps.get(stream.qp).filter(|_| is_above || marks) {
            qp::mark(&mut qp, &mut self.units, stream);
        }
    }

    /// The stream that a request or response is of, as its addresses and its QPN say, and what it
    /// brings. Its ICRC is not checked.
    fn data_in(&self, frame: RxFrame<'_>) -> Option<(StreamId, Usage)> {
        let udp_port = self.config.udp_port;
        let (packet, slot) = match CommonFrame::recognize_any(frame, udp_port) {
            Some(common) => {
                let packet = Packet::in_frame(frame, common.transport()).ok()?;
                let slot = self.qps.find(packet.dest_qp())?;
                let (hot, _) = self.qps.peek(slot)?;
                (packet, hot.template.is_answered_by_common(&common).then_some(slot)?)
            }
            None => {
                let datagram = Datagram::in_frame(frame, udp_port).ok()?;
                let packet = Packet::in_frame(frame, datagram.transport.clone()).ok()?;
                let slot = self.qps.find(packet.dest_qp())?;
                let (hot, _) = self.qps.peek(slot)?;
                (packet, hot.template.is_answered_by(&datagram).then_some(slot)?)
            }
        };
        let (hot, _) = self.qps.peek(slot).filter(|(hot, _)| hot.service == QpType::Rc)?;
        let opcode = packet.opcode();
        let kind = opcode.kind();
        let response = match kind {
            Kind::Send | Kind::Write | Kind::ReadRequest | Kind::Atomic => false,
            Kind::ReadResponse | Kind::AtomicAck => true,
            Kind::Ack | Kind::Cnp => return None,
        };
        let begins = matches!(opcode.position(), Position::First | Position::Only) && !response;
        let usage = Usage {
            bytes: packet.payload().len(),
            packets: 1,
            operations: begins.into(),
            reads: (kind == Kind::ReadRequest).into(),
            atomics: (kind == Kind::Atomic).into(),
        };
        (hot.id.mode == packet.mode()).then_some((StreamId { qp: slot, response }, usage))
    }
}
