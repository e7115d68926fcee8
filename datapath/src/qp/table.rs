//! The dense table of queue pairs, indexed by the low bits of the QPN.

use super::context::{QpCold, Qpc, ResponseLives};
use super::pair::Qp;
use crate::prefetch;
use crate::qp::flags::QpFlags;
use crate::qpn::{EngineId, FIRST_FREE_QPN, MULTICAST_QPN};
use crate::seed::{Purpose, Seed};
use sr_recovery::Generation;
use std::collections::VecDeque;

/// The general services queue pair, which connection managers talk to.
pub(crate) const QPN_GSI: u32 = 1;

/// All queue pairs of an engine. The low bits of a QPN are the slot, the highest the engine, and
/// those between tell lives of a slot apart.
pub(crate) struct QpTable {
    hot: Vec<Qpc>,
    /// As far as slots were ever used, one after the other: what many queue pairs need is in few
    /// pages, and no pointer comes first.
    cold: Vec<Option<QpCold>>,
    /// Taken from the back; a slot that is given back is used again last.
    free: VecDeque<u32>,
    /// Generations of the last streams in each slot.
    lives: Vec<(Generation, ResponseLives)>,
    engine: EngineId,
    /// Drawn into the QPN bits between engine and slot, advanced for each new queue pair.
    salt: u32,
    slot_bits: u32,
    /// The slot of QPN 1, if there is such a queue pair.
    gsi: Option<u32>,
}

impl QpTable {
    /// A table for `capacity` queue pairs of that engine; `seed` makes the QPNs.
    #[must_use]
    pub fn new(capacity: u32, engine: EngineId, seed: Seed, vacant: impl Fn() -> Qpc) -> Self {
        let capacity = capacity.clamp(1, 1 << 20);
        let slot_bits = capacity.next_power_of_two().trailing_zeros();
        let salt = seed.numbers(Purpose::Qpns).next_u32();
        Self {
            hot: (0..capacity).map(|_| vacant()).collect(),
            cold: Vec::with_capacity(capacity as usize),
            free: (0..capacity).rev().collect(),
            lives: vec![Default::default(); capacity as usize],
            engine,
            salt,
            slot_bits,
            gsi: None,
        }
    }

