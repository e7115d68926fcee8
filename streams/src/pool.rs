//! Registered memory that all streams of an endpoint share, in chunks of two sizes.

use crate::error::Setup;
use crate::protocol::Descriptor;
use verbs_api::{Access, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, Sge, WindowType};

/// Bytes of a slab, as long as a chunk is not longer.
const SLAB_BYTES: usize = 1 << 20;

/// A piece of a slab. Whoever has it gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    slab: u32,
    index: u32,
}

/// Chunks of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// For a message by SEND.
    Small,
    /// For one that a peer WRITEs or READs. These have at most half of the memory.
    Large,
}

/// How the slabs of one size are cut.
#[derive(Clone, Copy)]
struct Cut {
    chunk_bytes: usize,
    chunks: usize,
    slabs_max: usize,
}

impl Cut {
    fn new(chunk_bytes: usize, memory_max: usize) -> Self {
        // 64 to an alignment: chunks do not share cache lines.
        let chunk_bytes = chunk_bytes.next_multiple_of(64);
        let chunks = (SLAB_BYTES.min(memory_max) / chunk_bytes).max(1);
        Self { chunk_bytes, chunks, slabs_max: memory_max / (chunks * chunk_bytes) }
    }

    const fn slab_bytes(&self) -> usize {
        self.chunk_bytes * self.chunks
    }
}

struct Slab {
    region: MemoryRegion,
    size: Size,
    /// Chunks of it that are free.
    free: Vec<u32>,
}

/// Slabs that are registered once. A slab that is free as a whole goes when another of its size is,
/// too.
pub struct Pool {
    domain: ProtectionDomain,
    small: Cut,
    large: Cut,
    memory_max: usize,
    slabs: Vec<Option<Slab>>,
    registrations: u64,
}

impl Pool {
    /// A pool of at most `memory_max` bytes, which has none yet, with chunks of these sizes.
    pub fn new(domain: ProtectionDomain, small: usize, large: usize, memory_max: usize) -> Self {
        Self {
            domain,
            small: Cut::new(small, memory_max),
            large: Cut::new(large, memory_max / 2),
            memory_max,
            slabs: Vec::new(),
            registrations: 0,
        }
    }

    const fn cut(&self, size: Size) -> Cut {
        match size {
            Size::Small => self.small,
            Size::Large => self.large,
        }
    }

    /// Slabs registered since the beginning.
    pub const fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Bytes that are registered.
    pub fn memory(&self) -> usize {
        self.slabs.iter().flatten().map(|slab| slab.region.len()).sum()
    }

    /// Returns `true` if there is no small chunk and can be none before one comes back.
    #[cfg(feature = "tokio")]
    pub fn is_exhausted(&self) -> bool {
        !self.may_grow(Size::Small) && self.with_free(Size::Small).is_none()
    }

    /// A small chunk.
    ///
    /// # Errors
    /// [`Setup::PoolFull`], or what registering a slab fails with.
    pub fn take(&mut self) -> Result<Chunk, Setup> {
        self.take_of(Size::Small)
    }

