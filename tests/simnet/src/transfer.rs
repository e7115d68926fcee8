//! A sequence of messages from one queue pair to another, every byte and every completion of it
//! checked.

use crate::filter::Filter;
use crate::network::LinkId;
use crate::rig::{Qp, Region, Rig, Span, Stuck, Work};
use crate::rng::Rng;
use datapath::queue::{Completion, PostError, WcFlags, WcOpcode, WcStatus};
use datapath::time::Time;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Fetch-and-add, or compare-and-swap, in turn; the length is not used.
    Atomic,
}

impl Op {
    /// Those that bring data to the peer.
    pub const ALL: [Self; 4] = [Self::Send, Self::SendImm, Self::Write, Self::WriteImm];
    /// Those, and those that bring data from the peer.
    pub const WITH_RESPONSES: [Self; 7] =
        [Self::Send, Self::SendImm, Self::Write, Self::WriteImm, Self::Read, Self::Read, Self::Atomic];

    const fn consumes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::WriteImm)
    }

    const fn has_response(self) -> bool {
        matches!(self, Self::Read | Self::Atomic)
    }

    const fn has_imm(self) -> bool {
        matches!(self, Self::SendImm | Self::WriteImm)
    }

    const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm)
    }
}

/// One message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it is.
    pub op: Op,
    /// Bytes.
    pub len: usize,
    /// Whether its success is reported.
    pub signaled: bool,
}

impl Message {
    /// A signaled message.
    #[must_use]
    pub const fn new(op: Op, len: usize) -> Self {
        Self { op, len, signaled: true }
    }

    /// `count` messages to the peer of random kinds and of 0 to `len_max` bytes, most of them
    /// short; a third unsignaled.
    #[must_use]
    pub fn mix(rng: &mut Rng, count: usize, len_max: usize) -> Vec<Self> {
        Self::mix_of(&Op::ALL, rng, count, len_max)
    }

    /// `count` messages to the peer of random kinds among `ops` and of 0 to `len_max` bytes, most
    /// of them short; a third unsignaled.
    #[must_use]
    pub fn mix_of(ops: &[Op], rng: &mut Rng, count: usize, len_max: usize) -> Vec<Self> {
        (0..count)
            .map(|_| {
                let scale = len_max >> (2 * rng.below(4));
                Self { op: ops[rng.index(ops.len())], len: rng.index(scale + 1), signaled: rng.below(3) > 0 }
            })
            .collect()
    }
}

/// A transfer under way. Posts as the queues allow; checks every completion the moment it is
/// polled.
///
/// The target of message `i` is its own part of one region, WRITE, SEND or READ, so that a byte in
/// the wrong place is seen. All atomics of a transfer work on one word, which counts them: each
/// finds there how many were before it.
pub struct Transfer {
    from: Qp,
    to: Qp,
    messages: Vec<Message>,
    source: Region,
    target: Region,
    /// What READs read, at the peer, and the word of the atomics before it.
    remote: Region,
    /// Where READs and atomics put what they got.
    local: Region,
    offsets: Vec<usize>,
    /// Messages by the receives that they consume, in order.
    receives: Vec<usize>,
    posted: usize,
    receives_posted: usize,
    sends_seen: usize,
    sends_log: usize,
    receives_seen: usize,
    receives_log: usize,
    seed: u64,
    finished: bool,
    receives_ahead_max: usize,
    receive_every_ns: u64,
    next_receive_at: Time,
}

/// What a few messages take at most to survive the loss of some packets, in nanoseconds.
const LOSS_LIMIT_NS: u64 = 100_000_000;
/// Bytes of an atomic's word.
const WORD: usize = 8;

/// Low bits of a wr_id number the message; the high ones say that it is one of ours.
const WR_ID_BASE: u64 = 0x7E57 << 32;

impl Transfer {
    /// Plans a transfer; posts nothing yet. The pattern of message `i` is that of `seed + i`.
    #[must_use]
    pub fn new(rig: &mut Rig, from: Qp, to: Qp, messages: Vec<Message>, seed: u64) -> Self {
        let mut offsets = Vec::with_capacity(messages.len());
        let mut end = 0;
        for message in &messages {
            offsets.push(end);
            end += if message.op == Op::Atomic { WORD } else { message.len };
        }
        let (source, target) = (rig.region(from.node(), end.max(1)), rig.region(to.node(), end.max(1)));
        let (remote, local) = (rig.region(to.node(), WORD + end), rig.region(from.node(), end.max(1)));
        for (index, message) in messages.iter().enumerate() {
            let pattern = seed + index as u64;
            match message.op {
                Op::Atomic => {}
                Op::Read => rig.fill(remote.at(WORD + offsets[index], message.len), pattern),
                _ => rig.fill(source.at(offsets[index], message.len), pattern),
            }
        }
        let receives = (0..messages.len()).filter(|&index| messages[index].op.consumes_receive()).collect();
        let (sends_log, receives_log) = (rig.sends(from).len(), rig.recvs(to).len());
        Self {
            from,
            to,
            messages,
            source,
            target,
            remote,
            local,
            offsets,
            receives,
            posted: 0,
            receives_posted: 0,
            sends_seen: 0,
            sends_log,
            receives_seen: 0,
            receives_log,
            seed,
            finished: false,
            receives_ahead_max: usize::MAX,
            receive_every_ns: 0,
            next_receive_at: Time::ZERO,
        }
    }

