//! Figures, and ratios of two of them that were measured side by side.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::bracket::{self, Bracket};
use super::samples::{Samples, median};
use crate::error::Result;

/// A figure over another that is measured before and after it.
pub struct Ratio {
    pub key: &'static str,
    pub of: &'static str,
    pub over: &'static str,
}

/// What was measured.
#[derive(Default)]
pub struct Measured {
    /// By the key of the figure.
    pub samples: Samples,
    /// By the key of the ratio.
    brackets: BTreeMap<&'static str, Vec<Bracket>>,
    /// Times that the machine changed its speed under a ratio again and again.
    unsteady: u64,
}

impl Measured {
    /// Measures a ratio once more, by what measures its two figures.
    pub fn compare(
        &mut self,
        ratio: &Ratio,
        over: impl FnMut() -> Result<f64>,
        of: impl FnMut() -> Result<f64>,
    ) -> Result<()> {
        match bracket::measure(over, of)? {
            Some(bracket) => self.take(ratio, bracket),
            None => self.unsteady += 1,
        }
        Ok(())
    }

    /// One more bracket of a ratio.
    pub fn take(&mut self, ratio: &Ratio, bracket: Bracket) {
        self.samples.add(ratio.of, bracket.of);
        self.samples.add(ratio.over, bracket.before);
        self.samples.add(ratio.over, bracket.after);
        self.brackets.entry(ratio.key).or_default().push(bracket);
    }

    fn brackets_of(&self, ratio: &Ratio) -> &[Bracket] {
        self.brackets.get(ratio.key).map_or(&[], Vec::as_slice)
    }

    /// The median of a ratio's brackets.
    pub fn median_of(&self, ratio: &Ratio) -> Option<f64> {
        let ratios: Vec<f64> = self.brackets_of(ratio).iter().map(Bracket::ratio).collect();
        median(&ratios)
    }

    /// Says how many ratios there are not.
    pub fn report_unsteady(&self) {
        bracket::report_unsteady(self.unsteady);
    }

    /// All of these figures and ratios, round by round.
    pub fn to_json<'a>(
        &self,
        rounds: u64,
        figures: impl Iterator<Item = &'static str>,
        ratios: impl Iterator<Item = &'a Ratio>,
    ) -> Map<String, Value> {
        let samples: Value = figures.map(|key| (key.to_owned(), json!(self.samples.of(key)))).collect();
        let brackets: Value =
            ratios.map(|ratio| (ratio.key.to_owned(), bracket::to_json(self.brackets_of(ratio)))).collect();
        [
            ("rounds", json!(rounds)),
            ("samples", samples),
            ("brackets", brackets),
            ("unsteady", json!(self.unsteady)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
    }
}
