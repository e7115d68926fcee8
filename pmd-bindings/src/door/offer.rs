//! What a client offers: its regions and rings, until they are all there.

use std::os::fd::{AsFd, OwnedFd};

use memif::message::{AddRing, Message, NAME_LEN, Text};
use memif::{Refusal, SIZE_LOG2_MAX, Told, can_be_mapped, ring_len, socket};

/// Regions, at most: all that is told to the driver fits in its socket.
const REGIONS_MAX: usize = 64;

/// The client does not keep to memif's rules, or to our terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Breach;

/// Regions, rings, and the name that ends them.
///
/// The driver believes a client: it follows a ring to wherever it is said to be, and of a region that it has not come to
/// map it never closes the descriptor. So it is told of them when they are all there and can be what they are said to be.
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
    /// Whether nothing is missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.name.is_some()
    }

    pub(super) fn add_region(
        &mut self,
        index: u16,
        size: u64,
        memory: Option<OwnedFd>,
    ) -> Result<(), Breach> {
        let memory = memory.filter(|memory| can_be_mapped(memory, size)).ok_or(Breach)?;
        if self.is_whole() || usize::from(index) != self.regions.len() || self.regions.len() == REGIONS_MAX {
            return Err(Breach);
        }
        self.regions.push((memory, size));
        Ok(())
    }

    pub(super) fn add_ring(
        &mut self,
        ring: AddRing,
        wake: Option<OwnedFd>,
        terms: Told,
    ) -> Result<(), Breach> {
        let wake = wake.ok_or(Breach)?;
        let is_there =
            |(other, _): &(AddRing, _)| (other.to_server, other.index) == (ring.to_server, ring.index);
        let again = self.rings.iter().any(is_there);
        if self.is_whole() || again || ring.index >= terms.queues.into() || !self.has_room_for(&ring) {
            return Err(Breach);
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
    pub(super) fn end(&mut self, name: Text<NAME_LEN>, terms: Told) -> Result<(), Breach> {
        // None is there twice, and none has a higher index: those of each queue, each way.
        let lacks_rings = self.rings.len() < 2 * usize::from(terms.queues);
        if self.is_whole() || lacks_rings || Told::by(name.bytes()).is_some_and(|theirs| theirs != terms) {
            return Err(Breach);
        }
        self.name = Some(name);
        Ok(())
    }

    /// Tells the driver all of it.
    pub(super) fn submit(&mut self, driver: &OwnedFd) -> Result<(), Refusal> {
        for (index, (memory, size)) in (0..).zip(self.regions.drain(..)) {
            socket::send(driver, &Message::AddRegion { index, size }, Some(memory.as_fd()))?;
        }
        for (ring, wake) in self.rings.drain(..) {
            socket::send(driver, &Message::AddRing(ring), Some(wake.as_fd()))?;
        }
        self.name.map_or(Ok(()), |name| socket::send(driver, &Message::Connect(name), None))
    }
}
