//! One probe: WRITEs over a connection, each waited for.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::pump::{PEER_WAIT, Patience};
use core::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, MemoryRegion, QueuePair, RemoteRegion, SendData, SendRequest, WcStatus,
};

/// Bytes of a small WRITE, which tells the latency.
const SMALL: usize = 8;
/// Bytes of a large one: what it takes beyond a small one tells the bandwidth.
pub const LARGE: usize = 1 << 20;
const LARGE_BITS: f64 = 8.0 * 1024.0 * 1024.0;
const _: () = assert!(LARGE == 1024 * 1024, "as many bits as LARGE has");
/// What the memory that they go to must allow.
pub const TARGET: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);
/// WRITEs whose times are looked at: groups of small ones and a large one, so that what disturbs
/// the CPU for a while disturbs both.
const GROUPS: usize = 16;
const SMALL_PER_GROUP: usize = 12;
/// Polls between two looks at the clock and at Ctrl-C.
const LOOK_INTERVAL: u32 = 1024;
/// What takes longer than this is not measured by spinning: it rests between its polls.
const REST_AFTER: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_millis(1);

/// What a probe measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// From a post of 8 bytes to its completion, in nanoseconds.
    pub latency_ns: f64,
    /// Payload once the first byte is through, in 10^9 bits a second.
    pub gbps: f64,
}

impl Measured {
    /// Of what a small and a large WRITE take, in nanoseconds.
    fn of_times(small_ns: f64, large_ns: f64) -> Self {
        Self { latency_ns: small_ns, gbps: LARGE_BITS / (large_ns - small_ns).max(1.0) }
    }

    /// What a large WRITE took, in nanoseconds.
    fn large_ns(self) -> f64 {
        self.latency_ns + LARGE_BITS / self.gbps
    }

    /// The better times of two. The better bandwidth would not do: it is that of small WRITEs that
    /// were disturbed, and take as long as a large one.
    #[must_use]
    pub fn best_of(self, other: Self) -> Self {
        Self::of_times(self.latency_ns.min(other.latency_ns), self.large_ns().min(other.large_ns()))
    }

    /// The longer latency and the lower bandwidth of two.
    #[must_use]
    pub fn worst_of(self, other: Self) -> Self {
        Self { latency_ns: self.latency_ns.max(other.latency_ns), gbps: self.gbps.min(other.gbps) }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} us and {:.1} Gb/s", self.latency_ns / 1000.0, self.gbps)
    }
}

/// A connection over which probes go.
pub struct Way {
    /// The sending end.
    pub pair: QueuePair,
    /// Its completions.
    pub cq: CompletionQueue,
    /// Where the WRITEs go: [`LARGE`] bytes or more.
    pub remote: RemoteRegion,
}

impl Way {
    /// Probes with a payload from `source`, of [`LARGE`] bytes or more. Each WRITE is `later` by
    /// so much: the CPU spins.
    ///
    /// A quarter of the times is not above what is taken: others who use the CPU disturb the rest.
    ///
    /// # Errors
    /// [`Error::Completion`], [`Error::Late`], [`Error::Interrupted`].
    pub fn probe(&mut self, source: &MemoryRegion, later: Duration) -> Result<Measured> {
        // The first ones fetch what the others find in the caches.
        for size in [LARGE, LARGE, SMALL] {
            self.write(source, size, later)?;
        }
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for _ in 0..GROUPS {
            for _ in 0..SMALL_PER_GROUP {
                small.push(self.write(source, SMALL, later)?);
            }
            large.push(self.write(source, LARGE, later)?);
        }
        Ok(Measured::of_times(quartile(small), quartile(large)))
    }

    /// One WRITE to its completion, in nanoseconds.
    fn write(&mut self, source: &MemoryRegion, size: usize, later: Duration) -> Result<f64> {
        interrupt::check()?;
        let gather = [source.slice(..size)?];
        let request = SendRequest::write(SendData::Gather(&gather), self.remote.at(0)).signaled();
        let since = Instant::now();
        while since.elapsed() < later {
            core::hint::spin_loop();
        }
        self.pair.post_send(&request)?;
        let (mut patience, mut polls, mut is_late) = (Patience::default(), 0_u32, false);
        loop {
            match self.cq.poll() {
                Some(done) if done.status == WcStatus::Success => {
                    return Ok(since.elapsed().as_secs_f64() * 1e9);
                }
                Some(done) => return Err(Error::Completion { what: "a probe", status: done.status }),
                None => patience.polled(false),
            }
            polls = polls.wrapping_add(1);
            if is_late || polls.is_multiple_of(LOOK_INTERVAL) {
                is_late = since.elapsed() > REST_AFTER;
                interrupt::check()?;
                if since.elapsed() > PEER_WAIT {
                    return Err(Error::Late("a probe did not complete", PEER_WAIT.as_secs()));
                }
            }
            if is_late {
                sleep(REST);
            }
        }
    }
}

/// What a quarter of the times is not above.
fn quartile(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 4).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_what_a_large_write_takes_beyond_a_small_one() {
        let measured = Measured::of_times(2_000.0, 85_886.08);
        assert!((measured.gbps - 100.0).abs() < 1e-9, "{measured:?}");
        assert_eq!(measured.to_string(), "2.00 us and 100.0 Gb/s");
        assert!(Measured::of_times(2.0, 1.0).gbps.is_finite(), "a clock that stands still");
    }

    /// Small WRITEs that waited for the CPU seem to leave no time to the large ones.
    #[test]
    fn a_round_that_was_disturbed_is_not_the_best() {
        let well = Measured::of_times(1_300.0, 151_300.0);
        for disturbed in [Measured::of_times(140_000.0, 152_000.0), Measured::of_times(200_000.0, 151_000.0)]
        {
            assert!(disturbed.gbps > 10.0 * well.gbps);
            for best in [well.best_of(disturbed), disturbed.best_of(well)] {
                assert!((best.gbps / well.gbps - 1.0).abs() < 1e-9, "{best:?}");
                assert!((best.latency_ns - well.latency_ns).abs() < 1e-9, "{best:?}");
            }
        }
    }
}
