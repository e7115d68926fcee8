//! What a Plain requester does with its stream: it keeps no packet apart, it goes back (protocol.md
//! 1.6).

use super::{AckEffect, Timing, TxStream};
use crate::time::Time;
use wire::Psn;

impl TxStream {
    /// Takes the next `packets` PSNs for one request sent at `now`; a READ takes those of its
    /// response. `idle` says that nothing sent before is outstanding, not even behind `nxt`.
    pub fn send_span(&mut self, now: Time, packets: u32, idle: bool) {
        let progress_at = if idle { now } else { self.progress_at };
        let psn = self.send_new(now);
        self.progress_at = progress_at;
        self.nxt = psn.add(packets);
    }

    /// Everything below `next` is acknowledged, also if it lies ahead of `nxt`, as it may once the
    /// stream has gone back. Returns how many are newly acknowledged, and the round trip that
    /// ended.
    pub fn acknowledge(&mut self, next: Psn, now: Time) -> AckEffect {
        let mut effect = AckEffect { acked: next.steps_from(self.una), ..AckEffect::default() };
        self.end_round_trip(next, &mut effect);
        self.una = next;
        self.progress_at = now;
        if self.nxt.is_before(next) {
            self.nxt = next;
        }
        effect
    }

    /// The next packet is `una` again. What is sent twice gives no round-trip time (Karn).
    pub const fn go_back_to_una(&mut self) {
        self.nxt = self.una;
        self.timing = Timing::Off;
    }
}
