//! What each completion must say, and what must stand in memory by then.

use super::flow::{Flow, Withdrawn};
use super::message::{Defect, Kind};
use datapath::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use simnet::Rig;

impl Flow {
    /// Checks a completion of the sender.
    ///
    /// # Panics
    /// If it is wrong, out of order, one too many, or came before its data.
    pub fn check_send(&mut self, rig: &mut Rig, done: &Completion) {
        let index = self.index_of(done, self.posted);
        if self.send_failed {
            assert!(
                index == self.sent || (self.gaps && index > self.sent),
                "one flush after the other: {}",
                self.describe(index, done)
            );
            assert_eq!(done.status, WcStatus::WrFlushErr, "{}", self.describe(index, done));
            self.sent = index + 1;
            return;
        }
        assert!(index >= self.sent, "sends complete in order, once: {}", self.describe(index, done));
        let skipped = (self.sent..index).find(|&skipped| self.messages[skipped].signaled);
        assert!(self.gaps || skipped.is_none(), "no completion is left out: {}", self.describe(index, done));
        let before = self.sent;
        self.sent = index + 1;
        if done.status == WcStatus::Success {
            self.check_send_success(index, done);
            self.arrive(rig, index + 1);
            (before..=index).for_each(|index| self.check_result(rig, index));
            (before..=index).for_each(|index| self.spend(rig, index));
            self.succeeded = index + 1;
            return;
        }
        self.send_failed = true;
        // If completions are missing this one may not be the first that failed.
        if !self.gaps {
            self.arrive(rig, index);
            (before..index).for_each(|index| self.check_result(rig, index));
        }
        assert!(self.may_fail_as(index, done.status), "{}", self.describe(index, done));
    }

    /// Checks a completion of the receiver.
    ///
    /// # Panics
    /// As [`Flow::check_send`].
    pub fn check_receive(&mut self, rig: &mut Rig, done: &Completion) {
        let rest = self.receives.get(self.received..).unwrap_or_default();
        let index = match rest.first() {
            Some(&next) if self.stocked => next,
            _ => self.index_of(done, self.messages.len()),
        };
        assert!(self.received < self.receives_posted, "posted before: {}", self.describe(index, done));
        let place = rest.iter().position(|receive| *receive == index);
        let in_order = place.is_some_and(|place| place == 0 || self.gaps);
        assert!(in_order, "receives complete in order: {}", self.describe(index, done));
        self.received += place.unwrap_or(0) + 1;
        if self.receive_failed {
            assert_eq!(done.status, WcStatus::WrFlushErr, "{}", self.describe(index, done));
            return;
        }
        if done.status != WcStatus::Success {
            self.receive_failed = true;
            assert!(self.receive_may_fail_as(index, done.status), "{}", self.describe(index, done));
            return;
        }
        assert!(index < self.posted, "nobody sent it: {}", self.describe(index, done));
        let message = &self.messages[index];
        let opcode = if message.kind == Kind::Write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
        let with_imm = done.flags.contains(WcFlags::WITH_IMM);
        let good = done.opcode == opcode
            && done.byte_len as usize == message.len
            && with_imm == message.imm
            && (!with_imm || done.imm == self.imm_of(index))
            && self.ends_window(rig, message, done)
            && done.flags.contains(WcFlags::SOLICITED) == message.solicited
            && done.qpn == rig.qpn(self.to);
        assert!(good, "{}", self.describe(index, done));
        self.arrive(rig, index + 1);
    }

    /// All messages before `end` were executed: their bytes must be there. The application consumes
    /// them.
    ///
    /// # Panics
    /// If they are not there, or one of them cannot have been executed.
    pub fn arrive(&mut self, rig: &mut Rig, end: usize) {
        for index in self.arrived..end {
            let message = &self.messages[index];
            let fails_later = message.kind.has_response() && message.defect == Some(Defect::LocalKey);
            assert!(message.defect.is_none() || fails_later, "message {index} must fail, and did not");
            self.check_fence(rig, index);
            if message.group.is_none() && !message.kind.has_response() {
                assert!(self.holds(rig, index), "message {index} has not arrived whole: {message:?}");
                self.consume(rig, index);
            }
        }
        self.arrived = self.arrived.max(end);
        self.check_words(rig, false);
        self.watch_groups(rig);
    }

