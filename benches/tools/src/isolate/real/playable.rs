//! Which entries of the workload language can be played on two processes.

use super::player::MEMORY;
use crate::error::{Error, Result};
use srnic_fabric::file::SizesFile;
use srnic_workload::isolate::{Matrix, Side};
use srnic_workload::scenario::{Entry, Op};
use std::collections::BTreeSet;

/// Queue pairs of an entry at most: each is connected for each run.
pub const QPS_MAX: u32 = 256;

/// What a queue pair posts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Send,
    Read,
    Atomic,
    Write,
    WriteImm,
}

/// What an entry posts, and how many bytes each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Playable {
    pub verb: Verb,
    pub bytes: usize,
}

impl Playable {
    /// Of an entry.
    ///
    /// # Errors
    /// The keys, in words, by which it is something else than what would be played.
    pub fn of(entry: &Entry) -> std::result::Result<Self, String> {
        let verb = match entry.op {
            Op::Send => Ok(Verb::Send),
            Op::Read => Ok(Verb::Read),
            Op::Atomic => Ok(Verb::Atomic),
            Op::Write => Ok(Verb::Write),
            Op::WriteImm => Ok(Verb::WriteImm),
            Op::BadKey | Op::BadQpn | Op::BadPsn | Op::Create | Op::Register => {
                Err(format!("op = {}", entry.op))
            }
        }?;
        let bytes = match entry.sizes {
            _ if verb == Verb::Atomic => 8,
            SizesFile::Bytes(bytes) if bytes as usize <= MEMORY => bytes as usize,
            SizesFile::Bytes(_) => return Err(format!("sizes above {MEMORY}")),
            SizesFile::Name(_) | SizesFile::Knots(_) => return Err("sizes that differ".to_owned()),
        };
        let plain = Entry::default();
        let others: Vec<_> = [
            ("from", entry.from != plain.from),
            ("to", entry.to != plain.to),
            ("batch", entry.batch != plain.batch),
            ("pace_ns", entry.pace_ns != plain.pace_ns),
            ("start_us", entry.start_us != plain.start_us),
            ("service", entry.service != plain.service),
            ("signaled", entry.signaled != plain.signaled),
            ("polled", entry.polled != plain.polled),
            ("regions", entry.regions != plain.regions),
            ("reconnect", entry.reconnect != plain.reconnect),
            ("faults", entry.faults != plain.faults),
            ("congestion", entry.congestion != plain.congestion),
            ("recovery", entry.recovery != plain.recovery),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect();
        if others.is_empty() { Ok(Self { verb, bytes }) } else { Err(others.join(", ")) }
    }
}

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
    fn an_entry_is_played_as_it_is_or_not_at_all() {
        let of = |entry: Entry| Playable::of(&entry);
        let plain = Entry::default;
        assert_eq!(of(plain()), Ok(Playable { verb: Verb::Write, bytes: 4096 }));
        let atomic = Entry { op: Op::Atomic, sizes: SizesFile::Name("cache-follower".to_owned()), ..plain() };
        assert_eq!(of(atomic), Ok(Playable { verb: Verb::Atomic, bytes: 8 }));
        let large = Entry { sizes: SizesFile::Bytes(2 << 20), ..plain() };
        assert_eq!(of(large), Err("sizes above 1048576".to_owned()));
        let drawn = Entry { sizes: SizesFile::Name("cache-follower".to_owned()), ..plain() };
        assert_eq!(of(drawn), Err("sizes that differ".to_owned()));
        let slow = Entry { pace_ns: 1, signaled: 2, congestion: "dctcp".to_owned(), ..plain() };
        assert_eq!(of(slow), Err("pace_ns, signaled, congestion".to_owned()));
    }

    #[test]
    fn no_entry_has_more_queue_pairs_than_are_connected() {
        let matrix = cut(&Matrix::standard());
        let sides = matrix.attacker.iter().chain(&matrix.victim);
        assert_eq!(sides.flat_map(|side| &side.workload).map(|entry| entry.qps).max(), Some(QPS_MAX));
    }
}
