//! Names of numbers.

use core::ffi::{CStr, c_char, c_int};

const WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local queue pair operation error",
    c"local EE context operation error",
    c"local protection error",
    c"work request flushed",
    c"memory window bind error",
    c"bad response",
    c"local access error",
    c"remote invalid request",
    c"remote access error",
    c"remote operation error",
    c"transport retries exceeded",
    c"receiver-not-ready retries exceeded",
    c"local RDD violation",
    c"remote invalid RD request",
    c"operation aborted",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout",
    c"general error",
    c"tag matching error",
    c"tag matching rendezvous incomplete",
];

const EVENT: [&CStr; 20] = [
    c"completion queue error",
    c"queue pair fatal error",
    c"queue pair request error",
    c"queue pair access error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration failed",
    c"device fatal error",
    c"port active",
    c"port error",
    c"LID changed",
    c"P_Key table changed",
    c"subnet manager changed",
    c"shared receive queue error",
    c"shared receive queue limit reached",
    c"last work request reached",
    c"client reregistration",
    c"GID table changed",
    c"work queue fatal error",
];

const NODE: [&CStr; 8] = [
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// Programs of rdma-core's print these as they are.
const PORT: [&CStr; 6] =
    [c"PORT_NOP", c"PORT_DOWN", c"PORT_INIT", c"PORT_ARMED", c"PORT_ACTIVE", c"PORT_ACTIVE_DEFER"];

fn named(names: &[&'static CStr], number: c_int) -> &'static CStr {
    usize::try_from(number).ok().and_then(|number| names.get(number)).copied().unwrap_or(c"unknown")
}

exports! {
    fn ibv_wc_status_str(status: c_int) -> *const c_char = text { Ok(named(&WC_STATUS, status)) }
    fn ibv_event_type_str(event: c_int) -> *const c_char = text { Ok(named(&EVENT, event)) }
    fn ibv_node_type_str(node: c_int) -> *const c_char = text { Ok(named(&NODE, node)) }
    fn ibv_port_state_str(state: c_int) -> *const c_char = text { Ok(named(&PORT, state)) }
}
