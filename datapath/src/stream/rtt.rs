//! Round-trip times and the timeouts made from them (protocol.md 2.5, RTO).

/// Floors of the timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// Least low RTO, in nanoseconds: 10 ms where wall-clock gaps of milliseconds happen.
    pub low_floor_ns: u64,
    /// Least high RTO, in nanoseconds.
    pub high_floor_ns: u64,
    /// Least time before a tail probe, in nanoseconds.
    pub tail_floor_ns: u64,
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self { low_floor_ns: 10_000_000, high_floor_ns: 30_000_000, tail_floor_ns: 30_000 }
    }
}

impl RtoConfig {
    /// The paper-shaped simulation: 100 us and 320 us.
    pub const SIMULATION: Self =
        Self { low_floor_ns: 100_000, high_floor_ns: 320_000, tail_floor_ns: 30_000 };
}

/// Smoothed round-trip time and its variation, as in RFC 6298.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    srtt_ns: u64,
    variation_ns: u64,
    samples: u32,
}

impl RttEstimator {
    /// Takes a sample in nanoseconds.
    #[inline]
    pub fn sample(&mut self, rtt_ns: u64) {
        let rtt_ns = rtt_ns.max(1);
        self.samples = self.samples.wrapping_add(1);
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
        } else {
            let error = self.srtt_ns.abs_diff(rtt_ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + error / 4;
            self.srtt_ns = self.srtt_ns - self.srtt_ns / 8 + rtt_ns / 8;
        }
    }

    /// Smoothed round-trip time in nanoseconds; 0 before the first sample.
    #[must_use]
    pub const fn srtt_ns(&self) -> u64 {
        self.srtt_ns
    }

    /// How many samples it took, mod 2^32.
    #[must_use]
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Low RTO in nanoseconds: for streams with few packets outstanding. Two round trips after the
    /// tail probe, so that its answer comes first.
    #[must_use]
    pub fn rto_low_ns(&self, config: &RtoConfig) -> u64 {
        (6 * self.srtt_ns).max(config.low_floor_ns)
    }

    /// High RTO in nanoseconds.
    #[must_use]
    pub fn rto_high_ns(&self, config: &RtoConfig) -> u64 {
        (self.srtt_ns + 4 * self.variation_ns).max(3 * self.rto_low_ns(config)).max(config.high_floor_ns)
    }

    /// Time without progress before a tail probe, in nanoseconds.
    #[must_use]
    pub fn tail_ns(&self, config: &RtoConfig) -> u64 {
        (4 * self.srtt_ns).max(config.tail_floor_ns)
    }
}
