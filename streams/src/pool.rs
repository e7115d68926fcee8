//! Registered memory that all streams of an endpoint share, in chunks of two sizes.

use crate::error::Setup;
use crate::lent::Lent;
use crate::protocol::Descriptor;
use core::ops::Range;
use core::ptr::NonNull;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use verbs_api::{Access, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, Sge, WindowType};

/// Bytes of a slab, as long as a chunk is not longer.
const SLAB_BYTES: usize = 1 << 20;

/// Bytes of unused slabs of a size that go in one call, at most; one slab may always.
const TRIM_BYTES: usize = 8 << 20;

/// A piece of a slab. Whoever has it gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

impl Size {
    const fn other(self) -> Self {
        match self {
            Self::Small => Self::Large,
            Self::Large => Self::Small,
        }
    }
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

/// All slabs of one size.
struct Shelf {
    cut: Cut,
    slabs: usize,
    /// Those with a chunk that is free.
    open: BTreeSet<usize>,
    /// Those of which nobody has a chunk.
    unused: BTreeSet<usize>,
    /// The fewest of these that there were since the last [`Pool::trim`].
    spare: usize,
}

impl Shelf {
    const fn new(cut: Cut) -> Self {
        Self { cut, slabs: 0, open: BTreeSet::new(), unused: BTreeSet::new(), spare: 0 }
    }

    /// What is known of a slab that has so many free chunks now.
    fn note(&mut self, slab: usize, free: usize) {
        set(&mut self.open, slab, free > 0);
        set(&mut self.unused, slab, free == self.cut.chunks);
        self.spare = self.spare.min(self.unused.len());
    }
}

fn set(of: &mut BTreeSet<usize>, slab: usize, is_in: bool) {
    if is_in {
        of.insert(slab);
    } else {
        of.remove(&slab);
    }
}

/// Slabs that are registered once. All but one of each size go when nobody has used them for a
/// while ([`trim`](Self::trim)); all may go when chunks of the other size need the memory.
pub struct Pool {
    domain: ProtectionDomain,
    small: Shelf,
    large: Shelf,
    memory_max: usize,
    slabs: Vec<Option<Slab>>,
    /// Places in `slabs` that have none.
    vacant: Vec<usize>,
    /// How many have a chunk beside the first who has it.
    shared: FxHashMap<Chunk, u32>,
    memory: usize,
    registrations: u64,
    /// A chunk came back since somebody asked last.
    freed: bool,
}

impl Pool {
    /// A pool of at most `memory_max` bytes, which has none yet, with chunks of these sizes.
    pub fn new(domain: ProtectionDomain, small: usize, large: usize, memory_max: usize) -> Self {
        Self {
            domain,
            small: Shelf::new(Cut::new(small, memory_max)),
            large: Shelf::new(Cut::new(large, memory_max / 2)),
            memory_max,
            slabs: Vec::new(),
            vacant: Vec::new(),
            shared: FxHashMap::default(),
            memory: 0,
            registrations: 0,
            freed: false,
        }
    }

    const fn shelf(&self, size: Size) -> &Shelf {
        match size {
            Size::Small => &self.small,
            Size::Large => &self.large,
        }
    }

    const fn shelf_mut(&mut self, size: Size) -> &mut Shelf {
        match size {
            Size::Small => &mut self.small,
            Size::Large => &mut self.large,
        }
    }

    const fn cut(&self, size: Size) -> Cut {
        self.shelf(size).cut
    }

    /// Slabs registered since the beginning.
    pub const fn registrations(&self) -> u64 {
        self.registrations
    }

    /// Bytes that are registered.
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// Returns `true` if a chunk came back since the last call.
    pub const fn take_freed(&mut self) -> bool {
        core::mem::replace(&mut self.freed, false)
    }

    /// Returns `true` if there is no small chunk and can be none before one comes back.
    pub fn is_exhausted(&self) -> bool {
        self.small.open.is_empty() && !self.can_grow(Size::Small)
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
        let at = match self.shelf(size).open.first() {
            Some(at) => *at,
            None => self.grow(size)?,
        };
        let full = Setup::PoolFull { max: self.memory_max };
        let Some(Some(slab)) = self.slabs.get_mut(at) else { return Err(full) };
        let index = slab.free.pop().ok_or(full)?;
        let left = slab.free.len();
        self.shelf_mut(size).note(at, left);
        Ok(Chunk { slab: u32::try_from(at).unwrap_or(u32::MAX), index })
    }

