//! Verdicts of round after round.

use super::Verdict;

/// Rounds in a row in which a part must be gray before it is called flapping.
const FLAPPING_AFTER: u32 = 3;

/// For how many rounds each part has been gray.
#[derive(Clone, Debug, Default)]
pub struct History {
    grays: Vec<u32>,
}

impl History {
    /// Takes the verdicts of the next round.
    pub fn note(&mut self, verdicts: &[Verdict]) {
        self.grays.resize(verdicts.len(), 0);
        for (grays, verdict) in self.grays.iter_mut().zip(verdicts) {
            *grays = if *verdict == Verdict::Gray { grays.saturating_add(1) } else { 0 };
        }
    }

    /// Whether a part has been gray for three rounds in a row: it fails again and again.
    #[must_use]
    pub fn is_flapping(&self, link: usize) -> bool {
        self.grays.get(link).is_some_and(|grays| *grays >= FLAPPING_AFTER)
    }
}
