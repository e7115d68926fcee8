//! Both parts of a queue pair, together.

use super::context::{QpCold, Qpc};
use super::owed::Owed;
use super::{ControlKind, Units};
use sr_recovery::StreamId;

/// A queue pair: what its fast path touches, and the rest, which lies elsewhere.
pub(crate) struct Qp<'a> {
    pub hot: &'a mut Qpc,
    pub cold: &'a mut QpCold,
}

impl Qp<'_> {
    /// To be lent to a function that is not inlined: then the caller's own stays in registers.
    #[inline(always)]
    pub const fn reborrow(&mut self) -> Qp<'_> {
        Qp { hot: self.hot, cold: self.cold }
    }

    /// Says something to the sender of its requests, which goes out by itself.
    pub fn answer(&self, units: &mut Units, kind: ControlKind) {
        units.queue_control(self.cold.requests(), self.hot.id.qpn, kind);
    }

    /// An acknowledgement of its requests is owed.
    #[inline(always)]
    pub fn owe_ack(&mut self, units: &mut Units) {
        units.owe_ack(self.cold.requests(), &mut self.hot.sched);
    }

    /// What is owed to the sender of a stream; `None` if there is no such stream.
    #[inline(always)]
    pub fn owed_of(&mut self, stream: StreamId) -> Option<&mut Owed> {
        match stream.response {
            false => Some(&mut self.hot.rsp.owed),
            true => self.cold.reads.as_deref_mut().map(|reads| &mut reads.owed),
        }
    }
}
