//! Packets in order that go on as what came before them: one loop takes them, as long as nothing
//! about them is new. What a packet must be is known before it is looked at, and mostly where its
//! payload goes, too.
//!
//! A packet that is something else is left to [`on_request`](super::on_request): nothing of it has
//! had an effect, but that bytes of one that came damaged may lie in a message that is not
//! complete, where its own will lie once it was sent again (docs/adr/0024).

use super::settle::settle;
use crate::memory::{Mapped, MemoryTable};
use crate::port::RX_BURST;
use crate::qp::owed::Arrived;
use crate::qp::receives::{OwnRun, ReceiveRun, Receives};
use crate::qp::responder::{
    EndOfMessage, InOrder, behind, fits_message, fits_packet, in_region, permits_writes,
};
use crate::qp::scatter::in_element;
use crate::qp::{Completions, Qp, QpFlags, Qpc, Units};
use crate::stream::SlotKind;
use icrc::Kernel;
use wire::{Body, CommonFrame, Continuation, Ecn, Kind, Meta, Msn, Position, Psn, Reth, RxFrame, Ssn, Ssnw};

const _: () = assert!(RX_BURST <= u8::MAX as usize, "a run is not longer than a burst");

/// Where the packets of a run go.
trait Target {
    /// Where the payload of the packet with that PSN goes, which comes next; `None` if this is not
    /// that packet, or cannot go there.
    fn place<'a>(&mut self, frame: &CommonFrame<'a>, next: Psn) -> Option<(Mapped<'_>, &'a [u8])>;

    /// It is in place, with so many bytes.
    fn pass(&mut self, len: usize);
}

/// What was taken.
struct Run {
    /// PSN of the packet that comes next.
    next: Psn,
    packets: u8,
    /// One asked for an acknowledgement.
    asked: bool,
    /// All are marked by a switch.
    ce: bool,
    /// The next packet came, damaged: it ended the run.
    damaged: bool,
}

/// Takes `frame`, which may have been `verified`, and `frames` behind it, by number from 0, as long
/// as they go on. Payload lies in its place before it is verified, if it may so `early`.
#[inline(always)]
fn extend<'a>(
    target: &mut impl Target,
    early: bool,
    mut frame: CommonFrame<'a>,
    mut verified: bool,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> Run {
    let ce = frame.ecn() == Ecn::Ce;
    let mut run = Run { next: frame.psn(), packets: 0, asked: false, ce, damaged: false };
    while let Some((place, payload)) = target.place(&frame, run.next) {
        if !write(place, &frame, payload, verified, early) {
            run.damaged = true;
            break;
        }
        target.pass(payload.len());
        run.asked |= frame.ack_req();
        run.next = run.next.next();
        run.packets += 1;
        verified = false;
        let next = frames(usize::from(run.packets) - 1).and_then(|next| frame.followed_by(next));
        let Some(next) = next else { break };
        frame = next;
    }
    run
}

/// Writes the payload, if the packet is whole.
#[inline(always)]
fn write(place: Mapped<'_>, frame: &CommonFrame<'_>, payload: &[u8], verified: bool, early: bool) -> bool {
    if early && !verified {
        return place.write_verified(Kernel::detected(), frame.from_l3(), payload);
    }
    let is_whole = verified || Kernel::detected().verify(frame.from_l3());
    if is_whole {
        place.write(payload);
    }
    is_whole
}

/// What a run changes of its queue pair; `last` is META of its last packet. Returns how many frames
/// it took, the damaged one included.
#[inline(always)]
fn end(qp: &mut Qp<'_>, units: &mut Units, run: &Run, last: Meta, taken: InOrder) -> usize {
    units.counters.drop_icrc += u64::from(run.damaged);
    let frames = usize::from(run.packets) + usize::from(run.damaged);
    // The first was counted.
    units.counters.rx_packets += frames.saturating_sub(1) as u64;
    if run.packets > 0 {
        let arrived = Arrived { packets: run.packets, meta: last, ack_req: run.asked, ce: run.ce };
        qp.hot.rsp.owed.note_arrival(units.drained_at, &mut units.counters, &arrived);
        qp.cold.heard_at = units.now;
        settle(qp, units, taken);
    }
    frames
}

/// The packet that comes next, if a WRITE goes on as it came so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextWrite {
    psn: Psn,
    reth: Reth,
}

impl NextWrite {
    /// Behind the packet `psn` with `reth` and a payload of `pmtu` bytes.
    #[inline]
    pub fn after(psn: Psn, reth: Reth, pmtu: u16) -> Self {
        Self { psn: psn.next(), reth: behind(reth, pmtu.into()) }
    }
}

