//! Switches: a pool of memory that the queues of a switch share, and marks.

use crate::clock::Ps;
use crate::link::Link;
use crate::packet::{Meta, mix};
use crate::pfc::PfcConfig;
use core::ops::Add;

/// Picoseconds a byte of the links for which marks are given: 100 Gb/s.
const REFERENCE_PS_PER_BYTE: u64 = 80;

/// Which packets are marked, by the bytes that wait in the queue that they enter; those are bytes
/// of a link of 100 Gb/s, and as many more as a link is faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// None up to here.
    pub from: u64,
    /// All above; between, ever more.
    pub until: u64,
    /// The part of the packets that is marked just before `until`, in Q16.
    pub most: u32,
}

impl Marks {
    /// DCTCP's: all above one threshold.
    #[must_use]
    pub const fn above(bytes: u64) -> Self {
        Self { from: bytes, until: bytes, most: 1 << 16 }
    }

    /// RED for DCQCN, 5 KB, 200 KB and 1 % at 40 Gb/s, in proportion to the link's rate;
    /// docs/fabric.md has the sources.
    pub const DCQCN: Self = Self { from: 12_500, until: 500_000, most: (1 << 16) / 100 };

    /// Whether a packet is marked that finds so many bytes; `draw` is random.
    const fn hit(&self, bytes: u64, draw: u32) -> bool {
        if bytes <= self.from {
            return false;
        }
        if bytes > self.until {
            return true;
        }
        let part = (bytes - self.from) * self.most as u64 / (self.until - self.from);
        ((draw & 0xFFFF) as u64) < part
    }
}

/// How the switches of a fabric are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Bytes of the pool that all queues of a switch share.
    pub pool: u64,
    /// A queue may have `alpha` times what is free of the pool: numerator and denominator.
    pub alpha: (u64, u64),
    /// Which packets are marked.
    pub marks: Marks,
    /// Each packet takes a way of its own, instead of each flow (packet spraying).
    pub spray: bool,
    /// Lossless Ethernet: links are paused instead of dropping for want of `pool`.
    pub pfc: Option<PfcConfig>,
}

impl SwitchConfig {
    /// The lossy pool of a SONiC switch, and DCTCP's threshold for 100 Gb/s.
    pub const DEFAULT: Self =
        Self { pool: 14 << 20, alpha: (1, 2), marks: Marks::above(96 << 10), spray: false, pfc: None };
}

/// What became of packets at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchStats {
    /// Passed on.
    pub passed: u64,
    /// Of them marked.
    pub marked: u64,
    /// Dropped, as their queue had its share of the pool, or their link its headroom.
    pub dropped: u64,
    /// PAUSE frames that stop a link.
    pub pauses: u64,
}

impl Add for SwitchStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            marked: self.marked + other.marked,
            dropped: self.dropped + other.dropped,
            pauses: self.pauses + other.pauses,
        }
    }
}

/// A switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switch {
    /// Bytes in all queues, or more: what has left since it was counted last is still in it.
    used: u64,
    /// Counters.
    pub stats: SwitchStats,
}

impl Switch {
    /// Says whether a packet may enter the queue before `links[out]` at `now`. `ports` are the
    /// numbers of all links that leave the switch.
    pub fn admit(
        &mut self,
        config: &SwitchConfig,
        now: Ps,
        (links, ports, out): (&[Link], &[u32], u32),
        meta: &Meta,
    ) -> bool {
        let (backlog, len) = (links[out as usize].backlog(now), meta.wire_bytes());
        let share = |used: u64| config.pool.saturating_sub(used) * config.alpha.0 / config.alpha.1;
        if backlog + len > share(self.used) {
            self.used = ports.iter().map(|port| links[*port as usize].backlog(now)).sum();
            if backlog + len > share(self.used) || self.used + len > config.pool {
                return false;
            }
        }
        self.used += len;
        true
    }

    /// A packet enters the queue before `link`, and may be marked.
    pub fn pass(&mut self, config: &SwitchConfig, now: Ps, link: &Link, meta: &mut Meta) {
        self.stats.passed += 1;
        if !meta.markable || meta.marked {
            return;
        }
        let bytes = (link.backlog(now) * u64::from(link.ps_per_byte)).div_ceil(REFERENCE_PS_PER_BYTE);
        if config.marks.hit(bytes, mix(meta.flow.wrapping_add(low(self.stats.passed)))) {
            meta.marked = true;
            self.stats.marked += 1;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Node;

    /// What is marked is what finds more than the threshold before it, in time: a faster link's
    /// threshold is longer.
    #[test]
    fn packets_behind_the_threshold_are_marked() {
        for ps_per_byte in [80, 20] {
            let config = SwitchConfig { marks: Marks::above(10_000), ..SwitchConfig::DEFAULT };
            let mut links = vec![Link::new(Node::Switch(0), Node::Host(0), ps_per_byte, Ps(0))];
            let mut switch = Switch::default();
            let mut first = None;
            for number in 0..200 {
                let mut meta = Meta { len: 1000, markable: true, ..Meta::default() };
                assert!(switch.admit(&config, Ps(0), (&links, &[0], 0), &meta));
                switch.pass(&config, Ps(0), &links[0], &mut meta);
                links[0].send(Ps(0), 0, 0, 1000);
                if meta.marked {
                    first = first.or(Some(number));
                }
            }
            let bytes = 10_000 * 80 / u64::from(ps_per_byte);
            assert_eq!(first, Some(bytes / 1024 + 1), "the first that finds more than {bytes} bytes");
        }
    }

    /// Between its bounds RED marks as many as its line says.
    #[test]
    fn red_marks_in_proportion() {
        let config =
            SwitchConfig { marks: Marks { from: 0, until: 20_000, most: 1 << 14 }, ..SwitchConfig::DEFAULT };
        let mut link = Link::new(Node::Switch(0), Node::Host(0), 80, Ps(0));
        link.send(Ps(0), 0, 0, 10_000 - 24);
        let mut switch = Switch::default();
        for number in 0..10_000 {
            let mut meta = Meta { len: 1000, markable: true, flow: mix(number), ..Meta::default() };
            switch.pass(&config, Ps(0), &link, &mut meta);
        }
        // Half way: an eighth, of which the standard deviation is 33.
        assert!(switch.stats.marked.abs_diff(1250) < 130, "{:?}", switch.stats);
    }
}
