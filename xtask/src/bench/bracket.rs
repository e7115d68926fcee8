//! A figure over another, where the machine may change its speed at any moment: the other is
//! measured before and after.

use serde_json::{Value, json};

use crate::error::Result;

/// How often a bracket is measured until both of its ends agree.
const TRIES: usize = 5;
/// The ends agree if the larger is at most so many times the smaller.
const STEADY: f64 = 1.2;

/// One figure, and the other just before and just after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bracket {
    pub before: f64,
    pub of: f64,
    pub after: f64,
}

impl Bracket {
    /// The figure over the mean of the other.
    pub fn ratio(&self) -> f64 {
        self.of / f64::midpoint(self.before, self.after)
    }

    /// Returns `true` if the machine had one speed from beginning to end, as far as its ends tell.
    pub fn is_steady(&self) -> bool {
        self.before.max(self.after) <= STEADY * self.before.min(self.after)
    }
}

/// Measures until the machine had one speed from beginning to end; `None` if it never had.
pub fn measure(
    mut over: impl FnMut() -> Result<f64>,
    mut of: impl FnMut() -> Result<f64>,
) -> Result<Option<Bracket>> {
    let mut before = over()?;
    for _ in 0..TRIES {
        let bracket = Bracket { before, of: of()?, after: over()? };
        if bracket.is_steady() {
            return Ok(Some(bracket));
        }
        before = bracket.after;
    }
    Ok(None)
}

/// Each as before, figure, after.
pub fn to_json<'a>(brackets: impl IntoIterator<Item = &'a Bracket>) -> Value {
    brackets.into_iter().map(|bracket| json!([bracket.before, bracket.of, bracket.after])).collect()
}

/// Says how many ratios there are not, because the machine never settled.
pub fn report_unsteady(left_out: u64) {
    if left_out > 0 {
        println!("{left_out} ratios left out: the machine's speed changed while they were measured");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Measures on a machine that has these speeds, one a run; and how many runs that took.
    fn on(speeds: &[f64]) -> (Option<Bracket>, usize) {
        let run = Cell::new(0);
        let next = |factor: f64| {
            let speed = speeds[run.get().min(speeds.len() - 1)];
            run.set(run.get() + 1);
            Ok(speed * factor)
        };
        let bracket = measure(|| next(100.0), || next(50.0)).expect("every run succeeds");
        (bracket, run.get())
    }

    #[test]
    fn a_steady_machine_is_measured_once() {
        let (bracket, runs) = on(&[1.0]);
        assert_eq!((bracket.map(|b| b.ratio()), runs), (Some(0.5), 3));
    }

    #[test]
    fn a_change_of_speed_within_is_measured_again() {
        let (bracket, runs) = on(&[1.0, 1.0, 5.0, 5.0, 5.0]);
        assert_eq!(bracket, Some(Bracket { before: 500.0, of: 250.0, after: 500.0 }));
        assert_eq!(runs, 5);
    }

    #[test]
    fn a_machine_that_never_settles_gives_no_ratio() {
        let (bracket, runs) = on(&[1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 5.0]);
        assert_eq!((bracket, runs), (None, 1 + 2 * TRIES));
    }

    #[test]
    fn an_error_ends_it() {
        assert!(measure(|| Ok(1.0), || Err(crate::error::Error::new("no"))).is_err());
    }
}
