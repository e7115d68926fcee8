//! Packets in flight: what switches look at, and apart from it what the frame is made of again.

use crate::memory::FILL;
use datapath::port::fault::mark_ce;
use datapath::prefetch;

/// First bytes of a frame that are kept as they are. All headers, and the whole of every
/// acknowledgement, lie in them.
pub const HEAD: usize = 96;
/// Bytes at the end that are kept as they are: padding and ICRC.
const TAIL: usize = 8;
/// Bytes that a frame takes on a link beside its own: preamble, FCS, gap.
pub const WIRE_OVERHEAD: u32 = 8 + 4 + 12;
/// No packet.
pub const NONE: u32 = u32::MAX;

/// What a switch knows of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// Number of the host that it goes to.
    pub to: u32,
    /// Hash of what names its flow: addresses and UDP source port.
    pub flow: u32,
    /// Bytes of the frame.
    pub len: u16,
    /// The link by which it came into the switch that holds it, if that link can be paused.
    pub ingress: u32,
    /// It can be marked: ECT.
    pub markable: bool,
    /// It was marked: CE.
    pub marked: bool,
    /// The next one of the list that it is in.
    pub next: u32,
}

impl Meta {
    /// Bytes that it takes on a link, with preamble, FCS and gap.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        self.len as u64 + WIRE_OVERHEAD as u64
    }
}

/// The bytes of a frame that are not [`FILL`].
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Folded {
    head: [u8; HEAD],
    tail: [u8; TAIL],
}

/// A packet on its way from the packets of one thread to those of another.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    meta: Meta,
    folded: Folded,
}

/// All packets in flight.
#[derive(Debug, Default)]
pub struct Packets {
    metas: Vec<Meta>,
    folded: Vec<Folded>,
    free: Vec<u32>,
}

impl Packets {
    /// Folds a frame: keeps its head, its ICRC and what switches look at.
    ///
    /// A frame whose rest is not [`FILL`] comes out with another payload; its receiver's ICRC
    /// tells.
    pub fn fold(&mut self, frame: &[u8]) -> u32 {
        let mut folded = Folded { head: [0; HEAD], tail: [0; TAIL] };
        let head = frame.len().min(HEAD);
        folded.head[..head].copy_from_slice(&frame[..head]);
        if let Some((_, tail)) = frame.split_last_chunk() {
            folded.tail = *tail;
        }
        let len = u16::try_from(frame.len()).unwrap_or(u16::MAX);
        self.insert(Meta { len, ..Meta::of(&folded.head) }, folded)
    }

    /// Puts a packet in of which switches look at `meta`, and its receiver at `head`, of at most
    /// [`HEAD`] bytes.
    pub fn put(&mut self, meta: Meta, head: &[u8]) -> u32 {
        let mut folded = Folded { head: [0; HEAD], tail: [0; TAIL] };
        let len = head.len().min(HEAD);
        folded.head[..len].copy_from_slice(&head[..len]);
        self.insert(Meta { next: NONE, ..meta }, folded)
    }

    fn insert(&mut self, meta: Meta, folded: Folded) -> u32 {
        if let Some(index) = self.free.pop() {
            self.metas[index as usize] = meta;
            self.folded[index as usize] = folded;
            return index;
        }
        self.metas.push(meta);
        self.folded.push(folded);
        u32::try_from(self.metas.len() - 1).unwrap_or(NONE)
    }

    /// The first bytes of a packet.
    #[must_use]
    pub fn head(&self, index: u32) -> &[u8; HEAD] {
        &self.folded[index as usize].head
    }

    /// Makes the frame of a packet again, in a buffer that is [`FILL`] behind its head.
    pub fn unfold(&self, index: u32, frame: &mut [u8]) {
        let (meta, folded) = (&self.metas[index as usize], &self.folded[index as usize]);
        let len = usize::from(meta.len);
        frame[..HEAD].copy_from_slice(&folded.head);
        if len > HEAD {
            frame[len - TAIL..len].copy_from_slice(&folded.tail);
        }
        if meta.marked {
            mark_ce(&mut frame[..HEAD]);
        }
    }

    /// Restores what [`Packets::unfold`] changed behind the head of a buffer.
    pub fn refill(frame: &mut [u8], len: usize) {
        if len > HEAD {
            frame[len - TAIL..len].fill(FILL);
        }
    }

    /// Ends a packet.
    pub fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Takes a packet out, to be put into other packets.
    pub fn pack(&mut self, index: u32) -> Parcel {
        let parcel = Parcel { meta: self.metas[index as usize], folded: self.folded[index as usize] };
        self.free(index);
        parcel
    }

    /// Puts in what [`Packets::pack`] has taken out of others.
    pub fn unpack(&mut self, parcel: Parcel) -> u32 {
        self.insert(parcel.meta, parcel.folded)
    }

    /// What switches look at.
    #[must_use]
    pub fn meta(&self, index: u32) -> &Meta {
        &self.metas[index as usize]
    }

    /// What switches look at, to change it.
    pub fn meta_mut(&mut self, index: u32) -> &mut Meta {
        &mut self.metas[index as usize]
    }

    /// Starts to fetch what switches look at of a packet.
    pub fn prefetch_meta(&self, index: u32) {
        prefetch::read_all(&self.metas[index as usize]);
    }

    /// Starts to fetch what a packet's frame is made of.
    pub fn prefetch(&self, index: u32) {
        prefetch::read_all(&self.folded[index as usize]);
    }

    /// Packets in flight now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.metas.len() - self.free.len()
    }
}

impl Meta {
    /// Of an untagged IPv4 frame to a host of the fabric.
    fn of(head: &[u8; HEAD]) -> Self {
        const TOS: usize = 15;
        const SOURCE: usize = 26;
        const DESTINATION: usize = 30;
        const UDP_SOURCE: usize = 34;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let port = u32::from(head[UDP_SOURCE]) << 8 | u32::from(head[UDP_SOURCE + 1]);
        let (from, to) = (word(SOURCE), word(DESTINATION));
        Self {
            to: to & 0xFF_FFFF,
            flow: mix(from ^ to.rotate_left(12) ^ port << 16 ^ port),
            markable: matches!(head[TOS] & 3, 1 | 2),
            next: NONE,
            ..Self::default()
        }
    }
}

/// The finalizer of MurmurHash3: every bit of the result depends on every bit of `x`.
#[must_use]
pub const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85EB_CA6B);
    x ^= x >> 13;
    x = x.wrapping_mul(0xC2B2_AE35);
    x ^ x >> 16
}

/// Packets in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
    /// How many.
    pub len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    /// Adds a packet at the end.
    pub fn push(&mut self, packets: &mut Packets, index: u32) {
        packets.meta_mut(index).next = NONE;
        if self.len == 0 {
            self.first = index;
        } else {
            packets.meta_mut(self.last).next = index;
        }
        self.last = index;
        self.len += 1;
    }

    /// The first packet.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        (self.len > 0).then_some(self.first)
    }

    /// Takes the first packet.
    pub fn pop(&mut self, packets: &Packets) -> Option<u32> {
        let index = self.first()?;
        self.first = packets.meta(index).next;
        self.len -= 1;
        Some(index)
    }
}
