//! DPDK's log: quiet, unless somebody asks.

use std::ffi::CStr;

use crate::ffi;

const CRITICAL: u32 = 3;
const ERROR: u32 = 4;

/// The end of what DPDK logged during one call.
pub(crate) struct Caught(Vec<u8>);

impl Caught {
    pub(crate) fn new() -> Self {
        Self(vec![0; 4096])
    }

    /// Where C is to write to.
    pub(crate) fn target(&mut self) -> ffi::pmd_log {
        ffi::pmd_log { text: self.0.as_mut_ptr().cast(), size: self.0.len() }
    }

    /// What it wrote.
    pub(crate) fn text(&self) -> String {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default().to_string_lossy().trim_end().to_owned()
    }
}

/// Drivers that log an "error" for every attempt to connect to a server that is not there yet, and
/// for every peer that leaves. The port's link state says the same.
const TALKATIVE: [&CStr; 3] = [c"pmd.net.memif*", c"pmd.net.virtio*", c"lib.vhost*"];

/// Leaves the log to real errors.
pub(crate) fn quieten() {
    set_level(c"*", ERROR);
    TALKATIVE.into_iter().for_each(|pattern| set_level(pattern, CRITICAL));
}

/// Lets drivers say why they refuse a device, while `attach` runs.
pub(crate) fn with_errors<T>(attach: impl FnOnce() -> T) -> T {
    TALKATIVE.into_iter().for_each(|pattern| set_level(pattern, ERROR));
    let result = attach();
    TALKATIVE.into_iter().for_each(|pattern| set_level(pattern, CRITICAL));
    result
}

fn set_level(pattern: &CStr, level: u32) {
    // SAFETY: a terminated string. It fails only for lack of memory, and then the log is as loud as
    // before.
    unsafe { ffi::rte_log_set_level_pattern(pattern.as_ptr(), level) };
}
