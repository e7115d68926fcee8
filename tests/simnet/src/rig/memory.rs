//! Registered memory between guard bytes, filled and verified by a pattern.

use super::options::REMOTE_EVERYTHING;
use super::{Registered, Rig};
use crate::network::NodeId;
use crate::rng::splitmix64;
use core::ptr::NonNull;
use datapath::memory::{Access, Backing, HeapBacking, MemoryKey, ProtectionDomainId};
use datapath::queue::Sge;
use std::sync::Arc;

/// Bytes before and behind each region that nobody may touch.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xA7;
/// Regions of a node lie this far apart at least, so that ranges running out of one end nowhere.
const IOVA_GAP: u64 = 0x1_0000;

/// A registered region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    index: usize,
    /// The node that owns it.
    pub node: NodeId,
    /// lkey and rkey.
    pub key: u32,
    /// First address.
    pub iova: u64,
    /// Length in bytes.
    pub len: usize,
}

/// A part of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The region.
    pub region: Region,
    /// First byte in it.
    pub offset: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Region {
    /// All of it.
    #[must_use]
    pub const fn all(self) -> Span {
        Span { region: self, offset: 0, len: self.len }
    }

    /// `len` bytes from `offset` on; not checked against the region's end, for tests of that very
    /// check.
    #[must_use]
    pub const fn at(self, offset: usize, len: usize) -> Span {
        Span { region: self, offset, len }
    }
}

impl Span {
    /// First address.
    #[must_use]
    pub const fn addr(self) -> u64 {
        self.region.iova.wrapping_add(self.offset as u64)
    }

    /// The span as a scatter-gather element.
    ///
    /// # Panics
    /// If it is longer than 2^32 bytes.
    #[must_use]
    pub fn sge(self) -> Sge {
        let length = u32::try_from(self.len).expect("an element is shorter than 2^32 bytes");
        Sge { addr: self.addr(), length, lkey: self.region.key }
    }
}

