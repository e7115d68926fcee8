//! Messages of one packet each that come one after the other, in order: what is the same of all is looked at once.
//!
//! A packet that is not like the one before is left to [`on_request`](super::on_request): nothing of it has had an effect.

use crate::engine::{Completions, Units};
use crate::icrc::Kernel;
use crate::memory::{Access, Mapped, MemoryTable};
use crate::port::RX_BURST;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::receives::{OwnRun, ReceiveRun, Receives, Taken};
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
    let mut run = Run { first, next: qpc.rx.epsn(), msn: qpc.rsp.msn(), asked: false, count: 0 };
    match first.body() {
        Some(Body::Send { .. }) => take_sends(qpc, cold, units, &mut run, frames),
        Some(Body::Write { .. }) => take_writes(qpc, units, &mut run, frames),
        _ => return 0,
    }
    run.settle(qpc, units);
    usize::from(run.count)
}

/// The last check before a packet has an effect.
#[inline(always)]
fn is_whole(frame: &CommonFrame<'_>) -> bool {
    Kernel::detected().verify(frame.from_l3())
}

/// The same of a SEND, which is placed then. Where it goes is not its own to say, so that both are done in one pass unless the queue
/// pair forbids it (docs/adr/0024).
#[inline(always)]
fn place(qpc: &Qpc, frame: &CommonFrame<'_>, payload: &[u8], to: Mapped<'_>) -> bool {
    if !qpc.sched.contains(SchedFlags::STRICT_PLACEMENT) {
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

impl<'a> Run<'a, '_> {
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

    /// What all of them change of the queue pair.
    #[inline(always)]
    fn settle(&self, qpc: &mut Qpc, units: &mut Units) {
        if self.count == 0 {
            return;
        }
        let packets = u32::from(self.count);
        let last = Meta { msn: self.msn.sub(1), offset: 0 };
        qpc.rx.advance(packets);
        qpc.rsp.completed = (qpc.rsp.completed + packets) & 0xFF_FFFF;
        qpc.rsp.message_psn = self.next;
        qpc.rsp.owed.note_more(self.count, &mut units.counters, last, self.asked);
        units.counters.rx_packets += u64::from(packets);
        units.counters.rx_in_order += u64::from(packets);
    }
}

#[inline(always)]
fn take_writes<'a>(
    qpc: &Qpc,
    units: &Units,
    run: &mut Run<'a, '_>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) {
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
}

#[inline(always)]
fn take_sends<'a>(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    run: &mut Run<'a, '_>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) {
    match &cold.receives {
        Receives::Own(queue) => {
            let (memory, completions, _) = units.to_receive(cold.recv_cq);
            let receives = OwnRun::new(queue, qpc.rsp.recv_head, qpc.id.pd);
            fill(qpc, memory, completions, receives, run, frames);
            qpc.rsp.recv_head = qpc.rsp.recv_head.wrapping_add(run.count.into());
        }
        Receives::Shared(taken) => take_shared_sends(qpc, cold, units, taken, run, frames),
    }
}

#[inline(never)]
fn take_shared_sends<'a>(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    taken: &Taken,
    run: &mut Run<'a, '_>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) {
    let (memory, completions, srqs) = units.to_receive(cold.recv_cq);
    let Some(receives) = taken.run(srqs) else { return };
    fill(qpc, memory, completions, receives, run, frames);
    taken.note_limit(units);
}

/// As long as each receive has one element.
#[inline(always)]
fn fill<'a>(
    qpc: &mut Qpc,
    memory: &MemoryTable,
    mut completions: Completions<'_>,
    mut receives: impl ReceiveRun,
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
        if !mapped.is_ok_and(|mapped| place(qpc, &frame, payload, mapped)) {
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
