//! The sources of time that the clock reads.

use std::time::Instant;

/// The system's clock, and a counter beside it.
pub(crate) trait Source {
    /// Nanoseconds by the system's clock, which never goes back.
    fn ns(&self) -> u64;
    /// Returns `true` if there is a counter.
    fn has_counter(&self) -> bool;
    /// The counter, which runs at a constant rate; anything if there is none.
    fn ticks(&self) -> u64;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    opened: Instant,
    has_counter: bool,
}

impl Machine {
    pub fn new() -> Self {
        Self { opened: Instant::now(), has_counter: tsc::is_invariant() }
    }
}

impl Source for Machine {
    fn ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn has_counter(&self) -> bool {
        self.has_counter
    }

    #[inline]
    fn ticks(&self) -> u64 {
        tsc::read()
    }
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// Returns `true` if the processor says that its time-stamp counter runs at a constant rate in
    /// every state.
    #[allow(unused_unsafe, reason = "`__cpuid` is unsafe before Rust 1.94")]
    pub fn is_invariant() -> bool {
        const EXTENDED: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { __cpuid(EXTENDED).eax >= POWER && __cpuid(POWER).edx & INVARIANT_TSC != 0 }
    }

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux allows it unless a process
        // asks otherwise.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod tsc {
    pub const fn is_invariant() -> bool {
        false
    }

    pub const fn read() -> u64 {
        0
    }
}
