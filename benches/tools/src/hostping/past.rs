//! What was found look after look, and when to look again.

use super::finding::{Finding, Level};
use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Looks that are shown.
const LOOKS: usize = 32;
/// A look takes at most one part in so many of the time.
const SHARE: u32 = 100;

/// The last verdicts on each part.
#[derive(Clone, Debug, Default)]
pub struct Past(BTreeMap<String, VecDeque<Level>>);

impl Past {
    /// Takes what a look found.
    pub fn note(&mut self, findings: &[Finding]) {
        for finding in findings {
            let levels = self.0.entry(finding.name.clone()).or_default();
            if levels.len() == LOOKS {
                levels.pop_front();
            }
            levels.push_back(finding.level);
        }
    }

    /// The verdicts on a part, the oldest first.
    pub fn of(&self, name: &str) -> impl Iterator<Item = Level> + '_ {
        self.0.get(name).into_iter().flatten().copied()
    }

    /// Whether there is more than one look to show.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.0.values().any(|levels| levels.len() > 1)
    }
}

/// A line for each part, a letter for each look.
impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.keys().map(String::len).max().unwrap_or(0);
        writeln!(f, "looks before, the last one on the right (. good, ? unknown, ! warning, X bad)")?;
        for (name, levels) in &self.0 {
            let letters: String = levels.iter().map(|level| letter(*level)).collect();
            writeln!(f, "{name:<width$}  {letters:>LOOKS$}")?;
        }
        Ok(())
    }
}

const fn letter(level: Level) -> char {
    match level {
        Level::Good => '.',
        Level::Unknown => '?',
        Level::Warning => '!',
        Level::Bad => 'X',
    }
}

/// How long to wait after a look that took `took`, if looks are wanted each `wanted`: longer if it
/// would cost more than a hundredth of a CPU.
#[must_use]
pub fn pause(wanted: Duration, took: Duration) -> Duration {
    wanted.max(took.saturating_mul(SHARE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_remembered() {
        let mut past = Past::default();
        past.note(&[Finding::good("CPU 0", ""), Finding::unknown("the device", "")]);
        assert!(!past.is_long());
        past.note(&[Finding::bad("CPU 0", "", ""), Finding::good("the device", "")]);
        assert!(past.is_long());
        assert_eq!(past.of("CPU 0").collect::<Vec<_>>(), [Level::Good, Level::Bad]);
        let text = past.to_string();
        assert!(text.contains(" .X\n") && text.contains(" ?.\n"), "{text}");
        (0..100).for_each(|_| past.note(&[Finding::good("CPU 0", "")]));
        assert_eq!(past.of("CPU 0").count(), LOOKS);
    }

    #[test]
    fn a_look_takes_at_most_a_hundredth_of_the_time() {
        let [short, long] = [20, 300].map(Duration::from_millis);
        let wanted = Duration::from_secs(10);
        assert_eq!(pause(wanted, short), wanted);
        let pause = pause(wanted, long);
        assert!(long.as_secs_f64() / (long + pause).as_secs_f64() <= 0.01 + 1e-9);
    }
}
