//! What was found look after look.

use super::finding::{Finding, Level};
use core::fmt;
use std::collections::{BTreeMap, VecDeque};

/// Looks that are shown.
const LOOKS: usize = 32;

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
}
