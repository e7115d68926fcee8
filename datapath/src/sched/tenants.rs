//! Tenants: shares of the engine for those that have several queue pairs each.
//!
//! Two levels. In a round each tenant that has something to send has a share of bytes by its
//! weight, and those of the class [`TenantClass::Latency`] come first, then
//! [`TenantClass::Normal`], then [`TenantClass::Bulk`] (deficit round robin, with an order in each
//! round). Within a tenant, queue pairs take turns. [`TenantClass::Scavenger`] has rounds of its
//! own, for which only remains what no other has a use for.
//!
//! A tenant that is above one of its caps is parked until there is something again.

mod attributes;
mod rounds;

pub use attributes::{
    CostTable, TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId,
    TenantQuota,
};

use super::TimerWheel;
use super::meter::Meter;
use super::policy::{Policy, Scheduled, Usage};
use super::schedule_queue::ScheduleQueue;
use crate::time::Time;
use crate::tuning;
use rounds::{Place, Rounds};

const NONE: u32 = u32::MAX;
/// The rounds of every class but scavengers.
const FOREGROUND: usize = 0;
/// Bytes of a round for a tenant of weight 1: a turn.
const QUANTUM: i64 = tuning::BYTES_PER_TURN as i64;
/// What a turn takes of a share at least, so that a tenant with the smallest messages has sixteen
/// turns for one turn of bulk.
const LEAST: i64 = QUANTUM / 16;

/// Width of the buckets in which parked tenants wait, as a power of two of nanoseconds: 1 us.
const PARKED_NS_LOG2: u32 = 10;
/// What a cap saves at most: four turns of bytes, as many of operations, or 16 us of either.
const BURST_BYTES: u64 = 4 * tuning::BYTES_PER_TURN as u64;
const BURST_OPERATIONS: u64 = 4 * tuning::WQES_PER_TURN as u64;
const BURST_NS: u64 = 16_384;
/// Parts of an operation that costs are counted in.
const PARTS: u64 = 100;

/// Where a tenant is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None of its queue pairs is ready.
    Away,
    /// In a list of its rounds.
    Listed,
    /// It waits for its caps.
    Parked,
}

/// The caps of a tenant in one direction.
#[derive(Clone, Copy, Debug)]
struct Gate {
    bytes: Meter,
    operations: Meter,
}

impl Gate {
    fn new(caps: &TenantCaps) -> Self {
        let operations = caps.operations_per_s.saturating_mul(PARTS);
        Self {
            bytes: Meter::new(caps.bytes_per_s, BURST_BYTES, BURST_NS),
            operations: Meter::new(operations, BURST_OPERATIONS * PARTS, BURST_NS),
        }
    }

    /// Other caps from `now` on.
    fn change(&mut self, caps: &TenantCaps, now: Time) {
        let other = Self::new(caps);
        self.bytes = self.bytes.changed(other.bytes, now);
        self.operations = self.operations.changed(other.operations, now);
    }

    fn opens_at(&self) -> Time {
        self.bytes.opens_at().max(self.operations.opens_at())
    }

    /// Forgets what is owed beyond as much as may be saved.
    fn forgive(&mut self, now: Time) {
        self.bytes.forgive(now);
        self.operations.forgive(now);
    }

    #[cold]
    #[inline(never)]
    fn take(&mut self, usage: &Usage, costs: &CostTable, now: Time) {
        self.bytes.take(usage.wire_bytes(), now);
        self.operations.take(costs.of(usage), now);
    }
}

#[derive(Clone, Copy, Debug)]
struct Tenant {
    /// Its ready queue pairs.
    head: u32,
    tail: u32,
    ready: u32,
    /// The round that `credit` is of.
    round: u32,
    /// Bytes that it may send in this round. A turn may overdraw it, which the next one pays.
    credit: i64,
    quantum: i64,
    /// Of its rounds; those of scavengers have one.
    class: u8,
    state: State,
    is_scavenger: bool,
    is_capped: bool,
    gate: Gate,
    /// Of what its peers send.
    arrivals: Gate,
    attr: TenantAttr,
    counters: TenantCounters,
}

impl Tenant {
    fn new(attr: TenantAttr) -> Self {
        let mut tenant = Self {
            head: NONE,
            tail: NONE,
            ready: 0,
            round: u32::MAX,
            credit: 0,
            quantum: QUANTUM,
            class: 0,
            state: State::Away,
            is_scavenger: false,
            is_capped: false,
            gate: Gate::new(&attr.tx),
            arrivals: Gate::new(&attr.rx),
            attr,
            counters: TenantCounters::default(),
        };
        tenant.set(attr, Time::ZERO);
        tenant
    }

