//! The send queue: written by the application, read in place by the engine, never cached (paper
//! section 4.2).

use super::completion::Completion;
use super::doorbell::{QpShared, SendPositions};
use super::send_entries::SendEntries;
use super::sges::{SGE_WORDS, load_sges, store_sges};
use super::status::WcStatus;
use super::sync::AtomicU64;
use super::word_ring::{Freed, Positions as _, WordRing, halves, load, pair, store};
use super::work_request::{
    ATOMIC_BYTES, PostError, QueueCaps, SendData, SendFlags, SendOpcode, SendRequest, WORK_REQUEST_BYTES_MAX,
    total_length,
};
use crate::memory::{Access, Binding, Mapped, MemoryTable, ProtectionDomainId, Sge};
use crate::prefetch;
use crate::qp_state::{PostVerdict, QpState, QpType};
use crate::tuning::WQES_PER_TURN;
use core::sync::atomic::Ordering;
use std::sync::Arc;

const INLINE_BIT: u32 = 1 << 24;
/// One element, in the head.
const ONE_SGE: u32 = 1 << 16;

/// [`WORK_REQUEST_BYTES_MAX`], in as few bits as it has.
const MESSAGE_BYTES_MAX: u32 = 1 << 31;
const _: () = assert!(MESSAGE_BYTES_MAX as u64 == WORK_REQUEST_BYTES_MAX);
/// Bytes of what a request sends that are fetched ahead; what is behind them the processor expects
/// by itself.
const DATA_EXPECTED: usize = 512;

type Ring = WordRing<SendPositions, SendEntries>;

/// Makes a send queue: the application's end and the engine's. Its positions stand in `shared`,
/// which has no other one.
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
    // One element has its place in the head.
    let sge_words = if caps.max_send_sge > 1 { caps.max_send_sge as usize * SGE_WORDS } else { 0 };
    let entries = SendEntries::new(caps.max_send_wr, inline_words.max(sge_words));
    let ring = WordRing::of(entries, SendPositions(Arc::clone(shared)), start);
    let reader = SendQueueReader { ring: ring.clone() };
    let queue = SendQueue {
        ring,
        tail: start,
        published: start,
        head_seen: start,
        max_message: MESSAGE_BYTES_MAX,
        max_wr: caps.max_send_wr.try_into().unwrap_or(u16::MAX),
        max_sge: caps.max_send_sge.try_into().unwrap_or(u8::MAX),
        max_inline: caps.max_inline.try_into().unwrap_or(u8::MAX),
        service: QpType::Rc,
    };
    (queue, reader)
}

/// How far the engine is with a send queue. It needs neither end of the queue.
pub struct SendProgress(SendPositions);

impl SendProgress {
    /// The place behind every request that was posted up to now, for
    /// [`has_ended`](Self::has_ended).
    #[must_use]
    pub fn posted(&self) -> u32 {
        self.0.tail().load(Ordering::Acquire)
    }

    /// Whether the engine has given back every request in front of such a place, which is less than
    /// 2^31 requests old.
    #[must_use]
    pub fn has_ended(&self, posted: u32) -> bool {
        self.0.head().load(Ordering::Acquire).wrapping_sub(posted).cast_signed() >= 0
    }
}

/// The application's end of a send queue.
pub struct SendQueue {
    ring: Ring,
    tail: u32,
    /// What the engine sees of it.
    published: u32,
    head_seen: u32,
    /// Longest message, in bytes.
    max_message: u32,
    max_wr: u16,
    max_sge: u8,
    max_inline: u8,
    service: QpType,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SendQueue>() <= 56, "with a pointer to more a cache line");
const _: () = assert!(QueueCaps::WR_LIMIT <= u16::MAX as u32, "`max_wr` of both queues");
const _: () = assert!(QueueCaps::SGE_LIMIT <= u8::MAX as u32, "`max_sge` of both queues");
const _: () = assert!(QueueCaps::INLINE_LIMIT <= u8::MAX as u32, "`max_inline`");

impl SendQueue {
    #[inline]
    fn shared(&self) -> &QpShared {
        &self.ring.positions().0
    }

