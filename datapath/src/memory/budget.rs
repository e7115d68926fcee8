//! How much memory those may register together who share a budget.

use super::RegisterError;
use core::sync::atomic::{AtomicU64, Ordering};

/// Regions and bytes that some protection domains may register together, and what they did. It only
/// changes along with the table of regions; others may look.
#[derive(Debug)]
pub struct MemoryBudget {
    regions_max: AtomicU64,
    bytes_max: AtomicU64,
    regions: AtomicU64,
    bytes: AtomicU64,
}

impl MemoryBudget {
    /// At most so many regions and bytes; `None`: as many as the device has.
    #[must_use]
    pub fn new(regions: Option<u32>, bytes: Option<u64>) -> Self {
        let budget = Self {
            regions_max: AtomicU64::new(0),
            bytes_max: AtomicU64::new(0),
            regions: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        budget.limit(regions, bytes);
        budget
    }

    /// Other limits from now on. What is registered stays.
    pub fn limit(&self, regions: Option<u32>, bytes: Option<u64>) {
        self.regions_max.store(regions.map_or(u64::MAX, u64::from), Ordering::Relaxed);
        self.bytes_max.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Regions, and bytes of them.
    #[must_use]
    pub fn used(&self) -> (u64, u64) {
        (self.regions.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Whether so many more regions and bytes fit.
    pub(super) fn check(&self, regions: u64, bytes: u64) -> Result<(), RegisterError> {
        let used = self.used();
        let parts = [
            ("memory regions", used.0.saturating_add(regions), &self.regions_max),
            ("bytes of memory", used.1.saturating_add(bytes), &self.bytes_max),
        ];
        for (what, wanted, most) in parts {
            let quota = most.load(Ordering::Relaxed);
            if wanted > quota {
                return Err(RegisterError::Quota { what, quota });
            }
        }
        Ok(())
    }

    /// A region of so many bytes is registered.
    pub(super) fn take(&self, bytes: u64) {
        self.regions.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It is no more.
    pub(super) fn give_back(&self, bytes: u64) {
        self.regions.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
