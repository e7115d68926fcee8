//! Switches: a pool of memory that the queues of a switch share, and marks.

use crate::clock::Ps;
use crate::link::Link;
use crate::packet::Meta;

/// How the switches of a fabric are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Bytes of the pool that all queues of a switch share.
    pub pool: u64,
    /// A queue may have `alpha` times what is free of the pool: numerator and denominator.
    pub alpha: (u64, u64),
    /// Bytes that wait in a queue from which on arriving packets are marked; at 100 Gb/s, and as much more as the link is
    /// faster.
    pub mark: u64,
}

impl SwitchConfig {
    /// The lossy pool of a SONiC switch, and DCTCP's threshold for 100 Gb/s.
    pub const DEFAULT: Self = Self { pool: 14 << 20, alpha: (1, 2), mark: 96 << 10 };
}

/// What became of packets at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchStats {
    /// Passed on.
    pub passed: u64,
    /// Of them marked.
    pub marked: u64,
    /// Dropped, as their queue had its share of the pool.
    pub dropped: u64,
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
    /// Says whether a packet may enter the queue before `links[out]` at `now`, and marks it if that is
    /// long. `ports` are the numbers of all links that leave the switch.
    pub fn admit(
        &mut self,
        config: &SwitchConfig,
        now: Ps,
        (links, ports, out): (&[Link], &[u32], u32),
        meta: &mut Meta,
    ) -> bool {
        let link = &links[out as usize];
        let backlog = link.backlog(now);
        let len = u64::from(meta.len);
        let share = |used: u64| config.pool.saturating_sub(used) * config.alpha.0 / config.alpha.1;
        if backlog + len > share(self.used) {
            self.used = ports.iter().map(|port| links[*port as usize].backlog(now)).sum();
            if backlog + len > share(self.used) || self.used + len > config.pool {
                self.stats.dropped += 1;
                return false;
            }
        }
        self.used += len;
        if meta.markable && !meta.marked && backlog * u64::from(link.ps_per_byte) > config.mark * 80 {
            meta.marked = true;
            self.stats.marked += 1;
        }
        self.stats.passed += 1;
        true
    }
}
