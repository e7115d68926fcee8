//! Packets in the middle of a message, in order: what the next one must be is known before it is looked at, and so is where its
//! payload goes, whatever it says. So it is copied there in the pass that finds out whether the ICRC holds (docs/adr/0024).
//!
//! If it does not, wrong bytes lie where the packet's own will lie once it was sent again: in a message that is not complete, whose
//! bytes are undefined. A packet that is not what it must be is left to [`on_request`](super::on_request): nothing else of it has had
//! an effect.

use super::acknowledge_in_order;
use crate::engine::Units;
use crate::icrc::Kernel;
use crate::memory::{Access, Mapped};
use crate::port::RX_BURST;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::owed::Arrived;
use crate::sched::SchedFlags;
use crate::stream::SlotKind;
use wire::{CommonFrame, Continuation, Ecn, Meta, Msn, Psn, Reth, Ssn, Ssnw};

const _: () = assert!(RX_BURST <= u8::MAX as usize, "a run is not longer than a burst");

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
        Self { psn: psn.next(), reth: behind(reth, pmtu) }
    }
}

/// What is left of a WRITE behind `pmtu` bytes more.
#[inline(always)]
fn behind(reth: Reth, pmtu: u16) -> Reth {
    let (va, dma_len) = (reth.va.wrapping_add(pmtu.into()), reth.dma_len.saturating_sub(pmtu.into()));
    Reth { va, dma_len, ..reth }
}

/// Takes `first`, a MIDDLE whose ICRC was not checked, if it is the packet that must come next, and those behind it as long as they
/// are, too: `frames` by number, from 0. Returns how many: none if 0.
#[inline]
pub(crate) fn take_middles<'a>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    first: &CommonFrame<'a>,
    frames: impl Fn(usize) -> Option<&'a [u8]>,
) -> usize {
    let as_usual = qpc.rx.epsn() == first.psn()
        && qpc.id.state.is_established()
        && !qpc.rx.in_recovery()
        && cold.refusal.is_none()
        && !qpc.sched.contains(SchedFlags::STRICT_PLACEMENT);
    if !as_usual {
        return 0;
    }
    let Some(mut rest) = Rest::of(qpc, cold, units) else { return 0 };
    let (begin, mut frame, mut asked) = (rest.meta(), *first, false);
    let mut count = 0_u8;
    while rest.take(&frame) {
        asked |= frame.ack_req();
        count += 1;
        let next = frames(usize::from(count) - 1).and_then(|next| first.followed_by(next));
        let Some(next) = next else { break };
        frame = next;
    }
    if count == 0 {
        return 0;
    }
    let (last, next) = (rest.meta_of(rest.index - 1), rest.next_write());
    let arrived = Arrived { meta: begin, ack_req: asked, ce: first.ecn() == Ecn::Ce };
    qpc.rsp.owed.note_arrival(units.now, &mut units.counters, &arrived);
    qpc.rsp.owed.note_more(count - 1, &mut units.counters, last, asked);
    qpc.rx.advance(count.into());
    cold.next_write = next;
    cold.heard_at = units.now;
    units.counters.rx_packets += u64::from(count);
    units.counters.rx_in_order += u64::from(count);
    acknowledge_in_order(qpc, cold, units);
    count.into()
}

/// What is left of the message in progress.
struct Rest<'m> {
    /// Where it goes.
    place: Mapped<'m>,
    pmtu: u16,
    msn: Msn,
    /// Number in the message, and PSN, of the packet that comes next.
    index: u32,
    psn: Psn,
    /// Of a SEND; else it is a WRITE.
    ssn: Option<Ssn>,
    /// What the next packet says of a WRITE. A field of its own, as an enum's is taken apart and put together for each packet.
    reth: Reth,
}

impl<'m> Rest<'m> {
    /// `None` if a packet may not be placed before it is verified, or it is not known where.
    #[inline(always)]
    fn of(qpc: &Qpc, cold: &'m QpCold, units: &'m Units) -> Option<Self> {
        let (psn, pmtu) = (qpc.rx.epsn(), qpc.id.pmtu);
        let index = psn.steps_from(qpc.rsp.message_psn);
        let (place, ssn, reth) = match qpc.rsp.in_progress? {
            SlotKind::Write => {
                let NextWrite { reth, .. } = cold.next_write.filter(|next| next.psn == psn)?;
                let access = Access::REMOTE_WRITE;
                if !qpc.id.access.contains(access) {
                    return None;
                }
                let peer = qpc.id.peer();
                let place = units.memory.check_remote(reth.rkey, peer, reth.va, reth.dma_len.into(), access);
                (place.ok()?, None, reth)
            }
            SlotKind::Send => {
                let (wqe, pd) = cold.receives.next(units, qpc.rsp.recv_head, qpc.id.pd)?;
                let (sge, start) = (wqe.only_sge()?, u64::from(index) * u64::from(pmtu));
                let len = u64::from(wqe.length).checked_sub(start)?;
                let addr = sge.addr.wrapping_add(start);
                let place = units.memory.check(sge.lkey, pd, addr, len, Access::LOCAL_WRITE);
                (place.ok()?, Some(qpc.rsp.ssn), Reth::default())
            }
            SlotKind::Read => return None,
        };
        Some(Self { place, pmtu, msn: qpc.rsp.msn(), index, psn, ssn, reth })
    }

    /// META of the packet that comes next.
    #[inline(always)]
    const fn meta(&self) -> Meta {
        self.meta_of(self.index)
    }

    /// META of a packet of the message.
    #[inline(always)]
    const fn meta_of(&self, index: u32) -> Meta {
        let [low, high, ..] = index.to_le_bytes();
        Meta { msn: self.msn, offset: u16::from_le_bytes([low, high]) }
    }

    /// What the headers of the packet that comes next must say.
    #[inline(always)]
    const fn expected(&self) -> Continuation {
        let (psn, meta, [_, _, offset_hi, _]) = (self.psn, self.meta(), self.index.to_le_bytes());
        match self.ssn {
            None => Continuation::Write { psn, reth: self.reth, meta },
            Some(ssn) => Continuation::Send { psn, meta, ssnw: Ssnw { offset_hi, ssn } },
        }
    }

    /// The payload of `frame`, if it is that packet, and whole.
    #[inline(always)]
    fn payload_of<'a>(&self, frame: &CommonFrame<'a>) -> Option<&'a [u8]> {
        let payload = frame.continues(&self.expected())?;
        let (len, left) = (payload.len(), self.place.len());
        // A WRITE has as much memory as it is long, and ends with another packet; a SEND has at least as much.
        let fits = if self.ssn.is_none() { len < left } else { len <= left };
        (fits && len == usize::from(self.pmtu)).then_some(payload)
    }

    /// Places a packet that is the next and whole, and goes behind it.
    #[inline(always)]
    fn take(&mut self, frame: &CommonFrame<'_>) -> bool {
        let Some(payload) = self.payload_of(frame) else { return false };
        if !self.place.write_verified(Kernel::detected(), frame.from_l3(), payload) {
            return false;
        }
        self.place = self.place.part(payload.len(), usize::MAX);
        self.psn = self.psn.next();
        self.index += 1;
        self.reth = behind(self.reth, self.pmtu);
        true
    }

    /// What the next packet of a WRITE must be.
    #[inline]
    fn next_write(&self) -> Option<NextWrite> {
        self.ssn.is_none().then_some(NextWrite { psn: self.psn, reth: self.reth })
    }
}