    /// The state of the queue pair, as the engine published it last.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.shared().state()
    }

    /// The send queue of a queue pair of another type than RC; a datagram has `packet` bytes at
    /// most.
    #[must_use]
    pub fn of_service(self, service: QpType, packet: u32) -> Self {
        let max_message = if service == QpType::Ud { packet } else { MESSAGE_BYTES_MAX };
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

    /// Posts requests until one is refused; one publish and one doorbell for all. Returns how many
    /// were posted, and the reason if it was not all of them.
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
    /// [`Engine::push`](crate::engine::Engine::push) at once: a doorbell costs several fences.
    /// `None` if nothing was staged.
    #[inline]
    pub fn hand_over(&mut self) -> Option<Handed> {
        let staged = self.tail != self.published;
        staged.then(|| {
            self.publish();
            Handed { slot: self.shared().slot() }
        })
    }

    /// Returns `true` if what is staged has the request in it that is a multiple of `count`, of all
    /// since the queue pair was made. `count` is a power of two.
    #[inline]
    #[must_use]
    pub const fn reaches_multiple_of(&self, count: u32) -> bool {
        self.tail / count != self.published / count
    }

    /// Takes back what was staged and not posted.
    pub const fn discard(&mut self) {
        self.tail = self.published;
    }

    #[inline]
    fn publish(&mut self) {
        self.published = self.tail;
        self.ring.publish(self.tail);
    }

    /// Position of the request that was staged last.
    #[inline]
    pub(crate) const fn last_position(&self) -> u32 {
        self.tail.wrapping_sub(1)
    }

    /// Where the engine has its queue pair.
    pub(crate) fn slot(&self) -> u32 {
        self.shared().slot()
    }

    /// Requests posted and not yet given back by the engine.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.ring.head())
    }

    /// How far the engine is with it, for any thread.
    #[must_use]
    pub fn progress(&self) -> SendProgress {
        SendProgress(self.ring.positions().clone())
    }

    fn write(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let state = self.shared().state();
        if state.post_send() == PostVerdict::Refused {
            return Err(PostError::WrongState { state, what: "send" });
        }
        let length = self.check_data(request)?;
        let capacity = self.max_wr.into();
        if !self.ring.has_room(self.tail, &mut self.head_seen, capacity) {
            return Err(PostError::QueueFull { capacity });
        }
        let entries = self.ring.entries();
        let none = Sge::default();
        let (only, kind) = match request.data {
            SendData::Gather(&[sge]) => (sge, ONE_SGE),
            SendData::Gather(sges) => {
                store_sges(entries.body(self.tail), sges);
                (none, u32::try_from(sges.len()).unwrap_or(0) << 16)
            }
            SendData::Inline(bytes) => {
                write_inline(entries.body(self.tail), bytes);
                (none, INLINE_BIT)
            }
            SendData::Bind(binding) => (binding.range, 0),
            SendData::Atomic { result, compare, swap_or_add } => {
                let body = entries.body(self.tail);
                store(&body[0], compare);
                store(&body[1], swap_or_add);
                (result, ONE_SGE)
            }
        };
        let (remote_addr, imm) = match request.data {
            SendData::Bind(binding) => (binding.access.bits().into(), binding.new_key),
            _ => (request.remote_addr, request.imm),
        };
        if request.opcode.names_remote() || self.service == QpType::Ud {
            let [address, key] = entries.remote(self.tail);
            store(address, remote_addr);
            store(key, pair(request.rkey, only.length));
        }
        let [wr_id, addr, lkey, code] = entries.head(self.tail);
        store(wr_id, request.wr_id);
        store(addr, only.addr);
        store(lkey, pair(only.lkey, imm));
        let opcode = request.opcode as u32 | u32::from(request.flags.bits()) << 8;
        store(code, pair(length, opcode | kind));
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
                if sges.len() > usize::from(self.max_sge) {
                    return Err(PostError::TooManySges { given: sges.len(), max: self.max_sge.into() });
                }
                total_length(sges)
            }
            SendData::Inline(bytes) => {
                if bytes.len() > usize::from(self.max_inline) {
                    return Err(PostError::InlineTooLong { given: bytes.len(), max: self.max_inline.into() });
                }
                bytes.len() as u64
            }
            SendData::Atomic { result, .. } => result.length.into(),
            SendData::Bind(_) => 0,
        };
        u32::try_from(length)
            .ok()
            .filter(|length| *length <= self.max_message)
            .ok_or_else(|| self.too_long(length))
    }

    #[cold]
    fn too_long(&self, given: u64) -> PostError {
        if self.service == QpType::Ud {
            PostError::DatagramTooLong { given, max: self.max_message }
        } else {
            PostError::TooLong { given }
        }
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

/// A queue pair with requests posted that no doorbell tells of: the engine must be told before it
/// is let go.
#[derive(Debug)]
#[must_use = "nothing else tells the engine of what was posted"]
pub struct Handed {
    pub(crate) slot: u32,
}

/// The engine's end of a send queue.
pub struct SendQueueReader {
    ring: Ring,
}

impl SendQueueReader {
    /// What the queue pair's application sees of it, the positions of this queue among it.
    #[inline]
    pub(crate) fn shared(&self) -> &QpShared {
        &self.ring.positions().0
    }

    /// Starts to fetch the queue's state.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.ring.prefetch();
    }

    /// Starts to fetch the requests that are posted from `position` on, those of a turn at most,
    /// soon after [`SendQueueReader::prefetch`]; returns how many.
    #[inline]
    pub(crate) fn prefetch_wqes(&self, position: u32) -> u32 {
        let count = self.next_ones(position);
        self.ring.entries().lines_of_heads(position, count).for_each(prefetch::read);
        count
    }

    /// Starts to fetch the first bytes that the request at `position` sends, if it was posted and
    /// is as most are, and where those of a turn write to, soon after
    /// [`SendQueueReader::prefetch_wqes`]. The bytes are looked for at the address that the request
    /// has: the hint is wasted if their memory is registered under another one.
    #[inline]
    pub(crate) fn prefetch_data(&self, position: u32) {
        let count = self.next_ones(position);
        if count == 0 {
            return;
        }
        let Some(wqe) = self.common(position) else { return };
        if wqe.is_write {
            self.ring.entries().lines_of_remotes(position, count).for_each(prefetch::read);
        }
        let start = match wqe.data {
            CommonData::Gather { addr, .. } => {
                core::ptr::without_provenance(usize::try_from(addr).unwrap_or_default())
            }
            CommonData::Inline(words) => words.as_ptr().cast(),
        };
        prefetch::read_lines(start, (wqe.length as usize).min(DATA_EXPECTED));
    }

    /// Requests from `position` on, those of a turn at most.
    #[inline]
    fn next_ones(&self, position: u32) -> u32 {
        self.tail().wrapping_sub(position).min(WQES_PER_TURN)
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
        let entries = self.ring.entries();
        let [wr_id, addr, lkey, code] = entries.head(position).each_ref().map(load);
        let (lkey, imm) = halves(lkey);
        let (length, code) = halves(code);
        let [opcode, flags, sge_count, inline] = code.to_le_bytes();
        SendWqe {
            wr_id,
            imm,
            length,
            opcode: SendOpcode::from_code(opcode),
            flags: SendFlags::from_bits_truncate(flags),
            inline: inline != 0,
            sge_count,
            only: Sge { addr, length, lkey },
            remote: entries.remote(position),
            body: entries.body(position),
        }
    }

    /// The request at `position`, if it is as most are.
    #[inline(always)]
    #[must_use]
    pub(crate) fn common(&self, position: u32) -> Option<CommonWqe<'_>> {
        self.common_but(0, position).map(|(wqe, _)| wqe)
    }

    /// The request at `position`, if its packets are as those of most are, and whether its last one
    /// has an immediate beside.
    #[inline(always)]
    #[must_use]
    pub(crate) fn common_but_last(&self, position: u32) -> Option<(CommonWqe<'_>, bool)> {
        const IMM: u32 = SendOpcode::SendWithImm as u32;
        const { assert!(SendOpcode::WriteWithImm as u32 == SendOpcode::Write as u32 | IMM && IMM == 1) };
        self.common_but(IMM, position).map(|(wqe, code)| (wqe, code & IMM != 0))
    }

    /// The request at `position` and its code, if that is of a common one but for the bits of
    /// `but`.
    #[inline(always)]
    fn common_but(&self, but: u32, position: u32) -> Option<(CommonWqe<'_>, u32)> {
        const WRITE: u32 = SendOpcode::Write as u32;
        const FLAGS: u32 = SendFlags::SIGNALED.union(SendFlags::SOLICITED).bits() as u32;
        const { assert!(SendOpcode::Send as u32 == 0 && WRITE.count_ones() == 1, "one bit tells them apart") };
        let entries = self.ring.entries();
        let [_, addr, lkey, code] = entries.head(position);
        let (length, code) = halves(load(code));
        let data = match code & !(WRITE | but | FLAGS << 8) {
            ONE_SGE => {
                let (lkey, _) = halves(load(lkey));
                CommonData::Gather { addr: load(addr), lkey }
            }
            INLINE_BIT => CommonData::Inline(entries.body(position)),
            _ => return None,
        };
        let wqe = CommonWqe {
            is_write: code & WRITE != 0,
            solicited: code & (SendFlags::SOLICITED.bits() as u32) << 8 != 0,
            length,
            remote: entries.remote(position),
            data,
        };
        Some((wqe, code))
    }

    /// What of the request at `position` its completion says: no more than that is read.
    #[inline(always)]
    #[must_use]
    pub(crate) fn sent(&self, position: u32) -> SentRequest {
        let [wr_id, _, _, code] = self.ring.entries().head(position);
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
        self.ring.entries().bytes()
    }
}