    /// Returns `true` if there may be another slab of this size once `unused` bytes have gone.
    fn may_grow(&self, size: Size, unused: usize) -> bool {
        let Shelf { cut, slabs, .. } = self.shelf(size);
        *slabs < cut.slabs_max && self.memory - unused + cut.slab_bytes() <= self.memory_max
    }

    /// Returns `true` if there can be one, at the cost of unused slabs of the other size.
    fn can_grow(&self, size: Size) -> bool {
        let other = self.shelf(size.other());
        self.may_grow(size, other.unused.len() * other.cut.slab_bytes())
    }

    fn grow(&mut self, size: Size) -> Result<usize, Setup> {
        if !self.can_grow(size) {
            return Err(Setup::PoolFull { max: self.memory_max });
        }
        while !self.may_grow(size, 0)
            && let Some(unused) = self.shelf(size.other()).unused.last().copied()
        {
            self.discard(unused);
        }
        let cut = self.cut(size);
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        let region = self.domain.register(cut.slab_bytes(), access)?;
        let count = u32::try_from(cut.chunks).unwrap_or(u32::MAX);
        self.registrations += 1;
        self.memory += region.len();
        let slab = Some(Slab { region, size, free: (0..count).rev().collect() });
        let at = self.vacant.pop().unwrap_or(self.slabs.len());
        if at == self.slabs.len() {
            self.slabs.push(slab);
        } else {
            self.slabs[at] = slab;
        }
        let shelf = self.shelf_mut(size);
        shelf.slabs += 1;
        shelf.note(at, cut.chunks);
        Ok(at)
    }

    /// Lets go of slabs that nobody has used since the last call, but for one of each size, and of
    /// a few at once only: it takes time.
    pub fn trim(&mut self) {
        for size in [Size::Small, Size::Large] {
            let most = (TRIM_BYTES / self.cut(size).slab_bytes()).max(1);
            for _ in 1..self.shelf(size).spare.min(1 + most) {
                // Chunks are taken from the first slab: the last one is wanted last.
                if let Some(at) = self.shelf(size).unused.last().copied() {
                    self.discard(at);
                }
            }
            let shelf = self.shelf_mut(size);
            shelf.spare = shelf.unused.len();
        }
    }

    /// Lets go of a slab that nobody uses.
    fn discard(&mut self, at: usize) {
        let Some(slab) = self.slabs.get_mut(at).and_then(Option::take) else { return };
        self.memory -= slab.region.len();
        self.vacant.push(at);
        let shelf = self.shelf_mut(slab.size);
        shelf.slabs -= 1;
        shelf.note(at, 0);
    }

    /// Somebody else has the chunk as well, and gives it back, too.
    pub fn hold(&mut self, chunk: Chunk) {
        *self.shared.entry(chunk).or_default() += 1;
    }

    /// Takes a chunk back. It is free when all who have it have given it back.
    pub fn give(&mut self, chunk: Chunk) {
        if !self.shared.is_empty()
            && let Entry::Occupied(mut others) = self.shared.entry(chunk)
        {
            *others.get_mut() -= 1;
            if *others.get() == 0 {
                others.remove();
            }
            return;
        }
        let at = chunk.slab as usize;
        let Some(Some(slab)) = self.slabs.get_mut(at) else { return };
        slab.free.push(chunk.index);
        self.freed = true;
        let (size, free) = (slab.size, slab.free.len());
        self.shelf_mut(size).note(at, free);
    }

    /// The region of a chunk and where the chunk begins in it.
    fn place(&self, chunk: Chunk) -> Option<(&MemoryRegion, usize)> {
        let slab = self.slabs.get(chunk.slab as usize)?.as_ref()?;
        Some((&slab.region, chunk.index as usize * self.cut(slab.size).chunk_bytes))
    }

    /// These bytes of a chunk, for a work request.
    pub fn sge(&self, chunk: Chunk, range: Range<usize>) -> Result<Sge, verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        region.slice(start + range.start..start + range.end)
    }

    /// These bytes of a chunk, for a program. `None`: the chunk has fewer, or was given back.
    ///
    /// # Safety
    /// As [`Lent::new`].
    pub unsafe fn lend(&self, chunk: Chunk, range: Range<usize>) -> Option<Lent> {
        let (region, start) = self.place(chunk).filter(|_| range.end <= self.len(chunk))?;
        let first = NonNull::new(region.as_ptr().wrapping_add(start + range.start))?;
        // SAFETY: the bytes lie inside the chunk, and that inside its slab, which is zeroed memory
        // at first; the rest is the caller's promise.
        Some(unsafe { Lent::new(chunk, range.start, first, range.len()) })
    }

