//! Packets of UC and UD: their headers, and where they go.

use super::QKEY_GSI;
use crate::qp::packet::PacketBuilder;
use crate::qp::payload::Payload;
use crate::qp::requester::opcode_at;
use crate::qp::{QPN_GSI, QpIdentity, Qpc, Units};
use crate::queue::{DatagramAddress, SendFlags, SendWqe, WcStatus};
use core::net::IpAddr;
use wire::{Bth, Deth, Fields, Psn, Reth, Template, Transport, WireMode, entropy};

/// Which packet of which message to build.
pub(super) struct Wanted<'a> {
    pub wqe: &'a SendWqe<'a>,
    /// Index of the packet in its message.
    pub index: u32,
    /// Packets of the message.
    pub packets: u32,
    pub psn: Psn,
}

/// To whom a packet goes.
struct Way<'a> {
    template: Template,
    /// The peer is a queue pair of this very engine.
    loopback: bool,
    /// The multicast group that it goes to.
    group: Option<&'a IpAddr>,
    dest_qp: u32,
}

/// A packet with all its lengths known, before its frame is.
pub(super) struct Plan<'a> {
    way: Way<'a>,
    bth: Bth,
    fields: Fields,
    payload: Payload<'a>,
}

impl<'a> Plan<'a> {
    /// A packet of a UC queue pair, which goes to its peer.
    ///
    /// # Errors
    /// The status with which the work request fails.
    pub fn connected(qpc: &Qpc, units: &'a Units, wanted: &Wanted<'a>) -> Result<Self, WcStatus> {
        let (id, wqe) = (&qpc.id, wanted.wqe);
        let (template, loopback, dest_qp) = (qpc.template, id.loopback, id.dest_qpn);
        let way = Way { template, loopback, group: None, dest_qp };
        let (va, rkey) = if wqe.opcode.is_write() { wqe.remote() } else { (0, 0) };
        let reth = Reth { va, rkey, dma_len: wqe.length };
        Self::by(way, Transport::Uc, Fields { reth, ..Fields::default() }, (id, units), wanted)
    }

    /// A datagram, which goes where its request says.
    ///
    /// # Errors
    /// The status with which the work request fails: its address handle is gone, or it is longer
    /// than a packet.
    pub fn datagram(qpc: &Qpc, units: &'a Units, wanted: &Wanted<'a>) -> Result<Self, WcStatus> {
        let (id, wqe) = (&qpc.id, wanted.wqe);
        if wqe.length > id.pmtu.into() {
            return Err(WcStatus::LocLenErr);
        }
        let (to, qkey) = wqe.remote();
        let to = DatagramAddress::from_word(to);
        let address = units.addresses.get(to.handle, id.pd).ok_or(WcStatus::LocQpOpErr)?;
        let template = if address.has_label {
            address.template
        } else {
            let label = entropy::flow_label_from_qpns(id.qpn, to.qpn);
            address.template.with_src_port(entropy::sport_from_flow_label(label))
        };
        let qkey = if id.qpn == QPN_GSI { QKEY_GSI } else { qkey };
        let (loopback, group) = (address.loopback, address.group.as_ref());
        let way = Way { template, loopback, group, dest_qp: to.qpn };
        let deth = Deth { qkey, src_qp: id.qpn };
        Self::by(way, Transport::Ud, Fields { deth, ..Fields::default() }, (id, units), wanted)
    }

    /// `fields` has what is of the service.
    fn by(
        way: Way<'a>,
        service: Transport,
        fields: Fields,
        (id, units): (&QpIdentity, &'a Units),
        wanted: &Wanted<'a>,
    ) -> Result<Self, WcStatus> {
        let wqe = wanted.wqe;
        let opcode = opcode_at(wqe.opcode, wanted.index, wanted.packets).in_transport(service);
        let opcode = opcode.ok_or(WcStatus::LocQpOpErr)?;
        let start = u64::from(wanted.index) * u64::from(id.pmtu);
        let rest = u64::from(wqe.length).saturating_sub(start).min(id.pmtu.into());
        let len = usize::try_from(rest).unwrap_or(0);
        let bth = Bth {
            solicited: opcode.is_end() && wqe.flags.contains(SendFlags::SOLICITED),
            dest_qp: way.dest_qp,
            psn: wanted.psn,
            ..id.bth(WireMode::Plain, opcode)
        };
        let payload = Payload { memory: &units.memory, wqe: *wqe, pd: id.pd, start, len };
        Ok(Self { way, bth, fields: Fields { imm: wqe.imm, ..fields }, payload })
    }

    /// Whether the peer is a queue pair of this very engine.
    pub const fn loopback(&self) -> bool {
        self.way.loopback
    }

    /// The multicast group that it goes to.
    pub const fn group(&self) -> Option<&'a IpAddr> {
        self.way.group
    }

    /// Bytes of the payload.
    pub const fn payload_len(&self) -> usize {
        self.payload.len
    }

    /// Writes the packet to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// The status with which the work request fails, if its local memory may not be read or the
    /// frame is too short.
    pub fn build(&self, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let Self { way, bth, fields, payload } = self;
        PacketBuilder::new(&way.template, WireMode::Plain, *bth, *fields)?.build(payload, frame)
    }
}