/// Takes `first`, a MIDDLE whose ICRC was not checked, and those behind it: how many, a damaged one
/// included. 0 if it is not the one that must come next, or may not be placed before it is
/// verified.
#[inline(never)]
pub(super) fn take_middles<'a>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> usize {
    let Some(mut rest) = Remainder::of(qp, units) else { return 0 };
    let run = extend(&mut rest, true, *first, false, frames);
    let (last, kind, reth) = (Meta::of(rest.msn, rest.index.wrapping_sub(1)), rest.kind(), rest.reth);
    if run.packets > 0 {
        qp.cold.next_write = (kind == SlotKind::Write).then_some(NextWrite { psn: run.next, reth });
    }
    end(qp, units, &run, last, InOrder::within(kind, run.packets))
}

/// What is left of the message in progress.
struct Remainder<'m> {
    /// Where it goes.
    place: Mapped<'m>,
    pmtu: u16,
    msn: Msn,
    /// Number in the message of the packet that comes next.
    index: u32,
    /// Of a SEND; else it is a WRITE.
    ssn: Option<Ssn>,
    /// What the next packet says of a WRITE. A field of its own, as an enum's is taken apart and
    /// put together for each packet.
    reth: Reth,
}

impl<'m> Remainder<'m> {
    /// `None` if a packet may not be placed before it is verified, or it is not known where.
    #[inline(always)]
    fn of(qp: &'m Qp<'_>, units: &'m Units) -> Option<Self> {
        if qp.hot.flags.contains(QpFlags::STRICT_PLACEMENT) {
            return None;
        }
        let (psn, pmtu) = (qp.hot.rx.epsn(), qp.hot.id.pmtu);
        let index = psn.steps_from(qp.hot.rsp.message_psn);
        let (place, ssn, reth) = match qp.hot.rsp.in_progress? {
            SlotKind::Write if permits_writes(qp.hot) => {
                let NextWrite { reth, .. } = qp.cold.next_write.filter(|next| next.psn == psn)?;
                (in_region(qp.hot, &units.memory, &reth).ok()?, None, reth)
            }
            SlotKind::Send => {
                let (wqe, pd) = qp.cold.receives.next(units, qp.hot.rsp.recv_head, qp.hot.id.pd)?;
                let (sge, start) = (wqe.only_sge()?, u64::from(index) * u64::from(pmtu));
                let len = u64::from(wqe.length).checked_sub(start)?;
                (in_element(&units.memory, pd, &sge, start, len).ok()?, Some(qp.hot.rsp.ssn), Reth::default())
            }
            SlotKind::Write | SlotKind::Read => return None,
        };
        Some(Self { place, pmtu, msn: qp.hot.rsp.msn(), index, ssn, reth })
    }

    const fn kind(&self) -> SlotKind {
        if self.ssn.is_some() { SlotKind::Send } else { SlotKind::Write }
    }

    /// What the headers of the packet that comes next must say.
    #[inline(always)]
    const fn expected(&self, psn: Psn) -> Continuation {
        let meta = Meta::of(self.msn, self.index);
        match self.ssn {
            None => Continuation::Write { psn, reth: self.reth, meta },
            Some(ssn) => Continuation::Send { psn, meta, ssnw: Ssnw::of(self.index, ssn) },
        }
    }
}

impl Target for Remainder<'_> {
    #[inline(always)]
    fn place<'a>(&mut self, frame: &CommonFrame<'a>, next: Psn) -> Option<(Mapped<'_>, &'a [u8])> {
        let payload = frame.continues(&self.expected(next))?;
        let (len, left) = (payload.len(), self.place.len());
        // A WRITE has as much memory as it is long, and ends with another packet; a SEND has at
        // least as much.
        let fits = if self.ssn.is_none() { len < left } else { len <= left };
        (fits && len == usize::from(self.pmtu)).then_some((self.place, payload))
    }

    #[inline(always)]
    fn pass(&mut self, len: usize) {
        self.place = self.place.part(len, usize::MAX);
        self.index += 1;
        self.reth = behind(self.reth, self.pmtu.into());
    }
}

/// Takes `first`, which is verified, and those behind it, if each is a message of its own: how
/// many, a damaged one included.
#[inline(always)]
pub(super) fn take_messages<'a>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    first: &CommonFrame<'a>,
    kind: Kind,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> usize {
    match (kind, &qp.cold.receives) {
        (Kind::Write, _) if permits_writes(qp.hot) => {
            let mut regions = Regions { qpc: qp.hot, memory: &units.memory, msn: qp.hot.rsp.msn() };
            // Where they go only the packets say.
            let run = extend(&mut regions, false, *first, true, frames);
            end_messages(qp, units, &run)
        }
        (Kind::Send, Receives::Own(queue)) => {
            let receives = OwnRun::new(queue, qp.hot.rsp.recv_head, qp.hot.id.pd);
            let (memory, completions, _) = units.for_receiving(qp.cold.recv_cq);
            let run = fill(qp.hot, (memory, completions), receives, first, frames);
            qp.hot.rsp.recv_head = qp.hot.rsp.recv_head.wrapping_add(run.packets.into());
            end_messages(qp, units, &run)
        }
        (Kind::Send, Receives::Shared(_)) => take_shared_sends(qp, units, first, frames),
        _ => 0,
    }
}