    /// A chunk of this size.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_of(&mut self, size: Size) -> Result<Chunk, Setup> {
        let slab = match self.with_free(size) {
            Some(slab) => slab,
            None => self.grow(size)?,
        };
        let index = self.slabs[slab].as_mut().and_then(|slab| slab.free.pop());
        let full = Setup::PoolFull { max: self.memory_max };
        index.map(|index| Chunk { slab: u32::try_from(slab).unwrap_or(u32::MAX), index }).ok_or(full)
    }

    /// A slab with a free chunk of this size.
    fn with_free(&self, size: Size) -> Option<usize> {
        let has_free =
            |slab: &Option<Slab>| matches!(slab, Some(slab) if slab.size == size && !slab.free.is_empty());
        self.slabs.iter().position(has_free)
    }

    fn may_grow(&self, size: Size) -> bool {
        let cut = self.cut(size);
        let same = self.slabs.iter().flatten().filter(|slab| slab.size == size).count();
        same < cut.slabs_max && self.memory() + cut.slab_bytes() <= self.memory_max
    }

    fn grow(&mut self, size: Size) -> Result<usize, Setup> {
        if size == Size::Small && !self.may_grow(size) {
            self.shrink();
        }
        if !self.may_grow(size) {
            return Err(Setup::PoolFull { max: self.memory_max });
        }
        let cut = self.cut(size);
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        let region = self.domain.register(cut.slab_bytes(), access)?;
        let count = u32::try_from(cut.chunks).unwrap_or(u32::MAX);
        let slab = Slab { region, size, free: (0..count).rev().collect() };
        self.registrations += 1;
        let place = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        if place == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[place] = Some(slab);
        Ok(place)
    }

    /// Lets go of the slabs of large chunks that nobody uses.
    fn shrink(&mut self) {
        for at in 0..self.slabs.len() {
            let is_large = self.slabs[at].as_ref().is_some_and(|slab| slab.size == Size::Large);
            if is_large && self.is_free(at) {
                self.slabs[at] = None;
            }
        }
    }

    /// Takes a chunk back.
    pub fn give(&mut self, chunk: Chunk) {
        let at = chunk.slab as usize;
        let Some(Some(slab)) = self.slabs.get_mut(at) else { return };
        slab.free.push(chunk.index);
        let size = slab.size;
        let is_same = |at: usize| self.slabs[at].as_ref().is_some_and(|slab| slab.size == size);
        let another = (0..self.slabs.len()).any(|other| other != at && is_same(other) && self.is_free(other));
        if another && self.is_free(at) {
            self.slabs[at] = None;
        }
    }

    /// Returns `true` if there is such a slab and nobody has a chunk of it.
    fn is_free(&self, at: usize) -> bool {
        let slab = self.slabs.get(at).and_then(Option::as_ref);
        slab.is_some_and(|slab| slab.free.len() == self.cut(slab.size).chunks)
    }

    /// The region of a chunk and where the chunk begins in it.
    fn place(&self, chunk: Chunk) -> Option<(&MemoryRegion, usize)> {
        let slab = self.slabs.get(chunk.slab as usize)?.as_ref()?;
        Some((&slab.region, chunk.index as usize * self.cut(slab.size).chunk_bytes))
    }

    /// The first `len` bytes of a chunk, for a work request.
    pub fn sge(&self, chunk: Chunk, len: usize) -> Result<Sge, verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        region.slice(start..start + len)
    }

    /// Bytes of a chunk.
    pub fn len(&self, chunk: Chunk) -> usize {
        let slab = self.slabs.get(chunk.slab as usize).and_then(Option::as_ref);
        slab.map_or(0, |slab| self.cut(slab.size).chunk_bytes)
    }

    /// Shows the first `len` bytes of a chunk to the peer of `pair`, and to nobody else, until the
    /// window is dropped. It posts a request.
    pub fn show(
        &self,
        chunk: Chunk,
        len: usize,
        access: Access,
        (pair, wr_id): (&mut QueuePair, u64),
    ) -> Result<(MemoryWindow, Descriptor), verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        let range = region.slice(start..start + len)?;
        let mut window = self.domain.alloc_window(WindowType::Two)?;
        let rkey = window.bind(pair, wr_id, region, start..start + len, access)?;
        Ok((window, Descriptor { addr: range.addr, rkey, len: range.length }))
    }

    /// Copies bytes of a chunk from `offset` on.
    pub fn read(&self, chunk: Chunk, offset: usize, target: &mut [u8]) -> Result<(), verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        region.read(start + offset, target)
    }

    /// Copies bytes into a chunk from `offset` on.
    pub fn write(&self, chunk: Chunk, offset: usize, source: &[u8]) -> Result<(), verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        region.write(start + offset, source)
    }
}

/// A chunk that was given back already.
const GONE: verbs_api::Error = verbs_api::Error::Unsupported("the chunk was given back");

#[cfg(test)]
mod tests {
    use super::*;
    use verbs_api::Device;

    fn pool(memory_max: usize) -> Pool {
        let device = Device::open("sim:pool").expect("a device");
        Pool::new(device.alloc_pd(), 256 << 10, 512 << 10, memory_max)
    }

    #[test]
    fn it_grows_to_its_bound_and_shrinks() {
        let mut pool = pool(3 << 20);
        assert_eq!(pool.memory(), 0);
        let chunks: Vec<Chunk> = (0..12).map(|_| pool.take().expect("a chunk")).collect();
        assert_eq!(pool.memory(), 3 << 20);
        assert!(matches!(pool.take(), Err(Setup::PoolFull { max }) if max == 3 << 20));
        for (at, chunk) in chunks.iter().enumerate() {
            assert!(!chunks[..at].contains(chunk), "given twice");
            pool.write(*chunk, 0, &[u8::try_from(at).expect("small"); 256 << 10]).expect("inside");
        }
        for (at, chunk) in chunks.iter().enumerate() {
            let mut byte = [0];
            pool.read(*chunk, (256 << 10) - 1, &mut byte).expect("inside");
            assert_eq!(usize::from(byte[0]), at, "chunks overlap");
        }
        chunks.iter().for_each(|chunk| pool.give(*chunk));
        assert_eq!(pool.memory(), 1 << 20, "one slab is kept");
    }

    #[test]
    fn sizes_share_the_bound_and_large_ones_have_half_of_it() {
        let mut pool = pool(4 << 20);
        let large: Vec<Chunk> = (0..4).map(|_| pool.take_of(Size::Large).expect("a chunk")).collect();
        assert!(large.iter().all(|chunk| pool.len(*chunk) == 512 << 10));
        assert!(matches!(pool.take_of(Size::Large), Err(Setup::PoolFull { .. })));
        let small: Vec<Chunk> = (0..8).map(|_| pool.take().expect("a chunk")).collect();
        assert!(pool.take().is_err());
        // What one size does not use any more the other may have.
        large.into_iter().for_each(|chunk| pool.give(chunk));
        let more: Vec<Chunk> = (0..8).map(|_| pool.take().expect("a chunk")).collect();
        assert!(pool.memory() <= 4 << 20);
        small.into_iter().chain(more).for_each(|chunk| pool.give(chunk));
        assert_eq!(pool.memory(), 1 << 20, "one slab is kept");
    }

    #[test]
    fn registrations_are_flat_once_it_is_warm() {
        let mut pool = pool(8 << 20);
        for _ in 0..100 {
            let chunks: Vec<Chunk> = (0..4).map(|_| pool.take().expect("a chunk")).collect();
            chunks.into_iter().for_each(|chunk| pool.give(chunk));
        }
        assert_eq!(pool.registrations(), 1);
    }
}
