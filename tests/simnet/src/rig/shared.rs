//! Shared receive queues of a rig.

use super::Rig;
use super::memory::Span;
use crate::network::NodeId;
use datapath::engine::SrqAttr;
use datapath::queue::{PostError, RecvRequest, Sge, SrqCaps};

/// A shared receive queue of a rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Srq {
    index: usize,
    node: NodeId,
    number: u32,
}

impl Srq {
    /// Its number at its engine.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }
}

impl Rig {
    /// Creates a shared receive queue in the node's protection domain.
    ///
    /// # Panics
    /// If the engine has no room for it.
    pub fn create_srq(&mut self, node: NodeId, caps: SrqCaps) -> Srq {
        let pd = self.pd(node);
        let (number, queue) =
            self.engine_mut(node).core_mut().create_srq(pd, caps).expect("a shared queue is free");
        self.srqs.push(queue);
        Srq { index: self.srqs.len() - 1, node, number }
    }

    /// Posts a receive into `to` under a number of its own.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn post_srq(&mut self, srq: Srq, wr_id: u64, to: &[Span]) -> Result<(), PostError> {
        let scatter: Vec<Sge> = to.iter().map(|span| span.sge()).collect();
        self.srqs[srq.index].post(&RecvRequest { wr_id, scatter: &scatter })
    }

    /// What it is and holds.
    ///
    /// # Panics
    /// If it was destroyed.
    #[must_use]
    pub fn srq_attr(&self, srq: Srq) -> SrqAttr {
        self.engine(srq.node).core().query_srq(srq.number).expect("the shared queue exists")
    }
}
