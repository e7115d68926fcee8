//! BTH opcodes (protocol.md 1.3).

/// The transport service that bits 7..5 of an opcode name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, no service of its own.
    Cnp,
}

/// The operation that a packet is part of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// SEND, with or without immediate or invalidate.
    Send,
    /// RDMA WRITE, with or without immediate.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// ACK, NAK or RNR NAK.
    Ack,
    /// Result of an atomic.
    AtomicAck,
    /// Compare-and-swap or fetch-and-add.
    Atomic,
    /// Congestion notification packet.
    Cnp,
}

/// The position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// First of several packets.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several packets.
    Last,
    /// The whole message.
    Only,
}

/// Declares the enum from one table: name = byte, kind, position, immediate or invalidate.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $transport:ident $kind:ident $position:ident $tail:ident;)+) => {
        /// Every opcode of RC, UC, UD and the CNP. The value is the byte on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $byte,)+
        }

        impl Opcode {
            /// All opcodes, in ascending order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            const fn describe(self) -> Description {
                match self {
                    $(Self::$name => Description {
                        transport: Transport::$transport,
                        kind: Kind::$kind,
                        position: Position::$position,
                        tail: Tail::$tail,
                    },)+
                }
            }
        }
    };
}

/// What an opcode stands for.
#[derive(Clone, Copy)]
struct Description {
    transport: Transport,
    kind: Kind,
    position: Position,
    tail: Tail,
}

/// By the opcode's byte, so that no question costs a search.
static DESCRIPTIONS: [Description; 256] = {
    let mut table = [Opcode::Cnp.describe(); 256];
    let mut i = 0;
    while i < Opcode::ALL.len() {
        table[Opcode::ALL[i] as usize] = Opcode::ALL[i].describe();
        i += 1;
    }
    table
};

/// What the END packet of a message delivers besides payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Bare,
    Imm,
    Inv,
}

opcodes! {
    /// RC SEND First.
    RcSendFirst = 0x00, Rc Send First Bare;
    /// RC SEND Middle.
    RcSendMiddle = 0x01, Rc Send Middle Bare;
    /// RC SEND Last.
    RcSendLast = 0x02, Rc Send Last Bare;
    /// RC SEND Last with Immediate.
    RcSendLastImm = 0x03, Rc Send Last Imm;
    /// RC SEND Only.
    RcSendOnly = 0x04, Rc Send Only Bare;
    /// RC SEND Only with Immediate.
    RcSendOnlyImm = 0x05, Rc Send Only Imm;
    /// RC WRITE First.
    RcWriteFirst = 0x06, Rc Write First Bare;
    /// RC WRITE Middle.
    RcWriteMiddle = 0x07, Rc Write Middle Bare;
    /// RC WRITE Last.
    RcWriteLast = 0x08, Rc Write Last Bare;
    /// RC WRITE Last with Immediate.
    RcWriteLastImm = 0x09, Rc Write Last Imm;
    /// RC WRITE Only.
    RcWriteOnly = 0x0A, Rc Write Only Bare;
    /// RC WRITE Only with Immediate.
    RcWriteOnlyImm = 0x0B, Rc Write Only Imm;
    /// RC READ Request.
    RcReadRequest = 0x0C, Rc ReadRequest Only Bare;
    /// RC READ Response First.
    RcReadResponseFirst = 0x0D, Rc ReadResponse First Bare;
    /// RC READ Response Middle.
    RcReadResponseMiddle = 0x0E, Rc ReadResponse Middle Bare;
    /// RC READ Response Last.
    RcReadResponseLast = 0x0F, Rc ReadResponse Last Bare;
    /// RC READ Response Only.
    RcReadResponseOnly = 0x10, Rc ReadResponse Only Bare;
    /// RC Acknowledge: ACK, NAK, RNR NAK and, in the SRNIC dialect, READ-ACK.
    RcAck = 0x11, Rc Ack Only Bare;
    /// RC Atomic Acknowledge.
    RcAtomicAck = 0x12, Rc AtomicAck Only Bare;
    /// RC Compare-and-Swap.
    RcCompareSwap = 0x13, Rc Atomic Only Bare;
    /// RC Fetch-and-Add.
    RcFetchAdd = 0x14, Rc Atomic Only Bare;
    /// RC SEND Last with Invalidate.
    RcSendLastInv = 0x16, Rc Send Last Inv;
    /// RC SEND Only with Invalidate.
    RcSendOnlyInv = 0x17, Rc Send Only Inv;
    /// UC SEND First.
    UcSendFirst = 0x20, Uc Send First Bare;
    /// UC SEND Middle.
    UcSendMiddle = 0x21, Uc Send Middle Bare;
    /// UC SEND Last.
    UcSendLast = 0x22, Uc Send Last Bare;
    /// UC SEND Last with Immediate.
    UcSendLastImm = 0x23, Uc Send Last Imm;
    /// UC SEND Only.
    UcSendOnly = 0x24, Uc Send Only Bare;
    /// UC SEND Only with Immediate.
    UcSendOnlyImm = 0x25, Uc Send Only Imm;
    /// UC WRITE First.
    UcWriteFirst = 0x26, Uc Write First Bare;
    /// UC WRITE Middle.
    UcWriteMiddle = 0x27, Uc Write Middle Bare;
    /// UC WRITE Last.
    UcWriteLast = 0x28, Uc Write Last Bare;
    /// UC WRITE Last with Immediate.
    UcWriteLastImm = 0x29, Uc Write Last Imm;
    /// UC WRITE Only.
    UcWriteOnly = 0x2A, Uc Write Only Bare;
    /// UC WRITE Only with Immediate.
    UcWriteOnlyImm = 0x2B, Uc Write Only Imm;
    /// UD SEND Only.
    UdSendOnly = 0x64, Ud Send Only Bare;
    /// UD SEND Only with Immediate.
    UdSendOnlyImm = 0x65, Ud Send Only Imm;
    /// Congestion notification packet. Its 16 reserved bytes count as payload here (protocol.md
    /// 1.8).
    Cnp = 0x81, Cnp Cnp Only Bare;
}

