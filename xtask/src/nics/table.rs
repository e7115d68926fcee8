//! The table of what ran.

use std::fmt::Write as _;

use crate::error::{Error, Result};

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ok,
    Failed,
    /// It is made at the other MTU.
    Elsewhere,
}

/// The checks of a NIC at an MTU.
#[derive(Clone, Debug)]
pub struct Row {
    model: &'static str,
    driver: &'static str,
    mtu: u16,
    outcomes: Vec<Outcome>,
}

impl Row {
    /// Nothing was checked yet.
    pub const fn new(model: &'static str, driver: &'static str, mtu: u16) -> Self {
        Self { model, driver, mtu, outcomes: Vec::new() }
    }

    /// As a person names it.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.model, self.driver, self.mtu)
    }

    /// The check of the next column ended.
    pub fn note(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }
}

/// All rows so far.
pub struct Table {
    /// What its columns of checks are called.
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

impl Table {
    /// Without rows.
    pub const fn new(columns: Vec<&'static str>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints it; an error if a check failed, or if there was none.
    pub fn finish(&self) -> Result<()> {
        println!("\n{}", self.text());
        if self.rows.is_empty() {
            return Err(Error::new("no NIC has a row of this name: MODEL DRIVER MTU, or a part of it"));
        }
        let failed: Vec<String> =
            self.rows.iter().filter(|row| row.outcomes.contains(&Outcome::Failed)).map(Row::name).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error(format!("failed: {}", failed.join(", ")))) }
    }

    /// In Markdown, as docs/results.md has it.
    fn text(&self) -> String {
        let mut text = format!("| model | driver | MTU | {} |\n|---|---|---|", self.columns.join(" | "));
        text.push_str(&"---|".repeat(self.columns.len()));
        for Row { model, driver, mtu, outcomes } in &self.rows {
            let _ = write!(text, "\n| {model} | {driver} | {mtu} |");
            for outcome in outcomes {
                let word = match outcome {
                    Outcome::Ok => "ok",
                    Outcome::Failed => "FAILED",
                    Outcome::Elsewhere => "-",
                };
                let _ = write!(text, " {word} |");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_shown_and_is_the_outcome() {
        let mut table = Table::new(vec!["plain", "loss", "link"]);
        assert!(table.finish().is_err(), "nothing was checked");
        let row = |link| {
            let mut row = Row::new("e1000e", "vfio-pci", 1500);
            [Outcome::Ok, Outcome::Elsewhere, link].into_iter().for_each(|outcome| row.note(outcome));
            row
        };
        table.push(row(Outcome::Ok));
        assert_eq!(table.finish(), Ok(()));
        table.push(row(Outcome::Failed));
        assert_eq!(table.finish().expect_err("one failed").0, "failed: e1000e vfio-pci 1500");
        let shown = table.text();
        assert_eq!(shown.lines().last(), Some("| e1000e | vfio-pci | 1500 | ok | - | FAILED |"));
    }
}
