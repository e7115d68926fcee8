//! Registered memory that all streams of an endpoint share, in chunks of one size.

use crate::error::Setup;
use verbs_api::{Access, MemoryRegion, ProtectionDomain, Sge};

/// Bytes of a slab, as long as a chunk is not longer.
const SLAB_BYTES: usize = 1 << 20;

/// A piece of a slab. Whoever has it gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    slab: u32,
    index: u32,
}

struct Slab {
    region: MemoryRegion,
    /// Chunks of it that are free.
    free: Vec<u32>,
}

/// Slabs that are registered once. A slab that is free as a whole goes when another is, too.
pub struct Pool {
    domain: ProtectionDomain,
    chunk_bytes: usize,
    chunks_a_slab: u32,
    slabs_max: usize,
    memory_max: usize,
    slabs: Vec<Option<Slab>>,
    registrations: u64,
}

impl Pool {
    /// A pool of at most `memory_max` bytes, which has none yet.
    pub fn new(domain: ProtectionDomain, chunk_bytes: usize, memory_max: usize) -> Self {
        // 64 to an alignment: chunks do not share cache lines.
        let chunk_bytes = chunk_bytes.next_multiple_of(64);
        let chunks = (SLAB_BYTES.min(memory_max) / chunk_bytes).max(1);
        Self {
            domain,
            chunk_bytes,
            chunks_a_slab: u32::try_from(chunks).unwrap_or(u32::MAX),
            slabs_max: memory_max / (chunks * chunk_bytes),
            memory_max,
            slabs: Vec::new(),
            registrations: 0,
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

    /// Returns `true` if there is no chunk and can be none before one comes back.
    #[cfg(feature = "tokio")]
    pub fn is_exhausted(&self) -> bool {
        let mut slabs = self.slabs.iter().flatten();
        self.slabs.iter().flatten().count() >= self.slabs_max && slabs.all(|slab| slab.free.is_empty())
    }

    /// A chunk.
    ///
    /// # Errors
    /// [`Setup::PoolFull`], or what registering a slab fails with.
    pub fn take(&mut self) -> Result<Chunk, Setup> {
        let slab =
            match self.slabs.iter().position(|slab| matches!(slab, Some(slab) if !slab.free.is_empty())) {
                Some(slab) => slab,
                None => self.grow()?,
            };
        let index = self.slabs[slab].as_mut().and_then(|slab| slab.free.pop());
        let full = Setup::PoolFull { max: self.memory_max };
        index.map(|index| Chunk { slab: u32::try_from(slab).unwrap_or(u32::MAX), index }).ok_or(full)
    }

    fn grow(&mut self) -> Result<usize, Setup> {
        if self.slabs.iter().flatten().count() >= self.slabs_max {
            return Err(Setup::PoolFull { max: self.memory_max });
        }
        let bytes = self.chunk_bytes * self.chunks_a_slab as usize;
        let region = self.domain.register(bytes, Access::LOCAL_WRITE)?;
        let slab = Slab { region, free: (0..self.chunks_a_slab).rev().collect() };
        self.registrations += 1;
        let place = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        if place == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[place] = Some(slab);
        Ok(place)
    }

    /// Takes a chunk back.
    pub fn give(&mut self, chunk: Chunk) {
        let Some(Some(slab)) = self.slabs.get_mut(chunk.slab as usize) else { return };
        slab.free.push(chunk.index);
        if slab.free.len() == self.chunks_a_slab as usize && self.has_another_free(chunk.slab as usize) {
            self.slabs[chunk.slab as usize] = None;
        }
    }

    fn has_another_free(&self, but: usize) -> bool {
        let others = self.slabs.iter().enumerate().filter(|(at, _)| *at != but);
        others
            .filter_map(|(_, slab)| slab.as_ref())
            .any(|slab| slab.free.len() == self.chunks_a_slab as usize)
    }

    /// The region of a chunk and where the chunk begins in it.
    fn place(&self, chunk: Chunk) -> Option<(&MemoryRegion, usize)> {
        let slab = self.slabs.get(chunk.slab as usize)?.as_ref()?;
        Some((&slab.region, chunk.index as usize * self.chunk_bytes))
    }

    /// The first `len` bytes of a chunk, for a work request.
    pub fn sge(&self, chunk: Chunk, len: usize) -> Result<Sge, verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        region.slice(start..start + len)
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
        Pool::new(device.alloc_pd(), 256 << 10, memory_max)
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
    fn registrations_are_flat_once_it_is_warm() {
        let mut pool = pool(8 << 20);
        for _ in 0..100 {
            let chunks: Vec<Chunk> = (0..4).map(|_| pool.take().expect("a chunk")).collect();
            chunks.into_iter().for_each(|chunk| pool.give(chunk));
        }
        assert_eq!(pool.registrations(), 1);
    }
}
