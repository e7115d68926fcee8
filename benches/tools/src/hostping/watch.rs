//! When to look again: after a while, and at once when frames are dropped, for a hundredth of a CPU
//! at most.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::stat::dropped;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use verbs_api::{Device, StatAddress};

/// Looks take at most one part in so many of the time.
const SHARE: u32 = 100;
/// Time between two glances at counters, at least, and in times of what a glance takes.
const GLANCE: Duration = Duration::from_millis(100);
const GLANCE_SHARE: u32 = 4 * SHARE;
/// Time between two looks for Ctrl-C.
const STEP: Duration = Duration::from_millis(50);

/// Why there is a look.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    /// It is the first.
    Start,
    /// The time has come.
    Time,
    /// Frames were dropped: how many, and by which device.
    Drops(u64, String),
}

impl Reason {
    /// In one word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Time => "time",
            Self::Drops(..) => "drops",
        }
    }
}

/// Time of CPUs that was spent, of a hundredth of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Budget {
    spent: Duration,
    /// What the longest look took.
    longest: Duration,
}

impl Budget {
    /// When what was spent and the longest look once more are a hundredth of the time, counted from
    /// the beginning.
    fn even_at(&self) -> Duration {
        self.spent.saturating_add(self.longest).saturating_mul(SHARE)
    }

    /// From when on a look may come that nobody planned: two looks before a planned one.
    fn in_advance_at(&self) -> Duration {
        self.spent.saturating_sub(self.longest).saturating_mul(SHARE)
    }
}

/// Looks out for the time of the next look.
pub struct Watch<'a> {
    device: &'a Device,
    others: &'a [StatAddress],
    /// Frames that each device had dropped: this one, and the others. `None`: it did not tell.
    before: Vec<Option<u64>>,
    begun: Instant,
    cpu_at_begin: Duration,
    budget: Budget,
    next_glance: Instant,
}

impl<'a> Watch<'a> {
    /// Watches the drops of this device, and of others by what they tell.
    ///
    /// # Errors
    /// [`Error::Stat`] if one of them is not there.
    pub fn begin(device: &'a Device, others: &'a [StatAddress]) -> Result<Self> {
        for address in others {
            address.read().map_err(|source| Error::Stat { address: address.to_string(), source })?;
        }
        let begun = Instant::now();
        let (before, budget) = (Vec::new(), Budget::default());
        let mut watch =
            Self { device, others, before, begun, cpu_at_begin: cpu_time(), budget, next_glance: begun };
        watch.before = watch.counts();
        Ok(watch)
    }

    /// A look took so much time of CPUs.
    pub fn look_took(&mut self, took: Duration) {
        self.budget.longest = self.budget.longest.max(took);
        // What the probes themselves lost was seen by the look.
        self.before = self.counts();
    }

    /// The part of a CPU that this process has used since it watches.
    #[must_use]
    pub fn cpu_share(&self) -> f64 {
        self.cpu_since_begin().as_secs_f64() / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    fn cpu_since_begin(&self) -> Duration {
        cpu_time().saturating_sub(self.cpu_at_begin)
    }

    /// Waits until it is time: `wanted` after now, or later if the last looks took too long for
    /// that; or at once when frames are dropped.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn wait(&mut self, wanted: Duration) -> Result<Reason> {
        let planned = self.begun.elapsed() + wanted;
        let mut drops = None;
        loop {
            interrupt::check()?;
            drops = drops.or(self.glance());
            self.budget.spent = self.cpu_since_begin();
            let passed = self.begun.elapsed();
            if let Some((count, device)) = drops.take_if(|_| passed >= self.budget.in_advance_at()) {
                return Ok(Reason::Drops(count, device));
            }
            let due = planned.max(self.budget.even_at());
            if passed >= due {
                return Ok(drops.map_or(Reason::Time, |(count, device)| Reason::Drops(count, device)));
            }
            std::thread::sleep((due - passed).min(STEP));
        }
    }

    /// Drops since the last glance, if it is time for one: how many, and whose.
    fn glance(&mut self) -> Option<(u64, String)> {
        let since = Instant::now();
        if since < self.next_glance {
            return None;
        }
        self.device.progress();
        let now = self.counts();
        let device = moved(&self.before, &now);
        let drops = device.map(|device| {
            let name = device.checked_sub(1).and_then(|other| self.others.get(other));
            let count = now[device].unwrap_or(0) - self.before[device].unwrap_or(0);
            (count, name.map_or_else(|| "this device".to_owned(), ToString::to_string))
        });
        self.before = now;
        let took = since.elapsed();
        self.next_glance = since + GLANCE.max(took.saturating_mul(GLANCE_SHARE));
        drops
    }

    fn counts(&self) -> Vec<Option<u64>> {
        let here = dropped::by(self.device);
        // One that is gone meanwhile counts again when it is back.
        let others = self.others.iter().map(|address| Some(dropped::told(&address.read().ok()?)));
        std::iter::once(Some(here)).chain(others).collect()
    }
}

/// The first device that dropped more than before. One that was opened again begins again.
fn moved(before: &[Option<u64>], now: &[Option<u64>]) -> Option<usize> {
    let has_moved = |(before, now): (&Option<u64>, &Option<u64>)| before.is_some() && now > before;
    before.iter().zip(now).position(has_moved)
}

/// Time of all CPUs that this process has used.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks that come as early as they may, planned ones and those on drops, by a clock of ours.
    fn share(wanted: Duration, took: Duration, drops: bool, looks: u32) -> f64 {
        let (mut budget, mut now) = (Budget::default(), Duration::ZERO);
        for _ in 0..looks {
            now += took;
            (budget.spent, budget.longest) = (budget.spent + took, took);
            let planned = (now + wanted).max(budget.even_at());
            let on_drops = now.max(budget.in_advance_at());
            now = if drops { planned.min(on_drops) } else { planned };
        }
        budget.spent.as_secs_f64() / now.as_secs_f64()
    }

    #[test]
    fn looks_take_at_most_a_hundredth_of_the_time() {
        let [short, long] = [20, 300].map(Duration::from_millis);
        let wanted = Duration::from_secs(10);
        assert!((share(wanted, short, false, 100) - 0.002).abs() < 1e-4, "as often as wanted");
        assert!((share(wanted, long, false, 100) - 0.01 * 100.0 / 101.0).abs() < 1e-6, "as often as it may");
        // Who drops all the time has one look in advance, and not two.
        let with_drops = share(wanted, long, true, 100);
        assert!(with_drops <= 0.01 * 100.0 / 99.0 + 1e-6, "{with_drops}");
        assert!(with_drops > 0.0099);
    }

    #[test]
    fn the_first_drops_are_looked_at_at_once() {
        let took = Duration::from_millis(300);
        let budget = |looks| Budget { spent: looks * took, longest: took };
        assert_eq!(budget(1).in_advance_at(), Duration::ZERO);
        let budget = budget(2);
        assert_eq!((budget.in_advance_at(), budget.even_at()), (100 * took, 300 * took));
    }

    #[test]
    fn drops_are_what_has_moved() {
        assert_eq!(moved(&[Some(3), Some(5)], &[Some(3), Some(5)]), None);
        assert_eq!(moved(&[Some(3), Some(5)], &[Some(3), Some(6)]), Some(1));
        assert_eq!(moved(&[Some(3), Some(5)], &[Some(3), Some(0)]), None, "it was opened again");
        assert_eq!(moved(&[Some(3), None], &[Some(3), Some(9)]), None, "it is back");
        assert_eq!(moved(&[Some(3), Some(5)], &[Some(3), None]), None, "it is gone");
    }
}