    /// Small WRITEs to one address: values never go back, none that was executed is missing, and
    /// whoever sees one may rely on everything sent before it.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn watch_groups(&mut self, rig: &Rig) {
        for number in 0..self.groups.len() {
            let group = &self.groups[number];
            let (first, last) = (group.members[0].0, group.members[group.members.len() - 1].0);
            let final_value = group.seen == Some(group.members.len() - 1);
            if self.posted <= first || (final_value && self.arrived > last) {
                continue;
            }
            let Some(seen) = self.visible(rig, number) else { continue };
            let group = &self.groups[number];
            let due = group.members.iter().rposition(|(index, _)| *index < self.arrived);
            assert!(seen >= due, "group {number}: member {due:?} was executed, {seen:?} is seen");
            assert!(seen >= group.seen, "group {number}: {seen:?} came after {:?}", group.seen);
            if seen > group.seen
                && let Some(member) = seen
            {
                if self.groups[number].in_turn {
                    self.check_before(rig, self.groups[number].members[member].0);
                }
                self.groups[number].seen = seen;
            }
        }
    }

    /// The member of a group that stands in memory, if any does; no answer if a packet of one came
    /// damaged.
    ///
    /// # Panics
    /// If what stands there can be neither.
    pub fn visible(&self, rig: &Rig, number: usize) -> Option<Option<usize>> {
        let group = &self.groups[number];
        let bytes = rig.bytes(self.target_span(group.piece));
        let member = group.members.iter().rposition(|(_, value)| *value == bytes);
        let blank = bytes.iter().all(|byte| *byte == 0);
        if member.is_some() || blank {
            return Some(member);
        }
        let damaged = group.members.iter().any(|(index, value)| {
            self.damaged_packet(*index, group.at).is_some() && bits_off(&bytes, value) <= BITS_OFF_MAX
        });
        assert!(damaged, "group {number} holds bytes that nobody wrote: {bytes:02x?}");
        None
    }

    fn check_before(&self, rig: &Rig, end: usize) {
        for index in self.arrived..end {
            let message = &self.messages[index];
            let whole = message.group.is_some() || message.kind.has_response() || self.holds(rig, index);
            assert!(whole, "message {index} is not whole, and WRITE {end} behind it is visible: {message:?}");
        }
        self.check_fence(rig, end);
    }

    fn index_of(&self, done: &Completion, end: usize) -> usize {
        let index = usize::try_from(done.wr_id.wrapping_sub(self.tag)).unwrap_or(usize::MAX);
        assert!(index < end, "{done:?} is of this life and was posted: tag {:#x}", self.tag);
        index
    }

    fn check_send_success(&self, index: usize, done: &Completion) {
        let message = &self.messages[index];
        let opcode = match message.kind {
            Kind::Send => WcOpcode::Send,
            Kind::Write => WcOpcode::RdmaWrite,
            Kind::Read(_) => WcOpcode::RdmaRead,
            Kind::FetchAdd(_) => WcOpcode::FetchAdd,
            Kind::CompareSwap(..) => WcOpcode::CompSwap,
            Kind::Bind => WcOpcode::BindMw,
            Kind::Unbind => WcOpcode::LocalInv,
        };
        let good = message.signaled
            && message.defect.is_none()
            && done.opcode == opcode
            && done.byte_len as usize == message.len;
        assert!(good, "{}", self.describe(index, done));
    }

    /// Returns `true` if message `index` may be the first to fail, with that status.
    fn may_fail_as(&self, index: usize, status: WcStatus) -> bool {
        if self.messages[index].defect.is_some_and(|defect| sender_status(defect) == status) {
            return true;
        }
        if self.withdrawn_status(index) == Some(status) {
            return true;
        }
        let by_retries = matches!(status, WcStatus::RetryExcErr)
            || (self.danger.lethal && status == WcStatus::RnrRetryExcErr);
        if self.refused_once && self.defect().is_some() && status == WcStatus::RetryExcErr {
            return true;
        }
        // The peer had no room for the completion of a receive.
        let by_overrun = self.gaps && status == WcStatus::RemOpErr;
        self.danger.elsewhere && (by_retries || by_overrun || status == WcStatus::WrFlushErr)
    }

    /// How message `index` fails at the sender if it does because a region is gone.
    fn withdrawn_status(&self, index: usize) -> Option<WcStatus> {
        let kind = self.messages[index].kind;
        match self.withdrawn {
            Some(Withdrawn::Source(_)) => Some(WcStatus::LocProtErr),
            Some(Withdrawn::Target(_)) if kind == Kind::Send => Some(WcStatus::RemOpErr),
            Some(Withdrawn::Target(_)) => Some(WcStatus::RemAccessErr),
            Some(Withdrawn::Window(_)) | None => {
                (self.window_ends() && kind != Kind::Send).then_some(WcStatus::RemAccessErr)
            }
        }
    }

    fn receive_may_fail_as(&self, index: usize, status: WcStatus) -> bool {
        let own = match self.messages[index].defect {
            Some(Defect::ShortReceive) => Some(WcStatus::LocLenErr),
            Some(Defect::ReceiveKey) => Some(WcStatus::LocProtErr),
            Some(Defect::RemoteKey | Defect::RemoteRange) => Some(WcStatus::LocAccessErr),
            None if self.window_ends() => {
                (self.messages[index].kind == Kind::Write).then_some(WcStatus::LocAccessErr)
            }
            None if matches!(self.withdrawn, Some(Withdrawn::Target(_))) => {
                let is_write = self.messages[index].kind == Kind::Write;
                Some(if is_write { WcStatus::LocAccessErr } else { WcStatus::LocProtErr })
            }
            Some(Defect::LocalKey | Defect::Crooked) | None => None,
        };
        if own == Some(status) {
            return true;
        }
        let somewhere = self.danger.elsewhere || self.defect().is_some_and(|(at, _)| at <= index);
        somewhere && status == WcStatus::WrFlushErr
    }
}

const fn sender_status(defect: Defect) -> WcStatus {
    match defect {
        Defect::RemoteKey | Defect::RemoteRange => WcStatus::RemAccessErr,
        Defect::LocalKey => WcStatus::LocProtErr,
        Defect::ShortReceive | Defect::Crooked => WcStatus::RemInvReqErr,
        Defect::ReceiveKey => WcStatus::RemOpErr,
    }
}

/// Bits that the network turns in a frame at most.
pub const BITS_OFF_MAX: u32 = 3;

/// Bits in which two runs of bytes differ.
fn bits_off(some: &[u8], others: &[u8]) -> u32 {
    some.iter().zip(others).map(|(some, other)| (some ^ other).count_ones()).sum()
}
