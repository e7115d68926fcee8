//! Tenants: shares of the engine for those that have several queue pairs each.
//!
//! Two levels. In a round each tenant that has something to send has a share of bytes by its
//! weight, and those of the class [`TenantClass::Latency`] come first, then
//! [`TenantClass::Normal`], then [`TenantClass::Bulk`] (deficit round robin, with an order in each
//! round). Within a tenant, queue pairs take turns. [`TenantClass::Scavenger`] has rounds of its
//! own, for which only remains what no other has a use for.
//!
//! A tenant that is above one of its caps is parked until there is something again.

mod alone;
mod attributes;
mod classify;
mod ready;
mod rounds;

pub use attributes::{
    CostTable, TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId,
    TenantQuota,
};

use super::TimerWheel;
use super::meter::Meter;
use super::policy::{Policy, Scheduled, Usage};
use super::ring_bound::RingBound;
use super::schedule_queue::ScheduleQueue;
use super::slot_lists::Links;
use crate::time::Time;
use crate::tuning;
use alone::Alone;
use classify::Traffic;
use ready::Ready;
use rounds::{Place, Rounds};

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
/// Control calls that are saved at most: as many as a connection and its memory take, some times.
const BURST_CALLS: u64 = 32;
/// Parts of an operation that costs are counted in.
const PARTS: u64 = 100;

/// Where a tenant is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In no list.
    Away,
    /// In a list of its rounds. It stays there when its last ready queue pair has its turn, until
    /// it is its own turn and none is ready: so who alone has something to send is not put there
    /// and taken away with each packet.
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
    queue: Ready,
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
    /// Of control calls.
    calls: Meter,
    attr: TenantAttr,
    counters: TenantCounters,
    traffic: Traffic,
}

impl Tenant {
    fn new(attr: TenantAttr) -> Self {
        let mut tenant = Self {
            queue: Ready::NONE,
            round: u32::MAX,
            credit: 0,
            quantum: QUANTUM,
            class: 1,
            state: State::Away,
            is_scavenger: false,
            is_capped: false,
            gate: Gate::new(&attr.tx),
            arrivals: Gate::new(&attr.rx),
            calls: Meter::NONE,
            attr,
            counters: TenantCounters::default(),
            traffic: Traffic::since(&TenantCounters::default(), Time::ZERO),
        };
        tenant.set(attr, Time::ZERO);
        tenant
    }

    /// Takes attributes over. Where it stands, it stays until its next turn.
    fn set(&mut self, attr: TenantAttr, now: Time) {
        let is_classified = attr.class == TenantClass::Auto && self.attr.class == TenantClass::Auto;
        self.attr = attr;
        self.is_capped = attr.tx.is_some();
        self.gate.change(&attr.tx, now);
        self.arrivals.change(&attr.rx, now);
        self.calls = self.calls.changed(Meter::new(attr.control_per_s.into(), BURST_CALLS, 0), now);
        self.quantum = QUANTUM * i64::from(attr.weight.clamp(1, TENANT_WEIGHT_MAX));
        self.is_scavenger = attr.class == TenantClass::Scavenger;
        if !is_classified {
            self.traffic = Traffic::since(&self.counters, now);
            self.class = match attr.class {
                TenantClass::Scavenger => 0,
                class => class.rank().or(TenantClass::Normal.rank()).unwrap_or(0),
            };
        }
    }

    /// Nothing of it is left to send, or it has no turn now, and its class is by what it sends.
    #[cold]
    #[inline(never)]
    fn classify(&mut self, now: Time) {
        let class = self.traffic.note(&self.counters, self.queue.is_empty(), now);
        if let Some(rank) = class.and_then(TenantClass::rank) {
            self.class = rank;
        }
    }

