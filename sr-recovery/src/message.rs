//! The messages between the fast path and the slow path: records down, commands up.

use wire::Psn;

/// Number of a recovery. It belongs to the QPC slot, survives RESET and reuse, and wraps.
///
/// The receiver raises it when it enters Recovery, the sender when it is reset, so that messages of
/// an earlier recovery are recognised.
pub type Generation = u32;

/// True if `a` is later than `b`.
pub(crate) const fn is_newer(a: Generation, b: Generation) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// A stream: the slot of its QPC, and which of the QP's two PSN spaces it is.
///
/// A QP sends and receives in both spaces, so one id names a sender's scoreboard and a receiver's
/// bitmap, which have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId {
    /// Slot of the QPC.
    pub qp: u32,
    /// False for the space of requests, true for that of responses.
    pub response: bool,
}

impl StreamId {
    /// Position in a table of all streams: twice the slot, plus one for responses.
    #[must_use]
    pub const fn index(self) -> usize {
        self.qp as usize * 2 + self.response as usize
    }
}

/// Fast path to slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// Receiver: packets have arrived out of order, or fill a hole.
    RxRun {
        /// The stream.
        stream: StreamId,
        /// Recovery of the receiver.
        generation: Generation,
        /// First PSN of the run.
        first: Psn,
        /// Last PSN of the run.
        last: Psn,
        /// The fast path's ePSN when it wrote this.
        epsn: Psn,
    },
    /// Receiver: it left this Recovery, or was reset. The bitmap is forgotten.
    RxClose {
        /// The stream.
        stream: StreamId,
        /// Recovery that ended; the next record has a newer one.
        generation: Generation,
    },
    /// Sender: an acknowledgement that came while recovering, or that carries a SACK.
    Ack {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// Number of this record.
        seq: u16,
        /// Oldest unacknowledged PSN, after this acknowledgement.
        una: Psn,
        /// The next new PSN.
        snd_nxt: Psn,
        /// SACK_PSN, in `[una, snd_nxt)`.
        sack: Option<Psn>,
        /// PSN of the bitmap's bit 0.
        bitmap_base: Psn,
        /// Bit i: PSN `bitmap_base + i` has been received. 0 if there is none; bits outside `[una,
        /// snd_nxt)` are ignored.
        bitmap: u64,
        /// Reordering that the stream tolerates, in packets.
        threshold: u8,
    },
    /// Sender: declare lost what is un-SACKed in the range and not waiting already (a NACK without
    /// SACK, the end of an RNR wait).
    ResendAll {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// Number of this record.
        seq: u16,
        /// Oldest unacknowledged PSN.
        una: Psn,
        /// The next new PSN.
        snd_nxt: Psn,
        /// First PSN of the range.
        first: Psn,
        /// Last PSN of the range.
        last: Psn,
    },
    /// Sender: a PSN was sent again; it waits no more and has its mark.
    Resent {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// Number of this record.
        seq: u16,
        /// What was sent again.
        psn: Psn,
        /// The next new PSN at that time: the mark.
        snd_nxt: Psn,
    },
    /// Sender: the retransmission timer fired. All marks are cleared, nothing is declared lost.
    Rto {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// Number of this record.
        seq: u16,
    },
    /// Sender: it was reset. The scoreboard is forgotten.
    TxClose {
        /// The stream.
        stream: StreamId,
        /// Life that ended; the next record has a newer one.
        generation: Generation,
    },
}

impl Record {
    /// The stream that it is of.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        match self {
            Self::RxRun { stream, .. }
            | Self::RxClose { stream, .. }
            | Self::Ack { stream, .. }
            | Self::ResendAll { stream, .. }
            | Self::Resent { stream, .. }
            | Self::Rto { stream, .. }
            | Self::TxClose { stream, .. } => *stream,
        }
    }
}

/// Slow path to fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Receiver: everything before `epsn` has arrived.
    Advance {
        /// The stream.
        stream: StreamId,
        /// Recovery this belongs to.
        generation: Generation,
        /// The first PSN not known to have arrived.
        epsn: Psn,
        /// Bit i: PSN `epsn + 1 + i` has arrived, as far as reported.
        bitmap: u64,
    },
    /// Sender: these are lost; they belong into the RetryQ.
    Lost {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// First lost PSN.
        first: Psn,
        /// Last lost PSN.
        last: Psn,
    },
    /// Sender: these were declared lost, waited, and have arrived after all; they leave the RetryQ.
    Found {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// First PSN found.
        first: Psn,
        /// Last PSN found.
        last: Psn,
    },
    /// Sender: the answer to each of its records, after the losses that it brought; one may answer
    /// several.
    Scoreboard {
        /// The stream.
        stream: StreamId,
        /// Life of the sender.
        generation: Generation,
        /// The record that this answers, with all before it.
        seq: u16,
        /// Number of SACKed PSNs in `[una, snd_nxt)`.
        sacked: u32,
        /// Nothing SACKed, marked or waiting: the scoreboard is forgotten.
        clean: bool,
    },
}
