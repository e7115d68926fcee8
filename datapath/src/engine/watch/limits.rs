//! How long each queue pair has been held back by what.

use crate::engine::QpLimit;
use crate::engine::admin::limit_of;
use crate::qp::{QpTable, Units};
use crate::time::Time;

/// Queue pairs that are looked at each time.
const LOOKS: usize = 4;
/// Nanoseconds from one time to the next, at least.
const PAUSE_NS: u64 = 8_000;
/// Looks after which the queue pairs that there are are counted again.
const ROUNDS: u32 = 1024;
/// The limits of [`QpLimit`], and a port without room.
const COUNT: usize = QpLimit::ALL.len() + 1;

/// Nanoseconds that a queue pair was held back by each limit. Four queue pairs are looked at each
/// 8 us, one after the other, and what is found holds until the next look at the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitTimes([u64; COUNT]);

impl LimitTimes {
    /// Each limit by its name, with its nanoseconds. [`QpLimit::Turn`] is told apart from
    /// `port full`.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let names = QpLimit::ALL.iter().map(ToString::to_string).chain([PORT_FULL.to_owned()]);
        names.zip(self.0)
    }
}

/// The limit of a queue pair that waits for its turn while the port has no room.
const PORT_FULL: &str = "port full";

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// 0: none was looked at in this slot.
    qpn: u32,
    at: Time,
    limit: usize,
    times: LimitTimes,
}

impl Account {
    fn until(&self, now: Time) -> LimitTimes {
        let mut times = self.times;
        times.0[self.limit] += now.since(self.at);
        times
    }
}

/// The accounts of all queue pairs, by slot.
pub(super) struct Limits {
    accounts: Vec<Account>,
    /// Slots in use, as they were counted last.
    slots: Vec<u32>,
    next: usize,
    looks_left: u32,
    due: Time,
}

impl Limits {
    pub fn new(max_qps: usize) -> Self {
        Self {
            accounts: vec![Account::default(); max_qps],
            slots: Vec::with_capacity(max_qps),
            next: 0,
            looks_left: 0,
            due: Time::ZERO,
        }
    }

    /// Whether it is time for the next look.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// Looks at the next queue pairs.
    pub fn look(&mut self, qps: &QpTable, units: &Units, port_full: bool) {
        self.due = units.now.after(PAUSE_NS);
        if self.looks_left == 0 || self.slots.len() != qps.len() {
            self.looks_left = ROUNDS;
            self.slots.clear();
            self.slots.extend(qps.slots());
        }
        self.looks_left -= 1;
        for _ in 0..LOOKS.min(self.slots.len()) {
            self.next = if self.next + 1 < self.slots.len() { self.next + 1 } else { 0 };
            self.look_at(self.slots[self.next], qps, units, port_full);
        }
    }

    fn look_at(&mut self, slot: u32, qps: &QpTable, units: &Units, port_full: bool) {
        let now = units.now;
        let (Some((qpc, cold)), Some(account)) = (qps.peek(slot), self.accounts.get_mut(slot as usize))
        else {
            return;
        };
        if account.qpn != qpc.id.qpn {
            *account = Account { qpn: qpc.id.qpn, at: now, ..Account::default() };
        }
        account.times = account.until(now);
        account.at = now;
        account.limit = match limit_of((qpc, cold), &units.mux, now) {
            QpLimit::Turn if port_full => QpLimit::ALL.len(),
            limit => limit as usize,
        };
    }

    /// Those of a queue pair until `now`; `None` if nobody has looked at it.
    pub fn of(&self, slot: u32, qpn: u32, now: Time) -> Option<LimitTimes> {
        let account = self.accounts.get(slot as usize).filter(|account| account.qpn == qpn)?;
        Some(account.until(now))
    }
}
