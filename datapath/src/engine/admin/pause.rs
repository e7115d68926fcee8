//! Queue pairs that their program holds back.

use crate::engine::{Core, ModifyError};
use crate::qp;
use crate::sched::SchedFlags;

impl Core {
    /// Pauses a queue pair: it has no turns until [`Core::resume_qp`], RESET or ERR. Nothing that
    /// is posted to it is sent, nothing is sent again, and the peer's READs and atomics are not
    /// answered, who asks again meanwhile and gives up in the end. What comes in is taken and
    /// acknowledged.
    ///
    /// # Errors
    /// [`ModifyError::UnknownQp`].
    pub fn pause_qp(&mut self, qpn: u32) -> Result<(), ModifyError> {
        self.set_paused(qpn, true)
    }

    /// Lets a queue pair go on that was paused; without effect if it was not. Its timers begin
    /// anew.
    ///
    /// # Errors
    /// [`ModifyError::UnknownQp`].
    pub fn resume_qp(&mut self, qpn: u32) -> Result<(), ModifyError> {
        self.set_paused(qpn, false)
    }

    /// Whether a queue pair is paused; `None` if it does not exist.
    #[must_use]
    pub fn is_paused(&self, qpn: u32) -> Option<bool> {
        let (hot, _) = self.qps.peek(self.qps.find(qpn)?)?;
        Some(hot.sched.contains(SchedFlags::PAUSED))
    }

    fn set_paused(&mut self, qpn: u32, paused: bool) -> Result<(), ModifyError> {
        let slot = self.qps.find(qpn).ok_or(ModifyError::UnknownQp(qpn))?;
        let mut qp = self.qps.get(slot).ok_or(ModifyError::UnknownQp(qpn))?;
        if qp.hot.sched.contains(SchedFlags::PAUSED) == paused {
            return Ok(());
        }
        qp::set_paused(&mut qp, &mut self.units, paused);
        if !paused {
            qp::restart_timers(&mut qp, &mut self.units);
        }
        Ok(())
    }
}
