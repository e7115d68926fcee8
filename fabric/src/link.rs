//! Directed links: each sends one frame after the other, and delivers it a fixed time later.

use crate::calendar::{Event, Kind};
use crate::clock::Ps;
use crate::packet::WIRE_OVERHEAD;

/// What a link connects to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A host, by number.
    Host(u32),
    /// A switch, by number.
    Switch(u32),
}

/// A directed link, with the queue before it.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Where it begins.
    pub from: Node,
    /// Where it ends.
    pub to: Node,
    /// Picoseconds that a byte takes: 80 at 100 Gb/s, 20 at 400.
    pub ps_per_byte: u32,
    /// Time from the last bit sent to its arrival.
    pub delay: Ps,
    /// When what was admitted so far has left.
    pub busy_until: Ps,
    /// Frames sent.
    pub frames: u32,
    /// Bytes sent, without what frames take beside their own.
    pub bytes: u64,
}

impl Link {
    /// An idle link.
    #[must_use]
    pub const fn new(from: Node, to: Node, ps_per_byte: u32, delay: Ps) -> Self {
        Self { from, to, ps_per_byte, delay, busy_until: Ps(0), frames: 0, bytes: 0 }
    }

    /// Bytes that wait or are being sent at `now`.
    #[must_use]
    pub const fn backlog(&self, now: Ps) -> u64 {
        self.busy_until.since(now).0 / self.ps_per_byte as u64
    }

    /// Sends a packet of `len` bytes behind what waits; the event of its arrival. `number` is that
    /// of the link.
    pub fn send(&mut self, now: Ps, number: u32, packet: u32, len: u16) -> Event {
        let time = (len as u64 + WIRE_OVERHEAD as u64) * self.ps_per_byte as u64;
        self.busy_until = self.busy_until.max(now) + Ps(time);
        self.frames = self.frames.wrapping_add(1);
        self.bytes += len as u64;
        Event::new(self.busy_until + self.delay, Kind::Arrival, number, self.frames, packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::uniform;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    /// Packets of one length that come at random wait as long as queueing theory says (M/D/1): rho
    /// / (2 (1 - rho)) times what one takes.
    #[test]
    fn packets_wait_as_theory_says() {
        const COUNT: u64 = 2_000_000;
        for load in [0.5, 0.7, 0.9] {
            let mut link = Link::new(Node::Host(0), Node::Host(1), 80, Ps(0));
            let service = f64::from(1000 + WIRE_OVERHEAD) * 80.0;
            let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
            let (mut at, mut waited) = (0.0, 0.0);
            for _ in 0..COUNT {
                at -= service / load * (1.0 - uniform(&mut random)).ln();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
                let now = Ps(at as u64);
                waited += link.busy_until.since(now).0 as f64;
                link.send(now, 0, 0, 1000);
            }
            let (mean, expected) = (waited / COUNT as f64 / service, load / (2.0 * (1.0 - load)));
            assert!((mean / expected - 1.0).abs() < 0.03, "{load}: {mean} instead of {expected}");
        }
    }
}
