//! Which entries of the workload language can be played on two hosts.

use super::player::MEMORY;
use srnic_fabric::file::SizesFile;
use srnic_workload::scenario::{Entry, Op};

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
            ("pace_ns", entry.pace_ns != plain.pace_ns),
            ("start_us", entry.start_us != plain.start_us),
            ("service", entry.service != plain.service),
            ("polled", entry.polled != plain.polled),
            ("reconnect", entry.reconnect != plain.reconnect),
            ("faults", entry.faults != plain.faults),
            ("recovery", entry.recovery != plain.recovery),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect();
        if others.is_empty() { Ok(Self { verb, bytes }) } else { Err(others.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let slow = Entry { pace_ns: 1, from: 1, to: 0, signaled: 2, ..plain() };
        assert_eq!(of(slow), Err("from, to, pace_ns".to_owned()));
    }
}
