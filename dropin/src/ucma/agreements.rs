//! What the ends of connections have agreed on, until their queue pairs are connected: a program
//! modifies those itself, and verbs have no attribute for a dialect.

use crate::opened::TAKES_1408;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use verbs_api::WireMode;
use verbs_api::raw::{Agreed, Options};

/// By the identifier: the addresses of this end and its peer, and what was agreed on.
static AGREEMENTS: Mutex<BTreeMap<u32, ([IpAddr; 2], Agreed)>> = Mutex::new(BTreeMap::new());

fn agreements() -> MutexGuard<'static, BTreeMap<u32, ([IpAddr; 2], Agreed)>> {
    AGREEMENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn note(handle: u32, ends: [IpAddr; 2], agreed: Agreed) {
    agreements().insert(handle, (ends, agreed));
}

pub fn forget(handle: u32) {
    agreements().remove(&handle);
}

/// What was agreed on for a connection from the first address with a queue pair of the second's:
/// options of the SRNIC dialect, or plain.
pub fn with(ends: [IpAddr; 2], remote_qpn: u32) -> Option<Option<Options>> {
    let all = agreements();
    let mut fitting = all.values().filter(|(of, agreed)| *of == ends && agreed.remote_qpn == remote_qpn);
    fitting.next().map(|(_, agreed)| options(agreed))
}

/// The options of the SRNIC dialect that both ends take.
pub fn options(agreed: &Agreed) -> Option<Options> {
    let (window, strict_placement) = (agreed.window?, agreed.strict_placement);
    (agreed.wire_mode == WireMode::Srnic).then_some(Options {
        window,
        strict_placement,
        path_mtu: agreed.path_mtu,
        takes_1408: TAKES_1408,
    })
}