    /// The class that it is treated as.
    fn class_now(&self) -> TenantClass {
        match self.attr.class {
            TenantClass::Auto => TenantClass::RANKS[usize::from(self.class)],
            class => class,
        }
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
    /// Of slots that are ready.
    links: Links,
    /// Those of the foreground, and those of scavengers.
    rounds: [Rounds; 2],
    /// Those that wait for their caps.
    parked: Box<TimerWheel<PARKED_NS_LOG2>>,
    parked_count: usize,
    /// Ready queue pairs of those that do not.
    waiting: usize,
    /// Tenants in lists of either rounds.
    listed: usize,
    /// The only one of them, if it has no cap, and a class that does not change.
    alone: Alone,
    costs: CostTable,
    ring_bound: RingBound,
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
            links: Links::new(slots),
            rounds: Default::default(),
            parked: Box::new(TimerWheel::new(TENANTS_MAX)),
            parked_count: 0,
            waiting: 0,
            listed: 0,
            alone: Alone::nobody(),
            costs,
            ring_bound: RingBound::new(),
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
            // The number may still stand in a round, until its turn; of the tenant that had it
            // nothing else is left.
            self.end_alone();
            let tenant = &mut self.tenants[usize::from(number)];
            *tenant = Tenant { state: tenant.state, ..Tenant::new(attr) };
            return Some(TenantId(number));
        }
        let number = u16::try_from(self.tenants.len()).ok().filter(|_| self.tenants.len() < TENANTS_MAX)?;
        self.tenants.push(Tenant::new(attr));
        self.rounds.iter_mut().for_each(|rounds| rounds.reserve(self.tenants.len()));
        Some(TenantId(number))
    }

    /// Destroys a tenant, which must exist, and have no queue pair.
    pub fn destroy(&mut self, tenant: TenantId) {
        self.end_alone();
        debug_assert!(self.has(tenant) && tenant != TenantId::DEFAULT);
        debug_assert!(self.tenants[tenant.index()].queue.is_empty());
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
    pub fn get(&self, tenant: TenantId) -> Option<(&TenantAttr, TenantCounters)> {
        let known = self.has(tenant).then(|| &self.tenants[tenant.index()])?;
        let mut counters = known.counters;
        if self.alone.is(tenant.0) {
            self.alone.sent.count(&mut counters);
        }
        Some((&known.attr, counters))
    }

    /// The class that a tenant is treated as: [`TenantClass::Auto`] is none.
    #[must_use]
    pub fn class_of(&self, tenant: TenantId) -> Option<TenantClass> {
        self.has(tenant).then(|| self.tenants[tenant.index()].class_now())
    }

    /// Gives a tenant other attributes, from its next round on. False if it does not exist.
    pub fn set(&mut self, tenant: TenantId, attr: TenantAttr) -> bool {
        let exists = self.has(tenant);
        if exists {
            self.end_alone();
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

    /// A control call of a tenant begins at `now`. Returns for how many nanoseconds it must wait
    /// first, if that is above the tenant's cap: then it has not begun.
    pub fn admit_call(&mut self, tenant: TenantId, now: Time) -> Option<u64> {
        let tenant = &mut self.tenants[tenant.index()];
        if !tenant.calls.is_open(now) {
            tenant.counters.control_waits += 1;
            return Some(tenant.calls.opens_at().since(now));
        }
        tenant.counters.control_calls += 1;
        tenant.calls.take(1, now);
        None
    }

    /// A peer refused what a slot had sent. To hear that takes as long as to send a packet, and a
    /// tenant that provokes it again and again pays for both.
    pub fn charge_refusal(&mut self, slot: u32, now: Time) {
        let tenant = &mut self.tenants[usize::from(self.owners[slot as usize])];
        let heard = Usage { packets: 1, ..Usage::default() };
        tenant.gate.operations.take(self.costs.of(&heard), now);
        // Peers that refuse the more owe no more than a burst.
        tenant.gate.operations.forgive(now);
    }

    /// Tenants that stand in a round, at most one turn of each away from theirs.
    #[must_use]
    pub const fn listed(&self) -> usize {
        self.listed
    }

    /// Frames that a turn may send while so many are ahead of them in the port's transmit ring:
    /// what it has accepted cannot be overtaken.
    pub fn ring_room(&mut self, ahead: usize, now: Time) -> usize {
        self.ring_bound.room(ahead, now)
    }

    /// A turn had more to send than [`ring_room`](Self::ring_room), which was less than a batch.
    pub const fn hold_back(&mut self) {
        self.ring_bound.hold_back();
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

    /// Whether the tenant of a slot is above a cap, and waits until there is something again.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub fn is_parked(&self, slot: u32) -> bool {
        self.tenants[usize::from(self.owners[slot as usize])].state == State::Parked
    }

    /// When a tenant that is above its cap may send again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.parked.next_deadline()
    }

    /// Gives a slot to a tenant, which must exist. If the slot is ready, it is ready there.
    #[cold]
    #[inline(never)]
    pub fn assign(&mut self, slot: u32, tenant: TenantId) {
        self.end_alone();
        let before = core::mem::replace(&mut self.owners[slot as usize], tenant.0);
        if before != tenant.0 && self.take_out(before, slot) {
            self.append(tenant.0, slot);
        }
    }

    /// Takes a slot away from those of a tenant that are ready. False if it is none of them.
    fn take_out(&mut self, number: u16, slot: u32) -> bool {
        let tenant = &mut self.tenants[usize::from(number)];
        if !tenant.queue.remove(&mut self.links, slot) {
            return false;
        }
        if tenant.state != State::Parked {
            self.waiting -= 1;
        } else if tenant.queue.is_empty() {
            tenant.state = State::Away;
            self.parked.disarm(number.into());
            self.parked_count -= 1;
        }
        true
    }

    /// A tenant of which a queue pair became ready stands in its rounds, if it is not parked.
    fn list(&mut self, number: u16) {
        let tenant = &mut self.tenants[usize::from(number)];
        if tenant.state == State::Away {
            tenant.state = State::Listed;
            self.list_in_rounds(number);
        }
    }

    /// Puts a tenant last in its class, of its rounds: in this one, if it may send in it.
    fn list_in_rounds(&mut self, number: u16) {
        self.end_alone();
        self.listed += 1;
        let tenant = &mut self.tenants[usize::from(number)];
        let rounds = &mut self.rounds[usize::from(tenant.is_scavenger)];
        let waits = !tenant.may_send_in(rounds.number());
        rounds.push(number, tenant.class, waits);
    }

    /// A tenant is alone from now on.
    fn begin_alone(&mut self, number: u16) {
        let queue = core::mem::replace(&mut self.tenants[usize::from(number)].queue, Ready::NONE);
        self.waiting -= queue.len();
        self.alone = Alone::new(number, queue);
    }

    /// Who was alone has a share from now on, and owes nothing.
    fn end_alone(&mut self) {
        let Alone { queue, sent, .. } = self.alone;
        if let Some(number) = self.alone.number() {
            let tenant = &mut self.tenants[usize::from(number)];
            tenant.round = self.rounds[usize::from(tenant.is_scavenger)].number();
            tenant.credit = tenant.quantum;
            tenant.queue = queue;
            sent.count(&mut tenant.counters);
            self.waiting += queue.len();
            self.alone = Alone::nobody();
        }
    }

    /// Tenants that may send again.
    #[cold]
    #[inline(never)]
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
            tenant.state = State::Listed;
            self.waiting += tenant.queue.len();
            self.list_in_rounds(number);
        }
    }

    /// Takes the queue pair whose turn it is.
    #[inline(never)]
    fn pop_ready(&mut self) -> Option<Scheduled> {
        if self.parked_count > 0 {
            self.wake_parked();
        }
        loop {
            let is_scavenger = self.rounds[FOREGROUND].is_empty();
            let rounds = &mut self.rounds[usize::from(is_scavenger)];
            let (place, number) = rounds.front()?;
            let tenant = &mut self.tenants[usize::from(number)];
            if tenant.may_send_in(rounds.number())
                && (!tenant.is_capped || tenant.gate.opens_at() <= self.now)
                && let Some(slot) = tenant.queue.pop_front(&mut self.links)
            {
                tenant.counters.turns += 1;
                self.waiting -= 1;
                rounds.rotate(place);
                let governed = tenant.is_capped || tenant.attr.class == TenantClass::Auto;
                if self.listed == 1 && self.parked_count == 0 && !governed {
                    self.begin_alone(number);
                }
                return Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN });
            }
            self.pass_over(place, number, is_scavenger);
        }
    }

    /// The tenant that is first there has no turn: none of its queue pairs is ready, its share of
    /// this round is used up, or one of its caps.
    #[inline(never)]
    fn pass_over(&mut self, place: Place, number: u16, is_scavenger: bool) {
        let rounds = &mut self.rounds[usize::from(is_scavenger)];
        rounds.remove_front(place);
        self.listed -= 1;
        let tenant = &mut self.tenants[usize::from(number)];
        if tenant.attr.class == TenantClass::Auto {
            tenant.classify(self.now);
        }
        if tenant.queue.is_empty() {
            tenant.state = State::Away;
        } else if !tenant.may_send_in(rounds.number()) {
            // Among those of the class that it has now.
            let rounds = &mut self.rounds[usize::from(tenant.is_scavenger)];
            rounds.push(number, tenant.class, true);
            self.listed += 1;
        } else {
            tenant.state = State::Parked;
            tenant.counters.parked += 1;
            self.waiting -= tenant.queue.len();
            self.parked.arm(number.into(), tenant.gate.opens_at());
            self.parked_count += 1;
        }
    }

    /// A turn of `slot` is over.
    #[inline]
    pub(super) fn end_turn(&mut self, slot: u32, usage: &Usage, requeues: bool) {
        let number = self.owners[slot as usize];
        if !self.alone.is(number) {
            self.end_turn_of(number, slot, usage, requeues);
            return;
        }
        self.alone.sent.add(usage);
        if requeues {
            self.alone.queue.push_back(&mut self.links, slot);
        }
    }

    #[inline(never)]
    fn end_turn_of(&mut self, number: u16, slot: u32, usage: &Usage, requeues: bool) {
        self.charge_to(number, usage);
        let tenant = &mut self.tenants[usize::from(number)];
        if requeues {
            self.append(number, slot);
        } else if tenant.attr.class == TenantClass::Auto && tenant.queue.is_empty() {
            tenant.classify(self.now);
        }
    }

    /// A queue pair of a tenant that is not alone is ready, behind its others.
    #[inline(never)]
    fn append(&mut self, number: u16, slot: u32) {
        let tenant = &mut self.tenants[usize::from(number)];
        tenant.queue.push_back(&mut self.links, slot);
        self.waiting += usize::from(tenant.state != State::Parked);
        if tenant.state != State::Listed {
            self.list(number);
        }
    }

    #[inline]
    fn charge_to(&mut self, number: u16, usage: &Usage) {
        let tenant = &mut self.tenants[usize::from(number)];
        if tenant.is_capped {
            tenant.gate.take(usage, &self.costs, self.now);
        }
        tenant.counters.tx_operations += u64::from(usage.operations);
        tenant.counters.tx_packets += usage.packets as u64;
        tenant.counters.tx_bytes += usage.bytes as u64;
        if usage.packets > 0 {
            tenant.credit -= usage.wire_bytes().cast_signed().max(LEAST);
        }
    }
}

