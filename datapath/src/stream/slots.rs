//! Completion slots: the ends of messages that arrived out of order, by MSN, until the fast path
//! emits them in order.

use wire::{Msn, Psn, Ssn};

/// Longest out-of-order WRITE ONLY that is parked in its slot, in bytes (protocol.md 2.4).
pub const PARKED_BYTES_MAX: usize = 64;

/// What a slot's message was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// SEND.
    Send,
    /// WRITE.
    Write,
    /// READ or atomic.
    Read,
}

/// Slots that a word has bits for.
const WORD: usize = u64::BITS as usize;

/// The end of one message.
#[derive(Clone, Copy, Debug)]
pub struct CompletionSlot {
    /// Number of the message.
    pub msn: Msn,
    /// PSN of its END packet.
    pub end_psn: Psn,
    /// Index of the END packet in the message.
    pub offset: u32,
    /// What it was.
    pub kind: SlotKind,
    /// The receive that it consumes, if it does.
    pub ssn: Option<Ssn>,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The sender asked for a solicited event.
    pub solicited: bool,
    /// Bytes of the whole message.
    pub byte_len: u32,
    /// What is done at emission.
    pub deferred: Option<Deferred>,
}

/// What waits for a message's turn.
#[derive(Clone, Copy, Debug)]
pub enum Deferred {
    /// A small WRITE is written.
    Write(ParkedWrite),
    /// A key is invalidated: that of a SEND with invalidate.
    Invalidate(u32),
    /// A READ or atomic is executed.
    Respond(ResponseRequest),
}

/// A READ or atomic request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseRequest {
    /// Slot of its response.
    pub rslot: u8,
    /// First PSN of its response.
    pub rpsn_start: Psn,
    /// First address.
    pub va: u64,
    /// Key.
    pub rkey: u32,
    /// What to do there.
    pub operation: Operation,
}

/// What a READ or atomic request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// READ.
    Read {
        /// Bytes.
        len: u32,
    },
    /// Compare-and-swap of 8 bytes.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What is stored then.
        swap: u64,
    },
    /// Fetch-and-add of 8 bytes.
    FetchAdd {
        /// What is added.
        add: u64,
    },
}

/// A small WRITE, kept back.
#[derive(Clone, Copy, Debug)]
pub struct ParkedWrite {
    /// First address.
    pub va: u64,
    /// Key.
    pub rkey: u32,
    len: u8,
    bytes: [u8; PARKED_BYTES_MAX],
}

impl ParkedWrite {
    /// Keeps `payload`, if it is short enough.
    #[must_use]
    pub fn new(va: u64, rkey: u32, payload: &[u8]) -> Option<Self> {
        let mut bytes = [0; PARKED_BYTES_MAX];
        bytes.get_mut(..payload.len())?.copy_from_slice(payload);
        Some(Self { va, rkey, len: u8::try_from(payload.len()).ok()?, bytes })
    }

    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The slots of one stream in Recovery.
pub struct CompletionSlots {
    slots: Box<[Option<CompletionSlot>]>,
    /// Which of them hold something, a bit each, and how many.
    taken: Box<[u64]>,
    count: u32,
}

impl CompletionSlots {
    /// Slots for a window of `window` packets, which can hold no more messages than that.
    #[must_use]
    pub fn new(window: u16) -> Self {
        let slots = usize::from(window).next_power_of_two();
        Self { slots: vec![None; slots].into(), taken: vec![0; slots.div_ceil(WORD)].into(), count: 0 }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.taken)
    }

    /// Writes the slot of `slot.msn`; a duplicate writes the same again.
    pub fn put(&mut self, slot: CompletionSlot) {
        let index = self.index(slot.msn);
        if self.slots[index].replace(slot).is_none() {
            self.taken[index / WORD] |= 1 << (index % WORD);
            self.count += 1;
        }
    }

    /// Takes the slot of `msn` if its message ends before `epsn`.
    pub fn take_below(&mut self, msn: Msn, epsn: Psn) -> Option<CompletionSlot> {
        let index = self.index(msn);
        let slot = self.slots[index].take_if(|slot| slot.msn == msn && slot.end_psn.is_before(epsn))?;
        self.taken[index / WORD] &= !(1 << (index % WORD));
        self.count -= 1;
        Some(slot)
    }

    /// Forgets all. Touches those slots only that hold something: mostly none.
    pub fn clear(&mut self) {
        if self.count == 0 {
            return;
        }
        for (word, slots) in self.taken.iter_mut().zip(self.slots.chunks_mut(WORD)) {
            while *word != 0 {
                slots[word.trailing_zeros() as usize] = None;
                *word &= *word - 1;
            }
        }
        self.count = 0;
    }

    fn index(&self, msn: Msn) -> usize {
        msn.get() as usize & (self.slots.len() - 1)
    }
}

impl CompletionSlot {
    /// Whether the message's first packet was `first`.
    #[must_use]
    pub fn offset_matches(&self, first: Psn) -> bool {
        offset_is(self.end_psn.steps_from(first), self.offset, self.ssn)
    }
}

/// Whether a packet that says `offset` is the `index`-th of its message. Without an SSN word, in
/// WRITEs without immediate, it says only the low 16 bits.
#[inline]
#[must_use]
pub const fn offset_is(index: u32, offset: u32, ssn: Option<Ssn>) -> bool {
    if ssn.is_some() { offset == index } else { (offset ^ index) & 0xFFFF == 0 }
}
