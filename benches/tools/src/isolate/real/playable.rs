//! Which attackers and victims can be played on two processes.

use crate::error::{Error, Result};
use crate::two_hosts::{Playable, QPS_MAX};
use srnic_workload::isolate::{Matrix, Side};
use std::collections::BTreeSet;

/// Why a side cannot be played, if that is so.
fn refusal(side: &Side) -> Option<String> {
    side.workload.iter().find_map(|entry| Playable::of(entry).err())
}

/// Whether the attackers and victims of these couples can be played.
///
/// # Errors
/// [`Error::Options`] with those that cannot, and those of the whole matrix that can.
pub fn check(whole: &Matrix, matrix: &Matrix, couples: &[(usize, usize)]) -> Result<()> {
    let attackers: BTreeSet<_> = couples.iter().map(|(attacker, _)| *attacker).collect();
    let victims: BTreeSet<_> = couples.iter().map(|(_, victim)| *victim).collect();
    for (name, numbers, chosen, all) in [
        ("attackers", attackers, &matrix.attacker, &whole.attacker),
        ("victims", victims, &matrix.victim, &whole.victim),
    ] {
        let sides = numbers.into_iter().map(|number| &chosen[number]);
        let refused: Vec<_> =
            sides.filter_map(|side| Some(format!("{} ({})", side.name, refusal(side)?))).collect();
        if refused.is_empty() {
            continue;
        }
        let able = all.iter().filter(|side| refusal(side).is_none());
        let able: Vec<_> = able.map(|side| side.name.as_str()).collect();
        let hint = if able.is_empty() {
            "it can play none of the others".to_owned()
        } else {
            format!("choose of --{name} {}", able.join(","))
        };
        let refused = refused.join(", ");
        return Err(Error::Options(format!("{name} that --real cannot play: {refused}; {hint}")));
    }
    Ok(())
}

/// The matrix with no more queue pairs of an entry than there are on two processes, so that what
/// is simulated is what is measured.
#[must_use]
pub fn cut(matrix: &Matrix) -> Matrix {
    let mut matrix = matrix.clone();
    let sides = matrix.attacker.iter_mut().chain(&mut matrix.victim);
    for entry in sides.flat_map(|side| &mut side.workload) {
        entry.qps = entry.qps.min(QPS_MAX);
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(matrix: &Matrix, attacker: &str) -> Vec<(usize, usize)> {
        let number = matrix.attacker.iter().position(|side| side.name == attacker);
        vec![(number.expect("it is there"), 0)]
    }

    #[test]
    fn what_cannot_be_played_is_refused_by_name() {
        let matrix = Matrix::standard();
        for (attacker, reason) in [
            ("reordering", "reordering (faults)"),
            ("timeouts", "timeouts (faults)"),
            ("unpolled", "unpolled (polled, reconnect)"),
            ("loopback", "loopback (to)"),
            ("control", "control (op = create)"),
            ("errors", "errors (op = bad-key)"),
        ] {
            let refused = check(&matrix, &matrix, &numbers(&matrix, attacker)).expect_err(attacker);
            let told = format!(
                "attackers that --real cannot play: {reason}; \
                 choose of --attackers bulk,tiny,atomics,elements,many,not-ready"
            );
            assert_eq!(refused.to_string(), told);
        }
        for (attacker, victim) in super::super::PAIRS {
            let couple = numbers(&matrix, attacker);
            assert!(check(&matrix, &matrix, &couple).is_ok(), "{attacker}");
            assert!(matrix.victim.iter().any(|side| side.name == victim), "{victim}");
        }
        assert!(matrix.victim.iter().all(|side| refusal(side).is_none()));
    }

    #[test]
    fn no_entry_has_more_queue_pairs_than_are_connected() {
        let matrix = cut(&Matrix::standard());
        let sides = matrix.attacker.iter().chain(&matrix.victim);
        assert_eq!(sides.flat_map(|side| &side.workload).map(|entry| entry.qps).max(), Some(QPS_MAX));
    }
}
