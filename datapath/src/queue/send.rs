//! The send queue: written by the application, read in place by the engine, never cached (paper section 4.2).

use super::doorbell::{QpShared, SendPositions};
use super::entries::LINE_WORDS;
use super::sync::AtomicU64;
use super::word_ring::{Freed, WordRing, halves, load, pair, store};
use super::work_request::{
    ATOMIC_BYTES, PostError, QueueCaps, SendData, SendFlags, SendOpcode, SendRequest, Sge,
    WORK_REQUEST_BYTES_MAX, total_length,
};
use crate::memory::{Access, Binding, Mapped, MemoryTable, ProtectionDomainId};
use crate::qp::state::{PostVerdict, QpType};
use crate::tuning::WQES_PER_TURN;
use std::sync::Arc;

/// Words of the head of an entry: wr_id, remote address, (rkey, imm), (length, opcode | flags | sges | inline).
const HEAD_WORDS: usize = 4;
/// Words of a scatter-gather element: address, (length, lkey).
const SGE_WORDS: usize = 2;
const INLINE_BIT: u32 = 1 << 24;
/// One element, in the same word.
const ONE_SGE: u32 = 1 << 16;
/// Words of an atomic's operands, behind its one element: compare, swap or add. Any entry has room for them.
const OPERANDS: usize = SGE_WORDS;
const _: () = assert!(HEAD_WORDS + OPERANDS + 2 <= LINE_WORDS, "an atomic fits the shortest entry");

/// Makes a send queue: the application's end and the engine's. Its positions stand in `shared`, which has no other one.
#[must_use]
pub fn send_queue(caps: &QueueCaps, shared: &Arc<QpShared>) -> (SendQueue, SendQueueReader) {
    send_queue_from(0, caps, shared)
}

/// A send queue whose first request has the position `start`.
pub(super) fn send_queue_from(
    start: u32,
    caps: &QueueCaps,
    shared: &Arc<QpShared>,
) -> (SendQueue, SendQueueReader) {
    let inline_words = caps.max_inline.div_ceil(8) as usize;
    let body = inline_words.max(caps.max_send_sge as usize * SGE_WORDS);
    // Whole cache lines: an atomic needs one.
    let stride = (HEAD_WORDS + body).next_multiple_of(LINE_WORDS);
    let ring = WordRing::at(SendPositions(Arc::clone(shared)), caps.max_send_wr, stride, start);
    let reader = SendQueueReader { ring: ring.clone() };
    let service = QpType::Rc;
    let queue = SendQueue {
        ring,
        caps: *caps,
        service,
        max_message: WORK_REQUEST_BYTES_MAX,
        tail: start,
        published: start,
        head_seen: start,
    };
    (queue, reader)
}

/// The application's end of a send queue.
pub struct SendQueue {
    ring: WordRing<SendPositions>,
    caps: QueueCaps,
    service: QpType,
    /// Longest message, in bytes.
    max_message: u64,
    tail: u32,
    /// What the engine sees of it.
    published: u32,
    head_seen: u32,
}

impl SendQueue {
    #[inline]
    fn shared(&self) -> &QpShared {
        &self.ring.positions().0
    }

    /// Its sizes.
    #[must_use]
    pub const fn caps(&self) -> QueueCaps {
        self.caps
    }

    /// The send queue of a queue pair of another type than RC; a datagram has `packet` bytes at most.
    #[must_use]
    pub fn of_service(self, service: QpType, packet: u32) -> Self {
        let max_message = if service == QpType::Ud { packet.into() } else { WORK_REQUEST_BYTES_MAX };
        Self { service, max_message, ..self }
    }

    /// The queue pair's type.
    #[must_use]
    pub const fn service(&self) -> QpType {
        self.service
    }

