//! The table of what ran where.

use std::fmt::Write as _;

/// What became of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ok,
    /// Well, but something was left out.
    Partly,
    Failed,
    Skipped,
}

/// A distribution.
pub struct Row {
    pub system: String,
    /// The version of DPDK; empty if it is not known.
    pub dpdk: String,
    /// The version of Rust.
    pub rust: String,
    /// One for each run.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let word = |outcome: &Outcome| match outcome {
            Outcome::Ok => "ok",
            Outcome::Partly => "ok, some skipped",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        let dpdk = if self.dpdk.is_empty() { "-" } else { &self.dpdk };
        let known = [&self.system, dpdk, &self.rust].map(str::to_owned);
        known.into_iter().chain(self.outcomes.iter().map(|outcome| word(outcome).to_owned())).collect()
    }
}

/// The rows under the runs' names, in columns.
pub fn text(runs: &[&str], rows: &[Row]) -> String {
    let heading = ["system", "DPDK", "Rust (this machine's)"].iter().chain(runs).map(|&name| name.to_owned());
    let lines: Vec<Vec<String>> =
        std::iter::once(heading.collect()).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max();
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (column, cell) in line.iter().enumerate() {
            let _ = write!(padded, "{cell:0$}  ", width(column).unwrap_or(0));
        }
        text += padded.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up() {
        let row = |system: &str, dpdk: &str, outcomes: &[Outcome]| Row {
            system: system.to_owned(),
            dpdk: dpdk.to_owned(),
            rust: "1.95.0".to_owned(),
            outcomes: outcomes.to_vec(),
        };
        let rows = [
            row("Debian 12", "22.11.11", &[Outcome::Ok, Outcome::Failed]),
            row("Debian testing", "", &[Outcome::Skipped, Outcome::Skipped]),
        ];
        assert_eq!(
            text(&["program", "demo"], &rows),
            "system          DPDK      Rust (this machine's)  program  demo\n\
             Debian 12       22.11.11  1.95.0                 ok       FAILED\n\
             Debian testing  -         1.95.0                 skipped  skipped\n"
        );
    }
}
