//! Messages: what they are, where their bytes come from and go to, and what is wrong with some of
//! them.

use simnet::Rng;

/// Bytes between pieces that nobody may write.
const GAP: usize = 8;
/// Messages of at most this many bytes are written in order, whatever order they arrive in
/// (protocol.md 2.4).
pub(super) const ORDERED_BYTES_MAX: usize = 64;

/// A part of a flow's source or target region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// SEND.
    Send,
    /// WRITE.
    Write,
    /// READ of bytes that are the READ's own, or of what the WRITE of that index wrote.
    Read(Option<usize>),
    /// FETCH_AND_ADD of this.
    FetchAdd(u64),
    /// CMP_AND_SWP: expects the first, stores the second.
    CompareSwap(u64, u64),
    /// BIND_MW of the window that the flow in the other direction goes through.
    Bind,
    /// LOCAL_INV of that window.
    Unbind,
}

impl Kind {
    /// True if it brings data from the peer.
    pub const fn has_response(self) -> bool {
        matches!(self, Self::Read(_) | Self::FetchAdd(_) | Self::CompareSwap(..))
    }

    /// True if the engine carries it out without a packet.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Bind | Self::Unbind)
    }

    /// True of FETCH_AND_ADD and CMP_AND_SWP.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd(_) | Self::CompareSwap(..))
    }
}

/// What is wrong with a message, and so how it must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// A WRITE, a READ or an atomic with a key that names nothing.
    RemoteKey,
    /// A WRITE or a READ that ends behind its region.
    RemoteRange,
    /// An atomic whose word is not aligned.
    Crooked,
    /// Local data with a key that names nothing.
    LocalKey,
    /// A SEND that is longer than its receive.
    ShortReceive,
    /// A SEND into a receive whose key names nothing.
    ReceiveKey,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub len: usize,
    /// With immediate data.
    pub imm: bool,
    /// Its success is reported.
    pub signaled: bool,
    /// The peer's completion is a solicited event.
    pub solicited: bool,
    /// It waits for all READs and atomics before it.
    pub fenced: bool,
    /// It ends the window that the flow goes through.
    pub invalidates: bool,
    /// The data travel in the send queue.
    pub inline: bool,
    /// The sender's end: where the data come from, or where those of a READ or atomic go.
    pub source: Vec<Piece>,
    /// The receiver's end: the receive's elements, the one range of a WRITE or READ, or the word of
    /// an atomic.
    pub target: Vec<Piece>,
    /// The receive that a WRITE with immediate consumes, which must stay untouched.
    pub bystander: Option<Piece>,
    /// Number of the group of WRITEs to one address that its first packet belongs to; its others
    /// belong to the next ones.
    pub group: Option<usize>,
    /// What is wrong with it.
    pub defect: Option<Defect>,
}

impl Message {
    /// A signaled message of so many bytes, of which nothing else is known yet.
    pub const fn new(kind: Kind, len: usize) -> Self {
        Self {
            kind,
            len,
            imm: false,
            signaled: true,
            solicited: false,
            fenced: false,
            invalidates: false,
            inline: false,
            source: Vec::new(),
            target: Vec::new(),
            bystander: None,
            group: None,
            defect: None,
        }
    }

    /// True if it consumes a receive.
    pub fn consumes_receive(&self) -> bool {
        self.kind == Kind::Send || self.imm
    }

    /// Packets that its data fill.
    pub fn packets(&self, pmtu: usize) -> usize {
        self.len.div_ceil(pmtu).max(1)
    }
}

/// The limits within which messages are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Path MTU in bytes.
    pub pmtu: usize,
    /// Inline bytes at most.
    pub inline_max: usize,
    /// Elements of a send at most.
    pub send_sges: usize,
    /// Elements of a receive at most.
    pub recv_sges: usize,
    /// Messages.
    pub count: usize,
    /// Bytes of all messages, about.
    pub bytes: usize,
}

/// The messages of a flow, and the sizes of the regions that they need.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// In the order of posting.
    pub messages: Vec<Message>,
    /// Bytes of the source region.
    pub source_len: usize,
    /// Bytes of the target region.
    pub target_len: usize,
    /// Groups of WRITEs to one address; one of WRITEs of several packets counts as one for each
    /// packet.
    pub groups: usize,
    /// Bytes of a packet of such a WRITE.
    pub packet: usize,
}

impl Script {
    /// Draws the messages of a flow.
    pub fn draw(rng: &mut Rng, limits: &Limits) -> Self {
        let mut script = Self { packet: limits.pmtu, ..Self::default() };
        let mut bytes = 0;
        while script.messages.len() < limits.count && bytes < limits.bytes {
            if rng.below(40) == 0 {
                let len = 8 + rng.index(ORDERED_BYTES_MAX - 7);
                script.draw_group(rng, limits, len);
                continue;
            }
            let len = draw_len(rng, limits);
            bytes += len;
            script.draw_message(rng, limits, len);
        }
        script
    }