    /// Posts one request and rings the doorbell if the queue pair was idle.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.write(request)?;
        self.publish();
        self.shared().ring();
        Ok(())
    }

    /// Posts requests until one is refused; one publish and one doorbell for all. Returns how many were posted, and
    /// the reason if it was not all of them.
    pub fn post_batch<'a, 'b: 'a>(
        &mut self,
        requests: impl IntoIterator<Item = &'a SendRequest<'b>>,
    ) -> (usize, Result<(), PostError>) {
        let mut posted = 0;
        for request in requests {
            if let Err(error) = self.stage(request) {
                self.submit();
                return (posted, Err(error));
            }
            posted += 1;
        }
        self.submit();
        (posted, Ok(()))
    }

    /// Writes one request, which the engine sees after [`SendQueue::submit`] only.
    ///
    /// # Errors
    /// [`PostError`]; nothing was written then.
    #[inline]
    pub fn stage(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.write(request)
    }

    /// Posts what was staged: one publish and one doorbell for all. False if there was nothing.
    #[inline]
    pub fn submit(&mut self) -> bool {
        let staged = self.tail != self.published;
        if staged {
            self.publish();
            self.shared().ring();
        }
        staged
    }

    /// Posts what was staged without a doorbell, for who has the engine at hand and tells it by
    /// [`Engine::push`](crate::engine::Engine::push) at once: a doorbell costs several fences. `None` if nothing was staged.
    #[inline]
    pub fn hand_over(&mut self) -> Option<Handed> {
        let staged = self.tail != self.published;
        staged.then(|| {
            self.publish();
            Handed { slot: self.shared().slot() }
        })
    }

    #[inline]
    fn publish(&mut self) {
        self.published = self.tail;
        self.ring.publish(self.tail);
    }

    /// Requests posted and not yet given back by the engine.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.ring.head())
    }

    fn write(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let state = self.shared().state();
        if state.post_send() == PostVerdict::Refused {
            return Err(PostError::WrongState { state, what: "send" });
        }
        let length = self.check_data(request)?;
        if !self.ring.has_room(self.tail, &mut self.head_seen, self.caps.max_send_wr) {
            return Err(PostError::QueueFull { capacity: self.caps.max_send_wr });
        }
        let entry = self.ring.entry(self.tail);
        let kind = match request.data {
            SendData::Gather(&[sge]) => write_sge(entry, &sge),
            SendData::Gather(sges) => {
                write_sges(&entry[HEAD_WORDS..], sges);
                u32::try_from(sges.len()).unwrap_or(0) << 16
            }
            SendData::Inline(bytes) => {
                write_inline(&entry[HEAD_WORDS..], bytes);
                INLINE_BIT
            }
            SendData::Bind(binding) => write_sge(entry, &binding.range),
            SendData::Atomic { result, compare, swap_or_add } => {
                store(&entry[HEAD_WORDS + OPERANDS], compare);
                store(&entry[HEAD_WORDS + OPERANDS + 1], swap_or_add);
                write_sge(entry, &result)
            }
        };
        store(&entry[0], request.wr_id);
        let (addr, imm) = match request.data {
            SendData::Bind(binding) => (binding.access.bits().into(), binding.new_key),
            _ => (request.remote_addr, request.imm),
        };
        store(&entry[1], addr);
        store(&entry[2], pair(request.rkey, imm));
        let code = request.opcode as u32 | u32::from(request.flags.bits()) << 8 | kind;
        store(&entry[3], pair(length, code));
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn check_data(&self, request: &SendRequest<'_>) -> Result<u32, PostError> {
        let fits = match &request.data {
            SendData::Gather(sges) if request.opcode == SendOpcode::LocalInv => sges.is_empty(),
            SendData::Gather(_) => !request.opcode.is_atomic() && request.opcode != SendOpcode::BindWindow,
            SendData::Inline(_) => !request.opcode.has_response() && !request.opcode.is_local(),
            SendData::Bind(_) => request.opcode == SendOpcode::BindWindow,
            SendData::Atomic { result, .. } => request.opcode.is_atomic() && result.length == ATOMIC_BYTES,
        };
        if !fits {
            return Err(PostError::WrongData { opcode: request.opcode });
        }
        if !request.opcode.is_carried_by(self.service) {
            return Err(PostError::WrongService { opcode: request.opcode, qp_type: self.service });
        }
        let length = match &request.data {
            SendData::Gather(sges) => {
                if sges.len() > self.caps.max_send_sge as usize {
                    return Err(PostError::TooManySges { given: sges.len(), max: self.caps.max_send_sge });
                }
                total_length(sges)
            }
            SendData::Inline(bytes) => {
                if bytes.len() > self.caps.max_inline as usize {
                    return Err(PostError::InlineTooLong { given: bytes.len(), max: self.caps.max_inline });
                }
                bytes.len() as u64
            }
            SendData::Atomic { result, .. } => result.length.into(),
            SendData::Bind(_) => 0,
        };
        if length > self.max_message {
            return Err(self.too_long(length));
        }
        u32::try_from(length).map_err(|_| PostError::TooLong { given: length })
    }

    #[cold]
    fn too_long(&self, given: u64) -> PostError {
        match u32::try_from(self.max_message) {
            Ok(max) if self.service == QpType::Ud => PostError::DatagramTooLong { given, max },
            _ => PostError::TooLong { given },
        }
    }
}

/// The only element of an entry; returns what its head says of that.
#[inline]
fn write_sge(entry: &[AtomicU64], sge: &Sge) -> u32 {
    store(&entry[HEAD_WORDS], sge.addr);
    store(&entry[HEAD_WORDS + 1], pair(sge.length, sge.lkey));
    ONE_SGE
}

