#[cfg(not(loom))]
mod completions;
#[cfg(not(loom))]
mod doorbells;
#[cfg(loom)]
mod loom_models;
#[cfg(not(loom))]
mod oracle;
#[cfg(not(loom))]
mod recvs;
#[cfg(not(loom))]
mod sends;
mod shared_recvs;

use super::{Doorbells, QpShared};
use crate::qp_state::QpState;
use std::sync::Arc;

/// The shared block of a queue pair in `state`, and where its doorbells arrive.
fn shared_in(state: QpState) -> (Arc<QpShared>, Doorbells) {
    let doorbells = Doorbells::new(1);
    let shared = Arc::new(QpShared::new(7, doorbells.clone()));
    shared.set_state(state);
    (shared, doorbells)
}
