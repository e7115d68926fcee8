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
    outcomes: [Outcome; Table::COLUMNS.len()],
}

impl Row {
    /// Nothing was checked yet.
    pub const fn new(model: &'static str, driver: &'static str, mtu: u16) -> Self {
        Self { model, driver, mtu, outcomes: [Outcome::Elsewhere; Table::COLUMNS.len()] }
    }

    /// As a person names it.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.model, self.driver, self.mtu)
    }

    /// The check of a column ended.
    pub fn note(&mut self, column: usize, outcome: Outcome) {
        self.outcomes[column] = outcome;
    }
}

/// All rows so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub const PLAIN: usize = 0;
    pub const LOSS: usize = 1;
    pub const LONGER: usize = 2;
    pub const LINK: usize = 3;
    pub const REMOVED: usize = 4;
    /// What the columns are called.
    pub const COLUMNS: [&str; 5] = ["plain", "loss", "longer refused", "link", "removed"];

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
        let mut text = format!("| model | driver | MTU | {} |\n|---|---|---|", Self::COLUMNS.join(" | "));
        text.push_str(&"---|".repeat(Self::COLUMNS.len()));
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
        let mut table = Table::default();
        assert!(table.finish().is_err(), "nothing was checked");
        let mut row = Row::new("e1000e", "vfio-pci", 1500);
        row.note(Table::PLAIN, Outcome::Ok);
        table.push(row.clone());
        assert_eq!(table.finish(), Ok(()));
        row.note(Table::LINK, Outcome::Failed);
        table.push(row);
        assert_eq!(table.finish().expect_err("one failed").0, "failed: e1000e vfio-pci 1500");
        let last = table.text();
        assert_eq!(last.lines().last(), Some("| e1000e | vfio-pci | 1500 | ok | - | - | FAILED | - |"));
    }
}