/// The first `len` bytes of the pattern of `seed`: f(seed, offset), eight bytes at a time.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 7);
    let start = splitmix64(seed);
    for word in 0..len.div_ceil(8) as u64 {
        bytes.extend_from_slice(&splitmix64(start.wrapping_add(word)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The part of an allocation between its guards.
struct Inner {
    whole: Arc<HeapBacking>,
    len: usize,
}

// SAFETY: the bytes are those of `whole`, which keeps the promise itself, lives as long as this
// value, and is longer than `GUARD + len`.
unsafe impl Backing for Inner {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: `whole` has `len + 2 * GUARD` bytes, so the pointer stays inside the allocation.
        unsafe { self.whole.base().add(GUARD) }
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Rig {
    /// Registers `len` zeroed bytes that peers may write and read, and work on with atomics.
    ///
    /// # Panics
    /// If the table is full.
    pub fn region(&mut self, node: NodeId, len: usize) -> Region {
        let pd = self.nodes[node.0].pd;
        self.region_with(node, len, pd, REMOTE_EVERYTHING)
    }

    /// Registers `len` zeroed bytes in a protection domain with the given access.
    ///
    /// # Panics
    /// If the table is full or the access flags contradict each other.
    pub fn region_with(
        &mut self,
        node: NodeId,
        len: usize,
        pd: ProtectionDomainId,
        access: Access,
    ) -> Region {
        let whole = Arc::new(HeapBacking::new(len + 2 * GUARD));
        let at = &mut self.nodes[node.0];
        let iova = at.next_iova;
        at.next_iova += (len as u64).next_multiple_of(IOVA_GAP) + IOVA_GAP;
        let inner = Arc::new(Inner { whole: Arc::clone(&whole), len });
        let key = at
            .engine
            .core_mut()
            .memory_mut()
            .register(pd, inner, iova, access)
            .expect("a memory region is free")
            .0;
        let inspect_iova = iova - GUARD as u64;
        let backing: Arc<dyn Backing> = whole;
        let inspect_key = at
            .engine
            .core_mut()
            .memory_mut()
            .register(at.inspect, Arc::clone(&backing), inspect_iova, Access::empty())
            .expect("a memory region is free")
            .0;
        let index = self.regions.len();
        self.regions.push(Registered { node, inspect_key, inspect_iova, len, _backing: backing });
        self.poke(index, 0, &[GUARD_BYTE; GUARD]);
        self.poke(index, GUARD + len, &[GUARD_BYTE; GUARD]);
        Region { index, node, key, iova, len }
    }

    /// Ends a region at its engine; tests can still look at its bytes. False if it ended before.
    pub fn deregister(&mut self, region: Region) -> bool {
        self.nodes[region.node.0].engine.core_mut().memory_mut().deregister(MemoryKey(region.key))
    }

    /// Fills a span with the pattern of `seed`, which starts at the span's first byte.
    pub fn fill(&mut self, span: Span, seed: u64) {
        self.set(span, &pattern(seed, span.len));
    }

    /// Writes bytes to the start of a span.
    ///
    /// # Panics
    /// If the bytes do not fit the region.
    pub fn set(&mut self, span: Span, bytes: &[u8]) {
        assert!(span.offset + bytes.len() <= span.region.len, "{span:?} is inside its region");
        self.poke(span.region.index, GUARD + span.offset, bytes);
    }

    /// The bytes of a span.
    #[must_use]
    pub fn bytes(&self, span: Span) -> Vec<u8> {
        self.peek(span.region.index, GUARD + span.offset, span.len)
    }

    /// Asserts that a span holds the pattern of `seed`, from the pattern's start on.
    ///
    /// # Panics
    /// If it does not; names the first wrong byte.
    #[track_caller]
    pub fn verify(&self, span: Span, seed: u64) {
        let (bytes, good) = (self.bytes(span), pattern(seed, span.len));
        if bytes != good {
            let wrong = (0..span.len).filter(|&index| bytes[index] != good[index]);
            let first = wrong.clone().next().unwrap_or(0);
            let count = wrong.count();
            panic!("{count} bytes of {span:?} are not those of seed {seed}, the first at {first}");
        }
    }

    /// Returns `true` if a span holds the pattern of `seed`.
    #[must_use]
    pub fn holds(&self, span: Span, seed: u64) -> bool {
        self.bytes(span) == pattern(seed, span.len)
    }

    /// Asserts that a span was never written.
    ///
    /// # Panics
    /// If a byte of it is not zero.
    #[track_caller]
    pub fn verify_untouched(&self, span: Span) {
        let bytes = self.bytes(span);
        assert_eq!(bytes.iter().position(|byte| *byte != 0), None, "{span:?} was written");
    }

    /// Asserts that the guard bytes around every region are as they were.
    ///
    /// # Panics
    /// If one is not.
    #[track_caller]
    pub fn verify_guards(&self) {
        for (index, region) in self.regions.iter().enumerate() {
            for offset in [0, GUARD + region.len] {
                let guard = self.peek(index, offset, GUARD);
                let node = region.node;
                assert_eq!(guard, [GUARD_BYTE; GUARD], "guard of region {index} of {node:?} at {offset}");
            }
        }
    }

    fn poke(&self, index: usize, offset: usize, bytes: &[u8]) {
        self.map(index, offset, bytes.len(), |mapped| mapped.write(bytes));
    }

    fn peek(&self, index: usize, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.map(index, offset, len, |mapped| mapped.read(&mut bytes));
        bytes
    }

    fn map(&self, index: usize, offset: usize, len: usize, then: impl FnOnce(datapath::memory::Mapped<'_>)) {
        let region = &self.regions[index];
        let node = &self.nodes[region.node.0];
        let va = region.inspect_iova + offset as u64;
        let mapped = node.engine.core().memory().check(
            region.inspect_key,
            node.inspect,
            va,
            len as u64,
            Access::empty(),
        );
        then(mapped.expect("the span is inside its region"));
    }
}
