//! What both ends do in one round: drawn from its number, so that each knows what the other one
//! does.

use srnic_tools::perf::pattern::Pattern;
use std::ops::Range;

/// Bytes that each kind of operation moves in a round.
pub const AREA: usize = 1 << 20;
/// Lengths of messages: inside one packet, whole packets, many.
const LENGTHS: [usize; 8] = [1, 8, 64, 500, 4096, 10_000, 40_000, 65_536];

/// One work request.
#[derive(Clone, Debug)]
pub enum Op {
    /// Of this range of the source, to the same range of the peer's target; with the number as
    /// immediate data, if any.
    Write(Range<usize>, Option<u32>),
    /// Of this range of the source, to a receive for this range of the inbox; with the number as
    /// immediate data, if any.
    Send(Range<usize>, Option<u32>),
    /// Of this range of the peer's source, to ours of what was read.
    Read(Range<usize>),
    /// Adds to the peer's first word; the result goes to this slot.
    FetchAdd(u64, usize),
    /// Counts the peer's second word up; the result goes to this slot.
    CountUp(usize),
}

/// A round.
pub struct Round {
    /// All that is posted, in this order.
    pub ops: Vec<Op>,
    /// Atomics among them.
    pub atomics: usize,
}

impl Round {
    /// The round of this number, of the end `side`.
    pub fn draw(number: u64, side: usize) -> Self {
        let mut bytes = [0; 2 * (AREA / 64)];
        Pattern::new(seed(number, side) ^ 1).fill(0, &mut bytes);
        let (mut draws, mut ops, mut start, mut atomics) = (bytes.into_iter(), Vec::new(), 0, 0);
        while start < AREA {
            let draw = draws.next().unwrap_or(7);
            let len = LENGTHS[usize::from(draw % 8)].min(AREA - start);
            let (range, imm) = (start..start + len, u32::try_from(start).ok().filter(|_| draw & 8 != 0));
            ops.push(Op::Write(range.clone(), imm));
            ops.push(Op::Send(range.clone(), imm.map(|imm| !imm)));
            ops.push(Op::Read(range));
            if draw & 16 != 0 {
                ops.push(Op::FetchAdd(u64::from(draw), atomics));
                ops.push(Op::CountUp(atomics + 1));
                atomics += 2;
            }
            start += len;
        }
        Self { ops, atomics }
    }

    /// What the peer needs receives for: the range that is filled, or none; and the immediate data.
    pub fn receives(&self) -> impl Iterator<Item = (Option<Range<usize>>, Option<u32>)> + '_ {
        self.ops.iter().filter_map(|op| match op {
            Op::Send(range, imm) => Some((Some(range.clone()), *imm)),
            Op::Write(_, Some(imm)) => Some((None, Some(*imm))),
            _ => None,
        })
    }

    /// Sum of what is added, and how often is counted.
    pub fn sums(&self) -> (u64, u64) {
        let (mut sum, mut count) = (0, 0);
        for op in &self.ops {
            match op {
                Op::FetchAdd(add, _) => sum += add,
                Op::CountUp(_) => count += 1,
                _ => {}
            }
        }
        (sum, count)
    }
}

/// What the source of an end holds in a round.
pub fn source(number: u64, side: usize) -> Pattern {
    Pattern::new(seed(number, side))
}

const fn seed(number: u64, side: usize) -> u64 {
    (number << 2) | (side as u64) << 1
}
