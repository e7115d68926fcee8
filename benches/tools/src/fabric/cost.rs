//! What a run costs: time, time of processors, memory.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};

/// What a run has cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Seconds that passed.
    pub seconds: f64,
    /// Seconds of processors, of all threads together.
    pub core_seconds: f64,
    /// The most memory that the process had, in bytes; `None`: the system does not say.
    pub peak_bytes: Option<u64>,
}

impl Cost {
    /// Of so many things how many a second and core.
    #[must_use]
    pub fn rate(&self, count: u64) -> f64 {
        if self.core_seconds > 0.0 { count as f64 / self.core_seconds } else { 0.0 }
    }
}

/// Measures a run from here on.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    cpu: Duration,
}

impl Meter {
    /// The run begins: the most memory counts from what there is now.
    #[must_use]
    pub fn start() -> Self {
        // Where that cannot be written, the most since the process began is told.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { begun: Instant::now(), cpu: cpu() }
    }

    /// What it has cost up to now.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let core_seconds = cpu().saturating_sub(self.cpu).as_secs_f64();
        Cost { seconds: self.begun.elapsed().as_secs_f64(), core_seconds, peak_bytes: peak() }
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |part: i64| part.try_into().unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

fn peak() -> Option<u64> {
    peak_of(&fs::read_to_string("/proc/self/status").ok()?)
}

/// The most resident memory, by what proc(5) says in `status`.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_memory_is_read() {
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 9 kB\n"), Some(2 << 20));
        assert_eq!(peak_of("Name:\tx\n"), None);
    }

    /// A run that computes costs time of a processor, and memory that was touched is seen.
    #[test]
    fn what_is_used_is_measured() {
        let meter = Meter::start();
        let memory: Vec<u8> = (0..32 << 20).map(|byte: u32| byte.to_le_bytes()[0]).collect();
        let cost = meter.cost();
        assert!(cost.core_seconds > 0.0 && cost.seconds > 0.0, "{cost:?}");
        assert!(cost.peak_bytes.is_none_or(|peak| peak >= memory.len() as u64), "{cost:?}");
        assert!((Cost { core_seconds: 2.0, ..cost }).rate(10).total_cmp(&5.0).is_eq());
    }
}