    /// Bytes of a chunk.
    pub fn len(&self, chunk: Chunk) -> usize {
        let slab = self.slabs.get(chunk.slab as usize).and_then(Option::as_ref);
        slab.map_or(0, |slab| self.cut(slab.size).chunk_bytes)
    }

    /// Shows these bytes of a chunk to the peer of `pair`, and to nobody else, until the window is
    /// dropped. It posts a request.
    pub fn show(
        &self,
        chunk: Chunk,
        range: Range<usize>,
        access: Access,
        (pair, wr_id): (&mut QueuePair, u64),
    ) -> Result<(MemoryWindow, Descriptor), verbs_api::Error> {
        let (region, start) = self.place(chunk).ok_or(GONE)?;
        let range = start + range.start..start + range.end;
        let shown = region.slice(range.clone())?;
        let mut window = self.domain.alloc_window(WindowType::Two)?;
        let rkey = window.bind(pair, wr_id, region, range, access)?;
        Ok((window, Descriptor { addr: shown.addr, rkey, len: shown.length }))
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
        pool.trim();
        assert_eq!(pool.memory(), 3 << 20, "all were in use a moment ago");
        let one = pool.take().expect("a chunk");
        pool.trim();
        assert_eq!(pool.memory(), 2 << 20, "one is in use, and one is kept for the next");
        pool.give(one);
        pool.trim();
        pool.trim();
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
        let large: Vec<Chunk> = (0..4).map(|_| pool.take_of(Size::Large).expect("a chunk")).collect();
        assert!(pool.memory() <= 4 << 20);
        large.into_iter().for_each(|chunk| pool.give(chunk));
        pool.trim();
        pool.trim();
        assert_eq!(pool.memory(), 2 << 20, "one slab of each size is kept");
    }

    #[test]
    fn no_slab_goes_for_one_that_there_is_no_room_for() {
        let device = Device::open("sim:pool").expect("a device");
        let mut pool = Pool::new(device.alloc_pd(), 256 << 10, 4 << 20, 8 << 20);
        let small: Vec<Chunk> = (0..32).map(|_| pool.take().expect("a chunk")).collect();
        // Three slabs of eight are free, and a large one takes four.
        small[..12].iter().for_each(|chunk| pool.give(*chunk));
        assert!(matches!(pool.take_of(Size::Large), Err(Setup::PoolFull { .. })));
        assert_eq!(pool.memory(), 8 << 20);
        small[12..16].iter().for_each(|chunk| pool.give(*chunk));
        pool.take_of(Size::Large).expect("a chunk");
        assert_eq!((pool.memory(), pool.registrations()), (8 << 20, 9));
    }

    #[test]
    fn a_few_slabs_go_at_once() {
        let mut pool = pool(32 << 20);
        let chunks: Vec<Chunk> = (0..128).map(|_| pool.take().expect("a chunk")).collect();
        chunks.into_iter().for_each(|chunk| pool.give(chunk));
        let memory = [(); 6].map(|()| {
            pool.trim();
            pool.memory() >> 20
        });
        assert_eq!(memory, [32, 24, 16, 8, 1, 1]);
    }

    #[test]
    fn registrations_are_flat_once_it_is_warm() {
        let mut pool = pool(8 << 20);
        for round in 0..100 {
            // Now all are free, now three slabs are in use.
            let chunks: Vec<Chunk> = (0..12).map(|_| pool.take().expect("a chunk")).collect();
            chunks.into_iter().for_each(|chunk| pool.give(chunk));
            if round % 10 == 0 {
                pool.trim();
            }
        }
        assert_eq!(pool.registrations(), 3);
    }

    #[test]
    fn slabs_that_nobody_uses_make_room_for_the_other_size() {
        let mut pool = pool(2 << 20);
        let small: Vec<Chunk> = (0..8).map(|_| pool.take().expect("a chunk")).collect();
        assert!(matches!(pool.take_of(Size::Large), Err(Setup::PoolFull { .. })));
        small.into_iter().for_each(|chunk| pool.give(chunk));
        let large = [(); 2].map(|()| pool.take_of(Size::Large).expect("a chunk"));
        let small: Vec<Chunk> = (0..4).map(|_| pool.take().expect("a chunk")).collect();
        assert!(pool.is_exhausted());
        large.into_iter().for_each(|chunk| pool.give(chunk));
        assert!(!pool.is_exhausted(), "the slab of large chunks may go");
        pool.take().expect("a chunk");
        drop(small);
    }
}