    /// Request packets of all messages.
    pub fn packets(&self, pmtu: usize) -> usize {
        let packets = |message: &Message| match message.kind {
            Kind::Bind | Kind::Unbind => 0,
            kind if kind.has_response() => 1,
            _ => message.packets(pmtu),
        };
        self.messages.iter().map(packets).sum()
    }

    /// READs and atomics among the messages.
    pub fn answered(&self) -> usize {
        self.messages.iter().filter(|message| message.kind.has_response()).count()
    }

    /// Response packets of all messages.
    pub fn responses(&self, pmtu: usize) -> usize {
        let answered = self.messages.iter().filter(|message| message.kind.has_response());
        answered.map(|message| message.packets(pmtu)).sum()
    }

    /// Spoils one message.
    pub fn spoil(&mut self, rng: &mut Rng) {
        let candidates: Vec<usize> = (0..self.messages.len())
            .filter(|&index| self.messages[index].len > 0 && self.messages[index].group.is_none())
            .collect();
        if candidates.is_empty() {
            return;
        }
        let message = &mut self.messages[candidates[rng.index(candidates.len())]];
        let defect = match (message.kind, rng.below(3)) {
            (_, 0) if !message.inline => Defect::LocalKey,
            (Kind::Write, 0 | 1) => Defect::RemoteKey,
            (Kind::Write, _) => Defect::RemoteRange,
            (Kind::Send, 0 | 1) => Defect::ShortReceive,
            (Kind::Send, _) => Defect::ReceiveKey,
            (Kind::Read(_), 1) => Defect::RemoteRange,
            (Kind::FetchAdd(_) | Kind::CompareSwap(..), 1) => Defect::Crooked,
            _ => Defect::RemoteKey,
        };
        if defect == Defect::ShortReceive {
            let len = rng.index(message.len);
            message.target.truncate(1);
            message.target[0].len = len.min(message.target[0].len);
        }
        message.defect = Some(defect);
    }

    /// Sixteen or more WRITEs of `len` bytes to one address: the last value must stand.
    pub fn draw_group(&mut self, rng: &mut Rng, limits: &Limits, len: usize) {
        let target = place(&mut self.target_len, len);
        for _ in 0..16 + rng.below(8) {
            if rng.below(8) == 0 {
                let between = draw_len(rng, limits);
                self.draw_message(rng, limits, between);
            }
            let inline = len <= limits.inline_max && rng.below(2) == 0;
            let source = if inline { Vec::new() } else { vec![place(&mut self.source_len, len)] };
            self.messages.push(Message {
                signaled: rng.below(3) == 0,
                inline,
                source,
                target: vec![target],
                group: Some(self.groups),
                ..Message::new(Kind::Write, len)
            });
        }
        self.groups += len.div_ceil(self.packet);
    }

    fn draw_message(&mut self, rng: &mut Rng, limits: &Limits, len: usize) {
        let kind = if rng.below(2) == 0 { Kind::Send } else { Kind::Write };
        let imm = rng.below(3) == 0;
        let inline = len <= limits.inline_max && rng.below(2) == 0;
        let source =
            if inline { Vec::new() } else { scatter(rng, &mut self.source_len, len, limits.send_sges) };
        let slack = if rng.below(2) == 0 { 0 } else { rng.index(100) };
        let target = match kind {
            Kind::Send => scatter(rng, &mut self.target_len, len + slack, limits.recv_sges),
            _ => vec![place(&mut self.target_len, len)],
        };
        let bystander =
            (kind == Kind::Write && imm && rng.below(2) == 0).then(|| place(&mut self.target_len, 16));
        self.messages.push(Message {
            imm,
            signaled: rng.below(4) > 0,
            solicited: rng.below(4) == 0,
            inline,
            source,
            target,
            bystander,
            ..Message::new(kind, len)
        });
    }
}

pub(super) fn draw_len(rng: &mut Rng, limits: &Limits) -> usize {
    let pmtu = limits.pmtu;
    match rng.below(40) {
        0 | 1 => 0,
        2..=15 => rng.index(ORDERED_BYTES_MAX + 2),
        16..=25 => rng.index(pmtu + 1),
        26..=32 => (pmtu * (1 + rng.index(4)) + 1).saturating_sub(rng.index(3)),
        33..=37 => rng.index(16 * 1024),
        38 => rng.index(64 * 1024),
        _ => rng.index(limits.bytes),
    }
}

/// A new piece at the end of a region.
pub(super) fn place(end: &mut usize, len: usize) -> Piece {
    let offset = *end;
    *end += len + GAP;
    Piece { offset, len }
}

/// `len` bytes in up to `pieces_max` pieces, some of them empty.
pub(super) fn scatter(rng: &mut Rng, end: &mut usize, len: usize, pieces_max: usize) -> Vec<Piece> {
    let count = if rng.below(2) == 0 { 1 } else { 1 + rng.index(pieces_max) };
    if len == 0 && rng.below(2) == 0 {
        return Vec::new();
    }
    let mut rest = len;
    let mut pieces: Vec<Piece> = (1..count)
        .map(|_| {
            let part = rng.index(rest + 1);
            rest -= part;
            place(end, part)
        })
        .collect();
    pieces.push(place(end, rest));
    pieces
}
