//! A run of named steps: a heading before each, a table of results and times at the end.

use std::fmt::Write as _;
use std::process::Command;
use std::thread;
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
pub struct Steps {
    began: Instant,
    rows: Vec<Row>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { began: Instant::now(), rows: Vec::new() }
    }
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

    /// Runs a command as a step, and `others` meanwhile. What it says is shown behind them.
    pub fn beside(&mut self, name: &str, mut command: Command, others: impl FnOnce(&mut Self)) {
        println!("\n==> {name}, beside what follows: {}", repo::shown(&command));
        let (outcome, took) = thread::scope(|scope| {
            let start = Instant::now();
            let running = scope.spawn(move || (repo::heard(&mut command), start.elapsed()));
            others(self);
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        println!("\n==> {name}, which ran beside");
        self.row(name, outcome.and_then(|heard| heard.show()), took);
    }

    fn time(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let outcome = work();
        self.row(name, outcome, start.elapsed());
    }

    fn row(&mut self, name: &str, outcome: Result<()>, took: Duration) {
        if let Err(error) = &outcome {
            eprintln!("{error}");
        }
        self.rows.push(Row { name: name.to_owned(), outcome, took });
    }

    /// Prints the table; an error if any step failed.
    pub fn finish(self) -> Result<()> {
        println!("\n{}", self.table(self.began.elapsed()));
        let failed: Vec<&str> =
            self.rows.iter().filter(|row| row.outcome.is_err()).map(|row| row.name.as_str()).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error(format!("{} of {} steps failed: {}", failed.len(), self.rows.len(), failed.join(", "))))
    }

    /// Each step, and how long all took.
    fn table(&self, all: Duration) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("step".len());
        let mut table = format!("{:width$}  result  {:>9}", "step", "time");
        for row in &self.rows {
            let result = if row.outcome.is_ok() { "ok" } else { "FAILED" };
            let _ = write!(table, "\n{:width$}  {result:6}  {:>9}", row.name, seconds(row.took));
        }
        let _ = write!(table, "\n{:width$}  {:6}  {:>9}", "all", "", seconds(all));
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
    fn a_step_beside_others_is_one_of_them() {
        let mut steps = Steps::default();
        steps.beside("false", Command::new("false"), |steps| {
            steps.command("true", Command::new("true"));
        });
        // It ends only once the others run.
        let file = std::env::temp_dir().join(format!("srnic-beside-{}", std::process::id()));
        let mut waits = Command::new("sh");
        waits
            .args(["-c", "for i in $(seq 600); do [ -e \"$0\" ] && exit; sleep 0.1; done; exit 1"])
            .arg(&file);
        steps.beside("waits", waits, |_| std::fs::write(&file, "").expect("a file of ours"));
        std::fs::remove_file(&file).expect("it is there");
        assert_eq!(steps.finish().expect_err("false fails").0, "1 of 3 steps failed: false");
    }

    #[test]
    fn the_table_lines_up() {
        let row = |name: &str, outcome, secs| Row {
            name: name.to_owned(),
            outcome,
            took: Duration::from_secs(secs),
        };
        let steps = Steps {
            rows: vec![row("wire", Ok(()), 2), row("sr-recovery", Err(Error::new("x")), 125)],
            ..Steps::default()
        };
        assert_eq!(
            steps.table(Duration::from_secs(127)),
            "step         result       time\n\
             wire         ok          2.0 s\n\
             sr-recovery  FAILED   2 m 05 s\n\
             all                   2 m 07 s"
        );
    }
}
