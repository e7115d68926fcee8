//! Messages of one packet each that come one after the other, in order: what is the same of all is looked at once.
//!
//! A packet that is not like the one before is left to [`on_request`](super::on_request): nothing of it has had an effect, but that
//! bytes of a SEND that came damaged may lie in the receive that it will come to again.

use crate::engine::{Completions, Units};
use crate::icrc::Kernel;
use crate::memory::{Access, Mapped, MemoryTable};
use crate::port::RX_BURST;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::receives::{OwnRun, ReceiveRun, Receives};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::sched::SchedFlags;
use wire::{Body, CommonFrame, Meta, Msn, Position, Psn, Ssnw};

/// Takes the packets behind `first`, which had the expected PSN when it was handled just now, as long as nothing about them is new:
/// `frames` by number, from 0. Returns how many.
#[inline(always)]
pub(crate) fn take_followers<'a>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) -> usize {
    // ePSN has moved behind it only if it was taken, and so every check was made of it.
    let as_usual = first.position() == Position::Only
        && qpc.rx.epsn() == first.psn().next()
        && qpc.rsp.in_progress.is_none()
        && qpc.id.state.is_established()
        && !qpc.rx.in_recovery()
        && cold.refusal.is_none();
    if !as_usual {
        return 0;
    }
    match (first.body(), &cold.receives) {
        (Some(Body::Write { .. }), _) => take_writes(qpc, units, first, frames),
        (Some(Body::Send { .. }), Receives::Own(_)) => take_sends(qpc, cold, units, first, frames),
        (Some(Body::Send { .. }), Receives::Shared(_)) => take_shared_sends(qpc, cold, units, *first, frames),
        _ => 0,
    }
}

/// The last check before a packet has an effect.
#[inline(always)]
fn is_whole(frame: &CommonFrame<'_>) -> bool {
    Kernel::detected().verify(frame.from_l3())
}

/// The same of a SEND, which is placed then: in one pass, as where it goes is not its own to say, unless the queue pair forbids it,
/// or another's message may come to that receive (docs/adr/0024).
#[inline(always)]
fn place<R: ReceiveRun>(qpc: &Qpc, frame: &CommonFrame<'_>, payload: &[u8], to: Mapped<'_>) -> bool {
    if R::KEEPS_ITS_PLACE && !qpc.sched.contains(SchedFlags::STRICT_PLACEMENT) {
        return to.write_verified(Kernel::detected(), frame.from_l3(), payload);
    }
    let is_whole = is_whole(frame);
    if is_whole {
        to.write(payload);
    }
    is_whole
}

/// What was taken so far.
struct Run<'a, 'r> {
    first: &'r CommonFrame<'a>,
    /// PSN and MSN of the packet that comes next.
    next: Psn,
    msn: Msn,
    /// One asked for an acknowledgement.
    asked: bool,
    count: u8,
}

const _: () = assert!(RX_BURST <= u8::MAX as usize, "a run is not longer than a burst");

impl<'a, 'r> Run<'a, 'r> {
    /// Nothing yet behind `first`, which was taken.
    #[inline(always)]
    const fn behind(first: &'r CommonFrame<'a>, qpc: &Qpc) -> Self {
        Run { first, next: qpc.rx.epsn(), msn: qpc.rsp.msn(), asked: false, count: 0 }
    }

    /// A frame taken apart, if it is the next packet in order; its ICRC is not checked yet.
    #[inline(always)]
    fn recognize(&self, frame: &'a [u8]) -> Option<(CommonFrame<'a>, Body<'a>)> {
        let frame = self.first.followed_by(frame).filter(|frame| frame.psn() == self.next)?;
        Some((frame, frame.body()?))
    }

    /// META of the packet that comes next.
    #[inline(always)]
    const fn meta(&self) -> Meta {
        Meta { msn: self.msn, offset: 0 }
    }

    /// It was taken.
    #[inline(always)]
    fn advance(&mut self, frame: &CommonFrame<'_>) {
        self.next = self.next.next();
        self.msn = self.msn.next();
        self.asked |= frame.ack_req();
        self.count += 1;
    }