    /// Takes attributes over. Where it stands, it stays until its next turn.
    fn set(&mut self, attr: TenantAttr, now: Time) {
        self.attr = attr;
        self.is_capped = attr.tx.is_some();
        self.gate.change(&attr.tx, now);
        self.arrivals.change(&attr.rx, now);
        self.quantum = QUANTUM * i64::from(attr.weight.clamp(1, TENANT_WEIGHT_MAX));
        self.is_scavenger = attr.class == TenantClass::Scavenger;
        self.class = match attr.class {
            TenantClass::Latency | TenantClass::Scavenger => 0,
            TenantClass::Normal => 1,
            TenantClass::Bulk => 2,
        };
    }

    /// Whether it may send in round `number`. What it did not use of the last is gone; what it
    /// overdrew is paid by the one behind it.
    #[inline]
    fn may_send_in(&mut self, number: u32) -> bool {
        if self.round != number {
            let debt = if self.round.wrapping_add(1) == number { self.credit.min(0) } else { 0 };
            self.credit = debt + self.quantum;
            self.round = number;
        }
        self.credit > 0
    }
}

/// Tenants by deficit round robin in the order of their classes, then queue pairs round robin.
#[derive(Debug)]
pub struct Tenants {
    /// By number. The numbers of those that were destroyed are in `free`.
    tenants: Vec<Tenant>,
    free: Vec<u16>,
    /// The tenant of each slot.
    owners: Box<[u16]>,
    /// The slot behind each slot that is ready.
    next: Box<[u32]>,
    /// Those of the foreground, and those of scavengers.
    rounds: [Rounds; 2],
    /// Those that wait for their caps.
    parked: Box<TimerWheel<PARKED_NS_LOG2>>,
    parked_count: usize,
    /// Ready queue pairs of those that do not.
    waiting: usize,
    costs: CostTable,
    /// Time of the last turn.
    now: Time,
}

impl Tenants {
    /// The default tenant alone, with everything that is ready in `queue`.
    pub(super) fn new(mut queue: ScheduleQueue, slots: usize, costs: CostTable) -> Self {
        let mut tenants = Self {
            tenants: Vec::new(),
            free: Vec::new(),
            owners: vec![0; slots].into(),
            next: vec![NONE; slots].into(),
            rounds: Default::default(),
            parked: Box::new(TimerWheel::new(TENANTS_MAX)),
            parked_count: 0,
            waiting: 0,
            costs,
            now: Time::ZERO,
        };
        tenants.create(TenantAttr::default());
        while let Some(slot) = queue.pop_front() {
            tenants.push(slot);
        }
        tenants
    }

    /// A new tenant; `None` if there are [`TENANTS_MAX`].
    pub fn create(&mut self, attr: TenantAttr) -> Option<TenantId> {
        if let Some(number) = self.free.pop() {
            // A slot whose queue pair is gone may still stand in its lists, until its turn.
            let tenant = &mut self.tenants[usize::from(number)];
            tenant.set(attr, self.now);
            tenant.counters = TenantCounters::default();
            return Some(TenantId(number));
        }
        let number = u16::try_from(self.tenants.len()).ok().filter(|_| self.tenants.len() < TENANTS_MAX)?;
        self.tenants.push(Tenant::new(attr));
        self.rounds.iter_mut().for_each(|rounds| rounds.reserve(self.tenants.len()));
        Some(TenantId(number))
    }

    /// Destroys a tenant, which must exist, and have no queue pair.
    pub fn destroy(&mut self, tenant: TenantId) {
        debug_assert!(self.has(tenant) && tenant != TenantId::DEFAULT);
        self.free.push(tenant.0);
    }

    /// Whether that tenant exists.
    #[must_use]
    pub fn has(&self, tenant: TenantId) -> bool {
        tenant.index() < self.tenants.len() && !self.free.contains(&tenant.0)
    }

