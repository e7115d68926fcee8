//! Both parts of a queue pair, together.

use super::context::{QpCold, Qpc};

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
}