fn write_sges(words: &[AtomicU64], sges: &[Sge]) {
    for (sge, words) in sges.iter().zip(words.chunks_exact(SGE_WORDS)) {
        store(&words[0], sge.addr);
        store(&words[1], pair(sge.length, sge.lkey));
    }
}

fn write_inline(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    let mut words = words.iter();
    for (chunk, word) in whole.iter().zip(&mut words) {
        store(word, u64::from_le_bytes(*chunk));
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        store(word, u64::from_le_bytes(last));
    }
}

/// A queue pair with requests posted that no doorbell tells of: the engine must be told before it is let go.
#[derive(Debug)]
#[must_use = "nothing else tells the engine of what was posted"]
pub struct Handed {
    pub(crate) slot: u32,
}

/// The engine's end of a send queue.
pub struct SendQueueReader {
    ring: WordRing<SendPositions>,
}

impl SendQueueReader {
    /// What the queue pair's application sees of it, the positions of this queue among it.
    #[inline]
    pub(crate) fn shared(&self) -> &QpShared {
        &self.ring.positions().0
    }

    /// Starts to fetch the queue's state.
    #[inline]
    pub(crate) fn expect(&self) {
        self.ring.expect();
    }

    /// Starts to fetch the requests that are posted from `position` on, those of a turn at most, soon after
    /// [`SendQueueReader::expect`].
    #[inline]
    pub(crate) fn expect_wqes(&self, position: u32) {
        self.ring.expect_entries(position, self.tail().wrapping_sub(position).min(WQES_PER_TURN));
    }

    /// Position behind the last posted request.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.ring.tail()
    }

    /// The request at `position`, which must lie between the head and the tail.
    #[inline]
    #[must_use]
    pub fn wqe(&self, position: u32) -> SendWqe<'_> {
        let entry = self.ring.entry(position);
        let (rkey, imm) = halves(load(&entry[2]));
        let (length, code) = halves(load(&entry[3]));
        let [opcode, flags, sge_count, inline] = code.to_le_bytes();
        SendWqe {
            wr_id: load(&entry[0]),
            remote_addr: load(&entry[1]),
            rkey,
            imm,
            length,
            opcode: SendOpcode::from_code(opcode),
            flags: SendFlags::from_bits_truncate(flags),
            inline: inline != 0,
            sge_count,
            body: &entry[HEAD_WORDS..],
        }
    }

    /// The request at `position`, if it is as most are.
    #[inline(always)]
    #[must_use]
    pub(crate) fn common(&self, position: u32) -> Option<CommonWqe<'_>> {
        const WRITE: u32 = SendOpcode::Write as u32;
        const FLAGS: u32 = SendFlags::SIGNALED.union(SendFlags::SOLICITED).bits() as u32;
        const { assert!(SendOpcode::Send as u32 == 0 && WRITE.count_ones() == 1, "one bit tells them apart") };
        let [_, remote_addr, rkey, code, addr, lkey] = self.ring.words(position);
        let (length, code) = halves(load(code));
        let data = match code & !(WRITE | FLAGS << 8) {
            ONE_SGE => {
                let (_, lkey) = halves(load(lkey));
                CommonData::Gather { addr: load(addr), lkey }
            }
            INLINE_BIT => CommonData::Inline(&self.ring.entry(position)[HEAD_WORDS..]),
            _ => return None,
        };
        let (rkey, _) = halves(load(rkey));
        Some(CommonWqe {
            is_write: code & WRITE != 0,
            solicited: code & (SendFlags::SOLICITED.bits() as u32) << 8 != 0,
            length,
            remote_addr: load(remote_addr),
            rkey,
            data,
        })
    }

    /// What of the request at `position` its completion says: no more than that is read.
    #[inline(always)]
    #[must_use]
    pub(crate) fn sent(&self, position: u32) -> SentRequest {
        let [wr_id, _, _, code] = self.ring.words(position);
        let (length, code) = halves(load(code));
        let [opcode, flags, ..] = code.to_le_bytes();
        SentRequest {
            wr_id: load(wr_id),
            length,
            opcode: SendOpcode::from_code(opcode),
            flags: SendFlags::from_bits_truncate(flags),
        }
    }

    /// Gives all requests below `head` back to the application.
    #[inline]
    pub fn release(&self, head: u32) -> Freed {
        self.ring.release(head)
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ring.bytes()
    }
}

/// A WRITE or SEND without immediate data that nothing holds back, whose data are in one piece.
pub(crate) struct CommonWqe<'a> {
    /// A WRITE; else a SEND.
    pub is_write: bool,
    pub solicited: bool,
    /// Bytes of the message.
    pub length: u32,
    /// WRITE: first address at the peer.
    pub remote_addr: u64,
    /// WRITE: key at the peer.
    pub rkey: u32,
    data: CommonData<'a>,
}

