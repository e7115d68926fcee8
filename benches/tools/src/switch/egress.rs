//! What waits for a port of the switch: a bounded queue that marks, and drops at its tail.

use super::config::QueueConfig;
use datapath::port::Port;
use datapath::port::fault::mark_ce;
use std::collections::VecDeque;
use verbs_api::Time;

/// A frame may have come to the switch so long before it was seen: the switch looks at its ports
/// every few microseconds, and the rate of a shaped port must not depend on how often.
const CATCH_UP_NS: u64 = 50_000;
/// Preamble, FCS and gap: what a frame takes on the wire beside its bytes.
const WIRE_OVERHEAD: u64 = 24;

/// What happened to frames for one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressStats {
    /// Frames handed to the port.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were marked CE.
    pub marked: u64,
    /// Frames that found the queue full.
    pub dropped: u64,
    /// Frames longer than the port takes.
    pub too_long: u64,
    /// Most frames that waited at once.
    pub queued_max: usize,
}

/// A frame, and since when it waits.
struct Waiting {
    since: Time,
    frame: Vec<u8>,
}

/// The queue of one port.
pub struct Egress {
    config: QueueConfig,
    waiting: VecDeque<Waiting>,
    /// Buffers of frames that went out.
    spare: Vec<Vec<u8>>,
    /// When the wire is free, on a shaped port.
    free_at: Time,
    stats: EgressStats,
}

impl Egress {
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            free_at: Time::ZERO,
            stats: EgressStats::default(),
        }
    }

    pub const fn stats(&self) -> EgressStats {
        self.stats
    }

    /// When what waits can go on; `None` if nothing waits.
    pub fn next_due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.free_at)
    }

    /// Sends what the port takes.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time) {
        while let Some(Waiting { since, frame }) = self.waiting.pop_front() {
            if !self.send(port, &frame, since, now) {
                self.waiting.push_front(Waiting { since, frame });
                return;
            }
            self.spare.push(frame);
        }
    }

    /// Sends `frame`, behind what waits, or loses it.
    pub fn offer(&mut self, port: &mut dyn Port, frame: &[u8], now: Time) {
        if frame.len() > port.caps().max_frame {
            self.stats.too_long += 1;
            return;
        }
        if self.waiting.is_empty() && self.send(port, frame, now, now) {
            return;
        }
        let waiting = self.waiting.len();
        if waiting >= self.config.frames {
            self.stats.dropped += 1;
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        if self.config.mark.is_some_and(|threshold| waiting >= threshold) && mark_ce(&mut copy) {
            self.stats.marked += 1;
        }
        self.waiting.push_back(Waiting { since: now, frame: copy });
        self.stats.queued_max = self.stats.queued_max.max(self.waiting.len());
    }

    /// True if the wire is free and the port has a slot. What has waited since `since` was on the
    /// wire as soon as that was free, however late the switch looks.
    fn send(&mut self, port: &mut dyn Port, frame: &[u8], since: Time, now: Time) -> bool {
        if self.free_at > now {
            return false;
        }
        let Some(slot) = port.tx_slot() else {
            // The wire is idle meanwhile, as the host has no room.
            self.free_at = self.free_at.max(Time(now.0.saturating_sub(CATCH_UP_NS)));
            return false;
        };
        slot[..frame.len()].copy_from_slice(frame);
        port.tx_commit(frame.len());
        let bytes = frame.len() as u64;
        self.stats.frames += 1;
        self.stats.bytes += bytes;
        if let Some(rate) = self.config.rate_mbps {
            let begin = self.free_at.max(Time(since.0.saturating_sub(CATCH_UP_NS)));
            self.free_at = begin.after((bytes + WIRE_OVERHEAD) * 8 * 1000 / u64::from(rate));
        }
        true
    }
}
