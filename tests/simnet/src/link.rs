//! One direction of one cable: a finite queue that may mark, a serialiser, a delay, and faults.

mod mark;

use crate::filter::{Filter, Rewrite};
use crate::frame::FrameKind;
use crate::rng::Rng;
use crate::stats::LinkStats;
use datapath::time::Time;
use std::collections::VecDeque;

/// The rate at which everything is hit: rates are in parts per million.
pub const PPM: u32 = 1_000_000;
/// Preamble, FCS and gap: bytes that each frame takes on the wire beside its own.
const ETHERNET_OVERHEAD: u64 = 24;

/// What goes wrong on a link, drawn frame by frame. Rates are in parts per million ([`PPM`]); the
/// default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Frames lost one by one.
    pub loss_ppm: u32,
    /// Frames at which a burst of losses starts.
    pub burst_ppm: u32,
    /// Frames in a burst: 1 to this many.
    pub burst_frames_max: u32,
    /// Frames delivered twice, the copy up to `reorder_ns_max` later.
    pub duplicate_ppm: u32,
    /// Frames held up so that later ones overtake them.
    pub reorder_ppm: u32,
    /// Longest such delay, in nanoseconds.
    pub reorder_ns_max: u64,
    /// Frames with one to three flipped bits.
    pub corrupt_ppm: u32,
    /// Frames that end too early.
    pub truncate_ppm: u32,
    /// Delay added to each frame, up to this; the order stays.
    pub jitter_ns_max: u64,
    /// Everything is lost.
    pub black_hole: bool,
}

impl Faults {
    /// Independent loss only.
    #[must_use]
    pub fn loss(ppm: u32) -> Self {
        Self { loss_ppm: ppm, ..Self::default() }
    }

    /// Reordering only.
    #[must_use]
    pub fn reordering(ppm: u32, ns_max: u64) -> Self {
        Self { reorder_ppm: ppm, reorder_ns_max: ns_max, ..Self::default() }
    }

    /// Nothing arrives.
    #[must_use]
    pub fn black_hole() -> Self {
        Self { black_hole: true, ..Self::default() }
    }
}

/// A link without its faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Picoseconds that a byte takes: 80 is 100 Gb/s; 0 takes no time.
    pub ps_per_byte: u64,
    /// Time from the last bit in to the last bit out, in nanoseconds.
    pub propagation_ns: u64,
    /// Frames that the queue holds, the one on the wire included; one more is dropped.
    pub queue_frames_max: usize,
    /// Bytes that the queue holds.
    pub queue_bytes_max: usize,
    /// An ECN-capable frame that finds this many frames in the queue is marked CE.
    pub mark_frames: Option<usize>,
    /// What goes wrong.
    pub faults: Faults,
}

impl Default for LinkConfig {
    /// 100 Gb/s, 500 ns, a queue of 1024 frames that never marks.
    fn default() -> Self {
        Self {
            ps_per_byte: 80,
            propagation_ns: 500,
            queue_frames_max: 1024,
            queue_bytes_max: usize::MAX,
            mark_frames: None,
            faults: Faults::default(),
        }
    }
}

/// A frame that reaches the other end.
pub(crate) struct Flight {
    pub at: Time,
    pub frame: Vec<u8>,
}

/// The state of a link.
pub(crate) struct Link {
    pub config: LinkConfig,
    pub filter: Option<Filter>,
    pub rewrite: Option<Rewrite>,
    pub stats: LinkStats,
    rng: Rng,
    /// When each frame in the queue will have left it (ps), and its length.
    queue: VecDeque<(u64, usize)>,
    queued_bytes: usize,
    /// When the last frame that kept its order is delivered.
    in_order_at: Time,
    burst_left: u32,
}