/// `from_u8` as a table, so that no byte costs a search.
const FROM_U8: [Option<Opcode>; 256] = {
    let mut table = [None; 256];
    let mut i = 0;
    while i < Opcode::ALL.len() {
        table[Opcode::ALL[i] as usize] = Some(Opcode::ALL[i]);
        i += 1;
    }
    table
};

impl Opcode {
    /// The opcode of this byte, if it is one.
    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        FROM_U8[byte as usize]
    }

    /// The service this opcode belongs to.
    #[inline]
    #[must_use]
    pub const fn transport(self) -> Transport {
        DESCRIPTIONS[self as usize].transport
    }

    /// The operation that the packet is part of.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> Kind {
        DESCRIPTIONS[self as usize].kind
    }

    /// The position of the packet in its message.
    #[inline]
    #[must_use]
    pub const fn position(self) -> Position {
        DESCRIPTIONS[self as usize].position
    }

    #[inline]
    const fn tail(self) -> Tail {
        DESCRIPTIONS[self as usize].tail
    }

    /// The opcode of this operation and position in another service; `None` if that has no such
    /// packet.
    #[inline]
    #[must_use]
    pub const fn in_transport(self, transport: Transport) -> Option<Self> {
        let service = match transport {
            Transport::Rc => 0b000,
            Transport::Uc => 0b001,
            Transport::Ud => 0b011,
            Transport::Cnp => 0b100,
        };
        Self::from_u8(self as u8 & 0x1F | service << 5)
    }

    /// True for the first packet of a message: First or Only.
    #[inline]
    #[must_use]
    pub const fn is_start(self) -> bool {
        matches!(self.position(), Position::First | Position::Only)
    }

    /// True for the last packet of a message: Last or Only.
    #[inline]
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self.position(), Position::Last | Position::Only)
    }

    /// True if the packet carries ImmDt.
    #[inline]
    #[must_use]
    pub const fn has_imm(self) -> bool {
        matches!(self.tail(), Tail::Imm)
    }

    /// True if the packet carries IETH, the rkey to invalidate.
    #[inline]
    #[must_use]
    pub const fn has_inv(self) -> bool {
        matches!(self.tail(), Tail::Inv)
    }

    /// True for what a requester sends: SEND, WRITE, READ request, atomic.
    #[inline]
    #[must_use]
    pub const fn is_request(self) -> bool {
        matches!(self.kind(), Kind::Send | Kind::Write | Kind::ReadRequest | Kind::Atomic)
    }

    /// True if the packet needs a receive WQE: any SEND, and a WRITE with immediate, which takes
    /// its WQE at the END packet only.
    #[inline]
    #[must_use]
    pub const fn consumes_rwqe(self) -> bool {
        match self.kind() {
            Kind::Send => true,
            Kind::Write => self.has_imm(),
            _ => false,
        }
    }
}