/// A WRITE or SEND without immediate data that nothing holds back, whose data are in one piece.
pub(crate) struct CommonWqe<'a> {
    /// A WRITE; else a SEND.
    pub is_write: bool,
    pub solicited: bool,
    /// Bytes of the message.
    pub length: u32,
    remote: &'a [AtomicU64; 2],
    data: CommonData<'a>,
}

enum CommonData<'a> {
    /// One element, as long as the message.
    Gather { addr: u64, lkey: u32 },
    /// Words of the queue itself.
    Inline(&'a [AtomicU64]),
}

impl<'a> CommonWqe<'a> {
    /// WRITE: first address and key at the peer.
    #[inline(always)]
    pub fn remote(&self) -> (u64, u32) {
        remote_of(self.remote)
    }

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
    // SAFETY: the words are memory that may change behind a reference, and stays while they are
    // borrowed.
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

impl SentRequest {
    /// The completion of the request, which succeeded, of queue pair `qpn`; `None` if it is not
    /// signaled.
    #[inline(always)]
    pub fn completion(&self, qpn: u32) -> Option<Completion> {
        let done = Completion::new(self.wr_id, self.opcode.completes_as(), qpn, WcStatus::Success);
        let signaled = self.flags.contains(SendFlags::SIGNALED);
        signaled.then_some(Completion { byte_len: self.length, ..done })
    }
}

/// A send request, read in place.
#[derive(Clone, Copy)]
pub struct SendWqe<'a> {
    /// The application's own number.
    pub wr_id: u64,
    /// Immediate data.
    pub imm: u32,
    /// Bytes of the message.
    pub length: u32,
    /// The operation.
    pub opcode: SendOpcode,
    /// The flags of the request.
    pub flags: SendFlags,
    inline: bool,
    sge_count: u8,
    /// The only element of a request that has one, as long as the message.
    only: Sge,
    remote: &'a [AtomicU64; 2],
    body: &'a [AtomicU64],
}