#[inline(never)]
fn take_shared_sends<'a>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> usize {
    let Receives::Shared(taken) = &qp.cold.receives else { return 0 };
    let (memory, completions, srqs) = units.for_receiving(qp.cold.recv_cq);
    let mut is_below_limit = false;
    let Some(receives) = taken.run(srqs, &mut is_below_limit) else { return 0 };
    let run = fill(qp.hot, (memory, completions), receives, first, frames);
    if is_below_limit {
        units.events.push(taken.limit_event());
    }
    end_messages(qp, units, &run)
}

/// Ends a run of them.
#[inline(always)]
fn end_messages(qp: &mut Qp<'_>, units: &mut Units, run: &Run) -> usize {
    let last = Meta::of(qp.hot.rsp.msn().add(u32::from(run.packets).wrapping_sub(1)), 0);
    end(qp, units, run, last, InOrder::messages(run.packets))
}

/// The memory that each WRITE names itself.
struct Regions<'m> {
    qpc: &'m Qpc,
    memory: &'m MemoryTable,
    msn: Msn,
}

impl Target for Regions<'_> {
    #[inline(always)]
    fn place<'a>(&mut self, frame: &CommonFrame<'a>, next: Psn) -> Option<(Mapped<'_>, &'a [u8])> {
        let Body::Write { reth, meta, payload } = frame.body()? else { return None };
        let is_next = frame.psn() == next
            && meta == Meta::of(self.msn, 0)
            && fits_packet(self.qpc, Position::Only, payload)
            && fits_message(true, payload, &reth);
        is_next.then(|| in_region(self.qpc, self.memory, &reth).ok()).flatten().map(|place| (place, payload))
    }

    #[inline(always)]
    fn pass(&mut self, _: usize) {
        self.msn = self.msn.next();
    }
}

/// SENDs to receives of one element each, which they complete.
#[inline(always)]
fn fill<'a, R: ReceiveRun>(
    qpc: &mut Qpc,
    (memory, completions): (&MemoryTable, Completions<'_>),
    receives: R,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> Run {
    let (msn, ssn, end) = (qpc.rsp.msn(), qpc.rsp.ssn, EndOfMessage::of_send(first.solicited()));
    let mut sends = Sends { qpc, memory, completions, receives, wr_id: 0, end, msn, ssn };
    // Where they go is not their own to say; but another's message may come to a receive of a
    // shared queue.
    let early = R::KEEPS_ITS_PLACE && !qpc.flags.contains(QpFlags::STRICT_PLACEMENT);
    let run = extend(&mut sends, early, *first, true, frames);
    let Sends { completions, receives, ssn, .. } = sends;
    if run.packets > 0 {
        completions.show(receives.release());
    }
    qpc.rsp.ssn = ssn;
    run
}

/// The receives of SENDs.
struct Sends<'m, R> {
    qpc: &'m Qpc,
    memory: &'m MemoryTable,
    completions: Completions<'m>,
    receives: R,
    /// Number of the receive that comes next, once it was looked at.
    wr_id: u64,
    end: EndOfMessage,
    msn: Msn,
    ssn: Ssn,
}

impl<R: ReceiveRun> Target for Sends<'_, R> {
    #[inline(always)]
    fn place<'a>(&mut self, frame: &CommonFrame<'a>, next: Psn) -> Option<(Mapped<'_>, &'a [u8])> {
        let wqe = self.receives.next().filter(|_| self.completions.has_room())?;
        self.wr_id = wqe.wr_id;
        let Body::Send { meta, ssnw, payload } = frame.body()? else { return None };
        let is_next = frame.psn() == next
            && meta == Meta::of(self.msn, 0)
            && ssnw == Ssnw::of(0, self.ssn)
            && fits_packet(self.qpc, Position::Only, payload)
            && payload.len() as u64 <= wqe.length.into();
        let sge = wqe.only_sge().filter(|_| is_next)?;
        let place = in_element(self.memory, self.receives.pd(), &sge, 0, payload.len() as u64);
        Some((place.ok()?, payload))
    }

    #[inline(always)]
    fn pass(&mut self, len: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "a packet's")]
        let end = EndOfMessage { byte_len: len as u32, ..self.end };
        let written = self.completions.write(&end.completion(self.qpc.id.qpn, self.wr_id));
        debug_assert!(written, "there was room");
        self.receives.pass();
        self.msn = self.msn.next();
        self.ssn = self.ssn.next();
    }
}