    /// What all of them change of the queue pair. Returns how many they are.
    #[inline(always)]
    fn settle(&self, qpc: &mut Qpc, units: &mut Units) -> usize {
        if self.count == 0 {
            return 0;
        }
        let packets = u32::from(self.count);
        let last = Meta { msn: self.msn.sub(1), offset: 0 };
        qpc.rx.advance(packets);
        qpc.rsp.completed = (qpc.rsp.completed + packets) & 0xFF_FFFF;
        qpc.rsp.message_psn = self.next;
        qpc.rsp.owed.note_more(self.count, &mut units.counters, last, self.asked);
        units.counters.rx_packets += u64::from(packets);
        units.counters.rx_in_order += u64::from(packets);
        self.count.into()
    }
}

#[inline(always)]
fn take_writes<'a>(
    qpc: &mut Qpc,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) -> usize {
    let mut run = Run::behind(first, qpc);
    let peer = qpc.id.peer();
    while let Some(frame) = frames(run.count.into()) {
        let Some((frame, Body::Write { reth, meta, payload })) = run.recognize(frame) else { break };
        if meta != run.meta() || reth.dma_len as usize != payload.len() {
            break;
        }
        let wanted = Access::REMOTE_WRITE;
        let mapped = units.memory.check_remote(reth.rkey, peer, reth.va, reth.dma_len.into(), wanted);
        let Ok(mapped) = mapped else { break };
        if !is_whole(&frame) {
            break;
        }
        mapped.write(payload);
        run.advance(&frame);
    }
    run.settle(qpc, units)
}

#[inline(always)]
fn take_sends<'a>(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) -> usize {
    let Receives::Own(queue) = &cold.receives else { return 0 };
    let mut run = Run::behind(first, qpc);
    let (memory, completions, _) = units.for_receiving(cold.recv_cq);
    let receives = OwnRun::new(queue, qpc.rsp.recv_head, qpc.id.pd);
    fill(qpc, memory, completions, receives, &mut run, frames);
    qpc.rsp.recv_head = qpc.rsp.recv_head.wrapping_add(run.count.into());
    run.settle(qpc, units)
}

#[inline(never)]
fn take_shared_sends<'a>(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    first: CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) -> usize {
    let Receives::Shared(taken) = &cold.receives else { return 0 };
    let mut run = Run::behind(&first, qpc);
    let (memory, completions, srqs) = units.for_receiving(cold.recv_cq);
    let mut is_below_limit = false;
    let Some(receives) = taken.run(srqs, &mut is_below_limit) else { return 0 };
    fill(qpc, memory, completions, receives, &mut run, frames);
    if is_below_limit {
        units.events.push(taken.limit_event());
    }
    run.settle(qpc, units)
}

/// As long as each receive has one element.
#[inline(always)]
fn fill<'a, R: ReceiveRun>(
    qpc: &mut Qpc,
    memory: &MemoryTable,
    mut completions: Completions<'_>,
    mut receives: R,
    run: &mut Run<'a, '_>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) {
    let mut flags = WcFlags::empty();
    flags.set(WcFlags::SOLICITED, run.first.solicited());
    let mut ssn = qpc.rsp.ssn;
    while let Some(frame) = frames(run.count.into()) {
        let Some(wqe) = receives.next().filter(|_| completions.has_room()) else { break };
        let Some((frame, Body::Send { meta, ssnw, payload })) = run.recognize(frame) else { break };
        if meta != run.meta() || ssnw != (Ssnw { offset_hi: 0, ssn }) {
            break;
        }
        let (wr_id, len) = (wqe.wr_id, payload.len() as u64);
        let Some(sge) = wqe.only_sge().filter(|_| len <= wqe.length.into()) else { break };
        let mapped = memory.check(sge.lkey, receives.pd(), sge.addr, len, Access::LOCAL_WRITE);
        if !mapped.is_ok_and(|mapped| place::<R>(qpc, &frame, payload, mapped)) {
            break;
        }
        let written = completions.write(&Completion {
            wr_id,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            flags,
            #[expect(clippy::cast_possible_truncation, reason = "a packet's")]
            byte_len: len as u32,
            imm: 0,
            qpn: qpc.id.qpn,
            src_qp: 0,
        });
        debug_assert!(written, "there was room");
        receives.pass();
        run.advance(&frame);
        ssn = ssn.next();
    }
    if run.count > 0 {
        completions.show(receives.release());
    }
    qpc.rsp.ssn = ssn;
}