impl Policy for Tenants {
    #[inline]
    fn push(&mut self, slot: u32) {
        let number = self.owners[slot as usize];
        if self.alone.is(number) {
            self.alone.queue.push_back(&mut self.links, slot);
        } else {
            self.append(number, slot);
        }
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<Scheduled> {
        self.now = now;
        if self.alone.number().is_some() {
            let slot = self.alone.queue.pop_front(&mut self.links)?;
            self.alone.sent.begin_turn();
            return Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN });
        }
        if self.waiting == 0 && self.parked_count == 0 {
            return None;
        }
        self.pop_ready()
    }

    fn peek(&self, turns: usize) -> Option<u32> {
        if self.alone.number().is_some() {
            return self.alone.queue.nth(&self.links, turns);
        }
        let (number, had) = self.rounds[FOREGROUND].peek(turns)?;
        self.tenants[usize::from(number)].queue.nth(&self.links, had)
    }

    fn charge(&mut self, slot: u32, usage: Usage) {
        let number = self.owners[slot as usize];
        if self.alone.is(number) {
            self.alone.sent.add(&usage);
        } else {
            self.charge_to(number, &usage);
        }
    }

    /// It comes first of its tenant, which is last of its class: it has not paid for the turn that
    /// was none.
    fn resume(&mut self, slot: u32) {
        let number = self.owners[slot as usize];
        if self.alone.is(number) {
            self.alone.queue.push_front(&mut self.links, slot);
            return;
        }
        let tenant = &mut self.tenants[usize::from(number)];
        tenant.queue.push_front(&mut self.links, slot);
        self.waiting += usize::from(tenant.state != State::Parked);
        self.list(number);
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.waiting + self.alone.queue.len()
    }

    /// Those of its own tenant.
    fn behind(&self, slot: Option<u32>) -> usize {
        let Some(slot) = slot else { return 0 };
        let number = self.owners[slot as usize];
        if self.alone.is(number) {
            return self.alone.queue.len();
        }
        self.tenants[usize::from(number)].queue.len()
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.owners)
            + self.links.bytes()
            + self.tenants.capacity() * size_of::<Tenant>()
            + self.rounds.iter().map(Rounds::bytes).sum::<usize>()
    }
}
