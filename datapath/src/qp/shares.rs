//! What tenants have of what repairs losses: recovery contexts, and the slow path's records. One
//! whose packets are always out of order leaves the others some.

use crate::sched::{TENANTS_MAX, TenantId};
use std::collections::VecDeque;

/// What tenants hold at the moment.
pub(crate) struct Shares {
    /// Recovery contexts of requests, and of responses, by tenant.
    contexts: [Box<[u32]>; 2],
    /// Records that wait, by tenant.
    records: Box<[u32]>,
    /// Whose they are, the oldest first.
    owners: VecDeque<u16>,
}

/// A tenant may have as many as are left to others: one alone has half of all at most, `n` that
/// want more than there are have one in `n + 1` each, and who has none may take the last one.
const fn may_have(more: u32, held: u32, free: u32) -> bool {
    held + more <= free || (held == 0 && more <= free)
}

impl Shares {
    /// The default tenant alone, with so many contexts of requests, and of responses. At most
    /// `records` wait.
    pub fn new(held: [u32; 2], records: usize) -> Self {
        let none = || vec![0; TENANTS_MAX].into_boxed_slice();
        let contexts = held.map(|held| {
            let mut by_tenant = none();
            by_tenant[0] = held;
            by_tenant
        });
        Self { contexts, records: none(), owners: VecDeque::with_capacity(records) }
    }

    /// Whether a tenant may have one more context, of which so many are free.
    pub fn may_take_context(&self, tenant: TenantId, response: bool, free: u32) -> bool {
        may_have(1, self.contexts[usize::from(response)][usize::from(tenant.0)], free)
    }

    /// It has one more.
    pub fn take_context(&mut self, tenant: TenantId, response: bool) {
        self.contexts[usize::from(response)][usize::from(tenant.0)] += 1;
    }

    /// It has one less.
    pub fn give_back_context(&mut self, tenant: TenantId, response: bool) {
        let held = &mut self.contexts[usize::from(response)][usize::from(tenant.0)];
        *held = held.saturating_sub(1);
    }

    /// Whether a tenant may write so many records, of which `waiting` wait and `free` more find
    /// room.
    pub fn may_write(&mut self, tenant: TenantId, count: u32, waiting: usize, free: u32) -> bool {
        while self.owners.len() > waiting
            && let Some(owner) = self.owners.pop_front()
        {
            self.records[usize::from(owner)] -= 1;
        }
        may_have(count, self.records[usize::from(tenant.0)], free)
    }

    /// It wrote one.
    pub fn note_record(&mut self, tenant: TenantId) {
        if self.owners.len() < self.owners.capacity() {
            self.owners.push_back(tenant.0);
            self.records[usize::from(tenant.0)] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_has_half_at_most_and_who_has_none_finds_one() {
        for contexts in 1..100_u32 {
            let mut shares = Shares::new([0; 2], 16);
            let mut free = contexts;
            let mut take = |shares: &mut Shares, tenant| {
                let may = shares.may_take_context(tenant, false, free);
                if may {
                    shares.take_context(tenant, false);
                    free -= 1;
                }
                may
            };
            let storm = (0..contexts).filter(|_| take(&mut shares, TenantId(1))).count();
            assert!(storm <= contexts.div_ceil(2) as usize && storm >= 1, "{storm} of {contexts}");
            let other = (0..contexts).filter(|_| take(&mut shares, TenantId(2))).count();
            assert_eq!(other > 0, contexts > 1, "{other} of {contexts} beside {storm}");
        }
    }

    #[test]
    fn records_count_until_the_slow_path_has_taken_them() {
        let mut shares = Shares::new([0; 2], 64);
        let (storm, other) = (TenantId(3), TenantId(4));
        let free = |waiting: usize| u32::try_from(64 - waiting).expect("few");
        let mut waiting = 0;
        while shares.may_write(storm, 1, waiting, free(waiting)) {
            shares.note_record(storm);
            waiting += 1;
        }
        assert_eq!(waiting, 32);
        assert!(shares.may_write(other, 2, waiting, free(waiting)));
        shares.note_record(other);
        assert!(shares.may_write(storm, 1, 20, 44), "thirteen of its own were taken");
    }
}
