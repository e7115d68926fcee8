//! With many queue pairs, what each needs is fetched into the caches while others are served.
//!
//! One thing leads to the next: a context to its queue, the queue to a request, the request to the
//! payload. Each is fetched some frames or turns after the one before it; only nobody is before the
//! first frames of a burst, whose steps follow at once.

#[cfg(test)]
mod tests;
mod upcoming;

pub(super) use upcoming::Upcoming;

use super::{Core, Engine};
use crate::port::{Port, RX_BURST};
use crate::prefetch;
use wire::Opcode;

/// How many turns before its own a queue pair has this fetched: both its parts, its send queue, its
/// next requests, and the payload of the first.
mod turns {
    pub const CONTEXT: usize = 8;
    pub const QUEUE: usize = 4;
    pub const REQUESTS: usize = 2;
    pub const PAYLOAD: usize = 1;
}

/// Where a frame has its BTH: behind Ethernet, IP and UDP.
const BTH_V4: usize = 14 + 20 + 8;
const BTH_V6: usize = 14 + 40 + 8;

impl<P: Port> Engine<P> {
    /// Says which queue pairs the frames of a burst are for, before the first is handled.
    #[inline]
    pub(super) fn read_arrivals(&self, burst: usize) -> Arrivals {
        let frame = |index| self.wire.port.rx_frame(index);
        let burst = burst.min(RX_BURST);
        (0..burst).for_each(|index| prefetch::read(frame(index).as_ptr()));
        let mut arrivals = Arrivals::new();
        (0..burst).for_each(|index| arrivals.push(index, Arrival::of(frame(index))));
        arrivals
    }
}

impl Core {
    /// Starts to fetch what frame `index` of the burst and those behind it need, before it is
    /// handled.
    #[inline(never)]
    pub(super) fn prefetch_frames(&self, arrivals: &mut Arrivals, index: usize) {
        arrivals.begin(index);
        while let Some(run) = arrivals.next(Step::Context) {
            if run.of.acknowledges() {
                self.qps.prefetch_requester(run.of.qpn());
                self.units.timers.prefetch(self.qps.slot_of(run.of.qpn()));
            } else {
                self.qps.prefetch_responder(run.of.qpn());
            }
        }
        while let Some(run) = arrivals.next(Step::Queue) {
            if run.of.acknowledges() {
                self.qps.prefetch_send_queue(run.of.qpn());
            } else {
                self.qps.prefetch_receives(run.of.qpn(), run.frames.min(LEARNT));
            }
        }
    }

    /// Starts to fetch what the next turns of queue pairs need, before one of them.
    #[inline]
    pub(super) fn prefetch_turns(&mut self) {
        let last = self.units.mux.peek(turns::CONTEXT);
        self.upcoming.note(last);
        if let Some(slot) = last {
            self.qps.prefetch_requester(slot);
        }
        if let Some(slot) = self.upcoming.after(turns::QUEUE) {
            self.qps.prefetch_send_queue(slot);
            self.units.timers.prefetch(slot);
        }
        if let Some(slot) = self.upcoming.after(turns::REQUESTS) {
            self.qps.prefetch_requests(slot);
        }
        if let Some(slot) = self.upcoming.after(turns::PAYLOAD) {
            self.qps.prefetch_payload(slot);
        }
    }
}

/// Receives that are fetched of a queue pair at most: then the processor's own prefetcher has
/// learnt where to go.
const LEARNT: u32 = 8;

/// What is fetched of a frame's queue pair, one after the other: both its parts, which say where
/// the queue and its next entries are.
#[derive(Clone, Copy)]
enum Step {
    Context,
    Queue,
}

/// How long before a frame is handled: so many runs of frames of one queue pair before, or so many
/// frames, whichever is earlier.
struct Distance {
    runs: usize,
    frames: usize,
}

impl Step {
    const fn distance(self) -> Distance {
        match self {
            Self::Context => Distance { runs: 2, frames: 8 },
            Self::Queue => Distance { runs: 1, frames: 4 },
        }
    }
}

/// Frames of one queue pair, one after the other.
#[derive(Clone, Copy)]
struct Run {
    of: Arrival,
    /// Index of the first.
    at: usize,
    frames: u32,
}

/// Whose the frames of a burst are.
pub(super) struct Arrivals {
    runs: [Run; RX_BURST],
    count: usize,
    /// The frame that is handled, and its run.
    index: usize,
    current: usize,
    /// Of each step, the first run for which it was not taken.
    taken: [usize; 2],
}

impl Arrivals {
    const fn new() -> Self {
        let none = Run { of: Arrival(0), at: 0, frames: 0 };
        Self { runs: [none; RX_BURST], count: 0, index: 0, current: 0, taken: [0; 2] }
    }

    /// The next frame.
    #[inline(always)]
    fn push(&mut self, index: usize, of: Arrival) {
        match self.count.checked_sub(1).map(|last| &mut self.runs[last]) {
            Some(last) if last.of == of => last.frames += 1,
            _ => {
                self.runs[self.count] = Run { of, at: index, frames: 1 };
                self.count += 1;
            }
        }
    }

    /// Frame `index` is handled next.
    #[inline(always)]
    fn begin(&mut self, index: usize) {
        self.index = index;
        while self.runs[..self.count].get(self.current + 1).is_some_and(|run| run.at <= index) {
            self.current += 1;
        }
    }

    /// The next run for which the step is due.
    #[inline(always)]
    fn next(&mut self, step: Step) -> Option<Run> {
        let (distance, taken) = (step.distance(), &mut self.taken[step as usize]);
        let run = self.runs[..self.count].get(*taken)?;
        let is_due = *taken <= self.current + distance.runs || run.at <= self.index + distance.frames;
        is_due.then(|| {
            *taken += 1;
            *run
        })
    }
}

/// What a frame says of itself before anything about it has been checked: a QPN, and whether it
/// answers a request: an acknowledgement, or a response.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Arrival(u32);

impl Arrival {
    const ACKNOWLEDGES: u32 = 1 << 24;

    /// Of a packet of RoCE without a VLAN tag; else anything, as it is no more than a hint.
    #[inline]
    fn of(frame: &[u8]) -> Self {
        let at = if frame.get(12) == Some(&0x86) { BTH_V6 } else { BTH_V4 };
        let bytes = frame.get(at..).and_then(<[u8]>::first_chunk::<8>);
        bytes.map_or(Self(0), |&[opcode, _, _, _, _, high, middle, low]| {
            let answers = Opcode::RcReadResponseFirst as u8..=Opcode::RcAtomicAck as u8;
            let acknowledges = u32::from(answers.contains(&opcode)) * Self::ACKNOWLEDGES;
            Self(u32::from_be_bytes([0, high, middle, low]) | acknowledges)
        })
    }

    const fn qpn(self) -> u32 {
        self.0 & (Self::ACKNOWLEDGES - 1)
    }

    const fn acknowledges(self) -> bool {
        self.0 & Self::ACKNOWLEDGES != 0
    }
}
