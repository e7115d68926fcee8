//! A run of named steps: a heading before each, a table of results and times at the end.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::repo;

struct Row {
    name: String,
    outcome: Result<()>,
    took: Duration,
}

/// Steps done so far. A failed step does not stop the ones after it: one run shows all that is
/// wrong.
#[derive(Default)]
pub struct Steps {
    rows: Vec<Row>,
}

impl Steps {
    /// Runs a command as a step.
    pub fn command(&mut self, name: &str, command: Command) {
        println!("\n==> {name}: {}", repo::shown(&command));
        self.time(name, || repo::run(command));
    }

    /// Runs a check of our own as a step.
    pub fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        println!("\n==> {name}");
        self.time(name, check);
    }

    fn time(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let outcome = work();
        if let Err(error) = &outcome {
            eprintln!("{error}");
        }
        self.rows.push(Row { name: name.to_owned(), outcome, took: start.elapsed() });
    }

    /// Prints the table; an error if any step failed.
    pub fn finish(self) -> Result<()> {
        println!("\n{}", self.table());
        let failed: Vec<&str> =
            self.rows.iter().filter(|row| row.outcome.is_err()).map(|row| row.name.as_str()).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error(format!("{} of {} steps failed: {}", failed.len(), self.rows.len(), failed.join(", "))))
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("step".len());
        let total = self.rows.iter().map(|row| row.took).sum();
        let mut table = format!("{:width$}  result  {:>9}", "step", "time");
        for row in &self.rows {
            let result = if row.outcome.is_ok() { "ok" } else { "FAILED" };
            let _ = write!(table, "\n{:width$}  {result:6}  {:>9}", row.name, seconds(row.took));
        }
        let _ = write!(table, "\n{:width$}  {:6}  {:>9}", "all", "", seconds(total));
        table
    }
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} m {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_named_and_the_next_one_still_runs() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.check("first", || Err(Error::new("broken")));
        steps.check("second", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        let error = steps.finish().expect_err("one step failed");
        assert_eq!(error.0, "1 of 2 steps failed: first");
    }

    #[test]
    fn a_failing_command_fails_its_step() {
        let mut steps = Steps::default();
        steps.command("false", Command::new("false"));
        steps.command("true", Command::new("true"));
        assert_eq!(steps.finish().expect_err("false fails").0, "1 of 2 steps failed: false");
    }

    #[test]
    fn the_table_lines_up() {
        let row = |name: &str, outcome, secs| Row {
            name: name.to_owned(),
            outcome,
            took: Duration::from_secs(secs),
        };
        let steps =
            Steps { rows: vec![row("wire", Ok(()), 2), row("sr-recovery", Err(Error::new("x")), 125)] };
        assert_eq!(
            steps.table(),
            "step         result       time\n\
             wire         ok          2.0 s\n\
             sr-recovery  FAILED   2 m 05 s\n\
             all                   2 m 07 s"
        );
    }
}
