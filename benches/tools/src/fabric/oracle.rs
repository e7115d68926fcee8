//! `srnic fabric oracle`: what theory says, beside what the simulator makes of it.

use crate::error::{Error, Result};
use crate::{interrupt, output};
use srnic_fabric::oracle::{Check, Effort, play};

/// Makes all checks, and tells of each once it is made.
pub fn run() -> Result<()> {
    output::line(format!(
        "{:92} {:>10} {:>10} {:>9} {:>9}",
        "what", "expected", "seen", "differs", "at most"
    ))?;
    let (mut wrong, mut told) = (0_u32, Ok(()));
    play(Effort::FULL, |check| {
        wrong += u32::from(!check.holds());
        told = output::line(line(&check));
        told.is_ok() && interrupt::check().is_ok()
    })
    .map_err(|error| Error::Options(error.to_string()))?;
    told.and_then(|()| interrupt::check())?;
    if wrong == 0 { Ok(()) } else { Err(Error::Oracle(wrong)) }
}

fn line(check: &Check) -> String {
    let Check { what, expected, seen, limit } = check;
    let verdict = if check.holds() { "" } else { "  WRONG" };
    let (differs, limit) = (100.0 * check.deviation(), 100.0 * limit);
    format!("{what:92} {expected:10.3} {seen:10.3} {differs:7.3} % {limit:7.3} %{verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_marked() {
        let check = Check { what: "a wait".to_owned(), expected: 2.0, seen: 2.1, limit: 0.1 };
        assert!(line(&check).contains("5.000 %  10.000 %") && !line(&check).contains("WRONG"));
        assert!(line(&Check { limit: 0.01, ..check }).contains("WRONG"));
    }
}