    /// Queue pairs that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.hot.len()
    }

    /// Queue pairs that exist, and those gone whose doorbell is under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hot.len() - self.free.len()
    }

    /// Takes a free slot and a QPN for it that the slot has not had lately.
    pub fn allocate(&mut self) -> Option<(u32, u32)> {
        let slot = self.free.pop_back()?;
        loop {
            // Weyl sequence: all values of the upper bits come before one repeats.
            self.salt = self.salt.wrapping_add(0x9E37_79B1);
            let life = self.salt >> (32 - (self.engine.free_bits() - self.slot_bits));
            let qpn = self.engine.base() | life << self.slot_bits | slot;
            if qpn >= FIRST_FREE_QPN && qpn != MULTICAST_QPN {
                return Some((slot, qpn));
            }
        }
    }

    /// Takes a free slot for QPN 1; `None` also if it exists.
    pub fn allocate_gsi(&mut self) -> Option<(u32, u32)> {
        if self.gsi.is_some() {
            return None;
        }
        let slot = self.free.pop_back()?;
        self.gsi = Some(slot);
        Some((slot, QPN_GSI))
    }

    /// Whether QPN 1 exists.
    pub const fn has_gsi(&self) -> bool {
        self.gsi.is_some()
    }

    /// Puts a queue pair into its slot.
    pub fn insert(&mut self, slot: u32, hot: Qpc, cold: QpCold) {
        debug_assert_eq!(hot.flags.contains(QpFlags::SHARES_RECEIVES), cold.receives.are_shared());
        let slot = slot as usize;
        self.hot[slot] = hot;
        if slot >= self.cold.len() {
            self.cold.resize_with(slot + 1, || None);
        }
        self.cold[slot] = Some(cold);
    }

    /// Ends a queue pair. Its slot is free for another one, unless `doorbell_due`: then once
    /// [`QpTable::on_late_doorbell`] was told of it. The hot part stays as it is, as queues may
    /// still name the slot, but for its number, by which nobody finds it any more.
    pub fn remove(&mut self, slot: u32, doorbell_due: bool) -> bool {
        let Some(mut cold) = self.cold.get_mut(slot as usize).and_then(Option::take) else { return false };
        cold.drop_responses();
        self.hot[slot as usize].id.qpn = 0;
        self.gsi = self.gsi.filter(|gsi| *gsi != slot);
        self.lives[slot as usize] = (cold.tx_recovery.generation(), cold.response_lives);
        if !doorbell_due {
            self.free.push_front(slot);
        }
        true
    }

    /// The doorbell of a queue pair that is gone was taken: its slot is free.
    pub fn on_late_doorbell(&mut self, slot: u32) {
        self.free.push_front(slot);
    }

    /// A generation that no sender in this slot has had lately.
    #[must_use]
    pub fn next_life(&self, slot: u32) -> Generation {
        self.lives[slot as usize].0.wrapping_add(1)
    }

    /// The newest generations of streams of responses in this slot.
    #[must_use]
    pub fn response_lives(&self, slot: u32) -> ResponseLives {
        self.lives[slot as usize].1
    }

    /// The slot that a QPN names, unless it is QPN 1; a slot names itself.
    #[inline]
    pub(crate) const fn slot_of(&self, qpn: u32) -> u32 {
        qpn & ((1 << self.slot_bits) - 1)
    }

    /// The slot of the queue pair with that number.
    #[inline]
    #[must_use]
    pub fn find(&self, qpn: u32) -> Option<u32> {
        let slot = self.slot_of(qpn);
        let hot = self.hot.get(slot as usize)?;
        if hot.id.qpn == qpn { Some(slot) } else { self.find_gsi(qpn) }
    }

    /// Both parts of the queue pair whose QPN this is.
    #[inline]
    pub(crate) fn by_qpn(&mut self, qpn: u32) -> Option<Qp<'_>> {
        self.find(qpn).and_then(|slot| self.get(slot))
    }

    /// QPN 1 does not name its slot.
    #[cold]
    fn find_gsi(&self, qpn: u32) -> Option<u32> {
        self.gsi.filter(|_| qpn == QPN_GSI)
    }

    /// Both parts of the queue pair in a slot.
    #[inline]
    pub(crate) fn get(&mut self, slot: u32) -> Option<Qp<'_>> {
        let cold = self.cold.get_mut(slot as usize)?.as_mut()?;
        Some(Qp { hot: &mut self.hot[slot as usize], cold })
    }

    /// Starts to fetch what its own requests need of both parts of the queue pair of that slot or
    /// QPN.
    #[inline]
    pub(crate) fn prefetch_requester(&self, slot: u32) {
        self.prefetch(slot, Qpc::prefetch_requester, QpCold::SENDING);
    }

    /// Starts to fetch what the peer's requests need of both parts of the queue pair of that slot
    /// or QPN.
    #[inline]
    pub(crate) fn prefetch_responder(&self, slot: u32) {
        self.prefetch(slot, Qpc::prefetch_responder, QpCold::RECEIVING);
    }

    #[inline]
    fn prefetch(&self, slot: u32, hot_part: impl Fn(&Qpc), bytes: usize) {
        let slot = self.slot_of(slot) as usize;
        if let (Some(hot), Some(cold)) = (self.hot.get(slot), self.cold.get(slot)) {
            hot_part(hot);
            prefetch::read_lines(core::ptr::from_ref(cold).cast(), bytes);
        }
    }

    /// Starts to fetch its send queue, soon after [`QpTable::prefetch_requester`].
    #[inline]
    pub(crate) fn prefetch_send_queue(&self, slot: u32) {
        if let Some((_, cold)) = self.peek(slot) {
            cold.send_queue.prefetch();
        }
    }

    /// Starts to fetch its next requests, soon after [`QpTable::prefetch_send_queue`].
    #[inline]
    pub(crate) fn prefetch_requests(&self, slot: u32) {
        if let Some((hot, cold)) = self.peek(slot) {
            cold.prefetch_requests(hot.req.next);
        }
    }

    /// Starts to fetch what its next request sends, and where those of a turn write to, soon after
    /// [`QpTable::prefetch_requests`].
    #[inline]
    pub(crate) fn prefetch_payload(&self, slot: u32) {
        if let Some((hot, cold)) = self.peek(slot) {
            cold.send_queue.prefetch_data(hot.req.next);
        }
    }

    /// Starts to fetch the next `count` receives of the queue pair with that QPN, soon after
    /// [`QpTable::prefetch_responder`].
    #[inline]
    pub(crate) fn prefetch_receives(&self, qpn: u32, count: u32) {
        if let Some((hot, cold)) = self.peek(qpn)
            && !hot.flags.contains(QpFlags::SHARES_RECEIVES)
        {
            cold.receives.prefetch(hot.rsp.recv_head, count);
        }
    }

    /// Both parts of the queue pair of that slot or QPN, to read.
    #[inline]
    pub(crate) fn peek(&self, slot: u32) -> Option<(&Qpc, &QpCold)> {
        let slot = self.slot_of(slot) as usize;
        let cold = self.cold.get(slot)?.as_ref()?;
        Some((&self.hot[slot], cold))
    }

    /// The hot part of a slot, whether or not it is in use.
    #[inline]
    pub(crate) fn hot(&mut self, slot: u32) -> &mut Qpc {
        &mut self.hot[slot as usize]
    }

    /// Slots in use.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.cold).filter(|(_, cold)| cold.is_some()).map(|(slot, _)| slot)
    }
}