/// Address and key at the peer.
#[inline(always)]
fn remote_of([address, key]: &[AtomicU64; 2]) -> (u64, u32) {
    let (key, _) = halves(load(key));
    (load(address), key)
}

impl SendWqe<'_> {
    /// WRITE, READ, atomics: first address and key at the peer. Datagrams: where they go, as
    /// [`DatagramAddress::to_word`](super::DatagramAddress::to_word) has it, and the Q_Key. Of no
    /// meaning with other operations.
    #[inline(always)]
    #[must_use]
    pub fn remote(&self) -> (u64, u32) {
        remote_of(self.remote)
    }

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
        // Those with a response and those without a packet come last in the enum: one comparison
        // for all.
        self.opcode as u8 >= SendOpcode::Read as u8 || self.flags.contains(SendFlags::FENCE)
    }

    /// For a BIND_MW: the present key of the window, and the range that it is to show.
    #[must_use]
    pub fn binding(&self) -> (u32, Binding) {
        let [access, key] = self.remote.each_ref().map(load);
        let [bits, ..] = access.to_le_bytes();
        let (present_key, length) = halves(key);
        let range = Sge { length, ..self.only };
        (present_key, Binding { range, access: Access::from_bits_truncate(bits), new_key: self.imm })
    }

    /// The operands of an atomic: compare, and swap or add.
    #[must_use]
    pub fn operands(&self) -> (u64, u64) {
        let word = |at: usize| self.body.get(at).map_or(0, load);
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
        (self.sge_count == 1).then_some(self.only)
    }

    /// The elements, in order.
    #[inline]
    pub fn sges(&self) -> impl Iterator<Item = Sge> {
        let several = if self.sge_count > 1 { usize::from(self.sge_count) } else { 0 };
        self.only_sge().into_iter().chain(load_sges(self.body, several))
    }
}
