//! The completion queue: written by the engine, read by the application.

use super::status::WcStatus;
use super::sync::{AtomicU8, Ordering, fence};
use super::word_ring::{WordRing, halves, load, pair, store};
use std::sync::Arc;

/// Words of an entry: wr_id, (byte_len, imm), (qpn, status | opcode | flags), sender's QPN.
const CQE_WORDS: usize = 4;

/// The kind of operation that completed (`ibv_wc_opcode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WcOpcode {
    /// A SEND of ours.
    Send = 0,
    /// An RDMA WRITE of ours.
    RdmaWrite = 1,
    /// An RDMA READ of ours.
    RdmaRead = 2,
    /// A compare-and-swap of ours.
    CompSwap = 3,
    /// A fetch-and-add of ours.
    FetchAdd = 4,
    /// A memory window bound.
    BindMw = 5,
    /// A key of ours invalidated.
    LocalInv = 6,
    /// A receive.
    Recv = 128,
    /// A receive that an RDMA WRITE with immediate consumed.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Send,
            1 => Self::RdmaWrite,
            2 => Self::RdmaRead,
            3 => Self::CompSwap,
            4 => Self::FetchAdd,
            5 => Self::BindMw,
            6 => Self::LocalInv,
            129 => Self::RecvRdmaWithImm,
            _ => Self::Recv,
        }
    }
}

bitflags::bitflags! {
    /// `ibv_wc_flags`, and whether the completion is solicited.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct WcFlags: u8 {
        /// A receive of a datagram: `src_qp` is valid, and the first 40 bytes of the buffer are the
        /// GRH area.
        const GRH = 1;
        /// `imm` is valid.
        const WITH_IMM = 2;
        /// `imm` is the key that a SEND with invalidate ended.
        const WITH_INV = 8;
        /// The sender asked for a solicited event.
        const SOLICITED = 0x80;
    }
}

/// A completion. After an error only `wr_id`, `status` and `qpn` are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Number of the work request.
    pub wr_id: u64,
    /// How the work request ended.
    pub status: WcStatus,
    /// The kind of operation.
    pub opcode: WcOpcode,
    /// Which of the other fields are valid.
    pub flags: WcFlags,
    /// Receives: bytes of the message, of a datagram the 40 of the GRH area, too. READs and
    /// atomics: bytes that came back.
    pub byte_len: u32,
    /// Immediate data, if the flags say so.
    pub imm: u32,
    /// Local queue pair.
    pub qpn: u32,
    /// Receives of datagrams: the sender's queue pair.
    pub src_qp: u32,
}

impl Completion {
    /// Of a work request of queue pair `qpn` that ended so, with nothing more to say of it.
    #[inline(always)]
    pub(crate) const fn new(wr_id: u64, opcode: WcOpcode, qpn: u32, status: WcStatus) -> Self {
        Self { wr_id, status, opcode, flags: WcFlags::empty(), byte_len: 0, imm: 0, qpn, src_qp: 0 }
    }
}

/// Completions that are looked through for one, at most.
const FOUND_MAX: u32 = 256;

/// Which completions the application wants to be told of.
const NONE: u8 = 0;
const SOLICITED: u8 = 1;
const ANY: u8 = 2;

/// What came: a completion that answers only the wish for any, or one that answers both.
const PLAIN_CAME: u8 = 1;
const SOLICITED_CAME: u8 = 2;

/// Makes a completion queue of at least `capacity` entries: the application's end and the engine's.
#[must_use]
pub fn completion_queue(capacity: u32) -> (CompletionQueue, CompletionWriter) {
    completion_queue_from(0, capacity)
}

/// A completion queue whose first completion has the position `start`.
pub(super) fn completion_queue_from(start: u32, capacity: u32) -> (CompletionQueue, CompletionWriter) {
    let ring = WordRing::new(capacity, CQE_WORDS, start);
    let armed = Arc::new(AtomicU8::new(NONE));
    let reader = CompletionQueue { ring: ring.clone(), armed: Arc::clone(&armed), head: start };
    let writer =
        CompletionWriter { ring, armed, tail: start, head_seen: start, listening: false, unheard: NONE };
    (reader, writer)
}