impl Link {
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            filter: None,
            rewrite: None,
            stats: LinkStats::default(),
            rng: Rng::new(seed),
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_order_at: Time::ZERO,
            burst_left: 0,
        }
    }

    /// Frames in the queue at `now`.
    pub fn queued(&mut self, now: Time) -> usize {
        let now_ps = now.0.saturating_mul(1000);
        while let Some((_, len)) = self.queue.front().filter(|(done, _)| *done <= now_ps) {
            self.queued_bytes -= len;
            self.queue.pop_front();
        }
        self.queue.len()
    }

    /// Puts a frame into the queue and decides what becomes of it. Returns its fate in a word.
    pub fn carry(
        &mut self,
        now: Time,
        mut frame: Vec<u8>,
        delay_ns: u64,
        mut out: impl FnMut(Flight),
    ) -> &'static str {
        let kind = FrameKind::of(&frame);
        let waiting = self.queued(now);
        self.stats.queue_max = self.stats.queue_max.max(waiting);
        let too_many = waiting >= self.config.queue_frames_max;
        if too_many || self.queued_bytes + frame.len() > self.config.queue_bytes_max {
            self.stats.overflowed += 1;
            self.stats.dropped_by.add(kind);
            return "overflow";
        }
        let marked =
            self.config.mark_frames.is_some_and(|limit| waiting >= limit) && mark::mark_ce(&mut frame);
        self.stats.marked += u64::from(marked);
        let sent_at = self.serialise(now, frame.len());
        if let Some(fate) = self.lose(kind) {
            return fate;
        }
        let fate = self.spoil(kind, &mut frame);
        let faults = self.config.faults;
        let base = sent_at.after(self.config.propagation_ns + delay_ns);
        if self.rng.hits(faults.duplicate_ppm) {
            self.stats.duplicated += 1;
            let late = self.rng.below(faults.reorder_ns_max + 1);
            out(Flight { at: base.after(late), frame: frame.clone() });
        }
        if self.rng.hits(faults.reorder_ppm) {
            self.stats.reordered += 1;
            let late = self.rng.below(faults.reorder_ns_max + 1);
            out(Flight { at: base.after(late), frame });
            return "late";
        }
        let at = base.after(self.rng.below(faults.jitter_ns_max + 1));
        if delay_ns > 0 {
            out(Flight { at, frame });
            return "delayed";
        }
        self.in_order_at = self.in_order_at.max(at);
        out(Flight { at: self.in_order_at, frame });
        if marked { "marked" } else { fate }
    }

    /// Time at which the last bit of a frame of `len` bytes is on the wire, rounded up.
    fn serialise(&mut self, now: Time, len: usize) -> Time {
        let free_at = self.queue.back().map_or(0, |(done, _)| *done).max(now.0.saturating_mul(1000));
        let done = free_at + (len as u64 + ETHERNET_OVERHEAD) * self.config.ps_per_byte;
        self.queue.push_back((done, len));
        self.queued_bytes += len;
        Time(done.div_ceil(1000))
    }

    fn lose(&mut self, kind: FrameKind) -> Option<&'static str> {
        let faults = self.config.faults;
        if self.burst_left == 0 && self.rng.hits(faults.burst_ppm) {
            let more = self.rng.below(u64::from(faults.burst_frames_max.max(1)));
            self.burst_left = 1 + u32::try_from(more).unwrap_or(0);
        }
        let fate = if faults.black_hole {
            self.stats.swallowed += 1;
            "swallowed"
        } else if self.burst_left > 0 && faults.burst_ppm > 0 {
            self.burst_left -= 1;
            self.stats.burst_lost += 1;
            "burst"
        } else if self.rng.hits(faults.loss_ppm) {
            self.stats.lost += 1;
            "lost"
        } else {
            return None;
        };
        self.stats.dropped_by.add(kind);
        Some(fate)
    }

    fn spoil(&mut self, kind: FrameKind, frame: &mut Vec<u8>) -> &'static str {
        let faults = self.config.faults;
        if self.rng.hits(faults.corrupt_ppm) {
            for _ in 0..=self.rng.below(3) {
                let at = self.rng.index(frame.len());
                let bit = 1 << self.rng.below(8);
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= bit;
                }
            }
            self.stats.corrupted += 1;
            self.stats.spoiled_by.add(kind);
            return "corrupted";
        }
        if self.rng.hits(faults.truncate_ppm) {
            let len = self.rng.index(frame.len());
            frame.truncate(len);
            self.stats.truncated += 1;
            self.stats.spoiled_by.add(kind);
            return "truncated";
        }
        "passed"
    }
}
