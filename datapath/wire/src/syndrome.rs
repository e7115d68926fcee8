//! The AETH syndrome and the RNR timer (protocol.md 1.5).

const TYPE: u8 = 0xE0;
const VALUE: u8 = 0x1F;
const TYPE_ACK: u8 = 0x00;
const TYPE_RNR: u8 = 0x20;

/// Why a responder refused a request; the value is the whole syndrome byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// PSN sequence error: a packet is missing.
    PsnSequence = 0x60,
    /// Invalid request: opcode sequence, unsupported operation, misalignment, length.
    InvalidRequest = 0x61,
    /// Remote access error: rkey, permission, range, protection domain.
    RemoteAccess = 0x62,
    /// Remote operational error: the responder's own WQE was malformed.
    RemoteOperational = 0x63,
    /// Invalid RD request.
    InvalidRd = 0x64,
}

/// The syndrome of an AETH. [`Syndrome::from_u8`] and [`Syndrome::to_u8`] lose nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Positive acknowledgement.
    Ack {
        /// Credit code, 5 bits; [`Syndrome::NO_CREDITS`] says nothing about credits.
        credits: u8,
    },
    /// Receiver not ready.
    RnrNak {
        /// Timer code, 5 bits: see [`rnr_timer_ns`].
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
    /// A byte that protocol.md 1.5 does not define.
    Reserved(u8),
}

impl Syndrome {
    /// The credit code that carries no credit information.
    pub const NO_CREDITS: u8 = 0x1F;
    /// A positive acknowledgement without credit information: what this implementation sends.
    pub const ACK: Self = Self::Ack { credits: Self::NO_CREDITS };

    /// Reads the syndrome byte.
    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Self {
        match (byte & TYPE, byte) {
            (TYPE_ACK, _) => Self::Ack { credits: byte & VALUE },
            (TYPE_RNR, _) => Self::RnrNak { timer: byte & VALUE },
            (_, 0x60) => Self::Nak(NakCode::PsnSequence),
            (_, 0x61) => Self::Nak(NakCode::InvalidRequest),
            (_, 0x62) => Self::Nak(NakCode::RemoteAccess),
            (_, 0x63) => Self::Nak(NakCode::RemoteOperational),
            (_, 0x64) => Self::Nak(NakCode::InvalidRd),
            _ => Self::Reserved(byte),
        }
    }

    /// The syndrome byte. Credit and timer codes are cut to 5 bits.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Ack { credits } => TYPE_ACK | credits & VALUE,
            Self::RnrNak { timer } => TYPE_RNR | timer & VALUE,
            Self::Nak(code) => code as u8,
            Self::Reserved(byte) => byte,
        }
    }
}

/// RNR delays by timer code, in units of 10 us.
const RNR_DELAY_10US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

const RNR_UNIT_NS: u64 = 10_000;

/// The delay in nanoseconds that an RNR timer code asks for. Only the low 5 bits of `code` count.
#[inline]
#[must_use]
pub const fn rnr_timer_ns(code: u8) -> u64 {
    RNR_DELAY_10US[(code & VALUE) as usize] as u64 * RNR_UNIT_NS
}

/// The RNR timer code of the shortest delay that is at least `delay_ns`; the longest, 655.36 ms, if
/// none is.
#[must_use]
pub const fn rnr_timer_code(delay_ns: u64) -> u8 {
    let mut code = 1;
    while code <= VALUE {
        if rnr_timer_ns(code) >= delay_ns {
            return code;
        }
        code += 1;
    }
    0
}
