//! What a connection asks of host 1.

use super::player::{ALL, MEMORY};
use srnic_workload::scenario::Entry;
use verbs_api::{CongestionAlgorithm, QueuePairBuilder};

/// READs and atomics under way.
const READS: u8 = 8;
/// Code of the shortest wait for a receive: 10 us.
const RNR_TIMER: u8 = 1;

/// What a connection asks of host 1, as the private data of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The number of its domain there.
    pub tenant: usize,
    /// Receives to be posted, of so many bytes, at least so many nanoseconds apart.
    pub receives: u32,
    pub bytes: usize,
    pub receive_ns: u32,
}

impl Terms {
    const LEN: usize = 13;

    /// Those of an entry, with messages of so many bytes.
    pub fn of(tenant: usize, entry: &Entry, bytes: usize) -> Self {
        let receives = if entry.op.takes_receive() { entry.receives_ahead() } else { 0 };
        Self { tenant, receives, bytes, receive_ns: entry.receive_ns }
    }

    /// As private data.
    pub fn write(self) -> Vec<u8> {
        let numbers = [self.receives, u32::try_from(self.bytes).unwrap_or(u32::MAX), self.receive_ns];

        let tenant = u8::try_from(self.tenant).unwrap_or(u8::MAX);
        let numbers = numbers.into_iter().flat_map(u32::to_le_bytes);
        std::iter::once(tenant).chain(numbers).collect()
    }

    /// Of the private data of a request; zeros at its end may be missing.
    pub fn read(data: &[u8]) -> Option<Self> {
        let mut bytes = data.to_vec();
        bytes.resize(Self::LEN.max(bytes.len()), 0);
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = usize::try_from(number(5)?).ok().filter(|len| *len <= MEMORY)?;
        let receives = number(1).filter(|receives| *receives <= 1 << 14)?;
        Some(Self { tenant: bytes[0].into(), receives, bytes: len, receive_ns: number(9)? })
    }

    /// What both ends of the connection have alike.
    pub fn attributes(self, builder: QueuePairBuilder) -> QueuePairBuilder {
        let builder = builder.access(ALL).congestion(CongestionAlgorithm::Fixed).min_rnr_timer(RNR_TIMER);
        builder.max_rd_atomic(READS).max_dest_rd_atomic(READS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_were_written() {
        for terms in [
            Terms { tenant: 0, receives: 0, bytes: 8, receive_ns: 0 },
            Terms { tenant: 1, receives: 64, bytes: 65536, receive_ns: 100_000 },
        ] {
            let mut said = terms.write();
            assert_eq!(Terms::read(&said), Some(terms));
            // A peer does not see zeros at the end.
            while said.last() == Some(&0) {
                said.pop();
            }
            assert_eq!(Terms::read(&said), Some(terms));
        }
        assert_eq!(Terms::read(&[0xFF; 13]), None, "more than there is memory");
    }
}