    /// This transfer to a slow receiver: at most `ahead` receives are posted at a time, and one
    /// every `every_ns`.
    #[must_use]
    pub fn with_slow_receiver(mut self, ahead: usize, every_ns: u64) -> Self {
        (self.receives_ahead_max, self.receive_every_ns) = (ahead, every_ns);
        self
    }

    /// Posts what fits, and checks what completed since the last call.
    ///
    /// # Panics
    /// If a completion is wrong, out of order, too many, or came before its data.
    pub fn step(&mut self, rig: &mut Rig) {
        self.post_receives(rig);
        self.post_sends(rig);
        while let Some(done) = rig.recvs(self.to).get(self.receives_log).copied() {
            self.receives_log += 1;
            self.check_receive(rig, &done);
        }
        while let Some(done) = rig.sends(self.from).get(self.sends_log).copied() {
            self.sends_log += 1;
            self.check_send(rig, &done);
        }
    }

    /// Returns `true` if every completion that must come has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let signaled = self.messages[self.sends_seen..].iter().any(|message| message.signaled);
        self.posted == self.messages.len() && !signaled && self.receives_seen == self.receives.len()
    }

    /// Returns `true` if the peer has the data of every message, the unsignaled ones at the end
    /// included.
    #[must_use]
    pub fn has_arrived(&self, rig: &Rig) -> bool {
        (0..self.messages.len()).all(|index| match self.messages[index].op {
            Op::Atomic => rig.bytes(self.place(index)) == self.word_found(index),
            _ => rig.holds(self.place(index), self.seed + index as u64),
        })
    }

    /// Where the data go.
    #[must_use]
    pub const fn target(&self) -> Span {
        self.target.all()
    }

    /// Returns `true` if both hold: every completion has come, and all data have arrived. Once
    /// true, it is not asked again.
    pub fn is_finished(&mut self, rig: &Rig) -> bool {
        self.finished = self.finished || (self.is_done() && self.has_arrived(rig));
        self.finished
    }

    /// Runs the transfer alone, until all is done and has arrived; returns the nanoseconds that it
    /// took.
    ///
    /// # Errors
    /// [`Stuck`] if it does not end within `limit_ns`.
    ///
    /// # Panics
    /// As [`Transfer::step`].
    pub fn run(&mut self, rig: &mut Rig, limit_ns: u64) -> Result<u64, Stuck> {
        Self::run_all(core::slice::from_mut(self), rig, limit_ns)
    }

    /// Runs several transfers side by side.
    ///
    /// # Errors
    /// [`Stuck`] if they do not end within `limit_ns`.
    ///
    /// # Panics
    /// As [`Transfer::step`].
    pub fn run_all(transfers: &mut [Self], rig: &mut Rig, limit_ns: u64) -> Result<u64, Stuck> {
        let took = rig.run_until(
            |rig| {
                for transfer in &mut *transfers {
                    transfer.step(rig);
                }
                transfers.iter_mut().all(|transfer| transfer.is_finished(rig))
            },
            limit_ns,
        )?;
        rig.verify_guards();
        Ok(took)
    }

    /// All messages arrive although `link` loses what `filter` says. Returns how many frames that
    /// were.
    ///
    /// # Panics
    /// If something is stuck, with `what` was lost; and as [`Transfer::step`].
    pub fn survives(mut self, rig: &mut Rig, link: LinkId, filter: Filter, what: &str) -> u64 {
        rig.net.set_filter(link, filter);
        let outcome = self.run(rig, LOSS_LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("{what} lost: {stuck:?}"));
        rig.net.stats(link).filtered
    }

    /// Where the data of a message end up.
    fn place(&self, index: usize) -> Span {
        let Message { op, len, .. } = self.messages[index];
        let region = if op.has_response() { self.local } else { self.target };
        region.at(self.offsets[index], if op == Op::Atomic { WORD } else { len })
    }

    /// What an atomic finds: the number of those before it.
    fn word_found(&self, index: usize) -> [u8; WORD] {
        let before = self.messages[..index].iter().filter(|message| message.op == Op::Atomic).count();
        (before as u64).to_ne_bytes()
    }

    fn work(&self, index: usize) -> Work {
        let Message { op, len, .. } = self.messages[index];
        let (from, place) = (self.source.at(self.offsets[index], len), self.place(index));
        let word = self.remote.at(0, WORD);
        let found = u64::from_ne_bytes(self.word_found(index));
        match op {
            Op::Send | Op::SendImm => Work::send(from),
            Op::Write | Op::WriteImm => Work::write(from, place),
            Op::Read => Work::read(place, self.remote.at(WORD + self.offsets[index], len)),
            Op::Atomic if found.is_multiple_of(2) => Work::fetch_add(place, word, 1),
            Op::Atomic => Work::compare_swap(place, word, found, found + 1),
        }
    }

    /// Asserts that the data of a message are where they should be.
    fn verify(&self, rig: &Rig, index: usize) {
        if self.messages[index].op == Op::Atomic {
            assert_eq!(rig.bytes(self.place(index)), self.word_found(index), "atomic, message {index}");
        } else {
            rig.verify(self.place(index), self.seed + index as u64);
        }
    }

    fn post_receives(&mut self, rig: &mut Rig) {
        while let Some(&index) = self.receives.get(self.receives_posted) {
            let ahead = self.receives_posted - self.receives_seen;
            if ahead >= self.receives_ahead_max || rig.now() < self.next_receive_at {
                break;
            }
            self.next_receive_at = rig.now().after(self.receive_every_ns);
            // A WRITE with immediate must not touch the buffer of the receive that it consumes: it
            // gets none.
            let place = self.place(index);
            let buffer: &[Span] = if self.messages[index].op.is_write() { &[] } else { &[place] };
            match rig.try_post_recv_as(self.to, buffer, WR_ID_BASE + index as u64) {
                Ok(()) => self.receives_posted += 1,
                Err(PostError::QueueFull { .. }) => break,
                Err(error) => panic!("receive of message {index}: {error}"),
            }
        }
    }

    fn post_sends(&mut self, rig: &mut Rig) {
        while let Some(message) = self.messages.get(self.posted) {
            let index = self.posted;
            let mut work = self.work(index);
            if message.op.has_imm() {
                work = work.imm(imm_of(index));
            }
            if !message.signaled {
                work = work.unsignaled();
            }
            match rig.try_post(self.from, &work.wr_id(WR_ID_BASE + index as u64)) {
                Ok(_) => self.posted += 1,
                Err(PostError::QueueFull { .. }) => break,
                Err(error) => panic!("message {index}: {error}"),
            }
        }
    }

    fn check_receive(&mut self, rig: &Rig, done: &Completion) {
        let index = *self.receives.get(self.receives_seen).expect("no more receives than messages need");
        self.receives_seen += 1;
        let message = self.messages[index];
        assert_eq!(done.wr_id, WR_ID_BASE + index as u64, "receives complete in order: {done:?}");
        assert_eq!(done.status, WcStatus::Success, "{done:?} of message {index}, {message:?}");
        let opcode = if message.op.is_write() { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
        assert_eq!(done.opcode, opcode, "message {index}");
        assert_eq!(done.byte_len as usize, message.len, "length of message {index}, {message:?}");
        assert_eq!(done.flags.contains(WcFlags::WITH_IMM), message.op.has_imm(), "message {index}");
        assert!(!message.op.has_imm() || done.imm == imm_of(index), "immediate of message {index}: {done:?}");
        rig.verify(self.place(index), self.seed + index as u64);
    }

    fn check_send(&mut self, rig: &Rig, done: &Completion) {
        let next = (self.sends_seen..self.posted).find(|&index| self.messages[index].signaled);
        let index = next.expect("no more completions than signaled messages");
        self.sends_seen = index + 1;
        assert_eq!(done.wr_id, WR_ID_BASE + index as u64, "sends complete in order: {done:?}");
        assert_eq!(done.status, WcStatus::Success, "{done:?} of message {index}, {:?}", self.messages[index]);
        let place = self.place(index);
        let (opcode, byte_len) = match self.messages[index].op {
            Op::Send | Op::SendImm => (&[WcOpcode::Send][..], place.len),
            Op::Write | Op::WriteImm => (&[WcOpcode::RdmaWrite][..], place.len),
            Op::Read => (&[WcOpcode::RdmaRead][..], place.len),
            Op::Atomic => (&[WcOpcode::FetchAdd, WcOpcode::CompSwap][..], WORD),
        };
        assert!(opcode.contains(&done.opcode), "message {index}: {done:?}");
        assert_eq!(done.byte_len as usize, byte_len, "length of message {index}");
        self.verify(rig, index);
    }
}

/// Immediate data of message `index`.
fn imm_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(0) ^ 0xA5A5_0000
}

impl core::fmt::Display for Transfer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "qp {} to {}: {} messages, {} posted, all up to {} seen; {} receives needed, {} posted, {} seen",
            self.from.index(),
            self.to.index(),
            self.messages.len(),
            self.posted,
            self.sends_seen,
            self.receives.len(),
            self.receives_posted,
            self.receives_seen,
        )
    }
}
