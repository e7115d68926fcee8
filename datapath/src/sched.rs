//! Scheduling as SRNIC does it: event mux, schedule queue, policies, and the timers that wake queue
//! pairs.

mod attributes;
mod deficit;
mod event_mux;
mod hosts;
mod meter;
mod policy;
mod priority;
mod ring_bound;
mod schedule_queue;
mod scheduler;
mod slot_lists;
mod tenants;
mod timer_wheel;
mod weighted;

pub use attributes::{PRIORITIES, PRIORITY_MAX, SchedAttributes, WEIGHT_LIMIT};
pub use cc_dctcp::HostRateConfig;
pub use deficit::DeficitRoundRobin;
pub use event_mux::{EventMux, SchedFlags};
pub use hosts::{HostReport, HostSign, Hosts};
pub use policy::{Policy, Scheduled, Usage};
pub use priority::StrictPriority;
pub use schedule_queue::ScheduleQueue;
pub use scheduler::{Scheduler, SchedulerConfig};
pub use tenants::{
    CostTable, TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId,
    TenantQuota, Tenants,
};
pub use timer_wheel::TimerWheel;
pub use weighted::Weighted;

#[cfg(test)]
mod tests;
