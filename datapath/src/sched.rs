//! Scheduling as SRNIC does it: event mux, schedule queue, round robin, and the timers that wake queue pairs.

mod event_mux;
mod schedule_queue;
mod timer_wheel;

pub use event_mux::{EventMux, SchedFlags};
pub use schedule_queue::ScheduleQueue;
pub use timer_wheel::TimerWheel;

#[cfg(test)]
mod tests;
