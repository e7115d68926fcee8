//! Frames of a hostile peer: any header, sealed with a good ICRC, as if the peer's engine had sent
//! them.

use crate::rig::{Qp, Rig};
use wire::encap::ROCE_UDP_PORT;
use wire::{
    AckFlags, Ackx, Aeth, Bth, Ecn, Flow, Meta, Opcode, Psn, Repr, Syndrome, Template, WireMode, icrc,
};

const ICRC_LEN: usize = 4;

/// Makes frames from one queue pair to another.
#[derive(Clone, Copy, Debug)]
pub struct Forger {
    /// The flow that they claim to be of.
    pub flow: Flow,
    /// The queue pair that they are for.
    pub dest_qpn: u32,
    /// Partition key.
    pub pkey: u16,
}

impl Forger {
    /// Frames that `to` takes for those of `from`.
    #[must_use]
    pub fn new(rig: &Rig, from: Qp, to: Qp) -> Self {
        let flow = Flow {
            src_mac: rig.net.mac(from.node()),
            dst_mac: rig.net.mac(to.node()),
            vlan: None,
            src: rig.ip(from.node()),
            dst: rig.ip(to.node()),
            src_port: 0xC000,
            dst_port: ROCE_UDP_PORT,
            dscp: 0,
            ecn: Ecn::Ect0,
            ttl: 64,
        };
        Self { flow, dest_qpn: rig.qpn(to), pkey: rig.qp_options(to).pkey }
    }

    /// All headers of a packet type, zero but for BTH's queue pair, partition, PSN and AckReq.
    ///
    /// # Panics
    /// If the dialect has no such packet.
    #[must_use]
    pub fn repr(&self, mode: WireMode, opcode: Opcode, psn: Psn) -> Repr {
        let mut repr = Repr::new(mode, opcode).expect("the dialect has this packet type");
        repr.bth =
            Bth { dest_qp: self.dest_qpn, pkey: self.pkey, psn, ack_req: true, ..Bth::new(mode, opcode) };
        repr
    }

    /// An acknowledgement of the SRNIC dialect.
    #[must_use]
    pub fn ack(&self, psn: Psn, syndrome: Syndrome, flags: AckFlags, sack_psn: Psn) -> Repr {
        let mut repr = self.repr(WireMode::Srnic, Opcode::RcAck, psn);
        repr.aeth = Some(Aeth { syndrome, msn: 0 });
        repr.meta = Some(Meta::default());
        repr.ackx = Some(Ackx { flags, sack_psn, ..Ackx::default() });
        repr
    }

    /// The whole frame: encapsulation, headers, payload padded to words, ICRC.
    ///
    /// # Panics
    /// If the flow mixes address families.
    #[must_use]
    pub fn frame(&self, repr: &Repr, payload: &[u8]) -> Vec<u8> {
        let template = Template::new(&self.flow).expect("a flow of one family");
        let pad = payload.len().wrapping_neg() % 4;
        let mut repr = *repr;
        repr.bth.pad = u8::try_from(pad).unwrap_or(0);
        let headers = repr.header_len();
        let transport = headers + payload.len() + pad + ICRC_LEN;
        let mut frame = vec![0; template.len() + transport];
        template.emit(&mut frame, transport);
        repr.emit(&mut frame[template.len()..]);
        frame[template.len() + headers..][..payload.len()].copy_from_slice(payload);
        icrc::seal(&mut frame[template.l3_offset()..]);
        frame
    }
}