    /// Every tenant, the default one first.
    pub fn ids(&self) -> impl Iterator<Item = TenantId> + '_ {
        (0..).map(TenantId).take(self.tenants.len()).filter(|id| self.has(*id))
    }

    /// Attributes and counters of a tenant.
    #[must_use]
    pub fn get(&self, tenant: TenantId) -> Option<(&TenantAttr, &TenantCounters)> {
        let known = self.has(tenant).then(|| &self.tenants[tenant.index()])?;
        Some((&known.attr, &known.counters))
    }

    /// Gives a tenant other attributes, from its next round on. False if it does not exist.
    pub fn set(&mut self, tenant: TenantId, attr: TenantAttr) -> bool {
        let exists = self.has(tenant);
        if exists {
            self.tenants[tenant.index()].set(attr, self.now);
            self.unpark(tenant.0);
        }
        exists
    }

    /// Whether some tenant has a cap for what its peers send.
    #[must_use]
    pub fn caps_arrivals(&self) -> bool {
        self.ids().any(|id| self.tenants[id.index()].attr.rx.is_some())
    }

    /// A packet came for a slot, which says so much of it. True if that is above its tenant's cap.
    pub fn receive(&mut self, slot: u32, usage: &Usage, now: Time) -> bool {
        let tenant = &mut self.tenants[usize::from(self.owners[slot as usize])];
        tenant.counters.rx_packets += usage.packets as u64;
        tenant.counters.rx_bytes += usage.bytes as u64;
        tenant.counters.rx_operations += u64::from(usage.operations);
        if !tenant.attr.rx.is_some() {
            return false;
        }
        let is_above = tenant.arrivals.opens_at() > now;
        tenant.counters.rx_marked += u64::from(is_above);
        tenant.arrivals.take(usage, &self.costs, now);
        // It came all the same: who does not listen owes no more than a burst.
        tenant.arrivals.forgive(now);
        is_above
    }

    /// A packet out of order for a slot was dropped, as it would have taken the share of others.
    pub fn note_share_drop(&mut self, slot: u32) {
        self.tenants[usize::from(self.owners[slot as usize])].counters.rx_share_drops += 1;
    }

    /// The tenant of a slot.
    #[must_use]
    pub fn owner_of(&self, slot: u32) -> TenantId {
        TenantId(self.owners[slot as usize])
    }

    /// When a tenant that is above its cap may send again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.parked.next_deadline()
    }

    /// Gives a slot to a tenant, which must exist.
    pub fn assign(&mut self, slot: u32, tenant: TenantId) {
        self.owners[slot as usize] = tenant.0;
    }

    /// The tenant of a slot, and the rounds that it has its turns in.
    #[inline]
    fn owner(&mut self, slot: u32) -> (u16, &mut Tenant, &mut Rounds) {
        let number = self.owners[slot as usize];
        let tenant = &mut self.tenants[usize::from(number)];
        let rounds = &mut self.rounds[usize::from(tenant.is_scavenger)];
        (number, tenant, rounds)
    }

    /// A tenant of which a queue pair became ready stands in its rounds, if it did not yet.
    #[inline]
    fn list(&mut self, slot: u32) {
        let (number, tenant, rounds) = self.owner(slot);
        tenant.ready += 1;
        match tenant.state {
            State::Parked => return,
            State::Listed => {}
            State::Away => {
                tenant.state = State::Listed;
                let waits = !tenant.may_send_in(rounds.number());
                rounds.push(number, tenant.class, waits);
            }
        }
        self.waiting += 1;
    }

    /// The tenant that is first there waits for its caps.
    #[cold]
    #[inline(never)]
    fn park(&mut self, place: Place, number: u16, is_scavenger: bool) {
        let rounds = &mut self.rounds[usize::from(is_scavenger)];
        rounds.remove_front(place);
        let tenant = &mut self.tenants[usize::from(number)];
        tenant.state = State::Parked;
        tenant.counters.parked += 1;
        self.waiting -= tenant.ready as usize;
        self.parked.arm(number.into(), tenant.gate.opens_at());
        self.parked_count += 1;
    }

    /// Tenants that may send again.
    #[inline]
    fn wake_parked(&mut self) {
        while let Some(number) = self.parked.pop(self.now) {
            #[expect(clippy::cast_possible_truncation, reason = "a number that was armed")]
            self.unpark(number as u16);
        }
    }

    /// A tenant that is parked stands in its rounds again. If it is too early, it is parked once
    /// more in its turn.
    #[cold]
    #[inline(never)]
    fn unpark(&mut self, number: u16) {
        let tenant = &mut self.tenants[usize::from(number)];
        if tenant.state == State::Parked {
            self.parked.disarm(number.into());
            self.parked_count -= 1;
            let rounds = &mut self.rounds[usize::from(tenant.is_scavenger)];
            tenant.state = State::Listed;
            self.waiting += tenant.ready as usize;
            let waits = !tenant.may_send_in(rounds.number());
            rounds.push(number, tenant.class, waits);
        }
    }

    /// Takes the queue pair whose turn it is.
    #[inline(never)]
    fn pop_ready(&mut self) -> Option<Scheduled> {
        self.wake_parked();
        let (place, number, is_scavenger) = self.choose()?;
        let rounds = &mut self.rounds[usize::from(is_scavenger)];
        let tenant = &mut self.tenants[usize::from(number)];
        let slot = tenant.head;
        tenant.head = self.next[slot as usize];
        tenant.ready -= 1;
        tenant.counters.turns += 1;
        self.waiting -= 1;
        if tenant.head == NONE {
            tenant.state = State::Away;
            rounds.remove_front(place);
        } else {
            rounds.rotate(place);
        }
        Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN })
    }

    /// A turn of `slot` is over.
    #[inline(never)]
    pub(super) fn end_turn(&mut self, slot: u32, usage: &Usage, requeues: bool) {
        self.charge(slot, *usage);
        if requeues {
            self.push(slot);
        }
    }

    /// The tenant whose turn it is by its share, and whether it has its turns among scavengers.
    #[inline]
    fn front(&mut self) -> Option<(Place, u16, bool)> {
        loop {
            let is_scavenger = self.rounds[FOREGROUND].is_empty();
            let rounds = &mut self.rounds[usize::from(is_scavenger)];
            let (place, number) = rounds.front()?;
            if self.tenants[usize::from(number)].may_send_in(rounds.number()) {
                return Some((place, number, is_scavenger));
            }
            rounds.remove_front(place);
            self.list_next(number);
        }
    }

    /// A tenant waits for the next round, of those that are of its class now.
    #[inline]
    fn list_next(&mut self, number: u16) {
        let tenant = &self.tenants[usize::from(number)];
        let rounds = &mut self.rounds[usize::from(tenant.is_scavenger)];
        rounds.push(number, tenant.class, true);
    }

    /// The tenant whose turn it is by its share and its caps.
    #[inline]
    fn choose(&mut self) -> Option<(Place, u16, bool)> {
        loop {
            let (place, number, is_scavenger) = self.front()?;
            let tenant = &self.tenants[usize::from(number)];
            if !tenant.is_capped || tenant.gate.opens_at() <= self.now {
                return Some((place, number, is_scavenger));
            }
            self.park(place, number, is_scavenger);
        }
    }
}

