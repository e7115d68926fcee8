//! The completion queue: written by the engine, read by the application.

use super::word_ring::{WordRing, halves, load, pair, store};
use std::sync::Arc;

/// Words of an entry: wr_id, (byte_len, imm), (qpn, status | opcode | flags).
const CQE_WORDS: usize = 4;

/// Completion status, the values of `ibv_wc_status` (protocol.md 1.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum WcStatus {
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocProtErr = 4,
    WrFlushErr = 5,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    FatalErr = 19,
    GeneralErr = 21,
}

impl WcStatus {
    const ALL: [Self; 14] = [
        Self::Success,
        Self::LocLenErr,
        Self::LocQpOpErr,
        Self::LocProtErr,
        Self::WrFlushErr,
        Self::BadRespErr,
        Self::LocAccessErr,
        Self::RemInvReqErr,
        Self::RemAccessErr,
        Self::RemOpErr,
        Self::RetryExcErr,
        Self::RnrRetryExcErr,
        Self::FatalErr,
        Self::GeneralErr,
    ];

    fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|status| *status as u8 == code).unwrap_or(Self::GeneralErr)
    }
}

/// What completed, the values of `ibv_wc_opcode`.
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
            129 => Self::RecvRdmaWithImm,
            _ => Self::Recv,
        }
    }
}

bitflags::bitflags! {
    /// `ibv_wc_flags`, and whether the completion is solicited.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct WcFlags: u8 {
        /// `imm` is valid.
        const WITH_IMM = 2;
        /// The sender asked for a solicited event.
        const SOLICITED = 0x80;
    }
}

/// A completion. After an error only `wr_id`, `status` and `qpn` are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Number of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Which of the other fields are valid.
    pub flags: WcFlags,
    /// Receives: bytes of the message. READs and atomics: bytes that came back.
    pub byte_len: u32,
    /// Immediate data, if the flags say so.
    pub imm: u32,
    /// Local queue pair.
    pub qpn: u32,
}

/// Makes a completion queue of at least `capacity` entries: the application's end and the engine's.
#[must_use]
pub fn completion_queue(capacity: u32) -> (CompletionQueue, CompletionWriter) {
    completion_queue_from(0, capacity)
}

/// A completion queue whose first completion has the position `start`.
pub(super) fn completion_queue_from(start: u32, capacity: u32) -> (CompletionQueue, CompletionWriter) {
    let ring = Arc::new(WordRing::new(capacity, CQE_WORDS, start));
    let reader = CompletionQueue { ring: Arc::clone(&ring), head: start };
    (reader, CompletionWriter { ring, tail: start, head_seen: start })
}

/// The application's end of a completion queue.
pub struct CompletionQueue {
    ring: Arc<WordRing>,
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
    pub fn poll_into(&mut self, out: &mut [Option<Completion>]) -> usize {
        let ready = self.ring.tail().wrapping_sub(self.head) as usize;
        let count = ready.min(out.len());
        for slot in &mut out[..count] {
            *slot = Some(decode(self.ring.entry(self.head)));
            self.head = self.head.wrapping_add(1);
        }
        if count > 0 {
            self.ring.release(self.head);
        }
        count
    }

    /// Completions that wait.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ring.tail().wrapping_sub(self.head)
    }

    /// True if no completion waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The completion queue had no room: the completion is lost, which ends the queue pair (protocol.md 1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqOverflow;

/// The engine's end of a completion queue.
pub struct CompletionWriter {
    ring: Arc<WordRing>,
    tail: u32,
    head_seen: u32,
}

impl CompletionWriter {
    /// Writes and publishes one completion.
    ///
    /// # Errors
    /// [`CqOverflow`] if the application left no room.
    #[inline]
    pub fn push(&mut self, completion: &Completion) -> Result<(), CqOverflow> {
        if self.tail.wrapping_sub(self.head_seen) >= self.ring.capacity() {
            self.head_seen = self.ring.head();
            if self.tail.wrapping_sub(self.head_seen) >= self.ring.capacity() {
                return Err(CqOverflow);
            }
        }
        let entry = self.ring.entry(self.tail);
        store(&entry[0], completion.wr_id);
        store(&entry[1], pair(completion.byte_len, completion.imm));
        let code = u32::from_le_bytes([
            completion.status as u8,
            completion.opcode as u8,
            completion.flags.bits(),
            0,
        ]);
        store(&entry[2], pair(completion.qpn, code));
        self.tail = self.tail.wrapping_add(1);
        self.ring.publish(self.tail);
        Ok(())
    }
}

fn decode(entry: &[super::sync::AtomicU64]) -> Completion {
    let (byte_len, imm) = halves(load(&entry[1]));
    let (qpn, code) = halves(load(&entry[2]));
    let [status, opcode, flags, _] = code.to_le_bytes();
    Completion {
        wr_id: load(&entry[0]),
        status: WcStatus::from_code(status),
        opcode: WcOpcode::from_code(opcode),
        flags: WcFlags::from_bits_truncate(flags),
        byte_len,
        imm,
        qpn,
    }
}
