//! Records and commands as words, the form in which they pass from thread to thread.

use wire::Psn;

use crate::message::{Command, Record, StreamId};

/// Words of one message.
pub(crate) const WORDS: usize = 5;

/// A message that fits [`WORDS`] words.
pub(crate) trait Words: Copy {
    fn encode(&self) -> [u64; WORDS];
    /// `None` for words that [`Words::encode`] does not make.
    fn decode(words: &[u64; WORDS]) -> Option<Self>;
}

/// Bits of the first word: what it is, the stream's space, two flags, the threshold; the sequence
/// number is above.
const RESPONSE: u64 = 1 << 8;
const FLAG: u64 = 1 << 9;
const THRESHOLD_SHIFT: u32 = 16;
const SEQ_SHIFT: u32 = 32;

/// The fields that messages are made of; each uses some.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    flag: bool,
    threshold: u8,
    seq: u16,
    psns: [u32; 4],
    bitmap: u64,
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word are what is wanted")]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Fields {
    fn pack(self, stream: StreamId, generation: u32) -> [u64; WORDS] {
        let Self { kind, flag, threshold, seq, psns: [a, b, c, d], bitmap } = self;
        let first = u64::from(kind)
            | if stream.response { RESPONSE } else { 0 }
            | if flag { FLAG } else { 0 }
            | u64::from(threshold) << THRESHOLD_SHIFT
            | u64::from(seq) << SEQ_SHIFT;
        [first, pair(stream.qp, generation), pair(a, b), pair(c, d), bitmap]
    }

    #[expect(clippy::cast_possible_truncation, reason = "fields of a word")]
    const fn unpack(words: &[u64; WORDS]) -> (Self, StreamId, u32) {
        let [first, id, ab, cd, bitmap] = *words;
        let (qp, generation) = halves(id);
        let ((a, b), (c, d)) = (halves(ab), halves(cd));
        let fields = Self {
            kind: first as u8,
            flag: first & FLAG != 0,
            threshold: (first >> THRESHOLD_SHIFT) as u8,
            seq: (first >> SEQ_SHIFT) as u16,
            psns: [a, b, c, d],
            bitmap,
        };
        (fields, StreamId { qp, response: first & RESPONSE != 0 }, generation)
    }
}

impl Words for Record {
    fn encode(&self) -> [u64; WORDS] {
        let none = Fields::default();
        match *self {
            Self::RxRun { stream, generation, first, last, epsn } => {
                let psns = [first.get(), last.get(), epsn.get(), 0];
                Fields { kind: 1, psns, ..none }.pack(stream, generation)
            }
            Self::RxClose { stream, generation } => Fields { kind: 2, ..none }.pack(stream, generation),
            Self::Ack { stream, generation, seq, una, snd_nxt, sack, bitmap_base, bitmap, threshold } => {
                let sacked = sack.unwrap_or(una).get();
                let psns = [una.get(), snd_nxt.get(), sacked, bitmap_base.get()];
                Fields { kind: 3, flag: sack.is_some(), threshold, seq, psns, bitmap }
                    .pack(stream, generation)
            }
            Self::ResendAll { stream, generation, seq, una, snd_nxt, first, last } => {
                let psns = [una.get(), snd_nxt.get(), first.get(), last.get()];
                Fields { kind: 4, seq, psns, ..none }.pack(stream, generation)
            }
            Self::Resent { stream, generation, seq, psn, snd_nxt } => {
                let psns = [psn.get(), snd_nxt.get(), 0, 0];
                Fields { kind: 5, seq, psns, ..none }.pack(stream, generation)
            }
            Self::Rto { stream, generation, seq } => Fields { kind: 6, seq, ..none }.pack(stream, generation),
            Self::TxClose { stream, generation } => Fields { kind: 7, ..none }.pack(stream, generation),
        }
    }

    fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let (fields, stream, generation) = Fields::unpack(words);
        let Fields { flag, threshold, seq, bitmap, .. } = fields;
        let [a, b, c, d] = fields.psns.map(Psn::new);
        Some(match fields.kind {
            1 => Self::RxRun { stream, generation, first: a, last: b, epsn: c },
            2 => Self::RxClose { stream, generation },
            3 => Self::Ack {
                stream,
                generation,
                seq,
                una: a,
                snd_nxt: b,
                sack: flag.then_some(c),
                bitmap_base: d,
                bitmap,
                threshold,
            },
            4 => Self::ResendAll { stream, generation, seq, una: a, snd_nxt: b, first: c, last: d },
            5 => Self::Resent { stream, generation, seq, psn: a, snd_nxt: b },
            6 => Self::Rto { stream, generation, seq },
            7 => Self::TxClose { stream, generation },
            _ => return None,
        })
    }
}

impl Words for Command {
    fn encode(&self) -> [u64; WORDS] {
        let none = Fields::default();
        match *self {
            Self::Advance { stream, generation, epsn, bitmap } => {
                Fields { kind: 1, psns: [epsn.get(), 0, 0, 0], bitmap, ..none }.pack(stream, generation)
            }
            Self::Lost { stream, generation, first, last } => {
                Fields { kind: 2, psns: [first.get(), last.get(), 0, 0], ..none }.pack(stream, generation)
            }
            Self::Found { stream, generation, first, last } => {
                Fields { kind: 4, psns: [first.get(), last.get(), 0, 0], ..none }.pack(stream, generation)
            }
            Self::Scoreboard { stream, generation, seq, sacked, clean } => {
                Fields { kind: 3, flag: clean, seq, psns: [sacked, 0, 0, 0], ..none }.pack(stream, generation)
            }
        }
    }

    fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let (fields, stream, generation) = Fields::unpack(words);
        let Fields { flag: clean, seq, bitmap, psns: [a, b, ..], .. } = fields;
        Some(match fields.kind {
            1 => Self::Advance { stream, generation, epsn: Psn::new(a), bitmap },
            2 => Self::Lost { stream, generation, first: Psn::new(a), last: Psn::new(b) },
            3 => Self::Scoreboard { stream, generation, seq, sacked: a, clean },
            4 => Self::Found { stream, generation, first: Psn::new(a), last: Psn::new(b) },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
