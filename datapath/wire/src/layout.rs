//! The layouts of packets: which headers follow the BTH, and where. These are the tables of
//! protocol.md 1.3 (Plain) and 2.2 (Srnic).

use crate::emit::{ATOMIC_ACK_LEN, IETH_LEN, IMM_LEN};
use crate::{
    Ackx, Aeth, AtomicEth, Bth, Deth, Kind, Meta, Opcode, Position, Rdw, Reth, Ssnw, Transport, WireMode,
};

/// Header offsets of one opcode in one wire mode. Offsets count bytes from the start of the BTH; 0
/// means absent.
///
/// SACKB is not here: it follows ACKX when [`AckFlags::BITMAP`](crate::AckFlags::BITMAP) is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The opcode this layout belongs to.
    pub opcode: Opcode,
    /// Bytes of BTH and all headers before the payload; no pad, no ICRC, no SACKB.
    pub len: u8,
    /// Offset of RETH.
    pub reth: u8,
    /// Offset of AETH.
    pub aeth: u8,
    /// Offset of ImmDt.
    pub imm: u8,
    /// Offset of IETH.
    pub ieth: u8,
    /// Offset of AtomicETH.
    pub atomic_eth: u8,
    /// Offset of AtomicAckETH.
    pub atomic_ack: u8,
    /// Offset of DETH.
    pub deth: u8,
    /// Offset of META.
    pub meta: u8,
    /// Offset of SSNW.
    pub ssnw: u8,
    /// Offset of RDW.
    pub rdw: u8,
    /// Offset of ACKX.
    pub ackx: u8,
}

/// A header of the declared table.
#[derive(Clone, Copy)]
enum Part {
    Reth,
    Aeth,
    Imm,
    Ieth,
    AtomicEth,
    AtomicAck,
    Deth,
    Meta,
    Ssnw,
    Rdw,
    Ackx,
}

impl Layout {
    /// The layout of `opcode` in `mode`; `None` if that mode has no such packet. UC, UD and the CNP
    /// have no SRNIC form (protocol.md 2.5).
    #[inline]
    #[must_use]
    pub fn of(mode: WireMode, opcode: Opcode) -> Option<&'static Self> {
        Self::of_byte(mode, opcode as u8)
    }

    /// [`Layout::of`] for an opcode byte as it came from the wire.
    #[inline]
    #[must_use]
    pub fn of_byte(mode: WireMode, opcode: u8) -> Option<&'static Self> {
        TABLES[mode as usize][usize::from(opcode)].as_ref()
    }

    /// The layout of a packet that holds `parts` in this order after the BTH.
    #[expect(clippy::cast_possible_truncation, reason = "the sum of all header lengths fits a byte")]
    const fn build(opcode: Opcode, parts: &[Part]) -> Self {
        let mut layout = Self {
            opcode,
            len: Bth::LEN as u8,
            reth: 0,
            aeth: 0,
            imm: 0,
            ieth: 0,
            atomic_eth: 0,
            atomic_ack: 0,
            deth: 0,
            meta: 0,
            ssnw: 0,
            rdw: 0,
            ackx: 0,
        };
        let mut i = 0;
        while i < parts.len() {
            let at = layout.len;
            let len = match parts[i] {
                Part::Reth => {
                    layout.reth = at;
                    Reth::LEN
                }
                Part::Aeth => {
                    layout.aeth = at;
                    Aeth::LEN
                }
                Part::Imm => {
                    layout.imm = at;
                    IMM_LEN
                }
                Part::Ieth => {
                    layout.ieth = at;
                    IETH_LEN
                }
                Part::AtomicEth => {
                    layout.atomic_eth = at;
                    AtomicEth::LEN
                }
                Part::AtomicAck => {
                    layout.atomic_ack = at;
                    ATOMIC_ACK_LEN
                }
                Part::Deth => {
                    layout.deth = at;
                    Deth::LEN
                }
                Part::Meta => {
                    layout.meta = at;
                    Meta::LEN
                }
                Part::Ssnw => {
                    layout.ssnw = at;
                    Ssnw::LEN
                }
                Part::Rdw => {
                    layout.rdw = at;
                    Rdw::LEN
                }
                Part::Ackx => {
                    layout.ackx = at;
                    Ackx::LEN
                }
            };
            layout.len += len as u8;
            i += 1;
        }
        layout
    }
}