impl Policy for Tenants {
    #[inline(never)]
    fn push(&mut self, slot: u32) {
        let (_, tenant, _) = self.owner(slot);
        let last = core::mem::replace(&mut tenant.tail, slot);
        if tenant.head == NONE {
            tenant.head = slot;
        } else {
            self.next[last as usize] = slot;
        }
        self.next[slot as usize] = NONE;
        self.list(slot);
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<Scheduled> {
        self.now = now;
        if self.waiting == 0 && self.parked_count == 0 {
            return None;
        }
        self.pop_ready()
    }

    fn peek(&self, turns: usize) -> Option<u32> {
        let (number, had) = self.rounds[FOREGROUND].peek(turns)?;
        let mut slot = self.tenants[usize::from(number)].head;
        for _ in 0..had {
            slot = *self.next.get(slot as usize)?;
        }
        (slot != NONE).then_some(slot)
    }

    #[inline]
    fn charge(&mut self, slot: u32, usage: Usage) {
        let tenant = &mut self.tenants[usize::from(self.owners[slot as usize])];
        if tenant.is_capped {
            tenant.gate.take(&usage, &self.costs, self.now);
        }
        tenant.counters.tx_operations += u64::from(usage.operations);
        tenant.counters.tx_packets += usage.packets as u64;
        tenant.counters.tx_bytes += usage.bytes as u64;
        if usage.packets > 0 {
            tenant.credit -= i64::try_from(usage.wire_bytes()).unwrap_or(i64::MAX).max(LEAST);
        }
    }

    fn resume(&mut self, slot: u32) {
        let (number, tenant, rounds) = self.owner(slot);
        let (class, first) = (tenant.class, core::mem::replace(&mut tenant.head, slot));
        if first == NONE {
            tenant.tail = slot;
            tenant.ready = 1;
            tenant.state = State::Listed;
            rounds.push_front(number, class);
        } else {
            // It is last of its class now; it has not paid for the turn that was none.
            tenant.ready += 1;
        }
        self.waiting += usize::from(tenant.state == State::Listed);
        self.next[slot as usize] = first;
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    /// Those of its own tenant.
    fn behind(&self, slot: Option<u32>) -> usize {
        slot.map_or(0, |slot| self.tenants[usize::from(self.owners[slot as usize])].ready as usize)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.owners)
            + size_of_val(&*self.next)
            + self.tenants.capacity() * size_of::<Tenant>()
            + self.rounds.iter().map(Rounds::bytes).sum::<usize>()
    }
}
