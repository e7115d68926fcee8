//! The offer of a client: its regions and rings, collected until they are all there.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use memif::message::{AddRing, Message, NAME_LEN, Text};
use memif::{OTHER_QUEUES, Refusal, SIZE_LOG2_MAX, Told, can_be_mapped, ring_len, socket};

/// Regions, at most: all that is told to the driver fits in its socket.
pub(super) const REGIONS_MAX: u16 = 64;
/// How long to wait, and how often, when the system is short of what it takes to tell the driver.
const RETRY_DELAY: Duration = Duration::from_millis(1);
const ATTEMPTS: u32 = 1000;

/// Regions, rings, and the name that ends them.
///
/// The driver believes a client: it follows a ring to wherever it is said to be, and of a region
/// that it has not come to map it never closes the descriptor. So it is told of them when they are
/// all there and can be what they are said to be.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Memory, and how much of it.
    regions: Vec<(OwnedFd, u64)>,
    /// Rings, and what wakes up who sleeps at them.
    rings: Vec<(AddRing, OwnedFd)>,
    /// What the client calls its end, said last.
    name: Option<Text<NAME_LEN>>,
}

impl Offer {
    /// Returns `true` if nothing is missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.name.is_some()
    }

    pub(super) fn add_region(
        &mut self,
        index: u16,
        size: u64,
        memory: Option<OwnedFd>,
    ) -> Result<(), Refusal> {
        if self.is_whole() || usize::from(index) != self.regions.len() || index >= REGIONS_MAX {
            return Err(Refusal::Protocol("a region out of turn, or too many"));
        }
        let memory = memory.filter(|memory| can_be_mapped(memory, size));
        let memory = memory.ok_or(Refusal::Protocol("a region that is no memory of its size"))?;
        self.regions.push((memory, size));
        Ok(())
    }

    pub(super) fn add_ring(
        &mut self,
        ring: AddRing,
        wake: Option<OwnedFd>,
        terms: Told,
    ) -> Result<(), Refusal> {
        let wake = wake.ok_or(Refusal::Protocol("a ring without a descriptor"))?;
        let is_there =
            |(other, _): &(AddRing, _)| (other.to_server, other.index) == (ring.to_server, ring.index);
        let again = self.rings.iter().any(is_there);
        if ring.index >= terms.queues.into() {
            return Err(Refusal::Mismatch(OTHER_QUEUES));
        }
        if self.is_whole() || again || !self.has_room_for(&ring) {
            return Err(Refusal::Protocol("a ring out of turn, or outside its region"));
        }
        self.rings.push((ring, wake));
        Ok(())
    }

    fn has_room_for(&self, ring: &AddRing) -> bool {
        let region = self.regions.get(usize::from(ring.region));
        ring.size_log2 <= SIZE_LOG2_MAX
            && region
                .is_some_and(|(_, size)| u64::from(ring.offset) + ring_len(ring.size_log2) as u64 <= *size)
    }

    /// That was all.
    pub(super) fn end(&mut self, name: Text<NAME_LEN>, terms: Told) -> Result<(), Refusal> {
        if self.is_whole() {
            return Err(Refusal::Protocol("it connects twice"));
        }
        if let Some(difference) = terms.differs_from_client(name.bytes()) {
            return Err(difference.into());
        }
        // None is there twice, and none has a higher index: those of each queue, each way.
        if self.rings.len() < 2 * usize::from(terms.queues) {
            return Err(Refusal::Mismatch(OTHER_QUEUES));
        }
        self.name = Some(name);
        Ok(())
    }

    /// Tells the driver all of it. What it heard of half an offer it would keep for ever, so
    /// nothing but its end ends this.
    pub(super) fn submit(&mut self, driver: &OwnedFd) -> Result<(), Refusal> {
        for (index, (memory, size)) in (0..).zip(self.regions.drain(..)) {
            insist(driver, &Message::AddRegion { index, size }, Some(memory.as_fd()))?;
        }
        for (ring, wake) in self.rings.drain(..) {
            insist(driver, &Message::AddRing(ring), Some(wake.as_fd()))?;
        }
        self.name.map_or(Ok(()), |name| insist(driver, &Message::Connect(name), None))
    }
}

/// Sends, and waits while there is no room for a message, or for a descriptor under way.
fn insist(driver: &OwnedFd, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Refusal> {
    for _ in 0..ATTEMPTS {
        match socket::send(driver, message, descriptor) {
            Err(Refusal::Io(error)) if !is_over(error.kind()) => thread::sleep(RETRY_DELAY),
            result => return result,
        }
    }
    socket::send(driver, message, descriptor)
}

/// Returns `true` if the error says that nobody is at the other end.
const fn is_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected)
}
