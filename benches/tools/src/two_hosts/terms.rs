//! What a connection asks of host 1.

use super::player::{ALL, MEMORY};
use srnic_workload::scenario::{Entry, ScenarioError};
use verbs_api::{CongestionAlgorithm, QueuePairBuilder};

/// READs and atomics under way.
const READS: u8 = 8;
/// Code of the shortest wait for a receive: 10 us.
const RNR_TIMER: u8 = 1;

/// Congestion controllers, in the order of their numbers on the wire.
const CONTROLLERS: [CongestionAlgorithm; 4] = [
    CongestionAlgorithm::Fixed,
    CongestionAlgorithm::Dctcp,
    CongestionAlgorithm::Swift,
    CongestionAlgorithm::Dcqcn,
];

/// What a connection asks of host 1, as the private data of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The number of its domain there.
    pub tenant: usize,
    /// What both ends send by: requests, and responses.
    pub congestion: CongestionAlgorithm,
    pub window: u16,
    /// Receives to be posted, of so many bytes, at least so many nanoseconds apart.
    pub receives: u32,
    pub bytes: usize,
    pub receive_ns: u32,
}

impl Terms {
    const LEN: usize = 16;

    /// Those of an entry, with messages of so many bytes.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn of(tenant: usize, entry: &Entry, bytes: usize) -> Result<Self, ScenarioError> {
        let receives = if entry.op.takes_receive() { entry.receives_ahead() } else { 0 };
        let (congestion, window) = (entry.congestion()?, entry.window);
        Ok(Self { tenant, congestion, window, receives, bytes, receive_ns: entry.receive_ns })
    }

    /// As private data.
    pub fn write(self) -> Vec<u8> {
        let controller = CONTROLLERS.iter().position(|known| *known == self.congestion);
        let bytes =
            [self.tenant, controller.unwrap_or(0)].map(|number| u8::try_from(number).unwrap_or(u8::MAX));
        let numbers = [self.receives, u32::try_from(self.bytes).unwrap_or(u32::MAX), self.receive_ns];
        let numbers = numbers.into_iter().flat_map(u32::to_le_bytes);
        bytes.into_iter().chain(self.window.to_le_bytes()).chain(numbers).collect()
    }

    /// Of the private data of a request; zeros at its end may be missing.
    pub fn read(data: &[u8]) -> Option<Self> {
        let mut bytes = data.to_vec();
        bytes.resize(Self::LEN.max(bytes.len()), 0);
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = usize::try_from(number(8)?).ok().filter(|len| *len <= MEMORY)?;
        let receives = number(4).filter(|receives| *receives <= 1 << 14)?;
        let congestion = *CONTROLLERS.get(usize::from(bytes[1]))?;
        let window = u16::from_le_bytes([bytes[2], bytes[3]]);
        Some(Self {
            tenant: bytes[0].into(),
            congestion,
            window,
            receives,
            bytes: len,
            receive_ns: number(12)?,
        })
    }

    /// What both ends of the connection have alike.
    pub fn attributes(self, builder: QueuePairBuilder) -> QueuePairBuilder {
        let builder = builder.access(ALL).congestion(self.congestion).window(self.window);
        builder.min_rnr_timer(RNR_TIMER).max_rd_atomic(READS).max_dest_rd_atomic(READS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_were_written() {
        for terms in [
            Terms {
                tenant: 0,
                congestion: CongestionAlgorithm::Fixed,
                window: 8,
                receives: 0,
                bytes: 8,
                receive_ns: 0,
            },
            Terms {
                tenant: 1,
                congestion: CongestionAlgorithm::Swift,
                window: 512,
                receives: 64,
                bytes: 65536,
                receive_ns: 100_000,
            },
        ] {
            let mut said = terms.write();
            assert_eq!(Terms::read(&said), Some(terms));
            // A peer does not see zeros at the end.
            while said.last() == Some(&0) {
                said.pop();
            }
            assert_eq!(Terms::read(&said), Some(terms));
        }
        assert_eq!(Terms::read(&[0xFF; 16]), None, "more than there is memory");
    }
}