enum CommonData<'a> {
    /// One element, as long as the message.
    Gather { addr: u64, lkey: u32 },
    /// Words of the queue itself.
    Inline(&'a [AtomicU64]),
}

impl<'a> CommonWqe<'a> {
    /// The data, if they are in the queue or in memory that `pd` may read.
    #[inline(always)]
    pub fn mapped(&self, memory: &'a MemoryTable, pd: ProtectionDomainId) -> Option<Mapped<'a>> {
        match self.data {
            CommonData::Gather { addr, lkey } => {
                memory.check(lkey, pd, addr, self.length.into(), Access::empty()).ok()
            }
            // SAFETY: the request lies between head and tail, where nobody writes.
            CommonData::Inline(words) => unsafe { in_queue(words, self.length as usize) },
        }
    }
}

/// The first `len` bytes of words of the queue.
///
/// # Safety
/// Nobody writes to them as long as they are borrowed.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn in_queue(words: &[AtomicU64], len: usize) -> Option<Mapped<'_>> {
    // SAFETY: the words are memory that may change behind a reference, and stays while they are borrowed.
    (len <= size_of_val(words)).then(|| unsafe { Mapped::new(core::ptr::NonNull::from(words).cast(), len) })
}

/// Loom's words are no memory.
#[cfg(loom)]
unsafe fn in_queue(_words: &[AtomicU64], _len: usize) -> Option<Mapped<'_>> {
    None
}

/// What a completion says of its request.
#[derive(Clone, Copy)]
pub(crate) struct SentRequest {
    pub wr_id: u64,
    pub length: u32,
    pub opcode: SendOpcode,
    pub flags: SendFlags,
}

/// A send request, read in place.
#[derive(Clone, Copy)]
pub struct SendWqe<'a> {
    /// The application's own number.
    pub wr_id: u64,
    /// WRITE, READ, atomics: first address at the peer.
    pub remote_addr: u64,
    /// WRITE, READ, atomics: key at the peer.
    pub rkey: u32,
    /// Immediate data.
    pub imm: u32,
    /// Bytes of the message.
    pub length: u32,
    /// What to do.
    pub opcode: SendOpcode,
    /// How.
    pub flags: SendFlags,
    inline: bool,
    sge_count: u8,
    body: &'a [AtomicU64],
}

impl SendWqe<'_> {
    /// True if the data are in the queue itself.
    #[inline]
    #[must_use]
    pub const fn is_inline(&self) -> bool {
        self.inline
    }

    /// True if READs and atomics before it decide when it may begin.
    #[inline]
    #[must_use]
    pub const fn minds_responses(&self) -> bool {
        // Those with a response and those without a packet come last in the enum: one comparison for all.
        self.opcode as u8 >= SendOpcode::Read as u8 || self.flags.contains(SendFlags::FENCE)
    }

    /// What a window is to show.
    #[must_use]
    pub fn binding(&self) -> Option<Binding> {
        let [bits, ..] = self.remote_addr.to_le_bytes();
        let access = Access::from_bits_truncate(bits);
        self.sges().next().map(|range| Binding { range, access, new_key: self.imm })
    }

    /// The operands of an atomic: compare, and swap or add.
    #[must_use]
    pub fn operands(&self) -> (u64, u64) {
        let word = |at: usize| self.body.get(OPERANDS + at).map_or(0, load);
        (word(0), word(1))
    }

    /// Copies inline data from `offset` on; `target` must not reach behind the message.
    pub fn read_inline(&self, offset: usize, target: &mut [u8]) {
        let (first, skip) = (offset / 8, offset % 8);
        let mut words =
            self.body.get(first..).unwrap_or_default().iter().map(|word| load(word).to_le_bytes());
        // Nothing, as packets begin where words do; but no caller promises that.
        let head = if skip == 0 { 0 } else { (8 - skip).min(target.len()) };
        let (head, rest) = target.split_at_mut(head);
        if !head.is_empty() {
            let word = words.next().unwrap_or_default();
            head.copy_from_slice(&word[skip..skip + head.len()]);
        }
        let (whole, rest) = rest.as_chunks_mut();
        for (chunk, word) in whole.iter_mut().zip(&mut words) {
            *chunk = word;
        }
        if !rest.is_empty() {
            let word = words.next().unwrap_or_default();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }

    /// The element, if it is the only one.
    #[inline]
    #[must_use]
    pub fn only_sge(&self) -> Option<Sge> {
        if self.inline || self.sge_count != 1 { None } else { self.sges().next() }
    }

    /// The elements, in order.
    #[inline]
    pub fn sges(&self) -> impl Iterator<Item = Sge> {
        self.body.chunks_exact(SGE_WORDS).take(usize::from(self.sge_count)).map(|words| {
            let (length, lkey) = halves(load(&words[1]));
            Sge { addr: load(&words[0]), length, lkey }
        })
    }
}