/// The application's end of a completion queue.
pub struct CompletionQueue {
    ring: WordRing,
    /// [`NONE`], [`SOLICITED`] or [`ANY`].
    armed: Arc<AtomicU8>,
    head: u32,
}

impl CompletionQueue {
    /// The oldest completion not yet polled.
    pub fn poll(&mut self) -> Option<Completion> {
        let mut one = [None];
        self.poll_into(&mut one);
        one[0]
    }

    /// Fills `out` from its start with the oldest completions; returns how many.
    #[inline]
    pub fn poll_into(&mut self, out: &mut [Option<Completion>]) -> usize {
        let ring = &self.ring;
        let ready = ring.tail().wrapping_sub(self.head) as usize;
        let count = ready.min(out.len());
        for slot in &mut out[..count] {
            *slot = Some(decode(ring.entry(self.head)));
            self.head = self.head.wrapping_add(1);
        }
        if count > 0 {
            ring.release(self.head);
        }
        count
    }

    /// Position of the oldest completion not yet polled.
    #[must_use]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Completions that wait.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ring.tail().wrapping_sub(self.head)
    }

    /// Completions that fit.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Asks to be told, once, of the next completion, or of the next that is solicited or a failure
    /// (`ibv_req_notify_cq`). A wish for any completion is not taken back by one for solicited
    /// ones. What came before is not told of: poll once more afterwards.
    ///
    /// The fence pairs with the one in [`CompletionWriter::take_event`]: either the engine sees the
    /// wish, or that poll sees the completion.
    pub fn arm(&self, solicited_only: bool) {
        self.armed.fetch_max(if solicited_only { SOLICITED } else { ANY }, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// True if no completion waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The completion queue had no room: the completion is lost, which ends the queue pair (protocol.md
/// 1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqOverflow;

/// The engine's end of a completion queue.
pub struct CompletionWriter {
    ring: WordRing,
    /// That of the other end.
    armed: Arc<AtomicU8>,
    tail: u32,
    head_seen: u32,
    /// The application may ask to be told of completions.
    listening: bool,
    /// The strongest reason to tell since [`CompletionWriter::take_event`].
    unheard: u8,
}

/// More completions wait than a smaller queue would hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{waiting} completions wait; poll them first, or give the queue that many entries")]
pub struct ResizeError {
    /// Completions that wait.
    pub waiting: u32,
}

impl CompletionWriter {
    /// Writes and publishes one completion.
    ///
    /// # Errors
    /// [`CqOverflow`] if the application left no room.
    #[inline]
    pub fn push(&mut self, completion: &Completion) -> Result<(), CqOverflow> {
        self.write(completion)?;
        self.publish();
        Ok(())
    }

    /// Shows the application everything written.
    #[inline]
    pub fn publish(&self) {
        self.ring.publish(self.tail);
    }

    /// Returns `true` if a completion fits.
    #[inline(always)]
    pub fn has_room(&mut self) -> bool {
        self.ring.has_room(self.tail, &mut self.head_seen, self.ring.capacity())
    }

    /// Writes one completion, which shows when it is published.
    ///
    /// # Errors
    /// [`CqOverflow`] if the application left no room.
    #[inline(always)]
    pub fn write(&mut self, completion: &Completion) -> Result<(), CqOverflow> {
        if !self.has_room() {
            return Err(CqOverflow);
        }
        let ring = &self.ring;
        let [wr_id, length, code_word, sender] = ring.words(self.tail);
        store(wr_id, completion.wr_id);
        store(length, pair(completion.byte_len, completion.imm));
        let code = u32::from_le_bytes([
            completion.status as u8,
            completion.opcode as u8,
            completion.flags.bits(),
            0,
        ]);
        store(code_word, pair(completion.qpn, code));
        store(sender, completion.src_qp.into());
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Position behind the last completion that was written.
    pub(crate) const fn tail(&self) -> u32 {
        self.tail
    }

    /// Position of the oldest completion that the application has not taken.
    pub(crate) fn reader_head(&self) -> u32 {
        self.ring.head()
    }

    /// Of the completions of send requests that were written from position `since` on: the `nth`
    /// of that queue pair with that number, or the last, if there are fewer; its position and
    /// status. Looks at the last [`FOUND_MAX`].
    pub(crate) fn find_since(
        &self,
        since: u32,
        (qpn, wr_id): (u32, u64),
        nth: u32,
    ) -> Option<(u32, WcStatus)> {
        let count = self.tail.wrapping_sub(since).min(FOUND_MAX).min(self.ring.capacity());
        let positions = (0..count).rev().map(|back| self.tail.wrapping_sub(back + 1));
        let matching = positions.filter_map(|position| {
            let found = decode(self.ring.entry(position));
            let is_send = (found.opcode as u8) < WcOpcode::Recv as u8;
            (is_send && found.qpn == qpn && found.wr_id == wr_id).then_some((position, found.status))
        });
        let mut found = None;
        for (_, next) in (0..=nth).zip(matching) {
            found = Some(next);
        }
        found
    }

    /// The application may arm the queue from now on.
    pub const fn listen(&mut self) {
        self.listening = true;
    }

    /// After a push: true if the queue must be looked at with [`CompletionWriter::take_event`], for
    /// the first time since it was. Nobody listens to most queues, which costs them one test.
    #[inline]
    pub fn note(&mut self, completion: &Completion) -> bool {
        // By value: a reference would keep every completion from living in registers.
        self.listening && self.note_reason(completion.status, completion.flags)
    }

    #[cold]
    #[inline(never)]
    fn note_reason(&mut self, status: WcStatus, flags: WcFlags) -> bool {
        let first = self.unheard == NONE;
        let solicited = flags.contains(WcFlags::SOLICITED) || status != WcStatus::Success;
        self.unheard = self.unheard.max(if solicited { SOLICITED_CAME } else { PLAIN_CAME });
        first
    }

    /// Returns `true` if the application must be told of what was pushed since the last call. It
    /// then must arm the queue again.
    pub fn take_event(&mut self) -> bool {
        let reason = core::mem::replace(&mut self.unheard, NONE);
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let answers = match reason {
            NONE => false,
            PLAIN_CAME => armed == ANY,
            _ => armed != NONE,
        };
        if answers {
            self.armed.store(NONE, Ordering::Relaxed);
        }
        answers
    }

    /// Gives the queue another size, at least `capacity`; what waits in it is kept. Needs both ends
    /// at once.
    ///
    /// # Errors
    /// [`ResizeError`] if more waits than fits; nothing has changed then.
    ///
    /// # Panics
    /// If `reader` is the end of another queue.
    pub fn resize(&mut self, reader: &mut CompletionQueue, capacity: u32) -> Result<(), ResizeError> {
        assert!(Arc::ptr_eq(&self.armed, &reader.armed), "the ends of two completion queues");
        let waiting = reader.len();
        if waiting > capacity {
            return Err(ResizeError { waiting });
        }
        let next = WordRing::new(capacity, CQE_WORDS, reader.head);
        for position in (0..waiting).map(|index| reader.head.wrapping_add(index)) {
            let old = self.ring.entry(position);
            for (to, from) in next.entry(position).iter().zip(old) {
                store(to, load(from));
            }
        }
        next.publish(self.tail);
        self.head_seen = reader.head;
        self.ring = next.clone();
        reader.ring = next;
        Ok(())
    }
}

/// Inlined, so that the fields go one by one to where they stay. Returned through memory, and then
/// copied in larger pieces, each completion would wait for the store buffer.
#[inline(always)]
fn decode(entry: &[super::sync::AtomicU64]) -> Completion {
    let (byte_len, imm) = halves(load(&entry[1]));
    let (qpn, code) = halves(load(&entry[2]));
    let [status, opcode, flags, _] = code.to_le_bytes();
    let (src_qp, _) = halves(load(&entry[3]));
    Completion {
        wr_id: load(&entry[0]),
        status: WcStatus::from_code(status),
        opcode: WcOpcode::from_code(opcode),
        flags: WcFlags::from_bits_truncate(flags),
        byte_len,
        imm,
        qpn,
        src_qp,
    }
}