/// The table of protocol.md 1.3.
const fn plain(opcode: Opcode) -> &'static [Part] {
    match (opcode.transport(), opcode.kind(), opcode.position()) {
        (Transport::Ud, ..) if opcode.has_imm() => &[Part::Deth, Part::Imm],
        (Transport::Ud, ..) => &[Part::Deth],
        (_, Kind::Write, Position::Only) if opcode.has_imm() => &[Part::Reth, Part::Imm],
        (_, Kind::Write, Position::First | Position::Only) => &[Part::Reth],
        (_, Kind::Send | Kind::Write, _) if opcode.has_imm() => &[Part::Imm],
        (_, Kind::Send, _) if opcode.has_inv() => &[Part::Ieth],
        (_, Kind::Send | Kind::Write | Kind::Cnp, _) => &[],
        (_, Kind::ReadRequest, _) => &[Part::Reth],
        (_, Kind::ReadResponse, Position::Middle) => &[],
        (_, Kind::ReadResponse | Kind::Ack, _) => &[Part::Aeth],
        (_, Kind::AtomicAck, _) => &[Part::Aeth, Part::AtomicAck],
        (_, Kind::Atomic, _) => &[Part::AtomicEth],
    }
}

/// The table of protocol.md 2.2.
const fn srnic(opcode: Opcode) -> Option<&'static [Part]> {
    if !matches!(opcode.transport(), Transport::Rc) {
        return None;
    }
    Some(match (opcode.kind(), opcode.position()) {
        (Kind::Send, _) if opcode.has_imm() => &[Part::Imm, Part::Meta, Part::Ssnw],
        (Kind::Send, _) if opcode.has_inv() => &[Part::Ieth, Part::Meta, Part::Ssnw],
        (Kind::Send, _) => &[Part::Meta, Part::Ssnw],
        (Kind::Write, _) if opcode.has_imm() => &[Part::Reth, Part::Imm, Part::Meta, Part::Ssnw],
        (Kind::Write, _) => &[Part::Reth, Part::Meta],
        (Kind::ReadRequest, _) => &[Part::Reth, Part::Meta, Part::Rdw],
        (Kind::Atomic, _) => &[Part::AtomicEth, Part::Meta, Part::Rdw],
        (Kind::ReadResponse, Position::Middle) => &[Part::Meta, Part::Ssnw],
        (Kind::ReadResponse, _) => &[Part::Aeth, Part::Meta, Part::Ssnw],
        (Kind::AtomicAck, _) => &[Part::Aeth, Part::AtomicAck, Part::Meta, Part::Ssnw],
        (Kind::Ack, _) => &[Part::Aeth, Part::Meta, Part::Ackx],
        (Kind::Cnp, _) => return None,
    })
}

/// One table a mode, indexed by the opcode byte.
static TABLES: [[Option<Layout>; 256]; 2] = [table(WireMode::Plain), table(WireMode::Srnic)];

const fn table(mode: WireMode) -> [Option<Layout>; 256] {
    let mut table = [None; 256];
    let mut i = 0;
    while i < Opcode::ALL.len() {
        let opcode = Opcode::ALL[i];
        let parts = match mode {
            WireMode::Plain => Some(plain(opcode)),
            WireMode::Srnic => srnic(opcode),
        };
        if let Some(parts) = parts {
            table[opcode as usize] = Some(Layout::build(opcode, parts));
        }
        i += 1;
    }
    table
}
