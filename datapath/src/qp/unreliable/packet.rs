//! Packets of UC and UD: their headers, and where they go.

use super::QKEY_GSI;
use crate::engine::Units;
use crate::qp::QPN_GSI;
use crate::qp::context::{QpIdentity, Qpc};
use crate::qp::payload::Payload;
use crate::qp::requester::opcode_at;
use crate::queue::{DatagramAddress, SendFlags, SendWqe, WcStatus};
use wire::{Bth, Deth, Layout, Psn, Reth, Template, Transport, WireMode, bth, emit, entropy};

const ICRC_LEN: usize = 4;

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
struct Way {
    template: Template,
    /// The peer is a queue pair of this very engine.
    loopback: bool,
    dest_qp: u32,
}

/// A packet with all its lengths known, before its frame is.
pub(super) struct Plan<'a> {
    way: Way,
    layout: &'static Layout,
    bth: Bth,
    deth: Option<Deth>,
    reth: Option<Reth>,
    payload: Payload<'a>,
}

impl<'a> Plan<'a> {
    /// A packet of a UC queue pair, which goes to its peer.
    ///
    /// # Errors
    /// The status with which the work request fails.
    pub fn connected(qpc: &Qpc, wanted: &Wanted<'a>) -> Result<Self, WcStatus> {
        let (id, wqe) = (&qpc.id, wanted.wqe);
        let way = Way { template: qpc.template, loopback: id.loopback, dest_qp: id.dest_qpn };
        let plan = Self::by(way, Transport::Uc, id, wanted)?;
        let reth = (plan.layout.reth != 0).then(|| {
            let (va, rkey) = wqe.remote();
            Reth { va, rkey, dma_len: wqe.length }
        });
        Ok(Self { reth, ..plan })
    }

    /// A datagram, which goes where its request says.
    ///
    /// # Errors
    /// The status with which the work request fails: its address handle is gone, or it is longer than a packet.
    pub fn datagram(qpc: &Qpc, units: &Units, wanted: &Wanted<'a>) -> Result<Self, WcStatus> {
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
        let way = Way { template, loopback: address.loopback, dest_qp: to.qpn };
        let plan = Self::by(way, Transport::Ud, id, wanted)?;
        Ok(Self { deth: Some(Deth { qkey, src_qp: id.qpn }), ..plan })
    }

    fn by(way: Way, service: Transport, id: &QpIdentity, wanted: &Wanted<'a>) -> Result<Self, WcStatus> {
        let wqe = wanted.wqe;
        let opcode = opcode_at(wqe.opcode, wanted.index, wanted.packets).in_transport(service);
        let opcode = opcode.ok_or(WcStatus::LocQpOpErr)?;
        let layout = Layout::of(WireMode::Plain, opcode).ok_or(WcStatus::LocQpOpErr)?;
        let start = u64::from(wanted.index) * u64::from(id.pmtu);
        let rest = u64::from(wqe.length).saturating_sub(start).min(id.pmtu.into());
        let len = usize::try_from(rest).unwrap_or(0);
        let bth = Bth {
            solicited: opcode.is_end() && wqe.flags.contains(SendFlags::SOLICITED),
            pad: bth::pad_of(len),
            pkey: id.pkey,
            dest_qp: way.dest_qp,
            psn: wanted.psn,
            ..Bth::new(WireMode::Plain, opcode)
        };
        let payload = Payload { wqe: *wqe, pd: id.pd, start, len };
        Ok(Self { way, layout, bth, deth: None, reth: None, payload })
    }

    /// Whether the peer is a queue pair of this very engine.
    pub const fn loopback(&self) -> bool {
        self.way.loopback
    }

    /// Bytes of the payload.
    pub const fn payload_len(&self) -> usize {
        self.payload.len
    }

    /// Writes the packet to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// The status with which the work request fails, if its local memory may not be read or the frame is too short.
    pub fn build(&self, units: &Units, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let header_len = usize::from(self.layout.len);
        let transport_len = header_len + self.payload.len + usize::from(self.bth.pad) + ICRC_LEN;
        let base = self.way.template.len();
        let end = base + transport_len;
        let Some(frame) = frame.get_mut(..end) else { return Err(WcStatus::LocQpOpErr) };
        self.way.template.emit(frame, transport_len);
        self.write_headers(&mut frame[base..base + header_len]);
        let l3 = self.way.template.l3_offset();
        self.payload.write_sealed(&units.memory, &mut frame[l3..], base + header_len - l3)?;
        Ok(end)
    }

    fn write_headers(&self, headers: &mut [u8]) {
        let layout = self.layout;
        bth::emit(headers, &self.bth);
        if let Some(deth) = self.deth {
            deth.emit(&mut headers[usize::from(layout.deth)..]);
        }
        if let Some(reth) = self.reth {
            reth.emit(&mut headers[usize::from(layout.reth)..]);
        }
        if layout.imm != 0 {
            emit::imm(&mut headers[usize::from(layout.imm)..], self.payload.wqe.imm);
        }
    }
}
