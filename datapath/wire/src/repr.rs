//! A packet's headers as an owned value, for tests and tools. The hot path writes headers in place
//! instead.

use crate::ext::DETH_RESV;
use crate::{
    Ackx, Aeth, AtomicEth, Bth, Deth, Fields, Layout, Meta, Opcode, Packet, Rdw, Reth, Ssnw, WireMode, bytes,
};

/// BTH and all headers of a packet, reserved bits included: `parse` and `emit` are inverse, bit for
/// bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The dialect. It decides TVer and the layout; `bth.tver` is not looked at.
    pub mode: WireMode,
    /// Base transport header.
    pub bth: Bth,
    /// Reserved 6 bits beside FECN and BECN.
    pub resv6a: u8,
    /// Reserved 7 bits beside AckReq.
    pub resv7: u8,
    /// RETH.
    pub reth: Option<Reth>,
    /// AETH.
    pub aeth: Option<Aeth>,
    /// ImmDt.
    pub imm: Option<u32>,
    /// IETH.
    pub ieth: Option<u32>,
    /// AtomicETH.
    pub atomic_eth: Option<AtomicEth>,
    /// AtomicAckETH.
    pub atomic_ack: Option<u64>,
    /// DETH.
    pub deth: Option<Deth>,
    /// DETH's reserved byte.
    pub deth_resv: u8,
    /// META.
    pub meta: Option<Meta>,
    /// SSNW.
    pub ssnw: Option<Ssnw>,
    /// RDW.
    pub rdw: Option<Rdw>,
    /// ACKX; its [`AckFlags::BITMAP`](crate::AckFlags::BITMAP) decides whether SACKB is sent.
    pub ackx: Option<Ackx>,
    /// SACKB.
    pub sackb: Option<u64>,
}

impl Repr {
    /// A packet of this type with every header it has, all zero (AETH: an ACK without credits);
    /// `None` if `mode` has no such packet.
    #[must_use]
    pub fn new(mode: WireMode, opcode: Opcode) -> Option<Self> {
        let layout = Layout::of(mode, opcode)?;
        Some(Self {
            mode,
            bth: Bth::new(mode, opcode),
            resv6a: 0,
            resv7: 0,
            reth: present(layout.reth).map(|()| Reth::default()),
            aeth: present(layout.aeth).map(|()| Aeth::default()),
            imm: present(layout.imm).map(|()| 0),
            ieth: present(layout.ieth).map(|()| 0),
            atomic_eth: present(layout.atomic_eth).map(|()| AtomicEth::default()),
            atomic_ack: present(layout.atomic_ack).map(|()| 0),
            deth: present(layout.deth).map(|()| Deth::default()),
            deth_resv: 0,
            meta: present(layout.meta).map(|()| Meta::default()),
            ssnw: present(layout.ssnw).map(|()| Ssnw::default()),
            rdw: present(layout.rdw).map(|()| Rdw::default()),
            ackx: present(layout.ackx).map(|()| Ackx::default()),
            sackb: None,
        })
    }

    /// Reads all headers of a packet.
    #[must_use]
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            mode: packet.mode(),
            bth: packet.bth(),
            resv6a: packet.resv6a(),
            resv7: packet.resv7(),
            reth: packet.reth(),
            aeth: packet.aeth(),
            imm: packet.imm(),
            ieth: packet.ieth(),
            atomic_eth: packet.atomic_eth(),
            atomic_ack: packet.atomic_ack(),
            deth: packet.deth(),
            deth_resv: packet.deth_resv(),
            meta: packet.meta(),
            ssnw: packet.ssnw(),
            rdw: packet.rdw(),
            ackx: packet.ackx(),
            sackb: packet.sackb(),
        }
    }

    /// Bytes that [`Repr::emit`] writes: BTH, headers, SACKB. A packet that `mode` does not have is
    /// a bare BTH.
    #[must_use]
    pub fn header_len(&self) -> usize {
        let Some(layout) = Layout::of(self.mode, self.bth.opcode) else { return Bth::LEN };
        self.fields().header_len(layout)
    }

    /// Writes BTH and headers to the front of `buf`. A header that the packet type has but `self`
    /// lacks is as in [`Repr::new`]; one that the type lacks is not sent.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Repr::header_len`].
    pub fn emit(&self, buf: &mut [u8]) {
        let buf = &mut buf[..self.header_len()];
        let bth = Bth { tver: self.mode.tver(), ..self.bth };
        if !bytes::write(&bth.to_raw(self.resv6a, self.resv7), buf) {
            bytes::short("BTH");
        }
        let Some(layout) = Layout::of(self.mode, self.bth.opcode) else { return };
        self.fields().emit(layout, buf);
        if layout.deth != 0 {
            buf[usize::from(layout.deth) + DETH_RESV] = self.deth_resv;
        }
    }

    fn fields(&self) -> Fields {
        Fields {
            reth: self.reth.unwrap_or_default(),
            aeth: self.aeth.unwrap_or_default(),
            imm: self.imm.unwrap_or_default(),
            ieth: self.ieth.unwrap_or_default(),
            atomic_eth: self.atomic_eth.unwrap_or_default(),
            atomic_ack: self.atomic_ack.unwrap_or_default(),
            deth: self.deth.unwrap_or_default(),
            meta: self.meta.unwrap_or_default(),
            ssnw: self.ssnw.unwrap_or_default(),
            rdw: self.rdw.unwrap_or_default(),
            ackx: self.ackx.unwrap_or_default(),
            sackb: self.sackb.unwrap_or_default(),
        }
    }
}

fn present(offset: u8) -> Option<()> {
    (offset != 0).then_some(())
}
